# SPDX-License-Identifier: Apache-2.0
"""Trains the detectors of the study on drawn frames, and packs what they predicted.

`train_detectors` draws frames, trains three ensembles with `calipers.training`, lets them predict
on the six centres and writes one archive (`archive`). It can be interrupted: what is done in
its folder is not done again. It needs the extra ``train``; reading the archive does not.

- ``ensemble``: six members by the recipe of EndoCV 2022, two of four folds x light augmentation,
  heavy augmentation, and further data; 96 pixels.
- ``small-input`` and ``tiny-input``: four members each, without further data, on frames of 64 and
  of 48 pixels. They stand for the two complementary ensembles of the paper's appendix.

The members are those of the recipe, the network is the compact detector of
`calipers.training.detector`, not a YOLOv5, EfficientDet or YOLOv7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.io.read import read
from calipers.io.write import write
from calipers.studies.polyps.archive import PolypArchive, write_archive
from calipers.studies.polyps.endoscopy import (
    DrawnFrame,
    FramePlan,
    centre_frames,
    drawn_frame,
    external_frames,
    training_frames,
)

Say = Callable[[str, int, int], None]
PLAN = "endocv2022"
EPOCHS, QUICK_EPOCHS = 20, 3
BATCH = 8  # the paper does not state it; the few frames of this study give 48 steps per epoch
QUICK_SHARE = 0.15  # of all frames
LOWEST, MOST = 0.02, 10  # score of a box that is kept (that of the fusion), and boxes per frame


@dataclass(frozen=True, slots=True)
class DetectorKind:
    """An ensemble: how its networks differ from those of the others."""

    name: str
    side: int
    width: int
    external: bool


KINDS = (
    DetectorKind("ensemble", side=96, width=32, external=True),
    DetectorKind("small-input", side=64, width=32, external=False),
    DetectorKind("tiny-input", side=48, width=32, external=False),
)


def train_detectors(
    folder: Path, *, seed: int = 0, quick: bool = False, progress: Say = lambda what, k, n: None
) -> PolypArchive:
    """Draw frames, train all detectors, and write ``polyps.npz`` into a folder."""
    from calipers.training.predict import predict
    from calipers.training.train import RUN, train
    from calipers.training.training_plan import TrainingPlan

    share = QUICK_SHARE if quick else 1.0
    folder.mkdir(parents=True, exist_ok=True)
    sources = {
        "training": training_frames(seed, share=share),
        "external": external_frames(seed, share=share),
        "centres": centre_frames(seed, share=share),
    }
    places = {}
    for name, plans in sources.items():
        places[name] = _written(folder / "frames" / name, list(plans), name, progress)
    members: dict[str, Any] = {}
    records = []
    trained_with: dict[str, Any] = {}
    for kind in KINDS:
        plan = TrainingPlan.load(PLAN).changed(
            side=kind.side,
            width=kind.width,
            batch=BATCH,
            epochs=QUICK_EPOCHS if quick else EPOCHS,
        )
        run = folder / kind.name
        record = train(
            str(places["training"]),
            run,
            plan,
            ensemble=PLAN,
            external=str(places["external"]) if kind.external else None,
            seed=seed,
            device="cpu",
            jobs=1,
            resume=(run / RUN).exists(),
            progress=_named(kind.name, progress),
        )
        # All ensembles are trained in the same way: that of the last is that of all.
        trained_with = dict(record.environment)
        predictions = folder / f"{kind.name}-predictions"
        if not (predictions / "references.json").exists():
            predict(run, str(places["centres"]), predictions, device="cpu", jobs=1, part="all")
        for model in record.models:
            members[f"{kind.name}/{model.name}"] = predictions / f"{model.name}.json"
            records.append(_model_record(kind, model))
    references = places["centres"] / "references.json"
    cohort = read(references, {name: str(path) for name, path in members.items()})
    facts = {
        "command": f"calipers study polyps --train --keep DIR --seed {seed}" + " --quick" * quick,
        "seed": seed,
        "share of frames": share,
        "lowest score": LOWEST,
        "most boxes per frame": MOST,
        "environment": trained_with,
        "models": records,
    }
    return write_archive(folder / "polyps.npz", cohort, facts, lowest=LOWEST, most=MOST)


def _named(ensemble: str, progress: Say) -> Say:
    def say(what: str, step: int, total: int) -> None:
        progress(f"{ensemble}: {what}", step, total)

    return say


def _model_record(kind: DetectorKind, model: Any) -> dict[str, Any]:
    return {
        "name": f"{kind.name}/{model.name}",
        "side": kind.side,
        "width": kind.width,
        "augmentation": model.augment,
        "frames": model.n_train,
        "epochs": model.epochs,
        "loss": round(model.loss, 5),
        "AP50 of the other fold": model.validation,
        "identity": model.identity,
    }


def _written(folder: Path, plans: list[FramePlan], name: str, progress: Say) -> Path:
    """Draw frames into a folder, unless they are there."""
    from PIL import Image

    if (folder / "references.json").exists():
        return folder
    (folder / "images").mkdir(parents=True, exist_ok=True)
    frames = []
    for k, plan in enumerate(plans):
        frame = drawn_frame(plan)
        Image.fromarray(frame.pixels).save(folder / "images" / f"{plan.name}.png")
        frames.append(frame)
        progress(f"drawing frames ({name})", k + 1, len(plans))
    # Last, because its presence says that all pictures are there.
    write(frame_cohort(frames), folder / "references.json")
    return folder


def frame_cohort(frames: Iterable[DrawnFrame]) -> Cohort:
    """Return drawn frames as references with centres, patients and types."""
    records: list[Mapping[str, Any]] = []
    for frame in frames:
        plan = frame.plan
        masks = Masks.from_dense(list(frame.masks)) if frame.masks else None
        record: dict[str, Any] = {
            "image_id": f"{plan.name}.png",
            "boxes": frame.boxes,
            "labels": np.zeros(len(frame.boxes), np.int64),
            "width": plan.size[0],
            "height": plan.size[1],
            "patient": plan.patient,
            "centre": plan.centre,
            "type": plan.polyps[0].kind if plan.polyps else "",
        }
        records.append(record if masks is None else record | {"masks": masks})
    return Cohort.from_arrays(records, {}, classes=("polyp",))
