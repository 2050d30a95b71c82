# SPDX-License-Identifier: Apache-2.0
"""The controlled experiments on anomaly maps: one error at a time, on discs and spheres.

(a) Two large objects are found too small. Small objects are added to the references and found
    perfectly, and the large ones lose as many voxels as were added (the paper: "adding small true
    detected objects while reducing segmentation size"). A second reading, ``a-fixed``: the
    references have two large and four small objects from the beginning, small ones are found one
    after the other, and the large ones lose exactly as many of their outermost voxels.
(b) Four equal objects are found with another radius.
(c) Four equal objects are found, and false ones of their size in addition: as sure as the others,
    or, ``c-faint``, less sure.
(d) Of four equal objects some are missed; or, ``d-new``, samples are added in which all four are.
(e) Of four equal objects one is missed, nothing is found falsely, and samples without an object are
    added; or, ``e-faint``, as many normal samples as others are there, each with a false object of
    some faint score.

Maps are 1 where something is found and 0 elsewhere. (a), (b) and (c) are also run on *soft* maps,
whose scores fall with the distance from the centre of an object: there the order of voxels can be
perfect while the map is not. What the paper leaves open is a `DiscDesign`; `scan_steps` asks in
how many designs each sentence of the paper holds. `closed_form` has what metrics are on maps of 0
and 1 with n equal objects per sample, for (c), (d) and (e).

`controlled_steps` make `ControlledExperiments`, for claims, figures and tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from calipers.arrays import F32, F64
from calipers.data.maps import Sample
from calipers.studies.anomaly.data import (
    LAYOUT_APART,
    SETTINGS,
    Setting,
    disc_mask,
    empty,
    peel_disc,
    place_discs,
    sample,
)
from calipers.studies.anomaly.measures import (
    ALPHA,
    F1S,
    GRADED,
    INSTANCE,
    LENIENT,
    METRICS,
    PRINTED,
    SOFT,
    lines,
    metric_values,
)
from calipers.studies.claim_rules import ClaimRules
from calipers.studies.open_choices import Outcomes, Scan, configuration_steps
from calipers.studies.steps import StepSet, StudyStep
from calipers.synthetic.volumes import Disc

WEIGHTS = {"softIoU": 0.5, GRADED: 0.5, LENIENT: ALPHA}
# F1 of objects, and of voxels where all objects have as many
ALIKE = ("F1@0.5", "F1@0.01", "F1@centre", "Dice")

SAMPLES, QUICK_SAMPLES = 50, 4
STEP_SECONDS = {"2D": 0.0015, "3D": 0.004}  # per sample and strength
OBJECTS = 4
LARGE, SMALL = 2, 4
BASE = 0.85  # of the true radius: how large the large objects of (a) are found at first
CALLED = 0.5  # the score from which a voxel belongs to a predicted object
FAINT = 0.6  # score of the false objects of (c-faint): still above the threshold
# Steepness of soft maps, 1 / (1 + (distance / radius) ** STEEP): 0.5 lies on the rim, and scores
# fall from 0.9 to 0.1 within a quarter of the radius.
STEEP = 16
# up to this factor of the radius no two objects of experiment (b) touch, and none leaves the grid
TOUCHING = 1.5
AXES: Mapping[str, str] = {
    "a": "small objects added and found",
    "a-fixed": "small objects found, of four",
    "b": "radius found / true radius",
    "c": "false objects per sample",
    "c-faint": f"false objects of score {FAINT:g} per sample",
    "d": "objects missed, of four",
    "d-new": "samples added in which all is missed",
    "e": "empty samples added",
    "e-faint": "score of a false object in every normal sample",
}
SOFT_MAPS = ("a", "b", "c")  # experiments that are also run on soft maps, in 2D
_GRIDS: Mapping[str, tuple[float, ...]] = {
    "a": (0, 1, 2, 3, 4),
    "a-fixed": (0, 1, 2, 3, 4),
    "b": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5),
    "c": (0, 1, 2, 3, 4, 6, 8),
    "c-faint": (0, 1, 2, 3, 4, 6, 8),
    "d": (0, 1, 2, 3, 4),
    "d-new": (0, 10, 20, 30, 40, 50),
    "e": (0, 10, 20, 30, 40, 50),
    "e-faint": (0, 1e-6, 1e-4, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1),
}
_QUICK: Mapping[str, tuple[float, ...]] = {
    "a": (0, 2, 4),
    "a-fixed": (0, 2, 4),
    "b": (0.5, 0.8, 1, 1.2, 1.5, 2),
    "c": (0, 2, 4),
    "c-faint": (0, 2, 4),
    "d": (0, 2, 4),
    "d-new": (0, 2, 4),
    "e": (0, 2, 4),
    "e-faint": (0, 1e-4, 0.1, 0.4, 1),
}
MODEL = "found"  # name of the model where an evaluation has only one
CROWDS = (1, 2, 4)  # true objects per sample in the figure that accompanies experiment (c)
CROWD_METRICS = ("softIoU", LENIENT, "AP/dataset", "F1@centre")

RULES = ClaimRules.load("anomaly/claims.toml")
MOVES = RULES.limit("moves")  # a change below this is called none
EXACT = RULES.limit("exact")  # a change below this is rounding
STEADY = RULES.limit("steady")  # a range up to this counts as nearly constant
STRONG = RULES.limit("strong")  # a loss of at least this counts as strong
AS_MANY = RULES.limit("as-many")  # false objects at which (c) is compared


@dataclass(frozen=True)
class DiscDesign:
    """What the paper leaves open about its experiments."""

    setting: Setting
    objects: int = OBJECTS  # of equal size, in (b) to (e)
    large: int = LARGE  # in (a)
    base: float = BASE  # of the true radius: how large the large objects of (a) are found at first
    exchange: float = 1.0  # voxels that large objects lose per voxel of a small one
    soft: bool = False
    false_score: float = 1.0  # of the false objects of (c)

    def drawn(self, discs: Sequence[Disc], scores: Sequence[float] | None = None) -> F32:
        """Return a map in which discs are found, each with a score (1)."""
        shape = self.setting.shape
        values = np.zeros(shape, np.float32)
        for one, score in zip(discs, scores or [1.0] * len(discs)):
            values = np.maximum(values, np.float32(score) * self._profile(one))
        return values

    def shrunk(self, one: Disc, n_lost: int) -> F32 | None:
        """Return the map of a disc that has lost voxels from outside; None if it has too few."""
        shape = self.setting.shape
        if not self.soft:
            if n_lost >= int(one.mask(shape).sum()):
                return None
            return peel_disc(one, shape, n_lost).astype(np.float32)
        # A soft disc has no voxels to take away: it becomes as small as if it had.
        d = len(shape)
        unit = math.pi if d == 2 else 4 * math.pi / 3
        volume = unit * one.radius**d - n_lost
        if volume <= 0:
            return None
        return self._profile(replace(one, radius=float((volume / unit) ** (1 / d))))

    def _profile(self, one: Disc) -> F32:
        """Return the scores of a single disc of score 1."""
        shape = self.setting.shape
        if not self.soft:
            return one.mask(shape).astype(np.float32)
        axes = np.meshgrid(
            *(np.arange(n) + 0.5 - c for n, c in zip(shape, one.centre[::-1])),
            indexing="ij",
            sparse=True,
        )
        squares = np.asarray(sum(axis**2 for axis in axes)) / one.radius**2
        return np.asarray(1 / (1 + squares ** (STEEP / 2)), np.float32)


_Maker = Callable[[DiscDesign, tuple[float, ...], int, int], Sample]


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
    + e) / (s + e)``; Dice, AUROC and IoU/instance stay. With as many normal samples, each with a
    false object of score x, their graded soft IoU is ``1 / (1 + x / 2)``, and their F1 is 1 below
    the threshold and 0 from it on.
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
    if experiment == "e-faint":
        return _with_faint(metric, x, objects)
    return None


def _with_faint(metric: str, x: float, n: int) -> float | None:
    value = _with_missed(metric, 1.0, n)
    if metric == GRADED and value is not None:
        return (value + 1.0 / (1.0 + 0.5 * x)) / 2.0
    if metric in F1S and value is not None:
        return (value + (x < CALLED)) / 2.0
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
    if metric in (*SOFT, INSTANCE):
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
    soft: Mapping[str, Response]  # experiment on soft maps, 2D
    crowds: Mapping[int, Response]  # objects per sample -> experiment (c), 2D
    probes: Mapping[str, Mapping[str, Mapping[str, float]]]  # 2D or 3D -> what was found -> metric
    samples: int
    scans: Mapping[str, Scan]  # experiment -> in how many designs its sentences hold

    def of(self, experiment: str) -> tuple[Response, ...]:
        """Return an experiment in 2D and 3D."""
        return tuple(self.responses[experiment, setting.name] for setting in SETTINGS)


def grid(experiment: str, *, quick: bool) -> tuple[float, ...]:
    """Return the strengths of an experiment."""
    return (_QUICK if quick else _GRIDS)[experiment]


def layout_seed(seed: int, experiment: str, k: int) -> int:
    """Return the seed of the layout of one sample; every experiment has its own layouts."""
    return (seed * 1_000 + k) * 10 + "abcde".index(experiment[0])


def controlled_steps(seed: int = 0, *, quick: bool = False) -> StepSet[ControlledExperiments]:
    """Return the steps of all controlled experiments.

    Examples
    --------
    >>> from calipers.studies.anomaly.controlled import DiscDesign, grid, measure_response
    >>> from calipers.studies.anomaly.data import SETTINGS
    >>> response = measure_response("c", DiscDesign(SETTINGS[0]), 2, grid("c", quick=True))
    >>> response.x.tolist(), response.values["softIoU"].round(3).tolist()
    ([0.0, 2.0, 4.0], [1.0, 0.5, 0.333])
    """
    n = QUICK_SAMPLES if quick else SAMPLES
    flat = SETTINGS[0]
    responses: dict[Hashable, StudyStep] = {}
    for name, setting in product(AXES, SETTINGS):
        words = f"controlled experiment ({name[0]}), {setting.name}"
        responses[name, setting.name] = _response_step(
            words, name, DiscDesign(setting), n, seed, quick
        )
    soft: dict[Hashable, StudyStep] = {}
    for name in SOFT_MAPS:
        words = f"controlled experiment ({name}), soft maps"
        soft[name] = _response_step(words, name, DiscDesign(flat, soft=True), n, seed, quick)
    crowds: dict[Hashable, StudyStep] = {}
    for crowd in CROWDS:
        design = DiscDesign(flat, objects=crowd)
        words = f"controlled experiment (c), {flat.name}"
        crowds[crowd] = _response_step(words, "c", design, n, seed, quick, CROWD_METRICS)
    probes: dict[Hashable, StudyStep] = {}
    for setting in SETTINGS:
        seconds = STEP_SECONDS[setting.name] * n
        probes[setting.name] = StudyStep("single cases", probe, (setting, n, seed), seconds)

    def compose(parts: Mapping[str, Any]) -> ControlledExperiments:
        scans = {name: parts[f"scan {name}"] for name in SCANNED}
        return ControlledExperiments(
            parts["responses"], parts["soft"], parts["crowds"], parts["probes"], n, scans
        )

    sets: dict[str, StepSet[Any]] = {
        "responses": StepSet.of(responses, dict),
        "soft": StepSet.of(soft, dict),
        "crowds": StepSet.of(crowds, dict),
    }
    for name in SCANNED:
        sets[f"scan {name}"] = scan_steps(name, seed, quick=quick)
    sets["probes"] = StepSet.of(probes, dict)
    return StepSet.join(sets, compose)


def _response_step(
    words: str,
    experiment: str,
    design: DiscDesign,
    n: int,
    seed: int,
    quick: bool,
    names: Sequence[str] = METRICS,
) -> StudyStep:
    """Return the step that measures one experiment."""
    xs = grid(experiment, quick=quick)
    seconds = STEP_SECONDS[design.setting.name] * n * len(xs)
    return StudyStep(words, measure_response, (experiment, design, n, xs, seed, names), seconds)


def measure_response(
    experiment: str,
    design: DiscDesign,
    n: int,
    xs: tuple[float, ...],
    seed: int = 0,
    names: Sequence[str] = METRICS,
) -> Response:
    """Return the metrics over the strengths of one experiment; NaN at strengths that a design does
    not allow.
    """
    if experiment == "c-faint":
        design = replace(design, false_score=FAINT)
    models = [f"{x:g}" for x in xs]
    if experiment in ("a", "d-new", "e"):
        # Every strength has references of its own, so each needs an evaluation of its own.
        table: dict[str, dict[str, float]] = {}
        for model, x in zip(models, xs):
            samples = list(_samples_of_strength(experiment, design, n, int(x), seed))
            table[model] = dict.fromkeys(names, math.nan)
            if samples:
                table[model] = metric_values(samples, names)[MODEL]
    else:
        # All strengths share their samples: each strength is a model of one evaluation.
        make = _MAKERS[experiment]
        # Every second sample of (e-faint) is a normal one.
        total = 2 * n if experiment == "e-faint" else n
        table = metric_values(
            (make(design, xs, layout_seed(seed, experiment, k), k) for k in range(total)), names
        )
    x_values = np.array(xs, np.float64)
    return Response(experiment, design.setting, n, x_values, lines(table, models, names))


def _samples_of_strength(
    experiment: str, design: DiscDesign, n: int, strength: int, seed: int
) -> Iterator[Sample]:
    """Yield the samples of an experiment whose references depend on its strength."""
    if experiment == "a":
        for k in range(n):
            added = _added_sample(design, strength, layout_seed(seed, experiment, k), k)
            if added is not None:
                yield added
        return
    yield from _with_more_samples(experiment, design, n, strength, seed)


def _added_sample(design: DiscDesign, n_small: int, seed: int, k: int) -> Sample | None:
    """Return a sample of (a): small objects are there and found, and the large ones, found too
    small from the beginning, lose as many voxels; None if these have too few.
    """
    setting = design.setting
    # All are placed at once, so that no object moves when another one is added.
    radii = [setting.large] * design.large + [setting.small] * SMALL
    discs = place_discs(setting.shape, radii, seed)
    large, small = discs[: design.large], discs[design.large : design.large + n_small]
    n_added = round(design.exchange * int(disc_mask(small, setting.shape).sum()))
    share, rest = divmod(n_added, design.large)
    scores = design.drawn(small)
    for j, one in enumerate(large):
        found_too_small = replace(one, radius=design.base * one.radius)
        core = design.shrunk(found_too_small, share + (j < rest))
        if core is None:
            return None
        scores = np.maximum(scores, core)
    references = disc_mask([*large, *small], setting.shape).astype(np.uint8)
    return Sample(f"S{k:03d}", references, {MODEL: scores})


def _exchanged_sample(design: DiscDesign, xs: tuple[float, ...], seed: int, k: int) -> Sample:
    """Return a sample of (a-fixed): small objects are found, and large ones lose their rims."""
    setting = design.setting
    radii = [setting.large] * design.large + [setting.small] * SMALL
    discs = place_discs(setting.shape, radii, seed)
    large, small = discs[: design.large], discs[design.large :]
    maps = {}
    for x in xs:
        hits = small[: int(x)]
        # The large objects lose together exactly what the small ones gain, so that the number of
        # positive voxels is constant.
        share, rest = divmod(int(disc_mask(hits, setting.shape).sum()), design.large)
        scores = design.drawn(hits)
        for j, one in enumerate(large):
            core = design.shrunk(one, share + (j < rest))
            assert core is not None, "large objects have enough voxels in every setting"
            scores = np.maximum(scores, core)
        maps[f"{x:g}"] = scores
    return _sample(k, discs, design, maps)


def _resized_sample(design: DiscDesign, xs: tuple[float, ...], seed: int, k: int) -> Sample:
    """Return a sample of (b): objects are found with another radius."""
    setting = design.setting
    # Room for objects that are found up to TOUCHING times too large.
    free = (TOUCHING - 1.0) * setting.equal + LAYOUT_APART
    discs = place_discs(setting.shape, [setting.equal] * design.objects, seed, free)
    maps = {}
    for x in xs:
        resized_discs = [replace(one, radius=x * one.radius) for one in discs]
        maps[f"{x:g}"] = design.drawn(resized_discs)
    return _sample(k, discs, design, maps)


def _false_alarm_sample(design: DiscDesign, xs: tuple[float, ...], seed: int, k: int) -> Sample:
    """Return a sample of (c): false objects are found in addition."""
    setting, n = design.setting, design.objects
    # All discs are placed at once, so that true objects do not depend on the number of false ones.
    discs = place_discs(setting.shape, [setting.equal] * (n + int(max(xs))), seed)
    maps = {}
    for x in xs:
        scores = [1.0] * n + [design.false_score] * int(x)
        maps[f"{x:g}"] = design.drawn(discs[: n + int(x)], scores)
    return _sample(k, discs[:n], design, maps)


def _missed_sample(design: DiscDesign, xs: tuple[float, ...], seed: int, k: int) -> Sample:
    """Return a sample of (d): objects are missed."""
    setting = design.setting
    discs = place_discs(setting.shape, [setting.equal] * design.objects, seed)
    maps = {f"{x:g}": design.drawn(discs[: design.objects - int(x)]) for x in xs}
    return _sample(k, discs, design, maps)


def _faint_sample(design: DiscDesign, xs: tuple[float, ...], seed: int, k: int) -> Sample:
    """Return a sample of (e-faint): one of its objects is missed; or, every second time, a normal
    one with a false object.
    """
    setting = design.setting
    if k % 2:
        (false,) = place_discs(setting.shape, [setting.equal], seed)
        return _sample(k, (), design, {f"{x:g}": design.drawn([false], [x]) for x in xs})
    discs = place_discs(setting.shape, [setting.equal] * design.objects, seed)
    hits = design.drawn(discs[1:])
    return _sample(k, discs, design, {f"{x:g}": hits for x in xs})


def _sample(k: int, discs: Sequence[Disc], design: DiscDesign, maps: Mapping[str, F32]) -> Sample:
    """Return a sample with these discs as references."""
    references = disc_mask(discs, design.setting.shape).astype(np.uint8)
    return Sample(f"S{k:03d}", references, maps)


_MAKERS: Mapping[str, _Maker] = {
    "a-fixed": _exchanged_sample,
    "b": _resized_sample,
    "c": _false_alarm_sample,
    "c-faint": _false_alarm_sample,
    "d": _missed_sample,
    "e-faint": _faint_sample,
}


def example(
    experiment: str, setting: Setting, strength: float, seed: int = 0, *, soft: bool = False
) -> Sample:
    """Return the first sample of an experiment at one strength; for (e), with that many objects
    missed. Its map is that of the model `MODEL`.
    """
    design, layout = DiscDesign(setting, soft=soft), layout_seed(seed, experiment, 0)
    if experiment == "a":
        added = _added_sample(design, int(strength), layout, 0)
        assert added is not None, "the standard design allows every strength"
        return added
    one = _MAKERS["d" if experiment == "e" else experiment](design, (strength,), layout, 0)
    return Sample(one.name, one.labels, {MODEL: one.maps[f"{strength:g}"]})


def _with_more_samples(
    experiment: str, design: DiscDesign, n: int, n_added: int, seed: int
) -> Iterator[Sample]:
    """Yield samples of (d-new) with added samples in which all objects are missed, or of (e) with
    added empty samples. In (e) one object of every other sample is missed.
    """
    setting = design.setting
    n_missed = 1 if experiment == "e" else 0
    for k in range(n + n_added):
        if k >= n and experiment == "e":
            yield empty(f"S{k:03d}", setting.shape, [MODEL])
            continue
        layout = layout_seed(seed, experiment, k)
        discs = place_discs(setting.shape, [setting.equal] * design.objects, layout)
        hits = discs[: design.objects - n_missed] if k < n else ()
        yield _sample(k, discs, design, {MODEL: design.drawn(hits)})


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


SCAN_SAMPLES = 3
# Small objects of the scan leave the large ones something to lose in most designs.
SCAN_SETTING = Setting((96, 96), large=12.0, small=4.0, equal=6.0)
MAPS = ("0 and 1", "soft")
SCANNED: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "a": {
        "radius found at first": (0.7, 0.8, 0.9, 1.0),
        "large objects": (1, 2, 3),
        "voxels exchanged": (1.0, 1.5, 2.0),
        "maps": MAPS,
    },
    "b": {"objects": (1, 2, 4, 6), "maps": MAPS},
    "c": {"objects": (1, 2, 4, 6), "score of false objects": (1.0, FAINT), "maps": MAPS},
    "d": {"objects": (2, 4, 6), "maps": MAPS},
    "e": {"objects": (2, 4, 6), "maps": MAPS},
}
_SCAN_GRIDS: Mapping[str, tuple[float, ...]] = {
    "a": (0, 2, 4),
    "b": (0.6, 0.8, 1, 1.2, 1.4),
    "c": (0, 4),
    "d": (0, 1),
    "e": (0, 3),
}
_SCAN_METRICS = (*SOFT, *F1S, INSTANCE, "AP/dataset", "AP/sample", "AUROC/dataset", "AUROC/sample")


def scan_steps(experiment: str, seed: int = 0, *, quick: bool = False) -> StepSet[Scan]:
    """Return a step per design; they make the scan that says in how many designs the sentences
    about an experiment hold. A quick scan tries the first and the last value of every choice.
    """
    choices = dict(SCANNED[experiment])
    if quick:
        choices = {name: (values[0], values[-1]) for name, values in choices.items()}
    n = 1 if quick else SCAN_SAMPLES
    words = f"scanning the open choices of ({experiment})"
    seconds = STEP_SECONDS["2D"] * n * len(_SCAN_GRIDS[experiment])
    return configuration_steps(words, choices, scan_outcomes, (experiment, n, seed), seconds)


def scan_outcomes(one: Mapping[str, Any], experiment: str, n: int, seed: int) -> Outcomes:
    """Return which sentences about an experiment hold in a design."""
    design = DiscDesign(
        SCAN_SETTING,
        objects=one.get("objects", OBJECTS),
        large=one.get("large objects", LARGE),
        base=one.get("radius found at first", BASE),
        exchange=one.get("voxels exchanged", 1.0),
        soft=one["maps"] == "soft",
        false_score=one.get("score of false objects", 1.0),
    )
    xs = _SCAN_GRIDS[experiment]
    return sentences(measure_response(experiment, design, n, xs, seed, _SCAN_METRICS))


def sentences(response: Response) -> dict[str, bool | None]:
    """Return which sentences of the paper about an experiment hold in a response; None for all of
    them if the design does not allow every strength.
    """
    change = {name: response.change(name) for name in _SCAN_METRICS}
    outcomes: dict[str, bool | None] = {}
    if response.experiment == "a":
        outcomes = {
            "AP falls": _all_below(change, ("AP/dataset", "AP/sample"), -MOVES),
            "AUROC falls": _all_below(change, ("AUROC/dataset", "AUROC/sample"), -MOVES),
            "the soft IoU rises": all(change[name] > MOVES for name in SOFT),
            "metrics on objects stay": all(abs(change[n]) <= STEADY for n in (*F1S, INSTANCE)),
        }
    elif response.experiment == "b":
        for name in ("softIoU", "AP/dataset", "AUROC/dataset", "F1@0.5"):
            values = response.values[name]
            others = np.delete(values, int(np.abs(response.x - 1).argmin()))
            outcomes[f"{name} has its peak at the true size"] = bool(
                (others < response.at(name, 1.0) - EXACT).all()
            )
    elif response.experiment == "c":
        names = ("AP/dataset", "AUROC/dataset", "F1@centre")
        outcomes["AP, AUROC and F1 by centre lose much"] = _all_below(change, names, -STRONG)
        outcomes["the soft IoU loses less than AP and F1 by centre"] = all(
            change["softIoU"] > change[name] + MOVES for name in ("AP/dataset", "F1@centre")
        )
    elif response.experiment == "d":
        falling = ("softIoU", "AP/dataset", *F1S)
        text = "the soft IoU, F1 and AP of the data set fall"
        outcomes[text] = _all_below(change, falling, -MOVES)
        outcomes["AP and AUROC by samples do not fall"] = all(
            change[name] >= -MOVES for name in ("AP/sample", "AUROC/sample")
        )
    else:
        rising = (*SOFT, *F1S)
        others_stay = all(abs(change[n]) <= MOVES for n in _SCAN_METRICS if n not in rising)
        outcomes["F1 and the soft IoU rise, and nothing else"] = (
            all(change[name] > MOVES for name in rising) and others_stay
        )
        outcomes["AP of the data set falls"] = change["AP/dataset"] < -EXACT
    if any(np.isnan(response.values[name]).any() for name in _SCAN_METRICS):
        return dict.fromkeys(outcomes)
    return outcomes


def _all_below(change: Mapping[str, float], names: Sequence[str], limit: float) -> bool:
    return all(change[name] < limit for name in names)
