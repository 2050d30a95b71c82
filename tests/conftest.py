"""Fixtures for all tests."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from calipers.kernels import route
from evaluated import remember_demo_cohorts

pytest_plugins = ["cpu_times", "temporary"]

# Machines are noisy: times are for benchmarks. A default run takes fewer examples than Hypothesis
# would; `make test-slow` takes the thorough profile.
settings.register_profile("calipers", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=400)
settings.load_profile("calipers")
remember_demo_cohorts()

BROWSER, DOCS, STUDIES = "tests/browser/", "tests/test_docs.py", "tests/studies/"
# These look at the syntax trees of the whole library, which one process parses once.
SOURCE = (
    "tests/test_repository.py",
    "tests/test_layers.py",
    "tests/results/test_document.py",
    "tests/metrics/test_facts.py",
    "tests/test_docs.py::test_every_rule_is_explained",
)
NETWORKS = Path(__file__).parent / "training"
# What takes longest starts first, so that both processes finish together (`make test` keeps this
# order with --no-loadscope-reorder).
LONG = (BROWSER, DOCS, "tests/fuzz/", "tests/parity/", STUDIES, "tests/properties/")


@pytest.fixture(params=["numpy", "native"])
def kernel_route(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test on the NumPy kernels and on their compiled twins."""
    with route.forced(request.param):
        if request.param == "native" and route.native() is None:
            pytest.skip("the native kernels were not built")
        yield request.param


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give whole files to the processes, so that what a file prepares for its tests is prepared
    once; all tests in a browser to one process, with one browser; all tests of a study to one
    process, which runs the study; pages of the documentation one by one, because each takes long
    and prepares nothing for the others.

    Marks of groups do not do it: they are without effect under pytest 9.2 with xdist 3.8.
    """
    from xdist.scheduler import LoadScopeScheduling

    class WholeFiles(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(BROWSER):
                return BROWSER
            if nodeid.startswith(SOURCE):
                return SOURCE[0]
            if nodeid.startswith(STUDIES):
                return "/".join(nodeid.split("::", 1)[0].split("/")[:3])
            return nodeid if nodeid.startswith(DOCS) else nodeid.split("::", 1)[0]

    return WholeFiles(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the tests of networks to `make test-train`, which names their folder: where PyTorch is
    installed they would run twice, and both processes would import it to collect them.
    """
    if collection_path != NETWORKS:
        return None
    roots = [Path(config.invocation_params.dir, word.partition("::")[0]) for word in config.args]
    is_named = any(root.resolve().is_relative_to(NETWORKS) for root in roots)
    return None if is_named else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: collecting makes a million objects that all stay, and
    searching them again and again took a fifth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Tests make few cycles: looking for them as often as Python does takes 3 % of the time.
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long tests first; the others stay in their order."""

    def place(item: pytest.Item) -> int:
        for k, start in enumerate(LONG):
            if item.nodeid.startswith(start):
                return k
        return len(LONG)

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line each why tests were skipped; by itself pytest says so test by test or not at
    all.
    """
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, n in Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in skipped
    ).items():
        terminalreporter.write_line(f"skipped {n}: {reason}")
