"""Workers that die: what they worked on is done all the same, and the one to blame is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.engine.ordered_map import WorkerDied, in_order, smallest_fatal
from calipers.engine.processes import Processes
from calipers.engine.signals import patient_interrupts
from calipers.errors import InputError


def square(k: int) -> int:
    return k * k


def die_at_five(k: int) -> int:
    if k == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return k * k


def die_once(task: tuple[int, str]) -> int:
    """The first work on item 3 kills its worker; the second succeeds."""
    k, mark = task
    if k == 3 and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return k * k


def die_while_sending(mark: str) -> bytes:
    """The first worker sends half of its result."""

    def send_half(connection: Connection, data: Any) -> None:
        os.write(connection.fileno(), bytes(data[: len(data) // 2]))
        os.kill(os.getpid(), signal.SIGKILL)

    if not os.path.exists(mark):
        Path(mark).touch()
        Connection._send = send_half  # type: ignore[attr-defined]
    return bytes(1_000_000)


def note_times(task: tuple[int, str]) -> None:
    """Write down when the work on an item began and ended; item 0 kills its worker."""
    k, folder = task
    start = time.monotonic()
    with open(f"{folder}/{k}", "a") as file:
        file.write(f"{start} ")
    if k == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    with open(f"{folder}/{k}", "a") as file:
        file.write(f"{time.monotonic()} ")


class Awkward(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("awkward")


def raise_awkwardly(k: int) -> int:
    raise Awkward(k, k)


def refuse(k: int) -> int:
    raise InputError("a sound file", rule="volume-broken", file=f"{k}.nii")


def test_a_worker_that_dies_once_is_replaced(tmp_path: Path) -> None:
    items = [(k, str(tmp_path / "mark")) for k in range(12)]
    with Processes(2) as executor:
        assert list(in_order(die_once, items, executor=executor, ahead=4)) == [
            k * k for k in range(12)
        ]


def test_the_item_that_kills_its_worker_is_named_and_others_are_done() -> None:
    with Processes(2) as executor:
        futures = [executor.submit(die_at_five, k) for k in range(10)]
        for k, future in enumerate(futures):
            if k != 5:
                assert future.result(60) == k * k
        with pytest.raises(WorkerDied, match="signal 9, SIGKILL"):
            futures[5].result(60)
        results = in_order(die_at_five, range(10), executor=executor, ahead=3)
        with pytest.raises(WorkerDied) as problem:
            list(results)
    assert problem.value.item == 5


def test_errors_cross_the_border() -> None:
    with Processes(1) as executor, pytest.raises(InputError, match=r"0\.nii.*volume-broken"):
        list(in_order(refuse, [0], executor=executor))


def test_what_cannot_be_sent_is_an_error_of_its_call() -> None:
    with Processes(1) as executor:
        for call in (lambda: 1, raise_awkwardly):
            with pytest.raises(Exception, match=r"lambda|awkward"):
                executor.submit(call, 1).result(60)
        assert executor.submit(square, 3).result(60) == 9


def test_a_worker_that_dies_while_it_sends_is_replaced(tmp_path: Path) -> None:
    with Processes(2) as executor:
        others = [executor.submit(square, k) for k in range(4)]
        sent = executor.submit(die_while_sending, str(tmp_path / "mark"))
        assert sent.result(60) == bytes(1_000_000)
        assert [future.result(60) for future in others] == [0, 1, 4, 9]


def test_the_last_trial_is_alone(tmp_path: Path) -> None:
    with Processes(2) as executor:
        futures = [executor.submit(note_times, (k, str(tmp_path))) for k in range(8)]
        with pytest.raises(WorkerDied, match="also when nothing else ran"):
            futures[0].result(60)
        for future in futures[1:]:
            future.result(60)
    *_, last = map(float, (tmp_path / "0").read_text().split())
    for k in range(1, 8):
        start, end = map(float, (tmp_path / str(k)).read_text().split())
        assert not start < last < end


def test_calls_that_nobody_waits_for_do_not_delay_the_end() -> None:
    start, executor = time.monotonic(), Processes(1)
    futures = [executor.submit(time.sleep, 600) for _ in range(3)]
    executor.__exit__(ZeroDivisionError, None, None)
    assert time.monotonic() - start < 60
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(60)
    with pytest.raises(RuntimeError, match="have been ended"):
        executor.submit(square, 1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_workers_end_with_the_process_that_was_killed() -> None:
    code = (
        "import os, time\n"
        "from calipers.engine.processes import Processes\n"
        "executor = Processes(1)\n"
        "print(executor.submit(os.getpid).result(), flush=True)\n"
        "executor.submit(time.sleep, 600).result()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert is_alive(worker)
    parent.kill()
    parent.communicate()  # which waits for whoever else holds the pipe
    deadline = time.monotonic() + 30
    while is_alive(worker) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(worker)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture(autouse=True)
def usual_interrupts() -> Iterator[None]:
    """Ctrl-C as in a terminal: a shell starts programs in the background without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_this_process() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)


