"""The command line: light to start, and bad input is one clear line."""

import os
import resource
import subprocess
import sys
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
    assert_one_clear_line(done, "names no run", "signature")


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


def test_a_checkpoint_of_another_method(trained, smoke, tmp_path):
    import shutil

    done = semimedref("train", *smoke, "scale.epochs=1", "method=supervised")
    assert done.returncode == 0, done.stderr
    run = next(tmp_path.glob("multirun/*/result.json")).parent
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    shutil.copy(run / "best.pt", copy / "best.pt")
    assert_one_clear_line(semimedref("evaluate", f"run={copy}"), "no 'teacher'", "another method")


def test_deep_images_are_stretched_and_not_clipped(tmp_path):
    from semimedref.predictor import read_gray

    ramp = np.linspace(1000, 5000, 64 * 64).astype(np.uint16).reshape(64, 64)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    gray = read_gray(tmp_path / "deep.png")
    assert gray.min() == 0 and gray.max() == 255
    assert abs(float(gray.mean()) - 127.5) < 1


def test_two_sentences_for_one_image_give_two_masks(trained, picture, tmp_path):
    texts = tmp_path / "texts.csv"
    swapped = TEXT.replace("left", "right")
    texts.write_bytes(f'\ufeffimage,text\nchest.png,"{TEXT}"\nchest.png,"{swapped}"\n'.encode())
    out = tmp_path / "out"
    done = semimedref("predict", f"run={trained}", f"image={picture.parent}", f"texts={texts}",
                      f"out={out}")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"chest-1_mask.png", "chest-2_mask.png"} <= {f.name for f in out.iterdir()}


def test_a_run_that_moved_can_be_told_where_its_data_are(trained, tmp_path):
    done = semimedref("evaluate", f"run={trained}", f"dataset.root={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert next(tmp_path.glob("phantom_tiny-*/valid_images.npy"))
    assert_one_clear_line(semimedref("evaluate", f"run={trained}", "dataset.rot=x"), "rot")


def test_diff_takes_folders_and_signatures(trained, tmp_path):
    signature = trained.name.rpartition("-")[2]
    assert_one_clear_line(semimedref("diff", signature, trained, cwd=tmp_path), signature)
    (tmp_path / "multirun").symlink_to(trained.parent)
    done = semimedref("diff", signature, trained, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_data_describe_and_show(tmp_path):
    done = semimedref("data", "describe", "dataset=phantom_tiny")
    assert done.returncode == 0 and "text-blind oracle" in done.stdout, done.stderr
    sheet = tmp_path / "sheet.png"
    done = semimedref("data", "show", "dataset=phantom_tiny", f"out={sheet}")
    assert done.returncode == 0 and Image.open(sheet).size[0] > 1000, done.stderr
    assert_one_clear_line(semimedref("data", "explain"), "describe", "show")


def test_two_processes_on_one_signature_do_not_corrupt_each_other(smoke, tmp_path):
    command = [PYTHON, "-u", "-m", "semimedref.cli", "train", *smoke, "scale.epochs=40"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in first.stdout:
        if line.startswith("epoch 1/"):
            break
    second = subprocess.run(command, capture_output=True, text=True)
    assert_one_clear_line(second, "is being worked on already", str(first.pid))
    first.communicate(timeout=120)
    assert first.returncode == 0
    rows = next(tmp_path.glob("multirun/*/metrics.jsonl")).read_text().splitlines()
    assert len(rows) == 40
    again = subprocess.run(command, capture_output=True, text=True)
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


def test_unquoted_commas_in_a_csv_are_refused(trained, picture, tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text(f"image,text\nchest.png,{TEXT}\n")
    done = semimedref("predict", f"run={trained}", f"image={picture.parent}", f"texts={texts}")
    assert_one_clear_line(done, "line 2", "commas")


def test_a_sentence_that_is_cut_or_names_no_place_is_noted(trained, picture, tmp_path):
    done = semimedref("predict", f"run={trained}", f"image={picture}", f"out={tmp_path / 'out'}",
                      f"text={'very ' * 30} large infection")  # fmt: skip
    assert done.returncode == 0
    assert "no position is recognized" in done.stderr and "max_tokens" in done.stderr


def test_an_import_error_in_a_users_package_is_named(smoke, tmp_path):
    package = tmp_path / "my_lab"
    package.mkdir()
    (package / "__init__.py").write_text("from nowhere import nothing\n")
    done = semimedref("train", *smoke, "model._target_=my_lab.net.Net", "trusted_packages=[my_lab]",
                      env=os.environ | {"PYTHONPATH": str(tmp_path)})  # fmt: skip
    assert_one_clear_line(done, "my_lab.net.Net", "nowhere")
