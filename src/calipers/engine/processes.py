# SPDX-License-Identifier: Apache-2.0
"""An executor of processes that outlives its workers.

One worker that dies (for lack of memory, in a decoder of another project) breaks a
`ProcessPoolExecutor` as a whole: all that waits is lost with it, and one that dies while it sends
its result leaves the pool waiting for the rest of it forever. `Processes` has a thread and a pipe
for every worker instead, so that the death of a worker ends nothing but the call that it worked on.
That call is tried again; after two deaths it runs alone, while nothing else does: if its worker
dies then too, it is known what is to blame, and `WorkerDied` says so. All other calls are done as
if nothing had happened.

Workers end with the process that started them, however it ends.

``calipers maps`` decodes files in such workers. Threads are enough for everything else, because the
kernels release the interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from calipers.engine.ordered_map import WorkerDied
from calipers.errors import CalipersError

TRIES = 2  # in the company of others; after that a call runs alone
PATIENCE = 10  # seconds that a worker may take to end
# One thread per worker: threads of libraries and workers must not multiply.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class _Call:
    """A call, the future that its caller holds, and how many workers died of it."""

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

    is_local = True  # what is left for threads may use this machine as well

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._threads: list[threading.Thread] = []
        self._processes: set[_Worker] = set()
        # Guards all that follows. Blocks take the lock itself, which is one step: to take the
        # condition is several, and a signal between them would leave it taken.
        self._lock = threading.RLock()
        # Is notified whenever a thread may have something to do.
        self._state = threading.Condition(self._lock)
        self._waiting: deque[_Call] = deque()
        self._suspects: deque[_Call] = deque()  # wait until nothing else waits or runs
        self._n_running = 0
        self._is_alone = False  # what runs is a suspect
        self._closed = False

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin a call; keywords are not supported."""
        assert not kwargs, "calls have positional arguments only"
        task = _Call(call, args, Future())
        with self._lock:
            if self._closed:
                raise RuntimeError("the workers have been ended")
            self._waiting.append(task)
            self._state.notify_all()
            if len(self._threads) < min(self.workers, self._n_running + len(self._waiting)):
                # A daemon: an error elsewhere must not leave the program waiting for a decoder.
                thread = threading.Thread(target=self._serve, daemon=True)
                thread.start()
                self._threads.append(thread)
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers: after the calls that they work on, or at once."""
        with self._lock:
            self._closed = True
            for task in (*self._waiting, *self._suspects):
                _give_up(task.future)
            self._waiting.clear()
            self._suspects.clear()
            self._state.notify_all()
            if not wait:
                for worker in self._processes:
                    worker.process.kill()
        for thread in self._threads:
            thread.join()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool | None:
        # After an error or an interrupt nobody waits for what is under way.
        self.shutdown(wait=kind is None)
        return None

    def _serve(self) -> None:
        """Give calls to one worker after the other; the body of a thread."""
        _hold_interrupts()
        worker: _Worker | None = None
        while (task := self._next()) is not None:
            try:
                # Tried again, it runs already.
                if task.deaths or task.future.set_running_or_notify_cancel():
                    worker = worker or self._new_worker()
                    task.future.set_result(worker.answer(task))
            except _Died as death:
                self._end(worker)
                worker = None
                self._try_again(task, death.how)
            except BaseException as error:
                task.future.set_exception(error)
            with self._lock:
                self._n_running -= 1
                self._is_alone = False
                self._state.notify_all()
        self._end(worker)

    def _next(self) -> _Call | None:
        """Return the call whose turn it is, None if there will be no more."""
        with self._lock:
            while not self._closed:
                if self._waiting and not self._is_alone:
                    self._n_running += 1
                    return self._waiting.popleft()
                if self._suspects and not self._n_running:
                    self._n_running, self._is_alone = 1, True
                    return self._suspects.popleft()
                self._state.wait()
        return None

    def _try_again(self, task: _Call, how: str) -> None:
        task.deaths += 1
        with self._lock:
            if self._closed:
                _give_up(task.future)
            elif self._is_alone:
                task.future.set_exception(WorkerDied(how))
            elif task.deaths < TRIES:
                self._waiting.appendleft(task)
            else:
                self._suspects.append(task)

    def _new_worker(self) -> _Worker:
        worker = _Worker()
        with self._lock:
            self._processes.add(worker)
            if self._closed:  # in the meantime
                worker.process.kill()
        return worker

    def _end(self, worker: _Worker | None) -> None:
        """End a worker."""
        if worker is not None:
            with self._lock:
                self._processes.discard(worker)
            worker.end()


def _give_up(future: Future[Any]) -> None:
    """Tell whoever waits that there will be no result."""
    if not future.cancel():  # it was running once
        future.set_exception(CancelledError())


class _Died(Exception):
    """A worker is gone."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class _Worker:
    """A process, and the pipe over which it gets calls and answers them."""

    # Neither threads nor open files of this process may be copied into a worker.
    context: SpawnContext = multiprocessing.get_context("spawn")
    # `multiprocessing` looks after all children whenever one is started or ends.
    lock = threading.Lock()

    def __init__(self) -> None:
        self.connection, theirs = self.context.Pipe()
        self.process: SpawnProcess = self.context.Process(target=_work, args=(theirs,), daemon=True)
        with self.lock:
            self.process.start()
        theirs.close()  # the worker alone has it: its death is the end of the pipe

    def answer(self, task: _Call) -> Any:
        """Return what came of a call, or raise its error; `_Died` if the worker did."""
        question = pickle.dumps((task.call, task.arguments), pickle.HIGHEST_PROTOCOL)
        try:
            self.connection.send_bytes(question)
            data = self.connection.recv_bytes()
        except (EOFError, OSError):
            raise _Died(_ending(self._exit_code())) from None
        error, result = pickle.loads(data)
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        """End the process, which works on nothing."""
        self.connection.close()
        self._exit_code()

    def _exit_code(self) -> int | None:
        with self.lock:
            self.process.join(PATIENCE)
            self.process.kill()  # if it is still there, whatever it does
            self.process.join()
        return self.process.exitcode


def _hold_interrupts() -> None:
    """Keep Ctrl-C from this thread and from the processes that it starts: it is for the main
    thread, which gives out the work.
    """
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _work(connection: Connection) -> None:
    """Answer calls until nobody asks any more; the body of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in THREADS:
        os.environ[name] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        while True:
            connection.send_bytes(_answered(connection.recv_bytes()))
    except (EOFError, OSError):
        connection.close()


def _end_with_parent() -> None:
    """End this process with the one that started it: after a kill nobody waits for its work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answered(question: bytes) -> bytes:
    """Return an error and the result of a call, one of them None."""
    try:
        call, arguments = pickle.loads(question)
        return pickle.dumps((None, call(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        if not isinstance(error, CalipersError):  # those say what is wrong themselves
            error.add_note(f"in a worker:\n{traceback.format_exc().rstrip()}")
        try:
            pickle.loads(answer := pickle.dumps((error, None), pickle.HIGHEST_PROTOCOL))
        except Exception:  # its class cannot be made again from its arguments
            text = "".join(traceback.format_exception(error)).rstrip()
            return pickle.dumps((RuntimeError(text), None), pickle.HIGHEST_PROTOCOL)
        return answer


def _ending(code: int | None) -> str:
    """Return how a process ended, as text."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
