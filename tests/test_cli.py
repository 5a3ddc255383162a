"""The command line: light to start, and bad input is one clear line."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.command import assert_one_clear_line, ended, semimedref, start

pytestmark = pytest.mark.slow

PYTHON = sys.executable


def cpu_seconds(code):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([PYTHON, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_instant_and_loads_neither_torch_nor_hydra():
    code = "import sys; from semimedref.cli import main; main(['--help']); "
    check = "assert not {'torch', 'hydra', 'omegaconf', 'mlflow', 'numpy'} & set(sys.modules)"
    assert min(cpu_seconds(code + check) for _ in range(3)) < 0.15


def test_the_configuration_composes_in_under_two_seconds():
    fastest = min(
        cpu_seconds("import sys; from semimedref.cli import main; main(['train', '--cfg', 'job'])")
        for _ in range(2)
    )
    assert fastest < 2


@pytest.mark.parametrize(
    "command",
    ["train", "status", "table", "report", "evaluate", "predict", "data", "sync", "ui", "diff"],
)
def test_every_command_has_help_with_an_example(command):
    done = semimedref(command, "--help")
    assert done.returncode == 0 and f"semimedref {command}" in done.stdout


def test_completion_knows_commands_and_options():
    from semimedref.completion import words

    assert "train" in words("")
    assert {"model=mmi_unet", "ratio=2pct", "experiment=quickstart"} <= set(words("train"))
    assert not any(word.startswith("parts") for word in words("train"))  # nothing to choose
    script = semimedref("completion", "bash").stdout
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_an_unknown_command():
    assert_one_clear_line(semimedref("trane"), "trane", "train")


def test_an_unknown_option():
    assert_one_clear_line(semimedref("train", "model=unknown_net"), "unknown_net", "mmi_unet")


def test_a_misspelt_key():
    assert_one_clear_line(semimedref("train", "trainer.learning_rat=1"), "learning_rat")
    assert_one_clear_line(semimedref("train", "trainer.batchsize=1"), "trainer.batch_size")


def test_an_unknown_experiment():
    done = semimedref("train", "-m", "experiment=quikstart", timeout=100)
    assert_one_clear_line(done, "quickstart")


def test_an_impossible_ratio(smoke):
    assert_one_clear_line(semimedref("train", *smoke, "ratio.fraction=1.7"), "0 < fraction <= 1")


def test_an_unwritable_output_folder(smoke, tmp_path):
    (tmp_path / "file").write_text("")
    done = semimedref("train", *smoke, f"run_root={tmp_path / 'file'}")
    assert_one_clear_line(done, "file")


def test_an_image_side_that_the_model_cannot_take(smoke):
    done = semimedref("train", *smoke, "scale.image_side=128")
    assert_one_clear_line(done, "128", "96", "160")


def test_missing_encoder_weights(smoke, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = semimedref("train", *smoke, "text_encoder=cxr_bert", "text_encoder.weights=nowhere",
                      "scale.fusion_heads=8")  # fmt: skip
    assert_one_clear_line(done, "nowhere", "weights=")


def test_a_full_disk_while_training_keeps_the_previous_checkpoint(smoke, tmp_path):
    from semimedref import checkpoint

    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "import semimedref.trainer as t; real = t.Trainer._finish_epoch\n"
        "def full(self):\n"
        "    if self.step > self.steps_per_epoch:\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))\n"
        "    real(self)\n"
        "t.Trainer._finish_epoch = full\n"
        "from semimedref.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([PYTHON, "-c", code, "train", *smoke], capture_output=True, text=True)
    assert_one_clear_line(done, "could not write")
    (last,) = tmp_path.glob("multirun/*/last.pt")
    assert checkpoint.load(last)["step"] == 5  # of the first epoch, whole
    resumed = semimedref("train", *smoke)
    assert resumed.returncode == 0 and "continues at step 5" in resumed.stdout, resumed.stderr


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("trainer.precision=fp8", "fp32"),
        ("trainer.lr_update=never", "step or epoch"),
        ("trainer.steps=nativ", "native"),
        ("trainer.batch_size=0", "from 1 on"),
        ("scale.epochs=0", "from 1 on"),
        ("scale.warmup_epochs=4", "warmup_epochs"),
        ("dataset.rounding=ceil", "floor"),
        ("seed.value=-1", "from 0 on"),
        ("hardware.threads=0", "from 1 on"),
        ("+trainer.foo=1", "trainer.foo"),
        ("overlays=alwys", "always"),
        ("trainer.lr=-1", "from 0 on"),
        ("trainer.lr=fast", "a number"),
        ("ratio.fraction=abc", "a number"),
    ],
)
def test_a_value_that_cannot_be_meant(smoke, override, expected):
    from semimedref.cli import _bad_input
    from semimedref.config import compose
    from semimedref.run import run

    with pytest.raises(Exception) as error:
        run(compose([*smoke, override]))
    assert expected in (_bad_input(error.value) or "")


def test_deep_images_are_stretched_and_not_clipped(tmp_path):
    from semimedref.predictor import read_gray

    ramp = np.linspace(1000, 5000, 64 * 64).astype(np.uint16).reshape(64, 64)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    gray = read_gray(tmp_path / "deep.png")
    assert gray.min() == 0 and gray.max() == 255
    assert abs(float(gray.mean()) - 127.5) < 1


def test_data_describe_and_show(tmp_path):
    done = semimedref("data", "describe", "dataset=phantom_tiny")
    assert done.returncode == 0 and "text-blind oracle" in done.stdout, done.stderr
    sheet = tmp_path / "sheet.png"
    done = semimedref("data", "show", "dataset=phantom_tiny", f"out={sheet}")
    assert done.returncode == 0 and Image.open(sheet).size[0] > 1000, done.stderr
    assert_one_clear_line(semimedref("data", "explain"), "describe", "show")


def test_two_processes_on_one_signature_do_not_corrupt_each_other(smoke, tmp_path):
    command, log = ["train", *smoke, "scale.epochs=12"], tmp_path / "log"
    first = start(log, *command)
    while first.is_alive() and not (log.exists() and "epoch 1/" in log.read_text()):
        time.sleep(0.02)
    second = semimedref(*command)
    assert_one_clear_line(second, "is being worked on already", str(first.pid))
    assert ended(first) == 0, log.read_text()
    rows = next(tmp_path.glob("multirun/*/metrics.jsonl")).read_text().splitlines()
    assert len(rows) == 12
    again = semimedref(*command)
    assert again.returncode == 0 and "is done" in again.stdout


def test_a_run_that_finished_while_we_waited_is_not_trained_again(compose_smoke, monkeypatch):
    from semimedref import folder, run

    cfg = compose_smoke("scale.epochs=1")
    real, reads = folder.RunFolder.result, []
    score = run.run(cfg)
    before = next(Path(cfg.run_root).glob("*/best.pt")).stat().st_mtime_ns

    def blind_once(self):
        reads.append(1)
        return None if len(reads) == 1 else real(self)

    monkeypatch.setattr(folder.RunFolder, "result", blind_once)
    assert run.run(cfg) == score
    assert next(Path(cfg.run_root).glob("*/best.pt")).stat().st_mtime_ns == before


def test_an_option_that_is_a_number(smoke):
    assert_one_clear_line(semimedref("train", *smoke, "seed=7"), "seed.value=7")


def test_a_misspelt_option_lists_the_options_and_nothing_else():
    done = semimedref("train", "method=supervizd")
    assert_one_clear_line(done, "supervised, teacher_student")
    assert "Config" not in done.stderr


def test_an_import_error_in_a_users_package_is_named(smoke, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "my_broken_lab"
    package.mkdir()
    (package / "__init__.py").write_text("from nowhere import nothing\n")
    done = semimedref(
        "train", *smoke, "model._target_=my_broken_lab.net.Net", "trusted_packages=[my_broken_lab]"
    )
    assert_one_clear_line(done, "my_broken_lab.net.Net", "nowhere")
