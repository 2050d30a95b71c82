# SPDX-License-Identifier: Apache-2.0
"""Multiple instance learning: a network that marks patches, and learns from labels of whole images.

After Li et al. (2018), as the stability paper has it: the features of a backbone on a grid of
``grid x grid`` patches, a convolution 3x3 with batch norm and ReLU (its activity may be
penalised), a convolution 1x1 that gives every patch its logit, and a pooling operator that makes
the patches the probability of the image. Of images with boxes the patches are known; they count
``boxed_weight`` times in the loss, with the pooling for known instances.

With ``stages = 2`` the network is trained twice (two-stage learning, from the outlook of the
paper): the first training marks instances in the positive training images, and the second one, from
the same first weights, takes them for known.

`MilTask` is what `calipers.training.loop.fit` trains; `maps_of` gives the maps of images. `MODEL`
is what the table of models knows about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d, interpolate

from calipers.arrays import F32, F64, I64, Flags
from calipers.kernels.roc import CaseRanks
from calipers.training.backbones import backbone
from calipers.training.datasets.frames import Frames, scaled
from calipers.training.datasets.splits import ImageSplit, check_two_kinds
from calipers.training.datasets.training_images import TrainingImages
from calipers.training.loop import (
    WEIGHTS,
    History,
    Progress,
    in_batches,
    load_network,
    reproducible,
)
from calipers.training.members import Member
from calipers.training.models import AVERAGE, LearningModel, PredictedMaps
from calipers.training.pooling import BagPooling, LogProbability
from calipers.training.prediction_files import write_maps
from calipers.training.training_plan import TrainingPlan

TWO_KINDS = 2
FIRST_STAGE = "stage-1"  # folder of the first training of two


class MilNetwork(nn.Module):
    """From pictures to the logits of patches and the probability of the image."""

    def __init__(self, plan: TrainingPlan, channels: int, weights: str | None = None) -> None:
        super().__init__()
        self.grid = plan.grid
        self.backbone = backbone(plan.backbone, channels, weights)
        self.head = nn.Sequential(
            nn.Conv2d(self.backbone.channels, plan.head_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(plan.head_channels),
            nn.ReLU(),
        )
        self.patches = nn.Conv2d(plan.head_channels, 1, 1)
        nn.init.constant_(self.patches.bias, plan.head_bias)
        self.pooling = BagPooling(plan.pooling, plan.head_channels)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, grid, grid) logits and (B, channels, grid, grid) features of the head."""
        features = self.backbone(pictures)
        # Maxima keep the place of what is strong; a backbone that is too coarse is interpolated.
        if features.shape[-1] > self.grid:
            features = adaptive_max_pool2d(features, self.grid)
        elif features.shape[-1] < self.grid:
            features = interpolate(features, size=(self.grid, self.grid), mode="bilinear")
        features = self.head(features)
        return self.patches(features)[:, 0], features

    def bags(
        self,
        pictures: Tensor,
        instances: Tensor | None = None,
        annotated: Tensor | None = None,
    ) -> tuple[LogProbability, Tensor, Tensor]:
        """Return the probabilities of images, the logits of patches, and the features."""
        logits, features = self(pictures)
        return self.pooling(logits, features, instances, annotated), logits, features


class MilTask:
    """A network with its data: the loss of a batch, and how well it separates new images."""

    def __init__(
        self,
        network: MilNetwork,
        frames: Frames,
        boxed: Flags,
        validation: I64,
        plan: TrainingPlan,
        device: torch.device,
    ) -> None:
        """``boxed`` flags the images whose boxes are used."""
        self.network = network.to(device)
        self.frames, self.plan, self.device = frames, plan, device
        self.boxed, self.validation = boxed, validation
        self.positive = frames.images.positive
        self.weights = np.where(boxed, plan.boxed_weight, 1.0).astype(np.float32)
        self.instances = {}
        for i in np.flatnonzero(boxed).tolist():
            self.instances[i] = frames.instances(i, plan.grid)

    def pictures(self, rows: I64) -> Tensor:
        """Return a batch of pictures."""
        return torch.from_numpy(scaled(self.frames.pixels[rows])).to(self.device)

    def loss(self, rows: I64) -> Tensor:
        """Return the weighted mean of the cross-entropies, and the penalty on activity."""
        plan = self.plan
        labels = torch.from_numpy(self.positive[rows].astype(np.float32)).to(self.device)
        instances, annotated = self._known(rows)
        bags, _, features = self.network.bags(self.pictures(rows), instances, annotated)
        losses = bags.loss(labels)
        if annotated is not None:
            losses = losses * torch.from_numpy(self.weights[rows]).to(self.device)
        loss = losses.mean()
        if plan.activity_l2:
            # The sum over a picture, the mean over pictures, as Keras counts it.
            loss = loss + plan.activity_l2 * features.square().sum() / len(rows)
        return loss

    def _known(self, rows: I64) -> tuple[Tensor | None, Tensor | None]:
        annotated = self.boxed[rows]
        if not annotated.any():
            return None, None
        empty = np.zeros((self.plan.grid, self.plan.grid), np.bool_)
        flags = np.stack([self.instances.get(i, empty) for i in rows.tolist()])
        return (
            torch.from_numpy(flags).to(self.device),
            torch.from_numpy(annotated).to(self.device),
        )

    def learn_marks(self, rows: I64) -> None:
        """Take the instances that the network marks now in positive images for known ones.

        Images with boxes keep theirs, and an image without a mark has its highest instance marked.
        """
        rows = rows[self.positive[rows] & ~self.boxed[rows]]
        if not len(rows):
            return
        maps, _ = maps_of(self.network, self.frames, rows, self.plan.batch, self.device)
        self.boxed = self.boxed.copy()
        for i, values in zip(rows.tolist(), maps):
            self.instances[i] = values >= min(self.plan.mark, float(values.max()))
        self.boxed[rows] = True

    def validate(self) -> Mapping[str, float]:
        """Return AUC and loss of the validation images; the AUC is the score if there is one."""
        if not len(self.validation):
            return {}
        _, order = maps_of(self.network, self.frames, self.validation, self.plan.batch, self.device)
        positive = self.positive[self.validation]
        # Cross-entropy of log odds: log(1 + exp(-x)) of the right side.
        signed = np.where(positive, order, -order)
        loss = float(np.logaddexp(0, -signed).mean())
        area = bag_auc(order, positive)
        if area is None:
            return {"score": -loss, "loss": loss}
        return {"score": area, "loss": loss, "AUC": area}


