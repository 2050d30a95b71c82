# SPDX-License-Identifier: Apache-2.0
"""Configurations, choices and shares in words."""

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


def described(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in words: ``AP (criterion box-iou, threshold 0.5)``."""
    others = [said(name, value) for name, value in configuration.items() if name != "metric"]
    return (
        f"{configuration['metric']} ({', '.join(others)})"
        if others
        else str(configuration["metric"])
    )


def brief(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in few words: ``AP, box-iou at 0.5``."""
    place = " at ".join(
        str(configuration[name]) for name in ("criterion", "threshold") if name in configuration
    )
    return ", ".join(filter(None, (str(configuration["metric"]), place)))


def spoken(name: str) -> str:
    """Return the name of a choice in words."""
    return name.replace("_", " ")


def said(name: str, value: Any) -> str:
    """Return the value of a choice in words: ``threshold 0.5``, ``classes ignored``."""
    return OWN_WORDS.get((name, str(value)), f"{spoken(name)} {value}")


def instead(name: str, old: Any, new: Any) -> str:
    """Return a change in words: ``metric F1 instead of AP``."""
    own = any((name, str(value)) in OWN_WORDS for value in (old, new))
    return f"{said(name, new)} instead of {said(name, old) if own else old}"


def share(part: float) -> str:
    """Return ``34 %``; only none is 0 %, and only all is 100 %."""
    if 0 < part < 0.005 or 0.995 <= part < 1:
        return "< 1 %" if part < 0.5 else "> 99 %"
    return f"{100 * part:.0f} %"