def test_the_first_interrupt_waits_and_the_second_does_not() -> None:
    with patient_interrupts() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # nothing is raised here
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        with pytest.raises(KeyboardInterrupt):
            interrupt_this_process()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_hold_nothing_back() -> None:
    handlers = []

    def look() -> None:
        with patient_interrupts() as interrupted:
            interrupted()
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


CUT = """
import os, signal, sys, threading, time
from itertools import count
from calipers.engine import signals
from calipers.engine.ordered_map import in_order
from calipers.engine.processes import Processes

enter, main = threading.Condition.__enter__, threading.get_ident()

def run(kind):
    if kind == "threads":
        return list(in_order(abs, range(3), workers=2, ahead=2))
    with Processes(1) as executor:
        return list(in_order(abs, range(3), executor=executor, ahead=2))

def cut(kind, place):
    numbers = count()

    def take(condition):
        result = enter(condition)
        if threading.get_ident() == main and next(numbers) == place:
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    signal.signal(signal.SIGTERM, signals._raise)
    threading.Condition.__enter__ = take
    try:
        return run(kind)
    except signals.Terminated:
        return None
    finally:
        threading.Condition.__enter__ = enter

if __name__ == "__main__":
    first, step = map(int, sys.argv[2:])
    for place in count(first, step):
        print(place, flush=True)
        if cut(sys.argv[1], place) is not None:
            break
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize(
    ("kind", "first", "step"),
    [
        ("threads", 0, 1),
        ("processes", 4, 3),
        # starts a process for every place
        pytest.param("processes", 0, 1, marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_no_lock_taken(tmp_path: Path, kind: str, first: int, step: int) -> None:
    """Wherever it comes: workers that wait for a lock of the main thread would never end."""
    (tmp_path / "cut.py").write_text(CUT)
    words = [sys.executable, str(tmp_path / "cut.py"), kind, str(first), str(step)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    places = done.stdout.split()
    assert len(places) > 1
    assert places[0] == str(first)


class Fragile(Executor):
    """Works here, but says that the worker died whenever an item is deadly."""

    def __init__(self, is_deadly: Callable[[Any], bool]) -> None:
        self.is_deadly = is_deadly
        self.n_calls = 0

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.n_calls += 1
        future: Future[Any] = Future()
        if self.is_deadly(args[0]):
            future.set_exception(WorkerDied("signal 9, SIGKILL"))
        else:
            future.set_result(call(*args))
        return future


def halves(items: range) -> list[range]:
    middle = len(items) // 2
    return [items[:middle], items[middle:]] if middle else []


def test_the_smallest_deadly_piece_takes_few_trials() -> None:
    executor = Fragile(lambda items: 700 in items)
    assert smallest_fatal(len, range(1024), halves, executor) == range(700, 701)
    assert executor.n_calls <= 20
    # two that are deadly only together cannot be told apart
    together = Fragile(lambda items: 511 in items and 512 in items)
    assert smallest_fatal(len, range(1024), halves, together) == range(1024)


@pytest.mark.parametrize("image", [0, 13, 29])
def test_an_image_that_kills_its_worker_is_named(image: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 16)
    cohort = cal.demo_cohort().take(np.arange(30))
    name = cohort.images.ids[image]
    executor = Fragile(lambda task: name in task[0].images.ids)
    with pytest.raises(InputError, match=f"image '{name}'.*worker-died"):
        cal.evaluate(cohort, "overview", ci=False, executor=executor)


def test_a_bag_that_kills_its_worker_is_named() -> None:
    maps = np.random.default_rng(0).random((2, 9, 16))
    executor = Fragile(lambda task: task.bags.ids == ("7",))
    with pytest.raises(InputError, match=r"bag '7'.*worker-died"):
        cal.stability(maps, ids=list("123456789"), ci=False, executor=executor)


@pytest.mark.slow  # starts forty processes
def test_twenty_deaths_change_nothing(tmp_path: Path) -> None:
    for k in range(20):
        mark = str(tmp_path / f"mark{k}")
        with Processes(2) as executor:
            results = in_order(die_once, [(n, mark) for n in range(6)], executor=executor, ahead=4)
            assert list(results) == [n * n for n in range(6)]
