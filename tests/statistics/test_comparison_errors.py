# SPDX-License-Identifier: Apache-2.0
"""Tests of equal models claim about as much as they say: the simulation of
`benchmarks/comparison_errors.py`, with fixed seeds.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "comparison_errors.py"


@pytest.fixture(scope="module")
def simulation():
    spec = spec_from_file_location("comparison_errors", FILE)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


def errors_of_pairs(simulation, design, data_sets, gain=0.0):
    """Return how often t, permutation and mid-p find a difference."""
    random = np.random.default_rng([11, design.patients])
    tests = []
    for _ in range(data_sets):
        counts = simulation.simulated(random, design, gain)
        tests.append(simulation.pair_tests(random, design, counts, 400))
    return np.mean(tests, axis=0)


def errors_of_families(simulation, design, data_sets):
    """Return in how many data sets of equal models each procedure claims a difference."""
    random = np.random.default_rng([12, design.patients])
    claims = []
    for _ in range(data_sets):
        counts = simulation.simulated(random, design, 0.0)
        rejected, _ = simulation.family_tests(random, design, counts, 400)
        claims.append([bool(tests.any()) for tests in rejected.values()])
    return np.mean(claims, axis=0)


def test_the_t_test_holds_its_level_and_finds_more_than_the_permutation(simulation):
    design = simulation.Design(("sensitivity",), 20, 1.3, 1.0, 0.3)
    t, permutation, _ = errors_of_pairs(simulation, design, 150)
    assert permutation <= t <= 0.11
    t, permutation, mid_p = errors_of_pairs(simulation, design, 150, gain=0.7)
    assert t > mid_p > permutation


def test_a_leader_that_the_data_chose_needs_all_pairs(simulation):
    design = simulation.Design(("sensitivity",), 50, 1.3, 0.8, 0.4, models=10)
    leader, holm, max_t = errors_of_families(simulation, design, 120)
    assert holm <= max_t <= 0.12
    assert leader > max_t


@pytest.mark.slow
def test_errors_of_all_designs(simulation):
    for design in simulation.PAIRS:
        t, _, _ = errors_of_pairs(simulation, design, 1000)
        assert t <= 0.075, design.name
    for design in simulation.FAMILIES:
        leader, holm, max_t = errors_of_families(simulation, design, 600)
        assert holm <= max_t <= 0.1, design.name
        if design.patients == 50:
            assert leader > 0.06, design.name
