"""The numbers of the specification on the boxes of ChestX-ray8."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from cases import DATA

CHEST = DATA / "chestxray8" / "BBox_List_2017.csv"
SEEDS = 100
# Accuracy at IoU 0.1, 0.3 and 0.5 under position noise 0.5: mean and standard deviation of 300
# other seeds.
EXPECTED = {0.1: (0.927, 0.004), 0.3: (0.839, 0.004), 0.5: (0.789, 0.002)}


@pytest.mark.skipif(not CHEST.exists(), reason="needs the shared data (CALIPERS_DATA)")
def test_accuracy_under_position_noise() -> None:
    cohort = cal.read(CHEST, format="nih")
    names = [f"accuracy@{level}" for level in EXPECTED]
    protocol = cal.Protocol.from_toml(
        'schema = "calipers.protocol/1"\nname = "accuracy"\nsource = "test"\n'
        + "".join(
            f'[[metric]]\nname = "{name}"\nkind = "accuracy"\nthresholds = [{level}]\n'
            for name, level in zip(names, EXPECTED)
        )
    )
    found = []
    for seed in range(SEEDS):
        moved = cal.corrupt(cohort, "position-noise", sigma=0.5, seed=seed, name="moved")
        evaluation = cal.evaluate(moved, protocol, ci=False)
        found.append([evaluation[name].value for name in names])
    for values, (mean, spread) in zip(np.transpose(found), EXPECTED.values()):
        # The stated means are rounded to three decimals and random themselves.
        assert abs(values.mean() - mean) < 3 * spread * np.sqrt(1 / SEEDS + 1 / 300) + 0.0005
        assert values.std(ddof=1) == pytest.approx(spread, abs=0.001)
