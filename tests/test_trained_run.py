"""Commands on a run that was trained: predict, evaluate, diff, and what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from semimedref import checkpoint
from semimedref.errors import UserError
from semimedref.predictor import Predictor
from semimedref.run import Parts, finished_config, run
from tests.command import assert_one_clear_line, semimedref
from tests.conftest import SMOKE

pytestmark = pytest.mark.slow


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


def test_a_checkpoint_of_another_method(trained, smoke, tmp_path):
    import shutil

    done = semimedref("train", *smoke, "scale.epochs=1", "method=supervised")
    assert done.returncode == 0, done.stderr
    run = next(tmp_path.glob("multirun/*/result.json")).parent
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    shutil.copy(run / "best.pt", copy / "best.pt")
    assert_one_clear_line(semimedref("evaluate", f"run={copy}"), "no 'teacher'", "another method")


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


def test_unquoted_commas_in_a_csv_are_refused(trained, picture, tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text(f"image,text\nchest.png,{TEXT}\n")
    done = semimedref("predict", f"run={trained}", f"image={picture.parent}", f"texts={texts}")
    assert_one_clear_line(done, "line 2", "commas")


def test_a_sentence_that_is_cut_or_names_no_place_is_noted(trained, picture, tmp_path):
    done = semimedref("predict", f"run={trained}", f"image={picture}", f"out={tmp_path / 'out'}",
                      f"text={'very ' * 30} large infection", timeout=100)  # fmt: skip
    assert done.returncode == 0
    assert "no position is recognized" in done.stderr and "max_tokens" in done.stderr


def test_a_threshold_chosen_on_validation_is_the_best_there_and_is_used_from_then_on(
    compose_smoke, tmp_path
):
    """The masks of test, evaluate and predict are cut where the best epoch's validation says."""
    cfg = compose_smoke("trainer.threshold=validation", "method=supervised", "augment=none")
    assert run(cfg) > 0
    (folder,) = (tmp_path / "multirun").glob("phantom*")
    best = json.loads((folder / "result.json").read_text())["best"]
    parts = Parts.build(finished_config(folder))
    parts.method.load_weights(checkpoint.load(folder / "best.pt")["weights"])
    reached = {}
    for parts.threshold in [round(0.05 * k, 2) for k in range(1, 20)]:
        reached[parts.threshold] = parts.method.summarize(parts.counts("valid"))["dice"]
    assert best["val/dice"] == pytest.approx(max(reached.values()), abs=1e-12)
    assert reached[best["val/threshold"]] == max(reached.values())
    parts.threshold = best["val/threshold"]
    test = json.loads((folder / "result.json").read_text())["test"]["dice"]
    assert parts.method.summarize(parts.counts("test"))["dice"] == test
    assert Predictor(folder).threshold == best["val/threshold"]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert {row["val/threshold"] for row in rows} <= set(reached)


def test_a_threshold_that_cannot_be_is_refused(compose_smoke, tmp_path):
    for wrong in ("5", "half", "-0.1"):
        with pytest.raises(UserError, match="expected a number from 0 to 1, or validation"):
            Parts.build(compose_smoke(f"trainer.threshold={wrong}"))
    with pytest.raises(UserError, match="predicts no masks"):
        words = ("method=position_predictor", "trainer=position_predictor")
        Parts.build(compose_smoke(*words, "trainer.threshold=validation")).trainer(
            tmp_path, lambda: None
        )
