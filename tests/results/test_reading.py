"""One training, several cells: evaluations, domains and analyses."""

import json

import pytest

from semimedref.errors import UserError
from semimedref.results import render
from semimedref.results.comparison import compare_rows
from semimedref.results.table import build_table

ZERO = {"route": "zero", "removal": 1.0}


def write(folder, name, content):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def test_a_row_reads_its_own_evaluation_of_the_run(lab):
    folder = lab.finish(lab.cell(row="Zero", evaluation=ZERO))
    write(folder, "eval/test-student-true_texts-removed_1-zero.json", {"dice": 0.25, "miou": 0.2})
    (entry,) = build_table(lab.experiment).entries
    assert entry.scores["dice"].values == (0.25,) and entry.scores["dice"].ci is None
    assert not entry.plain


def test_an_evaluation_that_was_not_made_is_missing_with_its_command(lab):
    cell = lab.cell(row="Zero", evaluation=ZERO)
    lab.finish(cell)
    table = build_table(lab.experiment)
    assert table.entries[0].scores["dice"].values == ()
    (line,) = render.unfinished(table)
    asked = f"semimedref evaluate run={cell.name} split=test route=zero removal=1"
    assert line.startswith(f"not asked yet:  {asked}")


def test_a_column_reads_its_domain_and_its_interval_is_of_that_domain(lab):
    lab.columns = ["ratio", "domain"]
    folder = lab.finish(
        lab.cell(domain="brain", evaluation={"domain": "brain"}), **{"domain/brain/dice": 0.5}
    )
    lines = ["id,patient,domain,tp,fp,fn,dice", "a,p,brain,5,5,5,0.5", "b,q,skin,9,1,1,0.9"]
    (folder / "per_image.csv").write_text("\n".join(lines) + "\n")
    (entry,) = build_table(lab.experiment).entries
    assert entry.scores["dice"].values == (0.5,)
    assert entry.scores["dice"].ci == (0.5, 0.5)  # the other patient is not drawn


def test_a_metric_can_come_from_an_analysis_of_the_run(lab):
    lab.metrics = ["dice", "lesion_score"]
    lab.options["analyses"] = {"lesion_score": "mixing"}
    folder = lab.finish(lab.cell(row="T-PatchMix-pos"))
    assert "analyze mixing" in build_table(lab.experiment).remedies[0]
    numbers = {"T-PatchMix-pos": {"lesion_score": 0.2}, "Random PatchMix": {"lesion_score": 0.1}}
    write(folder, "analysis/mixing.json", numbers)
    table = build_table(lab.experiment)
    assert table.entries[0].scores["lesion_score"].values == (0.2,) and table.remedies == ()


def test_an_analysis_without_rows_is_of_the_run_itself(lab):
    lab.metrics = ["spearman"]
    lab.options["analyses"] = {"spearman": "alignment"}
    write(lab.finish(lab.cell(row="PACL")), "analysis/alignment.json", {"spearman": 0.9})
    assert build_table(lab.experiment).entries[0].scores["spearman"].values == (0.9,)


def test_a_broken_evaluation_is_one_error(lab):
    folder = lab.finish(lab.cell(row="Zero", evaluation=ZERO))
    write(folder, "eval/test-student-true_texts-removed_1-zero.json", [1])
    with pytest.raises(UserError, match="delete it"):
        build_table(lab.experiment)


def test_evaluations_of_which_no_counts_are_kept_are_not_tested(lab):
    lab.finish(lab.cell(row="Standard"))
    folder = lab.finish(lab.cell(row="Zero", evaluation=ZERO))
    write(folder, "eval/test-student-true_texts-removed_1-zero.json", {"dice": 0.1, "miou": 0.1})
    assert compare_rows(build_table(lab.experiment)) == []
