# SPDX-License-Identifier: Apache-2.0
"""A compact detector: one stage, no anchors, a feature pyramid, complete-IoU loss.

After FCOS (Tian et al. 2019): every place of three levels of features says which class it shows,
where the centre of its box is, and how large it is. A place learns a box if the box fits the level
by its longer side, and if the place lies in its middle (within `RADIUS` strides of the centre and
inside the box) or is the nearest one: thin boxes have no place inside. Of several boxes the
smallest counts. Classes are learnt by focal loss, boxes by 1 - complete IoU.

`DetectorTask` is what `calipers.training.loop.fit` trains; `boxes_of` gives the boxes of images,
after non-maximum suppression per class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, dropout2d, interpolate

from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.errors import InputError
from calipers.evaluation.evaluate import average_precision
from calipers.fusion.fusion_methods import nms
from calipers.show.words import count_text
from calipers.training.datasets.augment import (
    BoxedFrame,
    augmented,
    network_values,
    picture_tensor,
)
from calipers.training.datasets.frames import Frames, scaled
from calipers.training.datasets.training_images import TrainingImages
from calipers.training.loop import Progress, in_batches, part_of
from calipers.training.members import Member
from calipers.training.models import AVERAGE, REFERENCES_FILE, LearningModel, PredictedMaps
from calipers.training.training_plan import TrainingPlan

STEM = (0.25, 0.5, 0.75)  # channels before the pyramid, as shares of its width
GROUPS = 8  # of channels that are normalised together
LARGE = 128  # from this side on the first level has stride 8 instead of 4
RADIUS = 1.5  # strides around the centre of a box that learn it
FITS = (0.0, 6.0, 12.0, math.inf)  # longer side of a box in strides of the first level, by level
PRIOR = 0.01  # probability of a class before training
ALPHA, GAMMA = 0.25, 2.0  # of the focal loss
EPSILON = 1e-7
LARGEST = 4.0  # of the logarithm of a size
MOST, LOWEST = 100, 0.01  # boxes of an image, and their lowest score
SUPPRESSION = 0.5


class Places(NamedTuple):
    """The places of all levels, one below the other: P of them."""

    centres: Tensor  # (P, 2) x y in pixels of the frame
    strides: Tensor  # (P,)
    low: Tensor  # (P,) shortest and longest side that a box of this level has
    high: Tensor


class PlaceOutputs(NamedTuple):
    """What a detector says at every place, and the features that it says it from."""

    logits: Tensor  # (B, P, classes)
    corners: Tensor  # (B, P, 4) in pixels of the frame
    places: Places
    features: Tensor  # (B, P, WIDTH)


class DetectedBoxes(NamedTuple):
    """Boxes of one image, in pixels of its picture."""

    boxes: F64
    scores: F64
    labels: I64


class DetectorNetwork(nn.Module):
    """From pictures to the logits of classes and the sides of boxes at every place."""

    def __init__(self, plan: TrainingPlan, channels: int, n_classes: int) -> None:
        super().__init__()
        self.strides = (8, 16, 32) if plan.side > LARGE else (4, 8, 16)
        self.dropout = plan.dropout
        width = plan.width
        one, two, three = (round(share * width) for share in STEM)
        stem = nn.Sequential(
            _block(channels, one),
            _block(one, two, 2),
            _block(two, three, self.strides[0] // 2),
        )
        steps = [stem, _block(three, width, 2), _block(width, width, 2)]
        self.stages = nn.ModuleList(steps)
        self.lateral = nn.ModuleList([nn.Conv2d(own, width, 1) for own in (three, width, width)])
        self.smooth = nn.ModuleList([_block(width, width) for _ in self.strides])
        self.class_head = nn.Sequential(_block(width, width), nn.Conv2d(width, n_classes, 3, 1, 1))
        self.box_head = nn.Sequential(_block(width, width), nn.Conv2d(width, 4, 3, 1, 1))
        # Nearly all places show nothing: otherwise the first steps would only learn that.
        nn.init.constant_(self.class_head[-1].bias, -math.log((1 - PRIOR) / PRIOR))

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Places]:
        """Return (B, P, classes) logits, (B, P, 4) corners in pixels, and the places."""
        outputs = self.outputs_of(self.pyramid(pictures), self.dropout if self.training else 0.0)
        return outputs.logits, outputs.corners, outputs.places

    def pyramid(self, pictures: Tensor) -> list[Tensor]:
        """Return the features of the three levels, the finest first."""
        features = []
        for stage in self.stages:
            pictures = stage(pictures)
            features.append(pictures)
        above: Tensor | None = None
        levels: list[Tensor] = []
        for lateral, feature in zip(reversed(self.lateral), reversed(features)):
            level = lateral(feature)
            if above is not None:
                level = level + interpolate(above, size=level.shape[-2:], mode="nearest")
            above = level
            levels.insert(0, level)
        return levels

    def outputs_of(self, levels: Sequence[Tensor], dropout: float) -> PlaceOutputs:
        """Return what the heads say; with ``dropout`` whole channels of features are left out."""
        logits, sides, features = [], [], []
        for smooth, level in zip(self.smooth, levels):
            shared = smooth(level)
            if dropout:
                shared = dropout2d(shared, dropout, training=True)
            logits.append(self.class_head(shared).flatten(2).transpose(1, 2))
            sides.append(self.box_head(shared).flatten(2).transpose(1, 2))
            features.append(shared.flatten(2).transpose(1, 2))
        shapes = [level.shape[-2:] for level in levels]
        places = _places(shapes, self.strides, levels[0].device)
        corners = _corners(torch.cat(sides, dim=1), places)
        return PlaceOutputs(torch.cat(logits, dim=1), corners, places, torch.cat(features, dim=1))


def _corners(outputs: Tensor, places: Places) -> Tensor:
    """Return (B, P, 4) corners of outputs: shift of the centre, and logarithm of the size, both in
    strides.
    """
    strides = places.strides[:, None]
    centre = places.centres + outputs[..., :2] * strides
    half = torch.exp(outputs[..., 2:].clamp(-LARGEST, LARGEST)) * strides
    return torch.cat([centre - half, centre + half], dim=-1)


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    # Group norm: batches of detectors are small, and statistics of few images would mislead.
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
        nn.GroupNorm(GROUPS, outputs),
        nn.ReLU(),
    )


def _places(shapes: Sequence[Any], strides: Sequence[int], device: torch.device) -> Places:
    centres, widths, lows, highs = [], [], [], []
    for k, (shape, stride) in enumerate(zip(shapes, strides)):
        y, x = torch.meshgrid(torch.arange(shape[0]), torch.arange(shape[1]), indexing="ij")
        centres.append((torch.stack([x, y], dim=-1).reshape(-1, 2) + 0.5) * stride)
        n = shape[0] * shape[1]
        widths.append(torch.full((n,), float(stride)))
        lows.append(torch.full((n,), FITS[k] * strides[0]))
        highs.append(torch.full((n,), FITS[k + 1] * strides[0]))
    return Places(*(torch.cat(parts).to(device) for parts in (centres, widths, lows, highs)))


def targets_of(boxes: Tensor, places: Places) -> Tensor:
    """Return (P,) which of the boxes (m, 4) a place learns; -1 for none."""
    if not len(boxes):
        return torch.full((len(places.strides),), -1, dtype=torch.int64, device=boxes.device)
    x, y = places.centres[:, None].unbind(-1)
    x0, y0, x1, y1 = boxes[None].unbind(-1)
    inside = (x > x0) & (x < x1) & (y > y0) & (y < y1)
    reach = RADIUS * places.strides[:, None]
    dx, dy = (x - (x0 + x1) / 2).abs(), (y - (y0 + y1) / 2).abs()
    near = (dx < reach) & (dy < reach)
    longer = torch.maximum(x1 - x0, y1 - y0)
    fits = (longer >= places.low[:, None]) & (longer < places.high[:, None])
    distance = (dx.square() + dy.square()).masked_fill(~fits, torch.inf)
    nearest = torch.zeros_like(fits).scatter(0, distance.argmin(dim=0, keepdim=True), True)
    area = ((x1 - x0) * (y1 - y0)).expand(len(places.strides), -1)
    area = area.masked_fill(~(inside & near & fits | nearest), torch.inf)
    smallest = area.min(dim=1)
    return torch.where(torch.isinf(smallest.values), -1, smallest.indices)


def complete_iou(first: Tensor, second: Tensor) -> Tensor:
    """Return (n,) the complete IoU of pairs of boxes: IoU, less the distance of the centres, less
    the difference of the aspects (Zheng et al. 2020).
    """
    a0, a1, b0, b1 = first[:, :2], first[:, 2:], second[:, :2], second[:, 2:]
    common = (torch.minimum(a1, b1) - torch.maximum(a0, b0)).clamp(min=0).prod(dim=1)
    size_a, size_b = (a1 - a0).clamp(min=EPSILON), (b1 - b0).clamp(min=EPSILON)
    iou = common / (size_a.prod(dim=1) + size_b.prod(dim=1) - common)
    hull = (torch.maximum(a1, b1) - torch.minimum(a0, b0)).square().sum(dim=1)
    distance = ((a0 + a1 - b0 - b1) / 2).square().sum(dim=1) / hull.clamp(min=EPSILON)
    angle_a = torch.atan(size_a[:, 0] / size_a[:, 1])
    angle_b = torch.atan(size_b[:, 0] / size_b[:, 1])
    aspect = 4 / math.pi**2 * (angle_a - angle_b).square()
    with torch.no_grad():
        weight = aspect / (1 - iou + aspect).clamp(min=EPSILON)
    return iou - distance - weight * aspect


def focal_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the sum of the focal losses of classes (Lin et al. 2017)."""
    p = torch.sigmoid(logits)
    cross = binary_cross_entropy_with_logits(logits, labels, reduction="none")
    right = torch.where(labels > 0, p, 1 - p)
    weight = torch.where(labels > 0, ALPHA, 1 - ALPHA)
    return (weight * (1 - right) ** GAMMA * cross).sum()


