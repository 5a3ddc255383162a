"""Which method, augmentation and alignment may be combined."""

import itertools
from dataclasses import replace

import pytest

from semimedref.combinations import can_be_mirrored, check_combination
from semimedref.config import compose, resolved
from semimedref.errors import UserError
from semimedref.text.vocabulary import LUNGS, QUADRANTS

pytestmark = pytest.mark.slow

ALIGNS = ["none", "clip", "pacl"]
PLAIN = ["none", "weak_strong"]
STRONG = ["posaug", "text_strong", "cutmix", "spc", "random_patchmix", "t_patchmix_pos",
          "t_patchmix_prob", "t_patchmix_hybrid", "semi_medref"]  # fmt: skip
ALONE = ["supervised", "position_predictor"]
ATLASES = ["text_atlas", "mean_mask"]


def options(method, augment, align):
    return [f"method={method}", f"augment={augment}", f"align={align}"]


SENSIBLE = [
    *(options("teacher_student", *pair) for pair in itertools.product(PLAIN + STRONG, ALIGNS)),
    *(
        options("ispg", *pair)
        for pair in itertools.product(PLAIN + STRONG, ALIGNS)
        if pair[0] != "spc"
    ),
    *(options(*pair, "none") for pair in itertools.product(ALONE, PLAIN)),
    ["method=teacher_student", "augment=semi_medref", "align=pacl", "ratio=100pct"],
    ["method=teacher_student", "augment=semi_medref", "align=pacl", "preset=release"],
    ["method=teacher_student", "preset.labeled_view=strong"],
    ["method=teacher_student", "augment=text_strong", "align=clip", "dataset.vocabulary=null"],
    ["method=teacher_student", "augment=cutmix", "dataset.vocabulary=null"],
    *(["model=unet", *options(*pair, "none")] for pair in itertools.product(ALONE, PLAIN)),
    *(
        ["model=unet", *options("teacher_student", augment, "none")]
        for augment in ("weak_strong", "cutmix", "spc", "t_patchmix_hybrid")
    ),
    *(
        [f"model={model}", *options("atlas", augment, "none"), f"trainer={trainer}"]
        for model in ATLASES
        for augment in PLAIN
        for trainer in ("atlas", "default")
    ),
    ["model=mean_mask", "method=atlas", "dataset.vocabulary=null"],
]
NO_WORDS = "no position vocabulary"
SENSELESS = [
    *((options(m, "none", a), f"align={a} does nothing") for m in ALONE for a in ("clip", "pacl")),
    *((options(m, s, "none"), f"does nothing with method={m}") for m in ALONE for s in STRONG),
    (["align=pacl", "dataset.vocabulary=null"], f"pacl.*{NO_WORDS}"),
    (["augment=posaug", "dataset.vocabulary=null"], f"posaug.*{NO_WORDS}"),
    (["augment=t_patchmix_pos", "dataset.vocabulary=null"], f"t_patchmix.*{NO_WORDS}"),
    (["augment=spc", "dataset.vocabulary=null"], f"spc.*{NO_WORDS}"),
    (["method=ispg", "dataset.vocabulary=null"], NO_WORDS),
    (["method=position_predictor", "dataset.vocabulary=null"], NO_WORDS),
    (["augment=semi_medref", "dataset.writing=null"], "t_patchmix needs dataset.writing"),
    (["method=ispg", "augment=spc"], "mirrored image"),
    (["align=clip", "trainer.batch_size=1"], "batch_size to 2"),
    (["augment=cutmix", "trainer.batch_size=1"], "cutmix needs other samples"),
    (["augment=t_patchmix_hybrid", "trainer.batch_size=1"], "t_patchmix needs other samples"),
    (["method=supervised", "preset.labeled_view=strong"], "labeled_view=strong does nothing"),
    (["augment=none", "preset.labeled_view=strong"], "without jitter and blur"),
    *((["model=unet", f"align={a}"], f"align={a} compares.*align=none") for a in ("clip", "pacl")),
    *(
        (["model=unet", f"augment={a}"], "edits sentences .* does nothing with model=unet")
        for a in ("posaug", "text_strong", "semi_medref")
    ),
    (["model=unet", "method=ispg"], "method=ispg adds positions to the words"),
    *(
        ([f"model={model}", f"method={method}"], f"model={model} has nothing.*method=atlas")
        for model in ATLASES
        for method in ("supervised", "teacher_student", "ispg")
    ),
    *(
        ([f"model={model}", "method=atlas"], f"would not train model={model}")
        for model in ("mmi_unet", "unet")
    ),
    (["model=text_atlas", "method=atlas", "align=pacl"], "align=pacl does nothing"),
    (["model=text_atlas", "method=atlas", "augment=posaug"], "does nothing with method=atlas"),
    (
        ["model=text_atlas", "method=atlas", "preset.labeled_view=strong"],
        "labeled_view=strong does nothing with method=atlas",
    ),
    (
        ["model=text_atlas", "method=atlas", "dataset.vocabulary=null"],
        f"{NO_WORDS}: choose model=mean_mask",
    ),
]


@pytest.mark.parametrize("overrides", SENSIBLE, ids=" ".join)
def test_sensible_combinations_are_allowed(overrides):
    check_combination(resolved(compose(overrides)))


@pytest.mark.parametrize(("overrides", "why"), SENSELESS, ids=lambda x: str(x)[:80])
def test_senseless_combinations_are_refused_in_one_line(overrides, why):
    with pytest.raises(UserError, match=why) as caught:
        check_combination(resolved(compose(overrides)))
    assert "\n" not in str(caught.value)


def test_a_refused_combination_leaves_nothing_behind(compose_smoke, tmp_path):
    from semimedref.run import run

    with pytest.raises(UserError, match="align=pacl does nothing"):
        run(compose_smoke("method=supervised", "align=pacl"))
    assert not list(tmp_path.iterdir())


def test_both_vocabularies_can_be_mirrored_and_a_lopsided_one_cannot():
    assert can_be_mirrored(LUNGS) and can_be_mirrored(QUADRANTS)
    assert not can_be_mirrored(replace(LUNGS, cells=LUNGS.cells[:3]))


def test_an_own_method_that_reads_the_groups_under_other_names_is_not_refused():
    plain = resolved(compose(["method=teacher_student", "augment=semi_medref", "align=pacl"]))
    method = plain["method"]
    plain["method"] = {"_target_": "my_lab.net.Mine", "mine": [], "inside": {**method}}
    check_combination(plain)
