import math

import pytest
import torch
import torch.nn.functional as F

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.model.vlm.dusss_vlm import modulate, pool_patches


def cross_entropy(scores):
    return F.cross_entropy(scores, torch.arange(len(scores)))


def both_ways(scores):
    return (cross_entropy(scores) + cross_entropy(scores.T)) / 2


def test_the_modulated_similarity_by_hand():
    cosine, doubt = torch.tensor([1.0, 0.5, 0.0, -1.0]), torch.tensor([3.0, 3.0, 1.0, 0.0])
    found = modulate(cosine, doubt, offset=4, slope=5)
    expected = [1.0, 1 - 0.5 * math.exp(-7 / 5), 1 - math.exp(-5 / 10), 1 - 2 * math.exp(-4 / 20)]
    assert found.tolist() == pytest.approx(expected)


def test_with_the_released_doubt_every_pair_would_look_alike():
    """d_unc = (W2 / 200 + 4) / 0.07 is at least 57: no similarity of a pair is below 0.9."""
    cosine = torch.linspace(-1, 1, 41)
    found = modulate(cosine, torch.full((41,), 4 / 0.07), offset=4, slope=5)
    assert found.min() > 0.9 and found[cosine >= 0].min() > 0.997


def test_patches_are_averaged_in_squares():
    parts = torch.arange(16.0).reshape(1, 16, 1).repeat(1, 1, 2) * torch.tensor([1.0, -1.0]) + 1
    found = pool_patches(parts, 2)
    mean = torch.tensor([2.5, 4.5, 10.5, 12.5])  # of 0, 1, 4, 5; 2, 3, 6, 7; ...
    torch.testing.assert_close(found[0], torch.stack([1 + mean, 1 - mean], 1))


@pytest.mark.parametrize(("as_released", "scale"), [(False, None), (False, 200), (True, None)])
def test_the_loss_is_the_sum_of_its_terms_written_out(made, as_released, scale):
    more = [] if scale is None else [f"vlm.distance_scale={scale}"]
    case = made("dusss", f"vlm.as_released={as_released}", *more)
    model, slow = case.model, case.slow
    torch.manual_seed(5)
    losses = model.losses(case.image, case.text, slow, case.told)
    seen, words = model.see(case.image), model.read(case.text)
    seen_slow, words_slow = case.told.image, case.told.text
    tau = 0.07

    def scores(a, b, kinds):
        cosine = a.whole @ b.whole.T
        if as_released:
            return cosine
        first, second = (model.gaussian[k](x.tokens) for k, x in zip(kinds, (a, b), strict=True))
        apart = torch.zeros(3, 3)
        for i in range(3):
            for j in range(3):
                mu = (first[0][i, 0] - second[0][j, 0]).square().sum()
                sigma = (first[1][i, 0].exp() - second[1][j, 0].exp()).square().sum()
                apart[i, j] = mu + sigma
        doubt = apart / (200 if scale else apart.mean())
        distance = torch.tensor([[float((x - y).square().sum()) for y in b.whole.detach()]
                                 for x in a.whole.detach()])  # fmt: skip
        return (1 - (1 - cosine) * torch.exp(-(doubt + 4) / (5 * distance))) / tau

    total = both_ways(scores(seen, words_slow, ("image", "text")))
    total = total + both_ways(scores(words, seen_slow, ("text", "image")))
    total = total + both_ways(scores(seen, seen_slow, ("image", "image")))
    total = total + both_ways(scores(words, words_slow, ("text", "text")))
    tokens = slow.sentence_tokens(case.text)[:, 1:]  # a frozen text encoder is shared by the twin
    projected = F.normalize(slow.to_whole["text"](tokens), dim=-1).detach()
    patches = pool_patches(seen_slow.local, 4)
    everywhere = torch.ones(3, 16, dtype=torch.bool)
    for whole, parts, valid in (
        (seen.whole, patches, everywhere),
        (words.whole, projected, words_slow.valid),
    ):
        costs = []
        for i in range(3):
            others = [parts[j][valid[j]] for j in range(3) if j != i]
            for part in parts[i][valid[i]]:
                row = torch.cat([part[None], *others]) @ whole[i] / tau
                costs.append(-row.log_softmax(0)[0])
        total = total + 0.2 * sum(costs) / len(costs)
    torch.testing.assert_close(losses["loss_contrast"], total / 6)
    torch.testing.assert_close(losses["loss"], losses["loss_contrast"] + 0.1 * losses["loss_mask"])


