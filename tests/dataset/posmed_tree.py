"""A very small PosMed that a test builds: six tables, their pictures, the brain patients."""

import csv

import numpy as np
from PIL import Image

HEAD = ["image_path", "image_name", "question", "answer", "position", "split"]
ANSWERS = (
    "The tumor is located in the top left region of the image.",
    "The lesion is in the bottom right area, near the center of the image.",
    "The lesion is in the central part of the image.",
)
# Slice: patient, fold, official split. Folds 3 to 5 are training, 2 validation, 1 test.
BRAIN = {
    1: ("p1", 1, "train"), 2: ("p1", 1, "val"), 3: ("p1", 1, "test"), 4: ("p2", 2, "train"),
    5: ("p2", 2, "train"), 6: ("p3", 3, "test"), 7: ("p3", 3, "train"), 8: ("p3", 3, "train"),
    9: ("p4", 4, "val"), 10: ("p4", 4, "train"), 11: ("p5", 5, "train"), 12: ("p5", 5, "train"),
}  # fmt: skip
CASES = {
    "brain_tumors_ct_scan": [(split, str(n)) for n, (_, _, split) in BRAIN.items()],
    "breast_tumors_ct_scan": [
        *(("train", f"benign ({n})") for n in range(1, 13)),
        ("val", "malignant (1)"), ("val", "malignant (2)"), ("test", "benign (20)"),
        ("test", "malignant (3)"),
    ],
    "lung_CT": [
        *(("train", f"IDA_{n}") for n in range(3)), *(("train", f"IDB_{n}") for n in range(2)),
        *(("train", f"IDC_{n}") for n in range(4)), ("train", "IDD_7"),
        ("val", "IDE_1"), ("val", "IDE_2"), ("test", "IDF_1"),
    ],
    "lung_Xray": [
        *(("train", f"covid_{n}") for n in range(10)), ("val", "covid_30"), ("test", "covid_40")
    ],
    "polyp_endoscopy": [*(("train", str(n)) for n in range(100, 120)), ("test", "300")],
    "skin_rgbimage": [
        *(("train", f"ISIC_{n:07d}") for n in range(24)),
        ("test", "ISIC_0000100"), ("test", "ISIC_0000101"),
    ],
}  # fmt: skip
# The second file of a pair is a byte-identical copy of the first.
SAME_IMAGE = {
    "lung_CT": [("IDF_1", "IDE_2")],  # of the test set, in validation
    "skin_rgbimage": [("ISIC_0000100", "ISIC_0000000"), ("ISIC_0000010", "ISIC_0000011")],
}
SAME_MASK = {"skin_rgbimage": [("ISIC_0000101", "ISIC_0000001")]}


def build(root, tables=tuple(CASES), *, annotations="annotations", data="data", patients=True):
    """Write the tree; lung X-rays and skin have JPEG images beside PNG masks."""
    (root / annotations).mkdir(parents=True, exist_ok=True)
    for table in tables:
        write_table(root / annotations / f"{table}.csv", rows(table))
        pictures(root / data / table, table)
    if patients and "brain_tumors_ct_scan" in tables:
        write_patients(root / "brain_mri_slice_to_pid.csv")
    return root


def rows(table):
    return [
        {
            "image_path": f"{table}/{split}_masks/{stem}.png",
            "image_name": f"{stem}.png",
            "question": "Where is it?",
            "answer": ANSWERS[number % len(ANSWERS)],
            "position": "near the center",
            "split": split,
        }
        for number, (split, stem) in enumerate(CASES[table])
    ]


def write_table(path, content, head=None, encoding="utf-8-sig"):
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, head or HEAD)
        writer.writeheader()
        writer.writerows(content)


def write_patients(path):
    content = [
        {"slice_id": n, "pid": patient, "fold": fold} for n, (patient, fold, _) in BRAIN.items()
    ]
    write_table(path, content, head=["slice_id", "pid", "fold"], encoding="utf-8")


def pictures(folder, table):
    suffix = ".JPG" if table in ("lung_Xray", "skin_rgbimage") else ".png"
    files = {}
    for number, (split, stem) in enumerate(CASES[table]):
        for kind, ending in (("image", suffix), ("mask", ".png")):
            file = folder / f"{split}_{kind}s" / f"{stem}{ending}"
            file.parent.mkdir(parents=True, exist_ok=True)
            picture(file, [number, len(table)], mask=kind == "mask")
            files[kind, stem] = file
    for kind, pairs in (("image", SAME_IMAGE), ("mask", SAME_MASK)):
        for one, other in pairs.get(table, []):
            files[kind, other].write_bytes(files[kind, one].read_bytes())


def picture(file, seed, *, mask):
    """An image with noise of its own, or a mask in which its number is written in bits."""
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16), dtype=np.uint8)
    if mask:
        pixels = np.zeros((16, 16), np.uint8)
        pixels[4:8, 4:8] = 255
        pixels[0, :8] = [255 * (seed[0] >> bit & 1) for bit in range(8)]
    Image.fromarray(pixels).save(file)
