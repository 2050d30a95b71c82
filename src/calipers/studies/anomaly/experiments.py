# SPDX-License-Identifier: Apache-2.0
"""The experiments of the study of anomaly maps, and the numbers that a run gives.

Options come in by `study.run`, an `AnomalyRun` goes out, to claims, figures and tables. The parts:

The metrics that the study compares, by family, and their values on samples (`metric_values`); what
they are in closed form on maps of 0 and 1 with n objects of equal size per sample, for experiments
(c), (d) and (e) (`closed_form`).

The controlled experiments (`run_controlled`): one error at a time on discs and spheres.

(a) Six objects, two of them large. More and more of the small ones are found, and the large ones
    lose exactly as many of their outermost voxels: the number of positive voxels stays the same.
(b) Four equal objects are found with another radius.
(c) Four equal objects are found, and false ones of their size in addition.
(d) Of four equal objects some are missed; or samples are added in which all four are.
(e) Of four equal objects one is missed, nothing is found falsely, and samples without an object are
    added.

The benchmark (`run_benchmark`): algorithms run on volumes with inserted spheres. Every test set is
evaluated in three views: as volumes, as all their slices, and as only those slices that contain a
part of a sphere, which are the ones that the raters of the paper saw. A ranking of algorithms by
people can be read from a file (`read_ranking`) and compared with the order of each metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F32, F64
from calipers.data.maps import Sample
from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.evaluation.collect import Progress as CountProgress
from calipers.evaluation.protocol import Protocol
from calipers.io.tables.table import FileTable, numbers, open_table, texts
from calipers.maps.evaluate import evaluate_maps
from calipers.statistics.ranks import kendall_tau_b
from calipers.studies.anomaly.algorithms import ALGORITHMS, calibrate
from calipers.studies.anomaly.data import (
    FULL,
    LAYOUT_APART,
    QUICK,
    SETTINGS,
    ChestVolume,
    Setting,
    VolumeCounts,
    disc_mask,
    empty,
    normal,
    peel_disc,
    place_discs,
    sample,
    test_volumes,
)
from calipers.studies.framework import Progress

SOFT = ("softIoU", "softIoU/jaccard")
F1S = ("F1@0.5", "F1@0.01", "F1@centre")
RANKING = ("AP/dataset", "AP/sample", "AP/slice", "AUROC/dataset", "AUROC/sample", "AUROC/slice")
AREAS = ("AUPRO", "Dice", "Dice@fpr:0.05")
INSTANCE = "IoU/instance"
METRICS = (*SOFT, *F1S, INSTANCE, *RANKING, *AREAS)
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "objects": (*SOFT, *F1S, INSTANCE),
    "voxels, ranked": RANKING,
    "regions and Dice": AREAS,
}
# Beside the metrics of the paper: the soft IoU with less weight on false voxels, and the formula as
# it is printed.
ALPHA = 0.1
LENIENT, PRINTED = "softIoU/lenient", "softIoU/printed"

_KINDS: Mapping[str, str] = {
    "softIoU": 'kind = "soft-instance-iou"',
    "softIoU/jaccard": 'kind = "soft-instance-iou"\nvariant = "jaccard"',
    LENIENT: f'kind = "soft-instance-iou"\nalpha = {ALPHA}',
    PRINTED: 'kind = "soft-instance-iou"\nvariant = "printed"',
    "F1@0.5": 'kind = "instance-f1"',
    "F1@0.01": 'kind = "instance-f1"\nthresholds = 0.01',
    "F1@centre": 'kind = "instance-f1"\ncriterion = "point-in-hull"',
    INSTANCE: 'kind = "instance-iou"\nthresholds = 0.0',
    "AUPRO": 'kind = "aupro"',
    "Dice": 'kind = "voxel-dice"',
    "Dice@fpr:0.05": 'kind = "voxel-dice"\nat = "fpr:0.05"',
}
_RANKED = {"AP": "voxel-average-precision", "AUROC": "voxel-auroc"}
_HEAD = """schema = "calipers.protocol/1"
name = "anomaly-study"
source = "Zimmerer and Maier-Hein, Revisiting anomaly localization metrics (2024)"
[matching]
criterion = "mask-iou"
assignment = "by-overlap"
thresholds = 0.5
max_dets = inf
[maps]
threshold = 0.5
connectivity = "full"
slices = "z"
"""

WEIGHTS = {"softIoU": 0.5, LENIENT: ALPHA}
ALIKE = (
    "F1@0.5",
    "F1@0.01",
    "F1@centre",
    "Dice",
)  # F1 of objects, and of voxels where all objects have as many

SAMPLES, QUICK_SAMPLES = 50, 4
OBJECTS = 4
LARGE, SMALL = 2, 4
# up to this factor of the radius no two objects of experiment (b) touch, and none leaves the grid
TOUCHING = 1.5
AXES: Mapping[str, str] = {
    "a": "small objects found, of four",
    "b": "radius found / true radius",
    "c": "false objects per sample",
    "d": "objects missed, of four",
    "d-new": "samples added in which all is missed",
    "e": "empty samples added",
}
_GRIDS: Mapping[str, tuple[float, ...]] = {
    "a": (0, 1, 2, 3, 4),
    "b": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5),
    "c": (0, 1, 2, 3, 4, 6, 8),
    "d": (0, 1, 2, 3, 4),
    "d-new": (0, 10, 20, 30, 40, 50),
    "e": (0, 10, 20, 30, 40, 50),
}
_QUICK: Mapping[str, tuple[float, ...]] = {
    "a": (0, 2, 4),
    "b": (0.5, 0.8, 1, 1.2, 1.5, 2),
    "c": (0, 2, 4),
    "d": (0, 2, 4),
    "d-new": (0, 2, 4),
    "e": (0, 2, 4),
}
MODEL = "found"  # name of the model where an evaluation has only one
CROWDS = (1, 2, 4)  # true objects per sample in the figure that accompanies experiment (c)
CROWD_METRICS = ("softIoU", LENIENT, "AP/dataset", "F1@centre")

_Maker = Callable[[Setting, tuple[float, ...], int, int, int], Sample]

Maps = Mapping[str, F32]
Values = Mapping[str, Mapping[str, float]]  # algorithm -> metric -> value
VOLUMES, SLICES, SEEN = "volumes", "all slices", "slices with an object"
VIEWS = (VOLUMES, SLICES, SEEN)
THRESHOLD = 0.5

COLUMNS = ("algorithm", "rank")
FEWEST = 3  # algorithms: with two a correlation is 1 or -1

MOVES = 0.02  # a change below this is called none
EXACT = 1e-6  # a change below this is rounding
AS_MANY = 4.0  # false objects at which (c) is compared: as many as there are true ones
HALF = 2.0  # objects missed at which (d) is compared: half of them
SIZES = (0.8, 1.2)  # factors of the radius at which (b) is compared with the true size
DESIRED_CHANGES = {
    "a": "rise as small objects are found",
    "b": "lost at 0.8 and 1.2 of the radius, mean",
    "c": "lost with as many false objects as true ones",
    "d": "lost with half of the objects missed",
    "e": "rise as empty samples are added",
}


def protocol(names: Iterable[str] = METRICS) -> Protocol:
    """Return the protocol with these metrics."""
    blocks = [f'[[metric]]\nname = "{name}"\n{_kind(name)}' for name in names]
    return Protocol.from_toml(_HEAD + "\n".join(blocks))


def _kind(name: str) -> str:
    quantity, _, level = name.partition("/")
    if quantity in _RANKED:
        return f'kind = "{_RANKED[quantity]}"\nlevel = "{level}"'
    return _KINDS[name]


def metric_values(
    samples: Iterable[Sample],
    names: Iterable[str] = METRICS,
    *,
    jobs: int = 1,
    progress: CountProgress | None = None,
) -> dict[str, dict[str, float]]:
    """Evaluate samples; return model -> metric -> value, NaN where a metric is undefined."""
    evaluation = evaluate_maps(samples, protocol(names), ci=False, jobs=jobs, progress=progress)
    table: dict[str, dict[str, float]] = {}
    for row in evaluation.rows:
        if row.label is None:
            table.setdefault(row.model, {})[row.metric] = float(row.estimate.value)
    return table


def lines(
    table: Mapping[str, Mapping[str, float]], models: Sequence[str], names: Iterable[str]
) -> dict[str, F64]:
    """Return the values of every metric over models, in the order of ``models``."""
    curves = {}
    for name in names:
        curves[name] = np.array([table[model][name] for model in models])
    return curves


def closed_form(
    experiment: str, metric: str, x: float, *, objects: int = 4, samples: int = 50
) -> float | None:
    """Return the value of a metric at a strength, None where there is no simple form.

    Notes
    -----
    With n objects, k false ones and weight a on false voxels, the soft IoU is ``1 / (1 + a k)``,
    its Jaccard form ``1 / (1 + k)``, AP ``n / (n + k)``, F1 and Dice ``2 n / (2 n + k)``. With m
    objects missed the soft IoU is ``(n - m) / n``, F1 and Dice ``2 (n - m) / (2 n - m)`` and AUROC
    ``1 - m / (2 n)``. With e empty samples beside s others, means over samples go from v to ``(s v
    + e) / (s + e)``; Dice, AUROC and IoU/instance stay.
    """
    if experiment == "c":
        return _with_false(metric, x, objects)
    if experiment == "d":
        return _with_missed(metric, x, objects)
    if experiment == "e":
        value = _with_missed(metric, 1.0, objects)
        # Added samples without objects do not change these.
        if value is None or metric == "Dice" or metric.startswith(("AUROC", "IoU")):
            return value
        return (samples * value + x) / (samples + x)
    return None


def _with_false(metric: str, k: float, n: int) -> float | None:
    if metric in WEIGHTS:
        return 1.0 / (1.0 + WEIGHTS[metric] * k)
    if metric == "softIoU/jaccard":
        return 1.0 / (1.0 + k)
    if metric in ("AP/dataset", "AP/sample"):
        return n / (n + k)
    return 2.0 * n / (2.0 * n + k) if metric in ALIKE else None


def _with_missed(metric: str, m: float, n: int) -> float | None:
    if metric in ("softIoU", "softIoU/jaccard", "IoU/instance"):
        return (n - m) / n
    if metric in ("AUROC/dataset", "AUROC/sample"):
        return 1.0 - m / (2.0 * n)
    if metric == "Dice" and m == n:
        return None  # then the best threshold calls everything
    return 2.0 * (n - m) / (2.0 * n - m) if metric in ALIKE else None


@dataclass(frozen=True)
class Response:
    """Every metric as a function of the strength of one error."""

    experiment: str  # a key of `AXES`
    setting: Setting
    samples: int
    x: F64
    values: Mapping[str, F64]

    def change(self, metric: str) -> float:
        """Return the value at the last strength minus that at the first."""
        return float(self.values[metric][-1] - self.values[metric][0])

    def at(self, metric: str, x: float) -> float:
        """Return the value at one strength."""
        return float(self.values[metric][int(np.abs(self.x - x).argmin())])


@dataclass(frozen=True)
class ControlledExperiments:
    """All controlled experiments."""

    responses: Mapping[tuple[str, str], Response]  # (experiment, 2D or 3D)
    crowds: Mapping[int, Response]  # objects per sample -> experiment (c), 2D
    probes: Mapping[str, Mapping[str, Mapping[str, float]]]  # 2D or 3D -> what was found -> metric
    samples: int

    def of(self, experiment: str) -> tuple[Response, ...]:
        """Return an experiment in 2D and 3D."""
        return tuple(self.responses[experiment, setting.name] for setting in SETTINGS)


def grid(experiment: str, *, quick: bool) -> tuple[float, ...]:
    """Return the strengths of an experiment."""
    return (_QUICK if quick else _GRIDS)[experiment]


def layout_seed(seed: int, experiment: str, k: int) -> int:
    """Return the seed of the layout of one sample; every experiment has its own layouts."""
    return (seed * 1_000 + k) * 10 + "abcde".index(experiment[0])


def run_controlled(
    seed: int = 0, *, quick: bool = False, progress: Progress = lambda what, step, total: None
) -> ControlledExperiments:
    """Run all controlled experiments.

    Examples
    --------
    >>> from calipers.studies.anomaly.experiments import run_controlled
    >>> response = run_controlled(quick=True).responses["c", "2D"]
    >>> response.x.tolist(), response.values["softIoU"].round(3).tolist()
    ([0.0, 2.0, 4.0], [1.0, 0.5, 0.333])
    """
    n = QUICK_SAMPLES if quick else SAMPLES
    total = len(AXES) * len(SETTINGS) + len(CROWDS) + 1
    step = 0
    responses, crowds = {}, {}
    for name in AXES:
        xs = grid(name, quick=quick)
        for setting in SETTINGS:
            progress(f"controlled experiment ({name[0]}), {setting.name}", step, total)
            responses[name, setting.name] = measure_response(name, setting, n, xs, seed)
            step += 1
    setting, xs = SETTINGS[0], grid("c", quick=quick)
    for crowd in CROWDS:
        progress(f"controlled experiment (c), {setting.name}", step, total)
        crowds[crowd] = measure_response(
            "c", setting, n, xs, seed, objects=crowd, names=CROWD_METRICS
        )
        step += 1
    probes = {setting.name: probe(setting, n, seed) for setting in SETTINGS}
    progress("controlled experiments", total, total)
    return ControlledExperiments(responses, crowds, probes, n)


def measure_response(
    experiment: str,
    setting: Setting,
    n: int,
    xs: tuple[float, ...],
    seed: int = 0,
    *,
    objects: int = OBJECTS,
    names: tuple[str, ...] = METRICS,
) -> Response:
    """Return the metrics over the strengths of one experiment."""
    models = [f"{x:g}" for x in xs]
    if experiment in ("d-new", "e"):
        # Every strength has samples of its own, so each needs an evaluation of its own.
        table = {}
        for model, x in zip(models, xs):
            samples = _added_samples(experiment, setting, n, int(x), seed)
            table[model] = metric_values(samples, names)[MODEL]
    else:
        # All strengths share their samples: each strength is a model of one evaluation.
        make = _MAKERS[experiment]
        table = metric_values(
            (make(setting, xs, layout_seed(seed, experiment, k), objects, k) for k in range(n)),
            names,
        )
    return Response(experiment, setting, n, np.array(xs, np.float64), lines(table, models, names))


def _shrunk_sample(
    setting: Setting, xs: tuple[float, ...], seed: int, objects: int, k: int
) -> Sample:
    """Return a sample of (a): small objects are found, and large ones lose their rims."""
    shape = setting.shape
    discs = place_discs(shape, [setting.large] * LARGE + [setting.small] * SMALL, seed)
    large, small = discs[:LARGE], discs[LARGE:]
    masks = {}
    for x in xs:
        mask = disc_mask(small[: int(x)], shape)
        # The large objects lose together exactly what the small ones gain, so that the number of
        # positive voxels is constant.
        share, rest = divmod(int(mask.sum()), LARGE)
        for j, one in enumerate(large):
            mask = mask | peel_disc(one, shape, share + (j < rest))
        masks[f"{x:g}"] = mask
    return sample(f"S{k:03d}", disc_mask(discs, shape), masks)


def _resized_sample(
    setting: Setting, xs: tuple[float, ...], seed: int, objects: int, k: int
) -> Sample:
    """Return a sample of (b): objects are found with another radius."""
    # Room for objects that are found up to TOUCHING times too large.
    free = (TOUCHING - 1.0) * setting.equal + LAYOUT_APART
    discs = place_discs(setting.shape, [setting.equal] * objects, seed, free)
    masks = {}
    for x in xs:
        resized_discs = [replace(one, radius=x * one.radius) for one in discs]
        masks[f"{x:g}"] = disc_mask(resized_discs, setting.shape)
    return sample(f"S{k:03d}", disc_mask(discs, setting.shape), masks)


def _false_alarm_sample(
    setting: Setting, xs: tuple[float, ...], seed: int, objects: int, k: int
) -> Sample:
    """Return a sample of (c): false objects are found in addition."""
    # All discs are placed at once, so that true objects do not depend on the number of false ones.
    discs = place_discs(setting.shape, [setting.equal] * (objects + int(max(xs))), seed)
    masks = {f"{x:g}": disc_mask(discs[: objects + int(x)], setting.shape) for x in xs}
    return sample(f"S{k:03d}", disc_mask(discs[:objects], setting.shape), masks)


def _missed_sample(
    setting: Setting, xs: tuple[float, ...], seed: int, objects: int, k: int
) -> Sample:
    """Return a sample of (d): objects are missed."""
    discs = place_discs(setting.shape, [setting.equal] * objects, seed)
    masks = {f"{x:g}": disc_mask(discs[: objects - int(x)], setting.shape) for x in xs}
    return sample(f"S{k:03d}", disc_mask(discs, setting.shape), masks)


_MAKERS: Mapping[str, _Maker] = {
    "a": _shrunk_sample,
    "b": _resized_sample,
    "c": _false_alarm_sample,
    "d": _missed_sample,
}


def example(experiment: str, setting: Setting, strength: float, seed: int = 0) -> Sample:
    """Return the first sample of an experiment at one strength; for (e), with that many objects
    missed.
    """
    name = "d" if experiment == "e" else experiment
    return _MAKERS[name](setting, (strength,), layout_seed(seed, experiment, 0), OBJECTS, 0)


def _added_samples(
    experiment: str, setting: Setting, n: int, n_added: int, seed: int
) -> Iterator[Sample]:
    """Yield samples of (d) with added samples in which all objects are missed, or of (e) with
    added empty samples. In (e) one object of every other sample is missed.
    """
    n_missed = 1 if experiment == "e" else 0
    for k in range(n + n_added):
        if k >= n and experiment == "e":
            yield empty(f"S{k:03d}", setting.shape, [MODEL])
            continue
        discs = place_discs(
            setting.shape, [setting.equal] * OBJECTS, layout_seed(seed, experiment, k)
        )
        hits = discs[: OBJECTS - n_missed] if k < n else ()
        masks = {MODEL: disc_mask(hits, setting.shape)}
        yield sample(f"S{k:03d}", disc_mask(discs, setting.shape), masks)


def probe(setting: Setting, n: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return the metrics in single cases: everything found, only large or only small objects found,
    and empty samples alone.
    """
    names = (*METRICS, PRINTED)
    values = metric_values(_probe_samples(setting, n, seed), names)
    empty_samples = (empty(f"S{k}", setting.shape, ["empty"]) for k in range(2))
    values |= metric_values(empty_samples, names)
    return values


