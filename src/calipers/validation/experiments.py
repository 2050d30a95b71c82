# SPDX-License-Identifier: Apache-2.0
"""The experiments behind the coverage table: which designs, which numbers, in which order.

`EXPERIMENTS` lists them; a package that states intervals of a kind of its own names its experiments
in `OTHERS`. The designs and seeds here are not those by which rules were chosen
(`calipers.validation.choices`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Literal

from calipers.validation.cells import CoverageCell, Effort
from calipers.validation.designs import CohortDesign
from calipers.validation.least_widths import cells_with_least_widths
from calipers.validation.maps import MapDesign, map_cells
from calipers.validation.objects import Quantity, difference_cells, equal_model_cells, object_cells

CellMaker = Callable[[Effort], Iterable[CoverageCell]]


def power_law(number: int, most: float, power: float) -> tuple[float, ...]:
    """Return how often classes occur in an image: the first ``most`` times, then less and less."""
    return tuple(most * (k + 1) ** -power for k in range(number))


ONE_CLASS = (
    Quantity("AP, one class", "AP@0.5"),
    Quantity("AP, one class", "AP"),
    Quantity("sensitivity", "sensitivity"),
    Quantity("FROC", "FROC"),
    Quantity("PPV and F1", "PPV"),
    Quantity("PPV and F1", "F1"),
    Quantity("FP/image", "FP/image"),
    Quantity("dAP", "dAP/loc"),
    Quantity("dAP", "dAP/bkg"),
    Quantity("dAP", "dAP/miss"),
    Quantity("dAP", "dAP/fp"),
    Quantity("dAP", "dAP/fn"),
)
TWO_CLASSES = (
    Quantity("AP, one class", "AP@0.5", 1),
    *ONE_CLASS[2:],
    Quantity("dAP", "dAP/cls"),
    Quantity("dAP", "dAP/dup"),
    Quantity("RoDeO", "RoDeO"),
)
CLASS_MEANS = (
    Quantity("mean over classes", "AP@0.5"),
    Quantity("mean over classes", "AP"),
    Quantity("RoDeO", "RoDeO"),
)
CONTROL = (Quantity("control", "AP@0.5"), Quantity("control", "sensitivity"))
ERRORS = CohortDesign("", 0, 0, loose=0.08, mislabelled=0.08, doubled=0.03)
BOTH = (0.7, 0.4)
LATENT: Literal["latent"] = "latent"


def _single(name: str, units: int, images: int, sensitivity: float = 0.8) -> CohortDesign:
    return CohortDesign(name, units, images, always=True, sensitivity=sensitivity)


def _both(name: str, units: int, images: int, sensitivity: float) -> CohortDesign:
    return replace(
        ERRORS, name=name, units=units, images=images, prevalence=BOTH, sensitivity=sensitivity
    )


def _many(name: str, units: int, images: int, classes: tuple[float, ...]) -> CohortDesign:
    return CohortDesign(name, units, images, classes, sensitivity=0.75, alarms=0.5, separation=1.5)


def _good(name: str, units: int, images: int, *parts: float) -> CohortDesign:
    """Return a design with sensitivity and likeness, and few mistakes."""
    sensitivity, likeness = parts
    design = _single(name, units, images, sensitivity)
    unit = "image" if images == 1 else "patient"
    return replace(design, likeness=likeness, alarms=0.07, loose=0.01, unit=unit)


# One object in every image; sensitivities from middling to nearly perfect.
SINGLE = (
    replace(_single("60 patients x 5, alike", 60, 5), likeness=0.5, alarms=0.6, loose=0.08),
    replace(
        _single("10 centres x 20", 10, 20), likeness=0.1, alarms=0.4, loose=0.05, unit="centre"
    ),
    replace(_single("25 patients x 4, good", 25, 4, 0.92), alarms=0.2, loose=0.02),
    replace(_single("6 centres x 30", 6, 30), likeness=0.08, alarms=0.5, loose=0.05, unit="centre"),
    replace(_single("100 patients x 1, sensitivity .96", 100, 1, 0.96), likeness=0.0, alarms=0.09),
    replace(_single("30 patients x 3, sensitivity .94", 30, 3, 0.94), likeness=0.3, alarms=0.12),
    replace(
        _single("50 images, sensitivity .98", 50, 1, 0.98), likeness=0.0, alarms=0.03, unit="image"
    ),
    replace(_single("15 patients x 8, sensitivity .98", 15, 8, 0.98), likeness=0.15, alarms=0.09),
    replace(
        _single("45 patients x 3, latent", 45, 3, 0.75),
        likeness=0.4,
        alarms=0.5,
        loose=0.06,
        generator=LATENT,
    ),
    replace(
        _single("12 centres x 12, latent", 12, 12, 0.88),
        likeness=0.15,
        alarms=0.3,
        loose=0.04,
        generator=LATENT,
        unit="centre",
    ),
    replace(
        _single("8 patients x 6, latent, good", 8, 6, 0.9),
        likeness=0.3,
        alarms=0.09,
        generator=LATENT,
    ),
)
TWO = (
    replace(_both("40 patients x 3, two classes", 40, 3, 0.8), alarms=0.4),
    replace(_both("9 patients x 8, two classes", 9, 8, 0.85), alarms=0.3),
    replace(
        _both("120 images, two classes, latent", 120, 1, 0.7),
        alarms=0.8,
        generator=LATENT,
        likeness=0.0,
        unit="image",
    ),
    replace(
        _both("20 patients x 4, few errors", 20, 4, 0.93),
        alarms=0.1,
        loose=0.03,
        mislabelled=0.02,
        doubled=0.01,
    ),
)
MANY = (
    _many("25 patients x 5, 6 classes", 25, 5, power_law(6, 0.5, 0.7)),
    replace(
        _many("50 patients x 3, 10 classes, 3 rare", 50, 3, power_law(10, 0.5, 1.2)), alarms=0.6
    ),
    replace(
        _many("100 patients x 2, 12 classes, 4 rare", 100, 2, power_law(12, 0.4, 1.4)),
        sensitivity=0.8,
        separation=2.0,
        likeness=0.3,
    ),
    replace(
        _many("40 patients x 4, 8 classes, 2 rare, latent", 40, 4, power_law(8, 0.4, 1.3)),
        sensitivity=0.7,
        separation=1.2,
        generator=LATENT,
    ),
    replace(
        _many("200 images, 15 classes, 7 rare", 200, 1, power_law(15, 0.6, 1.6)),
        sensitivity=0.7,
        alarms=0.8,
        likeness=0.05,
        unit="image",
    ),
    replace(
        _many("10 centres x 15, 5 classes", 10, 15, power_law(5, 0.6, 0.8)),
        sensitivity=0.8,
        alarms=0.4,
        separation=2.0,
        likeness=0.1,
        unit="centre",
    ),
)
PAIRS = (
    replace(_single("40 patients x 3, equal models", 40, 3), alarms=0.4, loose=0.05),
    replace(_single("10 centres x 12, one better", 10, 12), likeness=0.1, gain=0.4, unit="centre"),
    replace(
        _single("80 images, both good", 80, 1, 0.93),
        likeness=0.0,
        alarms=0.15,
        gain=0.3,
        generator=LATENT,
        unit="image",
    ),
)
# Two equal models that find nearly all: AP at fixed recalls moves in steps. The recalls that they
# reach lie between two of them, or the truth itself would be uncertain by a step.
NEARLY_ALL = (
    _good("100 images, AP near 1, equal", 100, 1, 0.975, 0.0),
    _good("170 images, AP near 1, equal", 170, 1, 0.985, 0.0),
    _good("55 patients x 3, AP near 1, equal", 55, 3, 0.965, 0.1),
)
EQUAL = (
    replace(PAIRS[0], name="40 patients x 3, all equal", models=10),
    replace(PAIRS[2], name="80 images, all equal", sensitivity=0.8, gain=0.0, models=10),
    replace(
        _many("30 patients x 2, two classes, all equal", 30, 2, (0.7, 0.4)), loose=0.05, models=10
    ),
    replace(_many("22 patients x 4, all equal", 22, 4, (0.6,)), loose=0.05, models=10),
    replace(
        _good("65 patients x 3, AP above .9, all equal", 65, 3, 0.95, 0.15), alarms=0.15, models=10
    ),
)
OF_EQUAL = ("AP@0.5", "sensitivity", "F1")
OF_NEARLY_ALL = ("AP@0.5", "AP", "F1")
DIFFERENCES = ("AP@0.5", "sensitivity", "FROC", "PPV", "F1", "FP/image")
MAPS = (
    MapDesign("40 patients x 3", 40, 3, 0.5, 1.5),
    MapDesign("10 centres x 10", 10, 10, 0.2, 1.5, unit="centre"),
    MapDesign("60 images, high contrast", 60, 1, 0.0, 3.0, unit="image"),
)


# Cells that are known to be covered too seldom, by design and number, with the reason.
COVERED_TOO_SELDOM = {
    ("15 patients x 8, sensitivity .98", "AP@0.5"): (
        "rests on the few patients in whom anything is wrong; the t interval is too narrow there"
    ),
    ("200 images, 15 classes, 7 rare", "AP"): "AP of few references is biased upwards",
}


@dataclass(frozen=True)
class CoverageExperiment:
    """One part of the table."""

    name: str
    cells: CellMaker


def _all_of(
    designs: Iterable[CohortDesign], quantities: tuple[Quantity, ...]
) -> Iterator[CoverageExperiment]:
    for design in designs:
        yield CoverageExperiment(design.name, partial(cells_with_least_widths, design, quantities))


EXPERIMENTS: tuple[CoverageExperiment, ...] = (
    *_all_of(SINGLE, ONE_CLASS),
    *_all_of(TWO, TWO_CLASSES),
    *_all_of(MANY, CLASS_MEANS),
    *(CoverageExperiment(d.name, partial(difference_cells, d, DIFFERENCES)) for d in PAIRS),
    *(CoverageExperiment(d.name, partial(difference_cells, d, OF_NEARLY_ALL)) for d in NEARLY_ALL),
    *(CoverageExperiment(d.name, partial(equal_model_cells, d, OF_EQUAL)) for d in EQUAL),
    *(CoverageExperiment(d.name, partial(map_cells, d)) for d in MAPS),
)
# Experiments of other packages, "module:object", an iterable of `CoverageExperiment` each.
OTHERS: tuple[str, ...] = ("calipers.validation.features:EXPERIMENTS",)


def control(effort: Effort) -> list[CoverageCell]:
    """Return cells that must fail: intervals that resample images where those of a unit are alike.

    A gate that such intervals pass would show nothing.
    """
    return object_cells(SINGLE[0], CONTROL, effort, unit="image")


def experiments() -> Iterator[CoverageExperiment]:
    """Yield all experiments: those of this module, then those that other modules have."""
    yield from EXPERIMENTS
    for link in OTHERS:
        module, name = link.split(":")
        yield from getattr(import_module(module), name)
