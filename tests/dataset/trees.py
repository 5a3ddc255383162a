"""The same few cases as files in every layout in which QaTa-COV19 and MosMedData+ circulate."""

import random

from tree_cases import MOSMED, QATA, SIDE, Made, gray_mask, of
from tree_files import save, write_csv, write_excel, write_json

from semimedref.dataset.cache import Transform
from semimedref.dataset.mosmed_plus import MosMedPlus
from semimedref.dataset.qata_cov19 import QaTaCov19

FOLDERS = {"train": "Train_Folder", "valid": "Val_Folder", "test": "Test_Folder"}
SHORT = {"train": "Train", "valid": "Val", "test": "Test"}


def qata(root, *, text_source="sgseg", side=SIDE, published=None, annotation=None):
    return QaTaCov19(
        name="qata_tree", text_source=text_source, vocabulary="lungs", writing=None,
        rounding="round", transform=Transform(side, False, "equals_255"), published=published,
        annotation=annotation, root=str(root),
    )  # fmt: skip


def mosmed(root, *, side=SIDE, published=None, annotation=None):
    return MosMedPlus(
        name="mosmed_tree", bare_side_label="none", fraction=0.02, vocabulary="lungs",
        writing=None, rounding="floor", transform=Transform(side, False, "above_half"),
        published=published, annotation=annotation, root=str(root),
    )  # fmt: skip


def sgseg_row(case):
    return {
        "image_path": f"mask_{case.id}",
        "caption": case.sgseg,
        "pulmonary_infection": 1,
        "infected_area": case.position.count("1"),
        "pseudo_label": [int(digit) for digit in case.position],
    }


def sgseg_groups(cases=QATA):
    return {split: [sgseg_row(c) for c in of(cases, split)] for split in FOLDERS}


def qata_pictures(root, cases=QATA, *, twins=False):
    """SGSeg's folders; ``twins`` are the byte-identical copies under lower-case names."""
    for case in cases:
        names = {case.file, case.id} if twins else {case.file}
        for name in names:
            save(root / case.split / "images" / name, case.image())
            save(root / case.split / "masks" / f"mask_{name}", case.mask())


def qata_sgseg(root, cases=QATA):
    qata_pictures(root, cases, twins=True)
    write_json(root / "annotation.json", sgseg_groups(cases))
    return root


def qata_one_csv(root, cases=QATA):
    """As the development copy: one table with both texts."""
    for case in cases:
        save(root / case.split / "images" / case.id, case.image())
        save(root / case.split / "masks" / f"mask_{case.id}", case.mask())
    head = ["image", "split", "text_sgseg", "text_lvit", "position"]
    rows = [[c.id, c.split, c.sgseg, c.lvit, c.position] for c in cases]
    write_csv(root / "annotations.csv", head, rows)
    return root


def qata_original(root):
    """The folders of the original release: validation images lie among the training images."""
    for case in QATA:
        folder = root / "QaTa-COV19-v2" / ("Test Set" if case.split == "test" else "Train Set")
        save(folder / "Images" / case.file, case.image())
        save(folder / "Ground-truths" / f"mask_{case.file}", case.mask(), rgb=True)
    write_json(root / "annotation.json", sgseg_groups())
    return root


def qata_lists(root):
    """The authors' lists without SGSeg's file; both carry the labeled ratio in their names."""
    qata_pictures(root)
    order = list(of(QATA, "train"))
    random.Random(42).shuffle(order)
    for ratio in (0.02, 0.5):
        chosen = set(order[: max(1, round(len(order) * ratio))])
        for kind, part in (("labeled", True), ("unlabeled", False)):
            train = [sgseg_row(c) for c in of(QATA, "train") if (c in chosen) == part]
            groups = sgseg_groups() | {"train": train}
            write_json(root / "data_splits" / "QaTa" / f"split_{kind}_{ratio}.json", groups)
    return root


