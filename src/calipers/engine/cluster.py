# SPDX-License-Identifier: Apache-2.0
"""The executor of a Dask cluster: ``--engine dask``, with ``--scheduler`` or on this machine.

Dask is an extra, imported here only. The engine is Dask's: it retries what lost workers were
working on, and moves results. Workers need Calipers of the same version and the folder of the
inputs under the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from calipers.engine.ordered_map import WorkerDied
from calipers.errors import InputError, UsageError

INSTALL = 'Dask is needed for --engine dask: pip install "calipers[dask]"'
PATIENCE = 30  # seconds until a scheduler has to answer


class Cluster(NamedTuple):
    """An executor and how many items it works on at a time."""

    executor: Executor
    n_workers: int


@contextmanager
def dask_cluster(scheduler: str | None = None, *, workers: int = 1) -> Iterator[Cluster]:
    """Give the executor of a cluster; it is left as it was, or ended if it was made here.

    Parameters
    ----------
    scheduler
        The address of a scheduler, such as ``tcp://10.0.0.1:8786``; None starts processes here.
    workers
        Number of processes on this machine, when there is no scheduler.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UsageError(INSTALL) from None
    with ExitStack() as stack:
        if scheduler is None:
            # No dashboard: Calipers opens no port but those between its own processes.
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        else:
            client = stack.enter_context(_connected(Client, scheduler))
        threads = client.nthreads()
        if not threads:
            raise InputError(
                "a cluster with workers",
                rule="no-workers",
                file=scheduler or "<local>",
                hint="start workers with: dask worker ADDRESS",
            )
        executor = _Tolerant(client.get_executor(pure=False))
        yield Cluster(executor, sum(threads.values()))


class _Tolerant(Executor):
    """The executor of a client, which says in our words that an item ended its workers.

    Dask gives an item up that was under way when several workers died.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin a call."""
        inner, outer = self._executor.submit(call, *args, **kwargs), Future[Any]()
        inner.add_done_callback(lambda future: _pass_on(future, outer))

        def cancel_with(future: Future[Any]) -> None:
            if future.cancelled():
                inner.cancel()

        # A call that nobody waits for any more need not run.
        outer.add_done_callback(cancel_with)
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster."""
        self._executor.shutdown(wait=wait, cancel_futures=cancel_futures)


def _pass_on(inner: Future[Any], outer: Future[Any]) -> None:
    """Give the outcome of one future to another."""
    from distributed import KilledWorker

    if outer.cancelled() or inner.cancelled():
        outer.cancel()
        return
    error = inner.exception()
    if isinstance(error, KilledWorker):
        error = WorkerDied("workers of the cluster, several times")
    if error is None:
        outer.set_result(inner.result())
    else:
        outer.set_exception(error)


def _connected(client: Any, scheduler: str) -> Any:
    try:
        return client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            "a Dask scheduler that answers",
            rule="no-scheduler",
            file=scheduler,
            value=lines[0],
            hint="start one with: dask scheduler; its address is tcp://HOST:8786",
        ) from None
