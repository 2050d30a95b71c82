"""Fixtures for all tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from calipers.kernels import route

settings.register_profile("calipers", deadline=None)  # machines are noisy: times are for benchmarks
settings.load_profile("calipers")

BROWSER = "tests/browser/"


@pytest.fixture(params=["numpy", "native"])
def kernel_route(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test on the NumPy kernels and on their compiled twins."""
    with route.forced(request.param):
        if request.param == "native" and route.native() is None:
            pytest.skip("the native kernels were not built")
        yield request.param


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give whole files to the processes, those with most tests first, so that what a file prepares
    for its tests is prepared once; and all tests in a browser to one process, with one browser.

    Marks of groups do not do it: they are without effect under pytest 9.2 with xdist 3.8.
    """
    from xdist.scheduler import LoadScopeScheduling

    class WholeFiles(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return BROWSER if nodeid.startswith(BROWSER) else nodeid.split("::", 1)[0]

    return WholeFiles(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line each why tests were skipped; by itself pytest says so test by test or not at
    all.
    """
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, n in Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in skipped
    ).items():
        terminalreporter.write_line(f"skipped {n}: {reason}")
