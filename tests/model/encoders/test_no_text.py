import torch

from semimedref.method.text_choice import choose, join
from semimedref.model.encoders.no_text import NoText


def test_sentences_are_read_as_nothing_but_their_number():
    encoder = NoText()
    one = encoder(encoder.prepare(["upper left lung", "lower right lung"]))
    other = encoder(encoder.prepare(["", "anything else"]), dropout=True)
    assert one.tokens.shape == (2, 0, 0) and one.mask.shape == one.pooled.shape == (2, 0)
    assert one.mask.dtype == torch.bool and torch.equal(one.pooled, other.pooled)


def test_it_has_nothing_to_load_to_train_or_to_save():
    assert not NoText().state_dict() and not list(NoText().parameters())


def test_batches_can_be_joined_and_candidates_chosen_as_with_other_encoders():
    encoder = NoText()
    chosen = choose(encoder.prepare(["a"] * 6), torch.tensor([2, 0]), 3)
    both = join([encoder(encoder.prepare(["b"] * 3)), encoder(chosen)])
    assert both.tokens.shape == (5, 0, 0) and both.mask.shape == (5, 0)
