"""The files that a lab starts its server with."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "mlflow"


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def test_the_server_is_for_this_machine_unless_asked_and_the_database_for_nobody(services):
    assert services["mlflow"]["ports"] == ["${BIND:-127.0.0.1}:${PORT:-5000}:5000"]
    assert "ports" not in services["postgres"]


def test_versions_are_exact_and_those_that_are_tested(services):
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert re.fullmatch(r"postgres:\d+\.\d+-\w+", services["postgres"]["image"])
    docker = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^FROM python:3\.11\.\d+-", docker, re.MULTILINE)
    wanted = re.findall(r"(mlflow==\S+|psycopg2-binary==\S+)", docker)
    assert wanted[0] in pins["dependencies"]
    assert [wanted[1]] == pins["optional-dependencies"]["postgres"]
    assert wanted[1] in (ROOT / "constraints.txt").read_text().split()
    assert services["mlflow"]["image"].endswith(wanted[0].partition("==")[2])


def test_the_password_is_a_file_that_git_ignores_and_stands_in_no_address(services):
    for service in services.values():
        assert service["secrets"] == ["postgres_password"]
        assert service["environment"]["POSTGRES_PASSWORD_FILE"] == "/run/secrets/postgres_password"
    assert services["mlflow"]["environment"]["MLFLOW_BACKEND_STORE_URI"].count(":") == 1
    assert (DEPLOY / ".gitignore").read_text() == "secrets/\n"


def test_every_setting_is_read_by_the_script_and_connections_suffice(services):
    script = (DEPLOY / "serve.sh").read_text()
    settings = services["mlflow"]["environment"]
    assert all(f"{{{name}" in script for name in settings)
    numbers = [int(re.search(r"\d+", settings[k])[0]) for k in ("WORKERS", "POOL_SIZE")]
    most = int(re.search(r"max_connections=(\d+)", str(services["postgres"]["command"]))[1])
    assert numbers[0] * 2 * numbers[1] < most


def test_the_script_says_what_is_missing():
    done = subprocess.run(
        ["sh", DEPLOY / "serve.sh"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "MLFLOW_BACKEND_STORE_URI: is not set: e.g. postgresql+psycopg2://" in done.stderr
