# SPDX-License-Identifier: Apache-2.0
"""Choices that a sweep can vary: keys of a protocol, and the strength of a corruption.

A choice of a protocol has the name of its key (``threshold``). The strength of a corruption is
written ``kind.parameter`` (``position-noise.sigma``). `calipers.sensitivity.sweeps` checks the
choices here, then asks for the protocol or for the corruptions of every point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calipers import registry
from calipers.errors import UsageError, did_you_mean
from calipers.metrics.contract import MetricPlan
from calipers.oracles import KINDS
from calipers.oracles.described import Corruption, check_corruption
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
    """Count only objects of at least this area; smaller ones are ignored, as in COCO."""
    name = f"from {float(value):g}"
    sizes = {**protocol.sizes, name: (float(value), math.inf)}
    return replace(protocol, sizes=sizes), replace(plan, options={**plan.options, "size": name})


def _max_dets(protocol: Protocol, plan: MetricPlan, value: Any) -> tuple[Protocol, MetricPlan]:
    if not float(value).is_integer() or value < 1:
        raise UsageError(f"max_dets must be a whole number from 1, not {value!r}")
    return protocol, replace(plan, options={**plan.options, "max_dets": int(value)})


CHOICES: Mapping[str, tuple[str, Change]] = {
    "threshold": ("threshold of the criterion", _threshold),
    "score_cut": ("score from which predictions count", _option("score_cut")),
    "least_area": ("smallest area that counts (px²)", _least_area),
    "max_dets": ("predictions that count, per image and class", _max_dets),
    "criterion": ("criterion", _option("criterion")),
    "assignment": ("assignment", _option("assignment")),
    "interpolation": ("interpolation", _option("interpolation")),
    "average": ("average", _option("average")),
    "classes": ("classes", _option("classes")),
    "ties": ("ties", _option("ties")),
}
SPREADS = {
    "position-noise": "standard deviation (sides of the box)",
    "aspect-noise": "standard deviation of ln(aspect)",
}
STRENGTHS = {  # parameters of corruptions: what the number means
    "sigma": "standard deviation of ln(side)",
    "noise": "standard deviation of the place (sides of the box)",
    "bias": "distance (sides of the box)",
    "mean": "copies per box, mean",
    "p": "probability",
    "size": "side (share of the image)",
    "share": "side (share of the image)",
}
OWN = ("score_cut",)  # the only choice that also affects a metric with its own matching
# Choices whose values are numbers; the values of all others are words.
NUMBERS = ("threshold", "score_cut", "least_area", "max_dets")


def check_choice(name: str, values: Sequence[Value]) -> None:
    """Raise for an unknown choice, or for values that it cannot have.

    The range of a corruption's parameter is checked by `steps_of`.
    """
    if isinstance(values, str) or not len(values):
        raise UsageError(f"{name} needs a list of values, not {values!r}")
    if len(set(values)) < len(values):
        raise UsageError(f"{name} needs values that differ, got {list(values)!r}")
    kind, sign, _ = name.partition(".")
    if name not in CHOICES and not (sign and kind in KINDS):
        known_names = [*CHOICES, *(f"{kind}.<parameter>" for kind in KINDS)]
        raise UsageError(f"no choice {name!r} to sweep; {did_you_mean(name, known_names)}")
    numeric = name in NUMBERS or is_corruption(name)
    for value in values:
        # bool is a number in Python, but True is no threshold.
        if numeric and (isinstance(value, str | bool) or not math.isfinite(value)):
            raise UsageError(f"the values of {name} are numbers, not {value!r}")
        if not numeric and not isinstance(value, str):
            raise UsageError(f"the values of {name} are words, not {value!r}")
        if name in ("criterion", "assignment"):
            registry.check(name, str(value))


def steps_of(choices: Mapping[str, Value]) -> list[Corruption]:
    """Return the corruptions of ``{"position-noise.sigma": 0.5}``.

    Two parameters of the same kind make one corruption.
    """
    parameters_of: dict[str, dict[str, float]] = {}
    for name, value in choices.items():
        kind, _, parameter = name.partition(".")
        parameters_of.setdefault(kind, {})[parameter] = float(value)
    return [check_corruption(kind, parameters, KINDS) for kind, parameters in parameters_of.items()]


def is_corruption(name: str) -> bool:
    """Return whether a choice is the strength of a corruption."""
    return name not in CHOICES


def label_of(name: str) -> str:
    """Return a choice in words, with its unit."""
    if name in CHOICES:
        return CHOICES[name][0]
    kind, _, parameter = name.partition(".")
    meaning = STRENGTHS[parameter]
    if parameter == "sigma" and kind in SPREADS:
        meaning = SPREADS[kind]
    return f"{kind.replace('-', ' ')}, {meaning}"


def apply_choices(
    protocol: Protocol, plan: MetricPlan, choices: Mapping[str, Value]
) -> tuple[Protocol, MetricPlan]:
    """Return the protocol and the plan of a metric with these choices made."""
    for name, value in choices.items():
        if registry.own_matching(plan.kind) and name not in OWN:
            raise UsageError(
                f"{plan.name} has a matching of its own, on which {name!r} has no effect"
            )
        protocol, plan = CHOICES[name][1](protocol, plan, value)
    criterion = registry.resolve(
        "criterion", plan.options.get("criterion", protocol.matching.criterion)
    )
    # Distances may have any threshold; an overlap is a share.
    if "threshold" in choices and not criterion.distance:
        threshold = float(choices["threshold"])
        if not 0 <= threshold <= 1:
            raise UsageError(
                f"overlaps lie in [0, 1]: {choices['threshold']} is no threshold; "
                "write 0.5 for 50 %"
            )
    return protocol, plan