class DetectorTask:
    """A detector with its data: the loss of a batch, and its AP on new images."""

    def __init__(
        self,
        network: DetectorNetwork,
        frames: Frames,
        rows: I64,
        validation: I64,
        plan: TrainingPlan,
        device: torch.device,
    ) -> None:
        """``rows`` are the training images, from which augmentation borrows too."""
        self.network = network.to(device)
        self.frames, self.plan, self.device = frames, plan, device
        self.rows, self.validation = rows, validation

    def sample(self, i: int) -> BoxedFrame:
        """Return a training image with its boxes, in pixels of the frame."""
        return frame_sample(self.frames, i)

    def loss(self, rows: I64) -> Tensor:
        """Return focal loss and complete-IoU loss, per place that learns a box."""
        # The seed of torch is that of the epoch, so that a training continues with the same images.
        random = np.random.default_rng(int(torch.randint(1 << 31, (1,)).item()))
        samples = []
        for i in rows.tolist():
            samples.append(augmented(self, i, random, self.plan.augment))
        pictures = network_values([sample.pixels for sample in samples])
        logits, corners, places = self.network(pictures.to(self.device))
        labels = torch.zeros_like(logits)
        chosen_corners, chosen_boxes = [], []
        for b, sample in enumerate(samples):
            boxes = sample.boxes.to(self.device)
            index = targets_of(boxes, places)
            learning = torch.nonzero(index >= 0)[:, 0]
            classes = sample.labels.to(self.device)
            labels[b, learning, classes[index[learning]]] = 1
            chosen_corners.append(corners[b, learning])
            chosen_boxes.append(boxes[index[learning]])
        predicted_boxes, true_boxes = torch.cat(chosen_corners), torch.cat(chosen_boxes)
        n = max(1, len(true_boxes))
        overlap = complete_iou(predicted_boxes, true_boxes)
        return (focal_loss(logits, labels) + (1 - overlap).sum()) / n

    def validate(self) -> Mapping[str, float]:
        """Return AP at an IoU of 0.5 on the validation images."""
        if not len(self.validation):
            return {}
        value = ap_of(self.network, self.frames, self.validation, self.plan.batch, self.device)
        return {} if value is None else {"score": value, "AP50": value}


