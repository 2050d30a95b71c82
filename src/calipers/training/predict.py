# SPDX-License-Identifier: Apache-2.0
"""`predict`: maps or boxes of trained models on new images, in files that the other verbs read.

In come the folder of a run and images; out goes a folder. Of networks for whole images:

- ``subset-1.npz``, ...: the map of every image, ``maps`` (images, grid, grid) and ``ids``;
- ``scores.csv``: the probability that an image is positive, a column per model;
- ``labels.csv``, if the data have labels: image, label, patient and boxes, with the size of the
  square that the map covers, in pixels of the picture;
- ``images``, if asked for: the pictures as the network saw them.

Of detectors: ``subset-1.json``, ..., the boxes of each in the format of COCO,
``references.json``, the images with what is known about them, and, if asked for,
``subset-1-alarms.csv``, the alarms of monitors that look inside the detector. Of anomaly networks:
a folder per model with a map per picture or volume. In both cases ``predictions.json``
says what was done, and the files go into ``calipers stability``, ``fuse`` and ``evaluate`` as they
are.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import I64
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.results.files import check_folder, staged_folder, write_atomically
from calipers.training.datasets.frames import Frames
from calipers.training.datasets.training_images import DIGITS, TrainingImages
from calipers.training.loop import WEIGHTS, device_named, load_network, part_of, reproducible
from calipers.training.models import PredictedMaps, model_of
from calipers.training.prediction_files import save_images, write_alarms
from calipers.training.train import RUN, ModelRecord, Progress, RunRecord

PARTS = ("test", "validation", "train", "all")
PREDICTIONS = "predictions.json"


def predict(
    run: str | Path,
    source: str,
    output: str | Path,
    *,
    labels: str | None = None,
    part: str | None = None,
    boxed: bool = False,
    save_pictures: bool = False,
    alarms: bool = False,
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
    boxed
        Take only images whose boxes are known, as an evaluation needs them.
    save_pictures
        Also write the pictures as the network saw them.
    alarms
        Of detectors: also write the alarms of monitors (`calipers.training.monitors`), which are
        fitted on training images of the run; these are opened again where `train` found them.
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
    if alarms and not model_of(record.plan).gives_alarms:
        raise UsageError(f"--alarms are for --model detector, not for {record.plan.model}")
    chosen_device = device_named(device)
    inputs = tuple(name for name in (str(run), source, labels) if name and name != DIGITS)
    folder = check_folder(output, force=force, inputs=inputs)
    images, notes = _images(record, source, labels)
    part = part or _usual_part(images, record)
    images = images.take(_rows_of_part(images, record, part))
    images = _with_known_boxes(images, notes, boxed=boxed)
    say = progress or (lambda name, step, total: None)
    frames = model_of(record.plan).frames(
        images,
        record.plan,
        jobs=jobs,
        colour=record.channels > 1,
        progress=partial(say, "decoding"),
    )
    kind = model_of(record.plan)
    usual = _usual_frames(record, Path(run), jobs, say) if alarms else None
    outputs, alarm_tables = [], []
    n_looks = len(frames) if usual is None else 2 * len(frames) + len(usual)
    total = n_looks * len(record.models)
    say("predicting", 0, total)
    with reproducible(jobs):
        for k, model in enumerate(record.models):
            network = _network(record, model, Path(run)).to(chosen_device)
            tell = partial(say, f"predicting with {model.name}")
            how = (record.plan, chosen_device, part_of(tell, k * n_looks, total))
            outputs.append(kind.outputs(network, frames, *how))
            if usual is not None:
                how = (record.plan, chosen_device, part_of(tell, k * n_looks + len(frames), total))
                alarm_tables.append(kind.alarms(network, frames, usual, *how))
    labelled = bool(images.classes)
    names = tuple(model.name for model in record.models)
    result = PredictedMaps(
        folder=folder,
        model=kind.name,
        kind=kind.output,
        models=names,
        classes=tuple(record.classes),
        part=part,
        n_images=len(frames),
        n_positive=int(frames.images.positive.sum()) if labelled else None,
        broken=frames.broken,
        notes=tuple(notes),
        ensemble=record.ensemble,
        alarms=alarms,
        pictures=save_pictures,
    )
    with staged_folder(folder, force=force) as stage:
        kind.write(stage, frames, record.plan, record.classes, dict(zip(names, outputs)))
        for name, own in zip(names, alarm_tables):
            write_alarms(stage / f"{name}-alarms.csv", frames, own)
        if save_pictures:
            save_images(stage, frames)
        text = json.dumps(result.as_dict(), indent=1, allow_nan=False)
        write_atomically(stage / PREDICTIONS, text + "\n")
    return result


def _images(record: RunRecord, source: str, labels: str | None) -> tuple[TrainingImages, list[str]]:
    """Return the images with the class of the run, or without any."""
    settings = record.canvas_settings()
    kind = model_of(record.plan)
    images = kind.open(source, labels, settings, record.plan)
    notes = list(images.notes)
    classes = tuple(record.classes)
    if not kind.needs_labels:
        return images, notes
    if len(classes) == 1 and classes[0] in images.classes:
        return images.only(classes[0]), notes
    if set(classes) & set(images.classes):
        return images.with_classes(classes), notes
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
            hint=f"{len(missing)} of {len(record.split[part])} are missing; give --part all",
        )
    return np.array([index[name] for name in record.split[part]], np.int64)


def _with_known_boxes(images: TrainingImages, notes: list[str], *, boxed: bool) -> TrainingImages:
    """Return the images whose boxes are known if that is asked for; else note that some are not."""
    rows = np.flatnonzero([own is not None for own in images.boxes])
    n_unknown = len(images) - len(rows)
    if boxed:
        if not len(rows):
            raise InputError(
                "images with boxes",
                rule="unboxed",
                file=images.name,
                value=f"{len(images)} images without",
                hint="leave out --boxed",
            )
        notes.append(f"{n_unknown} of {len(images)} images without known boxes are left out")
        return images.take(rows)
    if images.classes and len(rows) and n_unknown:
        notes.append(
            f"the boxes of {n_unknown} of {len(images)} images are not known, so these references "
            "cannot judge boxes: --boxed takes only images whose boxes are"
        )
    return images


def _usual_frames(record: RunRecord, run: Path, jobs: int, say: Progress) -> Frames:
    """Return training images of a run, for monitors to learn from."""
    from calipers.training.monitors import MOST_FIT

    if record.source != DIGITS and not os.path.exists(record.source):
        raise InputError(
            "the training images of the run, from which monitors learn",
            rule="not-found",
            file=record.source,
            hint=f"{run / RUN} says that they were there; predict without --alarms, or put them "
            "back",
        )
    images, _ = _images(record, record.source, record.labels)
    images = images.take(_rows_of_part(images, record, "train")[:MOST_FIT])
    return model_of(record.plan).frames(
        images,
        record.plan,
        jobs=jobs,
        colour=record.channels > 1,
        progress=partial(say, "decoding training images"),
    )


def _network(record: RunRecord, model: ModelRecord, run: Path) -> Any:
    """Return a trained network."""
    kind = model_of(record.plan)
    network: Any = kind.network(record.plan, record.channels, record.classes)
    path = run / model.name / WEIGHTS
    load_network(network, path, model.identity)
    return network
