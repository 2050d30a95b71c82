# SPDX-License-Identifier: Apache-2.0
"""Corruptions as text: ``position-noise(sigma=0.5)``, and what their numbers may be."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from calipers.errors import UsageError, did_you_mean

Choice = float | bool
Kinds = Mapping[str, Callable[..., Any]]
READS = re.compile(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
WORDS = {"true": True, "false": False}


class Range(NamedTuple):
    """The numbers that a choice may be: ``low <= value <= high``."""

    low: float = 0.0
    high: float = math.inf
    whole: bool = False
    positive: bool = False  # 0 is not allowed

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        start = "above 0" if self.positive else f"from {self.low:g}"
        end = "" if math.isinf(self.high) else f" to {self.high:g}"
        return f"{kind} {start}{end}"

    def holds(self, value: Any) -> bool:
        """Return whether a value is one of these numbers."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            return False
        above = value > 0 if self.positive else value >= self.low
        return above and value <= self.high and (not self.whole or float(value).is_integer())


SHARE = Range(0, 1)
# The upper ends only keep boxes finite and memory bounded; no experiment comes near them.
RANGES: Mapping[str, Range] = {
    "sigma": Range(0, 20),
    "noise": Range(0, 20),
    "bias": Range(0, 1000),
    "mean": Range(0, 1000),
    "p": SHARE,
    "size": Range(0, 1, positive=True),
    "share": Range(0, 1, positive=True),
    "n": Range(0, 10_000, whole=True),
    "voxels": Range(0, 10**9, whole=True),
    "fraction": Range(0, 10),
    "radius": Range(0, 10_000),
    "distance": Range(0, 10_000),
    "x": Range(-10_000, 10_000, whole=True),
    "y": Range(-10_000, 10_000, whole=True),
    "z": Range(-10_000, 10_000, whole=True),
}


@dataclass(frozen=True)
class Corruption:
    """One kind with its choices."""

    kind: str
    choices: Mapping[str, Choice]

    def __str__(self) -> str:
        texts = [f"{name}={_number_text(value)}" for name, value in self.choices.items()]
        return f"{self.kind}({', '.join(texts)})"


def several(
    kind: str | Sequence[str], choices: Mapping[str, Choice], kinds: Kinds
) -> list[Corruption]:
    """Return the corruptions of one name with its choices, or of one or more texts."""
    if isinstance(kind, str) and "(" not in kind:
        return [check_corruption(kind, choices, kinds)]
    if choices:
        raise UsageError(
            "with several corruptions, write the choices behind each kind, such as "
            "position-noise(sigma=0.5)"
        )
    texts = [kind] if isinstance(kind, str) else list(kind)
    if not texts:
        raise UsageError(f"at least one corruption: {', '.join(kinds)}")
    return [parse_corruption(text, kinds) for text in texts]


def parse_corruption(text: str, kinds: Kinds) -> Corruption:
    """Return the corruption of ``position-noise(sigma=0.5)``."""
    match = READS.fullmatch(text)
    wrong = UsageError(f"a corruption reads like position-noise(sigma=0.5), not {text!r}")
    if match is None:
        raise wrong
    choices: dict[str, Choice] = {}
    for part in filter(None, (part.strip() for part in (match[2] or "").split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if name in choices:
            raise UsageError(f"{name} is given twice in {text!r}")
        try:
            choices[name] = WORDS[value.lower()] if value.lower() in WORDS else float(value)
        except ValueError:
            raise wrong from None
        if not sign or not name:
            raise wrong
    return check_corruption(match[1], choices, kinds)


def check_corruption(kind: str, choices: Mapping[str, Choice], kinds: Kinds) -> Corruption:
    """Return a corruption whose kind and choices are known and in range."""
    if kind not in kinds:
        raise UsageError(f"no corruption {kind!r}; {did_you_mean(kind, kinds)}")
    options = parameters(kind, kinds)
    for name, value in choices.items():
        if name not in options:
            raise UsageError(f"{kind} has no {name!r}; {did_you_mean(name, options)}")
        if isinstance(options[name].default, bool):
            if not isinstance(value, bool):
                raise UsageError(f"{kind}: {name} is True or False, not {value!r}")
        elif not RANGES[name].holds(value):
            raise UsageError(f"{kind}: {name} is {RANGES[name]}, not {value!r}")
    missing = [
        name for name, one in options.items() if one.default is one.empty and name not in choices
    ]
    if missing:
        raise UsageError(f"{kind} needs {', '.join(missing)}")
    return Corruption(kind, dict(choices))


def parameters(kind: str, kinds: Kinds) -> dict[str, inspect.Parameter]:
    """Return the choices that a kind has."""
    every = inspect.signature(kinds[kind]).parameters.values()
    return {one.name: one for one in every if one.kind == one.KEYWORD_ONLY}


def _number_text(value: Choice) -> str:
    """Return a number as short as it is exact."""
    if isinstance(value, bool):
        return str(value)
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))
