# SPDX-License-Identifier: Apache-2.0
"""How often do tests of equal models claim a difference, and how often do they find a real one?

Simulated models find the objects of simulated patients. Patients differ in how difficult they are,
objects within a patient too, and both models meet the same ones. From hits and false alarms come
sensitivity, PPV and F1 of all patients. The tests are those of `calipers.statistics.comparison`,
called as the package calls them, and the alternatives that were considered:

two models
    the t of the interval (the default), the permutation, and the permutation with half of the
    weight of ties with the observed difference (mid-p). ``contradicts`` is the share of data sets
    in which a test and the interval disagree on whether there is a difference.
several models
    the leader of the data against the others with Holm over these; all pairs with Holm; all pairs
    with `max_t` (the default). Claims are false where both models are equal: their share of data
    sets with one or more is the family-wise error. Power is the share of the pairs with the one
    better model that are found.

Run it with: python benchmarks/comparison_errors.py --data-sets 1000
It prints two tables; docs/explanation/comparison.md has those of the last run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.statistics.comparison import adjusted, bootstrap_p, max_t, permutation_p

F64 = NDArray[np.float64]
LEVEL = 0.05
EXACT = 10  # patients up to which all trades are made
TRADES = 1000
EPS = 1e-12


@dataclass(frozen=True)
class Design:
    """Cohorts of one kind: how many patients and objects, and how good the models are."""

    metrics: tuple[str, ...]
    patients: int
    objects: float  # per patient, on average
    skill: float  # an object of average difficulty is found with the chance Phi(skill)
    alarms: float  # per patient
    models: int = 2
    gain: float = 0.7  # of the better model, where there is one

    @property
    def name(self) -> str:
        """``sensitivity, 20 patients x 1.3 objects``."""
        names = "+".join(self.metrics)
        return f"{names}, {self.patients} patients x {self.objects:g}, skill {self.skill:g}"


@dataclass(frozen=True)
class Counts:
    """Hits and false alarms (patients, models) and objects (patients,)."""

    hits: F64
    alarms: F64
    objects: F64


PAIRS = (
    Design(("sensitivity",), 8, 1.3, 1.0, 0.3),
    Design(("sensitivity",), 20, 1.3, 1.0, 0.3),
    Design(("sensitivity",), 20, 1.3, 1.8, 0.3),
    Design(("sensitivity",), 50, 1.3, 1.8, 0.3),
    Design(("sensitivity",), 8, 4.0, 0.5, 0.5),
    Design(("sensitivity",), 20, 4.0, 0.5, 0.5),
    Design(("F1",), 8, 2.0, 0.5, 0.5),
    Design(("F1",), 20, 2.0, 0.5, 0.5),
    Design(("PPV",), 20, 2.0, 0.5, 0.6),
)
FAMILIES = (
    Design(("sensitivity",), 20, 2.0, 0.8, 0.4, models=5, gain=0.8),
    Design(("sensitivity",), 50, 1.3, 0.8, 0.4, models=5, gain=0.6),
    Design(("sensitivity",), 50, 1.3, 0.8, 0.4, models=10, gain=0.6),
    Design(("sensitivity", "F1", "PPV"), 8, 3.0, 0.8, 0.6, models=5, gain=1.2),
    Design(("sensitivity", "F1", "PPV"), 20, 2.0, 0.8, 0.4, models=5, gain=0.8),
    Design(("F1",), 50, 2.0, 0.5, 0.5, models=10, gain=0.6),
)


def simulated(random: np.random.Generator, design: Design, gain: float) -> Counts:
    """Return a cohort; the first model is better by ``gain``, the others are equal."""
    k, m = design.patients, design.models
    objects = 1 + random.poisson(design.objects - 1.0, k)
    patient = np.repeat(np.arange(k), objects)
    # Half of the difficulty of an object is the same for all models, half is their own.
    shared = random.normal(0.0, 0.7, k)[patient] + random.normal(0.0, 0.5**0.5, len(patient))
    own = random.normal(0.0, 0.28, (k, m))
    skill = np.full(m, design.skill)
    skill[0] += gain
    noise = random.normal(0.0, 0.5**0.5, (len(patient), m))
    found = skill + shared[:, None] + own[patient] + noise > 0.0
    hits = np.zeros((k, m))
    np.add.at(hits, patient, found)
    rate = np.full(m, design.alarms)
    rate[0] *= np.exp(-gain / 2.0)
    alarms = random.poisson(rate * np.exp(-0.3 * own)).astype(np.float64)
    return Counts(hits, alarms, objects.astype(np.float64))


def value(metric: str, hits: F64, alarms: F64, objects: F64) -> F64:
    """Return a metric from sums over patients; 0 where it is undefined."""
    below = {
        "sensitivity": objects + 0.0 * hits,
        "PPV": hits + alarms,
        "F1": (hits + alarms + objects) / 2.0,
    }[metric]
    return np.divide(hits, below, out=np.zeros_like(hits), where=below > 0.0)


def values(counts: Counts, metrics: tuple[str, ...], weights: F64) -> F64:
    """Return (R, metrics, models) under weights (R, patients)."""
    sums = weights @ counts.hits, weights @ counts.alarms, (weights @ counts.objects)[:, None]
    return np.stack([value(metric, *sums) for metric in metrics], axis=1)


def replicates_of(
    random: np.random.Generator, counts: Counts, metrics: tuple[str, ...], number: int
) -> tuple[F64, F64]:
    """Return values (metrics, models) and bootstrap replicates (B, metrics, models)."""
    k = len(counts.objects)
    weights = random.multinomial(k, np.full(k, 1.0 / k), number).astype(np.float64)
    return values(counts, metrics, np.ones((1, k)))[0], values(counts, metrics, weights)


def after_trades(random: np.random.Generator, counts: Counts, metric: str) -> F64:
    """Return differences (T,) after trades of patients between two models."""
    k = len(counts.objects)
    if k <= EXACT:
        trades = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    else:
        trades = random.integers(0, 2, (TRADES, k))
    one, other = 1.0 - trades, trades.astype(np.float64)
    total = np.full(len(trades), counts.objects.sum())
    sides = []
    for own, others in ((one, other), (other, one)):
        hits = own @ counts.hits[:, 0] + others @ counts.hits[:, 1]
        alarms = own @ counts.alarms[:, 0] + others @ counts.alarms[:, 1]
        sides.append(value(metric, hits, alarms, total))
    return sides[0] - sides[1]


def pair_tests(
    random: np.random.Generator, design: Design, counts: Counts, number: int
) -> list[bool]:
    """Return whether t, permutation and mid-p find a difference."""
    theta, replicates = replicates_of(random, counts, design.metrics, number)
    d, d_replicates = theta[:, 0] - theta[:, 1], replicates[:, :, 0] - replicates[:, :, 1]
    trades = after_trades(random, counts, design.metrics[0])
    exact = design.patients <= EXACT
    permuted = float(permutation_p(d, trades[:, None], exact=exact)[0])
    ties = float((np.abs(np.abs(trades) - np.abs(d)) <= EPS).sum() + (not exact))
    p = float(bootstrap_p(d, d_replicates, design.patients)[0])
    mid_p = permuted - 0.5 * ties / (len(trades) + (not exact))
    return [p < LEVEL, permuted < LEVEL, mid_p < LEVEL]


def family_tests(
    random: np.random.Generator, design: Design, counts: Counts, number: int
) -> tuple[dict[str, NDArray[np.bool_]], NDArray[np.bool_]]:
    """Return which of all tests each procedure rejects, and which pairs have the first model."""
    theta, replicates = replicates_of(random, counts, design.metrics, number)
    i, j = np.triu_indices(design.models, k=1)
    d = (theta[:, i] - theta[:, j]).ravel()
    d_replicates = (replicates[:, :, i] - replicates[:, :, j]).reshape(number, -1)
    p = bootstrap_p(d, d_replicates, design.patients)
    leader = int(np.argmax(theta[0]))
    n_metrics = len(design.metrics)
    of_leader = np.tile((i == leader) | (j == leader), n_metrics)
    rejected = {
        "leader": of_leader & (adjusted(np.where(of_leader, p, np.nan))[0] < LEVEL),
        "holm": adjusted(p)[0] < LEVEL,
        "max-t": max_t(d, d_replicates, design.patients) < LEVEL,
    }
    return rejected, np.tile(i == 0, n_metrics)


def pair_rows(data_sets: int, number: int, seed: int) -> Iterator[str]:
    """Yield a line per design: errors, power and contradictions of the three tests."""
    yield "| design | error t / permutation / mid-p | power | contradicts the interval |"
    yield "|---|---|---|---|"
    for at, design in enumerate(PAIRS):
        shares = []
        against = np.zeros(3)
        for gain in (0.0, design.gain):
            random = np.random.default_rng([seed, at, int(10 * gain)])
            found = []
            for _ in range(data_sets):
                counts = simulated(random, design, gain)
                found.append(pair_tests(random, design, counts, number))
            table = np.array(found)
            shares.append(table.mean(axis=0))
            against += (table != table[:, :1]).mean(axis=0) / 2.0
        cells = [_cell(numbers) for numbers in (*shares, against)]
        yield f"| {design.name} | {' | '.join(cells)} |"


def family_rows(data_sets: int, number: int, seed: int) -> Iterator[str]:
    """Yield a line per design: family-wise error and power of the three procedures."""
    yield "| design | models | error leader / Holm / max-t | with one better | power |"
    yield "|---|---|---|---|---|"
    names = ("leader", "holm", "max-t")
    for at, design in enumerate(FAMILIES):
        false_claims: list[list[float]] = []
        power: list[float] = []
        for gain in (0.0, design.gain):
            random = np.random.default_rng([seed, 100 + at, int(10 * gain)])
            false, hits = [], []
            for _ in range(data_sets):
                counts = simulated(random, design, gain)
                rejected, with_first = family_tests(random, design, counts, number)
                equal = ~with_first if gain else np.ones_like(with_first)
                false.append([bool((rejected[name] & equal).any()) for name in names])
                hits.append([float(rejected[name][with_first].mean()) for name in names])
            false_claims.append(np.mean(false, axis=0).tolist())
            power = np.mean(hits, axis=0).tolist()
        cells = [_cell(numbers) for numbers in (*false_claims, power)]
        yield f"| {design.name} | {design.models} | {' | '.join(cells)} |"


def _cell(shares: F64 | list[float]) -> str:
    return " / ".join(f"{share:.3f}".removeprefix("0") for share in shares)


def main(show: Callable[[str], None] = print) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-sets", type=int, default=1000, help="of every design and cell")
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    chosen = (options.data_sets, options.replicates, options.seed)
    for line in pair_rows(*chosen):
        show(line)
    show("")
    for line in family_rows(*chosen):
        show(line)


if __name__ == "__main__":
    main()
