"""Tables with several ratios, and with factors and values."""

import pytest

from semimedref.results.table import build_table
from tests.results.conftest import make_config


def counts(dice, n=4):
    """Images of as many patients, whose pooled Dice is this; 200 = tp + (fp + fn) / 2 each."""
    tp = round(200 * dice)
    return [(f"i{k}", f"p{k}", tp + k - n // 2, 200 - tp, 200 - tp) for k in range(n)]


@pytest.fixture
def ratios(lab):
    """Two rows, three shares, two seeds; the second row lacks its last cell."""
    for row, base in (("Baseline", 0.4), ("Ours", 0.6)):
        for ratio, share, more in (("2pct", 0.02, 0), ("5pct", 0.05, 0.1), ("15pct", 0.15, 0.2)):
            for seed in ("s0", "s1"):
                cell = lab.cell(row=row, ratio=ratio, seed=seed, config=make_config(fraction=share))
                if (row, ratio, seed) != ("Ours", "15pct", "s1"):
                    lab.finish(cell, counts(base + more + (0.03 if seed == "s1" else 0)))
    return build_table(lab.experiment)


@pytest.fixture
def factors(lab):
    """Two factors with numbers, which share their default's run, and one with words."""
    default = lab.cell(row="lambda_pacl_sup = 0.02")
    lab.finish(default, counts(0.7))
    lab.cells.append(type(default)(**{**vars(default), "row": "tau = 0.07"}))
    for row, dice in (
        ("lambda_pacl_sup = 0.01", 0.65),
        ("lambda_pacl_sup = 0.04", 0.68),
        ("tau = 0.03", 0.6),
        ("tau = 0.10", 0.66),
        ("pseudo_label = soft T=0.05", 0.62),
        ("pseudo_label = hard", 0.69),
    ):
        lab.finish(lab.cell(row=row), counts(dice))
    return build_table(lab.experiment)
