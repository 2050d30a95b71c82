# SPDX-License-Identifier: Apache-2.0
"""`predict`: maps or boxes of trained models on new images, in files that the other verbs read.

In come the folder of a run and images; out goes a folder. Of networks for whole images:

- ``subset-1.npz``, ...: the map of every image, ``maps`` (images, grid, grid) and ``ids``;
- ``scores.csv``: the probability that an image is positive, a column per model;
- ``labels.csv``, if the data have labels: image, label, patient and boxes, with the size of the
  square that the map covers, in pixels of the picture;
- ``images``, if asked for: the pictures as the network saw them.

Of detectors: ``subset-1.json``, ..., the boxes of each in the format of COCO, and
``references.json``, the images with what is known about them. In both cases ``predictions.json``
says what was done, and the files go into ``calipers stability``, ``fuse`` and ``evaluate`` as they
are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from calipers import __version__
from calipers.arrays import F32, F64, I64
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.tables.table import delimited
from calipers.io.write import write
from calipers.results.files import check_folder, staged_folder, write_atomically
from calipers.training.canvases import Canvases
from calipers.training.data import DIGITS, TrainingImages, open_images
from calipers.training.detector import DetectedBoxes, boxes_of, cohort_of
from calipers.training.frames import Frames, prepare
from calipers.training.loop import WEIGHTS, device_named, read_weights, reproducible
from calipers.training.members import network_of
from calipers.training.mil import maps_of
from calipers.training.train import AVERAGE, ModelRecord, Progress, RunRecord

PARTS = ("test", "validation", "train", "all")
PREDICTIONS = "predictions.json"
PREDICTIONS_SCHEMA = "calipers.predictions/1"


@dataclass(frozen=True)
class PredictedMaps:
    """What was predicted, and where it is."""

    folder: Path
    kind: str  # "maps" or "boxes"
    models: tuple[str, ...]
    part: str
    n_images: int
    n_positive: int | None  # None without labels
    broken: tuple[InputError, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``predictions.json``."""
        return {
            "schema": PREDICTIONS_SCHEMA,
            "calipers": __version__,
            "kind": self.kind,
            "models": list(self.models),
            "part": self.part,
            "images": self.n_images,
            "positive": self.n_positive,
            "broken": [error.as_dict() for error in self.broken],
            "notes": list(self.notes),
        }

    def next_command(self) -> str:
        """Return the command that measures what was predicted, or "" if nothing is known."""
        names = [name for name in self.models if name != AVERAGE]
        if self.kind == "boxes":
            files = " ".join(f"{name}={self.folder / name}.json" for name in names)
            references = self.folder / "references.json"
            if len(names) < 2:
                return f"calipers evaluate {references} {files}"
            return f"calipers fuse {references} {files} -o fused.json --evaluate"
        if len(names) < 2:
            return ""
        files = " ".join(str(self.folder / f"{name}.npz") for name in names)
        command = f"calipers stability {files}"
        if self.n_positive is not None:
            command += f" --labels {self.folder / 'labels.csv'}"
        return f"{command} --scores {self.folder / 'scores.csv'}"


def predict(
    run: str | Path,
    source: str,
    output: str | Path,
    *,
    labels: str | None = None,
    part: str | None = None,
    save_images: bool = False,
    device: str = "auto",
    jobs: int = 1,
    force: bool = False,
    progress: Progress | None = None,
) -> PredictedMaps:
    """Write the maps or boxes of all models of a run.

    Parameters
    ----------
    run
        The folder that `train` wrote.
    source, labels
        The images, as for `train`; or a folder of pictures alone.
    part
        ``test``, ``validation`` or ``train`` of the run, or ``all`` images. Default: the test
        images of the run if the source has them, else all.
    save_images
        Also write the pictures as the network saw them.
    """
    record = RunRecord.open(Path(run))
    if record.status != "finished":
        raise InputError(
            "a finished run",
            rule="checkpoint",
            file=str(run),
            value=record.status,
            hint="continue it: calipers train ... --resume",
        )
    chosen_device = device_named(device)
    inputs = tuple(name for name in (str(run), source, labels) if name and name != DIGITS)
    folder = check_folder(output, force=force, inputs=inputs)
    images, notes = _images(record, source, labels)
    part = part or _usual_part(images, record)
    images = images.take(_rows_of_part(images, record, part))
    say = progress or (lambda name, step, total: None)
    frames = prepare(
        images,
        record.plan.side,
        jobs=jobs,
        colour=record.channels > 1,
        progress=lambda step, total: say("decoding", step, total),
    )
    outputs = []
    with reproducible(jobs):
        for k, model in enumerate(record.models):
            outputs.append(_outputs(record, model, Path(run), frames, chosen_device))
            say("predicting", k + 1, len(record.models))
    labelled = bool(images.classes)
    names = tuple(model.name for model in record.models)
    kind = "boxes" if record.plan.model == "detector" else "maps"
    result = PredictedMaps(
        folder=folder,
        kind=kind,
        models=names,
        part=part,
        n_images=len(frames),
        n_positive=int(frames.images.positive.sum()) if labelled else None,
        broken=frames.broken,
        notes=tuple(notes),
    )
    with staged_folder(folder, force=force) as stage:
        if result.kind == "boxes":
            _write_boxes(stage, frames, record.classes, dict(zip(names, outputs)))
        else:
            _write_maps(stage, frames, dict(zip(names, outputs)))
        if save_images:
            _save_images(stage, frames, _bag_names(frames.images.ids))
        text = json.dumps(result.as_dict(), indent=1, allow_nan=False)
        write_atomically(stage / PREDICTIONS, text + "\n")
    return result


