"""Workers that die: what they worked on is done all the same, and the one to blame is named."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.engine.processes import Processes
from calipers.engine.work import WorkerDied, in_order, patient_interrupts, smallest_fatal
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
