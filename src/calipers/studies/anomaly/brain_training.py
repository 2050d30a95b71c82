# SPDX-License-Identifier: Apache-2.0
"""Train the algorithms of the benchmark on brains, and evaluate their maps of brains with spheres.

`train_benchmarks` goes through both settings of `calipers.studies.anomaly.brains`. In ``T1`` six
networks of `calipers.training.anomaly` learn from slices, beside four algorithms without a network;
in ``MOOD-like`` compete those kinds that entered that challenge, on slices and on whole volumes of
half the resolution. All see normal brains only, and all raw scores are calibrated on further normal
brains by one rule (`algorithms.calibrate`). No brain with spheres has a part in training or in any
choice. Maps are rounded to 16 bits before they are evaluated, so that kept ones give the same
numbers.

Networks need PyTorch (extra ``train``), brains need nilearn.
"""

from __future__ import annotations

import io
import json
import platform
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers import __version__
from calipers.arrays import F32, U8, Flags
from calipers.data.maps import Sample
from calipers.results.files import write_atomically
from calipers.studies.anomaly.algorithms import CLASSICAL, Score, calibrate
from calipers.studies.anomaly.archive import (
    FILE,
    SEEN,
    VIEWS,
    VOLUMES,
    AlgorithmRecord,
    AnomalyArchive,
    Benchmark,
    ExampleSlice,
    Maps,
)
from calipers.studies.anomaly.brains import (
    NOTICE,
    RADII,
    SIDE,
    BrainSetting,
    BrainTemplate,
    BrainVolume,
    VolumeCounts,
    read_template,
    settings_of,
)
from calipers.studies.anomaly.measures import METRICS, metric_estimates, metric_values
from calipers.studies.steps import Progress

Half = NDArray[np.float16]

FULL, QUICK = VolumeCounts(24, 6, 24), VolumeCounts(3, 2, 4)
THRESHOLD = 0.5
THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
EXAMPLES = 12  # slices that are kept, one of each volume with spheres
SLICE_STEP = 2  # every second slice of a training brain is learned from
SHRINK = 2  # whole volumes are learned from at half the resolution


@dataclass(frozen=True, slots=True)
class BenchmarkEntry:
    """A network, or the name of an algorithm without one."""

    name: str
    method: str = ""  # of `calipers.training.anomaly`; empty: no network
    dimensions: int = 2

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if not self.method:
            return "without a network"
        return "network on slices" if self.dimensions == 2 else "network on volumes"

    @property
    def about(self) -> str:
        """The score of a voxel, in words."""
        return NETWORKS[self.method] if self.method else CLASSICAL[self.name][1]


NETWORKS: Mapping[str, str] = {
    "ae": "what an autoencoder does not reproduce",
    "vae": "what a variational autoencoder does not reproduce",
    "denoising": "what a network that removes coarse noise changes",
    "padim": "Mahalanobis distance of features at the same place (PaDiM)",
    "distillation": "features that a student does not decode (reverse distillation)",
    "fpi": "how much of a voxel looks blended in (foreign patch interpolation)",
}
ENTRIES: Mapping[str, tuple[BenchmarkEntry, ...]] = {
    "T1": (
        *(BenchmarkEntry(method, method) for method in NETWORKS),
        *(BenchmarkEntry(name) for name in CLASSICAL),
    ),
    "MOOD-like": (
        BenchmarkEntry("fpi", "fpi"),
        BenchmarkEntry("fpi-3d", "fpi", 3),
        BenchmarkEntry("denoising", "denoising"),
        BenchmarkEntry("denoising-3d", "denoising", 3),
        BenchmarkEntry("vae", "vae"),
        BenchmarkEntry("atlas"),
        BenchmarkEntry("local-contrast"),
    ),
}


@dataclass(frozen=True, slots=True)
class TrainingEffort:
    """How long networks are trained."""

    epochs: int  # on slices
    volume_epochs: int  # on whole volumes


EFFORT, QUICK_EFFORT = TrainingEffort(5, 10), TrainingEffort(1, 1)
BATCH = 8  # slices: many steps in little time


