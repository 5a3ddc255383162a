"""PosMed from a small tree of all six groups: partition, quality control, layouts, corruption."""

import random
from collections import Counter

import pytest
from posmed_tree import BRAIN, CASES, HEAD, build, rows, write_patients, write_table

from semimedref.config import build as instantiate
from semimedref.config import compose
from semimedref.errors import UserError

TABLES = tuple(CASES)


def posmed(root, *overrides):
    own = [f"dataset.root={root}", "dataset.domains=6", "dataset.domain_counts=null"]
    cfg = compose(["dataset=posmed", *own, "dataset.transform.side=16", *overrides])
    return instantiate(cfg, "dataset")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return build(tmp_path_factory.mktemp("posmed"))


@pytest.fixture(scope="module")
def whole(root):
    return posmed(root)


def members(dataset, domain, split=None):
    found = (c for c in dataset.found.cases if c.domain == domain and split in (None, c.split))
    return {c.id.rpartition("/")[2].removesuffix(".png") for c in found}


def problems(dataset, kind):
    return [p for p in dataset.found.problems if p.kind == kind]


def summary(dataset):
    return [(c.id, c.split, c.patient, c.text, c.position) for c in dataset.found.cases]


def test_brain_patients_are_split_by_their_folds(whole):
    for split, folds in (("train", (3, 4, 5)), ("valid", (2,)), ("test", (1,))):
        expected = {str(n) for n, (_, fold, _) in BRAIN.items() if fold in folds}
        assert members(whole, "brain_mri", split) == expected
    patients = {c.patient: c.split for c in whole.found.cases if c.domain == "brain_mri"}
    assert len(patients) == 5


def test_breast_and_x_rays_keep_the_official_split(whole):
    for domain, table in (("breast_ultrasound", TABLES[1]), ("lung_xray", TABLES[3])):
        for split, word in (("train", "train"), ("valid", "val"), ("test", "test")):
            assert members(whole, domain, split) == {n for s, n in CASES[table] if s == word}


def test_lung_ct_draws_whole_studies_and_its_official_validation_is_tested(whole):
    assert members(whole, "lung_ct", "test") == {"IDE_1", "IDF_1"}  # IDE_2 equals IDF_1
    # Ten training slices: one is wanted, and IDD is the only study of one.
    assert members(whole, "lung_ct", "valid") == {"IDD_7"}
    studies = {c.patient for c in whole.found.cases if c.domain == "lung_ct" and c.split == "train"}
    assert len(studies) == 3


def test_a_tenth_of_the_polyps_is_drawn_by_the_published_seed(whole):
    cases = [c for c in whole.found.cases if c.domain == "polyp_endoscopy" and c.split != "test"]
    order = sorted(c.patient for c in cases)
    random.Random(42 + 10000 + 101 * 4).shuffle(order)
    assert {c.patient for c in cases if c.split == "valid"} == set(order[:2])


def test_copies_of_test_images_and_test_masks_are_left_out_with_a_note(whole):
    skin = members(whole, "skin_dermoscopy")
    assert "ISIC_0000100" in skin and not skin & {"ISIC_0000000", "ISIC_0000001"}
    images = problems(whole, "image equals one of the test set")
    masks = problems(whole, "mask equals one of the test set")
    assert [p.case.rpartition("/")[2] for p in images] == ["IDE_2.png", "ISIC_0000000.png"]
    assert [p.case.rpartition("/")[2] for p in masks] == ["ISIC_0000001.png"]
    assert {p.level for p in (*images, *masks)} == {"note"}


def test_equal_images_stay_together(whole):
    skin = {c.id.rpartition("/")[2]: c for c in whole.found.cases if c.domain == "skin_dermoscopy"}
    one, other = skin["ISIC_0000010.png"], skin["ISIC_0000011.png"]
    assert (one.patient, one.split) == (other.patient, other.split)
    assert len({c.patient for c in skin.values()}) == len(skin) - 1


def test_a_complete_copy_has_nothing_to_complain_about_but_the_copies(whole):
    assert {p.level for p in whole.found.problems} == {"note"}
    assert all(c.image and c.mask and any(c.position) for c in whole.found.cases)


def test_the_text_is_the_answer_and_the_position_is_read_from_it(whole):
    first, second, third = whole.found.cases[:3]
    assert first.id == "brain_mri:brain_tumors_ct_scan/train_masks/1.png"
    assert first.text.startswith("The tumor is located in the top left")
    assert [c.position for c in (first, second, third)] == [
        (1, 0, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)
    ]  # fmt: skip


