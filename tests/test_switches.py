import pytest

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.switches import check_switches


@pytest.mark.parametrize("word", ["no", "yes_please", "0", "null"])
def test_a_word_is_no_switch(compose_smoke, word):
    cfg = compose_smoke("method=rar", f"method.as_released={word}")
    found = None if word == "null" else word
    with pytest.raises(UserError, match=rf"method\.as_released={found}: expected true or false"):
        build(cfg, "method")


def test_a_switch_is_found_at_any_depth(compose_smoke):
    cfg = compose_smoke("text_encoder.frozen=off")
    with pytest.raises(UserError, match=r"method\.model\.text_encoder\.frozen=off"):
        build(cfg, "method")


def test_true_and_false_and_what_is_no_switch_pass():
    for target in ("builtins.dict", "no.such.module.Class"):
        check_switches({"_target_": target, "a": "no"}, "method", trusted=["builtins", "no"])
    for value in ("true", "false"):
        build(compose(["method=rar", f"method.as_released={value}", "scale=smoke"]), "method")


def test_what_is_not_trusted_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    node = {"inner": {"_target_": "stranger.Class", "a": "no"}}
    check_switches(node, "method", trusted=["semimedref"])
    with pytest.raises(SystemExit):
        check_switches(node, "method", trusted=["stranger"])
