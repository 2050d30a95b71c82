"""Evaluations of the demo cohort and what their pages show, made once per process for all tests
that only look at them.
"""

from __future__ import annotations

from typing import Any

import calipers as cal
from calipers.report.context import Context, context_of

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
    key = (id(evaluation), repr(sorted(choices.items())))
    if key not in _shown:  # with the evaluation, whose id nobody else gets then
        _shown[key] = evaluation, context_of(evaluation, **choices)
    return _shown[key][1]
