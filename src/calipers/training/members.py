# SPDX-License-Identifier: Apache-2.0
"""The models of a run: which images each of them sees, and its network, task and measure.

`members_of` lists them. Usually they are subsets of the training images, for stability. The
ensemble ``endocv2022`` is made of two of four folds, each with light and heavy augmentation, and
with external data if there are any: four or six members.

`network_of`, `task_of` and `measure_of` are what differs between multiple instance learning and
detection; `calipers.training.train` and `calipers.training.predict` know no more about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from calipers.arrays import I64
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.training.data import EXTERNAL, TrainingImages
from calipers.training.detector import DetectorNetwork, DetectorTask, ap_of
from calipers.training.frames import Frames
from calipers.training.mil import MilNetwork, MilTask, bag_auc, maps_of
from calipers.training.splits import (
    ImageSplit,
    check_two_kinds,
    folds,
    random_of,
    split_images,
    subset,
)
from calipers.training.training_plan import TrainingPlan

ENSEMBLES = ("endocv2022",)
N_FOLDS, USED_FOLDS = 4, (1, 2)
SETTINGS = ("light", "heavy")


@dataclass(frozen=True)
class Member:
    """One model of a run, before it is trained."""

    name: str
    rows: I64  # training images
    validation: I64
    plan: TrainingPlan
    seed: int


def usable(images: TrainingImages, plan: TrainingPlan) -> TrainingImages:
    """Return the images that a model can learn from: a detector needs the boxes of all objects."""
    if plan.model == "mil":
        return images
    positive = images.positive
    rows = [i for i, own in enumerate(images.boxes) if own is not None or not positive[i]]
    if not images.boxed.any():
        raise InputError(
            "images with boxes",
            rule="unboxed",
            file=images.name,
            value=f"{len(images)} images without",
            hint="a detector learns from boxes; give --labels with x0, y0, x1, y1, or --model mil",
        )
    return images if len(rows) == len(images) else images.take(np.array(rows, np.int64))


def split_of(images: TrainingImages, plan: TrainingPlan, seed: int, fold: int | None) -> ImageSplit:
    """Return the split of the images that are not external; a bag needs both kinds to learn."""
    own = np.flatnonzero([not name.startswith(EXTERNAL) for name in images.ids])
    split = split_images(images.take(own), seed, validation_share=plan.validation_share, fold=fold)
    split = ImageSplit(own[split.train], own[split.validation], own[split.test])
    if plan.model == "mil":
        target = images.classes[0]
        check_two_kinds(images.positive, split.train, "training", images.name, target)
    return split


def members_of(
    images: TrainingImages,
    split: ImageSplit,
    plan: TrainingPlan,
    *,
    seed: int,
    subsets: int,
    ensemble: str | None,
) -> list[Member]:
    """Return the models of a run."""
    if ensemble is not None:
        return _ensemble(images, split, plan, seed)
    # Boxes are rare where labels are of whole images, and always seen; a detector has many.
    visible = images if plan.model == "mil" else images.with_boxes_of(np.zeros(0, np.int64))
    external = np.flatnonzero([name.startswith(EXTERNAL) for name in images.ids])
    members = []
    for k in range(subsets):
        rows = subset(visible, split.train, plan.subset_share, seed, k)
        rows = np.sort(np.append(rows, external))
        members.append(Member(f"subset-{k + 1}", rows, split.validation, plan, _seed(seed, k)))
    return members


def _ensemble(
    images: TrainingImages, split: ImageSplit, plan: TrainingPlan, seed: int
) -> list[Member]:
    rest = np.sort(np.append(split.train, split.validation))
    external = np.flatnonzero([name.startswith(EXTERNAL) for name in images.ids])
    parts = [rest[rows] for rows in folds(images.take(rest), N_FOLDS, seed)]
    members: list[Member] = []
    for number in USED_FOLDS:
        validation = parts[number - 1]
        rows = np.setdiff1d(rest, validation)
        for setting in SETTINGS:
            name = f"fold-{number}-{setting}"
            own_plan = plan.changed(augment=setting)
            members.append(Member(name, rows, validation, own_plan, _seed(seed, len(members))))
        if len(external):
            name, every = f"fold-{number}-external", np.sort(np.append(rows, external))
            own_plan = plan.changed(augment="light")
            members.append(Member(name, every, validation, own_plan, _seed(seed, len(members))))
    return members


def _seed(seed: int, k: int) -> int:
    return int(random_of(seed, f"model-{k}").integers(1 << 31))


def check_options(
    plan: TrainingPlan, ensemble: str | None, external: str | None, weights: str | None
) -> None:
    """Raise for options that mean nothing to the model of a plan."""
    if ensemble is not None and ensemble not in ENSEMBLES:
        raise UsageError(f"no ensemble {ensemble!r}; {did_you_mean(ensemble, ENSEMBLES)}")
    if plan.model == "mil" and (ensemble or external):
        raise UsageError("--ensemble and --external are for --model detector")
    if plan.model == "detector" and weights is not None:
        raise UsageError("--weights are for the backbones of --model mil; a detector has its own")


def network_of(
    plan: TrainingPlan, channels: int, classes: Sequence[str], weights: str | None = None
) -> nn.Module:
    """Return an untrained network."""
    if plan.model == "mil":
        return MilNetwork(plan, channels, weights)
    return DetectorNetwork(plan, channels, len(classes))


def task_of(
    network: Any, member: Member, frames: Frames, images: TrainingImages, device: torch.device
) -> Any:
    """Return what the loop trains; ``images`` have only the boxes that may be seen."""
    plan, validation = member.plan, member.validation
    if plan.model == "mil":
        return MilTask(network, frames, images.boxed, validation, plan, device)
    return DetectorTask(network, frames, member.rows, validation, plan, device)


def measure_name(plan: TrainingPlan) -> str:
    """Return what `measure_of` and the validation measure."""
    return "AUC" if plan.model == "mil" else "AP50"


def measure_of(
    network: Any, frames: Frames, rows: I64, plan: TrainingPlan, device: torch.device
) -> float | None:
    """Return the AUC of whole images, or the AP50 of a detector; None if it is undefined."""
    if not len(rows):
        return None
    if plan.model == "detector":
        return ap_of(network, frames, rows, plan.batch, device)
    _, order = maps_of(network, frames, rows, plan.batch, device)
    return bag_auc(order, frames.images.positive[rows])
