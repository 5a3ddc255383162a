import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

_PRELUDE = """
import sys, types
from importlib.machinery import ModuleSpec

attempts = []

class Finder:
    # stands in for the installed torchvision; fails as the plain import does until nms is declared
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "torchvision" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        attempts.append(module)
        load(module)

sys.meta_path.insert(0, Finder())
"""


def _run(code: str) -> subprocess.CompletedProcess:
    script = textwrap.dedent(code)
    path = [entry for entry in sys.path if entry]
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{_PRELUDE}\n{script}"],
        capture_output=True,
        text=True,
    )


def test_missing_nms_is_declared_and_the_import_repeated():
    done = _run("""
        import torch
        def load(module):
            torch.library.register_fake("torchvision::nms")(lambda *a: None)
            torch.library.register_fake("torchvision::qnms")(lambda *a: None)
        from semimedref import torchvision_shim
        assert torchvision_shim.import_torchvision() is sys.modules["torchvision"]
        assert torchvision_shim._declare_operators.cache_info().currsize == 1
        assert len(attempts) == 2
        torch.ops.torchvision.nms
        torchvision_shim.import_torchvision()
        assert len(attempts) == 2
    """)
    assert done.returncode == 0, done.stderr


def test_nothing_is_declared_where_the_plain_import_works():
    done = _run("""
        def load(module):
            module.marker = 1
        from semimedref import torchvision_shim
        assert torchvision_shim.import_torchvision().marker == 1
        assert torchvision_shim._declare_operators.cache_info().currsize == 0
        assert len(attempts) == 1
        assert "torch" not in sys.modules
    """)
    assert done.returncode == 0, done.stderr


def test_any_other_failure_of_the_import_is_passed_on():
    done = _run("""
        def load(module):
            raise RuntimeError("libcudart is broken")
        from semimedref import torchvision_shim
        torchvision_shim.import_torchvision()
    """)
    assert done.returncode == 1
    assert "libcudart is broken" in done.stderr


def test_timm_and_transformers_import_after_the_shim():
    done = _run("""
        sys.meta_path.pop(0)
        from semimedref.torchvision_shim import import_torchvision
        import_torchvision()
        import timm
        from transformers import BertModel
    """)
    assert done.returncode == 0, done.stderr