def _probe_samples(setting: Setting, n: int, seed: int) -> Iterator[Sample]:
    """Yield samples with three models, which find all, only the large or only the small objects."""
    radii = [setting.large] * LARGE + [setting.small] * SMALL
    for k in range(n):
        discs = place_discs(setting.shape, radii, layout_seed(seed, "a", k))
        every = disc_mask(discs, setting.shape)
        masks = {
            "all": every,
            "large": disc_mask(discs[:LARGE], setting.shape),
            "small": disc_mask(discs[LARGE:], setting.shape),
        }
        yield sample(f"S{k:03d}", every, masks)


@dataclass(frozen=True)
class ExampleSlice:
    """One slice of a test volume, for a picture."""

    title: str
    image: F32
    labels: NDArray[np.uint8]
    maps: Maps


@dataclass(frozen=True)
class Benchmark:
    """The values of all algorithms by all metrics."""

    algorithms: tuple[str, ...]
    skip_notes: tuple[str, ...]  # a line for each algorithm whose package is missing
    views: Mapping[str, Values]
    # algorithm -> share of its false positive voxels in slices without an object; NaN without any
    unseen_share: Mapping[str, float]
    example: ExampleSlice
    numbers: VolumeCounts
    slices: int
    slices_seen: int

    def column(
        self, view: str, metric: str, algorithms: Sequence[str] | None = None
    ) -> list[float]:
        """Return the values of a metric, in the order of the algorithms."""
        return [self.views[view][name][metric] for name in algorithms or self.algorithms]