def test_labeled_groups_are_drawn_in_each_domain_apart_and_nested(whole):
    train = whole.found.split("train")
    labeled = {}
    for fraction in (0.05, 0.15, 1.0):
        known, unknown = whole.labeled_places(fraction=fraction, split_seed=42)
        assert sorted(known + unknown) == list(range(len(train)))
        labeled[fraction] = known
    assert set(labeled[0.05]) < set(labeled[0.15]) and len(labeled[1.0]) == len(train)
    breast = sorted(c.patient for c in train if c.domain == "breast_ultrasound")
    order = list(breast)
    random.Random(42 + 20000 + 101).shuffle(order)
    five = order[:1]  # of twelve images 0.6
    rest = sorted(set(breast) - set(five))
    random.Random(42 + 20000 + 101).shuffle(rest)
    found = {train[i].patient for i in labeled[0.15]} & set(breast)
    assert found == {*five, *rest[:1]}  # 1.8 images


def test_the_four_reported_domains_are_labeled_alike_with_and_without_the_lungs(root, whole):
    four = posmed(root, "dataset.domains=4")
    assert {c.domain for c in four.found.cases} == {
        "brain_mri", "breast_ultrasound", "polyp_endoscopy", "skin_dermoscopy"
    }  # fmt: skip
    ids = []
    for dataset in (four, whole):
        train = dataset.found.split("train")
        known, _ = dataset.labeled_places(fraction=0.15, split_seed=42)
        ids.append({train[i].id for i in known if not train[i].domain.startswith("lung")})
    assert ids[0] == ids[1]
    assert summary(four.complete()) == summary(whole)


def test_every_layout_gives_the_same_cases(root, whole, tmp_path):
    beside = build(tmp_path / "beside", annotations=".", data=".")
    joined = build(tmp_path / "joined", annotations="QA")
    every = []
    for table in TABLES:
        (joined / "QA" / f"{table}.csv").unlink()
        every += [row | {"dataset": table.upper()} for row in rows(table)]
    write_table(joined / "QA" / "all.csv", every, head=[*HEAD, "dataset"], encoding="utf-8")
    shouting = build(tmp_path / "shouting")
    for table in TABLES:
        path = shouting / "annotations" / f"{table}.csv"
        path.rename(path.with_name(f"{table.upper()}.CSV"))
    (shouting / "data" / "lung_CT").rename(shouting / "data" / "LUNG_ct")
    for copy in (beside, joined, shouting):
        assert summary(posmed(copy)) == summary(whole)


def test_absent_groups_are_noted_and_the_others_prepared(whole, tmp_path):
    part = posmed(build(tmp_path, tables=TABLES[1:3]))
    assert Counter(c.domain for c in part.found.cases) == {"breast_ultrasound": 16, "lung_ct": 12}
    assert summary(part) == [s for s in summary(whole) if s[0].startswith(("breast", "lung_ct"))]
    absent = {p.case: p.level for p in problems(part, "a group is absent")}
    assert absent == {"brain_mri": "warning", "lung_xray": "note", "polyp_endoscopy": "warning",
                      "skin_dermoscopy": "warning"}  # fmt: skip
    assert not part.found.errors


def test_without_the_patient_map_the_brain_has_no_split_and_the_others_do(whole, tmp_path):
    root = build(tmp_path / "data", patients=False)
    alone = posmed(root)
    (problem,) = alone.found.errors
    assert problem.case == "brain_mri" and "dataset.brain_patients=FILE" in problem.fix
    assert summary(alone) == [s for s in summary(whole) if not s[0].startswith("brain")]
    write_patients(tmp_path / "map.csv")
    told = posmed(root, f"dataset.brain_patients={tmp_path / 'map.csv'}")
    assert summary(told) == summary(whole)
    with pytest.raises(UserError, match="no such file"):
        _ = posmed(root, f"dataset.brain_patients={tmp_path / 'other.csv'}").found


def test_a_group_without_pictures_is_one_error(tmp_path):
    import shutil

    root = build(tmp_path, tables=TABLES[1:3])
    shutil.rmtree(root / "data" / "lung_CT")
    (problem,) = posmed(root).found.errors
    assert problem.case == "lung_ct" and "lung_CT/train_images" in problem.fix


