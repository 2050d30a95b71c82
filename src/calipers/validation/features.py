# SPDX-License-Identifier: Apache-2.0
"""Coverage of the intervals of monitors, mixed models, ratings and repeated trainings, in data
whose truth is known.

Monitors: the alarm scores of patients' images are normal, higher where an alarm is wanted, and
images of a patient are alike. Mixed models: rows in images of patients of centres, with a term of
rows (small or large) and one of centres (region), and normal effects of every level. Agreement: a
criterion and a clinician look at the same predictions, which are better or worse by patient.
Stability: maps of several trainings share what they show of an image and add noise of their own;
on the images of some patients there is more of it. For other trainings the images stay the same,
and trainings differ in how noisy they are.

`calipers.validation.experiments` lists them among its `OTHERS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calipers.agreement.agreement import Agreement, agreement
from calipers.arrays import F64
from calipers.monitors.evaluate import evaluate_monitor
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.scope import Scope
from calipers.regression.mixed import mixed_model
from calipers.stability.analyse import stability
from calipers.statistics.intervals import FEWEST_REPLICATES
from calipers.statistics.weights import Units
from calipers.validation.cells import CoverageCell, Effort, Tally
from calipers.validation.experiments import CoverageExperiment

QUANTITIES = ("AUROC", "AUPR", "AURC", "E-AURC", "FPR95", "sensitivity", "specificity", "precision")
# FPR95 has an interval only from 100 wanted images on.
MANY_WANTED = 120
MANY_MODELS = 150  # trainings that make the truth of other trainings


@dataclass(frozen=True)
class MonitorDesign:
    """Data sets of alarm scores of one kind."""

    name: str
    patients: int
    images: int  # of a patient
    failing: float  # share of the images on which an alarm is wanted
    separation: float  # of the scores, in standard deviations
    likeness: float = 0.3
    threshold: float = 1.0
    blind: float = 0.0  # share of the failures that the monitor does not see


def monitor_cells(design: MonitorDesign, effort: Effort) -> list[CoverageCell]:
    """Return the cells of a design of monitors."""
    rng = np.random.Generator(np.random.Philox(key=[effort.seed, design.patients]))
    n = design.patients * design.images
    code = np.repeat(np.arange(design.patients), design.images)
    large = replace(design, patients=design.patients * effort.large(n))
    truth = _monitored(large, rng, ci=False)
    tallies = [Tally(truth.get(name).value) for name in QUANTITIES]
    for number in range(effort.simulations + effort.extra):
        with_interval = number < effort.simulations
        result = _monitored(
            design, rng, ci=with_interval, replicates=effort.replicates, seed=number
        )
        for tally, name in zip(tallies, QUANTITIES):
            estimate = result.get(name)
            if with_interval:
                tally.add(estimate.value, estimate.low, estimate.high)
            else:
                tally.add_value(estimate.value)
    units = Units.of("patient", code, n)
    cells = []
    for tally, name in zip(tallies, QUANTITIES):
        if name == "FPR95" and n * design.failing < MANY_WANTED:
            continue
        cells.append(tally.cell("monitors", name, design.name, units))
    return cells


def _monitored(
    design: MonitorDesign,
    rng: np.random.Generator,
    *,
    ci: bool,
    replicates: int = 2000,
    seed: int = 0,
) -> MonitorEvaluation:
    """Return the evaluation of one simulated data set, at a threshold that was fixed before."""
    n = design.patients * design.images
    patient = np.repeat(np.arange(design.patients), design.images)
    # Failures and scores both depend on the patient: some patients are hard.
    hard = rng.standard_normal(design.patients)[patient]
    own = rng.standard_normal(n)
    difficulty = np.sqrt(design.likeness) * hard + np.sqrt(1 - design.likeness) * own
    cut = np.quantile(rng.standard_normal(100_000), 1 - design.failing)
    is_wanted = difficulty > cut
    noise = np.sqrt(design.likeness) * rng.standard_normal(design.patients)[patient]
    noise = noise + np.sqrt(1 - design.likeness) * rng.standard_normal(n)
    is_seen = is_wanted
    if design.blind:
        is_seen = is_wanted & (rng.random(n) >= design.blind)
    scores = noise + design.separation * is_seen
    scope = Scope.from_values((~is_wanted).astype(float), groups={"patient": patient})
    return evaluate_monitor(
        scores,
        scope,
        threshold=design.threshold,
        ci=ci,
        replicates=replicates,
        seed=seed,
    )


@dataclass(frozen=True)
class MixedDesign:
    """Data sets of rows in centres and patients."""

    name: str
    centres: int
    patients: int  # of a centre
    rows: int  # of a patient
    spread: tuple[float, float, float]  # standard deviations of centre, patient and row
    effect: float = -0.28  # of a small object
    region: float = 0.05  # of every second centre


def mixed_cells(design: MixedDesign, effort: Effort) -> list[CoverageCell]:
    """Return the cells of a design of mixed models: both terms, and the correlation in centres."""
    rng = np.random.Generator(np.random.Philox(key=[effort.seed, design.centres]))
    variances = np.square(design.spread)
    names = ("size[small]", "region[south]", "ICC of centres")
    truths = (design.effect, design.region, float(variances[0] / variances.sum()))
    tallies = [Tally(truth) for truth in truths]
    for _ in range(effort.simulations):
        columns = _rows(design, rng)
        model = mixed_model(columns, "iou ~ size + region", ["centre", "patient"])
        for tally, name in zip(tallies, names[:2]):
            coefficient = model[name]
            tally.add(coefficient.value, coefficient.low, coefficient.high)
        component = next(one for one in model.components if one.name == "centre")
        icc = np.nan if component.icc is None else component.icc
        tallies[2].add(icc, component.icc_low, component.icc_high)
    units = Units.of("centre", np.arange(design.centres), design.centres)
    cells = []
    for tally, name in zip(tallies, names):
        cells.append(tally.cell("mixed models", name, design.name, units))
    return cells


def _rows(design: MixedDesign, rng: np.random.Generator) -> dict[str, Sequence[object]]:
    """Return the table of one simulated data set."""
    n_patients = design.centres * design.patients
    n = n_patients * design.rows
    patient = np.repeat(np.arange(n_patients), design.rows)
    centre = patient // design.patients
    small = rng.random(n) < 0.4
    south = centre % 2 == 1
    sd_centre, sd_patient, sd_row = design.spread
    iou = 0.75 + design.effect * small + design.region * south
    iou = iou + sd_centre * rng.standard_normal(design.centres)[centre]
    iou = iou + sd_patient * rng.standard_normal(n_patients)[patient]
    iou = iou + sd_row * rng.standard_normal(n)
    return {
        "iou": iou.tolist(),
        "size": np.where(small, "small", "large").tolist(),
        "region": np.where(south, "south", "north").tolist(),
        "centre": [f"c{k}" for k in centre.tolist()],
        "patient": [f"p{k}" for k in patient.tolist()],
    }


@dataclass(frozen=True)
class RatingDesign:
    """Data sets of ratings: patients whose predictions a clinician calls useful or not."""

    name: str
    patients: int
    predictions: int  # of a patient
    useful: float  # share of the predictions
    likeness: float  # of the predictions of a patient
    link: float = 0.7  # correlation of what the criterion measures with what the clinician sees


RATED = ("sensitivity", "specificity", "kappa", "AC1", "AUROC")


def rating_cells(design: RatingDesign, effort: Effort) -> list[CoverageCell]:
    """Return the cells of a design of ratings."""
    rng = np.random.Generator(np.random.Philox(key=[effort.seed, design.patients]))
    n = design.patients * design.predictions
    large = replace(design, patients=design.patients * effort.large(n))
    truth = _rated(large, rng, FEWEST_REPLICATES, 0)
    tallies = [Tally(truth.get(name, criterion="box-iou").value) for name in RATED]
    for number in range(effort.simulations + effort.extra):
        with_interval = number < effort.simulations
        n_replicates = effort.replicates if with_interval else FEWEST_REPLICATES
        result = _rated(design, rng, n_replicates, number)
        for tally, name in zip(tallies, RATED):
            estimate = result.get(name, criterion="box-iou")
            if with_interval:
                tally.add(estimate.value, estimate.low, estimate.high)
            else:
                tally.add_value(estimate.value)
    units = Units.of("patient", np.arange(design.patients), design.patients)
    cells = []
    for tally, name in zip(tallies, RATED):
        cells.append(tally.cell("agreement", name, design.name, units))
    return cells


def _rated(
    design: RatingDesign, rng: np.random.Generator, n_replicates: int, seed: int
) -> Agreement:
    """Return the agreement of one simulated data set, with hits at an overlap of one half."""
    patient = np.repeat(np.arange(design.patients), design.predictions)
    of_patient = rng.standard_normal(design.patients)[patient]
    own = rng.standard_normal(len(patient))
    quality = np.sqrt(design.likeness) * of_patient + np.sqrt(1 - design.likeness) * own
    overlap = design.link * quality
    overlap = overlap + np.sqrt(1 - design.link**2) * rng.standard_normal(len(patient))
    cut = np.quantile(rng.standard_normal(100_000), 1 - design.useful)
    columns = {
        "rating": (quality > cut).astype(int).tolist(),
        # Overlaps between 0 and 1, of which as many are hits as predictions are useful.
        "box-iou": (1.0 / (1.0 + np.exp(cut - overlap))).tolist(),
        "patient": [f"p{k}" for k in patient.tolist()],
    }
    return agreement(
        columns, criteria="box-iou", thresholds=0.5, replicates=n_replicates, seed=seed
    )


@dataclass(frozen=True)
class TrainingDesign:
    """Data sets of maps: several trainings, the images of patients."""

    name: str
    models: int
    patients: int
    images: int  # of a patient
    noise: float
    places: int = 36  # of a map


COMPARED = ("APJ", "PAR", "called-by-all", "Spearman")


def training_cells(design: TrainingDesign, effort: Effort) -> list[CoverageCell]:
    """Return the cells of a design of trainings: other patients, with the same trainings."""
    rng = np.random.Generator(np.random.Philox(key=[effort.seed, design.patients]))
    n = design.patients * design.images
    large = replace(design, patients=design.patients * effort.large(5 * n))
    whole = stability(_maps(large, rng), thresholds=(), ci=False, kendall=False)
    tallies = [Tally(whole[name].value) for name in COMPARED]
    code = np.repeat(np.arange(design.patients), design.images)
    groups = {"patient": [f"p{k}" for k in code.tolist()]}
    for number in range(effort.simulations + effort.extra):
        with_interval = number < effort.simulations
        result = stability(
            _maps(design, rng),
            groups=groups,
            thresholds=(),
            kendall=False,
            ci=with_interval,
            replicates=effort.replicates,
            seed=number,
        )
        for tally, name in zip(tallies, COMPARED):
            if with_interval:
                tally.add(result[name].value, result[name].low, result[name].high)
            else:
                tally.add_value(result[name].value)
    units = Units.of("patient", code, n)
    cells = []
    for tally, name in zip(tallies, COMPARED):
        cells.append(tally.cell("stability", name, design.name, units))
    return cells


def _maps(design: TrainingDesign, rng: np.random.Generator) -> F64:
    """Return (models, images, places) maps; on the images of some patients there is more noise."""
    of_patient = rng.gamma(2.0, design.noise / 2.0, design.patients)
    noise = np.repeat(of_patient, design.images)[:, None]
    shape = (design.patients * design.images, design.places)
    shared = rng.random(shape)
    return np.clip(shared + noise * rng.standard_normal((design.models, *shape)), 0.0, 1.0)


def other_training_cells(design: TrainingDesign, effort: Effort) -> list[CoverageCell]:
    """Return the cells of a design of trainings: other trainings, on the same images."""
    rng = np.random.Generator(np.random.Philox(key=[effort.seed, design.models]))
    shared = rng.random((design.patients * design.images, design.places))

    def trained(number: int) -> F64:
        quality = design.noise * np.exp(0.5 * rng.standard_normal((number, 1, 1)))
        return np.clip(shared + quality * rng.standard_normal((number, *shared.shape)), 0.0, 1.0)

    number = min(max(effort.images_of_truth // 600, design.models), MANY_MODELS)
    whole = stability(trained(number), thresholds=(), ci=False, kendall=False)
    names = ("APJ", "Spearman")
    tallies = [Tally(whole[name].value) for name in names]
    for number in range(effort.simulations + effort.extra):
        result = stability(trained(design.models), thresholds=(), ci=False, kendall=False)
        for tally, name in zip(tallies, names):
            left = result.leave_one_out(name)
            if number < effort.simulations:
                tally.add(left.value, left.low, left.high)
            else:
                tally.add_value(left.value)
    units = Units.of("model", np.arange(design.models), design.models)
    cells = []
    for tally, name in zip(tallies, names):
        cells.append(tally.cell("stability", f"{name}, other trainings", design.name, units))
    return cells


MONITORS = (
    MonitorDesign("100 patients x 2, a third fails", 100, 2, 0.33, 1.2),
    MonitorDesign("40 patients x 3, a fifth fails", 40, 3, 0.2, 1.5),
    MonitorDesign("30 patients x 10, good monitor", 30, 10, 0.45, 2.5),
    MonitorDesign("90 patients x 2, blind spots", 90, 2, 0.3, 2.8, threshold=1.4, blind=0.06),
    MonitorDesign("140 images, good monitor", 140, 1, 0.2, 3.0, 0.0, threshold=1.5),
)
MIXED = (
    MixedDesign("6 centres x 10 patients x 3", 6, 10, 3, (0.06, 0.08, 0.12)),
    MixedDesign("12 centres x 6 patients x 3", 12, 6, 3, (0.04, 0.08, 0.12)),
    MixedDesign("24 centres x 4 patients x 2", 24, 4, 2, (0.08, 0.06, 0.12)),
)
RATINGS = (
    RatingDesign("30 patients x 3 ratings", 30, 3, 0.6, 0.4),
    RatingDesign("100 patients x 1 rating", 100, 1, 0.75, 0.0, link=0.85),
    RatingDesign("12 patients x 8 ratings", 12, 8, 0.5, 0.2, link=0.6),
)
TRAININGS = (
    TrainingDesign("30 patients x 2, 4 trainings", 4, 30, 2, 0.25),
    TrainingDesign("10 patients x 6, 3 trainings", 3, 10, 6, 0.12),
)
OTHER_TRAININGS = (
    TrainingDesign("5 trainings, 20 images", 5, 20, 1, 0.15, places=64),
    TrainingDesign("10 trainings, 15 images", 10, 15, 1, 0.3, places=64),
)
EXPERIMENTS: tuple[CoverageExperiment, ...] = (
    *(CoverageExperiment(design.name, partial(monitor_cells, design)) for design in MONITORS),
    *(CoverageExperiment(design.name, partial(mixed_cells, design)) for design in MIXED),
    *(CoverageExperiment(design.name, partial(rating_cells, design)) for design in RATINGS),
    *(CoverageExperiment(design.name, partial(training_cells, design)) for design in TRAININGS),
    *(
        CoverageExperiment(design.name, partial(other_training_cells, design))
        for design in OTHER_TRAININGS
    ),
)