def train_benchmarks(
    *,
    seed: int,
    quick: bool,
    progress: Progress,
    keep: Path | None = None,
    template: BrainTemplate | None = None,
) -> AnomalyArchive:
    """Train all algorithms and return what came out.

    With ``keep``, the maps of every algorithm are written into that folder when they are done, and
    those that are there already, from the same command, are not made again.
    """
    template = template or read_template()
    counts, effort = (QUICK, QUICK_EFFORT) if quick else (FULL, EFFORT)
    about = _about(template, counts, effort, seed, quick)
    total = sum(map(len, ENTRIES.values())) + len(ENTRIES)
    step = 0
    benchmarks = []
    for setting in settings_of(template, counts, seed):
        brains = TrainingBrains.of(setting)
        maps: dict[str, list[Half]] = {}
        seconds: dict[str, float] = {}
        for entry in ENTRIES[setting.name]:
            progress(f"{setting.name}: {entry.name}", step, total)
            path = None if keep is None else keep / f"{setting.name}-{entry.name}.npz"
            stored = _kept_maps(path, about)
            if stored is None:
                began = time.process_time()
                score = calibrate(_fitted(entry, brains, effort, seed), brains.calibration)
                scores = [score(volume.image).astype(np.float16) for volume in brains.test]
                stored = scores, time.process_time() - began
                if path is not None:
                    _keep_maps(path, stored, about)
            maps[entry.name], seconds[entry.name] = stored
            step += 1
        progress(f"evaluating {setting.name}", step, total)
        benchmarks.append(evaluate_benchmark(setting, brains.test, maps, seconds))
        step += 1
    progress("benchmark", total, total)
    archive = AnomalyArchive(tuple(benchmarks), about)
    if keep is not None:
        archive.write(keep / FILE)
    return archive


@dataclass(frozen=True)
class TrainingBrains:
    """The brains of a setting."""

    training: list[F32]
    calibration: list[F32]
    test: list[BrainVolume]

    @classmethod
    def of(cls, setting: BrainSetting) -> TrainingBrains:
        """Return the brains of a setting, made anew."""
        counts = setting.counts
        return cls(
            setting.normal("training", counts.training),
            setting.normal("calibration", counts.calibration),
            setting.test_volumes(),
        )


def _about(
    template: BrainTemplate, counts: VolumeCounts, effort: TrainingEffort, seed: int, quick: bool
) -> dict[str, Any]:
    import torch

    words = ["calipers study anomaly --train"]
    words += [f"--seed {seed}"] if seed else []
    words += ["--quick"] if quick else []
    return {
        "command": " ".join(words),
        "seed": seed,
        "quick": quick,
        "counts": {name: getattr(counts, name) for name in VolumeCounts.__slots__},
        "epochs": [effort.epochs, effort.volume_epochs],
        "calipers": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "template": list(template.files),
        "notice": NOTICE,
    }


