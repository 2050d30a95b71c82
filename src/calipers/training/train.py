# SPDX-License-Identifier: Apache-2.0
"""`train`: from a data set to several trained models, as a plan says.

The data are opened, split by patient and decoded; every model is trained on a subset of the
training images; ``run.json`` says what was done, with the ids of every part. A folder of a run:

- ``run.json``: a `RunRecord`, from the beginning (status ``running``) to the end (``finished``);
- ``training.html``: curves of loss and validation, and the models;
- ``subset-1``, ``subset-2``, ...: ``weights.pt`` and ``log.json`` of each model, and while it is
  trained ``checkpoint.pt``.

A run that ended early is continued with ``resume=True``; models that are done are not trained
again. `calipers.training.predict` reads the folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import torch
from msgspec import Meta, Struct

from calipers import __version__
from calipers.arrays import Flags
from calipers.errors import InputError, UsageError
from calipers.io.source import hash_file, require_file
from calipers.results.files import (
    check_folder,
    environment,
    sha256_of,
    small_json,
    write_atomically,
)
from calipers.results.schema import structure
from calipers.show.table import Kind, Table
from calipers.show.words import count_text
from calipers.training.backbones import INSTALLED
from calipers.training.datasets.augment import require_transforms
from calipers.training.datasets.canvases import Canvases
from calipers.training.datasets.frames import Frames
from calipers.training.datasets.splits import ImageSplit, random_of
from calipers.training.datasets.training_images import (
    BINARY,
    DIGITS,
    TrainingImages,
    open_images,
)
from calipers.training.loop import (
    WEIGHTS,
    average_weights,
    device_named,
    load_network,
    read_history,
    reproducible,
    write_weights,
)
from calipers.training.members import Member, check_options, members_of, split_of
from calipers.training.models import AVERAGE, model_of
from calipers.training.page import write_training_page
from calipers.training.training_plan import TrainingPlan

RUN, RUN_SCHEMA = "run.json", "calipers.training-run/1"
LARGEST_RECORD = 256 << 20  # bytes; it names every image

# Called with (what is done, steps done, steps in all).
Progress = Callable[[str, int, int], None]


class ModelRecord(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One trained model."""

    name: str
    identity: str
    seed: int
    n_train: int
    n_boxed: int
    epochs: int
    best: int
    loss: float
    augment: str
    validation: float | None  # AUC of a network for whole images, AP50 of a detector
    test: float | None
    seconds: float