def run_benchmark(
    seed: int = 0, *, quick: bool = False, progress: Progress = lambda what, step, total: None
) -> Benchmark:
    """Train all algorithms, run them, and evaluate their maps."""
    counts = QUICK if quick else FULL
    ready = [algorithm for algorithm in ALGORITHMS if algorithm.available]
    total = 2 * len(ready) + len(VIEWS)
    training = normal(seed, "training", counts.training)
    calibration = normal(seed, "calibration", counts.calibration)
    volumes = list(test_volumes(seed, counts.test))
    maps: dict[str, list[F32]] = {}
    for k, algorithm in enumerate(ready):
        progress(f"training {algorithm.name}", 2 * k, total)
        score = calibrate(algorithm.fit(training, seed), calibration)
        progress(f"running {algorithm.name}", 2 * k + 1, total)
        maps[algorithm.name] = [score(volume.image) for volume in volumes]
    cases: list[tuple[ChestVolume, Maps]] = []
    for k, volume in enumerate(volumes):
        cases.append((volume, _at_index(maps, k)))
    views = {}
    for k, view in enumerate(VIEWS):
        progress(f"evaluating {view}", 2 * len(ready) + k, total)
        views[view] = metric_values(samples_of(cases, view), METRICS)
    progress("benchmark", total, total)
    return Benchmark(
        algorithms=tuple(maps),
        skip_notes=_skip_notes(),
        views=views,
        unseen_share={name: _unseen_share(volumes, scores) for name, scores in maps.items()},
        example=_example_slice(cases),
        numbers=counts,
        slices=sum(len(volume.labels) for volume in volumes),
        slices_seen=sum(int(has_object(volume).sum()) for volume in volumes),
    )


