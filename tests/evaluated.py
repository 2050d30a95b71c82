"""Evaluations of the demo cohort and what their pages show, made once per process for all tests
that only look at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

import calipers as cal
from calipers.synthetic import demo

if TYPE_CHECKING:
    from calipers.report.context import Context

_made: dict[str, cal.Evaluation] = {}
_shown: dict[tuple[int, str], tuple[cal.Evaluation, Context]] = {}


def evaluated_demo(protocol: str | cal.Protocol = "overview", **options: Any) -> cal.Evaluation:
    """Return ``cal.evaluate(cal.demo_cohort(), protocol, **options)``; equal calls share a result.

    A result is frozen, so that no test can change it for another one. What is tested by evaluating
    twice, or with something patched, calls `cal.evaluate` itself.
    """
    key = repr((protocol, sorted(options.items())))
    if key not in _made:
        _made[key] = cal.evaluate(cal.demo_cohort(), protocol, **options)
    return _made[key]


def shown(evaluation: cal.Evaluation, **choices: Any) -> Context:
    """Return ``context_of(evaluation, **choices)``; equal calls with one evaluation share it."""
    from calipers.report.context import context_of

    key = (id(evaluation), repr(sorted(choices.items())))
    if key not in _shown:  # with the evaluation, whose id nobody else gets then
        _shown[key] = evaluation, context_of(evaluation, **choices)
    return _shown[key][1]


def remember_demo_cohorts() -> None:
    """Make every demo cohort once per process, for whoever asks: drawing one takes 70 ms, and some
    three hundred are asked for. A test that draws one again calls ``demo_cohort.__wrapped__``.
    """
    make: Callable[..., cal.Cohort] = demo.demo_cohort
    cohorts: dict[int, cal.Cohort] = {}

    @wraps(make)
    def remembered(*args: Any, **options: Any) -> cal.Cohort:
        seed = options.get("seed", args[0] if args else 0)
        is_usual = len(args) + len(options) <= 1 and set(options) <= {"seed"} and type(seed) is int
        if not is_usual:
            return make(*args, **options)
        if seed not in cohorts:
            cohorts[seed] = make(seed)
            for array in _arrays(cohorts[seed]):
                array.flags.writeable = False  # no test can change it for another one
        return cohorts[seed]

    demo.demo_cohort = remembered


def _arrays(cohort: cal.Cohort) -> Iterator[np.ndarray]:
    tables = (cohort.images, cohort.references, *cohort.models.values())
    columns = [getattr(table, part.name) for table in tables for part in fields(table)]
    columns += cohort.images.groups.values()
    yield from (column for column in columns if isinstance(column, np.ndarray))
