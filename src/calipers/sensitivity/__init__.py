# SPDX-License-Identifier: Apache-2.0
"""How far a number hangs on choices: sweeps over one or two of them, the multiverse of all of them."""

from calipers.sensitivity.multiverse import Multiverse, multiverse
from calipers.sensitivity.sweeps import sweep
from calipers.sensitivity.swept import Sweep, SweepAxis

__all__ = ["Multiverse", "Sweep", "SweepAxis", "multiverse", "sweep"]
