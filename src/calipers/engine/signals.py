# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C, SIGTERM and SIGHUP do, from the start of the command line to its end.

- `leave_on_signals`: while modules are loaded nothing is open, and a signal ends the process with a
  sentence. An exception would come out of whatever is being imported, often as another one.
- `raise_on_signals`: once a verb begins, a signal raises `KeyboardInterrupt` or `Terminated`, so
  that files are closed, and what is half-written goes.
- `die_of_signals`: when the exit code is settled, nothing is left to put in order.
- `patient_interrupts`: while a run keeps what it has finished, the first Ctrl-C waits.
- `signals_later`: while this thread has a lock that workers need, a signal waits. Conditions and
  futures are written in Python: an exception between taking their lock and the block that gives it
  back leaves the lock taken for ever, and whoever waits for the workers then waits for ever too.

Only `calipers.__main__` and `calipers.cli.main` change signals, and `patient_interrupts` for as
long as it lasts: Calipers as a library leaves them alone. A signal that is ignored stays so, as it
is in the background of a shell.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

INTERRUPTED, TERMINATED, HUNG_UP = 130, 143, 129
ENDINGS = {
    signal.SIGINT: ("interrupted", INTERRUPTED),
    signal.SIGTERM: ("terminated", TERMINATED),
}
# The terminal or the connection was closed. Windows has no such signal.
if hasattr(signal, "SIGHUP"):
    ENDINGS[signal.SIGHUP] = ("terminated", HUNG_UP)
STDERR = 2
_received: list[int] = []
_depth = 0  # of the steps of the main thread that a signal must not cut
_late: list[type[KeyboardInterrupt]] = []  # what signals raise that came in such a step


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP came: the work ends as it does after an interruption from the keyboard."""


def leave_on_signals() -> None:
    """Let a signal end the process at once, with a sentence: nothing has begun yet."""
    _handle(_leave)


def raise_on_signals() -> None:
    """Let a signal raise an exception, where it would have ended the process."""
    if signal.getsignal(signal.SIGTERM) is _leave or signal.getsignal(signal.SIGINT) is _leave:
        _handle(_raise)


def die_of_signals() -> None:
    """Let a signal do what it does to any program."""
    _handle(signal.SIG_DFL)


def is_stopped() -> bool:
    """Return whether a signal has raised an exception in this process.

    Code of other projects may turn that exception into one of its own.
    """
    return bool(_received)


def word_and_code(stop: BaseException | None) -> tuple[str, int]:
    """Return how the work was stopped, in a word, and the exit code.

    Parameters
    ----------
    stop
        The exception; None if another one took its place.
    """
    if stop is not None and not isinstance(stop, Terminated):
        return ENDINGS[signal.SIGINT]
    # An exception in the place of ours says nothing: what came last counts.
    numbers = [number for number in _received if stop is None or number != signal.SIGINT]
    return ENDINGS[signal.Signals([signal.SIGTERM, *numbers][-1])]


def _handle(handler: Any) -> None:
    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    word, code = ENDINGS[signal.Signals(number)]
    with suppress(OSError):  # nobody reads it
        os.write(STDERR, f"error: {word}; nothing was started\n".encode())
    os._exit(code)


def _raise(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if number == signal.SIGINT:
        _raise_soon(KeyboardInterrupt)
        return
    # The second one ends the process at once.
    signal.signal(number, signal.SIG_DFL)
    _raise_soon(Terminated)


def _raise_soon(stop: type[KeyboardInterrupt]) -> None:
    if not _depth:
        raise stop
    _late.append(stop)


@contextmanager
def signals_later() -> Iterator[None]:
    """Let signals raise their exception after a short step, never within it.

    This holds for the handlers of this module; other threads than the main one get no signals.
    """
    global _depth
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _late and not _depth:
            stop = _late[0]
            _late.clear()
            raise stop


@contextmanager
def patient_interrupts() -> Iterator[Callable[[], None]]:
    """Hold back the first Ctrl-C: the function that is given raises it when work can stop.

    Only the main thread receives signals; elsewhere nothing is held back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield never
        return
    waiting = False

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal waiting
        if waiting:  # the second one is serious
            _raise_soon(KeyboardInterrupt)
        waiting = True

    def interrupted() -> None:
        if waiting:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield never
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def never() -> None:
    """Nobody interrupts."""
