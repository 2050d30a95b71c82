"""Every number of `stability` again, by loops over single instances, from the definitions alone."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import calipers as cal
from seeds import looped, looped_seeds

NAN = math.nan
ROUNDS = 120


def ratio(a: float, b: float) -> float:
    return a / b if b else NAN


def binary(x: np.ndarray, y: np.ndarray, name: str) -> float:
    """Return one score of two lists of calls; NaN for 0/0."""
    n11 = sum(1 for a, b in zip(x, y) if a and b)
    n10 = sum(1 for a, b in zip(x, y) if a and not b)
    n01 = sum(1 for a, b in zip(x, y) if b and not a)
    n = len(x)
    n00 = n - n11 - n10 - n01
    a, b = n11 + n10, n11 + n01
    e11, e00 = a * b / n, (n - a) * (n - b) / n
    if name == "PJ":
        return ratio(n11, n01 + n10 + n11)
    if name == "PO":
        return NAN if min(a, b) == 0 else ratio(n11, min(n10, n01) + n11)
    if name == "APO":
        return NAN if min(a, b) == 0 or max(a, b) == n else (n11 - e11) / (min(a, b) - e11)
    if name == "HAPJ":
        least = max(a + b - n, 0)
        return NAN if n11 == n or n00 == n else ratio(n11 - least, n01 + n10 + n11 - least)
    if name == "APJ":
        return NAN if n11 == n or n00 == n else ratio(n11 - e11, n10 + n01 + n11 - e11)
    if name == "AJ":
        return NAN if n11 == n or n00 == n else ratio(n11 + n00 - e11 - e00, n - e11 - e00)
    if name == "TAR":
        return (n11 + n00) / n
    if name == "PAR":
        return ratio(2 * n11, 2 * n11 + n01 + n10)
    if name == "NAR":
        return ratio(2 * n00, 2 * n00 + n01 + n10)
    if name == "PABAK":
        return 2 * (n11 + n00) / n - 1
    if name == "AC1":
        q = (a + b) / (2 * n)
        return ((n11 + n00) / n - 2 * q * (1 - q)) / (1 - 2 * q * (1 - q))
    if name == "PAR-NAR":
        return binary(x, y, "PAR") - binary(x, y, "NAR")
    if name == "prevalence-index":
        return (n11 - n00) / n
    if name == "bias-index":
        return abs(n10 - n01) / n
    assert name == "positive_share"
    return n11 / n


def ranks(x: np.ndarray) -> list[float]:
    return [sum(1 for w in x if w < v) + (sum(1 for w in x if w == v) + 1) / 2 for v in x]


def pearson(x: Any, y: Any) -> float:
    if len(set(x)) == 1 or len(set(y)) == 1:
        return NAN
    mx, my = math.fsum(x) / len(x), math.fsum(y) / len(y)
    up = math.fsum((a - mx) * (b - my) for a, b in zip(x, y))
    return up / math.sqrt(math.fsum((a - mx) ** 2 for a in x) * math.fsum((b - my) ** 2 for b in y))


def kendall(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    s, tx, ty, pairs = 0.0, 0, 0, 0
    for i, j in itertools.combinations(range(len(x)), 2):
        pairs += 1
        s += np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])
        tx, ty = tx + (x[i] == x[j]), ty + (y[i] == y[j])
    root = math.sqrt((pairs - tx) * (pairs - ty))
    return ratio(s, root), ratio(s, pairs)


def pair_value(
    x: np.ndarray, y: np.ndarray, name: str, threshold: float, undefined: str = "skip"
) -> float:
    if name == "Pearson":
        return pearson(x.tolist(), y.tolist())
    if name == "Spearman":
        return pearson(ranks(x), ranks(y))
    if name in ("Kendall-b", "Kendall-a"):
        return kendall(x, y)[name == "Kendall-a"]
    a, b = (x >= threshold, y >= threshold) if threshold else (x > 0, y > 0)
    found = binary(a, b, name)
    if math.isnan(found) and undefined != "skip" and (a == b).all() and len(set(a)) == 1:
        return 1.0 if undefined == "one" or a[0] else 0.0
    return found


def mean(values: Any) -> float:
    known = [v for v in values if not math.isnan(v)]
    return math.fsum(known) / len(known) if known else NAN


def random_bags(rng: np.random.Generator) -> list[np.ndarray]:
    k, kind = int(rng.integers(2, 5)), int(rng.integers(0, 6))
    bags = []
    for _ in range(int(rng.integers(1, 6))):
        n = int(rng.integers(1, 12))
        values = rng.random((k, n))
        if kind == 1:
            values = rng.integers(0, 2, (k, n)).astype(float)
        elif kind == 2:
            values = rng.integers(0, 11, (k, n)) / 10  # thresholds of the sweep are attained
        elif kind == 3:
            values[:] = rng.choice([0.0, 0.5, 1.0])
        elif kind == 4:
            values[rng.integers(0, k)] = rng.choice([0.0, 0.3, 1.0])  # one model is constant
        elif kind == 5:
            values = np.repeat(values[:1], k, axis=0)
        bags.append(values)
    return bags


BINARY = (
    *("PJ", "PO", "APO", "HAPJ", "APJ", "AJ", "TAR", "PAR", "NAR", "PABAK", "AC1"),
    *("PAR-NAR", "prevalence-index", "bias-index", "positive_share"),
)
ALL = (*BINARY, "Pearson", "Spearman", "Kendall-b", "Kendall-a")
SUMMED = (
    "PAR-NAR",
    "prevalence-index",
    "bias-index",
    "positive_share",
)  # no rule for undefined pairs


@looped_seeds(ROUNDS, default=20)
def test_every_score_is_what_its_definition_says(seed: int) -> None:
    rng = np.random.default_rng([8, seed])
    bags = random_bags(rng)
    threshold, undefined = (
        float(rng.choice([0.0, 0.3, 0.5, 1.0])),
        str(rng.choice(["skip", "agree", "one"])),
    )
    found = cal.stability(bags, threshold=threshold, undefined=undefined, ci=False)
    pairs = list(itertools.combinations(range(len(bags[0])), 2))
    for name in ALL:
        rule = "skip" if name in SUMMED else undefined
        table = [
            [pair_value(bag[i], bag[j], name, threshold, rule) for i, j in pairs] for bag in bags
        ]
        per_bag = [mean(row) for row in table]
        np.testing.assert_allclose(found.per_bag(name), per_bag, atol=1e-12, err_msg=name)
        assert found[name].value == pytest.approx(mean(per_bag), abs=1e-12, nan_ok=True), name
        known = [v for v in per_bag if not math.isnan(v)]
        sd = float(np.std(known)) if known else NAN
        assert found.sd(name) == pytest.approx(sd, abs=1e-12, nan_ok=True), name
        for p, (i, j) in enumerate(pairs):
            expected = mean(row[p] for row in table)
            assert found.per_pair(name)[i, j] == pytest.approx(expected, abs=1e-12, nan_ok=True), (
                name
            )
        bare = [pair_value(bag[i], bag[j], name, threshold) for bag in bags for i, j in pairs]
        assert found.undefined(name).pairs == sum(map(math.isnan, bare)), name
        for t in (0.1, 0.3, 0.5, 0.9) if name in BINARY else ():
            values = [
                mean(pair_value(bag[i], bag[j], name, t, rule) for i, j in pairs) for bag in bags
            ]
            assert found.get(name, threshold=t).value == pytest.approx(
                mean(values), abs=1e-12, nan_ok=True
            ), (name, t)
        if len(bags[0]) > 2:
            left = found.leave_one_out(name).without
            for m, value in enumerate(left):
                kept = [p for p, pair in enumerate(pairs) if m not in pair]
                expected = mean(mean(row[p] for p in kept) for row in table)
                assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), name


@looped("seed", range(40))
def test_instances_are_counted_by_the_models_that_call_them(seed: int) -> None:
    rng = np.random.default_rng([9, seed])
    bags = random_bags(rng)
    found = cal.stability(bags, threshold=0.5, ci=False).called()
    expected = np.zeros((len(bags), len(bags[0]) + 1))
    for b, bag in enumerate(bags):
        for instance in bag.T:
            expected[b, sum(1 for value in instance if value >= 0.5)] += 1
    assert found.per_bag.tolist() == expected.tolist()


@looped("seed", range(40))
def test_the_reference_is_found_as_far_as_counting_says(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    bags = random_bags(rng)
    marked = [rng.random(bag.shape[1]) < 0.4 for bag in bags]
    labels = np.array([m.any() for m in marked])
    if not labels.any():
        return
    found = cal.stability(bags, labels, instances=marked, ci=False)
    for k, model in enumerate(found.models):
        dice, jaccard, auc = [], [], []
        for bag, truth in zip(bags, marked):
            called = bag[k] >= 0.5
            both, either = int((called & truth).sum()), int((called | truth).sum())
            if truth.any():
                dice.append(2 * both / (int(called.sum()) + int(truth.sum())))
                jaccard.append(both / either)
        assert found.get("DICE", model=model).value == pytest.approx(mean(dice), abs=1e-12)
        assert found.get("Jaccard", model=model).value == pytest.approx(mean(jaccard), abs=1e-12)
        assert found.get("accuracy", model=model).value == pytest.approx(
            mean([float(j >= 0.1) for j in jaccard])
        )
        if labels.all():
            continue
        tops = [bag[k].max() for bag in bags]
        for p, n in itertools.product(np.flatnonzero(labels), np.flatnonzero(~labels)):
            auc.append(1.0 if tops[p] > tops[n] else 0.5 if tops[p] == tops[n] else 0.0)
        assert found.localization().get("AUC", model).value == pytest.approx(mean(auc), abs=1e-12)


def test_the_order_of_models_and_bags_changes_nothing() -> None:
    rng = np.random.default_rng(11)
    maps, groups = rng.random((4, 30, 20)), {"patient": np.arange(30) % 12}
    first = cal.stability(maps, groups=groups, ci=False)
    turn, shuffle = np.array([2, 0, 3, 1]), rng.permutation(30)
    other = cal.stability(maps[turn], groups=groups, ci=False)
    third = cal.stability(
        maps[:, shuffle], groups={"patient": groups["patient"][shuffle]}, ci=False
    )
    for name in first.names:
        assert other[name].value == pytest.approx(first[name].value, abs=1e-13)
        assert third[name].value == pytest.approx(first[name].value, abs=1e-13)
        np.testing.assert_allclose(third.per_bag(name), first.per_bag(name)[shuffle], atol=0)
        if name not in ("called-by-all", "called-by-some"):
            np.testing.assert_allclose(
                other.per_pair(name), first.per_pair(name)[np.ix_(turn, turn)], atol=1e-13
            )
            a, b = first.leave_one_out(name), other.leave_one_out(name)
            np.testing.assert_allclose(np.array(b.without), np.array(a.without)[turn], atol=1e-13)
            assert b.error == pytest.approx(a.error, abs=1e-13)


def test_jobs_and_repetition_change_no_bit() -> None:
    rng = np.random.default_rng(12)
    maps = rng.random((3, 25, 40))
    runs = [cal.stability(maps, replicates=200, seed=5, jobs=jobs).to_json() for jobs in (1, 3, 1)]
    assert runs[0] == runs[1] == runs[2]
    assert cal.stability(maps, replicates=200, seed=6).to_json() != runs[0]
