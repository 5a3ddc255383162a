import pytest
import torch

from semimedref.errors import UserError

TEXTS = [
    "Unilateral pulmonary infection, one infected area, upper left lung.",
    "Bilateral pulmonary infection, two infected areas, lower right lung and middle left lung.",
    "left",
]


@pytest.fixture
def tiny(option):
    return lambda **changes: option("text_encoder", "tiny", **changes)


def test_centered_features_of_the_examples_have_mean_zero_and_spread_one(tiny):
    examples = ["upper left lung", "lower right lung and upper left lung"]
    plain, centered = tiny(cache=False), tiny(cache=False, center_on=examples)
    before, after = plain(plain.prepare(examples)), centered(centered.prepare(examples))
    words = after.tokens[after.mask]
    assert words.mean(0).abs().max() < 1e-5
    assert words.square().mean().item() == pytest.approx(1, abs=1e-4)
    assert after.pooled.mean(0).abs().max() < 1e-5
    away = before.tokens - before.tokens[before.mask].mean(0)
    spread = away[before.mask].square().mean().sqrt()
    torch.testing.assert_close(after.tokens, away / spread, rtol=1e-4, atol=1e-5)


def test_center_holds_for_cached_features_and_other_sentences(tiny):
    examples = ["upper left lung", "lower right lung"]
    direct, cached = tiny(cache=False, center_on=examples), tiny(cache=True, center_on=examples)
    other = ["middle left lung and a word"]
    a, b = direct(direct.prepare(other)), cached(cached.prepare(other))
    torch.testing.assert_close(a.tokens, b.tokens)
    torch.testing.assert_close(a.pooled, b.pooled)


def test_center_of_a_trained_encoder_is_refused(tiny):
    with pytest.raises(UserError, match="center_on=null"):
        tiny(cache=False, frozen=False, center_on=["left lung"])
