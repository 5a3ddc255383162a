"""The command line: light to start, and bad input is one clear line."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import SMOKE

PYTHON = sys.executable


def semimedref(*args, **options):
    command = [PYTHON, "-m", "semimedref.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def assert_one_clear_line(done, *words):
    assert done.returncode not in (0, None), done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("semimedref: error:")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0], errors[0]


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
    assert_one_clear_line(semimedref("train", "-m", "experiment=quikstart"), "quickstart")


def test_an_impossible_ratio(smoke):
    assert_one_clear_line(semimedref("train", *smoke, "ratio.fraction=1.7"), "0 < fraction <= 1")


def test_an_unwritable_output_folder(smoke, tmp_path):
    (tmp_path / "file").write_text("")
    done = semimedref("train", *smoke, f"run_root={tmp_path / 'file'}")
    assert_one_clear_line(done, "file")


def test_an_image_side_that_the_model_cannot_take(smoke):
    done = semimedref("train", *smoke, "scale.image_side=128")
    assert_one_clear_line(done, "128", "96", "160")


def test_missing_encoder_weights(smoke):
    done = semimedref("train", *smoke, "text_encoder=cxr_bert", "text_encoder.weights=nowhere",
                      "scale.fusion_heads=8", env=os.environ | {"HF_HUB_OFFLINE": "1"})  # fmt: skip
    assert_one_clear_line(done, "nowhere", "weights=")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("trained")
    done = semimedref("train", *SMOKE, f"run_root={root}", "scale.epochs=1")
    assert done.returncode == 0, done.stderr
    return next(root.glob("*/result.json")).parent


@pytest.fixture
def picture(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (130, 110), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "chest.png")
    return tmp_path / "chest.png"


TEXT = "unilateral pulmonary infection, one infected area, lower left lung."


def test_predict_writes_mask_probability_and_overlay(trained, picture, tmp_path):
    out = tmp_path / "out"
    done = semimedref("predict", f"run={trained}", f"image={picture}", f"text={TEXT}", f"out={out}")
    assert done.returncode == 0, done.stderr
    mask = np.asarray(Image.open(out / "chest_mask.png"))
    assert mask.shape == (130, 110) and set(np.unique(mask)) <= {0, 255}
    assert np.asarray(Image.open(out / "chest_probability.png")).shape == (130, 110)
    assert (out / "chest_overlay.png").exists()


def test_predict_takes_a_folder_with_a_csv_of_texts(trained, picture, tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text(f'image,text\nchest.png,"{TEXT}"\n')
    done = semimedref("predict", f"run={trained}", f"image={picture.parent}", f"texts={texts}",
                      f"out={tmp_path / 'out'}")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "chest_mask.png").exists()


def test_predictor_in_python_equals_the_command(trained, picture, tmp_path):
    import semimedref as package

    prediction = package.Predictor(trained)(picture, TEXT)
    assert prediction.mask.shape == (130, 110)
    assert np.array_equal(prediction.mask, prediction.probability >= 0.5)
    semimedref("predict", f"run={trained}", f"image={picture}", f"text={TEXT}", f"out={tmp_path}")
    written = np.asarray(Image.open(tmp_path / "chest_mask.png")) > 0
    assert (written != prediction.mask).mean() < 1e-3  # thread counts may differ


def test_evaluate_gives_the_stored_score_again(trained):
    import json

    done = semimedref("evaluate", f"run={trained}", "split=test")
    assert done.returncode == 0, done.stderr
    stored = json.loads((trained / "result.json").read_text())["test"]["dice"]
    assert f"{100 * stored:6.2f}" in done.stdout


def test_an_image_that_is_none(trained, tmp_path):
    (tmp_path / "fake.png").write_text("this is no image")
    done = semimedref("predict", f"run={trained}", f"image={tmp_path / 'fake.png'}", f"text={TEXT}")
    assert_one_clear_line(done, "fake.png", "no image")


def test_a_run_that_is_none(picture, tmp_path):
    done = semimedref("predict", f"run={tmp_path}", f"image={picture}", f"text={TEXT}")
    assert_one_clear_line(done, "run=")


def test_predict_without_text_or_with_a_wrong_key(trained, picture):
    assert_one_clear_line(semimedref("predict", f"run={trained}", f"image={picture}"), "text=")
    assert_one_clear_line(semimedref("predict", f"rum={trained}", f"image={picture}"), "run=")


def test_a_truncated_checkpoint(trained, picture, tmp_path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(trained, run)
    whole = (run / "best.pt").read_bytes()
    (run / "best.pt").write_bytes(whole[: len(whole) // 2])
    done = semimedref("predict", f"run={run}", f"image={picture}", f"text={TEXT}")
    assert_one_clear_line(done, "best.pt", "truncated")


def test_a_checkpoint_of_another_model(trained, smoke, tmp_path):
    import shutil

    other = semimedref("train", *smoke, "scale.epochs=1", "image_encoder.widths=[8,16,16,16]")
    assert other.returncode == 0, other.stderr
    run = next(Path(tmp_path).glob("multirun/*/result.json")).parent
    shutil.copy(trained / "best.pt", run / "best.pt")
    assert_one_clear_line(semimedref("evaluate", f"run={run}"), "image_encoder")


def test_a_full_disk_while_training_keeps_the_previous_checkpoint(smoke, tmp_path):
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000));"
        "from semimedref.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [PYTHON, "-c", code, "train", *smoke, "scale.epochs=1"], capture_output=True, text=True
    )
    assert_one_clear_line(done, "could not write")
    resumed = semimedref("train", *smoke, "scale.epochs=1")
    assert resumed.returncode == 0, resumed.stderr


def test_data_describe_and_show(tmp_path):
    done = semimedref("data", "describe", "dataset=phantom_tiny")
    assert done.returncode == 0 and "text-blind oracle" in done.stdout, done.stderr
    sheet = tmp_path / "sheet.png"
    done = semimedref("data", "show", "dataset=phantom_tiny", f"out={sheet}")
    assert done.returncode == 0 and Image.open(sheet).size[0] > 1000, done.stderr
    assert_one_clear_line(semimedref("data", "explain"), "describe", "show")


def test_two_processes_on_one_signature_do_not_corrupt_each_other(smoke):
    command = [PYTHON, "-m", "semimedref.cli", "train", *smoke]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.2)
    second = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ends = [p.communicate(timeout=120) for p in (first, second)]
    codes = sorted((first.returncode, second.returncode))
    assert codes in ([0, 0], [0, 2]), ends
    if codes == [0, 2]:
        loser = ends[0] if first.returncode else ends[1]
        assert "is being trained already" in loser[1]
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "is done" in again.stdout
