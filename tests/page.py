"""A page of the documentation that is run as it stands: its files, and its commands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.command import ended, start

DOCS = Path(__file__).parents[1] / "docs"
SMALL = ["scale=smoke", "dataset=phantom_tiny", "scale.epochs=2", "tracking=off", "hardware=cpu"]


class Page:
    """Fences with a language are files, named in their first line; those without are commands."""

    def __init__(self, name):
        self.text = (DOCS / name).read_text()
        fences = re.findall(r"^```(\w*)\n(.*?)^```$", self.text, flags=re.S | re.M)
        self.files = {body.split()[1]: body for language, body in fences if language}
        self.commands = [
            line for language, body in fences if not language for line in body.splitlines()
        ]

    def write(self, folder):
        """The files in a user's folder, outside of the project."""
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        return folder


def run(folder, *words):
    """What a command says there."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    process = start(log, *words, cwd=str(folder), PYTHONPATH=str(folder), COLUMNS="200")
    assert ended(process) == 0, log.read_text()
    return log.read_text()


def run_python(folder, *words):
    """What Python says there."""
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