def _write_maps(stage: Path, frames: Frames, outputs: dict[str, tuple[F32, F64]]) -> None:
    ids = _bag_names(frames.images.ids)
    scores: dict[str, list[float]] = {}
    for name, (maps, odds) in outputs.items():
        write_atomically(stage / f"{name}.npz", _npz(maps, ids))
        scores[name] = expit(odds).tolist()
    write_atomically(stage / "scores.csv", delimited({"bag": ids, **scores}))
    if frames.images.classes:
        write_atomically(stage / "labels.csv", delimited(label_columns(frames, ids)))


def _write_boxes(
    stage: Path, frames: Frames, classes: Sequence[str], outputs: dict[str, list[DetectedBoxes]]
) -> None:
    if not frames.images.classes:
        frames = replace(frames, images=replace(frames.images, classes=tuple(classes)))
    cohort = cohort_of(frames, np.arange(len(frames)), outputs)
    write(cohort, stage / "references.json")
    for name in outputs:
        write(cohort, stage / f"{name}.json", what=name)


def _images(record: RunRecord, source: str, labels: str | None) -> tuple[TrainingImages, list[str]]:
    """Return the images with the class of the run, or without any."""
    settings = None if record.canvases is None else Canvases(**record.canvases)
    images = open_images(source, labels, canvases=settings)
    notes = list(images.notes)
    classes = tuple(record.classes)
    if set(classes) <= set(images.classes):
        if record.plan.model == "detector" and classes == images.classes:
            return images, notes
        if len(classes) == 1:
            return images.only(classes[0]), notes
    if images.classes:
        missing = [name for name in classes if name not in images.classes]
        if labels is not None and missing:
            hint = did_you_mean(missing[0], images.classes)
            raise UsageError(f"no image of {labels} is labelled {missing[0]!r}; {hint}")
        notes.append(f"the classes of the data are not {', '.join(classes)}: no labels are written")
    bare = TrainingImages(
        name=images.name,
        ids=images.ids,
        classes=(),
        findings=np.zeros((len(images), 0), np.bool_),
        boxes=(None,) * len(images),
        box_labels=images.box_labels,
        patients=images.patients,
        picture=images.picture,
    )
    return bare, notes


def _usual_part(images: TrainingImages, record: RunRecord) -> str:
    test = record.split["test"]
    return "test" if test and set(test) <= set(images.ids) else "all"


def _rows_of_part(images: TrainingImages, record: RunRecord, part: str) -> I64:
    if part not in PARTS:
        raise UsageError(f"no part {part!r}; {did_you_mean(part, PARTS)}")
    if part == "all":
        return np.arange(len(images))
    index = {name: i for i, name in enumerate(images.ids)}
    missing = [name for name in record.split[part] if name not in index]
    if missing:
        raise InputError(
            f"the {part} images of the run",
            rule="unknown-image",
            file=images.name,
            value=missing[0],
            hint=f"{len(missing)} of {len(record.split[part])} are missing; --part all takes all",
        )
    return np.array([index[name] for name in record.split[part]], np.int64)


def _outputs(
    record: RunRecord, model: ModelRecord, run: Path, frames: Frames, device: torch.device
) -> Any:
    """Return maps and log odds of a network for whole images, or the boxes of a detector."""
    network: Any = network_of(record.plan, record.channels, record.classes)
    path = run / model.name / WEIGHTS
    content = read_weights(path, model.identity)
    try:
        network.load_state_dict(content["network"])
    except (RuntimeError, KeyError):
        raise InputError(
            f"weights of a {record.plan.model} network", rule="checkpoint", file=str(path)
        ) from None
    every, batch = np.arange(len(frames)), record.plan.batch
    if record.plan.model == "detector":
        return boxes_of(network.to(device), frames, every, batch, device)
    return maps_of(network.to(device), frames, every, batch, device)


def _bag_names(ids: Sequence[str]) -> list[str]:
    """Return the ids as bags are called in files: text without line breaks."""
    return [" ".join(name.split()) for name in ids]


def label_columns(frames: Frames, ids: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns of ``labels.csv``: a row per image, or per box of an image."""
    images = frames.images
    names = ("bag", "label", "patient", "x0", "y0", "x1", "y1", "width", "height")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for i, bag in enumerate(ids):
        own = images.boxes[i]
        boxes = [[None] * 4] if own is None or not len(own) else own.tolist()
        side = frames.extent(i)
        for box in boxes:
            cells = (bag, int(images.positive[i]), images.patients[i], *box, side, side)
            for name, cell in zip(names, cells):
                columns[name].append(cell)
    # Without a single box the columns would only say that nobody drew any.
    if all(cell is None for cell in columns["x0"]):
        columns = {name: columns[name] for name in ("bag", "label", "patient")}
    if images.patients == images.ids:
        del columns["patient"]
    return columns


def _npz(maps: F32, ids: Sequence[str]) -> bytes:
    sink = io.BytesIO()
    np.savez_compressed(sink, maps=maps, ids=np.array(ids))
    return sink.getvalue()


def _save_images(stage: Path, frames: Frames, ids: Sequence[str]) -> None:
    from PIL import Image

    (stage / "images").mkdir()
    for i, name in enumerate(ids):
        # A name may hold folders; the pictures lie side by side.
        flat = name.replace("/", "_").replace("\\", "_").removesuffix(".png")
        Image.fromarray(frames.pixels[i]).save(stage / "images" / f"{flat}.png")
