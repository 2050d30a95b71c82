# SPDX-License-Identifier: Apache-2.0
"""An executor of processes that outlives its workers.

One worker that dies (for lack of memory, in a decoder of another project) breaks a
`ProcessPoolExecutor` as a whole: all that waits is lost with it. `Processes` makes a new pool and
hands over again what was under way. What was under way at two deaths runs alone, in a process of
its own: if that dies too, it is known which item is to blame, and `WorkerDied` says so. All other
items are done as if nothing had happened.

``calipers maps`` decodes files in such workers. Threads are enough for everything else, because the
kernels release the interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from calipers.engine.work import WorkerDied

TRIES = 2  # in the company of others; after that an item runs alone
# One thread per worker: threads of libraries and workers must not multiply.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class _Call:
    """A call, the future that its caller holds, and how many pools broke under it."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: Future[Any]
    deaths: int = 0


class Processes(Executor):
    """Processes for calls that can be pickled; dead ones are replaced.

    Parameters
    ----------
    workers
        Number of processes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        # Neither threads nor open files of this process may be copied into a worker.
        self._context = multiprocessing.get_context("spawn")
        self._lock = threading.Lock()
        self._alone = ThreadPoolExecutor(1)  # suspects wait for each other
        self._closed = False
        self._pool = self._new_pool()

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin a call; keywords are not supported."""
        assert not kwargs, "calls have positional arguments only"
        task = _Call(call, args, Future())
        task.future.set_running_or_notify_cancel()
        self._begin(task)
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers."""
        self._closed = True
        self._alone.shutdown(wait=wait, cancel_futures=True)
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool | None:
        # After an error or an interrupt nobody waits for what is under way.
        self.shutdown(wait=kind is None)
        return None

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.workers, self._context, initializer=_become_worker)

    def _begin(self, task: _Call) -> None:
        with self._lock:
            pool = self._pool
            try:
                inner = pool.submit(task.call, *task.arguments)
            except BrokenProcessPool:
                # It broke under others a moment ago, and this task had not begun.
                pool = self._pool = self._new_pool()
                inner = pool.submit(task.call, *task.arguments)
        inner.add_done_callback(lambda future: self._end(task, future, pool))

    def _end(self, task: _Call, inner: Future[Any], pool: ProcessPoolExecutor) -> None:
        if inner.cancelled() or self._closed:
            task.future.cancel()
            return
        error = inner.exception()
        if error is None:
            task.future.set_result(inner.result())
        elif isinstance(error, BrokenProcessPool):
            self._again(task, pool)
        else:
            task.future.set_exception(error)

    def _again(self, task: _Call, broken: ProcessPoolExecutor) -> None:
        task.deaths += 1
        with self._lock:
            if self._pool is broken:
                self._pool = self._new_pool()
        if task.deaths < TRIES:
            self._begin(task)
        else:
            self._alone.submit(self._run_alone, task)

    def _run_alone(self, task: _Call) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_answer, args=(theirs, task.call, task.arguments), daemon=True
        )
        process.start()
        theirs.close()
        try:
            error, result = ours.recv()
        except EOFError:
            process.join()
            error, result = WorkerDied(_ending(process.exitcode)), None
        process.join()
        if error is None:
            task.future.set_result(result)
        else:
            task.future.set_exception(error)


def _become_worker() -> None:
    """Set up a worker: Ctrl-C is for the process that gives out the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in THREADS:
        os.environ[name] = "1"


def _answer(connection: Connection, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Run one call and send what came of it: an error, or a result."""
    _become_worker()
    try:
        connection.send((None, call(*arguments)))
    except Exception as error:
        connection.send((error, None))
    finally:
        connection.close()


def _ending(code: int | None) -> str:
    """Return how a process ended, as text."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
