# SPDX-License-Identifier: Apache-2.0
"""The table of models: what `train` and `predict` need to know about each kind of network.

A plan names its ``model``. `model_of` looks the name up in `MODULES`, imports that module of
`calipers.training` and returns its ``MODEL``, a `LearningModel`. A new kind of model is a module
with such an object, one line in `MODULES`, and its plans in ``plans``; `calipers.training.train`,
`members` and `predict` know nothing else about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from calipers import __version__
from calipers.arrays import I64
from calipers.errors import InputError, UsageError, did_you_mean

if TYPE_CHECKING:
    import torch
    from torch import nn

    from calipers.training.datasets.canvases import Canvases
    from calipers.training.datasets.frames import Frames
    from calipers.training.datasets.splits import ImageSplit
    from calipers.training.datasets.training_images import TrainingImages
    from calipers.training.loop import History, Progress, Task
    from calipers.training.members import Member
    from calipers.training.training_plan import TrainingPlan

# Name of a model -> module of calipers.training that has it as MODEL.
MODULES = {"mil": "mil", "chexnet": "chexnet", "detector": "detector", "anomaly": "anomaly"}
REFERENCES_FILE = "references.json"  # what is known about predicted images, for `evaluate`
PREDICTIONS_SCHEMA = "calipers.predictions/1"
COMMON_SETTINGS = ("side", "epochs", "batch", "rate")
AVERAGE = "average"  # the model that is the mean of the weights of the others


@dataclass(frozen=True)
class PredictedMaps:
    """What was predicted, and where it is."""

    folder: Path
    model: str
    kind: str  # "maps" or "boxes"
    models: tuple[str, ...]
    classes: tuple[str, ...]
    part: str
    n_images: int
    n_positive: int | None  # None without labels
    broken: tuple[InputError, ...]
    notes: tuple[str, ...]
    ensemble: str | None = None  # whose members the models are
    alarms: bool = False  # whether there are tables of alarms
    pictures: bool = False  # whether there is a folder of pictures

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``predictions.json``."""
        return {
            "schema": PREDICTIONS_SCHEMA,
            "calipers": __version__,
            "kind": self.kind,
            "models": list(self.models),
            "classes": list(self.classes),
            "part": self.part,
            "images": self.n_images,
            "positive": self.n_positive,
            "broken": [error.as_dict() for error in self.broken],
            "notes": list(self.notes),
        }

    @property
    def labelled(self) -> bool:
        """Whether it is known what the images show."""
        return self.n_positive is not None

    def next_commands(self) -> list[list[str]]:
        """Return the commands that measure what was predicted, as words after ``calipers``."""
        return model_named(self.model).next_commands(self)


class LearningModel(ABC):
    """One kind of network. The class attributes are facts, the methods are its work.

    ``network``, ``task``, ``measure``, ``outputs`` and ``write`` are to be written for every model;
    the others have a usual form.
    """

    name: ClassVar[str]
    measure_name: ClassVar[str]  # of what `measure` returns, for tables and figures
    output: ClassVar[Literal["maps", "boxes"]]  # what `predict` writes
    usual_plans: ClassVar[tuple[str, str]]  # for canvases, and for pictures
    small_plan: ClassVar[str]  # for pictures where there is no GPU
    # Whether the model finds several classes at once; otherwise one is chosen by --target.
    many_classes: ClassVar[bool] = False
    usual_subsets: ClassVar[int] = 5  # models of a run, unless the user says how many
    # Whether all boxes of training images are seen; otherwise the share that the plan says.
    sees_all_boxes: ClassVar[bool] = False
    # Whether all boxed training images are in every subset.
    keeps_boxed: ClassVar[bool] = True
    augmentations: ClassVar[tuple[str, ...]] = ("none",)
    # Keys of a plan that only some models read, and this one does. All read `COMMON_SETTINGS`.
    settings: ClassVar[tuple[str, ...]] = ()
    # Whether --weights, and --ensemble and --external, mean something to it.
    takes_weights: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = True  # whether somebody has to say what images show
    takes_ensemble: ClassVar[bool] = False
    gives_alarms: ClassVar[bool] = False  # whether `alarms` is written for it

    def open(
        self, source: str, labels: str | None, canvases: Canvases | None, plan: TrainingPlan
    ) -> TrainingImages:
        """Return the images that the user names; nothing is decoded yet."""
        from calipers.training.datasets.training_images import open_images

        return open_images(source, labels, canvases=canvases)

    def frames(self, images: TrainingImages, plan: TrainingPlan, **options: Any) -> Frames:
        """Decode the images; ``options`` are those of `prepare`."""
        from calipers.training.datasets.frames import prepare

        return prepare(images, plan.side, **options)

    def usable(self, images: TrainingImages) -> TrainingImages:
        """Return the images that the model can learn from."""
        return images

    def check_split(self, images: TrainingImages, split: ImageSplit) -> None:
        """Raise if the training images of a split cannot teach the model anything."""
        return  # most models learn from any images

    def adapted_split(self, images: TrainingImages, split: ImageSplit) -> ImageSplit:
        """Return the split as the model needs it."""
        return split

    @abstractmethod
    def network(
        self,
        plan: TrainingPlan,
        channels: int,
        classes: Sequence[str],
        weights: str | None = None,
    ) -> nn.Module:
        """Return an untrained network for frames of 1 or 3 channels."""

    @abstractmethod
    def task(
        self,
        network: Any,
        member: Member,
        frames: Frames,
        images: TrainingImages,
        device: torch.device,
    ) -> Task:
        """Return what is trained; ``images`` have only the boxes that may be seen."""

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
            conclude=lambda: self.conclude(task, member),
        )

    def conclude(self, task: Any, member: Member) -> None:
        """Fit what a trained network needs beside its weights, before these are stored."""
        return  # most networks need nothing

    @abstractmethod
    def measure(
        self, network: Any, frames: Frames, rows: I64, plan: TrainingPlan, device: torch.device
    ) -> float | None:
        """Return how good a network is on some images; None if that is undefined."""

    @abstractmethod
    def outputs(
        self,
        network: Any,
        frames: Frames,
        plan: TrainingPlan,
        device: torch.device,
        progress: Progress | None = None,
    ) -> Any:
        """Return what a network says about all frames, for `write`.

        ``progress`` is called with (frames done, frames in all).
        """

    @abstractmethod
    def write(
        self,
        stage: Path,
        frames: Frames,
        plan: TrainingPlan,
        classes: Sequence[str],
        outputs: Mapping[str, Any],
    ) -> None:
        """Write the outputs of all models of a run into a folder."""

    def alarms(
        self,
        network: Any,
        frames: Frames,
        usual: Frames,
        plan: TrainingPlan,
        device: torch.device,
        progress: Progress | None = None,
    ) -> Mapping[str, Any]:
        """Return monitor -> alarm of every frame; ``usual`` are frames of training images.

        Called only where `gives_alarms` is true.
        """
        return {}

    def next_commands(self, prediction: PredictedMaps) -> list[list[str]]:
        """Return the commands that measure what was written, as words after ``calipers``."""
        return []


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
