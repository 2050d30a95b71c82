# SPDX-License-Identifier: Apache-2.0
"""Test how sensitive results are to analysis choices.

A sweep varies one or two choices; the multiverse varies all of them at once.
"""

from calipers.sensitivity.multiverse import Multiverse, multiverse
from calipers.sensitivity.sweeps import sweep
from calipers.sensitivity.swept import Sweep, SweepAxis

__all__ = ["Multiverse", "Sweep", "SweepAxis", "multiverse", "sweep"]
