"""How often the interval over models contains what very many models would give."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.stability.collecting import collect
from calipers.stability.models import leave_one_out
from calipers.tables.array_bags import ArrayBags

SIMULATIONS = 200


@pytest.mark.slow
@pytest.mark.parametrize("n_models", [3, 5, 10])
def test_leaving_out_one_model_covers_other_trainings(n_models: int) -> None:
    rng = np.random.default_rng(n_models)
    shared = rng.random((20, 64))

    def left(number: int) -> tuple[float, float, float]:
        """Models of different quality on the same 20 bags."""
        noise = 0.15 * np.exp(0.5 * rng.standard_normal((number, 1, 1))) * rng.standard_normal((number, 20, 64))
        evidence = collect(ArrayBags.of(np.clip(shared + noise, 0, 1)), np.array([0.5]), kendall=False)
        found = leave_one_out(evidence, "APJ", 0, "skip", ("model",) * number, 0.95)
        return found.value, found.low, found.high

    truth = left(150)[0]
    inside = sum(low <= truth <= high for _, low, high in (left(n_models) for _ in range(SIMULATIONS)))
    assert 0.87 <= inside / SIMULATIONS <= 0.995  # measured .92 to .94; the error of 200 simulations is .017
