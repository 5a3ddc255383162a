"""``semimedref figures``: what can be drawn is, what cannot is named in one line."""

import json

import pytest

from semimedref.cli import main


@pytest.fixture
def drawn(ratios, expanded, capsys):
    def run(*args):
        code = main(["figures", "experiment=quickstart", *args])
        return code, capsys.readouterr()

    return run


def test_files_stand_beside_the_tables_and_hold_a_caption(drawn, lab):
    code, printed = drawn("kind=rows,label_efficiency")
    assert code == 0 and "quickstart-rows.{svg,pdf,png,csv,json}" in printed.out
    for kind in ("rows", "label_efficiency"):
        base = lab.root / "tables" / f"quickstart-{kind}"
        about = json.loads(base.with_suffix(".json").read_text())
        assert list(about) == ["title", "caption", "table", "sources"]
        for ending in ("svg", "pdf", "png", "csv"):
            assert base.with_suffix(f".{ending}").stat().st_size > 100


def test_what_is_missing_is_one_line_with_its_command(drawn):
    code, printed = drawn("kind=rows,interventions,sensitivity")
    assert code == 0
    skipped = [line for line in printed.out.splitlines() if line.startswith("skipped ")]
    assert [line.split(":")[0] for line in skipped] == [
        "skipped interventions",
        "skipped sensitivity",
    ]
    assert "semimedref analyze interventions run=" in skipped[0]


def test_none_is_an_error(drawn):
    code, printed = drawn("kind=interventions")
    assert code == 2 and printed.out == ""
    assert "semimedref analyze interventions run=" in printed.err


@pytest.mark.parametrize(
    ("word", "expected"), [("kind=row", "label_efficiency"), ("split=dev", "valid")]
)
def test_unknown_words_are_refused_with_the_known_ones(drawn, word, expected):
    code, printed = drawn(word)
    assert code == 2 and expected in printed.err


def test_an_experiment_must_be_named(capsys):
    assert main(["figures"]) == 2
    assert "experiment=quickstart" in capsys.readouterr().err