class RunRecord(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What ``run.json`` holds: enough to predict, and to train the same models again."""

    schema: str = RUN_SCHEMA
    calipers: str = __version__
    status: Literal["running", "finished"] = "running"
    data: str
    source: str
    labels: str | None
    classes: list[str]
    canvases: dict[str, Any] | None
    plan: TrainingPlan
    seed: int
    subsets: int
    fold: int | None
    weights: str | None
    average: bool
    ensemble: str | None
    channels: Annotated[int, Meta(ge=1, le=64)]
    split: dict[str, list[str]]
    positive: dict[str, int]
    broken: list[dict[str, str]]
    notes: list[str]
    models: list[ModelRecord]
    environment: dict[str, Any]

    def question(self) -> dict[str, Any]:
        """Return what decides on the weights: runs that differ in it are different trainings."""
        plan = {key: value for key, value in self.plan.as_dict().items() if key != "source"}
        data = {"split": self.split, "classes": self.classes, "canvases": self.canvases}
        names = ("seed", "subsets", "fold", "weights", "average", "ensemble", "channels")
        return {"plan": plan, **data, **{name: getattr(self, name) for name in names}}

    def canvas_settings(self) -> Canvases | None:
        """Return how the canvases of the run were drawn; None if the images were others."""
        if self.canvases is None:
            return None
        try:
            return msgspec.convert(self.canvases, Canvases)
        except msgspec.ValidationError as error:
            raise InputError(
                "settings of canvases", rule="type", file=RUN, location="/canvases", value=error
            ) from None

    def save(self, folder: Path) -> None:
        """Write ``run.json``."""
        text = json.dumps(msgspec.to_builtins(self), indent=1, allow_nan=False)
        write_atomically(folder / RUN, text + "\n")

    @classmethod
    def open(cls, folder: Path) -> RunRecord:
        """Read the record of a folder."""
        path = folder / RUN
        if folder.is_dir() and not path.exists():
            hint = "give the folder that calipers train -o wrote"
            raise InputError("a training run", rule="not-found", file=str(path), hint=hint)
        document = small_json(path, "the record of a training run", LARGEST_RECORD)
        return structure(document, cls, str(path), schema=RUN_SCHEMA, syntax="JSON")


def train(
    source: str,
    folder: str | Path,
    plan: str | Path | TrainingPlan = "canvases",
    *,
    labels: str | None = None,
    target: str | None = None,
    subsets: int = 5,
    seed: int = 0,
    fold: int | None = None,
    weights: str | None = None,
    average: bool = False,
    ensemble: str | None = None,
    external: str | None = None,
    canvases: Canvases | None = None,
    device: str = "auto",
    jobs: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
) -> RunRecord:
    """Train several models on subsets of one data set.

    Parameters
    ----------
    source, labels
        The data, see `calipers.training.datasets.training_images.open_images`.
    folder
        For the run; new or empty, unless an earlier run is continued.
    plan
        The name of a plan, a TOML file, or a plan.
    target
        The class to find. Not needed if there is only one; a detector finds all by default.
    subsets
        Number of models; each is trained on ``subset_share`` of the training images.
    fold
        Test on this one of five folds, from 1, instead of on a fifth of the patients.
    weights
        Of the backbone: a file, or ``installed``.
    average
        Start all models from the same weights, and add the mean of their weights as a model.
    ensemble
        ``endocv2022``: two folds with light and heavy augmentation, instead of subsets.
    external
        A folder of further training images, for a detector.
    jobs
        Number of threads.
    resume
        Continue a run that was interrupted.
    """
    steps = TrainingPlan.load(plan)
    check_options(steps, ensemble, external, weights)
    chosen_device = device_named(device)
    place = _checked_folder(Path(folder), source, labels, resume=resume)
    with reproducible(jobs):
        # A pooling that does not exist or weights of another network are told before the pictures
        # are decoded, which may take an hour.
        model_of(steps).network(steps, 1, ("any",), weights)
    if steps.augment != "none" or ensemble is not None:
        require_transforms()
    say = progress or _silent
    if canvases is None:
        canvases = Canvases(target=target or Canvases().target, side=steps.side, seed=seed)
    images = _images(source, labels, target, steps, canvases)
    if external is not None:
        images = images.joined(open_images(external, None, canvases=canvases))
    kind = model_of(steps)
    frames = kind.frames(
        kind.usable(images),
        steps,
        jobs=jobs,
        # Where there is room for the run there is room for the frames.
        folder=next(part for part in place.absolute().parents if part.exists()),
        progress=partial(say, "decoding"),
    )
    images = frames.images
    split = split_of(images, steps, seed, fold)
    members = members_of(images, split, steps, seed=seed, subsets=subsets, ensemble=ensemble)
    record = RunRecord(
        data=images.name,
        source=source,
        labels=labels,
        classes=list(images.classes),
        canvases=asdict(canvases) if _is_drawn(images) else None,
        plan=steps,
        seed=seed,
        subsets=len(members),
        fold=fold,
        weights=_weights_name(weights),
        average=average,
        ensemble=ensemble,
        channels=frames.channels,
        split=split.as_dict(images.ids),
        positive=_positive(images, split),
        broken=[error.as_dict() for error in frames.broken],
        notes=_notes(images, ensemble, external),
        models=[],
        environment=environment() | _torch_facts(chosen_device, jobs),
    )
    if resume:
        _check_same(RunRecord.open(place), record, place)
    place.mkdir(parents=True, exist_ok=True)
    record.save(place)
    trainer = _Trainer(record, frames, split, place, chosen_device, jobs, weights)
    models = []
    try:
        with reproducible(jobs):
            for k, member in enumerate(members):
                models.append(trainer.model(member, k, say))
            if average:
                models.append(trainer.average(models))
    except KeyboardInterrupt as stop:
        stop.add_note("all whole epochs are stored: add --resume to go on from there")
        raise
    result = msgspec.structs.replace(record, status="finished", models=models)
    result.save(place)
    names = [member.name for member in members]
    histories = {name: read_history(place / name) for name in names}
    write_training_page(result, histories, model_of(steps).measure_name, run_tables(result), place)
    return result


def _images(
    source: str, labels: str | None, target: str | None, plan: TrainingPlan, canvases: Canvases
) -> TrainingImages:
    kind = model_of(plan)
    images = kind.open(source, labels, canvases, plan)
    if kind.many_classes and target is None and (images.classes or not kind.needs_labels):
        return images
    # Canvases always show a target; a model of all characters was asked for above.
    return images.only(_target(images, target, source, canvases))


def _notes(images: TrainingImages, ensemble: str | None, external: str | None) -> list[str]:
    notes = list(images.notes)
    if ensemble is not None and external is None:
        notes.append(
            "without --external data the ensemble has four members: two folds, with light and with "
            "heavy augmentation"
        )
    return notes


def _torch_facts(device: torch.device, jobs: int) -> dict[str, Any]:
    return {"torch": str(torch.__version__), "device": str(device), "threads": jobs}


def _silent(name: str, step: int, total: int) -> None:
    pass


def _checked_folder(folder: Path, source: str, labels: str | None, *, resume: bool) -> Path:
    inputs = tuple(name for name in (source, labels) if name and name != DIGITS)
    if resume:
        if not (folder / RUN).exists():
            raise InputError(
                "a run to continue",
                rule="not-found",
                file=str(folder / RUN),
                hint="leave out --resume to begin",
            )
        return check_folder(folder, force=True, inputs=inputs)
    try:
        return check_folder(folder, force=False, inputs=inputs)
    except InputError as error:
        # The usual advice, --force, would throw away hours of work.
        if error.rule != "output-exists" or not (folder / RUN).exists():
            raise
        raise InputError(
            "a new or empty folder",
            rule="output-exists",
            file=str(folder),
            value="an earlier training run",
            hint="choose another folder, or continue this run with --resume",
        ) from None


def _target(images: TrainingImages, target: str | None, source: str, canvases: Canvases) -> str:
    if target is not None:
        return target
    if _is_drawn(images):
        return canvases.target
    if len(images.classes) == 1:
        return images.classes[0]
    if not images.classes:
        raise InputError(
            "labels of the images",
            rule="labels-differ",
            file=source,
            hint="give --labels TABLE with the columns image and label",
        )
    classes = ", ".join(images.classes[:20])
    raise UsageError(f"say which class to find with --target; {source} has: {classes}")


def _is_drawn(images: TrainingImages) -> bool:
    return images.name.startswith("canvases of ")


def _weights_name(weights: str | None) -> str | None:
    """Return what identifies weights wherever their file lies."""
    if weights is None or weights == INSTALLED:
        return weights
    return f"sha256:{hash_file(require_file(weights))}"


def _positive(images: TrainingImages, split: ImageSplit) -> dict[str, int]:
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    return {name: int(images.positive[rows].sum()) for name, rows in parts.items()}


def _check_same(earlier: RunRecord, now: RunRecord, folder: Path) -> None:
    first, second = earlier.question(), now.question()
    differing = [key for key in second if first[key] != second[key]]
    if differing:
        raise InputError(
            "the options and data of the run that is continued",
            rule="checkpoint",
            file=str(folder / RUN),
            value=f"another {', '.join(differing)}",
            hint="give the first command again with --resume, or choose a new folder",
        )


class _Trainer:
    """Trains the models of a run one after the other."""

    def __init__(
        self,
        record: RunRecord,
        frames: Frames,
        split: ImageSplit,
        folder: Path,
        device: torch.device,
        jobs: int,
        weights: str | None,
    ) -> None:
        self.record, self.frames, self.split = record, frames, split
        self.folder, self.device, self.jobs, self.weights = folder, device, jobs, weights
        # Boxes of validation and test images are never seen in training.
        boxed = split.train[frames.images.boxed[split.train]]
        n = round(record.plan.boxed_share * len(boxed))
        rows = random_of(record.seed, "boxes").permutation(boxed)[:n]
        self.images = frames.images.with_boxes_of(np.sort(rows))
        self.kind = model_of(record.plan)

    def model(self, member: Member, k: int, progress: Progress) -> ModelRecord:
        """Train a model, continue it, or take it as it is if it is done."""
        record, name = self.record, member.name
        identity = self._identity(member)
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        torch.manual_seed(record.seed if record.average else member.seed)
        network = self.kind.network(member.plan, record.channels, record.classes, self.weights)
        task = self.kind.task(network, member, self.frames, self.images, self.device)
        began = time.monotonic()
        if (folder / WEIGHTS).exists():
            load_network(network, folder / WEIGHTS, identity)
            history = read_history(folder)
        else:
            history = self.kind.fit(
                task,
                member,
                folder,
                identity=identity,
                threads=self.jobs,
                progress=lambda step, total: progress(
                    f"training {name}", k * total + step, record.subsets * total
                ),
            )
        best = history.epochs[history.best - 1]
        return ModelRecord(
            name=name,
            identity=identity,
            seed=member.seed,
            n_train=len(member.rows),
            n_boxed=int(self._seen_boxes()[member.rows].sum()),
            epochs=len(history.epochs),
            best=history.best,
            loss=best.loss,
            augment=member.plan.augment,
            validation=best.validation.get(self.kind.measure_name),
            test=self._measure(network),
            seconds=round(time.monotonic() - began, 1),
        )

    def average(self, models: Sequence[ModelRecord]) -> ModelRecord:
        """Store the mean of the weights of all models as one more."""
        record = self.record
        network = self.kind.network(record.plan, record.channels, record.classes).to(self.device)
        states = []
        for model in models:
            path = self.folder / model.name / WEIGHTS
            load_network(network, path, model.identity)
            states.append({key: value.clone() for key, value in network.state_dict().items()})
        weights = average_weights(states)
        network.load_state_dict(weights)
        identity = sha256_of([model.identity for model in models])
        (self.folder / AVERAGE).mkdir(exist_ok=True)
        write_weights(self.folder / AVERAGE / WEIGHTS, {"network": weights}, identity)
        return ModelRecord(
            name=AVERAGE,
            identity=identity,
            seed=record.seed,
            n_train=len(self.split.train),
            n_boxed=int(self.images.boxed[self.split.train].sum()),
            epochs=0,
            best=0,
            loss=float(np.mean([model.loss for model in models])),
            augment=record.plan.augment,
            validation=None,
            test=self._measure(network),
            seconds=0.0,
        )

    def _seen_boxes(self) -> Flags:
        """Return (n,) the images whose boxes a model sees: a detector sees those of all."""
        images = self.frames.images if self.kind.sees_all_boxes else self.images
        return images.boxed

    def _identity(self, member: Member) -> str:
        ids = np.array(self.images.ids, dtype=object)
        boxed = self._seen_boxes()[member.rows]
        plan = {key: value for key, value in member.plan.as_dict().items() if key != "source"}
        question = [plan, self.record.classes, self.record.weights, member.seed]
        return sha256_of([*question, ids[member.rows].tolist(), ids[member.rows[boxed]].tolist()])

    def _measure(self, network: Any) -> float | None:
        if not len(self.split.test):
            return None
        plan = self.record.plan
        return self.kind.measure(network, self.frames, self.split.test, plan, self.device)


def run_tables(record: RunRecord) -> list[Table]:
    """Return the models of a run as a table."""
    rows = []
    for model in record.models:
        rows.append(
            (
                model.name,
                model.n_train,
                f"{model.best} of {model.epochs}" if model.epochs else "",
                model.loss,
                model.validation,
                model.test,
                f"{model.seconds:.0f} s",
            )
        )
    measure = model_of(record.plan).measure_name
    columns = ("model", "images", "epoch", "loss", f"{measure}, validation", f"{measure}, test")
    kinds: tuple[Kind, ...] = ("name", "count", "text", "value", "value", "value", "text")
    parts = []
    for name, ids in record.split.items():
        parts.append(f"{name}: {count_text('image', len(ids))}, {record.positive[name]} positive")
    target = ", ".join(record.classes)
    title = f"Models that find {'positive images' if target == BINARY else target}"
    if not model_of(record.plan).needs_labels:
        title = f"Models that find what is not normal ({record.plan.method})"
    note = "; ".join(parts) + "."
    return [Table((*columns, "time"), tuple(rows), title=title, notes=(note,), kinds=kinds)]
