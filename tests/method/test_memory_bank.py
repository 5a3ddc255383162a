import math

import pytest
import torch
import torch.nn.functional as F

from semimedref.method.memory_bank import MemoryBank, contrast, retrieved


def bank(rows=3, width=2, momentum=0.9):
    """Images at places 4, 0 and 2 of a split of five."""
    return MemoryBank(torch.tensor([1, 0, 2, 0, 0]), rows, width=width, momentum=momentum)


def test_a_row_is_first_what_comes_and_then_follows_slowly():
    made = bank()
    made.remember(torch.tensor([2]), torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
    assert made.image.tolist() == [[0, 0], [0, 0], [1, 2]]
    assert made.seen.tolist() == [False, False, True]
    both = torch.tensor([[11.0, 2.0], [5.0, 6.0]]), torch.tensor([[3.0, 14.0], [7.0, 8.0]])
    made.remember(torch.tensor([2, 0]), *both)
    torch.testing.assert_close(made.image, torch.tensor([[0.0, 0], [5, 6], [2, 2]]))
    torch.testing.assert_close(made.text, torch.tensor([[0.0, 0], [7, 8], [3, 5]]))
    assert made.seen.tolist() == [False, True, True]


def test_of_an_image_that_comes_twice_in_a_batch_the_first_counts():
    made = bank()
    features = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    made.remember(torch.tensor([0, 2, 0]), features, features)
    assert made.image.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_no_gradient_enters_the_bank():
    made, features = bank(), torch.ones(1, 2, requires_grad=True)
    made.remember(torch.tensor([0]), features, 2 * features)
    assert not made.image.requires_grad and not made.text.requires_grad


def cosine(a, b):
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(x) ** 2 for x in a) * sum(float(y) ** 2 for y in b))


def plain_positive(query, keys, values, seen, nearest):
    """A loop over the rows that were seen."""
    likeness = {i: cosine(query, keys[i]) for i in range(len(keys)) if seen[i]}
    best = sorted(likeness, key=likeness.__getitem__, reverse=True)[:nearest]
    total = sum(math.exp(likeness[i]) for i in best)
    return sum(math.exp(likeness[i]) / total * values[i] for i in best)


def plain_contrast(query, positive, rows, seen, tau):
    own = math.exp(cosine(query, positive) / tau)
    rest = sum(math.exp(cosine(query, rows[i]) / tau) for i in range(len(rows)) if seen[i])
    return -math.log(own / (own + rest))


@pytest.fixture
def numbers():
    g = torch.Generator().manual_seed(0)
    return [torch.randn(n, 4, generator=g) for n in (3, 9, 9)]


SEEN = torch.tensor([True, True, False, True, True, True, False, True, True])


@pytest.mark.parametrize("nearest", [1, 5, 8, 20])
def test_positives_against_a_plain_loop(numbers, nearest):
    query, keys, values = numbers
    found = retrieved(query, keys, values, SEEN, nearest)
    for q, row in zip(query, found, strict=True):
        torch.testing.assert_close(row, plain_positive(q, keys, values, SEEN, nearest))


def test_two_equally_like_rows_weigh_the_same_by_hand():
    keys = torch.tensor([[2.0, 0.0], [5.0, 0.0], [0.0, 1.0]])
    values = torch.tensor([[1.0], [3.0], [100.0]])
    seen = torch.tensor([True, True, True])
    query = torch.tensor([[0.1, 0.0]])
    assert retrieved(query, keys, values, seen, 2).item() == pytest.approx(2.0)
    third = retrieved(query, keys, values, seen, 3).item()  # cosines 1, 1, 0
    assert third == pytest.approx((4 * math.e + 100) / (2 * math.e + 1), rel=1e-5)


def test_the_contrast_against_a_plain_loop(numbers):
    query, _, rows = numbers
    positive = rows[[0, 3, 4]] + 0.1
    expected = [
        plain_contrast(q, p, rows, SEEN, 0.07) for q, p in zip(query, positive, strict=True)
    ]
    found = contrast(query, positive, rows, SEEN, 0.07)
    assert found.item() == pytest.approx(sum(expected) / 3, rel=1e-5)


def test_positives_are_found_by_the_sentence_and_by_the_image(numbers):
    query, texts, images = numbers
    words = query.flip(0)
    made = MemoryBank(torch.arange(9), 9, width=4, momentum=0.99)
    made.load({"image": images, "text": texts, "seen": SEEN})
    expected = [0.0, 0.0]
    for q, w in zip(query, words, strict=True):
        for i, (key, keys) in enumerate(((w, texts), (q, images))):
            positive = plain_positive(key, keys, images, SEEN, 5)
            expected[i] += plain_contrast(q, positive, images, SEEN, 0.07) / 3
    found = made.contrasts(query, words, nearest=5, temperature=0.07)
    assert [x.item() for x in found] == pytest.approx(expected, rel=1e-5)


def test_cosines_keep_their_precision_under_autocast():
    g = torch.Generator().manual_seed(1)
    rows = F.normalize(1 + 1e-3 * torch.randn(50, 16, generator=g), dim=-1)  # hardly differ
    made = MemoryBank(torch.arange(50), 50, width=16, momentum=0.99)
    made.load({"image": rows, "text": rows, "seen": torch.ones(50, dtype=torch.bool)})
    plain = made.contrasts(rows[:4], rows[:4], nearest=5, temperature=0.07)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = made.contrasts(rows[:4], rows[:4], nearest=5, temperature=0.07)
    assert [x.item() for x in cast] == [x.item() for x in plain]
