"""Pictures and tables as files."""

import csv
import io
import json

from openpyxl import Workbook
from PIL import Image


def save(path, pixels, *, rgb=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(pixels)
    (picture.convert("RGB") if rgb else picture).save(path)


def write_json(path, groups):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(groups, indent=2))


def write_csv(path, head, rows, *, bom=False, newline="\n"):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=newline)
    writer.writerows([head, *rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.getvalue().encode("utf-8-sig" if bom else "utf-8"))


def write_excel(path, head, rows):
    book = Workbook()
    for row in [head, *rows]:
        book.active.append(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)