def test_masks_show_what_fits_their_sentences(made):
    case = made("dusss")
    model = case.model
    model.temperature.value.data.fill_(0.2)  # that of the other terms, which learns
    for block in model.decoder.blocks:  # closed at first: nothing but directions would pass
        block.gate.data.fill_(0.5)
    seen, words = model.see(case.image), model.read(case.text)
    torch.manual_seed(5)
    found = model._mask_losses(case.image, seen, words, case.slow)
    patches = model.to_tokens["image"](model.image_encoder(case.image)[:, 1:])
    features = model.decoder(patches.mT.unflatten(2, (6, 6)))
    logits = 10 * torch.einsum("bdhw,td->bthw", features, words.whole) - 2.5
    shown = torch.einsum("bthw,bdhw->btd", logits.sigmoid(), features)
    by_feature = (F.normalize(shown, dim=-1) * words.whole).sum(-1) / 0.07
    torch.manual_seed(5)
    u = torch.rand(3, 1, 24, 24)
    own = torch.stack([logits[i, i] for i in range(3)])[:, None]
    hard = ((own + (u / (1 - u)).log()) > 0).float()
    cut = case.image * hard.repeat_interleave(4, 2).repeat_interleave(4, 3)
    by_image = words.whole @ case.slow.see(cut).whole.T / 0.07
    torch.testing.assert_close(found, both_ways(by_feature) + both_ways(by_image))


@pytest.mark.parametrize(("scale", "gains"), [(None, False), (200, True)])
def test_being_unsure_of_everything_gains_nothing(made, monkeypatch, scale, gains):
    case = made("dusss")
    model, plain = case.model, case.model._doubt
    model.distance_scale = scale
    times = torch.tensor(3.0, requires_grad=True)  # how far all Gaussians are apart
    monkeypatch.setattr(model, "_doubt", lambda x, kind: tuple(times * p for p in plain(x, kind)))
    scores = model.scores(model.see(case.image), model.read(case.text), "image", "text")
    cross_entropy(scores).backward()
    assert (times.grad.abs().item() > 1e-4) == gains


@pytest.mark.parametrize(("as_released", "learns"), [(False, True), (True, False)])
def test_gaussians_learn_unless_as_released(made, as_released, learns):
    case = made("dusss", f"vlm.as_released={as_released}")
    case.model.losses(case.image, case.text, case.slow, case.told)["loss"].backward()
    assert all((p.grad is not None) == learns for p in case.model.gaussian.parameters())
    assert all(p.grad is not None for p in case.model.image_encoder.parameters())
    assert all(p.grad is None for p in case.slow.parameters())


def test_a_sentence_is_read_whole_and_its_first_words_are_its_parts(made):
    case = made("dusss", "vlm.words=9")
    found = case.model.read(case.text)
    tokens = case.model.sentence_tokens(case.text)  # the first stands for all words
    assert case.text.mask[:, 10:].any(1).all(), "every sentence here has more than ten tokens"
    torch.testing.assert_close(found.tokens, case.model.to_tokens["text"](tokens[:, :10]))
    assert found.valid.tolist() == case.text.mask[:, 1:10].tolist()
    with_all = made("dusss").model.read(case.text)
    torch.testing.assert_close(found.whole, with_all.whole)
    assert with_all.parts.shape[1] > found.parts.shape[1] == 9


def test_a_sentence_without_parts_is_refused(made):
    with pytest.raises(UserError, match=r"vlm\.words=0: a sentence has at least one part"):
        made("dusss", "vlm.words=0")


def test_parts_are_compared_as_wholes_are_projected(made):
    case = made("dusss")
    tokens = case.model.image_encoder(case.image)[:, 1:]
    expected = F.normalize(case.model.to_whole["image"](tokens), dim=-1)
    torch.testing.assert_close(case.model.see(case.image).local, expected)


def test_the_size_at_the_papers_scale():
    words = ["text_encoder=bert", "text_encoder.weights=random", "text_encoder.frozen=false"]
    cfg = compose(
        ["scale=paper", *words, "text_encoder.vocabulary=28996", "method=vlm_pretraining",
         "vlm=dusss"]
    )  # fmt: skip
    with torch.device("meta"):
        model = build(cfg, "vlm")
    found = sum(p.numel() for p in model.parameters())
    assert found == 137_597_445  # released: 138,386,954, 590,592 of them a pooler that nobody reads
