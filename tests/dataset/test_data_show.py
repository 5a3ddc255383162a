"""``semimedref data show`` and ``describe`` on files."""

import pytest
import trees
from PIL import Image

from semimedref.cli import main


@pytest.fixture
def args(tmp_path):
    root = trees.qata_one_csv(tmp_path / "data")
    return ["dataset=qata_cov19", f"dataset.root={root}", "dataset.transform.side=24"]


def test_a_contact_sheet_of_files_decodes_only_the_masks_it_shows(args, tmp_path, monkeypatch):
    from semimedref.dataset import cache

    files, read = [], cache.read_mask
    monkeypatch.setattr(
        cache, "read_mask", lambda path, rule: files.append(path) or read(path, rule)
    )
    cases = "cases=covid_11.png,covid_1.png"
    assert main(["data", "show", *args, cases, f"out={tmp_path / 'sheet.png'}"]) == 0
    assert Image.open(tmp_path / "sheet.png").size == (3 * 452, 266)  # two tiles in one row
    assert {file.name for file in files} == {"mask_covid_11.png", "mask_covid_1.png"}


def test_a_contact_sheet_of_a_split_shows_its_first_images(args, tmp_path):
    sheet = tmp_path / "valid.png"
    assert main(["data", "show", *args, "split=valid", f"out={sheet}"]) == 0
    assert Image.open(sheet).size == (3 * 452, 266)


def test_an_unknown_case_is_one_line(args, tmp_path, capsys):
    assert main(["data", "show", *args, "cases=covid_2.png", f"out={tmp_path / 'x.png'}"]) == 2
    assert "covid_2.png is not in train" in capsys.readouterr().err


def test_describe_counts_images_patients_sentences_and_foreground(args, capsys):
    assert main(["data", "describe", *args]) == 0
    train = next(li for li in capsys.readouterr().out.splitlines() if li.startswith("train"))
    # Masks of 24 pixels for each named region: 1, 2, 1, 4, 4 and 2 of them on six images.
    share = 100 * 24 * (1 + 2 + 1 + 4 + 4 + 2) / (6 * 24 * 24)
    assert train.split()[1:] == ["6", "5", "3", f"{share:.2f}%", "-"]


@pytest.mark.parametrize("action", ["show", "describe"])
def test_an_empty_split_is_called_empty(action, args, tmp_path, capsys):
    table = tmp_path / "data" / "annotations.csv"
    lines = [line for line in table.read_text().splitlines() if ",valid," not in line]
    table.write_text("\n".join(lines))
    assert main(["data", action, *args, "split=valid", f"out={tmp_path / 'x.png'}"]) == 2
    assert "the split valid is empty" in capsys.readouterr().err
