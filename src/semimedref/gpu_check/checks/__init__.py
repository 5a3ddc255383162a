"""The checks by name, in the order in which they run: cheap and telling ones first."""

from __future__ import annotations

# name -> (module, what it asks); modules are imported when a check runs.
CHECKS = {
    "machine": ("machine", "GPU, driver, CUDA, and whether this torch has kernels for it"),
    "flags": ("flags", "TF32 and determinism as the hardware option says, by flag and by effect"),
    "matmul": ("matmul", "TFLOP/s of a matrix product in each precision"),
    "locked": ("locked", "the losses of a locked cell, against those of a CPU"),
    "determinism": ("determinism", "the same training twice, and resumed: equal to the last bit"),
    "sync": ("sync", "no step of the ladder makes the host wait for the GPU"),
    "loader": ("loader", "page-locked batches, faster than the step consumes them"),
    "speed": ("speed", "step time, images/s, memory and TFLOP/s of the ladder"),
    "amp": ("amp", "bf16 and fp16 against FP32"),
    "compile": ("compiled", "torch.compile against eager"),
}
