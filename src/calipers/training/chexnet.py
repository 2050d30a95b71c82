# SPDX-License-Identifier: Apache-2.0
"""CheXNet: a network for several findings, whose classifier also says where they are.

After Rajpurkar et al. (2017) as the RoDeO paper trains it (appendix B): the features of a backbone
(DenseNet-121), their mean over all places, and a linear layer that gives every class its logit.
Pictures are normalised by the mean and standard deviation of the training images; an image may show
any number of classes, and each has a cross-entropy of its own.

A mean and a linear layer can change places. So the linear layer at every place gives a *class
activation map*, whose mean is the logit of the image. `class_maps` interpolates these maps
bilinearly to the frame and cuts off its padding. As in Wang et al. (2017) the lowest value of a map
becomes 0; the highest becomes the probability that the image shows the class, because a map alone
does not say whether there is anything to see: every map has a brightest place. `predict` writes
them image by image, and `calipers boxes` makes boxes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, interpolate

from calipers.arrays import F32, F64, I64, Flags
from calipers.errors import InputError
from calipers.io.tables.table import delimited
from calipers.results.files import write_atomically
from calipers.training.backbones import backbone
from calipers.training.datasets.augment import jitter_and_blur, network_values, picture_tensor
from calipers.training.datasets.frames import Frames, scaled, statistics
from calipers.training.datasets.splits import ImageSplit, check_two_kinds
from calipers.training.datasets.training_images import TrainingImages
from calipers.training.loop import Progress, in_batches
from calipers.training.members import Member
from calipers.training.mil import bag_auc
from calipers.training.models import REFERENCES_FILE, LearningModel, PredictedMaps
from calipers.training.prediction_files import npy_bytes, write_references
from calipers.training.training_plan import TrainingPlan


class ChexnetNetwork(nn.Module):
    """From pictures to class activation maps; their means are the logits of the image."""

    mean: Tensor
    spread: Tensor

    def __init__(
        self, plan: TrainingPlan, channels: int, n_classes: int, weights: str | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone(plan.backbone, channels, weights)
        self.classifier = nn.Conv2d(self.backbone.channels, n_classes, 1)
        nn.init.constant_(self.classifier.bias, plan.head_bias)
        # Of the training images; they are stored with the weights.
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))

    def normalise_by(self, mean: Sequence[float], spread: Sequence[float]) -> None:
        """Set the statistics of the training images, of the numbers that `scaled` gives."""
        self.mean.copy_(torch.tensor(mean))
        self.spread.copy_(torch.tensor(spread))

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, classes) logits and (B, classes, h, w) maps of logits."""
        normal = (pictures - self.mean[:, None, None]) / self.spread[:, None, None]
        maps: Tensor = self.classifier(self.backbone(normal))
        return maps.mean(dim=(2, 3)), maps


class ChexnetTask:
    """A network with its data: the loss of a batch, and how well it tells images apart."""

    def __init__(
        self,
        network: ChexnetNetwork,
        frames: Frames,
        rows: I64,
        validation: I64,
        plan: TrainingPlan,
        device: torch.device,
    ) -> None:
        """``rows`` are the training images, whose statistics normalise all pictures."""
        network.normalise_by(*statistics(frames, rows))
        self.network = network.to(device)
        self.frames, self.plan, self.device = frames, plan, device
        self.validation = validation
        self.findings = frames.images.findings
        self.certainty = frames.images.certain_findings

    def loss(self, rows: I64) -> Tensor:
        """Return the mean cross-entropy over images and the classes that are known of them."""
        labels = torch.from_numpy(self.findings[rows].astype(np.float32)).to(self.device)
        logits, _ = self.network(self._pictures(rows).to(self.device))
        weights = torch.from_numpy(self.certainty[rows].astype(np.float32)).to(self.device)
        losses = binary_cross_entropy_with_logits(logits, labels, weights, reduction="sum")
        return losses / weights.sum().clamp(min=1)

    def _pictures(self, rows: I64) -> Tensor:
        pixels = self.frames.pixels[rows]
        if self.plan.augment == "none":
            return torch.from_numpy(scaled(pixels))
        # The seed of torch is that of the epoch: a training continues with the same images.
        random = np.random.default_rng(int(torch.randint(1 << 31, (1,)).item()))
        return network_values([jitter_and_blur(picture_tensor(own), random) for own in pixels])

    def validate(self) -> Mapping[str, float]:
        """Return loss and mean AUC of the validation images; the score is that AUC."""
        if not len(self.validation):
            return {}
        logits = logits_of(self.network, self.frames, self.validation, self.plan.batch, self.device)
        findings, certain = self.findings[self.validation], self.certainty[self.validation]
        losses = np.logaddexp(0, np.where(findings, -logits, logits))
        loss = float((losses * certain).sum() / max(1, certain.sum()))
        area = mean_auc(logits, findings, certain)
        if area is None:
            return {"score": -loss, "loss": loss}
        return {"score": area, "loss": loss, "AUC": area}


