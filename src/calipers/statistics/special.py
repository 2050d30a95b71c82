# SPDX-License-Identifier: Apache-2.0
"""The special functions of SciPy, such as ``stdtrit``, without what else their package loads.

`statistics.intervals` and `statistics.comparison` call `special` for quantiles and tails. The
package ``scipy.special`` takes longer to import than an evaluation of 10,000 images takes; the
compiled module inside it, which has the functions, is there at once.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path
from types import ModuleType

PACKAGE = "scipy.special"


def special() -> ModuleType:
    """Return a module with the functions of ``scipy.special``: the compiled one, or the package."""
    # Another thread might see the stand-in.
    if PACKAGE in sys.modules or threading.active_count() > 1:
        return import_module(PACKAGE)
    import scipy

    # While the stand-in is there, the compiled module is found without running the package.
    stand_in = ModuleType(PACKAGE)
    stand_in.__path__ = [str(Path(scipy.__file__).parent / "special")]
    sys.modules[PACKAGE] = stand_in
    try:
        return import_module(f"{PACKAGE}._ufuncs")
    except ImportError:  # a SciPy that keeps them elsewhere
        pass
    finally:
        del sys.modules[PACKAGE]
    return import_module(PACKAGE)
