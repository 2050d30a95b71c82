# SPDX-License-Identifier: Apache-2.0
"""One loop for all networks: epochs, optimiser, early stopping, checkpoints, exact continuation.

`fit` trains the network of a `Task` on some rows of its data, as a `TrainingPlan` says. After every
epoch it writes ``checkpoint.pt`` and ``log.json``; a run that was killed continues from there and
ends with the same weights, to the bit, as one that was not: the order of the images and all random
numbers of an epoch are functions of the seed and the number of the epoch. (The same bits also need
the same machine, library and number of threads.)

The result is ``weights.pt``: those of the last epoch, or, with patience, of the epoch that was best
on the validation images. Files of weights hold tensors and plain values only, and are read as such.
"""

from __future__ import annotations

import io
import json
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from calipers.arrays import I64
from calipers.errors import InputError, UsageError
from calipers.io.source import require_file
from calipers.results.files import small_json, write_atomically
from calipers.training.datasets.splits import random_of
from calipers.training.training_plan import TrainingPlan

CHECKPOINT, WEIGHTS, LOG = "checkpoint.pt", "weights.pt", "log.json"
LARGEST_LOG = 64 << 20  # bytes
CHECKPOINT_SCHEMA = "calipers.checkpoint/1"
DEVICES = ("auto", "cpu", "cuda", "mps")

Progress = Callable[[int, int], None]


class Task(Protocol):
    """What the loop needs to know of a network and its data."""

    network: nn.Module

    def loss(self, rows: I64) -> Tensor:
        """Return the loss of a batch."""

    def validate(self) -> Mapping[str, float]:
        """Return numbers of the validation images; ``score`` is to be high. Empty without any."""