def _at_index(maps: Mapping[str, Sequence[F32] | F32], k: int) -> dict[str, F32]:
    """Return the ``k``-th map, or the ``k``-th slice of the map, of every algorithm."""
    return {name: scores[k] for name, scores in maps.items()}


def _skip_notes() -> tuple[str, ...]:
    return tuple(
        f"{algorithm.name} was left out: it needs {algorithm.package} (extra {algorithm.extra!r})"
        for algorithm in ALGORITHMS
        if not algorithm.available
    )


def has_object(volume: ChestVolume) -> NDArray[np.bool_]:
    """Return (slices,): whether a slice contains a part of a sphere."""
    return np.asarray((volume.labels > 0).any(axis=(1, 2)))


def samples_of(cases: Sequence[tuple[ChestVolume, Maps]], view: str) -> Iterator[Sample]:
    """Yield the samples of a view: whole volumes, or slices as samples of their own."""
    for volume, maps in cases:
        labels = (volume.labels > 0).astype(np.uint8)
        if view == VOLUMES:
            yield Sample(volume.name, labels, maps)
            continue
        # The raters of the paper saw only slices with an object.
        slices = np.flatnonzero(has_object(volume)) if view == SEEN else np.arange(len(labels))
        for z in slices.tolist():
            yield Sample(f"{volume.name} {z:02d}", labels[z], _at_index(maps, z))


