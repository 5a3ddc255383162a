import subprocess
import sys

import pytest

from semimedref.environment import git_commit
from semimedref.errors import UserError
from semimedref.launch import snapshot
from semimedref.launch.snapshot import take_snapshot


def test_the_copy_runs_by_itself_and_knows_its_commit(tmp_path):
    made = take_snapshot(tmp_path)
    code = (
        "import semimedref, hydra_plugins.semimedref_sweeper as sweeper\n"
        "from semimedref.config import config_dir, compose\n"
        "from semimedref.environment import git_commit\n"
        "print(semimedref.__file__, sweeper.__file__, config_dir(), git_commit(), sep='\\n')\n"
        "compose(['experiment=quickstart'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(made.source)}, check=True,
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    *paths, commit = done.stdout.split()
    assert all(path.startswith(str(made.source.parent)) for path in paths)
    assert commit == str(git_commit())


def test_equal_code_is_copied_once_and_other_code_beside_it(tmp_path, monkeypatch):
    package = tmp_path / "code" / "own_lab"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("A = 1\n")
    (package / "weights.bin").write_bytes(b"0" * 100)
    monkeypatch.syspath_prepend(str(package.parent))
    first = take_snapshot(tmp_path, packages=["own_lab"])
    assert take_snapshot(tmp_path, packages=["own_lab"]) == first
    (package / "__init__.py").write_text("A = 2\n")
    second = take_snapshot(tmp_path, packages=["own_lab"])
    texts = [(s.source / "own_lab" / "__init__.py").read_text() for s in (first, second)]
    assert texts == ["A = 1\n", "A = 2\n"]
    assert not (first.source / "own_lab" / "weights.bin").exists()


def test_further_configuration_is_copied_in_order(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / "net.yaml").write_text(f"name: {name}\n")
    made = take_snapshot(tmp_path / "runs", config_dirs=[tmp_path / "a", tmp_path / "b"])
    texts = [(folder / "model" / "net.yaml").read_text() for folder in made.config_dirs]
    assert texts == ["name: a\n", "name: b\n"]


def test_a_package_that_is_not_there_or_is_mostly_data_is_refused(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="no such package"):
        take_snapshot(tmp_path, packages=["nowhere_to_be_found"])
    (tmp_path / "heavy").mkdir()
    (tmp_path / "heavy" / "__init__.py").write_text("#" * 2000)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(snapshot, "_LARGEST", 1000)
    with pytest.raises(UserError, match="too large to be copied"):
        take_snapshot(tmp_path, packages=["heavy"])


def test_a_half_made_copy_is_never_used(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot.shutil, "copyfile", full)
    with pytest.raises(UserError, match="No space left"):
        take_snapshot(tmp_path)
    assert not list((tmp_path / snapshot.FOLDER).iterdir())