@dataclass(frozen=True)
class Epoch:
    """One line of the log."""

    epoch: int
    loss: float
    rate: float
    seconds: float
    validation: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return the epoch for JSON."""
        return {
            "epoch": self.epoch,
            "loss": self.loss,
            "rate": self.rate,
            "seconds": round(self.seconds, 3),
            "validation": dict(self.validation),
        }


@dataclass(frozen=True)
class History:
    """What happened in a training."""

    epochs: tuple[Epoch, ...]
    best: int  # number of the epoch whose weights were stored

    def as_dict(self) -> dict[str, Any]:
        """Return the log for JSON."""
        rows = [epoch.as_dict() for epoch in self.epochs]
        return {"schema": "calipers.training-log/1", "best": self.best, "epochs": rows}


def fit(
    task: Task,
    plan: TrainingPlan,
    rows: I64,
    folder: Path,
    *,
    identity: str,
    seed: int,
    threads: int = 1,
    progress: Progress | None = None,
    conclude: Callable[[], None] | None = None,
) -> History:
    """Train a network, or finish a training that was interrupted.

    Parameters
    ----------
    folder
        Where checkpoint, log and weights are written; a checkpoint in it is continued.
    identity
        What makes this training different from others: a checkpoint of another one is refused.
    progress
        Called with (batches done, batches in all), first with those that a checkpoint has.
    conclude
        Called when the network has its last weights, before ``weights.pt`` is written: what it adds
        to the network is part of the file, or there is no file.
    """
    n_batches = math.ceil(len(rows) / plan.batch)
    total = plan.epochs * n_batches
    if plan.steps:
        total = min(total, plan.steps)
    # Validation comes at the end of an epoch, so steps of patience are counted in whole epochs.
    patience = plan.patience or math.ceil(plan.patience_steps / n_batches)
    with reproducible(threads):
        optimiser, schedule = _optimiser(task.network, plan, total)
        state = _Progress(task.network, optimiser, schedule, folder, identity)
        first = state.resume()
        if progress is not None:
            progress(min(first * n_batches, total), total)
        for epoch in range(first, math.ceil(total / n_batches)):
            began = time.monotonic()
            torch.manual_seed(zlib.crc32(f"{seed}-{epoch}".encode()))
            order = random_of(seed, f"epoch-{epoch}").permutation(rows)
            task.network.train()
            loss, n_seen = 0.0, 0
            for k in range(min(n_batches, total - epoch * n_batches)):
                batch = order[k * plan.batch : (k + 1) * plan.batch]
                loss += _step(task, batch, optimiser, schedule, plan) * len(batch)
                n_seen += len(batch)
                if progress is not None:
                    progress(epoch * n_batches + k + 1, total)
            task.network.eval()
            with torch.no_grad():
                validation = dict(task.validate())
            rate = optimiser.param_groups[0]["lr"]
            seconds = time.monotonic() - began
            state.add(Epoch(epoch + 1, loss / n_seen, rate, seconds, validation), patience)
            if state.finished(patience):
                break
        state.take_best()
        if conclude is not None:
            conclude()
    return state.finish()


def _step(task: Task, batch: I64, optimiser: Any, schedule: Any, plan: TrainingPlan) -> float:
    optimiser.zero_grad(set_to_none=True)
    with _precision(task.network, plan):
        loss = task.loss(batch)
    if not bool(torch.isfinite(loss)):
        raise InputError(
            "a finite loss",
            rule="non-finite",
            location=f"images {batch[:3].tolist()} ...",
            value=loss.item(),
            hint="try a smaller --rate, or clip = 1.0 in the plan",
        )
    loss.backward()
    if plan.clip:
        nn.utils.clip_grad_norm_(task.network.parameters(), plan.clip)
    optimiser.step()
    if schedule is not None:
        schedule.step()
    return float(loss.item())


def _precision(network: nn.Module, plan: TrainingPlan) -> Any:
    """Return the context of a forward pass: mixed precision if the plan and the device have it.

    bfloat16 has the range of float32, so that no loss has to be scaled, and nothing more has to be
    stored in a checkpoint.
    """
    device = next(network.parameters()).device.type
    able = device == "cpu" or (device == "cuda" and torch.cuda.is_bf16_supported())
    return torch.autocast(device, torch.bfloat16, enabled=able and plan.precision == "mixed")


def _optimiser(network: nn.Module, plan: TrainingPlan, n_steps: int) -> tuple[Any, Any]:
    parameters = [one for one in network.parameters() if one.requires_grad]
    if plan.optimiser == "adam":
        optimiser: Any = torch.optim.Adam(parameters, lr=plan.rate, weight_decay=plan.weight_decay)
    else:
        optimiser = torch.optim.SGD(
            parameters, lr=plan.rate, momentum=plan.momentum, weight_decay=plan.weight_decay
        )
    schedule = None
    if plan.schedule == "one-cycle":
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, plan.rate, total_steps=max(n_steps, 2)
        )
    return optimiser, schedule


class _Progress:
    """How far a training is, on disk after every epoch."""

    def __init__(
        self, network: nn.Module, optimiser: Any, schedule: Any, folder: Path, identity: str
    ) -> None:
        self.network, self.optimiser, self.schedule = network, optimiser, schedule
        self.folder, self.identity = folder, identity
        self.epochs: list[Epoch] = []
        self.best = 0
        self.best_weights: dict[str, Tensor] = {}

    def resume(self) -> int:
        """Take up the checkpoint, if there is one; return the number of epochs that are done."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return 0
        content = read_weights(path, self.identity)
        with refused_weights(path):
            self.network.load_state_dict(content["network"])
            self.optimiser.load_state_dict(content["optimiser"])
            if self.schedule is not None:
                self.schedule.load_state_dict(content["schedule"])
            history = _history({"epochs": content["epochs"], "best": content["best"]})
            self.epochs, self.best = list(history.epochs), history.best
            self.best_weights = dict(content["best_weights"])
            if self.best_weights.keys() != self.network.state_dict().keys():
                raise ValueError("other weights than those of the network")
        return len(self.epochs)

    def add(self, epoch: Epoch, patience: int) -> None:
        """Record an epoch, and store everything that the next one needs."""
        self.epochs.append(epoch)
        if not patience or self._is_best():
            self.best = epoch.epoch
            state = self.network.state_dict()
            self.best_weights = {name: value.detach().clone() for name, value in state.items()}
        schedule = None if self.schedule is None else self.schedule.state_dict()
        content = {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": schedule,
            "epochs": [one.as_dict() for one in self.epochs],
            "best": self.best,
            "best_weights": self.best_weights,
        }
        write_weights(self.folder / CHECKPOINT, content, self.identity)
        self._write_log()

    def _is_best(self) -> bool:
        # Without anything to validate by, the last epoch is as good as any.
        scores = [epoch.validation.get("score", float(epoch.epoch)) for epoch in self.epochs]
        return scores[-1] == max(scores) and scores.index(scores[-1]) == len(scores) - 1

    def finished(self, patience: int) -> bool:
        """Return whether no epoch was better for too long."""
        return bool(patience) and len(self.epochs) - self.best >= patience

    def take_best(self) -> None:
        """Leave the network with the weights that are stored."""
        self.network.load_state_dict(self.best_weights)
        self.network.eval()

    def finish(self) -> History:
        """Write the weights; the checkpoint has done its duty."""
        write_weights(self.folder / WEIGHTS, {"network": self.network.state_dict()}, self.identity)
        self._write_log()
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return self._history()

    def _history(self) -> History:
        return History(tuple(self.epochs), self.best)

    def _write_log(self) -> None:
        text = json.dumps(self._history().as_dict(), indent=1, allow_nan=False)
        write_atomically(self.folder / LOG, text + "\n")


