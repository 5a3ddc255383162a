"""Which operators the steps of the ladder call on a (fake) GPU, backward included.

See tests/cuda/fake_cuda.py. Kernels do not run there, so torch cannot refuse them; what they are
is known all the same.
"""

import torch
from method_step import check
from torch.utils._python_dispatch import TorchDispatchMode

ROWS = [
    ("method=supervised", "augment=none", "align=none"),
    ("method=teacher_student", "augment=semi_medref", "align=pacl"),  # has all that the others have
]


class Operators(TorchDispatchMode):
    """Names of operators that got a CUDA tensor; floating ones of cumsum apart."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._opname
        if name == "cumsum":
            name += "_float" if out.is_floating_point() else "_int"
        self.names.add(name)
        return out


def operators():
    """Of the first and of the last row, in deterministic mode."""
    torch.use_deterministic_algorithms(True)
    try:
        with Operators() as seen:
            for row in ROWS:
                check(row)
    finally:
        torch.use_deterministic_algorithms(False)  # other checks run in this process
    return sorted(seen.names)


def refused():
    """A step with an operator that has no deterministic kernel is seen as such."""
    with Operators() as seen:
        image = torch.rand(1, 1, 8, 8, requires_grad=True)
        grid = torch.zeros(1, 8, 8, 2)
        torch.nn.functional.grid_sample(image, grid, align_corners=False).sum().backward()
        torch.rand(3).cumsum(0)
    return sorted(seen.names)
