"""The training loop, for any method: step, validate, save, stop early, resume exactly.

The loop knows the method's contract (method/contract.py), a labeled and an unlabeled pool and the
validation pool. It has no handle on the test set, unless a method as released validates on it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from semimedref import checkpoint
from semimedref import seed as seeds
from semimedref.dataset.loaders import Pool, Stream, TrainingSteps
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.evaluate import best_threshold, measure_pool, prepare, scores_of, selecting
from semimedref.files import write_atomic
from semimedref.hardware import Hardware
from semimedref.interrupt import Interrupts
from semimedref.learning_rate import learning_rate
from semimedref.method.contract import Method
from semimedref.method.schedule import Progress
from semimedref.progress import EpochBar
from semimedref.stages import Stages
from semimedref.trainer_config import TrainerConfig

log = logging.getLogger(__name__)


class Trainer:
    """Trains one method in one run folder."""

    def __init__(
        self,
        config: TrainerConfig,
        *,
        method: Method,
        labeled: Pool,
        unlabeled: Pool,
        valid: Pool,
        seed: int,
        hardware: Hardware,
        folder: Path,
        on_epoch: Callable[[], None],
        guard: Callable[[], None] | None = None,
    ) -> None:
        self.config, self.method, self.valid = config, method, valid
        self.seed, self.hardware, self.folder, self.on_epoch = seed, hardware, folder, on_epoch
        self.guard = guard or (lambda: None)  # raises where another process has the folder now
        if isinstance(config.threshold, str) and not method.segments:
            raise UserError(
                f"trainer.threshold={config.threshold}: this method predicts no masks; expected a "
                "number, e.g. trainer.threshold=0.5"
            )
        self.stages = Stages(method.stages, config.epochs)
        sizes = len(labeled), len(unlabeled)
        self.steps_per_epoch = config.epoch_length(*sizes, uses_unlabeled=method.uses_unlabeled)
        self.total_steps = config.epochs * self.steps_per_epoch
        self.data = self._training_steps(labeled, unlabeled)
        method.begin(labeled, unlabeled)
        method.to(hardware.device)
        self.optimizer = self._new_optimizer()
        learning = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.learns = len(learning) > 0  # an atlas has no parameter
        self.precision = hardware.training_precision(config.precision, side=valid.side)
        self.scaler = torch.amp.GradScaler(hardware.device.type, enabled=self.precision == "fp16")
        self._forward = torch.compile(method.step) if hardware.compile else method.step
        self.step = 0
        self.selects = selecting(method, valid)
        self.score = f"val/{self.selects}"  # decides which epoch is the best
        self.best = self._nothing_yet()
        self.sums: dict[str, Tensor] = {}  # of each loss in this epoch, and how often it came
        self.counts: dict[str, int] = {}
        self.elapsed = 0.0
        self._since = time.monotonic(), 0  # when the steps of this epoch began, and with which

    def fit(self) -> dict[str, Any]:
        """Train to the end or to an early stop; returns the best epoch. Resumes if it can."""
        self._resume()
        started = time.monotonic() - self.elapsed
        loader = self.data.loader(
            self.step,
            self.total_steps,
            workers=self.hardware.workers,
            pin=self.hardware.device.type == "cuda",
        )
        saved_at = time.monotonic()
        self._since = saved_at, self.step
        bar = EpochBar(self.steps_per_epoch)
        with Interrupts() as interrupts:
            for micro_batches in loader if not self._is_over() else ():
                self._optimize(micro_batches)
                bar.advance(self.step, self.config.epochs)
                self.elapsed = time.monotonic() - started
                if self.step % self.steps_per_epoch == 0:
                    self._finish_epoch()
                    saved_at = time.monotonic()
                    self._since = saved_at, self.step
                    if self._is_over():
                        break
                elif time.monotonic() - saved_at > self.hardware.save_seconds:
                    self._save()
                    saved_at = time.monotonic()
                if interrupts.received:
                    self._save()
                    interrupts.leave(
                        f"saved at step {self.step} of {self.total_steps} in {self.folder}; "
                        "the same command continues"
                    )
        return {k: v for k, v in self.best.items() if k == "epoch" or k.startswith("val/")}

    def _optimize(self, micro_batches: list[tuple[Batch, Batch | None]]) -> None:
        """One optimizer step over its micro-batches; nothing here waits for the device."""
        progress = self.progress
        torch.manual_seed(seeds.integer(self.seed, "step", self.step))  # dropout
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(self.step) * group["lr_scale"]
        self.method.train()
        self.optimizer.zero_grad(set_to_none=True)
        for labeled, unlabeled in micro_batches:
            labeled = self.method.edit_labeled(labeled)
            pair = prepare(self.method, labeled, self.hardware), None
            if unlabeled is not None:
                plan = self.method.plan(unlabeled, progress)
                pair = pair[0], prepare(self.method, unlabeled, self.hardware, plan=plan)
            with self._autocast():
                losses = self._forward(*pair, progress)
            if self.learns:
                self.scaler.scale(losses["loss"] / len(micro_batches)).backward()
            for name, value in losses.items():
                self.sums[name] = self.sums.get(name, 0) + value.detach() / len(micro_batches)
        for name in losses:
            self.counts[name] = self.counts.get(name, 0) + 1
        if self.learns:
            self._descend()
        self.method.after_step(progress)
        self.step += 1

    def _descend(self) -> None:
        """Clip the gradients and take the optimizer's step."""
        if self.config.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            learns = [p for g in self.optimizer.param_groups for p in g["params"]]
            torch.nn.utils.clip_grad_norm_(learns, self.config.clip_norm, foreach=True)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _finish_epoch(self) -> None:
        """Validate, write the epoch's row, keep the best weights, save."""
        epoch = self.step // self.steps_per_epoch
        row: dict[str, Any] = {"epoch": epoch, "step": self.step}
        row["lr"] = self.learning_rate(self.step - 1)
        self._check_finite()  # waits for the device, so the steps are over
        row["step_seconds"] = round(
            (time.monotonic() - self._since[0]) / (self.step - self._since[1]), 6
        )
        losses = {f"train/{k}": float(v) / self.counts[k] for k, v in self.sums.items()}
        values = self.method.values(replace(self.progress, step=self.step - 1))
        threshold, table = self.evaluate(self.valid)
        scores = scores_of(self.method, table, self.valid) | threshold
        row |= losses | {f"train/{k}": v for k, v in values.items()}
        row |= {f"val/{k}": v for k, v in scores.items()}
        row |= {"seconds": round(self.elapsed, 2), "time": time.time()}
        reached = row[self.score]
        self.guard()
        if reached > self.best[self.score]:
            self.best |= {"epoch": epoch, self.score: reached}
            pooled = f"val/{self.method.selects}"  # over all domains together, where there are some
            self.best |= {pooled: row[pooled]} | {f"val/{k}": v for k, v in threshold.items()}
            state = {"epoch": epoch, self.score: reached, "weights": self.method.weights()}
            state |= threshold
            checkpoint.save(state, self.folder / "best.pt")
        if reached > self.best["mark"] + self.config.min_change:
            self.best |= {"mark": reached, "mark_epoch": epoch}
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())  # the row is on the disk before the checkpoint that counts it
        self.sums, self.counts = {}, {}
        self._save()
        log.info(
            "epoch %d/%d  loss %.4f  val %s %.4f  best %.4f (epoch %d)  %.0f s",
            epoch, self.config.epochs, losses["train/loss"], self.selects, reached,
            self.best[self.score], self.best["epoch"], self.elapsed,
        )  # fmt: skip
        self.on_epoch()

    def evaluate(self, pool: Pool) -> tuple[dict[str, float], np.ndarray]:
        """The threshold of the student's masks, if it is chosen here, and a row an image."""
        threshold = self.config.threshold
        if isinstance(threshold, str):
            chosen, table = best_threshold(
                self.method, pool, self.hardware,
                thresholds=self.config.thresholds, score=self.selects,
            )  # fmt: skip
            return {"threshold": chosen}, table
        return {}, measure_pool(self.method, pool, self.hardware, threshold=threshold)

    def learning_rate(self, step: int) -> float:
        """Of a step of the stage that is on; each stage has the whole curve, over its share."""
        since = step - self.stages.start * self.steps_per_epoch
        return learning_rate(self.config, since, self.steps_per_epoch, self.stages.share())

    @property
    def progress(self) -> Progress:
        """Where training stands in its stage."""
        start = self.stages.start * self.steps_per_epoch
        total = self.stages.epochs * self.steps_per_epoch
        return Progress(self.step - start, self.steps_per_epoch, total, self.stages.name)

    def _is_over(self) -> bool:
        """Whether training is; where a stage is and another follows, that one begins."""
        epoch, within = divmod(self.step, self.steps_per_epoch)
        if within or not (self.stages.over(epoch) or self._stops_early(epoch)):
            return False
        if self.stages.is_last:
            return True
        best = checkpoint.load(self.folder / "best.pt")
        self.method.load_weights(checkpoint.pick(best, "weights"))
        self.stages.advance(epoch)
        log.info("stage %s begins with epoch %d of the one before", self.stages.name, best["epoch"])
        self.method.enter(self.stages.name)
        self.optimizer, self.best = self._new_optimizer(), self._nothing_yet()
        self._save()
        return False

    def _stops_early(self, epoch: int) -> bool:
        config = self.config
        if config.patience is None or epoch - self.stages.start < config.min_epochs:
            return False
        return epoch - max(self.best["mark_epoch"], self.stages.start) >= config.patience

    def _new_optimizer(self) -> torch.optim.Optimizer:
        config, groups = self.config, self.method.parameter_groups()
        kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[config.optimizer]
        kind = kind if self.hardware.compile else _uncompiled(kind)
        return kind(groups, lr=config.lr, weight_decay=config.weight_decay, foreach=True)

    def _nothing_yet(self) -> dict[str, Any]:
        """No epoch is the best one."""
        return {"epoch": 0, self.score: -1.0, "mark": -1.0, "mark_epoch": 0}

    def _autocast(self) -> Any:  # noqa: ANN401 - either of two context managers
        if self.precision == "fp32":
            return nullcontext()
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.precision]
        return torch.autocast(self.hardware.device.type, dtype=dtype)

    def _training_steps(self, labeled: Pool, unlabeled: Pool) -> TrainingSteps:
        size, draws = self.config.batch_size, self.method.draws
        wanted = self.method.uses_unlabeled and len(unlabeled) > 0
        sampler = self.config.labeled_sampler if wanted else "cycle"
        known = Stream(labeled, "labeled", self.seed, size, draws, sampler)
        other = Stream(unlabeled, "unlabeled", self.seed, size, draws, "cycle")
        accumulate = self.config.accumulate
        return TrainingSteps(known, other if wanted else None, accumulate=accumulate)

    def _check_finite(self) -> None:
        """A loss that is not finite must not reach a checkpoint."""
        broken = [name for name, value in self.sums.items() if not math.isfinite(float(value))]
        if broken:
            raise UserError(
                f"{', '.join(broken)} is not finite by step {self.step}: lower trainer.lr or set "
                "trainer.clip_norm=1; the last good checkpoint is kept"
            )

    def _save(self) -> None:
        self._check_finite()
        self.guard()
        state = {
            "step": self.step,
            "stage": self.stages.state(),
            "rows": self.step // self.steps_per_epoch,
            "best": dict(self.best),
            "sums": {k: v.cpu() for k, v in self.sums.items()},
            "counts": dict(self.counts),
            "elapsed": self.elapsed,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": checkpoint.random_state(),
        }
        checkpoint.save(state, self.folder / "last.pt")

    def _resume(self) -> None:
        """Continue from ``last.pt``; rows that were written after it are cut off."""
        path = self.folder / "last.pt"
        rows = self.folder / "metrics.jsonl"
        if not path.exists():
            rows.unlink(missing_ok=True)
            return
        state = checkpoint.load(path)
        self.step = checkpoint.pick(state, "step")
        self.stages.load_state(state.get("stage") or self.stages.state())  # none: an older file
        self.best, self.elapsed, self.counts = state["best"], state["elapsed"], state["counts"]
        self.sums = {k: v.to(self.hardware.device) for k, v in state["sums"].items()}
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        checkpoint.restore_random_state(state["random"])
        kept = rows.read_text().splitlines(keepends=True)[: state["rows"]] if rows.exists() else []
        write_atomic(rows, "".join(kept))
        log.info("continues at step %d of %d", self.step, self.total_steps)


def _uncompiled(kind: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """An optimizer as it is, without the guards that import torch's compiler (a second).

    They keep the compiler out of these functions, which is of use under torch.compile alone.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    plain = {name: getattr(kind, name).__wrapped__ for name in names}
    plain["step"] = torch.no_grad()(kind.step.__wrapped__)
    return type(kind.__name__, (kind,), plain)
