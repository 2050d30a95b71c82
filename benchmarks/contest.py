# SPDX-License-Identifier: Apache-2.0
"""How things are measured: contestants take turns in one process, the median of several rounds
counts, memory is the peak of a child process. Machines are noisy, so only ratios of one run mean
anything.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

ROUNDS = 7


@dataclass(frozen=True)
class Result:
    """One line of the table: how many times faster (or smaller) Calipers is than a peer,
    and what the bar is.
    """

    name: str
    what: str
    route: str  # native | NumPy | -
    peer: str
    peer_value: float  # seconds or MB
    ours: float
    unit: str
    bar: float  # smallest acceptable ratio peer / ours
    n: int  # rounds

    @property
    def ratio(self) -> float:
        """How many times less Calipers needs."""
        return self.peer_value / self.ours if self.ours else float("inf")

    @property
    def met(self) -> bool:
        """Whether the bar is reached."""
        return self.ratio >= self.bar

    def as_dict(self) -> dict[str, Any]:
        """Return the line for JSON."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def take_turns(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each contestant; the first round warms up and does not count.

    The garbage collector is left alone, as it is for users. ``clock`` may count processor time
    instead: of this process, or by `children_time` of commands.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            began = clock()
            run()
            if turn:
                times[name].append(clock() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def children_time() -> float:
    """Return the processor time of all commands that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_memory(code: str, **environment: str) -> float:
    """Return the peak memory of a Python program in MB, measured in a child process of its own."""
    # ru_maxrss would begin with the memory of the parent at the time of the fork; the high-water
    # mark does not.
    report = (
        "\nprint('PEAK', next(x for x in open('/proc/self/status') if "
        "x.startswith('VmHWM')).split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    kilobytes = next(line for line in done.stdout.splitlines() if line.startswith("PEAK")).split()[
        1
    ]
    return int(kilobytes) / 1024


def seconds_of(command: list[str], **environment: str) -> float:
    """Return how long a command takes, from start to end."""
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, env={**os.environ, **environment})
    return time.perf_counter() - began


def peer_name(package: str) -> str:
    """Return the name and version of an installed peer."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} (not installed)"


def as_table(results: list[Result]) -> str:
    """Return the results as text."""
    head = ("row", "what", "route", "peer", "peer needs", "we need", "ratio", "bar", "")
    rows = [
        (
            r.name,
            r.what,
            r.route,
            r.peer,
            _amount(r.peer_value, r.unit),
            _amount(r.ours, r.unit),
            f"{r.ratio:.2f}x",
            f"{r.bar:g}x",
            "met" if r.met else "NOT MET",
        )
        for r in results
    ]
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in [head, *rows]
    )


def as_json(results: list[Result]) -> str:
    """Return the results as JSON."""
    return json.dumps(
        {"schema": "calipers.bench/1", "results": [r.as_dict() for r in results]}, indent=1
    )


def _amount(value: float, unit: str) -> str:
    return f"{value * 1000:.1f} ms" if unit == "s" else f"{value:.0f} {unit}"
