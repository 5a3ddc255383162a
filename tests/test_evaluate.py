import json
from pathlib import Path

import pytest

from semimedref.errors import UserError
from semimedref.evaluate import Axis, reading
from semimedref.run import Parts
from semimedref.text.removal import removed_of


@pytest.fixture
def parts(compose_smoke):
    return Parts.build(compose_smoke())


def read(parts, **axis):
    return reading(parts.pool("train"), Axis(**axis), key="image_id", vocabulary="lungs")


def test_the_share_is_that_of_the_images_whose_positions_are_gone(parts):
    whole = parts.pool("train").split
    pool, share = read(parts, removal=0.5)
    gone = ["lung" not in text for text in pool.split.texts]
    assert gone == removed_of(whole.ids, whole.texts, 0.5, key="image_id")
    assert share == sum(gone) / 200 and 0.4 < share < 0.6


def test_labels_stay_those_of_the_complete_sentences(parts):
    pool, _ = read(parts, removal=1.0)
    assert (pool.split.positions == parts.pool("train").split.positions).all()
    assert pool.split.positions.any(1).all()


def test_removals_are_nested_in_their_rate(parts):
    few, many = (read(parts, removal=r)[0].split.texts for r in (0.2, 0.5))
    assert all("lung" not in b for a, b in zip(few, many, strict=True) if "lung" not in a)


def test_no_removal_leaves_the_pool_alone(parts):
    pool, share = read(parts)
    assert pool.split.texts == parts.pool("train").split.texts
    assert share == 0.0


@pytest.mark.parametrize(
    ("axis", "name"),
    [
        ({}, "valid-student-true_texts"),
        ({"weights": "teacher", "texts": "shuffled"}, "valid-teacher-shuffled_texts"),
        ({"removal": 0.5}, "valid-student-true_texts-removed_0.5"),
        ({"route": "zero"}, "valid-student-true_texts-removed_1-zero"),
        ({"route": "ispg", "removal": 0.0}, "valid-student-true_texts-removed_0-ispg"),
    ],
)
def test_every_axis_has_a_file_of_its_own(axis, name):
    assert Axis(**axis).name("valid") == name


@pytest.mark.parametrize("axis", [{"removal": 1.2}, {"texts": "none"}])
def test_an_impossible_axis_is_refused(axis):
    with pytest.raises(UserError, match="expected"):
        Axis(**axis)


def test_a_route_needs_a_position_token(parts):
    with pytest.raises(UserError, match="method=ispg"):
        parts.evaluate("valid", Axis(route="oracle"))


def test_removal_alone_is_an_axis_of_every_method(parts):
    scores = parts.evaluate("valid", Axis(removal=1.0))
    assert scores["removed"] == 1.0 and 0 <= scores["dice"] <= 1
    assert "removed" not in parts.evaluate("valid", Axis())


def test_ispg_is_validated_with_half_of_the_positions_removed(compose_smoke, tmp_path):
    parts = Parts.build(compose_smoke("method=ispg"))
    pool = parts.trainer(tmp_path, lambda: None).valid
    whole = parts.pool("valid").split
    gone = removed_of(whole.ids, whole.texts, 0.5, key="image_id")
    assert ["lung" not in text for text in pool.split.texts] == gone
    assert 0 < sum(gone) < len(gone)


def test_a_run_of_ispg_is_tested_along_its_axes_and_can_be_asked_again(
    smoke, compose_smoke, capsys
):
    from semimedref.cli import main
    from semimedref.run import run

    cfg = compose_smoke("method=ispg", "scale.epochs=1", "overlays=never")
    run(cfg)
    (folder,) = (p.parent for p in Path(cfg.run_root).glob("*/result.json"))
    names = {f.stem.removeprefix("test-student-true_texts-") for f in folder.glob("eval/*.json")}
    assert names == {
        "removed_0-ispg", "removed_0.2-ispg", "removed_0.5-ispg", "removed_1-ispg",
        "removed_1-zero", "removed_1-oracle",
    }  # fmt: skip
    test = json.loads((folder / "result.json").read_text())["test"]
    complete = json.loads((folder / "eval/test-student-true_texts-removed_0-ispg.json").read_text())
    assert complete["dice"] == test["dice"]  # the result: complete sentences, predicted token
    ask = ["evaluate", f"run={folder}", "split=test", "route=zero", "removal=0.5", "device=cpu"]
    assert main(ask) == 0
    again = json.loads((folder / "eval/test-student-true_texts-removed_0.5-zero.json").read_text())
    assert 0.2 < again["removed"] < 0.8 and "removed" in capsys.readouterr().out
    assert main([*ask[:3], "removal=half"]) == 2
