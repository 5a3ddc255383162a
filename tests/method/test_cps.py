import torch

from semimedref.method.cps import hard
from semimedref.model.segmenter import Outputs


def test_a_mask_is_cut_at_one_half():
    assert hard(Outputs(torch.tensor([-0.1, 0.0, 0.1]))).tolist() == [0, 0, 1]


def test_each_network_learns_the_mask_of_the_other_on_all_images(case):
    made = case("method=cps")
    method = made.method
    losses = made.step()
    known = method.views.labeled(made.labeled)
    weak = method.views.normalize(method.views.weak(made.unlabeled).image)
    image = torch.cat([known.image, weak])
    text = [method.student.encode_text(b.text) for b in (made.labeled, made.unlabeled)]
    logits = [
        torch.cat([network(known.image, text[0]), network(weak, text[1])])
        for network in (method.student, method.second)
    ]
    assert image.shape == logits[0].shape and not torch.allclose(logits[0], logits[1])
    one, two = logits
    cross = method.loss(one, (two > 0).float()) + method.loss(two, (one > 0).float())
    torch.testing.assert_close(losses["loss_unsup"], cross)
    n = len(made.labeled)
    known_loss = method.loss(one[:n], known.mask) + method.loss(two[:n], known.mask)
    torch.testing.assert_close(losses["loss_sup"], known_loss)
    torch.testing.assert_close(losses["loss"], known_loss + 1.5 * cross)


def test_both_networks_learn_and_share_a_frozen_text_encoder(case):
    method = case("method=cps").method
    assert method.second.text_encoder is method.student.text_encoder
    learning = {id(p) for group in method.parameter_groups() for p in group["params"]}
    for network in (method.student, method.second):
        assert all(id(p) in learning for p in network.parameters() if p.requires_grad)
    trained = case("method=cps", "text_encoder.frozen=false", "text_encoder.cache=false").method
    assert trained.second.text_encoder is not trained.student.text_encoder


def test_the_first_network_is_reported_and_the_second_can_be_asked(case):
    made = case("method=cps")
    method = made.method
    first, second = (method.predict(made.labeled, weights=w) for w in ("student", "second"))
    assert not torch.allclose(first, second)
    state = method.weights()
    other = case("method=cps", "seed=s0").method
    other.load_weights(state)
    other.train(False)
    assert torch.equal(other.predict(made.labeled, weights="second"), second)
