import pytest

from semimedref.results import hypotheses_text
from semimedref.results.hypotheses import family_of
from semimedref.results.reported_tests import reported_tests
from semimedref.results.resampling import Resampling
from semimedref.sweep import expand

pytestmark = pytest.mark.slow

OFTEN = Resampling(bootstrap=10, randomization=10, seed=0, locked="s42")


def test_the_papers_four_hypotheses_stand_below_ours(tmp_path):
    experiment = expand(["experiment=significance", f"run_root={tmp_path}"])
    found = reported_tests(experiment)
    assert [(t.row, t.metric, t.points, t.p_holm) for t in found] == [
        ("Ours (MMI-UNet)", "dice", 2.62, 2e-5), ("Ours (MMI-UNet)", "miou", 4.03, 2e-5),
        ("Ours (GuideDecoder)", "dice", 5.63, 2e-5), ("Ours (GuideDecoder)", "miou", 8.26, 2e-5),
    ]  # fmt: skip
    text = hypotheses_text.terminal(family_of(experiment, resampling=OFTEN, seeds="s42"))
    assert (
        "paper: Ours (MMI-UNet) − MMI-UNet, 2 %, Dice: +2.62 [+2.28, +2.97], p Holm 2.00e-05"
        in text
    )


def test_another_scale_ratio_or_pair_has_none(tmp_path):
    words = ["experiment=significance", f"run_root={tmp_path}"]
    assert reported_tests(expand([*words, "scale=cpu"])) == []
    assert reported_tests(expand([*words, "ratio=5pct"])) == []
    assert reported_tests(expand(["experiment=patch_size", f"run_root={tmp_path}"])) == []
