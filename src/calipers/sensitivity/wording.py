# SPDX-License-Identifier: Apache-2.0
"""Configurations, choices and shares in words, for the terminal, the page and the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OWN_WORDS = {
    ("average", "pooled"): "all classes pooled",
    ("average", "classes"): "mean of classes",
    ("classes", "within"): "matched within classes",
    ("classes", "ignore"): "classes ignored",
    ("score_cut", "none"): "no score cut",
    ("least_area", "0"): "all sizes",
}


def configuration_text(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in words: ``AP (criterion box-iou, threshold 0.5)``."""
    metric = str(configuration["metric"])
    others = [choice_text(name, value) for name, value in configuration.items() if name != "metric"]
    if not others:
        return metric
    return f"{metric} ({', '.join(others)})"


def configuration_label(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in few words: ``AP, box-iou at 0.5``."""
    rule = [
        str(configuration[name]) for name in ("criterion", "threshold") if name in configuration
    ]
    metric = str(configuration["metric"])
    if not rule:
        return metric
    return f"{metric}, {' at '.join(rule)}"


def choice_name(name: str) -> str:
    """Return the name of a choice in words."""
    return name.replace("_", " ")


def choice_text(name: str, value: Any) -> str:
    """Return the value of a choice in words: ``threshold 0.5``, ``classes ignored``."""
    return OWN_WORDS.get((name, str(value)), f"{choice_name(name)} {value}")


def change_text(name: str, old: Any, new: Any) -> str:
    """Return a change in words: ``metric F1 instead of AP``."""
    own_words = (name, str(old)) in OWN_WORDS or (name, str(new)) in OWN_WORDS
    old_text = choice_text(name, old) if own_words else str(old)
    return f"{choice_text(name, new)} instead of {old_text}"


def percent_text(share: float) -> str:
    """Return ``34 %``; only exactly 0 is 0 %, and only exactly 1 is 100 %."""
    if 0 < share < 0.005:
        return "< 1 %"
    if 0.995 <= share < 1:
        return "> 99 %"
    return f"{100 * share:.0f} %"
