"""`semimedref sync` and `semimedref ui` as a user meets them."""

import json
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import fake_runs
import pytest
from live_mlflow import end, free_port, history, python_env, store_at, wait_for

from semimedref.errors import UserError
from semimedref.tracking import sync_command, sync_run
from semimedref.tracking.commands import sync, ui


def make_runs(root, *, experiments):
    folders = []
    for number, experiment in enumerate(experiments):
        cfg = fake_runs.config(root, experiment_name=experiment)
        folders.append(fake_runs.start_run(root, number, cfg))
        fake_runs.write_epochs(folders[-1], [1])
    return folders


def test_sync_prints_a_line_a_run_and_sorts_runs_into_their_experiments(root, capsys):
    folders = make_runs(root, experiments=[None, "quickstart", "quickstart"])
    assert sync_command([f"run_root={root}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[:3]] == [
        ["1/3", folders[0].name, "runs", "paused"],
        ["2/3", folders[1].name, "quickstart", "paused"],
        ["3/3", folders[2].name, "quickstart", "paused"],
    ]
    assert lines[3].startswith(f"3 runs, 3 in MLflow at sqlite:///{root}/mlflow.db, ")
    assert lines[3].endswith(", 0 failed")
    uri = f"sqlite:///{root}/mlflow.db"
    assert len(history(store_at(uri, root, experiment="quickstart"))) == 2
    assert len(history(store_at(uri, root))) == 1


def test_a_second_sync_looks_only_at_what_is_new(root, capsys, monkeypatch):
    folders = make_runs(root, experiments=[None, "quickstart", "quickstart"])
    config = fake_runs.config(root)
    assert sync(config, []) == 0
    fake_runs.write_epochs(folders[1], [2])
    capsys.readouterr()
    looked_at = []
    monkeypatch.setattr(
        "semimedref.tracking.commands.sync_run",
        lambda folder, store, **how: looked_at.append(folder) or sync_run(folder, store, **how),
    )
    assert sync(config, []) == 0
    assert looked_at == [folders[1]]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"2/3  {folders[1].name}  quickstart  paused  5 sent"
    assert lines[1].endswith(", 5 values and files sent, 0 failed")
    assert sync(config, [], verify=True) == 0
    assert looked_at[1:] == folders


def test_sync_tries_a_folder_again_that_a_busy_server_did_not_answer(root, capsys, monkeypatch):
    folders = make_runs(root, experiments=[None, None])
    tried = []

    def busy(folder, store, **how):
        tried.append(folder)
        if tried.count(folders[0]) < 2:
            raise TimeoutError("timed out")
        return sync_run(folder, store, **how)

    monkeypatch.setattr("semimedref.tracking.commands.sync_run", busy)
    assert sync(fake_runs.config(root), []) == 0
    assert tried == [folders[0], folders[0], folders[1]]
    assert capsys.readouterr().out.splitlines()[-1].endswith(", 0 failed")


def test_verify_is_true_or_false(root):
    with pytest.raises(UserError, match="verify=maybe: expected verify=true or verify=false"):
        sync_command(["verify=maybe", f"run_root={root}"])


def test_sync_of_one_folder_leaves_the_others(root, capsys):
    folders = make_runs(root, experiments=[None, None])
    assert sync_command([f"run={folders[1]}", f"run_root={root}"]) == 0
    assert list(history(store_at(f"sqlite:///{root}/mlflow.db", root))) == [folders[1].name]


def test_a_damaged_folder_fails_alone(root, capsys):
    folders = make_runs(root, experiments=[None, None])
    (folders[0] / "metrics.jsonl").write_text("not json\n")
    assert sync(fake_runs.config(root), []) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "failed: " in lines[0]
    assert "metrics.jsonl has a line that is not valid JSON" in lines[0]
    assert lines[-1].startswith("2 runs, 1 in MLflow")
    assert sync(fake_runs.config(root), [root / "no-such-run"]) == 1


def test_sync_without_a_server_is_one_clear_line(tmp_path):
    make_runs(tmp_path, experiments=[None, None])
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UserError) as error:
        sync(fake_runs.config(tmp_path, uri=uri), [])
    assert str(error.value).startswith(f"MLflow at {uri} does not answer: [Errno 111] Connection")
    assert "\n" not in str(error.value)


class Proxy(BaseHTTPRequestHandler):
    """Lets nobody in, and keeps what it was told."""

    told: ClassVar[list] = []

    def do_GET(self):
        self.told.append(self.headers["Authorization"])
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b"who are you?")

    def log_message(self, *given):
        """Silence."""


def test_a_token_goes_to_the_server_and_nowhere_else(tmp_path, monkeypatch, capfd):
    make_runs(tmp_path, experiments=[None])
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "s3cr3t-token")
    with HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{proxy.server_port}"
        with pytest.raises(UserError, match="error code 401") as error:
            sync(fake_runs.config(tmp_path, uri=uri), [])
        proxy.shutdown()
    assert set(Proxy.told) == {"Bearer s3cr3t-token"}
    printed = capfd.readouterr()
    assert "s3cr3t" not in f"{error.value} {printed.out} {printed.err}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cr3t" in path.read_bytes()]


def test_sync_with_a_damaged_database_says_what_to_do(tmp_path):
    make_runs(tmp_path, experiments=[None])
    (tmp_path / "mlflow.db").write_text("this is no database" * 100)
    with pytest.raises(UserError, match="file is not a database; delete a damaged database"):
        sync(fake_runs.config(tmp_path), [])


def test_sync_without_runs_or_without_a_store(tmp_path, capsys):
    assert sync(fake_runs.config(tmp_path / "none"), []) == 0
    assert "nothing to mirror" in capsys.readouterr().out
    with pytest.raises(UserError, match="tracking=off; use tracking=mlflow"):
        sync(fake_runs.config(tmp_path, option="off"), [])


def test_ui_names_a_server_and_refuses_a_port_in_use(tmp_path, capsys):
    import socket

    assert ui(fake_runs.config(tmp_path, uri="https://me@host:5000")) == 0
    assert capsys.readouterr().out == "MLflow is at https://host:5000\n"
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} cannot be used"):
            ui(fake_runs.config(tmp_path, ui_port=port))


@pytest.mark.slow
def test_ui_shows_runs_and_their_files(root, capsys):
    (folder,) = make_runs(root, experiments=[None])
    sync(fake_runs.config(root), [])
    run_id = json.loads((folder / "mlflow.json").read_text())["run_id"]
    port = free_port()
    code = "import sys; from semimedref.tracking import ui_command; ui_command(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, f"run_root={root}", f"tracking.ui_port={port}"],
        env=python_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline().startswith(f"MLflow opens at http://127.0.0.1:{port}")
        base = f"http://127.0.0.1:{port}"
        wait_for(f"{base}/health", process)
        answer = urllib.request.urlopen(f"{base}/api/2.0/mlflow/runs/get?run_id={run_id}")
        tags = {tag["key"]: tag["value"] for tag in json.load(answer)["run"]["data"]["tags"]}
        assert tags["name"] == folder.name
        answer = urllib.request.urlopen(f"{base}/get-artifact?path=run.json&run_uuid={run_id}")
        assert json.load(answer)["name"] == folder.name
    finally:
        end(process)