def _unseen_share(volumes: Sequence[ChestVolume], maps: Sequence[F32]) -> float:
    """Return the share of the false positive voxels that lie in slices without an object."""
    total = n_hidden = 0
    for volume, scores in zip(volumes, maps):
        false = ((scores >= THRESHOLD) & (volume.labels == 0)).sum(axis=(1, 2))
        total += int(false.sum())
        n_hidden += int(false[~has_object(volume)].sum())
    return n_hidden / total if total else float("nan")


def _example_slice(cases: Sequence[tuple[ChestVolume, Maps]]) -> ExampleSlice:
    """Return the slice of the first case with most spheres; with most voxels if several tie."""
    volume, maps = cases[0]
    areas = np.stack([(volume.labels == number).sum(axis=(1, 2)) for number in range(1, 6)])
    # The number of spheres counts first: a slice has fewer voxels than the factor.
    z = int(((areas > 0).sum(axis=0) * volume.labels[0].size + areas.sum(axis=0)).argmax())
    return ExampleSlice(f"slice {z}", volume.image[z], volume.labels[z], _at_index(maps, z))


@dataclass(frozen=True)
class HumanRanking:
    """Ranks of algorithms, 1 for the best; equal ranks are allowed."""

    file: str  # its name, without folders
    ranks: Mapping[str, float]
    entry: Mapping[str, Any]  # file, bytes, sha256


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """Rank correlation of two orders; NaN if one of them ties everything."""

    tau: float  # Kendall's tau-b
    rho: float  # Spearman's rho, equal values share their mean rank
    n: int