def maps_of(
    network: MilNetwork,
    frames: Frames,
    rows: I64,
    batch: int,
    device: torch.device,
    progress: Progress | None = None,
) -> tuple[F32, F64]:
    """Return (n, grid, grid) probabilities of patches, and (n,) log odds of images."""
    network.eval()
    maps: list[F32] = []
    odds: list[F64] = []
    with torch.no_grad():
        for part in in_batches(rows, batch, progress):
            pictures = torch.from_numpy(scaled(frames.pixels[part])).to(device)
            bags, logits, _ = network.bags(pictures)
            maps.append(torch.sigmoid(logits).cpu().numpy())
            odds.append((bags.positive - bags.negative).cpu().double().numpy())
    return np.concatenate(maps), np.concatenate(odds)


def bag_auc(order: F64, positive: Flags) -> float | None:
    """Return the area under the ROC curve; None if there is only one kind of image."""
    if len(np.unique(positive)) < TWO_KINDS:
        return None
    ranks = CaseRanks.of(order, positive, -np.inf)
    return float(ranks.area(np.ones((1, len(order)), np.int64))[0])


def _of_stage(stage: int, progress: Progress | None) -> Progress | None:
    """Return the progress of one of two stages, which counts to the end of both."""
    if progress is None:
        return None
    return lambda step, total: progress(stage * total + step, 2 * total)


class MilModel(LearningModel):
    """Multiple instance learning, for the table of models."""

    name = "mil"
    measure_name = "AUC"
    output = "maps"
    usual_plans = ("canvases", "pictures")
    small_plan = "pictures"
    settings = ("backbone", "pooling", "grid", "boxed_share", "stages")
    takes_weights = True

    def check_split(self, images: TrainingImages, split: ImageSplit) -> None:
        """Raise unless there are positive and negative images to learn from."""
        target = images.classes[0]
        check_two_kinds(images.positive, split.train, "training", images.name, target)

    def network(
        self, plan: TrainingPlan, channels: int, classes: Sequence[str], weights: str | None = None
    ) -> MilNetwork:
        """Return an untrained network."""
        return MilNetwork(plan, channels, weights)

    def task(
        self,
        network: Any,
        member: Member,
        frames: Frames,
        images: TrainingImages,
        device: torch.device,
    ) -> MilTask:
        """Return the network with its data."""
        return MilTask(network, frames, images.boxed, member.validation, member.plan, device)

    def fit(
        self,
        task: Any,
        member: Member,
        folder: Path,
        *,
        identity: str,
        threads: int,
        progress: Progress | None,
    ) -> History:
        """Train a network, once or in two stages."""
        if member.plan.stages == 1:
            how: dict[str, Any] = {"threads": threads, "progress": progress}
            return super().fit(task, member, folder, identity=identity, **how)
        network, place = task.network, folder / FIRST_STAGE
        beginning = {name: value.clone() for name, value in network.state_dict().items()}
        own_identity = f"{identity}/{FIRST_STAGE}"
        if (place / WEIGHTS).exists():
            load_network(network, place / WEIGHTS, own_identity)
        else:
            place.mkdir(exist_ok=True)
            how = {"threads": threads, "progress": _of_stage(0, progress)}
            super().fit(task, member, place, identity=own_identity, **how)
        with reproducible(threads):
            task.learn_marks(member.rows)
        network.load_state_dict(beginning)
        how = {"threads": threads, "progress": _of_stage(1, progress)}
        return super().fit(task, member, folder, identity=identity, **how)

    def measure(
        self, network: Any, frames: Frames, rows: I64, plan: TrainingPlan, device: torch.device
    ) -> float | None:
        """Return the AUC of whole images."""
        _, order = maps_of(network, frames, rows, plan.batch, device)
        return bag_auc(order, frames.images.positive[rows])

    def outputs(
        self,
        network: Any,
        frames: Frames,
        plan: TrainingPlan,
        device: torch.device,
        progress: Progress | None = None,
    ) -> tuple[F32, F64]:
        """Return maps and log odds."""
        rows = np.arange(len(frames))
        return maps_of(network, frames, rows, plan.batch, device, progress)

    def write(
        self,
        stage: Path,
        frames: Frames,
        plan: TrainingPlan,
        classes: Sequence[str],
        outputs: Mapping[str, Any],
    ) -> None:
        """Write maps, scores and labels as bags."""
        write_maps(stage, frames, outputs)

    def next_commands(self, prediction: PredictedMaps) -> list[list[str]]:
        """Return the command that compares the models."""
        models = [name for name in prediction.models if name != AVERAGE]
        if len(models) < TWO_KINDS:
            return []
        folder = prediction.folder
        words = ["stability", *(str(folder / f"{name}.npz") for name in models)]
        if prediction.labelled:
            words += ["--labels", str(folder / "labels.csv")]
        words += ["--scores", str(folder / "scores.csv")]
        if prediction.pictures:
            words += ["--images", str(folder / "images")]
        return [[*words, "-o", "stability"]]


MODEL = MilModel()
