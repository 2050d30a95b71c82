# SPDX-License-Identifier: Apache-2.0
"""What claims are judged by: the numbers of a run."""

from __future__ import annotations

from dataclasses import dataclass

from calipers.results import Estimate
from calipers.studies.monitors.crowds import Crowds
from calipers.studies.monitors.definitions import Definitions
from calipers.studies.monitors.sweeps import ShareSweep, TauCurves
from calipers.studies.monitors.trials import Trial

EXACT = 1e-12


@dataclass(frozen=True)
class MonitorsRun:
    """Everything that a claim may look at."""

    definitions: Definitions
    crowds: Crowds
    trials: tuple[Trial, ...]
    taus: tuple[TauCurves, ...]
    shares: tuple[ShareSweep, ...]  # () with given data: their shifts cannot be chosen

    @property
    def comparable_trials(self) -> tuple[Trial, ...]:
        """The trials in which both paradigms can be judged."""
        return tuple(trial for trial in self.trials if trial.is_comparable)

    @property
    def mixed(self) -> tuple[Trial, ...]:
        """The trials with safe and unsafe images."""
        return tuple(trial for trial in self.trials if trial.is_mixed)


def estimate_text(estimate: Estimate) -> str:
    """Return "0.633 [0.570, 0.691]"; without an interval the value alone."""
    if estimate.value != estimate.value:
        return "undefined"
    if estimate.low != estimate.low:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
