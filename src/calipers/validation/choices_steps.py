# SPDX-License-Identifier: Apache-2.0
"""How the standard error of differences in AP was chosen: metrics whose values move in steps.

AP at fixed recalls moves in steps of about precision / 101 when the last hit crosses one of them.
Leaving out one of many units makes such a step or none, and the jackknife takes it for spread: two
equal models with AP@0.5 above .9 and 100 or 180 images had intervals of 1.3 and 1.7 true widths,
of which no two were alike. The bootstrap moves many units at once and hardly sees the steps, but is
too narrow there. Of ten equal models with 22 units one was called better in .090 of the data sets.

Candidates for the standard error, all with effective degrees of freedom (`comparison.freedom_of`):

``bootstrap``, ``jackknife``, ``both``
    as in `choices_families`: the jackknife is the rule so far; both is their root mean square;
``capped``, ``clipped``
    that of the jackknife, but at most 1.1 or 1.2 times that of the bootstrap; clipped is at least
    that of the bootstrap, too;
``groups``
    that of a jackknife that leaves out one of 20 or 30 random groups of units, which moves by more
    than a step: of one partition, or the root mean square over as many as cost what the jackknife
    of single units costs (*averaged*);
``smooth``, ``scaled``
    that of the jackknife for the area under every point of the same curve, which has no steps; or
    that of the bootstrap, times the ratio of both for that area;
``infinitesimal``
    from the covariances of replicates with how often a unit was drawn, less their noise.

How the choice is made, written before anything was measured. `DATA_SETS` data sets of every design
of `CHOOSING`, with five equal models, are looked at in AP@0.5 and AP. A candidate stays in if

1. of the ten pairs of models at most `MOST_ON_AVERAGE` have p < .05, on average over the designs
   for each metric, and at most `MOST` in any design;
2. the same holds for the families of these ten pairs (max-t);
3. the mean interval has at most `WIDEST` true widths in every design (2.5 % to 97.5 % of the
   differences of all data sets and pairs);
4. the widths vary, as a standard deviation in shares of their mean, at most `UNEVEN` times as much
   as those of the bootstrap's standard error, on average over the designs for each metric.

Of these the one is chosen that calls the better model so in most of its pairs, on average over the
designs of `FINDING`. If several are within `ALIKE` of it, the first in the order above. If none
stays in, that which breaks the fewest of the eight conditions (four for each metric), and of these
the one with the smallest width on average, provided that it breaks fewer than the rule so far.

Second, with that standard error: from how many units on max-t may use the dependence of the tests,
with fewer it adjusts as Holm does. Of `FROM_UNITS` the smallest number is chosen with which the
families of five and ten equal models in the designs of `FEW`, which have 20 to 36 units, claim
something in at most `MOST_ON_AVERAGE` on average for each metric, and at most `MOST` in any; if
there is none, the largest.

`CONFIRMING` and `CONFIRMING_FEW` are measured once, afterwards, with the rule so far and the rule
that was chosen. The new rule stays if it breaks no condition there that the rule so far keeps.

Seven candidates broke no condition: both, clipped (2), averaged groups (2), smooth and scaled;
the rule so far has widths that are too uneven, the bootstrap claims too much in AP over thresholds.
*Both* was chosen: it finds .047 of the pairs with the better model, the rule so far .043, and its
intervals have 1.13 true widths at most, where the rule so far has 1.35. Max-t stays joint from 20
units on. Confirming, both breaks no condition, and the rule so far has uneven widths again. Of ten
equal models with 22 units one is called better in AP in .059 and .029 of the data sets, with the
rule so far in .049 and .035: the .090 above was partly chance.

``python -m calipers.validation.choices_steps`` prints all parts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from calipers.arrays import F64
from calipers.statistics.comparison import (
    Evidences,
    _error,
    bootstrapped,
    freedom_of,
    step_down,
    unit_effects,
)
from calipers.statistics.few_errors import special
from calipers.statistics.weights import Units, Weights, jackknife
from calipers.validation.designs import CohortDesign
from calipers.validation.objects import Simulation

TWINS = {"AP@0.5": "area@0.5", "AP": "area"}
SMOOTH = ("sensitivity", "F1")
DATA_SETS, REPLICATES, FURTHER = 800, 400, 300  # FURTHER: data sets with a better model
MOST_ON_AVERAGE, MOST, ALIKE = 0.055, 0.08, 0.01
WIDEST, UNEVEN, LEVEL = 1.5, 1.2, 0.05
FROM_UNITS = (20, 25, 30, 40)
Kind = Literal[
    "bootstrap",
    "capped",
    "clipped",
    "groups",
    "averaged groups",
    "both",
    "jackknife",
    "smooth",
    "scaled",
    "infinitesimal",
]


@dataclass(frozen=True)
class ErrorRule:
    """One candidate for the standard error."""

    kind: Kind
    number: float = 0.0  # of groups, or the largest ratio to the bootstrap's

    @property
    def name(self) -> str:
        """The candidate in a line of the comparison."""
        return f"{self.kind} {self.number:g}" if self.number else self.kind


SO_FAR = ErrorRule("jackknife")
CANDIDATES = (
    ErrorRule("bootstrap"),
    SO_FAR,
    ErrorRule("both"),
    ErrorRule("capped", 1.1),
    ErrorRule("capped", 1.2),
    ErrorRule("clipped", 1.1),
    ErrorRule("clipped", 1.2),
    ErrorRule("groups", 20),
    ErrorRule("groups", 30),
    ErrorRule("averaged groups", 20),
    ErrorRule("averaged groups", 30),
    ErrorRule("smooth"),
    ErrorRule("scaled"),
    ErrorRule("infinitesimal"),
)


def _images(name: str, units: int, images: int, *parts: float) -> CohortDesign:
    """Return a design of five models with the parts: sensitivity, false alarms and likeness."""
    sensitivity, alarms, likeness = parts
    return CohortDesign(
        name,
        units,
        images,
        always=True,
        sensitivity=sensitivity,
        alarms=alarms,
        likeness=likeness,
        loose=0.01,
        models=5,
    )


def _few(name: str, units: int, images: int, *parts: float) -> CohortDesign:
    design = _images(name, units, images, *parts)
    return replace(design, models=10, separation=1.5, loose=0.05, doubled=0.03)


CHOOSING = (
    _images("60 x 1, AP .93", 60, 1, 0.96, 0.1, 0.0),
    _images("100 x 1, AP .95", 100, 1, 0.97, 0.06, 0.0),
    replace(_images("150 x 1, latent, AP .92", 150, 1, 0.95, 0.1, 0.0), generator="latent"),
    _images("180 x 1, AP .97", 180, 1, 0.985, 0.05, 0.0),
    _images("50 x 3, AP .93", 50, 3, 0.96, 0.12, 0.2),
    replace(
        _images("110 x 1, AP .7", 110, 1, 0.8, 0.4, 0.0), separation=1.5, loose=0.05, doubled=0.03
    ),
    replace(_images("140 x 1, two classes", 140, 1, 0.95, 0.15, 0.0), prevalence=(0.7, 0.3)),
)
FINDING = tuple(replace(CHOOSING[at], gain=0.8) for at in (0, 1, 2, 3, 5))
FEW = (
    _few("20 x 5", 20, 5, 0.8, 0.4, 0.2),
    _few("24 x 3, good", 24, 3, 0.93, 0.15, 0.2),
    replace(_few("28 x 4, latent", 28, 4, 0.75, 0.5, 0.3), generator="latent"),
    replace(_few("36 x 2, two classes", 36, 2, 0.8, 0.4, 0.2), prevalence=(0.6, 0.4)),
)
CONFIRMING = (
    _images("80 x 1, AP .96", 80, 1, 0.98, 0.06, 0.0),
    replace(_images("130 x 1, latent, AP .95", 130, 1, 0.97, 0.06, 0.0), generator="latent"),
    _images("180 x 1, AP .93", 180, 1, 0.96, 0.1, 0.0),
    _images("70 x 2, AP .91", 70, 2, 0.95, 0.15, 0.15),
    replace(_images("90 x 1, AP .6", 90, 1, 0.7, 0.5, 0.0), separation=1.2, loose=0.05),
)
CONFIRMING_FEW = (
    _few("22 x 5", 22, 5, 0.85, 0.3, 0.15),
    _few("22 x 3, good", 22, 3, 0.95, 0.12, 0.1),
    replace(_few("30 x 3, latent", 30, 3, 0.8, 0.4, 0.25), generator="latent"),
    _few("30 x 5, good", 30, 5, 0.94, 0.15, 0.2),
)
SEED, FINDING_SEED, FEW_SEED, CONFIRMING_SEED = 61_000, 64_500, 66_000, 73_000


@dataclass(frozen=True)
class SteppedSample:
    """Values of all models in one data set, of one metric and of its smooth twin."""

    values: F64  # (models,)
    replicates: F64  # (B, models)
    left_out: F64  # (K, models) without each unit
    grouped: dict[int, list[F64]]  # by number of groups, (groups, models) of every partition
    of_units: F64  # (K, models) influences
    twin: tuple[F64, F64]  # replicates and values without each unit, of the smooth twin

    def of_pairs(self, size: int) -> SteppedSample:
        """Return the same of the differences of all pairs of the first models."""
        i, j = np.triu_indices(size, k=1)
        grouped = {}
        for number, partitions in self.grouped.items():
            grouped[number] = [values[:, i] - values[:, j] for values in partitions]
        return SteppedSample(
            self.values[i] - self.values[j],
            self.replicates[:, i] - self.replicates[:, j],
            self.left_out[:, i] - self.left_out[:, j],
            grouped,
            self.of_units[:, i] - self.of_units[:, j],
            (self.twin[0][:, i] - self.twin[0][:, j], self.twin[1][:, i] - self.twin[1][:, j]),
        )


def units_of(design: CohortDesign) -> Units:
    """Return the units of a data set."""
    code = np.repeat(np.arange(design.units), design.images)
    return Units.of(design.unit, code, design.n_images)


def partitions(units: Units, number: int, seed: int) -> list[Weights]:
    """Return, per random partition into groups, weights that leave out one group each: as many
    partitions as there are units for every group.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, number]))
    groups = min(number, units.number)
    result = []
    for _ in range(-(-units.number // groups)):
        group = rng.permutation(np.arange(units.number) % groups)[units.outer_code]
        result.append((group[None, :] != np.arange(groups)[:, None]).astype(np.uint8))
    return result


def samples(
    design: CohortDesign, names: Sequence[str], number: int, seed: int
) -> Iterator[list[SteppedSample]]:
    """Yield, per data set, a sample for every metric."""
    twins = [TWINS.get(name, name) for name in names]
    simulation = Simulation(design, [*names, *twins], seed)
    units = units_of(design)
    single = np.concatenate(list(jackknife(units)))
    of_number = {groups: partitions(units, groups, seed) for groups in (20, 30)}
    once = np.ones((1, design.n_images), np.uint8)
    for at, models in enumerate(simulation.data_sets(number, design.model_names)):
        tables: list[Evidences] = []
        for evidence in models:
            tables.append({m.recipe.key: e for m, e in zip(simulation.metrics, evidence)})
        resampled = bootstrapped(simulation.metrics, tables, units, REPLICATES, at)

        def values(name: str, weights: Weights, models: list[list[object]] = models) -> F64:
            m, place = simulation.place[name]
            metric = simulation.metrics[m]
            columns = [metric.value(e[m], weights)[:, 0, place] for e in models]
            return np.stack(columns, axis=1)

        def drawn(name: str, resampled: list[list[F64]] = resampled) -> F64:
            m, place = simulation.place[name]
            return np.stack([of_model[m][:, 0, place] for of_model in resampled], axis=1)

        of_metrics = []
        for name, twin in zip(names, twins):
            grouped = {}
            for groups, parts in of_number.items():
                grouped[groups] = [values(name, weights) for weights in parts]
            of_metrics.append(
                SteppedSample(
                    values(name, once)[0],
                    drawn(name),
                    values(name, single),
                    grouped,
                    unit_effects(drawn(name), units, at),
                    (drawn(twin), values(twin, single)),
                )
            )
        yield of_metrics


def of_left_out(values: F64) -> F64:
    """Return the standard errors (m,) of the jackknife from values (groups, m)."""
    n = len(values)
    squares = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(squares * (n - 1) / n))


def error_of(pairs: SteppedSample, units: Units, rule: ErrorRule) -> F64:
    """Return the standard errors (m,) of differences by a candidate."""
    boot = _error(pairs.values, pairs.replicates, units.number, units.freedom)
    single = of_left_out(pairs.left_out)
    if rule.kind == "jackknife":
        return single
    if rule.kind == "both":
        return np.asarray(np.sqrt((boot**2 + single**2) / 2.0))
    if rule.kind in ("capped", "clipped"):
        capped = np.minimum(single, rule.number * boot)
        return np.maximum(capped, boot) if rule.kind == "clipped" else capped
    if rule.kind in ("groups", "averaged groups"):
        parts = pairs.grouped[int(rule.number)]
        parts = parts[:1] if rule.kind == "groups" else parts
        squares = np.mean([of_left_out(values) ** 2 for values in parts], axis=0)
        return np.asarray(np.sqrt(squares))
    if rule.kind in ("smooth", "scaled"):
        of_twin = of_left_out(pairs.twin[1])
        if rule.kind == "smooth":
            return of_twin
        beside = _error(pairs.values, pairs.twin[0], units.number, units.freedom)
        ratio = np.divide(of_twin, beside, out=np.ones_like(boot), where=beside > 0.0)
        return np.asarray(boot * ratio)
    if rule.kind == "infinitesimal":
        k = units.number
        noise = k * pairs.replicates.var(axis=0) / len(pairs.replicates)
        squares = (pairs.of_units**2).sum(axis=0) / k**2 - noise
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) * k / (k - 1)))
    return boot


