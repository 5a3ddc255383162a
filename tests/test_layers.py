"""Imports point downwards only."""

import ast
from pathlib import Path

import semimedref

ROOT = Path(semimedref.__file__).parent
# From the top down; modules in one line may import each other.
LAYERS = [
    {"cli", "completion"},
    {"train", "use", "gpu_check", "composition_errors", "describe"},
    {
        "results",
        "analysis",
        "sweep",
        "only",
        "search",
        "planning",
        "launch",
        "application",
        "expansion",
        "predictor",
        "run",
        "needs",
        "final_test",
        "overlays",
        "outcome",
    },
    {
        "trainer",
        "tracking",
        "evaluate",
        "folder",
        "environment",
        "interrupt",
        "progress",
        "trainer_config",
        "learning_rate",
        "stages",
    },
    {"method"},
    {"augment", "model", "align", "pseudo_label", "hardware"},
    {"dataset"},
    {
        "text",
        "metrics",
        "error_kind",
        "surface",
        "lesions",
        "mask_scores",
        "axis",
        "cores",
        "seed",
        "config",
        "combinations",
        "errors",
        "address",
        "files",
        "intensity",
        "options",
        "owner",
        "switches",
        "checkpoint",
        "torchvision_shim",
    },
]
APART = {("augment", "model"), ("model", "augment")}


def level(name):
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            parts = node.module.split(".")
            if parts[0] == "semimedref":
                names = [parts[1]] if len(parts) > 1 else [a.name for a in node.names]
                yield from ((node.lineno, n) for n in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "semimedref" and len(parts) > 1:
                    yield node.lineno, parts[1]


def test_imports_point_downwards_only():
    wrong = []
    for file in ROOT.rglob("*.py"):
        relative = file.relative_to(ROOT)
        own = relative.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for line, name in imports(file):
            if name.startswith("__"):
                continue
            if level(name) < level(own) or (own, name) in APART:
                wrong.append(f"{relative}:{line} ({own}) imports {name}")
    assert not wrong, "\n".join(wrong)


def test_only_build_instantiates():
    users = [
        f.relative_to(ROOT)
        for f in ROOT.rglob("*.py")
        if "hydra.utils" in f.read_text() and "instantiate" in f.read_text()
    ]
    assert users == [Path("config.py")]
