"""Which routes through the kernels the tests of a file take by default."""

from __future__ import annotations

from typing import Any

import pytest

from calipers.kernels import route


def _routes() -> list[Any]:
    if route.native() is None:
        return ["numpy"]
    return ["native", pytest.param("numpy", marks=pytest.mark.slow)]


# For the ``pytestmark`` of a file: its tests take the native route, and the NumPy route in
# `make test-slow`. The file says what else holds the two routes together. Without native kernels
# the NumPy route is the only one, and is not slow.
native_by_default = [
    pytest.mark.usefixtures("kernel_route"),
    pytest.mark.parametrize("kernel_route", _routes(), indirect=True),
]