@dataclass(frozen=True)
class PairTests:
    """What a candidate says of all pairs of some models in one data set."""

    p: F64
    reach: F64  # half of the width of each interval
    steps: F64
    freedom: F64


def tested(pairs: SteppedSample, units: Units, rule: ErrorRule) -> PairTests:
    """Return the tests of differences by a candidate."""
    error = error_of(pairs, units, rule)
    freedom = freedom_of(pairs.of_units, error, units)
    d = pairs.values
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.where(error > 0.0, d / error, np.sign(d) * np.inf)
    steps = np.where(d == 0.0, 0.0, steps)
    p = np.clip(2.0 * special().stdtr(freedom, -np.abs(steps)), 2.0**-units.number, 1.0)
    reach = error * -special().stdtrit(freedom, LEVEL / 2.0)
    return PairTests(p, np.asarray(reach), steps, freedom)


def corrected(pairs: SteppedSample, tests: PairTests, units: Units, from_units: int) -> F64:
    """Return the corrected p values (m,): max-t from so many units on, else Holm."""
    if float(tests.p.min()) >= LEVEL:
        return tests.p  # correction makes none smaller
    # Below `comparison.JOINT_UNITS` the correction is that of Holm.
    joint = units.freedom if units.number >= from_units else 1
    return step_down(
        tests.p,
        tests.steps,
        lambda k: pairs.replicates[:, k],
        joint,
        effective=tests.freedom,
    )


