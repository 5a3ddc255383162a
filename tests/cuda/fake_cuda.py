"""Run a training step on fake CUDA tensors: device mistakes and host waits, without a GPU.

A fake tensor has a shape, a dtype and a device, but no data: a full-size step costs seconds and no
memory. Checks run in a process of their own, because the shim must be loaded before torch; one
process runs all of them, because importing torch and the networks costs more than a step:

    fake = FakeCuda(compile_shim(tmp_path))
    report = fake("mmi_unet_step:full_step")

where `full_step()` calls `fake_step_check(build, start)` and returns something that JSON can hold.
By hand: echo '["mmi_unet_step:full_step", [], {}]' | python tests/cuda/fake_cuda.py noop_cuda.so
"""

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
DEVICE = "cuda:0"


def missing_tool() -> str | None:
    """Return why the shim cannot be compiled here, or None."""
    return None if shutil.which("g++") else "no g++ to compile the CUDA shim with"


def compile_shim(folder: Path) -> Path:
    """Compile noop_cuda.cpp against the installed torch, without importing it."""
    torch = Path(importlib.util.find_spec("torch").submodule_search_locations[0])
    shim = folder / "noop_cuda.so"
    include, lib = torch / "include", torch / "lib"
    places = [f"-I{include}", f"-I{include}/torch/csrc/api/include", f"-L{lib}"]
    how = ["-std=c++20", "-O0", "-shared", "-fPIC", f"-Wl,-rpath,{lib}"]
    what = [str(HERE / "noop_cuda.cpp"), "-lc10", "-ltorch_cpu", "-o", str(shim)]
    subprocess.run(["g++", *how, *places, *what], check=True)
    return shim


class FakeCuda:
    """A process with the shim, in which checks run one after the other."""

    def __init__(self, shim: Path) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), str(shim)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)])},
        )  # fmt: skip

    def __call__(self, check: str, *args: object, **options: object) -> object:
        """Call ``module:function`` there; arguments and answer are what JSON can hold."""
        self.process.stdin.write(json.dumps([check, args, options]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise AssertionError(f"the process of {check} ended:\n{self.errors.read()[-6000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(f"{check} {args} failed:\n{answer['error'][-6000:]}")
        return answer["value"]

    def close(self) -> None:
        # At a usual exit autograd's threads, which believe in a device, may abort.
        self.process.kill()
        self.process.wait()
        self.errors.close()


def fake_step_check(
    build: Callable[[], Sequence["torch.nn.Module"]],  # noqa: F821
    start: Callable[..., Callable[[], object]],
    *,
    steps: int = 2,
) -> None:
    """Raise if a step mixes devices or makes the host wait for the device.

    Args:
        build: makes the modules; called under torch.device("meta"), so nothing is allocated.
            Modules that share parts may be returned side by side: parts stay shared.
        start: gets the modules on fake cuda:0, makes optimizer and batch, returns the step. Host
            to device copies are allowed here.
        steps: how often the step is called; the first one creates the optimizer's state.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with torch.device("meta"):
        modules = build()
    mode = FakeTensorMode()
    memo: dict[int, torch.Tensor] = {}
    for module in modules:
        _to_fake_(module, mode, memo)
    with contextlib.ExitStack() as stack:
        for patch in _patches():
            stack.enter_context(patch)
        stack.enter_context(mode)
        step = start(*modules)
        stack.enter_context(_no_host_sync())
        for _ in range(steps):
            step()


def _to_fake_(module, mode, memo) -> None:
    """Replace parameters and buffers by fake ones on the device; ties and sharing are kept."""
    import torch

    def fake(tensor):
        if id(tensor) not in memo:
            with mode:
                new = torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device=DEVICE
                )
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, tensor.requires_grad)
            memo[id(tensor)] = memo[id(new)] = new
        return memo[id(tensor)]

    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = fake(tensor)


def _patches() -> list[contextlib.AbstractContextManager]:
    """Take the paths that a real device would take."""
    from unittest import mock

    patches = [
        # cuda autocast switches itself off where no GPU is found
        mock.patch("torch.cuda.amp.common.amp_definitely_not_available", return_value=False),
        mock.patch("torch.cuda.is_bf16_supported", return_value=True),
    ]
    # transformers asks "is this tensor fake?" and then leaves out code that waits for the device
    for name, module in list(sys.modules.items()):
        if name.startswith("transformers.") and "is_fake_tensor" in vars(module):
            patches.append(mock.patch(f"{name}.is_fake_tensor", return_value=False))
    return patches


class HostSyncError(RuntimeError):
    """The host would wait for the device, or copy to it, inside the step."""


def _no_host_sync() -> contextlib.AbstractContextManager:
    """What FakeTensorMode lets pass although a real device would wait, copy or raise."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    indexing = ("index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_")

    def on_host(tensor) -> bool:
        return tensor.device.type == "cpu"

    def check_index(func, args) -> None:
        target, indices = args[0], [index for index in args[1] if index is not None]
        # x[mask] = number becomes masked_fill, without nonzero()
        fills = "put" in func._opname and args[2].numel() == 1
        for index in indices:
            if index.dtype in (torch.bool, torch.uint8) and not fills and not on_host(target):
                raise HostSyncError(f"{func} with a boolean mask: a hidden nonzero()")
            if on_host(index) != on_host(target):
                raise HostSyncError(f"{func}: {index.device} index into a {target.device} tensor")

    def check_copy(func, args, out) -> None:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if tensors and on_host(tensors[-1]) != on_host(out):
            raise HostSyncError(f"{func}: copy from {tensors[-1].device} to {out.device}")

    class NoHostSync(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func._opname in indexing:
                check_index(func, args)
            out = func(*args, **(kwargs or {}))
            if func._opname in ("_to_copy", "copy_", "_copy_from"):
                check_copy(func, args, out)
            generator = (kwargs or {}).get("generator")
            if generator is not None and generator.device.type != out.device.type:
                raise HostSyncError(f"{func}: {generator.device} generator, {out.device} tensor")
            return out

    return NoHostSync()


def _serve(shim: str) -> None:
    ctypes.CDLL(shim, ctypes.RTLD_GLOBAL)  # before torch: hooks are looked up once
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a check prints is no answer
    for line in sys.stdin:
        check, args, options = json.loads(line)
        module, function = check.split(":")
        try:
            found = getattr(importlib.import_module(module), function)(*args, **options)
            answer = {"value": found}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # see close


if __name__ == "__main__":
    sys.modules["fake_cuda"] = sys.modules["__main__"]
    _serve(*sys.argv[1:])
