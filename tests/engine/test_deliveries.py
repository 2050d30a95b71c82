"""An executor is code of others: results that are not those of their items are refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

import calipers as cal
from calipers.engine.ordered_map import in_order
from calipers.errors import UsageError


class Inline:
    """An executor that works at once and hands on results as ``mix`` says."""

    def __init__(self, mix: Callable[[list[Any], Any], Any]) -> None:
        self.results: list[Any] = []
        self.mix = mix

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        result = call(*args)
        future.set_result(self.mix(self.results, result))
        self.results.append(result)
        return future


def squares(executor: Any) -> list[int]:
    return list(in_order(lambda k: k * k, range(5), executor=executor))


def test_results_of_their_items_are_taken() -> None:
    assert squares(Inline(lambda earlier, result: result)) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        (lambda earlier, result: None, "executor returned None instead of the result of item 1"),
        (lambda earlier, result: result.result, "executor returned 0 instead of the result"),
        (lambda earlier, result: [result], "instead of the result of item 1"),
        (
            lambda earlier, result: [*earlier, result][0],
            "returned the result of item 1 of this run instead of that of item 2",
        ),
    ],
)
def test_other_results_are_refused(mix: Callable[..., Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        squares(Inline(mix))


def test_results_of_another_run_are_refused() -> None:
    first = Inline(lambda earlier, result: result)
    squares(first)
    late = iter(first.results)
    with pytest.raises(UsageError, match="the result of item 1 of another run"):
        squares(Inline(lambda earlier, result: next(late)))


def test_what_is_no_executor_is_named() -> None:
    class NoFuture:
        def submit(self, call: Callable[..., Any], *args: Any) -> Any:
            return call(*args)

    class Closed:
        def submit(self, call: Callable[..., Any], *args: Any) -> Any:
            raise RuntimeError("cannot schedule new futures after shutdown")

    class Cancelling:
        def submit(self, call: Callable[..., Any], *args: Any) -> Any:
            future: Future[Any] = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    for executor, message in (
        (NoFuture(), "executor.submit returns a Future, not"),
        (Closed(), "executor does not take the work: RuntimeError: cannot schedule"),
        (Cancelling(), "executor cancelled work that is still needed"),
    ):
        with pytest.raises(UsageError, match=message):
            squares(executor)


def test_an_evaluation_refuses_results_of_other_blocks() -> None:
    cohort = cal.demo_cohort()
    swapped = Inline(lambda earlier, result: [*earlier, result][0])
    with pytest.raises(UsageError, match="returned the result of item 1"):
        cal.evaluate(cohort, "overview", executor=swapped)