@dataclass
class Findings:
    """What one candidate did in one design, for one metric and number of models."""

    alone: float = 0.0  # share of the pairs with p < .05
    family: float = 0.0  # share of the data sets with a claim
    right: float = 0.0  # share of the pairs with the better model that are called so
    width: float = 0.0  # mean width in true widths
    uneven: float = 0.0  # standard deviation of the widths over their mean

    def __str__(self) -> str:
        return (
            f"single {self.alone:.3f}  family {self.family:.3f}  right {self.right:.3f}  "
            f"width {self.width:.2f}  uneven {self.uneven:.2f}"
        )


Case = tuple[str, int]  # metric and number of models
Table = dict[Case, list[Findings]]  # by case, for every candidate


def measured(
    design: CohortDesign,
    cases: Sequence[Case],
    rules: Sequence[tuple[ErrorRule, int]],
    number: int,
    seed: int,
) -> Table:
    """Return what rules (standard error, units from which on max-t is joint) do in a design."""
    units = units_of(design)
    names = list(dict.fromkeys(name for name, _ in cases))
    table: Table = {}
    for case in cases:
        table[case] = [Findings() for _ in rules]
    reaches: dict[tuple[Case, int], list[F64]] = {
        key: [] for key in product(cases, range(len(rules)))
    }
    differences: dict[Case, list[F64]] = {case: [] for case in cases}
    for of_metrics in samples(design, names, number, seed):
        for case in cases:
            pairs = of_metrics[names.index(case[0])].of_pairs(case[1])
            i, j = np.triu_indices(case[1], k=1)
            differences[case].append(pairs.values)
            for at, (rule, from_units) in enumerate(rules):
                tests = tested(pairs, units, rule)
                reaches[case, at].append(tests.reach)
                signs = np.sign(pairs.values)
                signs *= corrected(pairs, tests, units, from_units) < LEVEL
                row = table[case][at]
                row.alone += float((tests.p < LEVEL).mean()) / number
                row.family += bool(signs.any()) / number
                right = np.where(i == 1, signs > 0, signs < 0)[(i == 1) | (j == 1)]
                row.right += float(right.mean()) / number
    for (case, at), parts in reaches.items():
        width = 2.0 * np.concatenate(parts)
        # All models are equal: a difference is as likely as its opposite.
        spread = np.concatenate(differences[case])
        bottom, top = np.quantile([*spread, *-spread], [LEVEL / 2, 1 - LEVEL / 2])
        table[case][at].width = float(width.mean() / (top - bottom))
        table[case][at].uneven = float(width.std() / width.mean())
    return table


