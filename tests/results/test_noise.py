import pytest

from semimedref.results.noise import gap
from semimedref.results.reported import Reported
from semimedref.results.scoring import Score


def test_a_difference_that_seeds_explain_is_within():
    # s = 1 point over 3 seeds, the paper's mean of 3: half width 4.3027 * sqrt(1/3 + 1/3) = 3.513
    ours = Score((0.80, 0.81, 0.82))
    near, far = Reported(81.0 + 3.51), Reported(81.0 + 3.52)
    assert gap(ours, near, paper_seeds=3).verdict == "within"
    assert gap(ours, far, paper_seeds=3).verdict == "outside"
    assert gap(ours, near, paper_seeds=3).points == pytest.approx(-3.51)


def test_the_papers_own_deviation_counts_where_it_is_known():
    # 4.3027 * sqrt(1/3 + 0.09/3) = 2.593
    ours = Score((0.80, 0.81, 0.82))
    assert gap(ours, Reported(83.59, 0.3, seeds=3), paper_seeds=1).verdict == "within"
    assert gap(ours, Reported(83.60, 0.3, seeds=3), paper_seeds=1).verdict == "outside"


def test_one_or_two_seeds_know_no_noise():
    assert gap(Score((0.8,)), Reported(81.0), paper_seeds=3).verdict == "unknown"
    assert gap(Score((0.8, 0.81)), Reported(99.0), paper_seeds=3).verdict == "unknown"


def test_nothing_is_compared_across_metric_families_or_without_a_result():
    assert gap(Score((0.8,)), Reported(81.0, family="other"), paper_seeds=3) is None
    assert gap(Score(()), Reported(81.0), paper_seeds=3) is None