def frame_sample(frames: Frames, i: int) -> BoxedFrame:
    """Return an image with its boxes, in pixels of the frame."""
    boxes = frames.images.boxes[i]
    if boxes is None:
        boxes = np.zeros((0, 4))
    return BoxedFrame(
        picture_tensor(frames.pixels[i]),
        torch.from_numpy((boxes * frames.scales[i]).astype(np.float32)),
        torch.from_numpy(frames.images.box_labels[i]),
    )


def boxes_of(
    network: DetectorNetwork,
    frames: Frames,
    rows: I64,
    batch: int,
    device: torch.device,
    progress: Progress | None = None,
) -> list[DetectedBoxes]:
    """Return the boxes of images in pixels of their pictures, after suppression per class."""
    network.eval()
    result = []
    with torch.no_grad():
        for part in in_batches(rows, batch, progress):
            pictures = torch.from_numpy(scaled(frames.pixels[part])).to(device)
            logits, corners, _ = network(pictures)
            scores = torch.sigmoid(logits).cpu().double().numpy()
            places = corners.cpu().double().numpy()
            for b, i in enumerate(part.tolist()):
                own = _suppressed(places[b], scores[b])
                result.append(_in_picture(own, frames, i))
    return result


def _suppressed(corners: F64, scores: F64) -> DetectedBoxes:
    """Return the best boxes of an image."""
    place, label = np.nonzero(scores >= LOWEST)
    order = np.argsort(-scores[place, label], kind="stable")[: 10 * MOST]
    place, label = place[order], label[order]
    boxes, values = corners[place], scores[place, label]
    if not len(place):
        return DetectedBoxes(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    # The boxes of one model; the best come first.
    best, values, label = nms([boxes], [values], [label], iou_threshold=SUPPRESSION)
    return DetectedBoxes(best[:MOST], values[:MOST], label[:MOST])


def _in_picture(own: DetectedBoxes, frames: Frames, i: int) -> DetectedBoxes:
    """Return boxes in pixels of the picture, cut at its border; nothing is left without area."""
    width, height = frames.sizes[i]
    boxes = np.clip(own.boxes / frames.scales[i], 0, [width, height, width, height])
    good = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    return DetectedBoxes(boxes[good], own.scores[good], own.labels[good])


def cohort_of(
    frames: Frames, rows: I64, predictions: Mapping[str, Sequence[DetectedBoxes]]
) -> Cohort:
    """Return references and predictions of some images."""
    images = frames.images
    references = []
    for i in rows.tolist():
        boxes = images.boxes[i]
        reference: dict[str, Any] = {
            "image_id": images.ids[i],
            "boxes": np.zeros((0, 4)) if boxes is None else boxes,
            "labels": images.box_labels[i],
            "width": int(frames.sizes[i, 0]),
            "height": int(frames.sizes[i, 1]),
        }
        # Where nobody names patients, no result should speak of them.
        if images.patients != images.ids:
            reference["patient"] = images.patients[i]
        references.append(reference)
    models = {}
    for name, boxes_per_image in predictions.items():
        entries = []
        for i, own in zip(rows.tolist(), boxes_per_image):
            entry = {"boxes": own.boxes, "labels": own.labels, "scores": own.scores}
            entries.append({"image_id": images.ids[i], **entry})
        models[name] = entries
    return Cohort.from_arrays(references, models, classes=images.classes)


def ap_of(
    network: DetectorNetwork, frames: Frames, rows: I64, batch: int, device: torch.device
) -> float | None:
    """Return the AP at an IoU of 0.5, mean over classes; None without any reference."""
    boxes = boxes_of(network, frames, rows, batch, device)
    if not frames.images.boxed[rows].any():
        return None
    return float(average_precision(cohort_of(frames, rows, {"model": boxes}), iou=(0.5,)))


class DetectorModel(LearningModel):
    """The detector, for the table of models."""

    name = "detector"
    measure_name = "AP50"
    output = "boxes"
    usual_plans = ("canvases-detector", "endocv2022")
    small_plan = "pictures-detector"
    many_classes = True
    sees_all_boxes = True
    keeps_boxed = False
    augmentations = ("none", "light", "heavy")
    takes_ensemble = True
    gives_alarms = True

    def usable(self, images: TrainingImages) -> TrainingImages:
        """Return the images whose objects are all boxed: others would teach to miss them."""
        positive = images.positive
        rows = [i for i, own in enumerate(images.boxes) if own is not None or not positive[i]]
        if not images.boxed.any():
            raise InputError(
                "images with boxes",
                rule="unboxed",
                file=images.name,
                value=f"{len(images)} images without",
                hint="a detector learns from boxes; give --labels with x0, y0, x1, y1, or "
                "--model mil",
            )
        if len(rows) == len(images):
            return images
        note = (
            f"{len(images) - len(rows)} of {count_text('image', len(images))} show something "
            "without a box around it; a detector would learn to miss it, so they are left out"
        )
        return replace(images.take(np.array(rows, np.int64)), notes=(*images.notes, note))

    def network(
        self, plan: TrainingPlan, channels: int, classes: Sequence[str], weights: str | None = None
    ) -> DetectorNetwork:
        """Return an untrained network."""
        return DetectorNetwork(plan, channels, len(classes))

    def task(
        self,
        network: Any,
        member: Member,
        frames: Frames,
        images: TrainingImages,
        device: torch.device,
    ) -> DetectorTask:
        """Return the network with its data."""
        rows, validation = member.rows, member.validation
        return DetectorTask(network, frames, rows, validation, member.plan, device)

    def measure(
        self, network: Any, frames: Frames, rows: I64, plan: TrainingPlan, device: torch.device
    ) -> float | None:
        """Return the AP50."""
        return ap_of(network, frames, rows, plan.batch, device)

    def outputs(
        self,
        network: Any,
        frames: Frames,
        plan: TrainingPlan,
        device: torch.device,
        progress: Progress | None = None,
    ) -> list[DetectedBoxes]:
        """Return the boxes of every image."""
        rows = np.arange(len(frames))
        return boxes_of(network, frames, rows, plan.batch, device, progress)

    def write(
        self,
        stage: Path,
        frames: Frames,
        plan: TrainingPlan,
        classes: Sequence[str],
        outputs: Mapping[str, Any],
    ) -> None:
        """Write boxes and references in the format of COCO."""
        from calipers.training.prediction_files import write_boxes

        write_boxes(stage, frames, classes, outputs)

    def alarms(
        self,
        network: Any,
        frames: Frames,
        usual: Frames,
        plan: TrainingPlan,
        device: torch.device,
        progress: Progress | None = None,
    ) -> Mapping[str, F64]:
        """Return the alarms of monitors that look inside the detector."""
        from calipers.training.monitors import MonitorFit, alarms_of, inspect_images

        inspected, n_done = [], 0
        for own in (usual, frames):
            part = part_of(progress, n_done, len(usual) + len(frames))
            rows = np.arange(len(own))
            inspected.append(inspect_images(network, own, rows, plan.batch, device, progress=part))
            n_done += len(own)
        return alarms_of(inspected[1], MonitorFit.of(inspected[0]))

    def next_commands(self, prediction: PredictedMaps) -> list[list[str]]:
        """Return the command that evaluates one model or its monitors, or fuses several."""
        folder = prediction.folder
        references = str(folder / REFERENCES_FILE)
        names = [name for name in prediction.models if name != AVERAGE]
        files = [f"{name}={folder / name}.json" for name in names]
        if prediction.alarms and prediction.labelled:
            words = ["monitor", references, files[0], "--alarm"]
            words += [str(folder / f"{names[0]}-alarms.csv"), "--classes", "present"]
            return [[*words, "--score-cut", "0.4", "--tau", "0.8", "-o", "monitor"]]
        if len(names) == 1:
            words = ["evaluate", references, *files, "-o", "evaluation"]
            return [words] if prediction.labelled else []
        words = ["fuse", references, *files]
        if prediction.ensemble is not None:
            words += ["--recipe", prediction.ensemble]
        if not prediction.labelled:
            return [[*words, "-o", "fused.json"]]
        words += ["--evaluate"]
        if prediction.ensemble is not None:
            words += ["--preset", prediction.ensemble]
        return [[*words, "-o", "ensemble"]]


MODEL = DetectorModel()
