from pathlib import Path

import pytest
from fake_cuda import compile_shim, missing_tool, run_check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
]


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def report(shim):
    return run_check(Path(__file__).parent / "mmi_unet_step.py", "everything", shim=shim)


def test_full_size_step_makes_no_device_mistake_and_never_waits(report):
    assert report["step"] == {
        "logits": [8, 1, 224, 224],
        "gradients": 49_472_217,
        "device": "cuda:0",
        "precision": ["torch.float32", "torch.float32", "torch.bfloat16"],
    }


def test_every_seeded_bug_is_caught(report):
    assert len(report["bugs"]) == 13
    assert [name for name, error in report["bugs"].items() if error is None] == []


def test_hidden_wait_inside_transformers_is_seen(report):
    assert report["flat mask"] == "aten._local_scalar_dense.default"


@pytest.mark.parametrize(
    ("method", "losses"),
    [
        ("supervised", ["loss", "loss_sup"]),
        ("teacher_student", ["loss", "loss_sup", "loss_unsup"]),
        ("t_patchmix", ["loss", "loss_sup", "loss_unsup"]),
        ("posaug", ["loss", "loss_sup", "loss_unsup"]),
        ("semi_medref", ["loss", "loss_pacl_sup", "loss_pacl_unsup", "loss_sup", "loss_unsup"]),
    ],
)
def test_the_real_step_of_every_ladder_row_makes_no_device_mistake(shim, method, losses):
    heads = 592_128 + 1_182_720 if method == "semi_medref" else 0
    seen = run_check(Path(__file__).parent / "method_step.py", method, shim=shim)
    assert seen == {"losses": losses, "devices": ["cuda:0"], "gradients": 49_472_217 + heads}


def test_the_step_of_every_sensible_combination_makes_no_device_mistake(shim):
    seen = run_check(Path(__file__).parent / "method_step.py", "combinations", shim=shim)
    per_method = {
        name: sum(f"method={name} " in key for key in seen)
        for name in ("supervised", "teacher_student", "ispg", "position_predictor")
    }
    assert per_method == {
        "supervised": 2, "teacher_student": 33 + 4, "ispg": 30 + 1, "position_predictor": 2,
    }  # fmt: skip
    assert all(step["devices"] == ["cuda:0"] for step in seen.values())
    for key, step in seen.items():
        contrast = {"loss_pacl_sup", "loss_pacl_unsup"} & set(step["losses"])
        assert len(contrast) == (0 if "align=none" in key else 2), key


def test_the_general_methods_make_no_device_mistake_at_full_size(shim):
    seen = run_check(Path(__file__).parent / "method_step.py", "general", shim=shim)
    both = ["loss", "loss_sup", "loss_unsup"]
    assert {name: part["losses"] for name, part in seen.items()} == {
        "mean_teacher": both,
        "fixmatch": [*both, "sure"],
        "cps": both,
        "unimatch": ["loss", "loss_fp", "loss_sup", "loss_unsup", "sure"],
    }
    assert all(part["devices"] == ["cuda:0"] for part in seen.values())
    assert all(part["gradients"] == 49_472_217 for part in seen.values())


def test_the_rival_methods_make_no_device_mistake_at_full_size(shim):
    seen = run_check(Path(__file__).parent / "method_step.py", "rivals", shim=shim)
    assert all(part["devices"] == ["cuda:0"] for part in seen.values())
    for name in ("textmoe", "semires", "tevid_recon", "lvit_epi", "rar"):
        alone = seen.pop(f"{name}, labeled")["losses"]
        assert "loss" in alone and not {"loss_unsup", "pseudo_lesion"} & set(alone)
    for vlm in ("dusss", "amvlm"):
        whole, before = seen.pop(vlm), seen.pop(f"{vlm}, before")
        assert seen.pop(f"{vlm}, as released")["losses"] == whole["losses"]
        assert seen.pop(f"{vlm}, before, as released")["losses"] == before["losses"]
        own = ["loss", "loss_grounding", "loss_seg", "loss_text", "text_mask"]
        assert whole["losses"] == own
        space = {"dusss": 512, "amvlm": 128}[vlm]
        decoder = 2 * (2 * space + 2 * (9 * space**2 + space) + 1) + 1
        assert whole["gradients"] == 14_751_873 + decoder
        assert before["gradients"] == {"dusss": 138_769_413, "amvlm": 203_787_904}[vlm]
    assert seen.pop("semires, candidates")["losses"] == seen["semires"]["losses"]
    for name in ("rar", "textmoe"):
        assert seen.pop(f"{name}, as released")["losses"] == seen[name]["losses"]
    retrieval = ["loss", "loss_cross", "loss_image", "loss_sup", "loss_unsup"]
    contrasts = ["loss", "loss_sup", "loss_text", "loss_unsup", "loss_visual"]
    heads = 96 * 128 + 128 + 128 * 128 + 128 + 768 * 128 + 128
    assert {name: (part["losses"], part["gradients"]) for name, part in seen.items()} == {
        "lvit_epi": (["loss", "loss_lv", "loss_sup", "loss_unsup"], 29_908_033),
        "rar": (retrieval, 37_884_337),
        "tevid_recon": (contrasts, 44_994_987 + heads),
        "textmatch": (["loss", "loss_cl", "loss_pl", "loss_reg", "loss_sup"], 69_099_489),
        "textmoe": (["loss", "pseudo_lesion"], 44_309_109),
        "semires": (["loss", "loss_sup", "loss_unsup", "matched"], 45_162_338),  # with weight decay
    }


def test_the_step_of_ispg_makes_no_device_mistake_at_full_size(shim):
    seen = run_check(Path(__file__).parent / "method_step.py", "ispg", shim=shim)
    assert seen["losses"] == ["loss", "loss_pacl_sup", "loss_pacl_unsup", "loss_position_sup",
                              "loss_position_unsup", "loss_sup", "loss_unsup"]  # fmt: skip
    token, heads = 151_105, 592_128 + 1_182_720
    assert seen["gradients"] == 49_472_217 + heads + token
    assert seen["devices"] == ["cuda:0"]


def test_no_step_that_predicts_positions_makes_a_device_mistake(shim):
    seen = run_check(Path(__file__).parent / "method_step.py", "positions", shim=shim)
    assert list(seen) == ["release", "burn-in", "gap_mlp", "region_pool", "region_queries"]
    assert all(part["devices"] == ["cuda:0"] for part in seen.values())
    assert seen["burn-in"]["losses"] == ["loss", "loss_position_sup", "loss_position_unsup",
                                         "loss_sup"]  # fmt: skip
    assert seen["gap_mlp"]["losses"] == ["loss", "loss_position"]
