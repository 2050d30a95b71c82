# SPDX-License-Identifier: Apache-2.0
"""Trained predictors for table 1: networks after CheXNet, which learn from labels of whole images.

The paper trains CheXNet (DenseNet-121) on ChestX-ray8 and makes boxes of its class activation maps.
`train_networks` trains two small networks of the same kind (`calipers.training.chexnet`): on
canvases of scikit-learn's digits, ten classes, and on drawn chests, four classes of findings whose
places and sizes are those of the demo. Maps become boxes as in the paper (`boxes_from_heatmaps`:
thresholds 60 and 180), the best of each class and image. No box has a part in training or in any
choice.

Boxes of the test images are kept in one npz file (`ChexnetArchive`), so that table 1 can be made
again without PyTorch; `shipped_networks` is the file that comes with Calipers. Numbers are rounded
before anything is computed from them: boxes to 1/8 pixel, scores to 16 bits.
"""

from __future__ import annotations

import io
import json
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers import __version__
from calipers.arrays import F64, I64, U8
from calipers.data.cohort import Cohort
from calipers.io.source import require_file
from calipers.results.files import write_atomically
from calipers.studies.kept_archives import archive_arrays
from calipers.studies.steps import Progress
from calipers.synthetic.demo import (
    CLASSES,
    CentreLook,
    draw_phantom,
    patient_anatomy,
    place,
    stream,
)

if TYPE_CHECKING:
    from calipers.training.datasets.training_images import TrainingImages

NETWORK_SCHEMA = "calipers.rodeo-networks/1"
FILE = "chexnet.npz"
DIGITS, CHESTS = "digits", "chests"
STEPS = 8  # per pixel of a box
PLAN = "canvases-chexnet"
SIDE = 64  # pixels of a canvas
CHEST_SIDE = 96  # pixels of a drawn chest
SHARES = (0.35, 0.3, 0.3, 0.25)  # of drawn chests with a finding, in the order of CLASSES


@dataclass(frozen=True, slots=True)
class NetworkCounts:
    """Numbers of images, and epochs."""

    training: int
    test: int
    epochs: int


FULL, QUICK = NetworkCounts(1500, 300, 12), NetworkCounts(120, 40, 1)


@dataclass(frozen=True)
class NetworkRecord:
    """References and predictions of one network on its test images."""

    name: str
    about: str  # what it was trained on
    classes: tuple[str, ...]
    side: int
    n_images: int
    auc: float  # mean over the classes, of labels of whole images
    references: tuple[I64, F64, I64]  # image, boxes, labels
    predictions: tuple[I64, F64, I64, F64]  # image, boxes, labels, scores

    def cohort(self) -> Cohort:
        """Return references and predictions of the test images."""
        references, predictions = [], []
        for k in range(self.n_images):
            entry = _rows_of(k, self.references, ("boxes", "labels"))
            sizes = {"width": self.side, "height": self.side}
            references.append({"image_id": f"{self.name}-{k:04d}", **entry, **sizes})
            entry = _rows_of(k, self.predictions, ("boxes", "labels", "scores"))
            predictions.append({"image_id": f"{self.name}-{k:04d}", **entry})
        return Cohort.from_arrays(references, {self.model: predictions}, classes=self.classes)

    @property
    def model(self) -> str:
        """The name of the model."""
        return f"CheXNet-like on {self.name}"


def _rows_of(k: int, table: tuple[Any, ...], names: tuple[str, ...]) -> dict[str, Any]:
    own = slice(*np.searchsorted(table[0], [k, k + 1]).tolist())
    return {name: column[own] for name, column in zip(names, table[1:])}


