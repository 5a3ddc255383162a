import re

import pytest

from semimedref.results import charts
from semimedref.results.charts import Line, Scale
from semimedref.results.table import Score


def test_ticks_are_round_and_inside_the_scale():
    assert Scale(0, 20, 0, 1).ticks(4) == [0, 5, 10, 15, 20]
    assert Scale(0, 83.2, 0, 1).ticks(5) == [0, 20, 40, 60, 80]
    assert Scale(71.3, 74.9, 0, 1).ticks(4) == [72, 73, 74]


def test_mean_curve_stops_where_the_slowest_seed_is():
    lines = [Line(0, "s0", ((1, 0.2), (2, 0.4), (3, 0.9))), Line(0, "s1", ((1, 0.4), (2, 0.6)))]
    assert charts.mean_curve(lines) == ((1, pytest.approx(0.3)), (2, pytest.approx(0.5)))


def test_curves_draw_a_thin_line_per_seed_and_their_mean():
    lines = [Line(1, s, ((1, 0.2), (2, 0.4))) for s in ("s0", "s1", "s42")]
    svg = charts.curves(lines, title="2 %", rows=["A", "B"], high=0.5)
    assert svg.count('class="seed"') == 3
    assert svg.count('class="mean"') == 1
    assert "var(--c1)" in svg
    assert "var(--c0)" not in svg
    assert "B ends at 40.0" in svg


def test_points_stay_inside_the_picture():
    lines = [Line(0, "s0", tuple((e, e / 20) for e in range(1, 21)))]
    svg = charts.curves(lines, title="", rows=["A"], high=1.0)
    (points,) = re.findall(r'points="([^"]+)"', svg)
    for pair in points.split():
        x, y = map(float, pair.split(","))
        assert 40 <= x <= 426
        assert 12 <= y <= 230


def test_eighth_row_is_told_apart_by_dashes():
    lines = [Line(row, "s0", ((1, 0.1), (2, 0.2))) for row in (0, 7)]
    svg = charts.curves(lines, title="", rows=[str(i) for i in range(8)], high=1.0)
    assert svg.count("stroke-dasharray") == 1


def test_forest_scale_leaves_out_an_oracle_that_is_far_away():
    scores = [Score((0.70, 0.74), (0.68, 0.76))]
    assert charts.forest_scale(scores, [0.65]).holds(65)
    assert not charts.forest_scale(scores, [0.20]).holds(20)
    assert charts.forest_scale([Score(())], [0.5]) is None
