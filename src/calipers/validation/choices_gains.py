# SPDX-License-Identifier: Apache-2.0
"""How the interval of gains of AP (dAP) was chosen: candidates, compared on designs of their own.

A gain is a sum of what errors cost, and costs differ: a false alarm costs anything from nothing to
1 / n of n references, depending on how many hits rank below it. Every candidate makes its interval
from the same replicates, with parts of its own:

``form``
    of few errors: the gamma interval of Fay and Feuer (Stat Med 1997), or its mid-p form (Fay and
    Kim, Biom J 2017), which is narrower and has the rule of three without an error, as shares and
    rates have;
``until``
    up to which effective number of errors (squared gain over squared standard error) that form
    stands for the t interval on the logit scale. 0: only with fewer than 5 units in error. The t
    interval knows nothing of an error more expensive than those that were seen;
``costs``
    what a lone error is assumed to cost, in references. *Single*: a false alarm .5, a miss 1, a
    mistake in place or class 1, the rule before. *Mean*: a mistake in place or class 1.5, because
    it costs the reference and is a false alarm too. *Largest*: 1, 1 and 2, which is the most that
    each can cost, as the theory of the gamma interval asks for;
``reach``
    how many times the bootstrap's bias the interval reaches further; 1, as chosen before.

No upper bound is below that of such errors in fewer units (`statistics.few_errors`).

How a choice is made, written before anything was measured: on designs and a seed that no earlier
round used, a *number* is a gain in a design that at least 30 % of the data sets show.
Under-coverage misleads, so it comes first: candidates stay in that have at most one number more
below .90 than the candidate with the fewest. Of these the one with the most numbers inside the gate
(.90 to .995, width at most 1.5) is chosen; a tie goes to the smaller median width.

The first round (`FIRST`) chose the mid-p form up to 30 errors with the largest costs: 51 of 62
numbers inside and one below .90, where the rule before had 53 and 8. The ten others were too wide,
most of them in units of many images, where the further error is assumed to fail with its whole
unit. So a second round (`SECOND`, written before it was measured, on designs and a seed of its own)
asks what the further error costs:

``extra = full``
    as much as assumed, with the clustering that is assumed where no error shows it;
``fading``
    the same, but the clustering is assumed only as far as the data do not show it;
``learned``
    besides, the cost itself becomes that of the errors that were seen (Tiwari et al., Stat Methods
    Med Res 2006);
``costs = middle``
    .75, 1 and 1.5, between single and largest ones.

It chose the same candidate again, with 51 of 63 numbers inside and one below .90 (the rule before:
51 and 11). With a clustering that fades, four more numbers were inside, but ``dAP/fp`` was covered
too seldom, and nothing else: its bias is that of AP itself, about four times that of the bootstrap
in data sets of another seed (gains of background alarms one to three times). So a third round
(`THIRD`, again written before it was measured, on designs and a seed of its own) asks how far these
intervals must reach:

``reach_alarms``
    how many times the bootstrap's bias the intervals of ``dAP/fp``, or of all gains of false
    alarms, reach further, in both forms.

The choice of the third round had to be confirmed on the designs of `CONFIRMING`, which choose
nothing: with fewer numbers below .90 than the rule before has there, or none, and at most two
fewer inside. Else the rule before would have stayed.

The third round chose the mid-p form up to 30 errors with the largest costs, a clustering that fades
and a reach of 4 for ``dAP/fp`` (`CHOSEN`): 40 of 43 numbers inside and none below .90, where the
rule before had 33 and 8. On the designs of `CONFIRMING` it has 28 of 34 inside and none below .90,
the rule before 28 and 3, .853 at the lowest. So it is the rule of `statistics.intervals` now.

``python -m calipers.validation.choices_gains`` prints all four; ``first``, ``second``, ``third`` or
``confirming`` prints one. Designs and seeds are not those of `calipers.validation.experiments`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, Protocol, TypeVar

import numpy as np

from calipers.arrays import F64, Flags
from calipers.metrics.error_types import FALSE_ALARMS
from calipers.statistics import few_errors
from calipers.statistics import intervals as making
from calipers.statistics.estimates import Certainty, Column, _columns, replicates
from calipers.statistics.few_errors import FURTHEST, special
from calipers.statistics.intervals import BootstrapSample
from calipers.statistics.support import Support
from calipers.statistics.weights import Units
from calipers.validation.cells import LOWEST, NOMINAL, CoverageCell, Effort, Tally
from calipers.validation.designs import CohortDesign
from calipers.validation.objects import Quantity, Simulation

NAMES = ("dAP/loc", "dAP/bkg", "dAP/miss", "dAP/cls", "dAP/dup", "dAP/fp", "dAP/fn")
LATENT: Literal["latent"] = "latent"
# What a false alarm, a miss, and a mistake in place or class cost, in references.
COSTS = {
    "single": (0.5, 1.0, 1.0),
    "mean": (0.5, 1.0, 1.5),
    "middle": (0.75, 1.0, 1.5),
    "largest": (1.0, 1.0, 2.0),
}
FEW_ONLY, LONGER = 0.0, 30.0


class Candidate(Protocol):
    """A rule that is compared; cells of its intervals have its name as their family."""

    @property
    def name(self) -> str:
        """The candidate in a line of the comparison."""
        ...


C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True)
class GainRule:
    """One candidate."""

    form: Literal["gamma", "mid-p"] = "gamma"
    until: float = FEW_ONLY
    costs: str = "single"
    extra: Literal["full", "fading", "learned"] = "full"
    alarms: Literal["fp", "all"] = "fp"  # gains that have a reach of their own ...
    reach_alarms: float = 1.0  # ... in both forms, if it is above 1
    reach: float = 1.0

    @property
    def name(self) -> str:
        """The candidate in a line of the comparison."""
        few = f"up to {self.until:.0f}" if self.until else "few errors"
        extra = "" if self.extra == "full" else f", {self.extra}"
        reach = f", reach {self.reach_alarms:.0f} of {self.alarms}" if self.reach_alarms > 1 else ""
        return f"{self.form}, {few}, {self.costs} costs{extra}{reach}"

    def reach_of(self, name: str) -> float:
        """Return the reach of a gain in both forms; 0 if it has none of its own."""
        kind = name.removeprefix("dAP/")
        is_alarm = kind in (FALSE_ALARMS if self.alarms == "all" else ("fp",))
        return self.reach_alarms if is_alarm and self.reach_alarms > 1 else 0.0

    def cost(self, name: str) -> float:
        """Return what a lone error is assumed to cost."""
        alarm, miss, moved = COSTS[self.costs]
        kind = name.removeprefix("dAP/")
        if kind in FALSE_ALARMS:
            return alarm
        return moved if kind in ("loc", "cls") else miss


FORMS: tuple[Literal["gamma", "mid-p"], ...] = ("gamma", "mid-p")
REACHES: tuple[tuple[Literal["fp", "all"], float], ...] = (("fp", 4.0), ("all", 2.0), ("all", 4.0))
EXTRAS: tuple[Literal["full", "fading", "learned"], ...] = ("full", "fading", "learned")
FIRST_RULES = tuple(
    GainRule(*parts) for parts in product(FORMS, (FEW_ONLY, LONGER), ("single", "mean", "largest"))
)
BEFORE = FIRST_RULES[0]
SECOND_RULES = (
    BEFORE,
    *(GainRule(*parts) for parts in product(FORMS, (LONGER,), ("middle", "largest"), EXTRAS)),
)
THIRD_RULES = (
    BEFORE,
    GainRule("mid-p", LONGER, "largest"),
    *(
        GainRule(form, LONGER, costs, "fading", alarms, reach)
        for form, costs in product(FORMS, ("middle", "largest"))
        for alarms, reach in REACHES
    ),
)
CHOSEN = GainRule("mid-p", LONGER, "largest", "fading", "fp", 4.0)
BOTH = (0.6, 0.5)
FIRST = (
    CohortDesign(
        "90 x 1", 90, 1, always=True, sensitivity=0.95, alarms=0.1, loose=0.03, likeness=0.0
    ),
    CohortDesign(
        "80 x 1, high alarms",
        80,
        1,
        always=True,
        sensitivity=0.9,
        alarms=0.12,
        loose=0.02,
        likeness=0.0,
        separation=0.5,
    ),
    CohortDesign(
        "150 x 1", 150, 1, always=True, sensitivity=0.97, alarms=0.05, loose=0.015, likeness=0.0
    ),
    CohortDesign(
        "28 x 3", 28, 3, always=True, sensitivity=0.92, alarms=0.12, loose=0.05, likeness=0.3
    ),
    CohortDesign(
        "16 x 7", 16, 7, always=True, sensitivity=0.9, alarms=0.1, loose=0.03, likeness=0.15
    ),
    CohortDesign(
        "8 x 14", 8, 14, always=True, sensitivity=0.88, alarms=0.3, loose=0.05, likeness=0.1
    ),
    CohortDesign(
        "50 x 2",
        50,
        2,
        BOTH,
        sensitivity=0.9,
        alarms=0.15,
        loose=0.04,
        mislabelled=0.04,
        doubled=0.03,
    ),
    CohortDesign("24 x 5", 24, 5, (0.5, 0.4, 0.3), sensitivity=0.85, alarms=0.25, mislabelled=0.06),
    CohortDesign(
        "65 x 1, latent",
        65,
        1,
        always=True,
        sensitivity=0.9,
        alarms=0.15,
        loose=0.05,
        likeness=0.0,
        generator=LATENT,
    ),
    CohortDesign(
        "26 x 4, latent",
        26,
        4,
        BOTH,
        sensitivity=0.88,
        alarms=0.2,
        mislabelled=0.05,
        separation=1.0,
        generator=LATENT,
    ),
    CohortDesign(
        "13 x 9, latent",
        13,
        9,
        always=True,
        sensitivity=0.85,
        alarms=0.25,
        loose=0.08,
        generator=LATENT,
    ),
    CohortDesign(
        "110 x 2, latent",
        110,
        2,
        always=True,
        sensitivity=0.8,
        alarms=0.4,
        loose=0.06,
        separation=1.2,
        generator=LATENT,
    ),
)
SECOND = (
    CohortDesign(
        "130 x 1", 130, 1, always=True, sensitivity=0.96, alarms=0.08, loose=0.02, likeness=0.0
    ),
    CohortDesign(
        "60 x 1, high alarms",
        60,
        1,
        always=True,
        sensitivity=0.93,
        alarms=0.2,
        loose=0.04,
        likeness=0.0,
        separation=0.3,
    ),
    CohortDesign(
        "45 x 1", 45, 1, always=True, sensitivity=0.9, alarms=0.15, loose=0.06, likeness=0.0
    ),
    CohortDesign(
        "32 x 4", 32, 4, always=True, sensitivity=0.9, alarms=0.08, loose=0.04, likeness=0.2
    ),
    CohortDesign(
        "14 x 10", 14, 10, always=True, sensitivity=0.92, alarms=0.15, loose=0.04, likeness=0.1
    ),
    CohortDesign(
        "6 x 25", 6, 25, always=True, sensitivity=0.85, alarms=0.4, loose=0.06, likeness=0.08
    ),
    CohortDesign(
        "70 x 2",
        70,
        2,
        BOTH,
        sensitivity=0.92,
        alarms=0.1,
        loose=0.03,
        mislabelled=0.03,
        doubled=0.02,
    ),
    CohortDesign(
        "19 x 6", 19, 6, (0.6, 0.3, 0.2), sensitivity=0.8, alarms=0.3, mislabelled=0.05, loose=0.03
    ),
    CohortDesign(
        "85 x 1, latent",
        85,
        1,
        always=True,
        sensitivity=0.93,
        alarms=0.1,
        loose=0.03,
        likeness=0.0,
        generator=LATENT,
    ),
    CohortDesign(
        "36 x 3, latent",
        36,
        3,
        BOTH,
        sensitivity=0.85,
        alarms=0.25,
        mislabelled=0.06,
        separation=1.5,
        generator=LATENT,
    ),
    CohortDesign(
        "10 x 12, latent",
        10,
        12,
        always=True,
        sensitivity=0.88,
        alarms=0.2,
        loose=0.05,
        likeness=0.15,
        generator=LATENT,
    ),
    CohortDesign(
        "75 x 3, latent",
        75,
        3,
        always=True,
        sensitivity=0.75,
        alarms=0.5,
        loose=0.05,
        likeness=0.3,
        separation=1.0,
        generator=LATENT,
    ),
)
THIRD = (
    CohortDesign(
        "105 x 1", 105, 1, always=True, sensitivity=0.92, alarms=0.12, loose=0.04, likeness=0.0
    ),
    CohortDesign(
        "38 x 2, high alarms",
        38,
        2,
        always=True,
        sensitivity=0.9,
        alarms=0.25,
        loose=0.05,
        likeness=0.2,
        separation=0.6,
    ),
    CohortDesign(
        "17 x 8", 17, 8, always=True, sensitivity=0.9, alarms=0.12, loose=0.03, likeness=0.2
    ),
    CohortDesign(
        "9 x 16", 9, 16, BOTH, sensitivity=0.85, alarms=0.35, loose=0.05, mislabelled=0.05
    ),
    CohortDesign(
        "60 x 2", 60, 2, (0.5, 0.5, 0.3), sensitivity=0.9, alarms=0.15, mislabelled=0.04, loose=0.03
    ),
    CohortDesign(
        "27 x 5, latent",
        27,
        5,
        (0.6, 0.2),
        sensitivity=0.9,
        alarms=0.15,
        loose=0.04,
        doubled=0.1,
        generator=LATENT,
    ),
    CohortDesign(
        "95 x 1, latent",
        95,
        1,
        BOTH,
        sensitivity=0.88,
        alarms=0.2,
        mislabelled=0.04,
        likeness=0.0,
        separation=1.5,
        generator=LATENT,
    ),
    CohortDesign(
        "48 x 3, latent",
        48,
        3,
        always=True,
        sensitivity=0.82,
        alarms=0.35,
        loose=0.06,
        likeness=0.25,
        generator=LATENT,
    ),
)
CONFIRMING = (
    CohortDesign("55 x 2", 55, 2, always=True, sensitivity=0.94, alarms=0.12, loose=0.03),
    CohortDesign("7 x 15", 7, 15, always=True, sensitivity=0.9, alarms=0.25, loose=0.04),
    CohortDesign("22 x 3", 22, 3, BOTH, sensitivity=0.9, alarms=0.15, mislabelled=0.04),
    CohortDesign(
        "40 x 1", 40, 1, always=True, sensitivity=0.93, alarms=0.1, loose=0.05, likeness=0.0
    ),
    CohortDesign("11 x 8", 11, 8, BOTH, sensitivity=0.8, alarms=0.3, loose=0.08, doubled=0.05),
    CohortDesign(
        "20 x 5, latent", 20, 5, always=True, sensitivity=0.9, alarms=0.2, generator=LATENT
    ),
    CohortDesign(
        "60 x 2, latent", 60, 2, always=True, sensitivity=0.85, alarms=0.3, generator=LATENT
    ),
)
ROUNDS = {  # designs, candidates and seed
    "first": (FIRST, FIRST_RULES, 53_000),
    "second": (SECOND, SECOND_RULES, 67_000),
    "third": (THIRD, THIRD_RULES, 71_000),
    "confirming": (CONFIRMING, THIRD_RULES, 47_000),
}


def compare(design: CohortDesign, rules: Sequence[GainRule], effort: Effort) -> list[CoverageCell]:
    """Return a cell per candidate and gain."""
    simulation = Simulation(design, NAMES, effort.seed)
    quantities = [Quantity("gains", name) for name in NAMES]
    truth = simulation.truth(quantities, effort)[0].tolist()
    code = np.repeat(np.arange(design.units), design.images)
    units = Units.of(design.unit, code, design.n_images)
    tallies: dict[tuple[str, str], Tally] = {}
    for name, of_name in zip(NAMES, truth):
        for rule in rules:
            tallies[rule.name, name] = Tally(of_name)
    total = effort.simulations + effort.extra
    for number, (evidence,) in enumerate(simulation.data_sets(total)):
        if number >= effort.simulations:
            values = simulation.values(evidence, quantities).tolist()
            for (_, name), tally in tallies.items():
                tally.add_value(values[NAMES.index(name)])
            continue
        certainty = Certainty(replicates=effort.replicates, seed=number)
        cases = list(zip(simulation.metrics, evidence))
        for case, sample in zip(cases, replicates(cases, units, certainty)):
            value = case[0].value(case[1], np.ones((1, design.n_images), np.int64))[0]
            columns = _columns(case, value, sample, units, certainty)
            for name, (column, _) in zip(case[0].facts.names, columns):
                for rule in rules:
                    low, high = bounds_of(rule, column, name)
                    tallies[rule.name, name].add(float(column.values[0]), low, high)
    cells = []
    for (rule_name, name), tally in tallies.items():
        # Where a mistake hardly ever occurs, there is nothing to estimate.
        if np.count_nonzero(tally.values) >= 0.3 * len(tally.values):
            cells.append(tally.cell(rule_name, name, design.name, units))
    return cells


def bounds_of(rule: GainRule, column: Column, name: str) -> tuple[float, float]:
    """Return the interval of the gain of all classes together."""
    assert column.replicates is not None
    entry = column.support[0]
    event = rule.cost(name) / (entry.n_trials or 1.0)
    own_reach = rule.reach_of(name)
    support = replace(entry, event=event, reach=own_reach or rule.reach)
    sample = BootstrapSample.of(
        column.values[:1], column.replicates[:, :1], NOMINAL, (0.0, 1.0), apart=True
    )
    form = making._form(sample, 0, support, "bootse-t-logit", True)
    if form not in ("few_errors", "few_costs", "method"):
        return making.NOWHERE
    x = sample.theta
    error = np.sqrt(support.n_units / max(support.df, 1)) * sample.sd
    error = np.hypot(error, np.sqrt(support.hidden))
    # A gain of 0 has no error either.
    number = float((x / np.maximum(error, few_errors.ROUNDING))[0] ** 2)
    if form == "few_errors" or number < rule.until:
        low, high = _few_errors(rule, sample, support, error)
        low = np.maximum(low - own_reach * np.maximum(sample.bias, 0.0), 0.0)
        high = high + own_reach * np.maximum(-sample.bias, 0.0)
    else:
        limits = sample.bounds_of("bootse-t-logit", [support], None, None)
        low, high = limits.low, limits.high
    highest = float(min(high[0], 1.0))
    is_few = support.n_error is not None and support.n_error < few_errors.NO_LONGER_FEW
    if is_few and making._has_whole_errors(support, float(x[0])):
        highest = max(highest, _highest(rule, (x, error), support))
    return float(low[0]), highest


def _few_errors(
    rule: GainRule, sample: BootstrapSample, support: Support, error: F64
) -> tuple[F64, F64]:
    """Return the form for few errors, as `intervals.few_errors_t` makes it."""
    effect = making.assumed_effect_of(replace(support, furthest=FURTHEST), sample.level)
    event = np.array([(support.event or 0.0) * effect])
    most = np.array([max(support.n_trials or 0.0, float(support.tried))])
    unknown = making._unknown_clustering(sample, [support])
    size = few_errors.event_size(sample.theta, error, (most, event), unknown)
    ratio = np.array([few_errors.t_for_z(max(support.df, 1), sample.level)])
    size = few_errors.widened(size, np.zeros(1), ratio)
    extra = _extra(rule, (event, event / effect), size, unknown)
    return form_bounds(rule.form, sample.theta, size, extra, sample.level)


def _extra(rule: GainRule, events: tuple[F64, F64], size: F64, unknown: F64) -> F64:
    """Return what one error more costs; ``events`` are with and without assumed clustering."""
    clustered, alone = events
    if rule.extra == "full":
        return clustered
    of_errors = alone if rule.extra == "fading" else size
    return np.asarray(unknown * clustered + (1 - unknown) * of_errors)


def form_bounds(form: str, x: F64, size: F64, event: F64, level: float) -> tuple[F64, F64]:
    """Return intervals of sums x of costs: one error costs ``size`` on average, one more
    ``event``.
    """
    if form == "mid-p":
        return few_errors.gamma(x, size, event, level)
    gammaincinv, tail = special().gammaincinv, (1 - level) / 2
    low = np.where(x > 0, gammaincinv(np.where(x > 0, x / size, 1.0), tail), 0.0)
    with_one = (x * size + event**2) / (x + event)
    high = with_one * gammaincinv((x + event) / with_one, 1 - tail)
    return np.minimum(size * low, x), np.maximum(high, x)


def _highest(rule: GainRule, total: tuple[F64, F64], support: Support) -> float:
    """Return the highest upper bound of such errors in fewer units."""
    n_error = np.array([min(support.n_error or 0, support.tried)])
    units = np.array([support.tried]), np.array([max(support.df, 1)])
    path = few_errors.ErrorPath.of(total, n_error, units, NOMINAL)
    x = (path.errors * path.cost)[:, 0]
    error = path.error[:, 0]
    effect = making.assumed_effect_of(replace(support, furthest=FURTHEST), NOMINAL)
    event = np.full(len(x), (support.event or 0.0) * effect)
    size = few_errors.event_size(x, error, (path.tried, event), path.unknown[:, 0])
    size = few_errors.widened(size, np.zeros(1), path.ratio)
    high = np.array(path._t_odds(path.errors * path.cost, 1.0)[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        number = np.where(error > 0, (x / error) ** 2, 0.0)
    few: Flags = path.on_bound[:, 0] | (number < rule.until)
    extra = _extra(rule, (event, event / effect), size, path.unknown[:, 0])
    high[few] = form_bounds(rule.form, x[few], size[few], extra[few], NOMINAL)[1]
    return float(np.minimum(high, 1.0).max())


def summary(cells: Sequence[CoverageCell], rules: Sequence[Candidate]) -> Iterator[str]:
    """Yield a line per candidate: numbers inside, below the gate and too wide."""
    for rule in rules:
        members = [cell for cell in cells if cell.family == rule.name]
        inside = sum(cell.inside for cell in members)
        below = sum(cell.coverage < LOWEST for cell in members)
        lowest = min(cell.coverage for cell in members)
        width = float(np.median([cell.width for cell in members]))
        yield (
            f"{rule.name:<56} {inside} of {len(members)} inside, {below} below .90, lowest "
            f"{lowest:.3f}, median width {width:.3f}"
        )


def chosen(cells: Sequence[CoverageCell], rules: Sequence[C]) -> C:
    """Return the candidate that the rule above chooses."""
    ranks = []
    for rule in rules:
        members = [cell for cell in cells if cell.family == rule.name]
        below = sum(cell.coverage < LOWEST for cell in members)
        inside = sum(cell.inside for cell in members)
        width = float(np.median([cell.width for cell in members]))
        ranks.append((below, -inside, width, rule))
    fewest = min(below for below, *_ in ranks)
    admitted = [rank for rank in ranks if rank[0] <= fewest + 1]
    return min(admitted, key=lambda rank: rank[1:3])[3]


if __name__ == "__main__":
    for part in sys.argv[1:] or ROUNDS:
        designs, candidates, seed = ROUNDS[part]
        of_part: list[CoverageCell] = []
        for one in designs:
            cells = compare(one, candidates, Effort(400, 300, 600, seed))
            of_part += cells
            outside = [cell for cell in cells if not cell.inside]
            sys.stdout.write("".join(f"{cell}\n" for cell in outside))
            sys.stdout.flush()
        for line in summary(of_part, candidates):
            sys.stdout.write(f"{part}: {line}\n")
        if part != "confirming":
            sys.stdout.write(f"chosen: {chosen(of_part, candidates).name}\n")
        sys.stdout.flush()