def read_history(folder: Path) -> History:
    """Read the log of a model that is trained."""
    path = folder / LOG
    document = small_json(path, "the log of a training", LARGEST_LOG)
    with refused_weights(path):
        return _history(document)


def _history(document: Any) -> History:
    """Return the history in a document; what does not fit is a ValueError."""
    try:
        # Keys that a history does not have, such as the schema, are passed over.
        history = msgspec.convert(document, History)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if not 1 <= history.best <= len(history.epochs):
        raise ValueError(f"epoch {history.best} of {len(history.epochs)} as the best")
    return history


@contextmanager
def refused_weights(path: Path) -> Iterator[None]:
    """Refuse a file of a run whose content is not what the training needs, with a typed error."""
    try:
        yield
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "a file that this training wrote",
            rule="checkpoint",
            file=str(path),
            value=str(error).splitlines()[0] if str(error) else type(error).__name__,
            hint="it was damaged or is that of another network: remove its folder to train again",
        ) from None


def load_network(network: nn.Module, path: Path, identity: str) -> None:
    """Give a network the weights in a file of its training."""
    content = read_weights(path, identity)
    with refused_weights(path):
        network.load_state_dict(content["network"])


def write_weights(path: Path, content: Mapping[str, Any], identity: str) -> None:
    """Write tensors and plain values, whole or not at all."""
    buffer = io.BytesIO()
    torch.save({"schema": CHECKPOINT_SCHEMA, "identity": identity, **content}, buffer)
    write_atomically(path, buffer.getvalue())


def read_weights(path: Path, identity: str) -> dict[str, Any]:
    """Read what `write_weights` wrote; a file of another training is refused."""
    content = load_tensors(path)
    if content.get("schema") != CHECKPOINT_SCHEMA:
        raise InputError("weights of a training", rule="checkpoint", file=str(path))
    if content.get("identity") != identity:
        raise InputError(
            "weights of this training",
            rule="checkpoint",
            file=str(path),
            value="another plan, split or seed",
            hint="continue with the options of the first run, or choose a new folder",
        )
    return content


def load_tensors(path: Path) -> dict[str, Any]:
    """Read a dictionary of tensors and plain values; nothing else in the file is ever executed."""
    require_file(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zipfile, pickle and torch raise errors of their own
        kind = type(error).__name__
        hint = "a file of weights holds tensors by name, as torch.save writes them"
        raise InputError(
            "a file of weights", rule="checkpoint", file=str(path), value=kind, hint=hint
        ) from None
    if not isinstance(content, dict):
        raise InputError("tensors by name", rule="checkpoint", file=str(path), value=type(content))
    return content


def average_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of the weights of several networks of one kind.

    Notes
    -----
    The mean of networks is a network only if they started from the same weights; statistics of
    batch norm are averaged too. Whole numbers are those of the first network.
    """
    result = {}
    for name, first in states[0].items():
        if first.is_floating_point():
            result[name] = torch.stack([state[name] for state in states]).mean(dim=0)
        else:
            result[name] = first.clone()
    return result


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Work with a number of threads and with algorithms that give the same bits every time; the
    state of the library is put back at the end.
    """
    state = torch.get_rng_state()
    n_threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    # Some operations have no such algorithm on a GPU: they warn there.
    torch.use_deterministic_algorithms(True, warn_only=torch.cuda.is_available())
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict)
        torch.set_num_threads(n_threads)
        torch.set_rng_state(state)


def device_named(name: str) -> torch.device:
    """Return a device that this machine has."""
    if name not in DEVICES:
        raise UsageError(f"no device {name!r}; known: {', '.join(DEVICES)}")
    has_device = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        name = next(device for device in ("cuda", "mps", "cpu") if has_device[device])
    if not has_device[name]:
        raise UsageError(
            f"this machine has no device {name!r} that PyTorch {torch.__version__} can use; leave "
            "out --device, or give --device cpu"
        )
    return torch.device(name)


def part_of(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return the progress of a part of some work, which starts after ``before`` of ``total``."""
    if progress is None:
        return None
    return lambda step, _: progress(before + step, total)


def in_batches(rows: I64, size: int, progress: Progress | None = None) -> Iterator[I64]:
    """Yield the rows, some at a time; ``progress`` is called with (rows done, rows in all)."""
    for start in range(0, len(rows), size):
        yield np.asarray(rows[start : start + size])
        if progress is not None:
            progress(min(start + size, len(rows)), len(rows))
