import math

import pytest
import torch

from semimedref.errors import UserError
from semimedref.method.fixmatch import confident, masked_cross_entropy


def test_confidence_counts_on_both_sides():
    p = torch.tensor([0.94, 0.96, 0.5, 0.06, 0.04])
    assert confident(p, 0.95).tolist() == [0, 1, 0, 0, 1]


def test_cross_entropy_of_sure_pixels_by_hand():
    logits = torch.tensor([0.0, math.log(3), math.log(3), 5.0])  # 0.5, 0.75, 0.75
    probability = torch.tensor([0.99, 0.97, 0.01, 0.6])
    sure = confident(probability, 0.95)
    expected = (math.log(2) - math.log(0.75) - math.log(0.25)) / 4  # over all four pixels
    assert masked_cross_entropy(logits, probability, sure).item() == pytest.approx(expected)


def test_the_weak_view_labels_the_strong_one_without_a_gradient(case):
    made = case("method=fixmatch", "method.threshold=0.5", "method.weight_unlabeled=0.7")
    method, unlabeled = made.method, made.unlabeled
    losses = made.step()
    weak = method.views.weak(unlabeled)
    text = method.student.encode_text(unlabeled.text)
    with torch.no_grad():
        label = (method.student(method.views.normalize(weak.image), text) > 0).float()
    strong = method.views.normalize(method.views.perturb(weak, unlabeled))
    logits = method.student(strong, text)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, label)
    torch.testing.assert_close(losses["loss_unsup"], expected)
    torch.testing.assert_close(losses["loss"], losses["loss_sup"] + 0.7 * expected)
    last = next(method.student.head.parameters())
    ours, again = (torch.autograd.grad(x, last)[0] for x in (losses["loss_unsup"], expected))
    torch.testing.assert_close(ours, again)


def test_nobody_is_sure_at_first_and_the_labeled_loss_stays(case):
    made = case("method=fixmatch", "method.threshold=0.9999999")
    losses = made.step()
    assert losses["sure"] == 0 and losses["loss_unsup"] == 0
    assert torch.equal(losses["loss"], losses["loss_sup"])


def test_boxes_are_mixed_with_their_labels(case):
    made = case("method=fixmatch", "augment=cutmix", "augment.mixer.probability=1.0",
                "method.threshold=0.5")  # fmt: skip
    method, unlabeled = made.method, made.unlabeled
    losses = made.step()
    weak = method.views.weak(unlabeled)
    text = method.student.encode_text(unlabeled.text)
    with torch.no_grad():
        p = method.student(method.views.normalize(weak.image), text).sigmoid()
    image, plan = method.views.perturb(weak, unlabeled).clone(), unlabeled.plan
    label = (p > 0.5).float()
    mixed, expected = image.clone(), label.clone()
    for i, ((x0, y0, x1, y1), j) in enumerate(zip(plan.box.tolist(), plan.donor, strict=True)):
        mixed[i, :, y0:y1, x0:x1] = image[j, :, y0:y1, x0:x1]
        expected[i, :, y0:y1, x0:x1] = label[j, :, y0:y1, x0:x1]
    logits = method.student(method.views.normalize(mixed), text)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits, expected)
    torch.testing.assert_close(losses["loss_unsup"], wanted)


@pytest.mark.parametrize("method", ["fixmatch", "unimatch"])
def test_a_confidence_that_no_pixel_has_is_refused(case, method):
    with pytest.raises(UserError, match=r"method\.threshold=95: expected a confidence"):
        case(f"method={method}", "method.threshold=95")