def read_ranking(path: str | PathLike[str], algorithms: Sequence[str]) -> HumanRanking:
    """Read a table with the columns ``algorithm`` and ``rank``.

    ``algorithms`` are those that ran. At least three of them must be ranked, and no other one.
    """
    table = open_table(fspath(path))
    for column in COLUMNS:
        if column not in table.columns:
            raise InputError(
                "the columns algorithm and rank",
                rule="missing-column",
                file=table.file,
                value=list(table.names),
            )
    names, ranks = texts(table, "algorithm"), _ranks(table)
    _check_names(table, names, algorithms)
    if len(names) < FEWEST:
        raise InputError(
            f"ranks of at least {FEWEST} algorithms",
            rule="too-few-rows",
            file=table.file,
            value=len(names),
        )
    intake = table.intake("ranking", ())
    entry = {"file": intake.file, "bytes": intake.bytes, "sha256": intake.sha256}
    return HumanRanking(Path(table.file).name, dict(zip(names, ranks.tolist())), entry)


def _ranks(table: FileTable) -> F64:
    values, problems = numbers(table, "rank")
    raise_problems([problem.as_error(table.file) for problem in problems.values()])
    # NaN fails the comparison, so empty cells are reported as well.
    for row in np.flatnonzero(~(values >= 1) | ~np.isfinite(values)).tolist():
        at = table.locate(int(table.lines[row]), "rank")
        value = table.columns["rank"][row]
        raise InputError(
            "a rank of 1 or more",
            rule="range",
            file=table.file,
            location=at,
            field="rank",
            value=value,
        )
    return values


