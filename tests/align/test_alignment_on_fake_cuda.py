from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_alignment_and_predictors_make_no_device_mistake_and_never_wait(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(HERE.parent / "cuda"))
    from fake_cuda import compile_shim, missing_tool, run_check

    if missing_tool():
        pytest.skip(missing_tool())
    seen = run_check(HERE / "alignment_step.py", "everything", shim=compile_shim(tmp_path))
    assert seen == {"device": "cuda:0", "loss": "torch.float32", "without gradient": 0}
