"""The command line. Nothing heavy is imported before a command is known."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module

_COMMANDS = {
    "train": ("semimedref.train", "train_command", "train one run, or with -m a whole table"),
    "plan": ("semimedref.planning.commands", "plan_command", "cells, GPU hours, memory and disk that an experiment will cost"),
    "status": ("semimedref.results.commands", "status_command", "which cells are done, running, failed or missing"),
    "table": ("semimedref.results.commands", "table_command", "the table of an experiment"),
    "figures": ("semimedref.results.figure.commands", "figures_command", "every figure of an experiment: SVG, PDF, PNG, caption and numbers"),
    "audit": ("semimedref.results.audit", "audit_command", "do the paper's own Dice and mIoU belong together?"),
    "report": ("semimedref.results.commands", "report_command", "one HTML page with table, curves and overlays"),
    "compare": ("semimedref.results.compare_commands", "compare_command", "test whether methods differ: runs, or your own per-image tables"),
    "significance": ("semimedref.results.compare_commands", "significance_command", "the paper's tests of an experiment's rows"),
    "evaluate": ("semimedref.use", "evaluate_command", "score a finished run on a split"),
    "predict": ("semimedref.use", "predict_command", "image and sentence in, mask out"),
    "analyze": ("semimedref.analysis.commands", "analyze_command", "what a trained run does with words, in numbers and a figure"),
    "model": ("semimedref.describe.commands", "model_command", "list and describe networks, import and export published checkpoints"),
    "data": ("semimedref.dataset.commands", "data_command", "verify, prepare, describe or show a data set"),
    "sync": ("semimedref.tracking", "sync_command", "rebuild MLflow from the run folders"),
    "ui": ("semimedref.tracking", "ui_command", "open MLflow on the right store"),
    "diff": ("semimedref.results.commands", "diff_command", "the config keys in which two runs, rows or options differ"),
    "export": ("semimedref.results.moving", "export_command", "pack finished runs to move them, without images and names"),
    "import": ("semimedref.results.moving", "import_command", "unpack runs that another machine has exported"),
    "gpu-check": ("semimedref.gpu_check.command", "gpu_check_command", "the first hour on a GPU: is it right, repeatable and fast?"),
    "completion": ("semimedref.completion", "completion_command", "print a completion script for bash or zsh"),
}  # fmt: skip

# For launchers; not shown to anybody.
_HIDDEN = {"_cell": ("semimedref.launch.cell", "cell_command", "")}

_EXAMPLES = {
    "train": """\
semimedref train                                        # teacher-student, 2 % labels, on the phantom
semimedref train method=supervised ratio=15pct seed=s1  # any group can be exchanged
semimedref train ratio.fraction=0.03 seed.value=7       # any value too
semimedref train -m experiment=quickstart               # every cell of a table; again: only what is missing
semimedref train -m experiment=quickstart only=0        # its first cell; only='Baseline' its first row
semimedref train -m experiment=quickstart retry_failed=true on_error=stop
semimedref train -m experiment=quickstart hydra/launcher=joblib
semimedref train -m experiment=search_phantom           # a search by Optuna; again: only the trials that are missing
semimedref train --cfg job                              # print the configuration
semimedref train --config-dir my_conf model=my_net 'trusted_packages=[my_lab]'
The same command continues an interrupted run and does nothing when it is done.""",
    "plan": """\
