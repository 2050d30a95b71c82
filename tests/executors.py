"""An executor that does everything that other machines may do: it works in any order, and what goes
in and out is pickled.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class Shuffled(Executor):
    """Threads that take up any call that waits, in an order that the seed decides."""

    def __init__(self, workers: int, seed: int = 0) -> None:
        self.n_calls = 0
        self._random = random.Random(seed)
        self._waiting: list[tuple[bytes, Future[Any]]] = []
        self._ready = threading.Condition()
        self._closed = False
        self._threads = [threading.Thread(target=self._work) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._ready:
            self.n_calls += 1
            self._waiting.append((pickle.dumps((call, args, kwargs)), future))
            self._ready.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                place = self._random.randrange(len(self._waiting))
                data, future = self._waiting.pop(place)
            call, args, kwargs = pickle.loads(data)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(pickle.loads(pickle.dumps(call(*args, **kwargs))))
            except Exception as error:
                future.set_exception(error)
