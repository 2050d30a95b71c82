# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run, which claims, figures and tables read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from calipers.results import Estimate
from calipers.studies.monitors.crowds import Crowds
from calipers.studies.monitors.definitions import Definitions
from calipers.studies.monitors.sweeps import ShareSweep, TauCurves
from calipers.studies.monitors.trials import Trial

EXACT = 1e-12


@dataclass(frozen=True)
class MonitorsRun:
    """The numbers of a run."""

    definitions: Definitions
    crowds: Crowds
    trials: tuple[Trial, ...]
    taus: tuple[TauCurves, ...]
    shares: tuple[ShareSweep, ...]  # () with the user's data, whose shifts cannot be varied

    @property
    def comparable_trials(self) -> tuple[Trial, ...]:
        """The trials with images of both kinds under both paradigms."""
        return tuple(trial for trial in self.trials if trial.is_comparable)

    @property
    def mixed_trials(self) -> tuple[Trial, ...]:
        """The trials with safe and unsafe images."""
        return tuple(trial for trial in self.trials if trial.is_mixed)


def estimate_text(estimate: Estimate) -> str:
    """Return "0.633 [0.570, 0.691]", or the value alone if there is no interval."""
    if math.isnan(estimate.value):
        return "undefined"
    if math.isnan(estimate.low):
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
