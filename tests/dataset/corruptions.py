"""What can be wrong with a copy of a data set, each done to a tree of ``trees.qata_one_csv``.

A corruption changes the tree below ``root`` and returns a part of the case that a table must name.
"""

import csv
import struct
import zlib

import numpy as np
import trees
from PIL import Image

FIRST = "covid_1.png"
SECOND = "covid_10.png"


def image(root, name=FIRST):
    return root / "train" / "images" / name


def mask(root, name=FIRST):
    return root / "train" / "masks" / f"mask_{name}"


def edit(root, change):
    """Rewrite the annotation: ``change`` gets all rows as lists."""
    file = root / "annotations.csv"
    with file.open(newline="") as text:
        head, *rows = list(csv.reader(text))
    trees.write_csv(file, head, change(rows))


def change_cell(column, value):
    def change(rows):
        rows[0][column] = value
        return rows

    return change


def truncated_image(root):
    file = image(root)
    file.write_bytes(file.read_bytes()[:300])
    return FIRST


def truncated_mask(root):
    file = mask(root)
    file.write_bytes(file.read_bytes()[:60])
    return FIRST


def empty_image(root):
    image(root).write_bytes(b"")
    return FIRST


def empty_mask_file(root):
    mask(root).write_bytes(b"")
    return FIRST


def no_picture(root):
    image(root).write_text("<html>404 Not Found</html>")
    return FIRST


def missing_image(root):
    image(root).unlink()
    return FIRST


def missing_mask(root):
    mask(root).unlink()
    return FIRST


def mask_of_another_size(root):
    trees.save(mask(root), np.full((10, 12), 255, np.uint8))
    return f"{FIRST} (mask 12 × 10, image 24 × 24)"


def deep_gray(root):
    Image.fromarray(np.arange(576, dtype=np.uint16).reshape(24, 24) * 100).save(image(root))
    return FIRST


def deep_color(root):
    """RGB with 16 bits a channel, which Pillow would read as 8 bits without a word."""
    row = b"\0" + bytes(24 * 3 * 2)

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 24, 24, 16, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * 24)) + chunk(b"IEND", b"")
    image(root).write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return FIRST


def empty_text(root):
    edit(root, change_cell(2, "  "))
    return FIRST


def unknown_split(root):
    edit(root, change_cell(1, "trian"))
    return f"{FIRST}: 'trian'"


def two_rows_that_differ(root):
    edit(root, lambda rows: [*rows, [*rows[0][:2], rows[1][2], *rows[0][3:]]])
    return FIRST


def image_in_two_splits(root):
    edit(root, lambda rows: [*rows, [rows[0][0], "test", *rows[0][2:]]])
    return FIRST


def path_that_leaves(root):
    edit(root, change_cell(0, "../secret/covid_1.png"))
    return "../secret/covid_1.png"


def path_from_the_top(root):
    edit(root, change_cell(0, "/etc/covid_1.png"))
    return "/etc/covid_1.png"


def row_without_image(root):
    edit(root, change_cell(0, ""))
    return "upper left lung"


def two_different_files(root):
    trees.save(root / "train" / "images" / "COVID_1.PNG", np.zeros((24, 24), np.uint8))
    return FIRST


def same_image_in_two_splits(root):
    image(root).write_bytes((root / "valid" / "images" / "covid_2.png").read_bytes())
    return "covid_1.png (train) = covid_2.png (valid)"


def two_rows_that_agree(root):
    edit(root, lambda rows: [*rows, rows[0]])
    return FIRST


def patient_in_two_splits(root):
    """Subject 10001 is in training; a second picture of it becomes a test image."""
    old, new = "sub-s10003_ses-e20005", "sub-s10001_ses-e20009"

    def change(rows):
        return [[row[0].replace(old, new), *row[1:]] for row in rows]

    edit(root, change)
    for file in (root / "test").rglob(f"*{old}*"):
        file.rename(file.with_name(file.name.replace(old, new)))
    return "sub-s10001"


def mask_without_lesion(root):
    trees.save(mask(root), np.zeros((24, 24), np.uint8))
    return FIRST


def mask_with_gray_values(root):
    pixels = trees.QATA[0].mask()
    pixels[3, 4] = 128
    trees.save(mask(root), pixels)
    return f"{FIRST} (3 values)"


def text_without_position(root):
    def change(rows):
        rows[0][2], rows[0][4] = "pulmonary infection.", "000000"
        return rows

    edit(root, change)
    return FIRST


def lesion_on_the_other_side(root):
    trees.save(mask(root), trees.QATA[0].mask()[:, ::-1].copy())
    return f"{FIRST} (left)"


def lesion_on_a_further_side(root):
    pixels = trees.QATA[0].mask()
    pixels[20, 20] = 255
    trees.save(mask(root), pixels)
    return f"{FIRST} (right)"


def images_of_several_sizes(root):
    trees.save(image(root), np.full((30, 24), 7, np.uint8))
    trees.save(mask(root), np.full((30, 24), 255, np.uint8))
    return "24 × 30: 1 images"


ERRORS = {  # what no run may start with
    truncated_image: "image file is damaged",
    truncated_mask: "mask file is damaged",
    empty_image: "image file is empty",
    empty_mask_file: "mask file is empty",
    no_picture: "image file is no picture",
    missing_image: "image is missing",
    missing_mask: "mask is missing",
    mask_of_another_size: "mask has another size than its image",
    deep_gray: "image has 16 bits, not 8",
    deep_color: "image has 16 bits, not 8",
    empty_text: "text is empty",
    unknown_split: "split name is unknown",
    two_rows_that_differ: "two rows for one image",
    image_in_two_splits: "image is in two splits",
    path_that_leaves: "path leaves the root",
    path_from_the_top: "path leaves the root",
    row_without_image: "row names no image",
    two_different_files: "two different files for one image",
}
LEAKS = {same_image_in_two_splits: "same image in train and valid"}  # errors of a verification only
WARNINGS = {
    two_rows_that_agree: "two rows for one image",
    patient_in_two_splits: "patient is in train and test",
    mask_without_lesion: "mask is empty",
    mask_with_gray_values: "mask holds gray values",
    text_without_position: "text names no position",
    lesion_on_the_other_side: "text names a side without mask",
    lesion_on_a_further_side: "mask on a side without name",
}
NOTES = {images_of_several_sizes: "images of several sizes"}
IN_ANNOTATION = (empty_text, unknown_split, two_rows_that_differ, image_in_two_splits,
                 path_that_leaves, path_from_the_top, row_without_image)  # fmt: skip
