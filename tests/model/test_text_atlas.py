import math

import numpy as np
import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.atlas import smoothed
from semimedref.model.text_atlas import TextAtlas
from semimedref.text.vocabulary import LUNGS

# Two images with one label, and a third with another.
UPPER_LEFT, LOWER_RIGHT = [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]
MASKS = torch.tensor([[[1, 0], [0, 0]], [[1, 1], [0, 0]], [[0, 0], [0, 1]]], dtype=torch.uint8)
LABELS = torch.tensor([UPPER_LEFT, UPPER_LEFT, LOWER_RIGHT], dtype=torch.float32)


def atlas(width=0.01, *, smoothing=0.0, side=2):
    return TextAtlas("lungs", image_side=side, width=width, smoothing=smoothing)


@pytest.fixture
def by_hand():
    def build(width=0.01):
        model = atlas(width)
        model.collect([(MASKS[:2, None], LABELS[:2]), (MASKS[2:, None], LABELS[2:])])
        return model

    return build


def ask(model, *sentences):
    side = model.means.shape[-1]
    text = model.encode_text(model.prepare_text(sentences))
    return model(torch.randn(len(sentences), 1, side, side), text)[:, 0]


@pytest.mark.parametrize(
    ("sentence", "mean"),
    [
        ("upper left lung", [[1, 1 / 2], [0, 0]]),
        ("lower right lung", [[0, 0], [0, 1]]),
        ("upper middle left lung", [[1, 1 / 2], [0, 0]]),  # unseen; one region from the first label
        ("middle left lung", [[2 / 3, 1 / 3], [0, 1 / 3]]),  # unseen; as far from all three images
    ],
)
def test_a_narrow_width_gives_the_mean_of_the_label_or_of_the_nearest(by_hand, sentence, mean):
    found = ask(by_hand(), sentence)[0].sigmoid()
    torch.testing.assert_close(found, torch.tensor(mean).float(), atol=2e-6, rtol=0)


def test_a_width_of_1_over_log_2_halves_an_image_for_each_region_that_differs(by_hand):
    # The third image differs in two regions, so it counts 1/4 beside the two that count 1.
    found = ask(by_hand(1 / math.log(2)), "upper left lung")[0].sigmoid()
    by_hand_too = torch.tensor([[8 / 9, 4 / 9], [0, 1 / 9]])
    torch.testing.assert_close(found, by_hand_too, atol=2e-6, rtol=0)


def test_the_threshold_shifts_logits_so_that_a_cut_at_one_half_is_one_of_the_mean(by_hand):
    model = by_hand()
    model.threshold.fill_(1 / 3)
    logits = ask(model, "upper left lung", "middle left lung")
    assert logits[0, 0, 1].item() == pytest.approx(math.log(2))  # odds of 1/2 over odds of 1/3
    assert logits[1, 0, 1].item() == pytest.approx(0, abs=1e-6)  # a mean of 1/3
    assert (logits[0].sigmoid() >= 0.5).tolist() == [[True, True], [False, False]]


def blurred(image, sigma):
    """The Gaussian pixel by pixel, over the pixels that there are."""
    side, out = len(image), np.zeros_like(image)
    for y in range(side):
        for x in range(side):
            weight = np.array([
                [math.exp(-((y - v) ** 2 + (x - u) ** 2) / (2 * sigma**2)) for u in range(side)]
                for v in range(side)
            ])  # fmt: skip
            out[y, x] = (weight * image).sum() / weight.sum()
    return out


def test_it_is_the_weighted_mean_over_all_labeled_images_one_by_one():
    rng = np.random.default_rng(0)
    masks, labels = rng.integers(0, 2, (30, 8, 8)), rng.integers(0, 2, (30, 6))
    masks[labels[:, 0] == 1, :, 4:] = 0
    model = atlas(0.7, smoothing=0.1, side=8)
    model.collect([(torch.from_numpy(masks)[:, None], torch.from_numpy(labels).float())])
    for q in ([1, 0, 0, 0, 0, 1], [0, 0, 0, 1, 1, 1], [0, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]):
        weight = [math.exp(-sum(a != b for a, b in zip(own, q, strict=True)) / 0.7)
                  for own in labels]  # fmt: skip
        mean = sum(w * m for w, m in zip(weight, masks, strict=True)) / sum(weight)
        found = ask(model, LUNGS.phrase(LUNGS.indices(q)))[0].sigmoid().numpy()
        np.testing.assert_allclose(found, blurred(mean, 0.8), atol=1e-5)


def test_order_and_batches_of_the_labeled_images_do_not_matter(by_hand):
    other = atlas()
    other.collect([(MASKS[[2, 0]][:, None], LABELS[[2, 0]]), (MASKS[[1], None], LABELS[[1]])])
    for name, value in by_hand().state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_collecting_again_does_not_count_twice(by_hand):
    model = by_hand()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.collect([(MASKS[:, None], LABELS)])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.counts.tolist() == [1.0, 2.0]


def test_smoothing_keeps_a_constant_and_the_place_of_a_dot():
    torch.testing.assert_close(smoothed(torch.full((1, 5, 5), 0.3), sigma=1.0),
                               torch.full((1, 5, 5), 0.3))  # fmt: skip
    dot = torch.zeros(1, 5, 5)
    dot[0, 1, 3] = 1
    soft = smoothed(dot, sigma=0.5)[0]
    assert divmod(int(soft.argmax()), 5) == (1, 3) and soft.max() < 1
    assert smoothed(dot, sigma=0) is dot


def test_a_checkpoint_brings_its_labels_and_its_threshold(by_hand):
    model, fresh = by_hand(0.7), atlas(0.7)
    model.threshold.fill_(0.2)
    fresh.load_trainable_state(model.trainable_state())
    sentences = ("upper left lung", "lower right lung", "middle right lung")
    assert torch.equal(ask(model, *sentences), ask(fresh, *sentences))


def test_a_checkpoint_of_another_side_or_vocabulary_is_refused(by_hand):
    state = by_hand().trainable_state()
    with pytest.raises(UserError, match=r"means is \(2, 2, 2\) instead of \(2, 4, 4\)"):
        atlas(side=4).load_trainable_state(state)
    other = TextAtlas("quadrants", image_side=2, width=0.7, smoothing=0)
    with pytest.raises(UserError, match=r"labels is \(2, 6\) instead of \(2, 5\)"):
        other.load_trainable_state(state)
    with pytest.raises(UserError, match="means is missing"):
        atlas().load_trainable_state({k: v for k, v in state.items() if k != "means"})


def test_nothing_is_to_be_trained(by_hand):
    assert not list(by_hand().parameters())


def test_another_side_is_refused(by_hand):
    with pytest.raises(UserError, match="cannot take images of 3 px"):
        by_hand()(torch.zeros(1, 1, 3, 3), None)


@pytest.mark.parametrize(("key", "value"), [("width", 0), ("width", -1.0), ("smoothing", -0.1)])
def test_impossible_numbers_are_refused(key, value):
    with pytest.raises(UserError, match=rf"model\.{key}={value}"):
        TextAtlas("lungs", image_side=2, **{"width": 0.7, "smoothing": 0.0, key: value})
