"""Every method and every network takes a step at its published size on fake CUDA tensors."""

import itertools

import pytest

from semimedref.config import config_dir

MMI_UNET = 49_472_217  # parameters that receive a gradient, as the specification counts them
ALIGNED = 592_128 + 1_182_720  # the heads of PACL
UNSUPERVISED = ["loss", "loss_sup", "loss_unsup"]
PACL = ["loss", "loss_pacl_sup", "loss_pacl_unsup", "loss_sup", "loss_unsup"]
SEMI = ["augment=semi_medref", "align=pacl"]
OWN_BERT = ["text_encoder=bert", "text_encoder.frozen=false", "vlm.image_encoder.weights=random"]


@pytest.fixture(scope="module")
def report(fake):
    return fake("mmi_unet_step:everything")


def test_full_size_step_makes_no_device_mistake_and_never_waits(report):
    assert report["step"] == {
        "logits": [8, 1, 224, 224],
        "gradients": MMI_UNET,
        "device": "cuda:0",
        "precision": ["torch.float32", "torch.float32", "torch.bfloat16"],
    }


def test_every_seeded_bug_is_caught(report):
    assert len(report["bugs"]) == 13
    assert [name for name, error in report["bugs"].items() if error is None] == []


def test_hidden_wait_inside_transformers_is_seen(report):
    assert report["flat mask"] == "aten._local_scalar_dense.default"


def text_mask_decoder(space):
    return 2 * (2 * space + 2 * (9 * space**2 + space) + 1) + 1


# Method -> what it is composed with, its losses, and how many parameters receive a gradient.
FULL_SIZE = {
    "supervised": (["augment=none"], ["loss", "loss_sup"], MMI_UNET),
    "teacher_student": (SEMI, PACL, MMI_UNET + ALIGNED),
    "ispg": (SEMI, sorted([*PACL, "loss_position_sup", "loss_position_unsup"]),
             MMI_UNET + ALIGNED + 151_105),
    "position_predictor": (["augment=none"], ["loss", "loss_position"],
                           2 * 768 + 768 * 384 + 384 + 384 * 6 + 6),
    "mean_teacher": ([], UNSUPERVISED, MMI_UNET),
    "fixmatch": ([], [*UNSUPERVISED, "sure"], MMI_UNET),
    "cps": ([], UNSUPERVISED, MMI_UNET),
    "unimatch": ([], ["loss", "loss_fp", "loss_sup", "loss_unsup", "sure"], MMI_UNET),
    "lvit_epi": ([], ["loss", "loss_lv", "loss_sup", "loss_unsup"], 29_908_033),
    "rar": ([], ["loss", "loss_cross", "loss_image", "loss_sup", "loss_unsup"], 37_884_337),
    "tevid_recon": ([], ["loss", "loss_sup", "loss_text", "loss_unsup", "loss_visual"],
                    44_994_987 + 96 * 128 + 128 + 128 * 128 + 128 + 768 * 128 + 128),
    "textmatch": ([], ["loss", "loss_cl", "loss_pl", "loss_reg", "loss_sup"], 69_099_489),
    "textmoe": ([], ["loss", "pseudo_lesion"], 44_309_109),
    "semires": ([], [*UNSUPERVISED, "matched"], 45_162_338),
    "dusss": (OWN_BERT, ["loss", "loss_grounding", "loss_seg", "loss_text", "text_mask"],
              14_751_873 + text_mask_decoder(512)),
    "amvlm": (OWN_BERT, ["loss", "loss_grounding", "loss_seg", "loss_text", "text_mask"],
              14_751_873 + text_mask_decoder(128)),
    "vlm_pretraining vlm=dusss": (OWN_BERT, None, 138_769_413),
    "vlm_pretraining vlm=amvlm": (OWN_BERT, None, 203_787_904),
}  # fmt: skip
STAGED = ("lvit_epi", "rar", "tevid_recon", "textmoe", "semires")


def options(group):
    return {file.stem for file in (config_dir() / group).glob("*.yaml")}


def test_no_method_is_forgotten_here():
    assert {name.split()[0] for name in FULL_SIZE} == options("method") - {"atlas"}


@pytest.mark.parametrize("name", FULL_SIZE)
def test_a_full_size_step_of_every_method_makes_no_device_mistake(fake, name):
    words, losses, gradients = FULL_SIZE[name]
    size = "own encoder" if words is OWN_BERT else "paper"
    stage = "all" if name in STAGED or words is OWN_BERT else None
    seen = fake("method_step:check", [*f"method={name}".split(), *words], size=size, stage=stage)
    assert seen["devices"] == ["cuda:0"]
    assert losses is None or seen["losses"] == losses
    assert seen["gradients"] == gradients


