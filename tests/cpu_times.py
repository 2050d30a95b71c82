"""What a run of the tests costs: CPU seconds in total and of the ten most expensive files.

A plug-in of pytest, loaded by `conftest.py`. Every process measures at the end of a file and sends
the seconds with the report of its last test; the end of the run prints them. CPU seconds instead of
time, because they say the same on a busy machine.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHOWN = 10  # files
SECONDS, START = "cpu_seconds", "cpu_seconds_before_the_first_test"
PROC = Path("/proc")


class CpuTimes:
    """Seconds by file, collected where the run ends."""

    def __init__(self) -> None:
        self.measured = 0.0  # by this process, up to the last measurement
        self.start = 0.0  # imports and collection, of all processes
        self.of_files: Counter[str] = Counter()

    def since_last(self) -> float:
        """Return the seconds since this was last asked; a process of a browser that ended takes its
        own away again.
        """
        before, self.measured = self.measured, spent()
        return max(0.0, self.measured - before)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            session.items[0].user_properties.append((START, self.since_last()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        try:
            return (yield)
        finally:
            if nextitem is None or nextitem.path != item.path:
                item.user_properties.append((SECONDS, self.since_last()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":  # the properties come with every report of a test
            return
        properties = dict(report.user_properties)
        self.start += properties.get(START, 0.0)
        self.of_files[report.nodeid.split("::", 1)[0]] += properties.get(SECONDS, 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.of_files:
            return
        total = self.start + self.of_files.total()
        if terminalreporter.config.getoption("numprocesses", None):
            total += time.process_time()  # this process hands out the tests that others run
        most = [f"{seconds:.0f} s {file}" for file, seconds in self.of_files.most_common(SHOWN)]
        terminalreporter.write_line(
            f"CPU time: {total:.0f} s, of which {self.start:.0f} s before the first test"
        )
        terminalreporter.write_line("  most: " + ", ".join(most))


def spent() -> float:
    """Return the CPU seconds of this process, of those it waited for, and of those that still run
    below it (a browser); where there is no /proc, without these last.
    """
    return sum(os.times()[:4]) + sum(_running().values())


def _running() -> dict[int, float]:
    """Return the CPU seconds of every running process that descends from this one."""
    parents, seconds = {}, {}
    for folder in PROC.glob("[0-9]*"):
        try:
            # The name in brackets may hold spaces; the fields after it are counted from 3 in
            # proc(5): parent 4, user time 14, system time 15.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended in between
        parents[int(folder.name)] = int(fields[1])
        seconds[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return {pid: seconds[pid] for pid in parents if _descends(pid, parents)}


def _descends(pid: int, parents: dict[int, int]) -> bool:
    above = parents.get(pid)
    while above and above != os.getpid():
        above = parents.get(above)
    return above == os.getpid()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuTimes(), "cpu-times")