def _keep_maps(path: Path, stored: tuple[Sequence[Half], float], about: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scores, seconds = stored
    text = json.dumps({"about": dict(about), "seconds": seconds}).encode()
    sink = io.BytesIO()
    np.savez_compressed(sink, about=np.frombuffer(text, np.uint8), maps=np.stack(scores))
    write_atomically(path, sink.getvalue())


def _kept_maps(path: Path | None, about: Mapping[str, Any]) -> tuple[list[Half], float] | None:
    """Return the maps that an earlier run has made, if its settings were the same."""
    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as content:
            document = json.loads(bytes(content["about"]))
            if document["about"] != dict(about):
                return None
            return list(content["maps"]), float(document["seconds"])
    # A file that cannot be read is made again.
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _fitted(
    entry: BenchmarkEntry, brains: TrainingBrains, effort: TrainingEffort, seed: int
) -> Score:
    if not entry.method:
        return CLASSICAL[entry.name][0](brains.training, seed)
    return fit_network(entry, brains.training, effort, seed)


def fit_network(
    entry: BenchmarkEntry, volumes: Sequence[F32], effort: TrainingEffort, seed: int
) -> Callable[[F32], F32]:
    """Train a network on normal volumes; return its raw scores of all voxels of a volume."""
    import torch

    from calipers.training.anomaly import (
        AnomalyNetwork,
        AnomalyTask,
        fit_statistics,
        scaled_any,
    )
    from calipers.training.loop import fit, reproducible
    from calipers.training.training_plan import TrainingPlan

    is_flat = entry.dimensions == 2
    plan = TrainingPlan.load("anomaly-3d").changed(
        method=entry.method, side=SIDE // SHRINK, epochs=effort.volume_epochs
    )
    if is_flat:
        plan = TrainingPlan.load("anomaly").changed(
            method=entry.method, side=SIDE, epochs=effort.epochs, batch=BATCH
        )
    parts = [_as_input(volume, is_flat) for volume in volumes]
    pixels = np.concatenate([part[::SLICE_STEP] if is_flat else part for part in parts])
    rows, device = np.arange(len(pixels)), torch.device("cpu")
    with reproducible(1), tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(seed)
        network = AnomalyNetwork(plan, 1)
        task = AnomalyTask(network, _frames(pixels), np.zeros(0, np.int64), plan, device)
        fit(task, plan, rows, Path(folder), identity="study", seed=seed)
        network.eval()
        fit_statistics(task, rows)

    def raw_scores(volume: F32) -> F32:
        with reproducible(1), torch.no_grad():
            pictures = torch.from_numpy(scaled_any(_as_input(volume, is_flat), entry.dimensions))
            scores = network.raw_scores(pictures)
            if not is_flat:
                scores = torch.nn.functional.interpolate(
                    scores[:, None], size=volume.shape, mode="trilinear", align_corners=False
                )[0, 0]
            return np.asarray(scores.numpy(), np.float32)

    return raw_scores


def _as_input(volume: F32, is_flat: bool) -> U8:
    """Return (n, side, side) slices of a volume, or (1, side, side, side) with less resolution."""
    if not is_flat:
        n = len(volume) // SHRINK
        volume = volume.reshape(n, SHRINK, n, SHRINK, n, SHRINK).mean(axis=(1, 3, 5))[None]
    return np.round(255 * volume).astype(np.uint8)


def _frames(pixels: U8) -> Any:
    """Return frames that are slices or volumes already; nothing of them is to be decoded."""
    from calipers.training.datasets.frames import Frames
    from calipers.training.datasets.training_images import TrainingImages

    n = len(pixels)
    ids = tuple(map(str, range(n)))
    images = TrainingImages(
        name="brains",
        ids=ids,
        classes=("anomaly",),
        findings=np.zeros((n, 1), np.bool_),
        boxes=(None,) * n,
        box_labels=(np.zeros(0, np.int64),) * n,
        patients=ids,
        picture=lambda i: pixels[i],
    )
    sizes = np.full((n, 2), float(pixels.shape[1]))
    return Frames(images, pixels, sizes, np.ones(n), ())


def evaluate_benchmark(
    setting: BrainSetting,
    volumes: Sequence[BrainVolume],
    maps: Mapping[str, Sequence[Half]],
    seconds: Mapping[str, float],
) -> Benchmark:
    """Return the values of all metrics in all views, and what else claims need."""
    estimates = metric_estimates(samples_of(volumes, maps, VOLUMES), METRICS)
    views: dict[str, dict[str, dict[str, float]]] = {VOLUMES: {}}
    intervals: dict[str, dict[str, tuple[float, float] | None]] = {}
    for name, row in estimates.items():
        views[VOLUMES][name] = {metric: float(one.value) for metric, one in row.items()}
        intervals[name] = {}
        for metric, one in row.items():
            bounds = float(one.low), float(one.high)
            intervals[name][metric] = bounds if np.isfinite(bounds).all() else None
    for view in VIEWS[1:]:
        views[view] = metric_values(samples_of(volumes, maps, view), METRICS)
    records = []
    for entry in ENTRIES[setting.name]:
        records.append(_record(entry, volumes, maps[entry.name], seconds[entry.name]))
    with_spheres = [k for k, volume in enumerate(volumes) if volume.labels.any()]
    return Benchmark(
        name=setting.name,
        title=setting.title,
        records=tuple(records),
        views=views,
        intervals=intervals,
        examples=tuple(
            example_slice(k, volumes[k], _maps_at(maps, k)) for k in with_spheres[:EXAMPLES]
        ),
        counts=setting.counts,
        slices=sum(len(volume.labels) for volume in volumes),
        slices_seen=sum(int(has_object(volume).sum()) for volume in volumes),
        thresholds=THRESHOLDS,
    )


def _maps_at(maps: Mapping[str, Sequence[Half]], k: int) -> Maps:
    """Return the maps of one volume."""
    return {name: scores[k].astype(np.float32) for name, scores in maps.items()}


def has_object(volume: BrainVolume) -> Flags:
    """Return (slices,): whether a slice contains a part of a sphere."""
    return np.asarray((volume.labels > 0).any(axis=(1, 2)))


def samples_of(
    volumes: Sequence[BrainVolume], maps: Mapping[str, Sequence[Half]], view: str
) -> Iterator[Sample]:
    """Yield the samples of a view: whole volumes, or slices as samples of their own."""
    for k, volume in enumerate(volumes):
        labels = (volume.labels > 0).astype(np.uint8)
        own = _maps_at(maps, k)
        if view == VOLUMES:
            yield Sample(volume.name, labels, own)
            continue
        # The raters of the paper saw only slices with an object.
        slices = np.flatnonzero(has_object(volume)) if view == SEEN else np.arange(len(labels))
        for z in slices.tolist():
            one = {name: scores[z] for name, scores in own.items()}
            yield Sample(f"{volume.name} {z:02d}", labels[z], one)


def _record(
    entry: BenchmarkEntry, volumes: Sequence[BrainVolume], maps: Sequence[Half], seconds: float
) -> AlgorithmRecord:
    """Count false voxels that raters do not see, found ones by size, and Dice by threshold."""
    n_false = n_unseen = 0
    sizes = np.zeros((2, 2))  # large and small; called and all
    overlap = np.zeros((len(THRESHOLDS), 2))  # twice the hits, and all
    for volume, scores in zip(volumes, maps):
        positive, is_true = scores >= THRESHOLD, volume.labels > 0
        false = (positive & ~is_true).sum(axis=(1, 2))
        n_false += int(false.sum())
        n_unseen += int(false[~has_object(volume)].sum())
        # The spheres are numbered in the order of `RADII`, the large one first.
        for row, part in enumerate((volume.labels == 1, volume.labels > 1)):
            sizes[row] += [(positive & part).sum(), part.sum()]
        for row, threshold in enumerate(THRESHOLDS):
            above = scores >= threshold
            overlap[row] += [2 * (above & is_true).sum(), above.sum() + is_true.sum()]
    assert RADII[0] == max(RADII)
    shares = sizes[:, 0] / sizes[:, 1]
    return AlgorithmRecord(
        name=entry.name,
        about=entry.about,
        kind=entry.kind,
        seconds=round(seconds, 1),
        unseen_share=n_unseen / n_false if n_false else float("nan"),
        large=float(shares[0]),
        small=float(shares[1]),
        dice=tuple((overlap[:, 0] / overlap[:, 1]).tolist()),
    )


def example_slice(number: int, volume: BrainVolume, maps: Maps) -> ExampleSlice:
    """Return the slice with most spheres; with most of their voxels if several tie."""
    numbers = range(1, len(RADII) + 1)
    areas = np.stack([(volume.labels == number).sum(axis=(1, 2)) for number in numbers])
    # The number of spheres counts first: a slice has fewer voxels than the factor.
    z = int(((areas > 0).sum(axis=0) * volume.labels[0].size + areas.sum(axis=0)).argmax())
    own = {name: scores[z] for name, scores in maps.items()}
    image = volume.image[z]
    grey = float(image.mean(dtype=np.float64))
    return ExampleSlice(number, z, volume.labels[z], own, grey, image)
