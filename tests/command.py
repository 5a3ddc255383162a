"""The command line as a user calls it."""

import subprocess
import sys


def semimedref(*args, **options):
    command = [sys.executable, "-m", "semimedref.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def assert_one_clear_line(done, *words):
    assert done.returncode not in (0, None), done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("semimedref: error:")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], errors[0]
