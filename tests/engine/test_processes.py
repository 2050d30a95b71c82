"""Workers that die: what they worked on is done all the same, and the one to blame is named."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from calipers.engine.processes import Processes
from calipers.engine.work import WorkerDied, in_order, patient_interrupts
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