def broken(tables: Sequence[Table], cases: Sequence[Case], at: int, plain: int) -> list[str]:
    """Return the conditions that a candidate breaks; ``plain`` is the bootstrap's place."""
    result = []
    for case in cases:
        rows = [table[case][at] for table in tables]
        beside = [table[case][plain] for table in tables]
        single, family = [row.alone for row in rows], [row.family for row in rows]
        if float(np.mean(single)) > MOST_ON_AVERAGE or max(single) > MOST:
            result.append(f"{case[0]}: single tests")
        if float(np.mean(family)) > MOST_ON_AVERAGE or max(family) > MOST:
            result.append(f"{case[0]}: families")
        if max(row.width for row in rows) > WIDEST:
            result.append(f"{case[0]}: width")
        uneven = float(np.mean([row.uneven for row in rows]))
        if uneven > UNEVEN * float(np.mean([row.uneven for row in beside])):
            result.append(f"{case[0]}: uneven widths")
    return result


STEPPED: tuple[Case, ...] = (("AP@0.5", 5), ("AP", 5))
FAMILIES: tuple[Case, ...] = tuple(product(("AP@0.5", *SMOOTH), (5, 10)))


def chosen_error(tables: Sequence[Table], power: Sequence[float]) -> ErrorRule:
    """Return the standard error that the rule at the top of this file chooses."""
    plain = CANDIDATES.index(ErrorRule("bootstrap"))
    numbers = [len(broken(tables, STEPPED, at, plain)) for at in range(len(CANDIDATES))]
    left = [at for at, number in enumerate(numbers) if number == 0]
    if left:
        most = max(power[at] for at in left)
        return CANDIDATES[next(at for at in left if power[at] >= most - ALIKE)]
    if min(numbers) >= numbers[CANDIDATES.index(SO_FAR)]:
        return SO_FAR
    widths = []
    for at in range(len(CANDIDATES)):
        rows = [table[case][at].width for table, case in product(tables, STEPPED)]
        widths.append(float(np.mean(rows)))
    fewest = [at for at, number in enumerate(numbers) if number == min(numbers)]
    return CANDIDATES[min(fewest, key=lambda at: widths[at])]