# Networks that are no method's own, and the second one that the paper trains Semi-MedRef with.
NETWORKS = {
    "fmiseg": [],
    "guide_decoder": [],
    "mg_unet_recon": [],
    "textmoe_seg": [],
    "unet": [],
    "vitexnet_recon": ["image_encoder=hf_swin_tiny"],
}
OF_METHODS = {"lavt", "lvit", "mmi_unet", "plain_unet", "rar", "tevid_recon", "textmatch_seg"}


def test_no_network_is_forgotten_here():
    assert OF_METHODS | set(NETWORKS) == options("model") - {"text_atlas", "mean_mask"}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_full_size_step_of_semi_medref_on_every_other_network_makes_no_device_mistake(fake, name):
    """The U-Net has no words to mix and to compare."""
    semi = SEMI if name != "unet" else ["augment=weak_strong"]
    words = ["method=teacher_student", f"model={name}", *NETWORKS[name], *semi]
    seen = fake("method_step:check", words)
    assert seen["losses"] == (PACL if name != "unet" else UNSUPERVISED)
    assert seen["devices"] == ["cuda:0"]


AUGMENTS = ("none", "weak_strong", "posaug", "text_strong", "cutmix", "spc", "random_patchmix",
            "t_patchmix_pos", "t_patchmix_prob", "t_patchmix_hybrid", "semi_medref")  # fmt: skip
# Every pair of two of method, augmentation and alignment stands in one of these.
PAIRS = [
    (("teacher_student", "ispg")[number % 2], augment, align)
    for number, (augment, align) in enumerate(itertools.product(AUGMENTS, ("none", "clip", "pacl")))
]


def test_every_pair_of_method_augmentation_and_alignment_makes_no_device_mistake(fake):
    refused = set()
    for method, augment, align in PAIRS:
        words = [f"method={method}", f"augment={augment}", f"align={align}"]
        if fake("method_step:is_refused", words):
            refused.add((method, augment))
            words[0] = "method=teacher_student"
        seen = fake("method_step:check", words, size="light")
        contrast = {"loss_pacl_sup", "loss_pacl_unsup"} & set(seen["losses"])
        assert len(contrast) == (0 if align == "none" else 2), words
        assert seen["devices"] == ["cuda:0"]
    assert refused == {("ispg", "spc")}


BRANCHES = {  # of a step that the options above do not take, with the size that they are seen at
    "release": ("light", ["preset=release", "method=teacher_student", *SEMI]),
    "release, patches anywhere": ("light", ["preset=release", "method=teacher_student",
                                            "augment=random_patchmix"]),
    "release, CLIP": ("light", ["preset=release", "method=teacher_student", "augment=none",
                                "align=clip"]),
    "strong labeled view": ("light", ["preset.labeled_view=strong", "method=teacher_student",
                                      *SEMI]),
    "release, ISPG": ("small", ["preset=release", "method=ispg", *SEMI]),
    "gap_mlp": ("small", ["method=position_predictor", "augment=none"]),
    "region_pool": ("small", ["method=position_predictor", "augment=none",
                              "position_predictor=region_pool"]),
    "region_queries": ("small", ["method=position_predictor", "augment=none",
                                 "position_predictor=region_queries"]),
    **{f"{name}, released": ("small", [f"method={name}", "method.as_released=true"])
       for name in ("rar", "textmoe", "dusss", "amvlm")},
    **{f"{vlm}, before, released": ("small", ["method=vlm_pretraining", f"vlm={vlm}",
                                              "vlm.as_released=true"])
       for vlm in ("dusss", "amvlm")},
    "semires, candidates": ("small", ["method=semires", "method.candidates=folder",
                                      "augment.zoom.probability=0"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BRANCHES)
def test_no_branch_of_a_step_makes_a_device_mistake(fake, name):
    size, words = BRANCHES[name]
    stage = "all" if name.split(",")[0] in FULL_SIZE else None
    seen = fake("method_step:check", words, size=size, stage=stage)
    assert seen["devices"] == ["cuda:0"] and "loss" in seen["losses"]


@pytest.mark.parametrize("name", STAGED)
def test_the_first_stage_reads_no_unlabeled_image(fake, name):
    seen = fake("method_step:check", [f"method={name}"], size="small", stage="labeled")
    assert "loss" in seen["losses"]
    assert not {"loss_unsup", "pseudo_lesion"} & set(seen["losses"])
    assert seen["devices"] == ["cuda:0"]


def test_ispg_in_burn_in_learns_positions_and_no_pseudo_masks(fake):
    seen = fake("method_step:check", ["method=ispg", *SEMI], size="small", burn_in=True)
    assert seen["losses"] == ["loss", "loss_position_sup", "loss_position_unsup", "loss_sup"]


def test_alignment_and_predictors_make_no_device_mistake_and_never_wait(fake):
    seen = fake("alignment_step:everything")
    assert seen == {"device": "cuda:0", "loss": "torch.float32", "without gradient": 0}
