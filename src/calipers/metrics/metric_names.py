# SPDX-License-Identifier: Apache-2.0
"""Metrics by their names: ``AP@0.4``, ``F1@iop:0.25#0.3``, ``FROC@1``.

A name says what a metric is: ``NAME ["/" part] ["@" [criterion ":"] threshold] ["#" score-cut]``.
`named_plan` turns it into the plan that a protocol would have for it, so that ``--metrics`` and the
terms of a weighted sum need no table. The words before the ``@`` are in the facts of the metrics
(`Facts.short`); the number behind it is the option that the metric claims there, a threshold for
most and the rate of false alarms for FROC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from calipers import registry
from calipers.errors import UsageError, did_you_mean
from calipers.metrics.base import Facts, MetricPlan

# Words behind the @ that name a criterion otherwise than the registry does.
CRITERION_WORDS = {"centre": "point-in-hull", "center": "point-in-hull", "iou": "box-iou"}
OF_COCO = re.compile(r"(?P<word>m?AP)(?P<number>[1-9]\d)")  # AP50 is AP@0.5
# A name in two: the word, and what stands behind it, also the digits of AP50.
WORD = re.compile(r"(.*?)((?:(?<=ap)[1-9]\d)?(?:[@#].*)?)", re.IGNORECASE | re.DOTALL)
STEP = 0.05  # of a range of thresholds such as 0.5:0.95


@cache
def short_names() -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Return the words that metrics begin with: word -> kind and options."""
    words: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for kind in registry.METRICS:
        for word, options in registry.resolve("metric", kind).facts.short.items():
            words[word] = kind, options
    return words


@cache
def words_in_use() -> Mapping[str, str]:
    """Return what metrics are called, in small letters, here and elsewhere: -> the word here."""
    words: dict[str, str] = {}
    for kind in registry.METRICS:
        words |= registry.resolve("metric", kind).facts.synonyms
    words |= {word: word for word in short_names()}
    return {word.lower(): own for word, own in words.items()}


def hint_on(name: str, neighbours: Sequence[str] = ()) -> str:
    """Return a hint on a name that no metric has.

    Examples
    --------
    >>> from calipers.metrics.metric_names import hint_on
    >>> hint_on("recall@0.5")
    "did you mean 'sensitivity@0.5'?"
    """
    word, rest = WORD.fullmatch(name).groups()  # type: ignore[union-attr]  # fits any text
    own = words_in_use().get(word.lower(), word) + rest
    if own != name:
        return f"did you mean {own!r}?"
    # The word alone, unless the whole name is near to that of a metric that is there.
    hint = did_you_mean(name, list(neighbours)) if neighbours else ""
    return hint if "did you mean" in hint else did_you_mean(word, list(short_names()))


def hint_among(name: str, names: Sequence[str]) -> str:
    """Return a hint on a name that is none of ``names``, such as those of a protocol.

    Examples
    --------
    >>> from calipers.metrics.metric_names import hint_among
    >>> hint_among("AP50", ["AP", "AP@0.5"]), hint_among("precision@0.5", ["AP", "PPV@0.5"])
    ("did you mean 'AP@0.5'?", "did you mean 'PPV@0.5'?")
    """
    word, rest = WORD.fullmatch(name).groups()  # type: ignore[union-attr]  # fits any text
    own = words_in_use().get(word.lower(), word)
    others = [own + rest]
    if rest.isdigit():  # AP50 is AP@0.5
        others.append(f"{own}@{int(rest) / 100:g}")
    elif re.fullmatch(r"@0\.\d\d?", rest):
        others.append(f"{own}{round(100 * float(rest[1:]))}")
    for other in others:
        if other in names and other != name:
            return f"did you mean {other!r}?"
    return did_you_mean(name, names)


def named_plan(
    name: str, thresholds: Sequence[float], neighbours: Sequence[str] = ()
) -> MetricPlan:
    """Return the plan of a metric that is asked for by its name.

    Parameters
    ----------
    thresholds
        Of the protocol. A name without a threshold means all of them for a mean over thresholds,
        such as AP, and the first one for any other metric; a range that begins and ends with them
        means them too.
    neighbours
        Names of other metrics, for the hint on an unknown one.

    Examples
    --------
    >>> from calipers.metrics.metric_names import named_plan
    >>> plan = named_plan("F2@iop:0.25#0.3", (0.5,))
    >>> plan.kind, plan.options["criterion"], plan.options["thresholds"]
    ('f-beta', 'iop', [0.25])
    """
    head, _, cut = name.partition("#")
    word, at, claim = head.partition("@")
    if percent := OF_COCO.fullmatch(head):
        word, at, claim = percent["word"], "@", f"0.{percent['number']}"
    words = short_names()
    if word not in words:
        raise UsageError(f"no metric {name!r}; {hint_on(name, neighbours)}")
    kind, short_options = words[word]
    options: dict[str, Any] = dict(short_options)
    facts: Facts = registry.resolve("metric", kind).facts
    own_matching = registry.own_matching(kind)
    if at and not claim:
        raise UsageError(f"a threshold is missing behind the @ of {name!r}")
    if claim:
        options |= _claimed(name, claim, facts, thresholds, own_matching=own_matching)
    if cut:
        options["score_cut"] = _number(name, cut)
    if not own_matching and "thresholds" not in options and not facts.over_thresholds:
        options["thresholds"] = [float(thresholds[0])]
    return MetricPlan(name, kind, options)


def _claimed(
    name: str, claim: str, facts: Facts, thresholds: Sequence[float], *, own_matching: bool
) -> dict[str, Any]:
    """Return the options that the words behind the @ stand for."""
    if own_matching:
        if facts.claim != "at":
            raise UsageError(f"{name!r}: this metric has no threshold, leave out @{claim}")
        return {"at": claim if _is_word(claim) else _number(name, claim)}
    words = claim.split(":")
    options: dict[str, Any] = {}
    if _is_word(words[0]):
        criterion = words.pop(0)
        criterion = CRITERION_WORDS.get(criterion, criterion)
        options["criterion"] = registry.check("criterion", criterion)
    numbers = [_number(name, word) for word in words]
    if len(numbers) > 2 or (len(numbers) == 2 and facts.claim != "thresholds"):
        raise UsageError(f"{name!r}: one number stands behind the @, or the two ends of a range")
    if len(numbers) == 2:
        numbers = _range(name, numbers[0], numbers[1], thresholds)
    if numbers:
        options[facts.claim] = numbers
    return options


def _range(name: str, low: float, high: float, thresholds: Sequence[float]) -> list[float]:
    """Return the thresholds from ``low`` to ``high``: those of the protocol, or steps of 0.05."""
    if not low < high:
        raise UsageError(f"{name!r}: the range {low:g}:{high:g} does not ascend")
    if np.isclose(thresholds[0], low) and np.isclose(thresholds[-1], high):
        return [float(value) for value in thresholds]
    return list(np.linspace(low, high, round((high - low) / STEP) + 1).tolist())


def _is_word(text: str) -> bool:
    return text[:1].isalpha()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        hint = f"; did you mean {name.replace(',', '.')!r}?" if "," in text else ""
        raise UsageError(f"{name!r}: expected a number, got {text!r}{hint}") from None