def _check_names(table: FileTable, names: Sequence[str], algorithms: Sequence[str]) -> None:
    for row, name in enumerate(names):
        at = table.locate(int(table.lines[row]), "algorithm")
        if name not in algorithms:
            raise InputError(
                "an algorithm that ran",
                rule="choice",
                file=table.file,
                location=at,
                value=name,
                hint=did_you_mean(name, algorithms),
            )
        if name in names[:row]:
            raise InputError(
                "one rank per algorithm", rule="dup-row", file=table.file, location=at, value=name
            )


def agreement(ranks: Sequence[float], values: Sequence[float]) -> OrderAgreement:
    """Return the rank correlation of ranks (small is good) and metric values (large is good).

    Examples
    --------
    >>> from calipers.studies.anomaly.experiments import agreement
    >>> agreement([1, 2, 3], [0.9, 0.5, 0.7])
    OrderAgreement(tau=0.333..., rho=0.5, n=3)
    """
    one, other = np.asarray(ranks, np.float64), -np.asarray(values, np.float64)
    if np.isnan(other).any():
        return OrderAgreement(float("nan"), float("nan"), len(one))
    return OrderAgreement(
        float(kendall_tau_b(one, other[None])[0]), _spearman(one, other), len(one)
    )


def _spearman(one: F64, other: F64) -> float:
    from scipy.stats import rankdata

    # Ranks minus their mean, which is (n + 1) / 2 with or without ties.
    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (one, other))
    norm = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / norm) if norm > 0 else float("nan")


