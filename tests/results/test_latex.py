import re
import shutil
import subprocess

import pytest

from semimedref.results.latex import escape, latex
from semimedref.results.table import build_table
from semimedref.sweep import expand

pytestmark = pytest.mark.slow

HEAD = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
"""


@pytest.fixture
def table(lab):
    for row, tp in (("Baseline & Co_1", 60), ("+ T-S EMA", 80)):
        for ratio in ("2pct", "15pct"):
            for seed in ("s0", "s1"):
                more = 2 * (seed == "s1")
                rows = [(f"i{i}", f"p{i}", tp + more, 10, 100 - tp - more) for i in range(4)]
                lab.finish(lab.cell(row=row, ratio=ratio, seed=seed), rows)
    return build_table(lab.experiment)


def test_rows_go_down_and_columns_across(table):
    lines = latex(table).splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert len(body) == 2 and all(line.count("&") - line.count(r"\&") == 4 for line in body)
    assert body[0].startswith(r"Baseline \& Co\_1 & 71.34$\pm$")
    assert r"\textbf{" in body[1] and r"\textbf{" not in body[0]
    assert "Dice/mIoU & Text gap & Dice/mIoU & Text gap" in latex(table)


def test_the_papers_values_stand_below_ours_in_italics(tmp_path):
    text = latex(build_table(expand(["experiment=component_ablation", f"run_root={tmp_path}"])))
    paper = re.findall(r"^\\quad \\textit{paper} & (.*)$", text, re.M)
    assert len(paper) == 5 and r"\textit{81.02}/\textit{68.09}" in paper[0]
    assert "Italics: reported by the authors" in text


def test_signs_that_latex_would_misread_are_escaped():
    assert escape("50 % of a_b & c ± 1 #") == r"50 \% of a\_b \& c $\pm$ 1 \#"
    assert escape("雪") == "?"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX is installed")
def test_every_table_compiles(table, tmp_path):
    names = ("main", "ispg_removal_matrix")
    tables = [build_table(expand([f"experiment={n}", f"run_root={tmp_path}"])) for n in names]
    text = "\n\\clearpage\n".join(latex(t) for t in (table, *tables))
    (tmp_path / "all.tex").write_text(HEAD + text + "\n\\end{document}\n")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.pdf").stat().st_size > 10_000
    assert "Overfull" not in done.stdout  # no table is wider than its column or the page
