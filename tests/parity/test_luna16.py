"""The preset ``luna16`` against the evaluation that the challenge describes, on scans full of
excluded findings and duplicates.
"""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from kernel_routes import native_by_default
from reference.luna16 import Scan, inside, sensitivity_at
from seeds import looped_seeds

# The peer takes most of the time, and `test_routes.py` holds every metric to the same bits on both
# routes.
pytestmark = native_by_default

RATES = (0.125, 0.25, 0.5, 1, 2, 4, 8)


def random_scans(seed: int, n: int) -> list[Scan]:
    """Nodules far apart, as in the challenge: no candidate lies in two of them."""
    draw = np.random.default_rng(seed)
    scans = []
    for _ in range(n):
        scan = Scan()
        cells = draw.permutation(27)[: draw.integers(0, 6)]
        for cell in cells.tolist():
            corner = np.array([cell % 3, cell // 3 % 3, cell // 9]) * 100.0
            place = tuple((corner + draw.uniform(30, 70, 3)).tolist())
            diameter = float(draw.uniform(4, 40))
            if draw.random() < 0.7:
                scan.nodules.append((place, diameter))
            # an excluded finding in most nodules, mostly nearer to the candidates than the nodule
            for _ in range(draw.integers(0, 3)):
                shift = draw.normal(0, diameter / 4, 3)
                other = tuple((np.array(place) + shift).tolist())
                scan.excluded.append((other, float(draw.uniform(4, 60))))
            for _ in range(draw.integers(0, 4)):
                spot = np.array(place) + draw.normal(0, diameter / 3, 3)
                scan.candidates.append((tuple(spot.tolist()), float(draw.integers(1, 40)) / 40))
        for _ in range(draw.integers(0, 5)):
            spot = tuple(draw.uniform(0, 300, 3).tolist())
            scan.candidates.append((spot, float(draw.integers(1, 40)) / 40))
        scans.append(scan)
    return scans


def cube(place: tuple[float, float, float], side: float) -> list[float]:
    return [*(v - side / 2 for v in place), *(v + side / 2 for v in place)]


def cohort_of(scans: list[Scan]) -> cal.Cohort:
    references, predictions = [], []
    for scan in scans:
        findings = scan.nodules + scan.excluded
        references.append(
            {
                "boxes": np.array([cube(*one) for one in findings]).reshape(-1, 6),
                "labels": np.zeros(len(findings), int),
                "ignore": [False] * len(scan.nodules) + [True] * len(scan.excluded),
            }
        )
        predictions.append(
            {
                "boxes": np.array([cube(p, 2.0) for p, _ in scan.candidates]).reshape(-1, 6),
                "labels": np.zeros(len(scan.candidates), int),
                "scores": np.array([score for _, score in scan.candidates]),
            }
        )
    return cal.Cohort.from_arrays(references, predictions, classes=("nodule",))


@looped_seeds(40, default=15)
def test_equal_to_the_description_of_the_challenge(seed: int) -> None:
    scans = random_scans(seed, n=12)
    result = cal.evaluate(cohort_of(scans), "luna16", ci=False)
    for rate in RATES:
        assert result[f"FROC@{rate:g}"].value == pytest.approx(
            sensitivity_at(scans, rate), abs=1e-12
        )


def test_the_sets_have_what_makes_the_rule_matter() -> None:
    scans = [scan for seed in range(5) for scan in random_scans(seed, n=12)]
    both = 0
    for scan in scans:
        for place, _ in scan.candidates:
            in_nodule = any(inside(place, one) for one in scan.nodules)
            both += in_nodule and any(inside(place, one) for one in scan.excluded)
    assert both > 30


@looped_seeds(10, default=4)
def test_candidates_in_two_nodules_are_counted_and_all_others_are_equal(seed: int) -> None:
    """The description leaves open whether such a candidate finds both: a warning counts them."""
    draw = np.random.default_rng(seed)
    scans = random_scans(seed, n=8)
    for scan in scans[:4]:
        for place, diameter in list(scan.nodules):
            shift = draw.normal(0, diameter / 3, 3)
            scan.nodules.append((tuple((np.array(place) + shift).tolist()), diameter))
    n_shared, without = 0, []
    for scan in scans:
        inner = []
        for candidate in scan.candidates:
            n_nodules = sum(inside(candidate[0], nodule) for nodule in scan.nodules)
            n_shared += n_nodules > 1
            inner += [candidate] if n_nodules < 2 else []
        without.append(Scan(scan.nodules, scan.excluded, inner))
    warnings = cal.evaluate(cohort_of(scans), "luna16", ci=False).warnings
    told = [line for line in warnings if "in several references at once" in line]
    assert len(told) == (n_shared > 0)
    assert all(f" {n_shared} prediction" in line for line in told)
    result = cal.evaluate(cohort_of(without), "luna16", ci=False)
    assert not any("at once" in line for line in result.warnings)
    for rate in RATES:
        expected = sensitivity_at(without, rate)
        assert result[f"FROC@{rate:g}"].value == pytest.approx(expected, abs=1e-12)
