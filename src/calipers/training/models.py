# SPDX-License-Identifier: Apache-2.0
"""The table of models: what `train` and `predict` need to know about each kind of network.

A plan names its ``model``. `model_of` looks the name up in `MODULES`, imports that module of
`calipers.training` and returns its ``MODEL``, a `LearningModel`. A new kind of model is a module
with such an object, one line in `MODULES`, and its plans in ``plans``; `calipers.training.train`,
`members` and `predict` know nothing else about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from calipers.arrays import I64
from calipers.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import torch
    from torch import nn

    from calipers.training.datasets.frames import Frames
    from calipers.training.datasets.splits import ImageSplit
    from calipers.training.datasets.training_images import TrainingImages
    from calipers.training.loop import History, Progress, Task
    from calipers.training.members import Member
    from calipers.training.training_plan import TrainingPlan

# Name of a model -> module of calipers.training that has it as MODEL.
MODULES = {"mil": "mil", "chexnet": "chexnet", "detector": "detector"}
AVERAGE = "average"  # the model that is the mean of the weights of the others


class LearningModel:
    """One kind of network. The class attributes are facts, the methods are its work.

    ``network``, ``task``, ``measure``, ``outputs`` and ``write`` are to be written for every model;
    the others have a usual form.
    """

    name: ClassVar[str]
    measure_name: ClassVar[str]  # of what `measure` returns, for tables and figures
    output: ClassVar[Literal["maps", "boxes"]]  # what `predict` writes
    usual_plans: ClassVar[tuple[str, str]]  # for canvases, and for pictures
    # Whether the model finds several classes at once; otherwise one is chosen by --target.
    many_classes: ClassVar[bool] = False
    # Whether all boxes of training images are seen; otherwise the share that the plan says.
    sees_all_boxes: ClassVar[bool] = False
    # Whether all boxed training images are in every subset.
    keeps_boxed: ClassVar[bool] = True
    augmentations: ClassVar[tuple[str, ...]] = ("none",)
    # Whether --weights, --stages, and --ensemble and --external, mean something to it.
    takes_weights: ClassVar[bool] = False
    takes_stages: ClassVar[bool] = False
    takes_ensemble: ClassVar[bool] = False

    def usable(self, images: TrainingImages) -> TrainingImages:
        """Return the images that the model can learn from."""
        return images

    def check_split(self, images: TrainingImages, split: ImageSplit) -> None:
        """Raise if the training images of a split cannot teach the model anything."""

    def network(
        self,
        plan: TrainingPlan,
        channels: int,
        classes: Sequence[str],
        weights: str | None = None,
    ) -> nn.Module:
        """Return an untrained network for frames of 1 or 3 channels."""
        raise NotImplementedError

    def task(
        self,
        network: Any,
        member: Member,
        frames: Frames,
        images: TrainingImages,
        device: torch.device,
    ) -> Task:
        """Return what is trained; ``images`` have only the boxes that may be seen."""
        raise NotImplementedError

    def fit(
        self,
        task: Task,
        member: Member,
        folder: Path,
        *,
        identity: str,
        threads: int,
        progress: Progress | None,
    ) -> History:
        """Train a network, or finish a training that was interrupted; leave ``weights.pt``."""
        from calipers.training.loop import fit

        return fit(
            task,
            member.plan,
            member.rows,
            folder,
            identity=identity,
            seed=member.seed,
            threads=threads,
            progress=progress,
        )

    def measure(
        self, network: Any, frames: Frames, rows: I64, plan: TrainingPlan, device: torch.device
    ) -> float | None:
        """Return how good a network is on some images; None if that is undefined."""
        raise NotImplementedError

    def outputs(
        self, network: Any, frames: Frames, plan: TrainingPlan, device: torch.device
    ) -> Any:
        """Return what a network says about all frames, for `write`."""
        raise NotImplementedError

    def write(
        self,
        stage: Path,
        frames: Frames,
        plan: TrainingPlan,
        classes: Sequence[str],
        outputs: Mapping[str, Any],
    ) -> None:
        """Write the outputs of all models of a run into a folder."""
        raise NotImplementedError

    def next_command(
        self, folder: Path, names: Sequence[str], classes: Sequence[str], *, labelled: bool
    ) -> str:
        """Return the command that measures what was written, or ""."""
        return ""


def model_of(plan: TrainingPlan) -> LearningModel:
    """Return the model that a plan names."""
    return model_named(plan.model)


def model_named(name: str) -> LearningModel:
    """Return a model by its name."""
    if name not in MODULES:
        raise UsageError(f"no model {name!r}; {did_you_mean(name, MODULES)}")
    module = import_module(f"calipers.training.{MODULES[name]}")
    model: LearningModel = module.MODEL
    return model
