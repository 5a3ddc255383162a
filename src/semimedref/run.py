"""One run from its configuration: build, lock, train or continue, test once, write the result.

Idempotent: a finished run returns its score, an interrupted one continues, else it starts.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref import config, needs
from semimedref.combinations import check_combination
from semimedref.errors import UserError
from semimedref.folder import (
    STOPPED,
    RunFolder,
    objective,
    refuse_without_weights,
    selected_score,
)
from semimedref.owner import Owner, check
from semimedref.search.watch import Stopped, Watch
from semimedref.tracking import open_mirror
from semimedref.trainer_config import VALIDATION, TrainerConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from semimedref.axis import Axis
    from semimedref.dataset.loaders import Pool
    from semimedref.dataset.sample import ImageTextDataset
    from semimedref.hardware import Hardware
    from semimedref.method.contract import Method
    from semimedref.trainer import Trainer

log = logging.getLogger(__name__)

_SHOWN = (
    "dice",
    "miou",
    "dice_macro",
    "text_gap",
    "map",
    "auroc",
    "f1",
    "match",
)  # at the end of a run


def run(cfg: DictConfig) -> float:
    """Train the run that a configuration names.

    Returns:
        The validation score that chose its epoch. A sweeper maximizes what a run returns, so this
        is never a test score.
    """
    plain = config.resolved(cfg)
    check_combination(plain)
    folder = RunFolder.create(Path(plain["run_root"]) / config.run_name(plain))
    folder.check_same(config.signed(plain))
    if folder.result() is not None:
        return _finished(folder)
    with folder.locked() as me:
        if folder.result() is not None:  # another process finished it meanwhile
            return _finished(folder)
        folder.clear_failure()
        folder.write_json(
            "run.json",
            {
                "signature": config.signature(plain),
                "name": folder.name,
                "config": plain,
                "signed": config.signed(plain),
                "experiment": plain["experiment_name"],
                "row": plain["row"],
                "created": time.time(),
            },
        )
        try:
            start = needs.trained(cfg, run)
        except Exception as error:
            folder.write_failure(str(error), traceback.format_exc())
            raise
        with folder.logging():
            return _run(cfg, plain, folder, me, start)


def _run(
    cfg: DictConfig, plain: dict[str, Any], folder: RunFolder, me: Owner, start: dict[str, Path]
) -> float:
    """Train in a folder that this process holds, from the runs in further folders."""
    watch = Watch.open(folder.path, plain)
    mirror = open_mirror(folder.path, plain)
    mirror.notify()
    try:
        result = _train_and_test(cfg, plain, folder, me, watch.after(mirror.notify), start)
    except Stopped as stop:  # by a search; the same run without it goes on from here
        log.info("%s: %s", stop, folder.path / STOPPED)
        return stop.value
    except Exception as error:
        folder.write_failure(str(error), traceback.format_exc())
        raise
    finally:
        mirror.close()
    return objective(result)


def _finished(folder: RunFolder) -> float:
    result = folder.result()
    name = selected_score(result)
    print(f"{folder.path} is done: test {name} {100 * result['test'][name]:.2f}", flush=True)
    return objective(result)


def _train_and_test(
    cfg: DictConfig,
    plain: dict[str, Any],
    folder: RunFolder,
    me: Owner,
    on_epoch: Any,  # noqa: ANN401
    start: dict[str, Path],
) -> dict[str, Any]:
    from semimedref import checkpoint
    from semimedref.environment import reset_peak_memory
    from semimedref.final_test import final_test
    from semimedref.outcome import describe

    reset_peak_memory()
    log.info("%s  scale=%s", folder.name, plain["scale"]["name"])
    parts = Parts.build(cfg)
    if plain["study"] is not None and parts.method.selects_on != "valid":
        raise UserError(
            f"a search tunes on validation images, but this method chooses its epochs on the "
            f"{parts.method.selects_on} set: search with method.as_released=false"
        )
    for name, other in start.items():
        parts.method.start_from(name, needs.weights_of(other))
    trainer = parts.trainer(folder.path, on_epoch, guard=lambda: check(folder.path, me))
    best = trainer.fit()
    parts.threshold = best.get("val/threshold", parts.threshold)
    parts.method.load_weights(checkpoint.pick(checkpoint.load(folder.path / "best.pt"), "weights"))
    result = describe(parts, plain, folder, trainer, best)
    result["test"] = final_test(parts, folder)
    check(folder.path, me)
    folder.write_json("result.json", result)
    (folder.path / "last.pt").unlink(missing_ok=True)
    shown = [f"{k} {100 * result['test'][k]:.2f}" for k in _SHOWN if k in result["test"]]
    log.info("test, in percent: %s   in %s", "  ".join(shown), folder.path)
    return result


class Parts:
    """The objects of a run."""

    def __init__(
        self, cfg: DictConfig, dataset: ImageTextDataset, method: Method, hardware: Hardware
    ) -> None:
        self.cfg, self.dataset, self.method, self.hardware = cfg, dataset, method, hardware
        self.threshold = cfg.trainer.threshold  # of masks; a run that chooses it puts it here

    @classmethod
    def build(cls, cfg: DictConfig) -> Parts:
        """Data set, method with its networks, and hardware."""
        from semimedref import seed as seeds

        _check(cfg)
        hardware = config.build(cfg, "hardware")
        hardware.apply()
        dataset = config.build(cfg, "dataset")
        seeds.seed_everything(seeds.integer(cfg.seed.value, "init") % 2**32)
        method = config.build(cfg, "method")
        method.check_side(cfg.scale.image_side)
        method.to(hardware.device)
        teacher = getattr(method, "teacher", None)
        for network in [*method.networks(), *([teacher.network] if teacher else [])]:
            hardware.place_network(network)
        return cls(cfg, dataset, method, hardware)

    def pool(self, split: str, places: list[int] | None = None, *, masks: bool = True) -> Pool:
        """A pool of a split at the scale's side."""
        from semimedref.dataset.loaders import Pool

        whole = self.dataset.split(split)
        chosen = range(len(whole)) if places is None else places
        return Pool(whole, tuple(chosen), self.cfg.scale.image_side, masks)

    def trainer(self, folder: Path, on_epoch: Any, *, guard: Any = None) -> Trainer:  # noqa: ANN401
        """The trainer over the labeled, unlabeled and validation pools.

        It never sees test, unless a method is trained as its release was and chooses by it.
        """
        from semimedref.axis import Axis
        from semimedref.trainer import Trainer

        cfg, chosen_by = self.cfg, self.method.selects_on
        labeled, unlabeled = self._training_places()
        if chosen_by == "test":
            log.warning(
                "as released: epochs are chosen by the test set; its test scores are too good"
            )
        return Trainer(
            TrainerConfig.read(cfg.trainer),
            method=self.method,
            labeled=self.pool("train", labeled, masks=self.method.reads_masks),
            unlabeled=self.pool("train", unlabeled, masks=False),
            valid=self._reading(chosen_by, Axis(removal=self.method.removal_valid))[0],
            seed=cfg.seed.value,
            hardware=self.hardware,
            folder=folder,
            on_epoch=on_epoch,
            guard=guard,
        )

    def _training_places(self) -> tuple[list[int], list[int]]:
        """Of the images with and without a mask; a method that reads none has all in one pool."""
        if not self.method.reads_masks:
            self.dataset.prepare([])
            return list(range(len(self.dataset.split("train")))), []
        labeled, unlabeled = self.dataset.labeled_places(
            fraction=self.cfg.ratio.fraction, split_seed=self.cfg.ratio.split_seed
        )
        self.dataset.prepare(labeled)
        log.info("%d labeled and %d unlabeled images", len(labeled), len(unlabeled))
        return labeled, unlabeled

    def counts(self, split: str, *, weights: str = "student", texts: str = "true") -> Any:  # noqa: ANN401
        """Counts (N, 3) on a split, with its own or with shuffled sentences."""
        from semimedref.axis import Axis

        return self._ask(split, Axis(weights=weights, texts=texts))[0]

    def evaluate(self, split: str, axis: Axis) -> dict[str, float]:
        """Scores on a split along an axis, and the share that lost its positions, if any did."""
        from semimedref.evaluate import scores_of

        table, pool, removed = self._ask(split, axis)
        scores = scores_of(self.method, table, pool)
        return scores if axis.removal is None else scores | {"removed": removed}

    def _ask(self, split: str, axis: Axis) -> tuple[Any, Pool, float]:
        from semimedref.evaluate import measure_pool

        pool, removed = self._reading(split, axis)
        table = measure_pool(
            self.method, pool, self.hardware, weights=axis.weights, route=axis.route,
            threshold=self.threshold,
        )  # fmt: skip
        return table, pool, removed

    def _reading(self, split: str, axis: Axis) -> tuple[Pool, float]:
        from semimedref.evaluate import reading

        key, vocabulary = self.method.removal_key, self.cfg.dataset.vocabulary
        return reading(self.pool(split), axis, key=key, vocabulary=vocabulary)

    def may_show(self) -> bool:
        """Whether pictures may be written: of patients only when asked."""
        choice = self.cfg.overlays
        return choice == "always" or (choice == "synthetic" and self.dataset.synthetic)

    def overlays(self, folder: RunFolder, table: Any) -> None:  # noqa: ANN401
        """Pictures of a few test images."""
        from semimedref.overlays import write_overlays

        write_overlays(folder.path / "overlays", self, table)


