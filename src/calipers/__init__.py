# SPDX-License-Identifier: Apache-2.0
"""Calipers tells whether a model finds the right thing in the right place, and how sure that answer
is.

>>> import calipers as cal
>>> ev = cal.evaluate(cal.demo_cohort(), "coco")
>>> print(ev["misses-small", "AP50"].n_images)
120
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from lazy_loader import attach_stub

__version__ = "0.1.0"

# The names are declared in __init__.pyi: `import calipers` itself loads nothing.
_load, _, _SURFACE = attach_stub(__name__, __file__)
__all__ = ["__version__", *_SURFACE]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _SURFACE:
        from calipers.errors import did_you_mean

        raise AttributeError(
            f"module 'calipers' has no attribute {name!r}; {did_you_mean(name, _SURFACE)}"
        )
    value = globals()[name] = _load(name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Surface(ModuleType):
    """The package as a module on which importing a submodule never hides a function of the same
    name.

    `calipers.stability` is the function, whoever imported the package of that name and when.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _SURFACE and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Surface