@dataclass(frozen=True)
class ChexnetArchive:
    """All networks of a run."""

    networks: tuple[NetworkRecord, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the archive; the same archive gives the same bytes."""
        arrays: dict[str, Any] = {}
        facts = []
        for n, one in enumerate(self.networks):
            image, boxes, labels = one.references
            arrays[f"{n}-reference-image"] = image.astype(np.uint16)
            arrays[f"{n}-reference-boxes"] = np.round(boxes * STEPS).astype(np.uint16)
            arrays[f"{n}-reference-labels"] = labels.astype(np.uint8)
            image, boxes, labels, scores = one.predictions
            arrays[f"{n}-image"] = image.astype(np.uint16)
            arrays[f"{n}-boxes"] = np.round(boxes * STEPS).astype(np.uint16)
            arrays[f"{n}-labels"] = labels.astype(np.uint8)
            arrays[f"{n}-scores"] = scores.astype(np.float16)
            names = ("name", "about", "classes", "side", "n_images", "auc")
            facts.append({name: getattr(one, name) for name in names})
        document = {"schema": NETWORK_SCHEMA, "about": dict(self.about), "networks": facts}
        text = json.dumps(document, indent=1, allow_nan=False).encode()
        sink = io.BytesIO()
        np.savez_compressed(sink, about=np.frombuffer(text, np.uint8), **arrays)
        write_atomically(path, sink.getvalue())

    @classmethod
    def read(cls, path: Path) -> ChexnetArchive:
        """Read an archive."""
        require_file(path)
        what = "an archive of the networks of the study of RoDeO"
        hint = "make one: calipers study rodeo --train --keep DIR"
        networks = []
        with archive_arrays(Path(path), str(path), what, hint) as content:
            document = json.loads(bytes(content["about"]))
            if document.get("schema") != NETWORK_SCHEMA:
                raise KeyError("schema")
            for n, facts in enumerate(document["networks"]):
                names = [name for name in content if name.startswith(f"{n}-")]
                arrays = {name.partition("-")[2]: content[name] for name in names}
                networks.append(_record(facts, arrays))
            about = document["about"]
        return cls(tuple(networks), about)


def _record(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> NetworkRecord:
    return NetworkRecord(
        name=facts["name"],
        about=facts["about"],
        classes=tuple(facts["classes"]),
        side=int(facts["side"]),
        n_images=int(facts["n_images"]),
        auc=float(facts["auc"]),
        references=(
            arrays["reference-image"].astype(np.int64),
            arrays["reference-boxes"].astype(np.float64) / STEPS,
            arrays["reference-labels"].astype(np.int64),
        ),
        predictions=(
            arrays["image"].astype(np.int64),
            arrays["boxes"].astype(np.float64) / STEPS,
            arrays["labels"].astype(np.int64),
            arrays["scores"].astype(np.float64),
        ),
    )


def shipped_networks() -> Path:
    """Return the archive that comes with Calipers."""
    return Path(str(resources.files("calipers").joinpath("studies", "rodeo", FILE)))


def train_networks(
    *, seed: int, quick: bool, progress: Progress, keep: Path | None = None
) -> ChexnetArchive:
    """Train both networks and return their boxes of test images; ``keep`` is a folder for them.

    A network that is in that folder already, from the same command, is not trained again.
    """
    counts = QUICK if quick else FULL
    about = _about(counts, seed, quick)
    networks = []
    for n, name in enumerate((DIGITS, CHESTS)):
        progress(f"training on {name}", n, 2)
        path = None if keep is None else keep / f"chexnet-{name}.npz"
        record = _kept_record(path, about)
        if record is None:
            record = _train(name, counts, seed)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                ChexnetArchive((record,), about).write(path)
        networks.append(record)
    archive = ChexnetArchive(tuple(networks), about)
    if keep is not None:
        archive.write(keep / FILE)
    progress("networks", 2, 2)
    return archive


def _kept_record(path: Path | None, about: Mapping[str, Any]) -> NetworkRecord | None:
    if path is None or not path.exists():
        return None
    archive = ChexnetArchive.read(path)
    return archive.networks[0] if archive.about == dict(about) else None


def _about(counts: NetworkCounts, seed: int, quick: bool) -> dict[str, Any]:
    import torch

    words = ["calipers study rodeo --train"]
    words += [f"--seed {seed}"] if seed else []
    words += ["--quick"] if quick else []
    return {
        "command": " ".join(words),
        "seed": seed,
        "quick": quick,
        "counts": {name: getattr(counts, name) for name in NetworkCounts.__slots__},
        "calipers": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def _images(name: str, counts: NetworkCounts, seed: int) -> TrainingImages:
    from calipers.training.datasets.canvases import Canvases
    from calipers.training.datasets.training_images import open_images

    if name == CHESTS:
        return chest_images(counts, seed)
    canvases = Canvases(n_train=counts.training, n_test=counts.test, side=SIDE, seed=seed)
    return open_images("digits", canvases=canvases)


def chest_images(counts: NetworkCounts, seed: int) -> TrainingImages:
    """Return drawn chests with any of four findings; the last ones are for tests."""
    from calipers.training.datasets.training_images import TrainingImages

    n = counts.training + counts.test
    drawings = [_draw_chest(seed, i) for i in range(n)]
    findings = np.zeros((n, len(CLASSES)), np.bool_)
    for i, (_, _, labels) in enumerate(drawings):
        findings[i, labels] = True
    ids = tuple(f"chest-{i:05d}" for i in range(n))
    return TrainingImages(
        name="drawn chests",
        ids=ids,
        classes=CLASSES,
        findings=findings,
        boxes=tuple(boxes for _, boxes, _ in drawings),
        box_labels=tuple(labels for _, _, labels in drawings),
        patients=ids,
        picture=lambda i: drawings[i][0],
        test=np.arange(n) >= counts.training,
    )


def _draw_chest(seed: int, i: int) -> tuple[U8, F64, I64]:
    """Draw chest ``i``: its pixels, and the boxes of its findings, at most one of each class."""
    random = stream(seed, "rodeo", f"chest-{i}")
    anatomy = patient_anatomy(seed, f"rodeo-{i}")
    area = np.array([CHEST_SIDE, CHEST_SIDE], np.float64)
    labels = np.flatnonzero(random.random(len(CLASSES)) < np.array(SHARES))
    boxes = [place(int(kind), anatomy, area, random) for kind in labels]
    corners = np.array(boxes, np.float64).reshape(-1, 4)
    size = (CHEST_SIDE, CHEST_SIDE)
    pixels = draw_phantom(size, anatomy, corners, labels, look=CentreLook(), random=random)
    return pixels, corners, labels


def _train(name: str, counts: NetworkCounts, seed: int) -> NetworkRecord:
    import torch

    from calipers.heatmaps.boxes import boxes_from_heatmaps
    from calipers.training.chexnet import ChexnetNetwork, ChexnetTask, class_maps, mean_auc
    from calipers.training.datasets.frames import prepare
    from calipers.training.loop import fit, reproducible
    from calipers.training.training_plan import TrainingPlan

    images = _images(name, counts, seed)
    side = SIDE if name == DIGITS else CHEST_SIDE
    frames = prepare(images, side)
    plan = TrainingPlan.load(PLAN).changed(side=side, epochs=counts.epochs)
    assert images.test is not None
    rows, tests = np.flatnonzero(~images.test), np.flatnonzero(images.test)
    device = torch.device("cpu")
    with reproducible(1), tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(seed)
        network = ChexnetNetwork(plan, 1, len(images.classes))
        task = ChexnetTask(network, frames, rows, np.zeros(0, np.int64), plan, device)
        fit(task, plan, rows, Path(folder), identity="study", seed=seed)
        outputs = class_maps(network, frames, tests, plan.batch, device)
    auc = mean_auc(outputs.logits, images.findings[tests], images.certain_findings[tests])
    boxes = boxes_from_heatmaps(outputs.maps, classes=images.classes, keep_best=True).predictions
    own_boxes = [np.asarray(images.boxes[i], np.float64).reshape(-1, 4) for i in tests.tolist()]
    owner = np.repeat(np.arange(len(tests)), [len(own) for own in own_boxes])
    own_labels = np.concatenate([images.box_labels[i] for i in tests.tolist()])
    predicted = np.round(boxes.boxes * STEPS) / STEPS
    references = np.round(np.concatenate(own_boxes) * STEPS) / STEPS
    scores = boxes.score.astype(np.float16).astype(np.float64)
    what = "canvases of scikit-learn's digits" if name == DIGITS else "drawn chests"
    return NetworkRecord(
        name=name,
        about=f"{counts.training} {what}, {side} x {side} pixels, {counts.epochs} epochs",
        classes=images.classes,
        side=side,
        n_images=len(tests),
        auc=round(float("nan") if auc is None else auc, 4),
        references=(owner, references, own_labels.astype(np.int64)),
        predictions=(boxes.image.astype(np.int64), predicted, boxes.label.astype(np.int64), scores),
    )