def _lvit_pictures(root, cases, *, prefix, rgb, mask):
    for case in cases:
        folder = root / FOLDERS[case.split]
        save(folder / "img" / case.file, case.image(), rgb=rgb)
        save(folder / "labelcol" / f"{prefix}{case.file}", mask(case), rgb=rgb)


def qata_lvit_excel(root):
    _lvit_pictures(root, QATA, prefix="mask_", rgb=False, mask=Made.mask)
    for split, folder in FOLDERS.items():
        rows = [[f"mask_{case.file}", case.lvit] for case in of(QATA, split)]
        file = root / folder / f"{SHORT[split]}_text.xlsx"
        write_excel(file, ["Image", "Description"], rows)
    return root


def qata_lvit_csv(root):
    _lvit_pictures(root, QATA, prefix="mask_", rgb=True, mask=Made.mask)
    for split in FOLDERS:
        rows = [[f"mask_{case.file}", f" {case.lvit} "] for case in of(QATA, split)]
        write_csv(root / f"{SHORT[split]}_text.csv", ["Image", "Description"], rows, bom=True)
    return root


def mosmed_excel(root, cases=MOSMED):
    _lvit_pictures(root, cases, prefix="", rgb=True, mask=gray_mask)
    for split, folder in FOLDERS.items():
        rows = [[case.file, case.lvit] for case in of(cases, split)]
        write_excel(root / folder / f"{SHORT[split]}_text.xlsx", ["Image", "Description"], rows)
    return root


def _frames(root, images):
    for case in MOSMED:
        save(root / images / case.file, case.image())
        save(root / "masks" / case.file, case.mask())


def mosmed_frames(root):
    _frames(root, "frames")
    for split in FOLDERS:
        rows = [[case.file, case.lvit] for case in of(MOSMED, split)]
        write_csv(root / f"{split}.csv", ["Image", "text"], rows, bom=True)
    return root


def mosmed_lists(root):
    """The authors' lists, whose name for the unlabeled ones carries their own share."""
    _frames(root, "Images")
    head = ["Image", "text", "pseudo_label"]

    def rows(cases):
        return [[c.file, c.lvit, str([int(digit) for digit in c.position])] for c in cases]

    order = sorted(of(MOSMED, "train"), key=lambda case: case.file)
    random.Random(42).shuffle(order)
    folder = root / "data_splits" / "MosMed"
    for ratio, rest in (("0.02", "0.98"), ("0.5", "0.5")):
        chosen = order[: max(1, int(len(order) * float(ratio)))]
        others = [case for case in of(MOSMED, "train") if case not in chosen]
        labeled = [case for case in of(MOSMED, "train") if case in chosen]
        names = (f"labeled_{ratio}.plabel.csv", labeled), (f"unlabeled_{rest}.plabel.csv", others)
        for name, part in names:
            write_csv(folder / name, head, rows(part), newline="\r\n", bom=True)
    for split in ("valid", "test"):
        file = folder / f"{SHORT[split]}_text_MosMedData+.plabel.csv"
        write_csv(file, head, rows(of(MOSMED, split)), newline="\r\n")
    return root


def mosmed_one_csv(root):
    _frames(root, "frames")
    rows = [[case.file, case.split, case.lvit] for case in MOSMED]
    write_csv(root / "mosmed.csv", ["image", "split", "text"], rows)
    return root


QATA_LAYOUTS = {
    "sgseg": (qata_sgseg, "sgseg"),
    "one_csv": (qata_one_csv, "sgseg"),
    "original": (qata_original, "sgseg"),
    "lists": (qata_lists, "sgseg"),
    "lvit_excel": (qata_lvit_excel, "lvit"),
    "lvit_csv": (qata_lvit_csv, "lvit"),
    "one_csv_lvit": (qata_one_csv, "lvit"),
}
MOSMED_LAYOUTS = {
    "excel": mosmed_excel,
    "frames": mosmed_frames,
    "lists": mosmed_lists,
    "one_csv": mosmed_one_csv,
}