semimedref plan experiment=main                         # an estimate for what is not done yet; nothing is started
semimedref plan experiment=main gpu=a100 gpu.at_once=8  # conf/gpu: a100 v100 rtx3090 rtx4090 h100 own
semimedref plan experiment=main why=true out=plan.csv   # the formulas; the numbers as a file
semimedref plan                                         # all experiments, shared runs once
semimedref train -m experiment=main dry_run=true        # the same, in place of a sweep""",
    "status": "semimedref status experiment=quickstart\nsemimedref status                                       # all experiments, a line each",
    "table": """\
semimedref table experiment=quickstart                  # printed, and written as Markdown, CSV and LaTeX
semimedref table experiment=main                        # beside the paper's numbers (scale=paper)
semimedref table experiment=quickstart out=FOLDER 'table.metrics=[dice,nsd,hd95,lesion_f1]'""",
    "audit": "semimedref audit                                        # all published tables; table=main for one, all=true for every cell, out=FILE.csv",
    "figures": """\
semimedref figures experiment=quickstart                # all that its finished runs can give
semimedref figures experiment=quickstart kind=rows,label_efficiency
semimedref figures experiment=NAME kind=interventions split=test   # from `semimedref analyze … split=test`
kinds: label_efficiency sensitivity rows qualitative mixing_examples similarity interventions attention
Panels with images of patients need overlays=always. docs/figures.md says what each kind shows.""",
    "report": "semimedref report experiment=quickstart          # table, curves, figures, predictions with filters, provenance\nsemimedref report                                # all experiments that have a finished run, and a page over them",
    "compare": """\
semimedref compare RUN_A RUN_B                          # RUN: a folder, its name or its signature
semimedref compare ours=RUN theirs=per_image.csv        # a table of your own: id,patient,tp,fp,fn[,nsd,hd95,…]
semimedref compare ours=RUN_0,RUN_1 theirs=a.csv,b.csv  # two training seeds each: an interval over seeds, too
semimedref compare A B C metrics=dice,miou replicates=2000 seed=1 out=tests.json
The first is tested against each other one, with Holm's correction over all tests. docs/statistics.md has the formulas.""",
    "significance": """\
semimedref significance experiment=quickstart           # the rows of table.comparisons, seed s42, Dice and mIoU
semimedref significance experiment=quickstart seeds=all # means over seeds; an interval over seeds, too
semimedref significance experiment=quickstart statistics.bootstrap=2000 statistics.randomization=5000""",
    "evaluate": """\
semimedref evaluate run=RUN split=valid                 # RUN: a folder, its name or its signature
semimedref evaluate run=RUN split=valid weights=teacher texts=shuffled
semimedref evaluate run=RUN split=test removal=0.5      # positions removed from half of the sentences
semimedref evaluate run=RUN split=test route=oracle     # method=ispg: route=zero|ispg|oracle, removal=1 unless said""",
    "predict": """\
semimedref predict run=RUN image=chest.png text="unilateral pulmonary infection, one infected area, lower left lung."
semimedref predict run=RUN image=FOLDER texts=texts.csv out=predictions    # columns image,text""",
    "analyze": """\
semimedref analyze interventions run=RUN                # positional words masked, fuzzed, removed; others masked
semimedref analyze swap run=RUN split=test              # left and right exchanged: does the mass cross the midline?
semimedref analyze attention run=RUN weights=teacher    # attention to positional words, over their share
semimedref analyze alignment run=RUN_A,RUN_B            # similarity by positional overlap (align=clip, align=pacl)
semimedref analyze mixing run=RUN                       # lesion score and position overlap of mixed patches
Figures with images of patients need overlays=always. docs/analyses.md says how each number is defined.""",
    "model": """\
semimedref model list                                   # every network: exact, reconstruction or control
semimedref model describe model=mmi_unet                # parameters, GFLOPs, memory, inputs, loss, blocks
semimedref model describe model=mmi_unet scale=cpu depth=3 out=mmi_unet.json
semimedref model import checkpoint=FILE.pth source=mmi_unet out=mmi_unet.safetensors   # then semimedref.model.load(…)
semimedref model export model=mmi_unet.safetensors out=again.pth   # the published names; prefix=model. for Lightning
semimedref model export run=RUN weights=student source=mmi_unet out=run.pth unused_from=mmi_unet.safetensors
docs/checkpoints.md says which releases are known and what is checked.""",
    "data": """\
semimedref data describe dataset=phantom                # counts, texts, the text-blind oracle
semimedref data show dataset=phantom out=sheet.png      # a contact sheet; cases=a.png,b.png for some
semimedref data verify dataset=qata_cov19 dataset.root=FOLDER        # is it the published partition, are all files sound?
semimedref data prepare dataset=mosmed_plus dataset.root=FOLDER out=partitions   # the partition as CSV, with hashes
Without dataset.root=: SEMIMEDREF_QATA_COV19=FOLDER, or `roots:` in ~/.config/semimedref/config.yaml.""",
    "sync": "semimedref sync                               # all runs; run=RUN for one\nsemimedref sync tracking.uri=http://127.0.0.1:5000\nsemimedref sync verify=true                   # compare every value and file, also of runs that were sent whole",
    "ui": "semimedref ui                                 # tracking.ui_port=5001 for another port",
    "diff": "semimedref diff RUN_A RUN_B\nsemimedref diff experiment=quickstart 'Baseline' '+ T-S EMA'\nsemimedref diff preset=paper preset=release",
    "export": """\
semimedref export out=runs.zip                          # every finished run of multirun/
semimedref export experiment=quickstart out=quickstart.zip
semimedref export run=RUN,RUN out=two.zip weights=true  # with weights, for predict and evaluate
Patients and images are numbered, paths taken out, pictures never packed: docs/moving_results.md.""",
    "import": "semimedref import archive=runs.zip                     # run_root=FOLDER for another place than multirun/",
    "gpu-check": """\
semimedref gpu-check                                    # all checks, under an hour, and a report to send
semimedref gpu-check only=sync,amp out=FOLDER           # some of: machine flags matmul locked determinism sync loader speed amp compile
semimedref gpu-check gpu_check=rehearsal                # small and on a CPU: does the check itself work?
Exit code: 0 all is well, 1 a check failed, 3 there is no GPU. docs/gpu_check.md says what each check asks.""",
    "completion": 'eval "$(semimedref completion bash)"',
}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run a command; bad input is one line on stderr and exit code 2."""
    args = sys.argv[1:] if argv is None else argv
    if not args or args[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if args[0] == "--version":
        from semimedref import __version__

        print(f"semimedref {__version__}")
        return 0
    name, rest = args[0], args[1:]
    if name in _HIDDEN:
        return _run(name, rest)
    if name not in _COMMANDS:
        return _fail(f"unknown command '{name}': expected one of {', '.join(_COMMANDS)}")
    if any(a in ("-h", "--help") for a in rest):
        print(f"{_COMMANDS[name][2]}\n\n{_EXAMPLES[name]}")
        return 0
    return _run(name, rest)


def _run(name: str, rest: list[str]) -> int:
    module, function, _ = (_COMMANDS | _HIDDEN)[name]
    if name not in ("train", *_HIDDEN):
        rest = _searchpath(rest)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    try:
        if any("://" in word for word in rest):
            import_module("semimedref.address").check_words(rest)
        return getattr(import_module(module), function)(rest)
    except KeyboardInterrupt:
        return _fail("interrupted", code=130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("SEMIMEDREF_DEBUG"):
            raise
        message = _bad_input(error)
        if message is None:
            raise
        return _fail(message)


def _searchpath(args: list[str]) -> list[str]:
    """``--config-dir DIR`` for the commands that are not Hydra's own application."""
    args = [
        part for a in args for part in (a.split("=", 1) if a.startswith("--config-dir=") else [a])
    ]
    if "--config-dir" not in args:
        return args
    at = args.index("--config-dir")
    if at + 1 == len(args):
        return args
    folder = os.path.abspath(args[at + 1])  # noqa: PTH100 - pathlib would slow down --help
    return [*args[:at], *args[at + 2 :], f"hydra.searchpath=[file://{folder}]"]


