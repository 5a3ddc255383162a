import json

import pytest

from semimedref.results import store
from semimedref.results.honest import claims_text_gain, headroom


def finished(lab, method, fraction, val_dice, **changes):
    cell = lab.cell(seed=f"s{len(lab.cells)}", config=lab.config(method, fraction))
    folder = lab.finish(cell)
    result = json.loads((folder / "result.json").read_text()) | changes
    result["best"]["val/dice"] = val_dice
    (folder / "result.json").write_text(json.dumps(result))
    return store.load_result(folder)


def test_headroom_is_all_labels_minus_two_percent_supervised(lab):
    results = [
        finished(lab, "supervised", 1.0, 0.85),
        finished(lab, "supervised", 0.02, 0.70),
        finished(lab, "supervised", 0.02, 0.72),
        finished(lab, "supervised", 0.15, 0.10),
        finished(lab, "teacher_student", 0.02, 0.10),
    ]
    room = headroom(results)
    assert room.value == pytest.approx(0.85 - 0.71)
    assert (room.runs_full, room.runs_few, room.equal_steps) == (1, 2, True)


def test_unequal_steps_are_told(lab):
    results = [
        finished(lab, "supervised", 1.0, 0.85, steps=2000),
        finished(lab, "supervised", 0.02, 0.70),
    ]
    assert not headroom(results).equal_steps


def test_headroom_needs_both_sides_of_one_model(lab):
    few = finished(lab, "supervised", 0.02, 0.7)
    full = finished(lab, "supervised", 1.0, 0.9)
    full["config"]["model"] = {"_target_": "another"}
    assert headroom([few]) is None
    assert headroom([few, full]) is None


def test_a_run_that_stands_in_two_rows_counts_once(lab):
    full, few = finished(lab, "supervised", 1.0, 0.8), finished(lab, "supervised", 0.02, 0.7)
    assert headroom([full, few, few]).runs_few == 1


def test_text_gain_is_claimed_from_five_points_on():
    assert claims_text_gain(0.05)
    assert not claims_text_gain(0.0499)
    assert not claims_text_gain(-0.3)
