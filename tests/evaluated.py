"""Evaluations of the demo cohort, made once per process for all tests that only look at them."""

from __future__ import annotations

from typing import Any

import calipers as cal

_made: dict[str, cal.Evaluation] = {}


def evaluated_demo(protocol: str | cal.Protocol = "overview", **options: Any) -> cal.Evaluation:
    """Return ``cal.evaluate(cal.demo_cohort(), protocol, **options)``; equal calls share a result.

    A result is frozen, so that no test can change it for another one. What is tested by evaluating
    twice, or with something patched, calls `cal.evaluate` itself.
    """
    key = repr((protocol, sorted(options.items())))
    if key not in _made:
        _made[key] = cal.evaluate(cal.demo_cohort(), protocol, **options)
    return _made[key]
