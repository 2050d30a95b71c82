"""Sweeps: closed forms against simulation, and where an order turns."""

from __future__ import annotations

from dataclasses import replace
from math import erf

import numpy as np
import pytest

from calipers.monitors.scope import Scope
from calipers.studies.monitors.experiments import BESIDE, WEAK, closed_form, share_sweep, tau_grid


@pytest.fixture(scope="module")
def sweep():
    return share_sweep(0.3, 300, 5)


def test_the_closed_form_at_its_ends() -> None:
    found = closed_form(0.0, np.array([0.0, 1.0]))
    weak = 0.5 + 0.5 * erf(WEAK / 2)
    assert found["oms"][1] == pytest.approx([weak, weak])
    assert found["oms"][0, 1] == pytest.approx(
        0.5
    )  # harmless shifts only: OOD says nothing about failures
    assert found["ood"][1, 1] == pytest.approx(0.5)
    p, q = (
        0.4313 / (0.4313 + 0.03),
        (1 - 0.4313) / (2 - 0.4313 - 0.03),
    )  # fog .45, blur .30, night .55 as 8, 7, 7
    assert found["oms"][0, 0] == pytest.approx(0.5 + (p - q) * 0.5 * erf(1.5), abs=0.003)


def test_measured_areas_are_near_the_closed_form(sweep) -> None:
    for paradigm in ("oms", "ood"):
        np.testing.assert_allclose(sweep.values[paradigm], sweep.theory[paradigm], atol=0.09)
        assert (sweep.low[paradigm] <= sweep.values[paradigm]).mean() > 0.95
        assert (sweep.values[paradigm] <= sweep.high[paradigm]).mean() > 0.95
    assert (sweep.values["ood"][0] - sweep.values["ood"][1]).min() > 0.3


def test_a_flip_is_found_between_grid_points(sweep) -> None:
    line = 0.25 - sweep.shares
    bent = replace(sweep, difference=np.stack([line, line - 0.1, line + 0.1]))
    assert bent.measured_flip == pytest.approx(0.25)
    assert bent.flip_bounds == pytest.approx((0.15, 0.35))
    assert bent.turns
    always = replace(sweep, difference=np.ones((3, len(line))))
    assert np.isnan(always.measured_flip)
    assert always.flip_bounds == (0.0, 1.0)
    assert not always.turns


def test_the_grid_of_tau_has_both_sides_of_every_step() -> None:
    grid = tau_grid(Scope.from_values([0.0, 0.5, 1.0, 1.0]))
    assert grid.tolist() == pytest.approx([BESIDE, 0.5, 0.5 + BESIDE, 1.0])
