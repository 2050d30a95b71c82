# SPDX-License-Identifier: Apache-2.0
"""Choices that can be swept: those of a protocol, by the name of its key, and the strength of a corruption."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calipers import registry
from calipers.errors import UsageError, did_you_mean
from calipers.metrics.contract import MetricPlan
from calipers.oracles.corruption import KINDS, checked
from calipers.protocol import Protocol

Value = float | int | str
Change = Callable[[Protocol, MetricPlan, Any], tuple[Protocol, MetricPlan]]


def _option(name: str) -> Change:
    def change(protocol: Protocol, plan: MetricPlan, value: Any) -> tuple[Protocol, MetricPlan]:
        return protocol, replace(plan, options={**plan.options, name: value})

    return change


def _threshold(protocol: Protocol, plan: MetricPlan, value: Any) -> tuple[Protocol, MetricPlan]:
    return protocol, replace(plan, options={**plan.options, "thresholds": (float(value),)})


def _least_area(protocol: Protocol, plan: MetricPlan, value: Any) -> tuple[Protocol, MetricPlan]:
    """Count objects of at least this area only; others are ignored, as in COCO."""
    name = f"from {float(value):g}"
    sizes = {**protocol.sizes, name: (float(value), math.inf)}
    return replace(protocol, sizes=sizes), replace(plan, options={**plan.options, "size": name})


CHOICES: Mapping[str, tuple[str, Change]] = {
    "threshold": ("threshold of the criterion", _threshold),
    "score_cut": ("score from which predictions count", _option("score_cut")),
    "least_area": ("smallest area that counts (px²)", _least_area),
    "max_dets": ("predictions that count, per image and class", _option("max_dets")),
    "criterion": ("criterion", _option("criterion")),
    "assignment": ("assignment", _option("assignment")),
    "interpolation": ("interpolation", _option("interpolation")),
    "average": ("average", _option("average")),
    "classes": ("classes", _option("classes")),
    "ties": ("ties", _option("ties")),
}
OWN = ("score_cut",)  # what a metric with a matching of its own also knows


def check_choice(name: str, values: Sequence[Value]) -> None:
    """Raise for an unknown choice, or for values that it cannot have."""
    if not values:
        raise UsageError(f"no values for {name!r}")
    if len(set(values)) < len(values):
        raise UsageError(f"{name}: values that differ, got {list(values)!r}")
    if name in CHOICES:
        if name in ("criterion", "assignment"):
            for value in values:
                registry.check(name, str(value))
        return
    kind, sign, parameter = name.partition(".")
    if not sign or kind not in KINDS:
        known_names = [*CHOICES, *(f"{kind}.<parameter>" for kind in KINDS)]
        raise UsageError(f"no choice {name!r} to sweep; {did_you_mean(name, known_names)}")
    for value in values:
        others = {"size": 0.2} if kind == "random-boxes" and parameter != "size" else {}
        checked(kind, {**others, parameter: float(value)})


def is_corruption(name: str) -> bool:
    """Return whether a choice is the strength of a corruption."""
    return name not in CHOICES


def label_of(name: str) -> str:
    """Return a choice in words."""
    if name in CHOICES:
        return CHOICES[name][0]
    kind, _, parameter = name.partition(".")
    return f"{kind.replace('-', ' ')}, {parameter}"


def changed(protocol: Protocol, plan: MetricPlan, choices: Mapping[str, Value]) -> tuple[Protocol, MetricPlan]:
    """Return the protocol and the plan of a metric with other choices."""
    for name, value in choices.items():
        if registry.own_matching(plan.kind) and name not in OWN:
            raise UsageError(f"{plan.name} has a matching of its own, on which {name!r} has no effect")
        protocol, plan = CHOICES[name][1](protocol, plan, value)
    return protocol, plan
