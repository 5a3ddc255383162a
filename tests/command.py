"""The command line as a user calls it: in this process, or in one that can be killed."""

import contextlib
import io
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

# Processes are forked from one that has imported the heavy libraries and computed nothing: a start
# costs a moment instead of the seconds that these imports take.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["torch._dynamo", "transformers", "hydra.main", "semimedref.train", "semimedref.final_test"]
)


def semimedref(*args, **options):
    """A command in this process; with options of ``subprocess.run`` in a new one, as installed."""
    words = [*map(str, args)]
    if options:
        command = [sys.executable, "-m", "semimedref.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, **options)
    from semimedref.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["semimedref", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code
    return subprocess.CompletedProcess(words, code or 0, out.getvalue(), err.getvalue())


def start(log, *args, cwd=None, **environment):
    """A command in a process of its own, which writes into a file; it can be killed."""
    words = [*map(str, args)]
    process = _SERVER.Process(target=_command, args=(str(log), words, cwd, environment))
    process.start()
    return process


def ended(process, *, seconds=300):
    """The exit code of a started command, as a shell would see it."""
    process.join(seconds)
    assert process.exitcode is not None, f"still running after {seconds} s"
    return process.exitcode


def _command(log, args, cwd, environment):
    with Path(log).open("a", buffering=1) as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
    os.environ.update(environment)
    if cwd is not None:
        os.chdir(cwd)
        sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    from semimedref.cli import main

    sys.exit(main(args))


def assert_one_clear_line(done, *words):
    assert done.returncode not in (0, None), done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("semimedref: error:")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], errors[0]
