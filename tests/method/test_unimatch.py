import pytest
import torch

from semimedref.method.unimatch import sure_dice

ALL_SURE = ("method=unimatch", "method.threshold=0.5")


def test_dice_of_sure_pixels_by_hand():
    p = torch.tensor([0.8, 0.4, 0.9])
    probability, sure = torch.tensor([0.99, 0.01, 0.6]), torch.tensor([1.0, 1.0, 0.0])
    lesion = 1 - 2 * 0.8 / (0.64 + 0.16 + 1)
    background = 1 - 2 * 0.6 / (0.04 + 0.36 + 1)
    found = sure_dice(torch.logit(p), probability, sure)
    assert found.item() == pytest.approx((lesion + background) / 2, abs=1e-5)


def test_nothing_sure_costs_nothing():
    logits = torch.randn(2, 1, 4, 4, requires_grad=True)
    loss = sure_dice(logits, torch.full((2, 1, 4, 4), 0.6), torch.zeros(2, 1, 4, 4))
    assert loss.item() == pytest.approx(0)
    assert not torch.autograd.grad(loss, logits)[0].any()


def test_the_weights_of_the_four_terms(case):
    losses = case(*ALL_SURE).step()
    total = losses["loss_sup"] / 4 + losses["loss_unsup"] / 4 + losses["loss_fp"] / 4
    torch.testing.assert_close(losses["loss"], total)


def test_two_strong_views_have_one_geometry_and_numbers_of_their_own(case):
    made = case(*ALL_SURE, "augment.mixer.probability=1.0", "augment.jitter.probability=1.0")
    method, unlabeled = made.method, made.unlabeled
    plans = unlabeled.plan
    assert not torch.equal(plans.first.box, plans.second.box)
    weak = method.views.weak(unlabeled)
    probability = torch.rand_like(weak.image)
    strong, texts = method._strong_views(weak, unlabeled, probability)
    assert len(strong) == len(texts) == 2
    assert not torch.allclose(strong[0].image, strong[1].image)
    for view, plan in zip(strong, (plans.first, plans.second), strict=True):
        left, top, right, bottom = plan.box[0].tolist()
        inside = view.probability[0, :, top:bottom, left:right]
        donor = int(plan.donor[0])
        assert torch.equal(inside, probability[donor, :, top:bottom, left:right])


def test_each_pass_learns_the_weak_labels_where_its_boxes_put_them(case):
    made = case(*ALL_SURE, "augment.mixer.probability=1.0", "augment.jitter.probability=1.0",
                "method.feature_dropout=0.0")  # fmt: skip
    method, unlabeled, losses = made.method, made.unlabeled, made.step()
    weak = method.views.weak(unlabeled)
    text = method.student.encode_text(unlabeled.text)
    with torch.no_grad():
        p = method.student(method.views.normalize(weak.image), text).sigmoid()
    terms = []
    for one in method._twice(unlabeled):
        image, label = method.views.perturb(weak, one), (p > 0.5).float()
        mixed, target = image.clone(), label.clone()
        for i, ((x0, y0, x1, y1), j) in enumerate(
            zip(one.plan.box.tolist(), one.plan.donor, strict=True)
        ):
            mixed[i, :, y0:y1, x0:x1] = image[j, :, y0:y1, x0:x1]
            target[i, :, y0:y1, x0:x1] = label[j, :, y0:y1, x0:x1]
        assert not torch.equal(target, label)
        terms.append(plain_dice(method.student(method.views.normalize(mixed), text), target))
    assert terms[0] != terms[1]
    torch.testing.assert_close(losses["loss_unsup"], sum(terms) / 2)
    weak_again = method.student(method.views.normalize(weak.image), text)
    torch.testing.assert_close(losses["loss_fp"], plain_dice(weak_again, (p > 0.5).float()))
    inside = torch.autograd.grad(losses["loss_fp"], next(method.student.head.parameters()))[0]
    assert inside.any()


def plain_dice(logits, target):
    """Both classes, squares below, every pixel sure."""
    s, y = logits.sigmoid().flatten(), target.flatten()
    lesion = 1 - 2 * (s * y).sum() / (s.square().sum() + y.sum())
    rest = 1 - 2 * ((1 - s) * (1 - y)).sum() / ((1 - s).square().sum() + (1 - y).sum())
    return (lesion + rest) / 2


def test_dropped_features_change_the_pass_and_leave_no_trace(case):
    made = case(*ALL_SURE)
    network = made.method.student
    image = made.method.views.labeled(made.labeled).image
    text = network.encode_text(made.labeled.text)
    before = network(image, text)
    with network.dropped_features(0.5):
        dropped = network(image, text)
    assert not torch.allclose(before, dropped)
    assert torch.equal(network(image, text), before)
    with network.dropped_features(0.0):
        assert torch.equal(network(image, text), before)
