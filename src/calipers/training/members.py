# SPDX-License-Identifier: Apache-2.0
"""The members of a run: which images each of them sees.

`members_of` lists them. Usually they are subsets of the training images, for stability. The
ensemble ``endocv2022`` is made of two of four folds, each with light and heavy augmentation, and
with external data if there are any: four or six members.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from calipers.arrays import I64
from calipers.errors import UsageError, did_you_mean
from calipers.show.words import join
from calipers.training.datasets.splits import (
    ImageSplit,
    folds,
    random_of,
    split_images,
    subset,
)
from calipers.training.datasets.training_images import EXTERNAL, TrainingImages
from calipers.training.models import (
    COMMON_SETTINGS,
    MODULES,
    LearningModel,
    model_named,
    model_of,
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


def split_of(images: TrainingImages, plan: TrainingPlan, seed: int, fold: int | None) -> ImageSplit:
    """Return the split of the images that are not external."""
    own = np.flatnonzero([not name.startswith(EXTERNAL) for name in images.ids])
    split = split_images(images.take(own), seed, validation_share=plan.validation_share, fold=fold)
    split = ImageSplit(own[split.train], own[split.validation], own[split.test])
    model_of(plan).check_split(images, split)
    return model_of(plan).adapted_split(images, split)


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
    visible = images
    if not model_of(plan).keeps_boxed:
        visible = images.with_boxes_of(np.zeros(0, np.int64))
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


def check_settings(model: LearningModel, names: Iterable[str]) -> None:
    """Raise for settings of a plan, set by options, that a model does not read."""
    for name in names:
        if name in COMMON_SETTINGS or name in model.settings:
            continue
        option = "--" + name.replace("_", "-")
        models = [other for other in MODULES if name in model_named(other).settings]
        raise UsageError(f"{option} is for --model {join(models)}, not for {model.name}")


def check_options(
    plan: TrainingPlan, ensemble: str | None, external: str | None, weights: str | None
) -> None:
    """Raise for options that mean nothing to the model of a plan."""
    if ensemble is not None and ensemble not in ENSEMBLES:
        raise UsageError(f"no ensemble {ensemble!r}; {did_you_mean(ensemble, ENSEMBLES)}")
    model = model_of(plan)
    if plan.augment not in model.augmentations:
        words = ", ".join(model.augmentations)
        raise UsageError(f"augment = {plan.augment!r} is not for --model {model.name}: {words}")
    if plan.stages > 1:
        check_settings(model, ["stages"])
    if not model.takes_ensemble and (ensemble or external):
        raise UsageError("--ensemble and --external are for --model detector")
    if not model.takes_weights and weights is not None:
        raise UsageError(f"--weights are for backbones; --model {model.name} has its own network")
