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
    check_switches({"_target_": "builtins.dict", "a": "no"}, "method")
    check_switches({"_target_": "no.such.module.Class", "a": "no"}, "method")
    for value in ("true", "false"):
        build(compose(["method=rar", f"method.as_released={value}", "scale=smoke"]), "method")