def _check(cfg: DictConfig) -> None:
    """Refuse what can be refused before anything is built."""
    TrainerConfig.read(cfg.trainer)
    if cfg.overlays not in ("synthetic", "always", "never"):
        raise UserError(f"overlays={cfg.overlays}: expected synthetic, always or never")
    seed = cfg.seed.value
    if not isinstance(seed, int) or seed < 0:
        raise UserError(f"seed.value={seed}: expected a whole number from 0 on")


def finished_config(folder: Path, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration that a run folder was made with; overrides adapt it to this machine."""
    from omegaconf import OmegaConf

    refuse_without_weights(folder)
    try:
        plain = json.loads((folder / "run.json").read_text())["config"]
        plain = config.with_added_keys(plain)
        if plain["trainer"]["threshold"] == VALIDATION:
            plain["trainer"]["threshold"] = _chosen_threshold(folder)
        cfg = OmegaConf.create(plain)
        OmegaConf.set_struct(cfg, True)
        return OmegaConf.merge(cfg, OmegaConf.from_dotlist(list(overrides)))
    except FileNotFoundError as error:
        raise UserError(f"{folder} is no run folder: it has no run.json") from error


def _chosen_threshold(folder: Path) -> float:
    """What the best epoch of a run chose on validation."""
    from semimedref import checkpoint

    result = RunFolder(folder).result()
    if result is not None:
        return float(result["best"]["val/threshold"])
    return float(checkpoint.pick(checkpoint.load(folder / "best.pt"), "threshold"))
