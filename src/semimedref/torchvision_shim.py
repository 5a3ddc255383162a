"""Import torchvision also where its compiled operators do not fit the installed torch.

The torchvision wheel of PyPI is a CUDA build. Beside a CPU torch its library cannot be loaded, and
`import torchvision` stops at "operator torchvision::nms does not exist"; timm and transformers then
fail as well. Nothing here uses those operators, so declaring their signatures is enough.
Call `import_torchvision()` before the first import of timm or transformers.
"""

import importlib
import sys
from functools import cache
from types import ModuleType

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def import_torchvision() -> ModuleType:
    """Return torchvision; declare `nms` and `qnms` only if the plain import misses `nms`."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    _forget_half_imported()
    _declare_operators()
    return importlib.import_module("torchvision")


@cache  # the operators live as long as the library object
def _declare_operators() -> object:
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(name + _SIGNATURE)
    return library


def _forget_half_imported() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
