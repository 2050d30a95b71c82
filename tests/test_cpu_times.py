"""The CPU seconds at the end of a run are those of its files."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

from cpu_times import SECONDS, START, CpuTimes, spent

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_this_process_and_those_it_waited_for_are_counted():
    before, own = spent(), time.process_time()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert spent() - before >= 0.25 + (time.process_time() - own)


def test_a_process_that_still_runs_is_counted():
    before = spent()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        # At most a minute: a busy machine gives the process little time.
        for _ in range(3000):
            if spent() - before >= 0.2:
                break
            time.sleep(0.02)
        counted, is_running = spent() - before, process.poll() is None
        process.kill()
    assert (counted >= 0.2, is_running) == (True, True)


def test_seconds_of_a_file_are_added_and_the_most_expensive_come_first():
    times, lines = CpuTimes(), []
    for test, when, properties in (
        ("a.py::one", "teardown", [(START, 2.0)]),
        ("a.py::two", "call", [(SECONDS, 9.0)]),
        ("a.py::two", "teardown", [(SECONDS, 3.0)]),
        ("b.py::one", "teardown", [(SECONDS, 4.0)]),
    ):
        report = SimpleNamespace(nodeid=test, when=when, user_properties=properties)
        times.pytest_runtest_logreport(report)
    config = SimpleNamespace(getoption=lambda name, default: default)
    times.pytest_terminal_summary(SimpleNamespace(write_line=lines.append, config=config))
    assert lines == [
        "CPU time: 9 s, of which 2 s before the first test",
        "  most: 4 s b.py, 3 s a.py",
    ]
