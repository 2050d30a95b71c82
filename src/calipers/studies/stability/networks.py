# SPDX-License-Identifier: Apache-2.0
"""Networks of the study of stability: which are trained, on what, and the maps that they give.

The paper trains ResNet-50 networks on chest radiographs, radiographs of shoulders and photographs
of cars, which nobody can ship. Here the question is the same and everything else is small: three
data sets whose places are known, five pooling operators, with and without known instances, and five
trainings on random subsets of 95 % of the training images, always tested on the same bags.

- ``digits``: canvases of handwritten digits; a bag is positive if one of them is a 0.
- ``clothes``: canvases of clothes of Fashion-MNIST; positive if one is an ankle boot.
- ``chests``: drawn chests; positive if a lung has a mass. Three in ten are of low quality: small,
  faint and noisy pictures, which leave most of the square to padding, as in the photographs of the
  paper.

`train_networks` trains whatever a folder does not hold yet, one file of maps a model, so that a run
that was stopped goes on. PyTorch is imported here, when networks are trained, and nowhere else in
the study. `calipers.studies.stability.archive` makes one file of the folder.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from calipers.arrays import F64, I64, U8, Flags
from calipers.errors import InputError, UsageError
from calipers.results.files import sha256_of, write_atomically
from calipers.studies.stability.data import LSE_ONE, LSE_SMALL, MAX, MEAN, NOR
from calipers.synthetic.demo import (
    EFFUSION,
    MASS,
    NODULE,
    CentreLook,
    draw_phantom,
    patient_anatomy,
    place,
    stream,
)
from calipers.training.datasets.canvases import Canvases
from calipers.training.datasets.splits import random_of, subset
from calipers.training.datasets.training_images import TrainingImages, open_images

if TYPE_CHECKING:
    from calipers.training.datasets.frames import Frames
    from calipers.training.training_plan import TrainingPlan

DIGITS, CLOTHES, CHESTS = "digits", "clothes", "chests"
IDX_FOLDERS = {DIGITS: "mnist", CLOTHES: "fashion"}  # below --data
TARGETS = {DIGITS: "0", CLOTHES: "9"}  # classes that make a bag positive; 9 is an ankle boot
LICENCES = (
    "the folder of --data holds mnist (CC BY-SA 3.0) and fashion (Fashion-MNIST, MIT), each with "
    "the four idx files train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and their t10k twins"
)
SUBSETS = 5
# Pooling of the plan, and the bias of the last layer before training: rare instances start rare
# where one of them makes a bag positive, undecided where all of them count.
POOLING = {
    NOR: ("noisy-or", -5.0),
    MEAN: ("mean", 0.0),
    LSE_SMALL: ("lse:0.1", 0.0),
    LSE_ONE: ("lse", 0.0),
    MAX: ("max", -2.0),
}
UNKNOWN, KNOWN = "bag labels only", "known instances"
SHARES = {UNKNOWN: 0.0, KNOWN: 0.2}  # of the positive training bags whose instances are known
POOR = 0.3  # share of chests of low quality

Say = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The size of a run; the full one and the quick one differ in nothing else."""

    data_sets: tuple[str, ...] = (DIGITS, CLOTHES, CHESTS)
    operators: tuple[str, ...] = tuple(POOLING)
    supervisions: tuple[str, ...] = (UNKNOWN, KNOWN)
    subsets: int = SUBSETS
    n_train: int = 1000
    n_test: int = 160
    side: int = 48
    grid: int = 12
    glyph: int = 12
    epochs: int = 6
    batch: int = 32
    rate: float = 5e-3
    seed: int = 0

    def plan(self, operator: str, supervision: str) -> TrainingPlan:
        """Return how the networks of a cell are trained."""
        from calipers.training.training_plan import TrainingPlan

        pooling, bias = POOLING[operator]
        return TrainingPlan(
            name=f"{operator}, {supervision}",
            backbone="tiny",
            side=self.side,
            grid=self.grid,
            pooling=pooling,
            head_channels=32,
            head_bias=bias,
            boxed_share=SHARES[supervision],
            validation_share=0.0,
            rate=self.rate,
            schedule="one-cycle",
            epochs=self.epochs,
            batch=self.batch,
        )

    def cells(self) -> list[tuple[str, str, str]]:
        """Return data set, supervision and operator of all cells, in the order of training."""
        cells = []
        for supervision in self.supervisions:
            for data in self.data_sets:
                cells += [(data, supervision, operator) for operator in self.operators]
        return cells


# Trained in two minutes on the digits of scikit-learn; for a trial, not for citing.
QUICK = NetworkSettings(
    data_sets=(DIGITS,), supervisions=(UNKNOWN,), subsets=3, n_train=600, n_test=80, epochs=5
)


