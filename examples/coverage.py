# SPDX-License-Identifier: Apache-2.0
"""Does a 95 % interval hold the truth in 95 % of the cases? Simulated detectors, whose true AP is
known, tell.

A detector finds the one lesion of an image or not, and raises false alarms. How well it does
depends on the patient, so images of a patient are alike. The interval over patients should hold the
truth in about 95 % of the cohorts and be about as wide as AP really varies from cohort to cohort.
The interval over images takes images of a patient for independent: it is too narrow, and the last
line shows by how much.

Run it with: python examples/coverage.py --simulations 400
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calipers as cal
from calipers.data.cohort import Images, Intake
from calipers.data.rules import Delivery, as_predictions, as_references
from calipers.statistics.intervals import interval
from calipers.statistics.weights import Units, bootstrap

F64, I64 = NDArray[np.float64], NDArray[np.int64]
Box = tuple[float, float, float, float]
LESION: Box = (10.0, 10.0, 20.0, 20.0)
ELSEWHERE: Box = (40.0, 40.0, 50.0, 50.0)
MODEL = "model"
TOGETHER = 50  # cohorts that are made at once
LARGE = 1000  # cohorts that tell the truth


@dataclass(frozen=True)
class Design:
    """Cohorts of one kind: how many units with how many images, how alike these are,
    how good the detector is.
    """

    name: str
    units: int
    images: int
    likeness: float  # intraclass correlation of how easy the images of a unit are
    skill: float  # a lesion of average difficulty is found with the chance Phi(skill)
    alarms: float  # false alarms per image of average difficulty
    separation: float  # how much higher hits are scored than false alarms


DESIGNS = (
    Design("60 patients x 5 images, alike", 60, 5, 0.7, 0.8, 0.6, 1.0),
    Design("10 centres x 20 images", 10, 20, 0.3, 0.8, 0.6, 1.0),
    Design("25 patients x 4 images, high AP", 25, 4, 0.5, 1.5, 0.2, 2.0),
)


@dataclass(frozen=True)
class Found:
    """How the intervals of one design did."""

    design: Design
    unit: str
    truth: float
    simulations: int
    coverage: float  # share of the intervals that hold the truth
    width_ratio: float  # mean width of the intervals / width of the true sampling interval

    def __str__(self) -> str:
        error = np.sqrt(self.coverage * (1 - self.coverage) / self.simulations)
        return (
            f"{self.design.name:<34} {self.unit:<8} {self.truth:>8.3f} {self.coverage:>9.3f} +- "
            f"{error:.3f} {self.width_ratio:>12.2f}"
        )


def cohort_of(design: Design, times: int, seed: int) -> cal.Cohort:
    """Return a cohort of a design, ``times`` as large: that many cohorts, one after the other."""
    rng = np.random.Generator(np.random.Philox(key=[seed, design.units]))
    n = times * design.units * design.images
    shared = np.repeat(rng.standard_normal(times * design.units), design.images)
    ease = np.sqrt(design.likeness) * shared + np.sqrt(1 - design.likeness) * rng.standard_normal(n)
    hit = np.flatnonzero(ease + design.skill > 0)
    alarm = np.repeat(np.arange(n), rng.poisson(design.alarms * np.exp(-0.3 * ease)))
    hit_score = design.separation + 0.5 * ease[hit] + rng.standard_normal(len(hit))
    score = np.concatenate([hit_score, rng.standard_normal(len(alarm))])
    sizes = np.full((n, 2), 64.0)
    images = Images(tuple(map(str, range(n))), sizes, np.full((n, 2), np.nan), {})
    references = as_references(_delivered(np.arange(n), [(LESION, n)]), sizes)
    said = _delivered(
        np.concatenate([hit, alarm]), [(LESION, len(hit)), (ELSEWHERE, len(alarm))], score
    )
    return cal.Cohort(
        images, ("lesion",), references, {MODEL: as_predictions(said, sizes)}, Intake(())
    )


def _delivered(image: I64, boxes: list[tuple[Box, int]], score: F64 | None = None) -> Delivery:
    placed = np.concatenate([np.tile(box, (number, 1)) for box, number in boxes])
    return Delivery(
        image, np.zeros(len(image), np.int64), placed, "xyxy", np.arange(len(image)), score
    )


class Simulation:
    """AP50 of simulated cohorts of a design."""

    def __init__(self, design: Design, seed: int = 0) -> None:
        (self.metric,) = cal.Protocol.load("coco").only(["AP50"]).compile()
        self.design, self.seed = design, seed
        self.n_images = design.units * design.images

    def values(self, evidence: Any, weights: Any) -> F64:
        """Return (R,) AP50 under R rows of weights."""
        found: F64 = self.metric.value(evidence, weights)[:, 0, 0]
        return found

    def truth(self) -> float:
        """Return AP50 of a cohort so large that it hardly varies."""
        evidence = self.metric.recipe.collect(cohort_of(self.design, LARGE, self.seed), MODEL)
        return float(self.values(evidence, np.ones((1, evidence.n_images), np.int64))[0])

    def cohorts(self, number: int) -> Iterator[Any]:
        """Yield the evidence of cohorts, which are made fifty at a time."""
        for first in range(0, number, TOGETHER):
            cohort = cohort_of(self.design, TOGETHER, self.seed + 1 + first)
            evidence = self.metric.recipe.collect(cohort, MODEL)
            for k in range(min(TOGETHER, number - first)):
                yield evidence.take(np.arange(k * self.n_images, (k + 1) * self.n_images))


def coverage(
    design: Design, *, over: str, simulations: int, replicates: int = 400, extra: int = 1000
) -> Found:
    """Return how often the intervals of simulated cohorts hold the truth, and how wide they are.

    Parameters
    ----------
    over
        ``unit`` resamples patients or centres, ``image`` images.
    extra
        Further cohorts without interval, for how much AP really varies.
    """
    simulation = Simulation(design)
    once = np.ones((1, simulation.n_images), np.int64)
    code = np.repeat(np.arange(design.units), design.images) if over == "unit" else None
    units = Units.of(over, code, simulation.n_images)
    values, ends = [], []
    for k, cohort in enumerate(simulation.cohorts(simulations + extra)):
        values.append(float(simulation.values(cohort, once)[0]))
        if k < simulations:
            sample = [
                simulation.values(cohort, block) for block in bootstrap(units, replicates, seed=k)
            ]
            found = interval(values[-1], np.concatenate(sample), n_units=units.number)
            ends.append((found.low, found.high))
    low, high = np.array(ends).T
    truth = simulation.truth()
    held = (low <= truth) & (truth <= high)  # an interval that is missing holds nothing
    bottom, top = np.quantile(values, [0.025, 0.975])
    return Found(
        design,
        over,
        truth,
        simulations,
        float(held.mean()),
        float(np.nanmean(high - low) / (top - bottom)),
    )


def table(simulations: int) -> Iterator[Found]:
    """Yield the three designs, and last what goes wrong if the likeness of images is not
    respected.
    """
    for design in DESIGNS:
        yield coverage(design, over="unit", simulations=simulations)
    yield coverage(DESIGNS[0], over="image", simulations=simulations)


def main(simulations: int) -> None:
    """Print the table."""
    print(f"{'design':<34} {'over':<8} {'true AP':>8} {'coverage':>18} {'width ratio':>12}")
    for found in table(simulations):
        print(found)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    options.add_argument(
        "--simulations", type=int, default=20, help="cohorts with an interval, per design"
    )
    main(options.parse_known_args()[0].simulations)