def tau_between(columns: Mapping[str, Sequence[float]]) -> F64:
    """Return (m, m): tau-b between the orders that the metrics give."""
    table = np.array(list(columns.values()), np.float64)
    return np.stack([kendall_tau_b(row, table) for row in table])


@dataclass(frozen=True)
class AnomalyRun:
    """The numbers of a run."""

    controlled: ControlledExperiments
    benchmark: Benchmark
    ranking: HumanRanking | None
    seed: int

    def ends(self, experiment: str, metrics: Sequence[str]) -> str:
        """Return "softIoU 0.333 to 0.949 (2D), 0.333 to 0.933 (3D); ...": first and last values."""
        parts = []
        for metric in metrics:
            both = [response.values[metric] for response in self.controlled.of(experiment)]
            words = [f"{v[0]:.3f} to {v[-1]:.3f} ({d})" for v, d in zip(both, ("2D", "3D"))]
            parts.append(f"{metric} {', '.join(words)}")
        return "; ".join(parts)

    def changes(self, experiment: str, metrics: Sequence[str]) -> F64:
        """Return (2, metrics): last minus first value, in 2D and in 3D."""
        responses = self.controlled.of(experiment)
        changes = np.empty((len(responses), len(metrics)))
        for row, response in enumerate(responses):
            changes[row] = [response.change(name) for name in metrics]
        return changes

    def agreements(self, view: str) -> dict[str, OrderAgreement]:
        """Return the agreement of every metric with the ranking by people; {} without a ranking."""
        if self.ranking is None:
            return {}
        names = list(self.ranking.ranks)
        ranks = list(self.ranking.ranks.values())
        return {
            metric: agreement(ranks, self.benchmark.column(view, metric, names))
            for metric in METRICS
        }


def desired_change(response: Response, metric: str) -> float:
    """Return how far a metric moves as one would want under one error; see `DESIRED_CHANGES`."""
    if response.experiment == "b":
        off_size = [response.at(metric, size) for size in SIZES]
        return response.at(metric, 1.0) - float(np.mean(off_size))
    if response.experiment in ("c", "d"):
        strength = AS_MANY if response.experiment == "c" else HALF
        return float(response.values[metric][0]) - response.at(metric, strength)
    return response.change(metric)


def scorecard(run: AnomalyRun, dimensions: str) -> F64:
    """Return (metrics, 5): `desired_change` in the experiments (a) to (e), in 2D or 3D."""
    responses = [run.controlled.responses[name, dimensions] for name in DESIRED_CHANGES]
    table = np.empty((len(METRICS), len(responses)))
    for row, metric in enumerate(METRICS):
        table[row] = [desired_change(response, metric) for response in responses]
    return table


def count_desired_changes(run: AnomalyRun, metric: str) -> int:
    """Return in how many of the five experiments a metric moves as desired, in 2D and in 3D."""
    # A reaction counts only if it is there in 2D and in 3D.
    row = METRICS.index(metric)
    both = [scorecard(run, name)[row] > MOVES for name in ("2D", "3D")]
    return int((both[0] & both[1]).sum())
