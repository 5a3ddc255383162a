"""The commands that test differences: compare, significance. Each returns an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.options import RUN_ROOT

if TYPE_CHECKING:
    from semimedref.results.resampling import Resampling

_OPTIONS = ("replicates", "seed", "metrics", "out", "run_root", "statistics")
_FORMATS = (".json", ".csv")


def compare_command(args: Sequence[str]) -> int:
    """``semimedref compare A B [C …]``: score methods and test the first against each other.

    Each method is a run or a CSV table, several training seeds with commas between them, with a
    name before an equals sign if wanted: ``ours=RUN,RUN theirs=a.csv,b.csv``.
    """
    from semimedref.results import compare_text
    from semimedref.results.compare import compare, read_side

    given = [arg for arg in args if _is_option(arg)]
    options = {key: value for key, _, value in (arg.partition("=") for arg in given)}
    named = _named([arg for arg in args if arg not in given])
    out = _out(options.get("out"))
    resampling = _resampling(given)
    root = options.get("run_root", RUN_ROOT)
    sides = [read_side(name, sources, run_root=root) for name, sources in named.items()]
    metrics = [name for name in options.get("metrics", "").split(",") if name]
    found = compare(sides, resampling=resampling, metrics=metrics)
    print(compare_text.terminal(found), end="")
    if out is not None:
        text = compare_text.as_json(found) if out.suffix == ".json" else compare_text.as_csv(found)
        write_atomic(out, text)
        print(f"\nwritten: {out}")
    return 0


def significance_command(args: Sequence[str]) -> int:
    """``semimedref significance experiment=NAME``: the paper's test of every named pair of rows.

    ``seeds=s42`` names the training seed whose checkpoints are compared; ``seeds=all`` compares
    means over all seeds that both rows have.
    """
    from semimedref.results import hypotheses, hypotheses_text

    given = [arg for arg in args if arg.startswith(("replicates=", "statistics"))]
    seeds = next((arg.partition("=")[2] for arg in args if arg.startswith("seeds=")), "")
    overrides = [arg for arg in args if arg not in given and not arg.startswith("seeds=")]
    if not any(arg.startswith("experiment=") for arg in overrides):
        raise UserError(
            "found no experiment, expected one: `semimedref significance experiment=significance`"
        )
    from semimedref.only import expand_whole

    resampling = _resampling([*given, *(a for a in overrides if a.startswith("hydra."))])
    experiment = expand_whole("significance", overrides)
    family = hypotheses.family_of(
        experiment, resampling=resampling, seeds=seeds or resampling.locked
    )
    base = Path(experiment.run_root) / "tables" / f"{experiment.name}-significance"
    texts = {
        ".csv": hypotheses_text.as_csv(family),
        ".md": hypotheses_text.markdown(family),
        ".json": hypotheses_text.as_json(family),
    }
    files = {base.with_name(base.name + ending): text for ending, text in texts.items()}
    for path, text in files.items():
        write_atomic(path, text)
    print(hypotheses_text.terminal(family), end="")
    print(f"\nwritten: {', '.join(map(str, files))}")
    return 0


def _is_option(arg: str) -> bool:
    key, sign, _ = arg.partition("=")
    dotted = key.startswith(("statistics.", "hydra."))
    return bool(sign) and (key in _OPTIONS or dotted) and not Path(arg).exists()


def _named(methods: Sequence[str]) -> dict[str, list[str]]:
    """Tables of each method by its name: what stands before ``=``, or the argument itself."""
    named: dict[str, list[str]] = {}
    for method in methods:
        label, sign, rest = method.partition("=")
        if not sign or Path(method).exists():
            label, rest = (Path(method).name if Path(method).is_dir() else method), method
        sources = [name for name in rest.split(",") if name]
        if label in named or not sources:
            what = f"{label!r} twice" if label in named else f"no table in {method!r}"
            raise UserError(
                f"compare: found {what}; expected a name of its own for each method, "
                "e.g. `semimedref compare ours=RUN_A theirs=per_image.csv`"
            )
        named[label] = sources
    if len(named) < 2:
        raise UserError(
            f"compare: found {len(named)} methods, expected two or more runs or CSV tables: "
            "`semimedref compare RUN_A RUN_B` or `semimedref compare ours=RUN theirs=table.csv`"
        )
    return named


def _out(name: str | None) -> Path | None:
    if name is None:
        return None
    if Path(name).suffix not in _FORMATS:
        raise UserError(f"out={name}: expected a name that ends in {' or '.join(_FORMATS)}")
    return Path(name)


def _resampling(options: Sequence[str]) -> Resampling:
    """How often to draw: ``conf/statistics``, with what the command line changes."""
    from semimedref import config

    overrides = [arg for arg in options if arg.startswith(("statistics", "hydra."))]
    for arg in options:
        key, _, value = arg.partition("=")
        if key == "replicates":
            overrides += [f"statistics.bootstrap={value}", f"statistics.randomization={value}"]
        elif key == "seed":
            overrides.append(f"statistics.seed={value}")
    resampling: Resampling = config.build(config.compose(overrides), "statistics")
    return resampling