def _bad_input(error: BaseException) -> str | None:
    """One line for an error that the user can cure; None for one of ours."""
    from semimedref.errors import UserError

    if isinstance(error, UserError):
        return str(error)
    kinds = [
        k for k in type(error).__mro__ if k.__module__.partition(".")[0] in ("hydra", "omegaconf")
    ]
    if kinds:
        from semimedref.composition_errors import explain

        return explain(error)
    if type(error).__module__.partition(".")[0] == "yaml":
        return f"a configuration file is not valid YAML: {error}"
    if isinstance(error, ValueError) and "Config group override must be" in str(error):
        return "an option is a name, not a number: e.g. seed=s42; any other value: seed.value=7"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{error.strerror}: free space or set run_root=FOLDER; the same command continues"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return None


def _fail(message: str, code: int = 2) -> int:
    print(f"semimedref: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _help() -> str:
    width = max(map(len, _COMMANDS))
    lines = [f"  {name:{width}s}  {about}" for name, (_, _, about) in _COMMANDS.items()]
    return "\n".join(
        [
            "semimedref: semi-supervised medical referring image segmentation",
            "",
            "usage: semimedref COMMAND [key=value ...]      semimedref COMMAND --help for examples",
            "",
            *lines,
            "",
            "first steps:",
            "  semimedref train -m experiment=quickstart && semimedref table experiment=quickstart",
            "",
            "Unofficial. Research use only; not a medical device.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
