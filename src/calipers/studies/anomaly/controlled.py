# SPDX-License-Identifier: Apache-2.0
"""The controlled experiments (a) to (e): one error at a time on discs and spheres, all metrics.

(a) Six objects, two of them large. More and more of the small ones are found, and the large ones
    lose exactly as many of their outermost voxels: the number of positive voxels stays the same.
(b) Four equal objects are found with another radius.
(c) Four equal objects are found, and false ones of their size in addition.
(d) Of four equal objects some are missed; or samples are added in which all four are.
(e) Of four equal objects one is missed, nothing is found falsely, and samples without an object are
    added.

`calipers.studies.anomaly.laws` has the closed forms for maps of 0 and 1 with n objects per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.studies.anomaly.layouts import (
    APART,
    SETTINGS,
    Setting,
    disc_mask,
    empty,
    peel_disc,
    place_discs,
    sample,
)
from calipers.studies.anomaly.measures import LENIENT, METRICS, PRINTED, lines, metric_values
from calipers.studies.framework import Progress
from calipers.tables.samples import Sample

F64 = NDArray[np.float64]

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
    >>> from calipers.studies.anomaly.controlled import run_controlled
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
    free = (TOUCHING - 1.0) * setting.equal + APART
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


_Maker = Callable[[Setting, tuple[float, ...], int, int, int], Sample]
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
