# SPDX-License-Identifier: Apache-2.0
"""Monitors that look inside a detector: an alarm per image, for ``calipers monitor``.

A detector says at every place which class it sees. The *objects* of an image are the peaks of these
scores from `CANDIDATE` on, of any class, one per box (suppressed at an IoU of 0.5); if there is
none, the best place stands for the image. Low peaks count on purpose: what a detector is unsure of
is what a monitor wants to know. Every object has the logits of all classes and the features that
they were computed from, and every monitor is the mean of a quantity over the objects:

- on outputs: ``max-sigmoid`` (1 - the highest probability; the baseline of Hendrycks and Gimpel
  2017), ``energy`` (minus the joint energy of sigmoids, Wang et al. 2021), ``entropy`` (of the
  probabilities divided by their sum);
- on features: ``mahalanobis`` (to the nearest class, one covariance for all, Lee et al. 2018) and
  ``knn`` (to the k-th nearest object of the training images on the unit sphere, Sun et al. 2022);
- on both: ``dropout``, how much the highest probability varies if random channels of the features
  are left out (Gal and Ghahramani 2016);
- on the features of the whole picture, the mean over all places: ``picture-mahalanobis`` and
  ``picture-knn``.

`inspect_images` collects objects, `MonitorFit` learns what is usual from training images, and
`alarms_of` gives the columns that `calipers.training.predict` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from scipy.special import expit, xlogy
from torch import Tensor

from calipers.arrays import F64, I64
from calipers.monitors.baselines import Normal
from calipers.training.datasets.frames import Frames, scaled
from calipers.training.detector import DetectorNetwork, PlaceOutputs
from calipers.training.loop import Progress, in_batches

CANDIDATE = 0.1  # score from which on a peak is an object
MOST = 20  # objects of an image
OVERLAP = 0.5  # IoU from which on two peaks are one
PASSES = 8  # with dropout
DROPOUT = 0.1  # if the detector was trained without
NEIGHBOUR = 5
MOST_FIT = 1000  # training images
LEAST = 1e-12

MONITORS: Mapping[str, str] = {
    "max-sigmoid": "1 - the highest probability of a class",
    "energy": "minus the joint energy of the logits of all classes",
    "entropy": "entropy of the probabilities of the classes, in nats",
    "mahalanobis": "Mahalanobis distance of the features to those of the nearest class",
    "knn": f"distance of the features to the {NEIGHBOUR}th nearest training object",
    "dropout": "standard deviation of the highest probability under dropout",
    "picture-mahalanobis": "Mahalanobis distance of the mean features of the picture",
    "picture-knn": f"distance of these to the {NEIGHBOUR}th nearest training image",
}


@dataclass(frozen=True)
class InspectedImages:
    """Objects of images, one below the other, and the features of the pictures."""

    image: I64  # (m,) from 0 to n - 1, ascending; every image has one at least
    logits: F64  # (m, classes)
    features: F64  # (m, WIDTH)
    spread: F64  # (m,) deviation of the highest probability under dropout
    pictures: F64  # (n, WIDTH)

    def mean_over_objects(self, values: F64) -> F64:
        """Return (n,) the mean of a quantity (m,) over the objects of every image."""
        n = len(self.pictures)
        total = np.bincount(self.image, values, minlength=n)
        return np.asarray(total / np.bincount(self.image, minlength=n))


def inspect_images(
    network: DetectorNetwork,
    frames: Frames,
    rows: I64,
    batch: int,
    device: torch.device,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> InspectedImages:
    """Return the objects of images, with what the detector computed on the way."""
    network.eval()
    parts = []
    image = []
    n = 0
    random = torch.Generator(device="cpu").manual_seed(seed)
    with torch.no_grad():
        for part in in_batches(rows, batch, progress):
            pictures = torch.from_numpy(scaled(frames.pixels[part])).to(device)
            levels = network.pyramid(pictures)
            outputs = network.outputs_of(levels, 0.0)
            spread = _spread(network, levels, random)
            means = outputs.features.mean(dim=1)
            for b in range(len(part)):
                places = _peaks(outputs, b)
                columns = (outputs.logits[b, places], outputs.features[b, places])
                own = [*columns, spread[b, places], means[b]]
                parts.append([column.double().cpu().numpy() for column in own])
                image += [n] * len(places)
                n += 1
    logits, features, deviations, averages = zip(*parts)
    return InspectedImages(
        np.array(image, np.int64),
        np.concatenate(logits),
        np.concatenate(features),
        np.concatenate(deviations),
        np.stack(averages),
    )


def _spread(network: DetectorNetwork, levels: list[Tensor], random: torch.Generator) -> Tensor:
    """Return (B, P) the standard deviation of the highest probability over passes."""
    rate = network.dropout or DROPOUT
    state = torch.get_rng_state()
    # Dropout draws from the seed of the library alone; it is put back afterwards.
    torch.manual_seed(int(torch.randint(1 << 31, (1,), generator=random).item()))
    total = square = torch.zeros(())
    for _ in range(PASSES):
        logits = network.outputs_of(levels, rate).logits
        probability = torch.sigmoid(logits).amax(dim=2)
        total, square = total + probability, square + probability.square()
    torch.set_rng_state(state)
    return (square / PASSES - (total / PASSES).square()).clamp(min=0).sqrt()


def _peaks(outputs: PlaceOutputs, b: int) -> list[int]:
    """Return the places of the objects of an image, the highest score first."""
    scores = torch.sigmoid(outputs.logits[b]).amax(dim=1).double().cpu().numpy()
    corners = outputs.corners[b].double().cpu().numpy()
    order = np.argsort(-scores, kind="stable")
    candidates = order[scores[order] >= CANDIDATE]
    if not len(candidates):
        return [int(order[0])]
    places: list[int] = []
    while len(candidates) and len(places) < MOST:
        best = candidates[0]
        places.append(int(best))
        candidates = candidates[_iou(corners[best], corners[candidates]) < OVERLAP]
    return places


def _iou(box: F64, others: F64) -> F64:
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(axis=1)
    area = float((box[2:] - box[:2]).prod())
    return np.asarray(common / (area + (others[:, 2:] - others[:, :2]).prod(axis=1) - common))


@dataclass(frozen=True)
class MonitorFit:
    """What objects and pictures of training images look like."""

    centres: F64  # (classes, WIDTH) mean features of each class; NaN of classes never predicted
    residuals: Normal  # around the centres, of all classes
    objects: cKDTree  # features on the unit sphere
    picture_features: Normal
    pictures: cKDTree
    n_images: int

    @classmethod
    def of(cls, usual: InspectedImages) -> MonitorFit:
        """Learn from training images; an object belongs to the class that the detector says."""
        label = usual.logits.argmax(axis=1)
        centres = np.full((usual.logits.shape[1], usual.features.shape[1]), np.nan)
        for k in np.unique(label).tolist():
            centres[k] = usual.features[label == k].mean(axis=0)
        return cls(
            centres,
            Normal.fitted(usual.features - centres[label]),
            cKDTree(_unit(usual.features)),
            Normal.fitted(usual.pictures),
            cKDTree(_unit(usual.pictures)),
            len(usual.pictures),
        )

    def mahalanobis(self, features: F64) -> F64:
        """Return (m,) the distance to the nearest class."""
        distances = []
        for centre in self.centres:
            if not np.isnan(centre).any():
                distances.append(self.residuals.distances(features - centre))
        return np.asarray(np.min(distances, axis=0))


def alarms_of(inspected: InspectedImages, fit: MonitorFit) -> dict[str, F64]:
    """Return the alarms of every monitor, (n,) each; high means alarm."""
    probability = expit(inspected.logits)
    share = probability / np.maximum(probability.sum(axis=1, keepdims=True), LEAST)
    over_objects = {
        "max-sigmoid": 1 - probability.max(axis=1),
        "energy": -np.logaddexp(0, inspected.logits).sum(axis=1),
        "entropy": -xlogy(share, share).sum(axis=1),
        "mahalanobis": fit.mahalanobis(inspected.features),
        "knn": _neighbour(fit.objects, inspected.features),
        "dropout": inspected.spread,
    }
    alarms = {name: inspected.mean_over_objects(own) for name, own in over_objects.items()}
    alarms["picture-mahalanobis"] = fit.picture_features.distances(inspected.pictures)
    alarms["picture-knn"] = _neighbour(fit.pictures, inspected.pictures)
    return alarms


def _neighbour(tree: cKDTree, rows: F64) -> F64:
    # Of fewer rows than that the farthest is taken.
    k = min(NEIGHBOUR, tree.n)
    distances, _ = tree.query(_unit(rows), k=[k])
    return np.asarray(distances[:, 0])


def _unit(rows: F64) -> F64:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), LEAST))
