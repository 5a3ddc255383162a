import pytest
import torch

from semimedref.augment.scale_brightness import ScaleBrightness
from semimedref.errors import UserError


def views(**changes):
    return ScaleBrightness(**{"scale": [0.5, 2.0], "gain": [0.5, 1.5], "offset": 51, **changes})


U = {"half": 0.0, "same": 1 / 3, "twice": 1.0}  # the first number for scales 0.5, 1 and 2
CALM = (0.5, 0.5)  # gain 1, offset 0


def test_scaling_by_hand():
    image = torch.tensor([[0.0, 0.2], [0.4, 0.6]]).reshape(1, 1, 2, 2)
    half = views()(image, torch.tensor([[U["half"], *CALM]]))
    # one pixel of the new size is the mean of four old ones; the rest is black
    torch.testing.assert_close(half[0, 0], torch.tensor([[0.3, 0.0], [0.0, 0.0]]))
    large = views()(
        image.repeat_interleave(4, 2).repeat_interleave(4, 3), torch.tensor([[1.0, *CALM]])
    )
    # of blocks of four pixels, the first now fills the frame, up to where they meet
    assert large[0, 0, :7, :7].abs().max() == 0 and large[0, 0, 7, 7] > 0
    same = views()(image, torch.tensor([[U["same"], *CALM]]))
    torch.testing.assert_close(same, image)


def test_brightness_by_hand():
    image = torch.tensor([0.1, 0.5, 0.9]).reshape(1, 1, 1, 3).expand(1, 1, 3, 3)
    u = torch.tensor([[U["same"], 1.0, 1.0], [U["same"], 0.0, 0.0]])
    found = views()(image.repeat(2, 1, 1, 1), u)[:, 0, 0]
    torch.testing.assert_close(found[0], torch.tensor([0.35, 0.95, 1.0]))  # 1.5 x + 0.2
    torch.testing.assert_close(found[1], torch.tensor([0.0, 0.05, 0.25]))  # 0.5 x - 0.2


def test_undoing_takes_a_smooth_map_back_where_it_was_seen():
    side = 48
    at = (torch.arange(side) + 0.5) / side
    smooth = (at[:, None] + 0.5 * at).reshape(1, 1, side, side) / 2
    mild = ScaleBrightness(scale=[0.9, 1.1], gain=[1, 1], offset=0)
    for first in (0.0, 0.3, 0.5, 0.8, 1.0):
        u = torch.tensor([[first, 0.5, 0.5]])
        back, seen = mild.undo(mild(smooth, u), u)
        inner = seen[..., 2:-3, 2:-3] > 0  # edges are repeated
        difference = (back - smooth)[..., 2:-3, 2:-3].abs()
        assert difference[inner].max() < 0.0053  # half a pixel, at the end of what was seen
        assert difference[inner].median() < 1e-6
        moved = (mild(smooth, u) - smooth)[..., 2:-3, 2:-3].abs()
        assert first == 0.5 or moved[inner].max() > 0.02


def test_what_was_cut_off_was_not_seen():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    back, seen = views().undo(x.repeat(3, 1, 1, 1), torch.tensor([[u, *CALM] for u in U.values()]))
    assert seen[0].all() and seen[1].all()
    assert seen[2, 0].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0] * 4, [0] * 4]
    torch.testing.assert_close(back[1], x[0])
    # of a doubled view, each pixel of the old size is the mean of four; beyond it the edge
    assert back[2, 0, :2, :2].tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert back[2, 0, 3, 3] == 15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"scale": [1.1, 0.9]},
            r"perturb\.scale=\[1\.1, 0\.9\]: expected .*; set .*=\[0\.9,1\.1\]",
        ),
        ({"gain": [0.0, 1.0]}, r"perturb\.gain=\[0\.0, 1\.0\]"),
        ({"gain": [1.0]}, r"perturb\.gain=\[1\.0\]"),
        ({"offset": -1}, r"perturb\.offset=-1: expected"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        views(**changes)