def logits_of(
    network: ChexnetNetwork, frames: Frames, rows: I64, batch: int, device: torch.device
) -> F64:
    """Return (n, classes) logits of images."""
    network.eval()
    parts: list[F64] = [np.zeros((0, network.classifier.out_channels))]
    with torch.no_grad():
        for part in in_batches(rows, batch):
            pictures = torch.from_numpy(scaled(frames.pixels[part])).to(device)
            parts.append(network(pictures)[0].cpu().double().numpy())
    return np.concatenate(parts)


def mean_auc(logits: F64, findings: Flags, certain: Flags) -> float | None:
    """Return the mean of the AUCs of classes, each over the images of which it is known; None if no
    class has images of both kinds.
    """
    areas = []
    for k in range(findings.shape[1]):
        rows = certain[:, k]
        areas.append(bag_auc(logits[rows, k], findings[rows, k]))
    defined = [area for area in areas if area is not None]
    return float(np.mean(defined)) if defined else None


def class_maps(
    network: ChexnetNetwork,
    frames: Frames,
    rows: I64,
    batch: int,
    device: torch.device,
    progress: Progress | None = None,
) -> ClassMaps:
    """Return what the network says about images and about their places."""
    network.eval()
    maps: list[F32] = []
    logits: list[F64] = [np.zeros((0, network.classifier.out_channels))]
    with torch.no_grad():
        for part in in_batches(rows, batch, progress):
            pictures = torch.from_numpy(scaled(frames.pixels[part])).to(device)
            own_logits, coarse = network(pictures)
            logits.append(own_logits.cpu().double().numpy())
            values = interpolate(coarse, size=(frames.side,) * 2, mode="bilinear").cpu().numpy()
            for b, i in enumerate(part.tolist()):
                width, height = np.maximum(np.round(frames.sizes[i] * frames.scales[i]), 1)
                inside = values[b, :, : int(height), : int(width)]
                maps.append(_scaled_map(inside, expit(logits[-1][b])))
    return ClassMaps(np.concatenate(logits), maps)


def _scaled_map(values: F32, highest: F64) -> F32:
    """Return (classes, height, width) values from 0 to the highest of each class; a map that is the
    same everywhere is 0.
    """
    low = values.min(axis=(1, 2), keepdims=True)
    span = values.max(axis=(1, 2), keepdims=True) - low
    unit = np.where(span > 0, (values - low) / np.where(span > 0, span, 1), 0)
    return np.asarray(unit * highest[:, None, None], np.float32)


class ClassMaps(NamedTuple):
    """What a network says about images and about their places."""

    logits: F64  # (n, classes)
    maps: list[F32]  # (classes, height, width) of each image, without padding


