"""What a run measures over tau and over the strength of shifts, against values by hand."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.monitors.scope import Scope
from calipers.studies.monitors.experiments import (
    BESIDE,
    auroc,
    label_areas,
    network_trial,
    strength_proxy,
    tau_curves,
    tau_grid,
)
from studies.monitors.detectors import made_detector


@pytest.fixture(scope="module")
def trial():
    return network_trial(made_detector(), None, 100, 0)


def test_the_grid_of_tau_has_both_sides_of_every_step() -> None:
    grid = tau_grid(Scope.from_values([0.0, 0.5, 1.0, 1.0]))
    assert grid.tolist() == pytest.approx([BESIDE, 0.5, 0.5 + BESIDE, 1.0])


def test_the_proxy_is_the_auroc_of_yes_and_no(trial) -> None:
    proxy = strength_proxy(trial, 50)
    assert proxy.strengths == (1, 2, 3)
    for k, strength in enumerate(proxy.strengths):
        subset = (trial.strength == 0) | (trial.strength == strength)
        expected = auroc(trial.ood[subset][None].astype(float), trial.unsafe[subset][None])[0, 0]
        assert proxy.values[k] == pytest.approx(expected)
        assert proxy.low[k] <= proxy.values[k] <= proxy.high[k]
        assert proxy.unsafe[k] == trial.unsafe[trial.strength == strength].mean()
    # Stronger shifts harm more in the made detector.
    assert proxy.difference[1] > 0


def test_labels_have_their_winners(trial) -> None:
    areas = label_areas(trial, 50)
    assert areas.labels == ("OMS", "OOD: picture", "OOD: object", "OOD: either")
    for k, winner in enumerate(areas.winners):
        assert winner.value == areas.values[:, k].max()
        assert winner.low <= winner.value <= winner.high
        assert 0 < winner.wins <= 1
    winners = {one.labels: one.winner for one in areas.winners}
    assert winners["OOD: either"] == "knows-ood"
    assert winners["OMS"] == "knows-failures"


def test_a_pair_turns_only_if_both_orders_are_certain(trial) -> None:
    curve = tau_curves(trial, 50)[0]
    assert curve.n_pairs == 3
    for first, second in curve.turned_pairs:
        i, j = (curve.monitors.index(name) for name in (first, second))
        difference = (curve.values[i] - curve.values[j])[curve.defined]
        assert difference.min() < 0 < difference.max()
    assert np.isfinite(curve.values[:, curve.defined]).all()
