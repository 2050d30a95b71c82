# SPDX-License-Identifier: Apache-2.0
"""The ordered map: a function over items, on any executor, its results in the order of the items.

`in_order` is called by `evaluation.collect` (blocks of images), `maps.examine` (samples),
`stability.evidence` (bags), `sensitivity.sweep` (runs) and `studies.steps` (steps). What is reduced
over items is reduced by the caller, in the order in which results arrive here, so that no result
depends on the number of workers or on which of them was first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from calipers.engine.signals import never, patient_interrupts, signals_later
from calipers.errors import CalipersError, UsageError, shown

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from calipers.engine.store import Store

LONGEST_PART = 41  # characters: two whole numbers of 64 bits
Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerDied(CalipersError):
    """The work on an item ends its process, whatever else runs.

    `in_order` says which ``item`` it was; callers know its name and tell the user.
    """

    exit_code = 2

    def __init__(self, how: str) -> None:
        super().__init__(f"the worker died ({how}), also when nothing else ran")
        self.how = how
        self.item = -1


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``number`` of ``total``, counted from 1: a run of neighbouring items."""

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """Read ``2/8``."""
        number, slash, total = text.partition("/")
        is_number = number.isdecimal() and total.isdecimal() and len(text) <= LONGEST_PART
        if not slash or not is_number:
            raise UsageError(f"a part is written as 2/8, the second of eight; not {shown(text)}")
        part = cls(int(number), int(total))
        if not 1 <= part.number <= part.total:
            raise UsageError(f"parts are counted from 1 to their number; there is no part {text}")
        return part

    def bounds(self, n_items: int) -> tuple[int, int]:
        """Return the first item of the part, and the one after its last; parts differ in length by
        one item at most.
        """
        first = (self.number - 1) * n_items // self.total
        return first, self.number * n_items // self.total

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int = 1,
    executor: Executor | None = None,
    ahead: int | None = None,
    store: Store | None = None,
    aside: Callable[[WorkerDied], Result] | None = None,
) -> Iterator[Result]:
    """Yield the work on every item in the order of the items, whichever is done first.

    Parameters
    ----------
    workers
        Threads to use when no executor is given; 1 works in this thread.
    executor
        Where the work runs instead: processes, a cluster. Work, items and results are pickled then.
    ahead
        How many items may be under way or wait for their turn, which bounds the memory; all if left
        out.
    store
        Finished results are read from there, and new ones are written to it.
    aside
        Gives the result of an item that ends its worker; without it `WorkerDied` is raised.

    Notes
    -----
    With a store, the first interrupt (Ctrl-C) waits for the item whose turn it is and stores it;
    the second one stops at once.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise UsageError(
            f"executor takes calls by its method submit, which {shown(executor)} lacks"
        )
    if store is not None and not callable(getattr(store, "wants", None)):
        raise UsageError(f"store is a Store of finished results, not {shown(store)}")
    queue = _Queue(work, store, aside)
    pool: AbstractContextManager[Executor | None] = nullcontext(executor)
    if executor is None and workers > 1:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(workers)
    stop = patient_interrupts() if store is not None else nullcontext(never)
    with pool as running, stop as interrupted:
        try:
            numbers = count()  # enumerate would hold on to an item while the next one is made
            for item in items:
                k = next(numbers)
                if store is not None and not store.wants(k):
                    continue
                queue.add(k, item, running)
                del item
                if running is None or (ahead is not None and len(queue) >= ahead):
                    yield queue.next()
                    interrupted()
            while len(queue):
                yield queue.next()
                interrupted()
            if store is not None:
                store.flush()
        finally:  # after an error or an interrupt the remaining items are not needed
            queue.cancel()


def threads_here(jobs: int, executor: Executor | None) -> int:
    """Return how many threads work that stays in this process may use: ``jobs``, unless they are
    workers on other machines.
    """
    return jobs if executor is None or getattr(executor, "is_local", False) else 1


def smallest_fatal(
    work: Callable[[Item], Any],
    item: Item,
    halves: Callable[[Item], Sequence[Item]],
    executor: Executor,
) -> Item:
    """Return the smallest piece of an item whose work ends its process, as that of the item does.

    Parameters
    ----------
    halves
        Cuts a piece in two; nothing comes back for one that cannot be cut.
    executor
        One that outlives its workers, and raises `WorkerDied`.
    """
    while True:
        for piece in halves(item):
            try:
                _outcome(_begun(executor, work, piece))
            except WorkerDied:
                item = piece
                break
        else:  # it cannot be cut, or its halves do no harm alone
            return item


class _Queue(Generic[Item, Result]):
    """Results in the order of their items: under way, or read from a store."""

    def __init__(
        self,
        work: Callable[[Item], Result],
        store: Store | None,
        aside: Callable[[WorkerDied], Result] | None,
    ) -> None:
        self.work, self.store, self.aside = work, store, aside
        self.run = token_hex(8)  # tells these results from those of another run
        self.entries: deque[tuple[int, Callable[[], Result], Future[Any] | None]] = deque()

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, k: int, item: Item, executor: Executor | None) -> None:
        """Begin the work on an item, unless the store has its result."""
        future = None
        if self.store is not None and k in self.store:
            result: Callable[[], Result] = _stored(self.store, k)
        elif executor is None:
            result = _later(self.work, item)
        else:
            ticket = self.run, k
            future = _begun(executor, partial(_delivery, self.work, ticket), item)
            result = partial(_delivered, future, ticket)
        self.entries.append((k, result, future))

    def next(self) -> Result:
        """Return the result of the item whose turn it is; new ones go into the store."""
        k, result, _ = self.entries.popleft()
        try:
            value = result()
        except WorkerDied as error:
            error.item = k
            if self.aside is None:
                raise
            value = self.aside(error)
        if self.store is not None:
            self.store.put(k, value)
        return value

    def cancel(self) -> None:
        """Give up what is still under way."""
        for _, _, future in self.entries:
            if future is not None:
                with signals_later():
                    future.cancel()


@dataclass(frozen=True, slots=True)
class TicketedResult(Generic[Result]):
    """A result with its ticket: of which run and which item it is."""

    ticket: tuple[str, int]
    result: Result


def _delivery(
    work: Callable[[Item], Result], ticket: tuple[str, int], item: Item
) -> TicketedResult[Result]:
    """Do the work on an item, wherever the executor runs it."""
    return TicketedResult(ticket, work(item))


def _delivered(future: Future[TicketedResult[Result]], ticket: tuple[str, int]) -> Result:
    """Wait for a result, and raise unless it is that of this item in this run.

    An executor is code of others: one that mixes up its results would change numbers silently.
    """
    delivery: Any = _outcome(future)
    # Known by its name: a worker may have loaded the class by itself.
    if type(delivery).__name__ != "TicketedResult" or not hasattr(delivery, "ticket"):
        raise UsageError(
            f"executor returned {shown(delivery)} instead of the result of item {ticket[1] + 1}: "
            "its method submit has to call the function with its arguments and return a Future "
            "of what the function returns"
        )
    if delivery.ticket != ticket:
        run, k = delivery.ticket
        owner = "this run" if run == ticket[0] else "another run"
        raise UsageError(
            f"executor returned the result of item {k + 1} of {owner} instead of that of item "
            f"{ticket[1] + 1}: every call of its method submit has a result of its own"
        )
    return cast("Result", delivery.result)


def _begun(executor: Executor, work: Callable[[Item], Result], item: Item) -> Future[Result]:
    """Give an item to an executor."""
    with signals_later():
        try:
            future = executor.submit(work, item)
        except (TypeError, AttributeError, RuntimeError) as error:
            kind = type(error).__name__
            raise UsageError(f"executor does not take the work: {kind}: {error}") from error
    if not callable(getattr(future, "add_done_callback", None)):
        raise UsageError(f"executor.submit returns a Future, not {shown(future)}")
    return future


def _outcome(future: Future[Result]) -> Result:
    """Wait for the result of a future.

    Signals end the waiting, but reach this thread only while it has no lock of the future: its
    worker could not deliver, and so never end.
    """
    arrival = Lock()
    arrival.acquire()
    with signals_later():
        future.add_done_callback(lambda _: arrival.release())
    arrival.acquire()
    with signals_later():
        try:
            return future.result()
        except Exception as error:
            from concurrent.futures import CancelledError  # late: most runs need no executor

            if isinstance(error, CancelledError):
                raise UsageError("executor cancelled work that is still needed") from error
            raise


def _later(work: Callable[[Item], Result], item: Item) -> Callable[[], Result]:
    return lambda: work(item)


def _stored(store: Store, k: int) -> Callable[[], Any]:
    return lambda: store.get(k)