def chosen_number(tables: Sequence[Table]) -> int:
    """Return from how many units on max-t may use the dependence of the tests."""
    for at, number in enumerate(FROM_UNITS):
        shares: dict[str, list[float]] = {name: [] for name, _ in FAMILIES}
        for table, case in product(tables, FAMILIES):
            shares[case[0]].append(table[case][at].family)
        average = max(float(np.mean(column)) for column in shares.values())
        if average <= MOST_ON_AVERAGE and max(map(max, shares.values())) <= MOST:
            return number
    return FROM_UNITS[-1]


def main() -> int:
    """Print what every candidate does, the choices, and the check."""
    by_error = [(rule, 20) for rule in CANDIDATES]
    tables = []
    for design in CHOOSING:
        tables.append(measured(design, STEPPED, by_error, DATA_SETS, SEED))
        _print(design, tables[-1], by_error)
    power = np.zeros(len(CANDIDATES))
    for design in FINDING:
        table = measured(design, STEPPED, by_error, FURTHER, FINDING_SEED)
        for case in STEPPED:
            power += [row.right / len(FINDING) / len(STEPPED) for row in table[case]]
    plain = CANDIDATES.index(ErrorRule("bootstrap"))
    for at, rule in enumerate(CANDIDATES):
        problems = ", ".join(broken(tables, STEPPED, at, plain))
        sys.stdout.write(f"finds {power[at]:.3f}  {rule.name:<20} breaks: {problems or 'none'}\n")
    best = chosen_error(tables, power.tolist())
    sys.stdout.write(f"chosen: {best.name}\n")
    by_number = [(best, number) for number in FROM_UNITS]
    few = []
    for design in FEW:
        few.append(measured(design, FAMILIES, by_number, DATA_SETS, FEW_SEED))
        _print(design, few[-1], by_number)
    number = chosen_number(few)
    sys.stdout.write(f"chosen: joint from {number} units on\n")
    last = [(ErrorRule("bootstrap"), 20), (SO_FAR, 20), (best, number)]
    tables = []
    for design in CONFIRMING:
        tables.append(measured(design, STEPPED, last, DATA_SETS, CONFIRMING_SEED))
        _print(design, tables[-1], last)
    for at in range(1, len(last)):
        problems = ", ".join(broken(tables, STEPPED, at, 0))
        sys.stdout.write(f"confirming: {last[at][0].name:<20} breaks: {problems or 'none'}\n")
    for design in CONFIRMING_FEW:
        _print(design, measured(design, FAMILIES, last[1:], DATA_SETS, CONFIRMING_SEED), last[1:])
    return 0


def _print(design: CohortDesign, table: Table, rules: Sequence[tuple[ErrorRule, int]]) -> None:
    for (name, size), rows in table.items():
        for (rule, number), row in zip(rules, rows):
            line = f"{design.name:<24} {size:>3} {name:<11} {row}  {rule.name}, from {number}"
            sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
