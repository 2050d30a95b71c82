# SPDX-License-Identifier: Apache-2.0
"""The short way to SciPy's special functions leads to the functions of the package."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from calipers.statistics.intervals import special

short = special()
assert short is special()
assert "scipy.special" not in sys.modules
import scipy.special, scipy.stats

assert special() is scipy.special
for name in ("ndtr", "ndtri", "stdtr", "stdtrit", "betaincinv"):
    assert getattr(short, name) is getattr(scipy.special, name)
"""


def test_the_package_can_still_be_imported_and_has_the_same_functions():
    subprocess.run([sys.executable, "-c", CODE], check=True)