def train_networks(
    settings: NetworkSettings, folder: Path, source: str | Path | None, progress: Say
) -> None:
    """Train all networks that the folder does not hold yet.

    Parameters
    ----------
    folder
        For ``run.json``, the test bags of every data set and the maps of every model.
    source
        Folder with the idx folders ``mnist`` and ``fashion``; None: the digits of scikit-learn.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_record(settings, folder, source)
    total = len(settings.cells()) * settings.subsets
    frames_of: dict[str, Frames] = {}
    n_finished = 0
    for data, supervision, operator in settings.cells():
        for k in range(settings.subsets):
            path = model_path(folder, data, supervision, operator, k)
            if not path.exists():
                progress(f"{data}, {operator}, {supervision}", n_finished, total)
                if data not in frames_of:
                    # Cells come data set by data set: one set of pictures is held at a time.
                    frames_of = {data: _prepared(settings, data, source)}
                    _write_bags(folder, data, frames_of[data])
                _train_one(settings, frames_of[data], (supervision, operator), k, path)
            n_finished += 1


def model_path(folder: Path, data: str, supervision: str, operator: str, k: int) -> Path:
    """Return the file of the maps of a model."""
    words = f"{data}-{supervision}-{operator}-{k + 1}"
    return folder / ("".join(c if c.isalnum() or c == "." else "-" for c in words) + ".npz")


def bags_path(folder: Path, data: str) -> Path:
    """Return the file of the test bags of a data set."""
    return folder / f"{data}-bags.npz"


def read_record(folder: Path) -> dict[str, Any]:
    """Return ``run.json``."""
    path = folder / "run.json"
    if not path.is_file():
        hint = f"make it with: calipers study stability --train --keep {folder}"
        raise InputError("the results of a training", rule="not-found", file=str(path), hint=hint)
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _write_record(settings: NetworkSettings, folder: Path, source: str | Path | None) -> None:
    import torch

    record = {
        "schema": "calipers.stability-networks/1",
        "settings": asdict(settings),
        "source": "scikit-learn digits" if source is None else "idx files",
        "inputs": sha256_of(_inputs(source)),
        "torch": str(torch.__version__),
    }
    text = json.dumps(record, indent=1)
    path = folder / "run.json"
    if path.exists() and json.loads(path.read_text(encoding="utf-8")) != json.loads(text):
        raise InputError(
            "the settings of the run that is continued",
            rule="checkpoint",
            file=str(path),
            value="another seed, size, source or version of PyTorch",
            hint="give the options of the first run, or choose a new folder",
        )
    write_atomically(path, text + "\n")


def _inputs(source: str | Path | None) -> list[str]:
    """Return what identifies the characters: hashes of the training images of the folders."""
    from calipers.io.source import hash_file

    if source is None:
        return []
    hashes = []
    for name in IDX_FOLDERS.values():
        files = sorted((Path(source) / name).glob("*idx3*"))
        if not files:
            raise InputError(
                f"the idx files of {name}",
                rule="not-found",
                file=str(Path(source) / name),
                hint=LICENCES,
            )
        hashes += [hash_file(path) for path in files]
    return hashes


def _prepared(settings: NetworkSettings, data: str, source: str | Path | None) -> Frames:
    from calipers.training.datasets.frames import prepare

    if data == CHESTS:
        return prepare(chest_images(settings), settings.side)
    if source is None and data != DIGITS:
        raise UsageError(f"the data set {data!r} needs --data FOLDER: {LICENCES}")
    place_of = "digits" if source is None else str(Path(source) / IDX_FOLDERS[data])
    canvases = Canvases(
        n_train=settings.n_train,
        n_test=settings.n_test,
        target=TARGETS[data],
        side=settings.side,
        glyph=settings.glyph,
        fewest=3,
        most=5,
        seed=settings.seed,
    )
    images = open_images(place_of, canvases=canvases).only(TARGETS[data])
    return prepare(images, settings.side)


def chest_images(settings: NetworkSettings) -> TrainingImages:
    """Return drawn chests, half of them with a mass; the last ``n_test`` are for tests."""
    n = settings.n_train + settings.n_test
    boxes, findings = [], np.zeros((n, 1), np.bool_)
    for i in range(n):
        _, own = _draw_chest(settings, i)
        boxes.append(own)
        findings[i, 0] = len(own) > 0
    ids = tuple(f"chest-{i:05d}" for i in range(n))
    return TrainingImages(
        name="drawn chests",
        ids=ids,
        classes=("mass",),
        findings=findings,
        boxes=tuple(boxes),
        box_labels=tuple(np.zeros(len(own), np.int64) for own in boxes),
        patients=ids,
        picture=lambda i: _draw_chest(settings, i)[0],
        test=np.arange(n) >= settings.n_train,
    )


def is_poor(settings: NetworkSettings, i: int) -> bool:
    """Return whether a chest is of low quality."""
    return bool(stream(settings.seed, "stability", f"quality-{i}").random() < POOR)


def _draw_chest(settings: NetworkSettings, i: int) -> tuple[U8, F64]:
    """Draw chest ``i``: its pixels, and the box around the mass if there is one."""
    random = stream(settings.seed, "stability", f"chest-{i}")
    anatomy = patient_anatomy(settings.seed, f"stability-{i}")
    size, look = _format(settings, is_poor(settings, i), random)
    area = np.array(size, np.float64)
    # Other findings occur with and without a mass: they are no hint.
    labels = [MASS] if i % 2 == 0 else []
    labels += [kind for kind in (NODULE, EFFUSION) if random.random() < 0.3]
    boxes = np.array([place(kind, anatomy, area, random) for kind in labels]).reshape(-1, 4)
    codes = np.array(labels, np.int64)
    pixels = draw_phantom(size, anatomy, boxes, codes, look=look, random=random)
    return pixels, boxes[codes == MASS]


def _format(
    settings: NetworkSettings, poor: bool, random: Generator
) -> tuple[tuple[int, int], CentreLook]:
    """Return width and height of a picture, and its look."""
    side = settings.side
    if poor:
        # Smaller than the frame, so that padding fills the rest.
        width, height = random.integers(round(0.5 * side), round(0.75 * side), 2).tolist()
        return (width, height), CentreLook(0.04, 0.8, 0.06, 0.4)
    # A little padding at the foot or at the right.
    short = int(random.integers(round(0.85 * side), side + 1))
    size = (side, short) if random.random() < 0.5 else (short, side)
    return size, CentreLook(0.0, 1.05, 0.02, 0.12)


def _train_one(
    settings: NetworkSettings, frames: Frames, way: tuple[str, str], k: int, path: Path
) -> None:
    """Train a network and write its maps."""
    import torch

    from calipers.training.loop import fit, reproducible
    from calipers.training.mil import MilNetwork, MilTask, maps_of

    supervision, operator = way
    plan = settings.plan(operator, supervision)
    images = frames.images
    train = np.flatnonzero(~_test_of(images))
    visible = _visible(images, train, plan.boxed_share, settings.seed)
    rows = subset(visible, train, 0.95, settings.seed, k)
    seed = int(random_of(settings.seed, f"{operator}-{supervision}-{k}").integers(1 << 31))
    began = time.process_time()
    device = torch.device("cpu")
    with reproducible(1), tempfile.TemporaryDirectory() as place_of:
        torch.manual_seed(seed)
        network = MilNetwork(plan, frames.channels)
        none = np.zeros(0, np.int64)
        task = MilTask(network, frames, visible.boxed, none, plan, device)
        history = fit(task, plan, rows, Path(place_of), identity=path.name, seed=seed)
        test = np.flatnonzero(_test_of(images))
        maps, odds = maps_of(network, frames, test, 64, device)
    content = {
        "maps": maps.astype(np.float32),
        "odds": odds,
        "loss": np.array(history.epochs[-1].loss),
        "seconds": np.array(time.process_time() - began),
    }
    _write_npz(path, content)


def _test_of(images: TrainingImages) -> Flags:
    if images.test is None:
        raise UsageError(f"{images.name} has no test images")
    return images.test


def _visible(images: TrainingImages, train: I64, share: float, seed: int) -> TrainingImages:
    """Return the images with the boxes of a share of the positive training images."""
    boxed = train[images.boxed[train]]
    n = round(share * len(boxed))
    rows = random_of(seed, "boxes").permutation(boxed)[:n]
    return images.with_boxes_of(np.sort(rows))


def _write_bags(folder: Path, data: str, frames: Frames) -> None:
    """Write labels and instances of the test bags."""
    images = frames.images
    rows = np.flatnonzero(_test_of(images))
    grid = read_record(folder)["settings"]["grid"]
    instances = np.stack([frames.instances(i, grid) for i in rows.tolist()])
    # Which cells of the frame show the picture, not padding.
    inside = np.zeros((len(rows), grid, grid), np.bool_)
    for n, i in enumerate(rows.tolist()):
        width, height = np.ceil(frames.sizes[i] * frames.scales[i] / frames.side * grid).astype(int)
        inside[n, :height, :width] = True
    content = {
        "ids": np.array([images.ids[i] for i in rows.tolist()]),
        "positive": images.positive[rows],
        "instances": instances,
        "inside": inside,
    }
    _write_npz(bags_path(folder, data), content)


def _write_npz(path: Path, content: dict[str, Any]) -> None:
    sink = io.BytesIO()
    np.savez_compressed(sink, **content)
    write_atomically(path, sink.getvalue())
