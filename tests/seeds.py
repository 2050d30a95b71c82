"""Seeds and kinds of random data, of which a run by default takes some and `make test-slow` the
rest.

A test of its own costs about 5 ms of set-up, collection in both processes and reports, whatever it
does. Where a thousand small comparisons differ by their seed alone, `looped` makes them one test.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

SHOWN = 3  # failures of one loop
Test = Callable[..., None]


def looped(name: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test once for every value of one of its arguments, as one test.

    All values are tried. What failed says for which value: ``seed = 17`` stands below the error.
    Fixtures are set up once for the whole loop, so a test that writes to ``tmp_path`` or patches
    something takes `parametrize` instead.
    """
    values = list(values)
    assert values

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def loop(*args: Any, **keywords: Any) -> None:
            _try_all(functools.partial(test, *args, **keywords), name, values)

        return _without_argument(loop, test, name)

    return decorate


def looped_seeds(n: int, *, default: int) -> Callable[[Test], Test]:
    """Run a test for n values of its ``seed`` in a loop, those from ``default`` on as a second test
    that is marked as slow: see `seeds` for when.
    """

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def loop(*args: Any, batch: range, **keywords: Any) -> None:
            _try_all(functools.partial(test, *args, **keywords), "seed", batch)

        without = _without_argument(loop, test, "seed", instead="batch")
        return pytest.mark.parametrize("batch", batches(n, default=default))(without)

    return decorate


def _try_all(test: Test, name: str, values: Sequence[Any]) -> None:
    failures = []
    for value in values:
        try:
            test(**{name: value})
        except Exception as error:
            error.add_note(f"{name} = {value!r:.200}")
            failures.append(error)
        except pytest.skip.Exception as skipped:
            # A package that is missing skips the first value; later ones would hide the rest.
            if value != values[0]:
                raise AssertionError(f"{name} = {value!r:.200} skips all that follow") from skipped
            raise
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"{len(failures)} values of {name} failed", failures[:SHOWN])


def _without_argument(loop: Test, test: Test, name: str, instead: str | None = None) -> Test:
    """Hide the argument of a loop from pytest, which would look for a fixture of its name."""
    signature = inspect.signature(test)
    parameters = [p for p in signature.parameters.values() if p.name != name]
    assert len(parameters) < len(signature.parameters), f"the test has no argument {name}"
    if instead is not None:
        parameters.append(inspect.Parameter(instead, inspect.Parameter.KEYWORD_ONLY))
    loop.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return loop


def seeds(n: int, *, default: int) -> list[Any]:
    """Return n seeds for `parametrize`, those from ``default`` on marked as slow.

    For comparisons in which the peer takes nearly all of the time, and where a further seed of the
    same kind has not told anything new. A test that uses it says what the peer costs.
    """
    assert 0 < default < n
    later = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(default, n)]
    return [*range(default), *later]


def batches(n: int, *, default: int) -> list[Any]:
    """Return two batches of n seeds for `parametrize`, the second marked as slow: for tests that
    compare many small sets in a loop.
    """
    assert 0 < default < n
    rest = pytest.param(range(default, n), marks=pytest.mark.slow, id=f"further {n - default}")
    return [pytest.param(range(default), id=f"first {default}"), rest]


def in_turn(cases: Iterable[Any], kinds: Iterable[Any], *, default: int) -> list[Any]:
    """Return every pair of a case and a kind for `parametrize`; by default a case meets ``default``
    kinds, the next case the kinds after these, and so on; other pairs are marked as slow.

    For properties of many cases on many kinds of data: every case and every kind is seen in every
    run, and neighbours in the list of cases, which are alike, together see all kinds.
    """
    kinds = list(kinds)
    assert 0 < default < len(kinds)
    pairs = []
    for number, case in enumerate(cases):
        for place, kind in enumerate(kinds):
            is_due = (place - number * default) % len(kinds) < default
            marks = [] if is_due else [pytest.mark.slow]
            pairs.append(pytest.param(case, kind, marks=marks, id=f"{case}-{kind}"))
    return pairs