def change(root, table, number, **cells):
    content = rows(table)
    content[number] |= cells
    write_table(root / "annotations" / f"{table}.csv", content)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ({"split": "holdout"}, "split name is unknown"),
        ({"answer": ""}, "text is empty"),
        ({"image_path": "../../etc/passwd"}, "path leaves the root"),
        ({"image_path": "breast_tumors_ct_scan/train_masks/gone.png"}, "image is missing"),
        ({"image_path": "breast_tumors_ct_scan/train_masks/benign (1).png"},
         "two rows for one image"),
    ],
)  # fmt: skip
def test_a_broken_row_is_named(tmp_path, cells, kind):
    root = build(tmp_path, tables=TABLES[1:2])
    change(root, TABLES[1], 1, **cells)
    (problem, *_) = problems(posmed(root), kind)
    assert problem.level == "error"


def test_a_row_without_a_split_takes_that_of_its_folder(tmp_path):
    root = build(tmp_path, tables=TABLES[1:2])
    expected = summary(posmed(root))
    change(root, TABLES[1], 12, split="")
    assert summary(posmed(root)) == expected


def test_two_different_tables_of_one_group_are_named(tmp_path):
    root = build(tmp_path, tables=TABLES[1:2])
    (root / "older").mkdir()
    write_table(root / "older" / f"{TABLES[1]}.csv", rows(TABLES[1])[:3])
    copy = root / "copy"
    copy.mkdir()
    write_table(copy / f"{TABLES[1]}.csv", rows(TABLES[1]))
    (problem,) = problems(posmed(root), "two different tables for one group")
    assert problem.level == "warning" and "older" in problem.case


def test_a_root_without_tables_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"brain_tumors_ct_scan\.csv"):
        _ = posmed(tmp_path).found


@pytest.mark.parametrize("domains", [5, "[]", "[brain_mri,heart]"])
def test_unknown_domains_are_refused(tmp_path, domains):
    with pytest.raises(UserError, match="expected 4, 6 or a list of brain_mri"):
        posmed(tmp_path, f"dataset.domains={domains}")


def test_some_domains_can_be_named(root):
    some = posmed(root, "dataset.domains=[skin_dermoscopy,brain_mri]")
    assert list(dict.fromkeys(c.domain for c in some.found.cases)) == [
        "brain_mri", "skin_dermoscopy"
    ]  # fmt: skip


def test_a_slice_that_the_map_does_not_know_is_named(tmp_path):
    root = build(tmp_path, tables=TABLES[:1])
    change(root, TABLES[0], 0, image_path="brain_tumors_ct_scan/train_masks/77.png")
    (problem,) = problems(posmed(root), "slice is not in the patient map")
    assert problem.case.endswith("77.png")


def test_numbers_that_are_not_the_papers_are_listed_and_no_run_starts_with_them(root):
    images = "{brain_mri:{train:7,valid:2,test:4},all:{train:76,test:12}}"
    counts = "_target_:semimedref.dataset.posmed_counts.DomainCounts,split_seed:42"
    labeled = "{brain_mri:{15pct:9},skin_dermoscopy:{15pct:3}}"
    given = f"dataset.domain_counts={{{counts},images:{images},labeled:{labeled}}}"
    dataset = posmed(root, given)
    assert dataset.partition_differences() == [
        "brain_mri test: 3 images, published 4",
        "brain_mri labeled at 15pct: 0 images, published 9",  # patients of 3, 2 and 2 slices
        "all test: 11 images, published 12",
    ]
    with pytest.raises(UserError, match=r"brain_mri test: 3 .* dataset\.domain_counts=null"):
        dataset.prepare([])


def test_the_published_numbers_add_up():
    counts = instantiate(compose(["dataset=posmed", "dataset.root=."]), "dataset").domain_counts
    for ratio in ("5pct", "15pct"):
        own = [known[ratio] for name, known in counts.labeled.items() if name != "all"]
        assert len(own) == 6 and sum(own) == counts.labeled["all"][ratio]
    assert sum(counts.images["all"].values()) == 38_726
    for name, share in (("5pct", 0.05), ("15pct", 0.15)):
        for domain in ("brain_mri", "breast_ultrasound", "polyp_endoscopy", "skin_dermoscopy"):
            assert counts.labeled[domain][name] == round(counts.images[domain]["train"] * share)