class ChexnetModel(LearningModel):
    """CheXNet, for the table of models."""

    name = "chexnet"
    measure_name = "AUC"
    output = "maps"
    usual_plans = ("canvases-chexnet", "chexnet")
    small_plan = "pictures-chexnet"
    many_classes = True
    keeps_boxed = False
    augmentations = ("none", "jitter-blur")
    settings = ("backbone",)
    takes_weights = True

    def check_split(self, images: TrainingImages, split: ImageSplit) -> None:
        """Raise unless every class has images that show it, and images that do not."""
        for k, name in enumerate(images.classes):
            rows = split.train[images.certain_findings[split.train, k]]
            check_two_kinds(images.findings[:, k], rows, "training", images.name, name)

    def network(
        self, plan: TrainingPlan, channels: int, classes: Sequence[str], weights: str | None = None
    ) -> ChexnetNetwork:
        """Return an untrained network."""
        return ChexnetNetwork(plan, channels, len(classes), weights)

    def task(
        self,
        network: Any,
        member: Member,
        frames: Frames,
        images: TrainingImages,
        device: torch.device,
    ) -> ChexnetTask:
        """Return the network with its data."""
        rows, validation = member.rows, member.validation
        return ChexnetTask(network, frames, rows, validation, member.plan, device)

    def measure(
        self, network: Any, frames: Frames, rows: I64, plan: TrainingPlan, device: torch.device
    ) -> float | None:
        """Return the mean of the AUCs of classes."""
        logits = logits_of(network, frames, rows, plan.batch, device)
        images = frames.images
        return mean_auc(logits, images.findings[rows], images.certain_findings[rows])

    def outputs(
        self,
        network: Any,
        frames: Frames,
        plan: TrainingPlan,
        device: torch.device,
        progress: Progress | None = None,
    ) -> ClassMaps:
        """Return logits and maps."""
        rows = np.arange(len(frames))
        return class_maps(network, frames, rows, plan.batch, device, progress)

    def write(
        self,
        stage: Path,
        frames: Frames,
        plan: TrainingPlan,
        classes: Sequence[str],
        outputs: Mapping[str, Any],
    ) -> None:
        """Write a folder of maps per model, scores, sizes, and references if boxes are known."""
        ids = frames.images.ids
        names = _file_names(ids)
        for model, own in outputs.items():
            for name, values in zip(names, own.maps):
                path = stage / model / f"{name}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(npy_bytes(values))
        scores = {}
        for model, own in outputs.items():
            for k, label in enumerate(classes):
                scores[f"{model}: {label}"] = expit(own.logits[:, k]).tolist()
        write_atomically(stage / "scores.csv", delimited({"image": list(ids), **scores}))
        sizes = {"image": list(ids)}
        sizes |= {"width": frames.sizes[:, 0].astype(int).tolist()}
        sizes |= {"height": frames.sizes[:, 1].astype(int).tolist()}
        write_atomically(stage / "sizes.csv", delimited(sizes))
        if frames.images.classes and all(own is not None for own in frames.images.boxes):
            write_references(stage, frames)

    def next_commands(self, prediction: PredictedMaps) -> list[list[str]]:
        """Return the commands that make boxes of the maps of the first model, and judge them."""
        folder, name = prediction.folder, prediction.models[0]
        words = ["boxes", str(folder / name), "--pattern", "{image}", "--classes"]
        words += [",".join(prediction.classes), "--sizes", str(folder / "sizes.csv")]
        commands = [[*words, "--keep-best", "-o", f"{name}.json"]]
        if (folder / REFERENCES_FILE).exists():
            words = ["evaluate", str(folder / REFERENCES_FILE), f"{name}.json", "--preset", "rodeo"]
            commands.append([*words, "-o", "rodeo"])
        return commands


def _file_names(ids: Sequence[str]) -> list[str]:
    """Return the paths of maps below their folder, without suffix: those of the pictures."""
    names = []
    for one in ids:
        parts = PurePosixPath(one.replace("\\", "/")).parts
        # An id is a text of the user: it must not lead out of the folder.
        names.append("/".join(part for part in parts if part not in ("/", "..", ".")) or "_")
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(
            "names of images that give different file names", rule="dup-image", value=double
        )
    return names


MODEL = ChexnetModel()
