"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calipers.kernels import route


@pytest.fixture(params=["numpy", "native"])
def kernel_route(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test on the NumPy kernels and on their compiled twins."""
    with route.forced(request.param):
        if request.param == "native" and route.native() is None:
            pytest.skip("the native kernels were not built")
        yield request.param
