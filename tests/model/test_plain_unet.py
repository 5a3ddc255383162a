import pytest
import torch
import torch.nn.functional as F

from semimedref.errors import UserError
from semimedref.model.plain_unet import PlainUNet
from semimedref.model.segmenter import Outputs


def net(width=4, **more):
    return PlainUNet(image_side=32, width=width, loss=more.pop("loss", "native"))


def test_it_has_the_published_number_of_parameters():
    assert sum(p.numel() for p in net(64).parameters()) == 14_751_873


def test_it_computes_what_a_u_net_written_out_computes():
    model = net().eval()
    image = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))

    def conv(part, x):
        x = F.conv2d(x, part.conv.weight, part.conv.bias, padding=1)
        norm = part.norm
        x = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        return x.relu()

    x = conv(model.stem, image.repeat(1, 3, 1, 1))
    skips = []
    for first, second in model.down:
        skips.append(x)
        x = conv(second, conv(first, F.max_pool2d(x, 2)))
    for block in model.decoder:
        up = F.conv_transpose2d(x, block.up.weight, block.up.bias, stride=2)
        first, second = block.convs
        x = conv(second, conv(first, torch.cat([skips.pop(), up], 1)))
    expected = F.conv2d(x, model.head.weight, model.head.bias)
    with torch.no_grad():
        torch.testing.assert_close(model(image, None), expected)


def test_its_loss_is_its_own_or_the_shared_one():
    outputs, target = Outputs(torch.zeros(1, 1, 2, 2)), torch.ones(1, 1, 2, 2)
    assert net(loss="shared").objective(outputs, target, lambda a, b: a.sum() + 7) == 7
    # Dice with squares 1 - 4 / (1 + 4), lesion ln 2, background nothing
    native = net().objective(outputs, target, None).item()
    assert native == pytest.approx(0.5 * 0.2 + 0.25 * 0.693147, rel=1e-4)


def test_sides_and_losses_that_it_does_not_know():
    with pytest.raises(UserError, match=r"100 px: expected a multiple of 16.*96 or .*112"):
        PlainUNet(image_side=100, width=4, loss="native")
    with pytest.raises(UserError, match=r"model.loss=dice is unknown"):
        net(loss="dice")
