# SPDX-License-Identifier: Apache-2.0
"""How many digits of a number are displayed.

Words of figures: short names, percentages, what a hit is, and what bands and whiskers are.

Words for units.

Estimates inside sentences: a value, and in brackets its interval or why it has none.

Numbers and names in words.

Marks and their legend.

Names that can be shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any
from unicodedata import normalize

from calipers.results.estimate import FLAGS, Estimate

SMALL, LARGE = 10, 100


def short_number(value: float) -> str:
    """Return a number for a reader: 0.123, 1.234, 12.3, 123; a count of two or more without
    decimals; empty if undefined.
    """
    if math.isnan(value):
        return ""
    if abs(value) >= LARGE or (abs(value) > 1 and value == round(value)):
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < SMALL else f"{value:.1f}"


def percent(share: float) -> str:
    """Return a share in percent, without the sign: 0, 0.2, 57, 99.8, 100.

    Only nothing is 0, and only all is 100: rounding never turns "almost" into "all".
    """
    whole = 100 * share
    if 0 < whole < 0.05:
        return "under 0.1"
    if 99.95 <= whole < 100:
        return "over 99.9"
    if 0 < whole < 1 or 99 < whole < 100:
        return f"{whole:.1f}"
    return f"{whole:.0f}"


def two_decimals(value: float) -> str:
    """Return a number with two decimals; what rounds to zero has no sign."""
    return f"{round(value, 2) + 0.0:.2f}"


LONGEST = 40  # characters of a name in a title
TAIL = 15  # of them from its end


def short_name(name: str, longest: int = LONGEST, tail: int = TAIL) -> str:
    """Return a name that fits a title; a long one loses its middle.

    Names of one family differ at their ends: versions and folds stand there.
    """
    if len(name) <= longest:
        return name
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


def percent_text(share: float) -> str:
    """Return ``84 %``, with a decimal near both ends; only 0 is 0 %, and only 1 is 100 %."""
    if share != share:
        return "undefined"
    value = 100 * share
    if 0 < value < 0.05:
        return "less than 0.1 %"
    if 99.95 <= value < 100:
        return "more than 99.9 %"
    return f"{value:.1f} %" if near_an_end(share) else f"{value:.0f} %"


def near_an_end(share: float) -> bool:
    """Return whether a tenth of a percent matters."""
    return 0 < share < 0.1 or 0.95 < share < 1


def why(estimate: Estimate) -> str:
    """Return why a value is undefined, in words; empty if it is defined."""
    if not math.isnan(estimate.value):
        return ""
    return str(estimate.reason).replace("_", " ")


def plural(name: str) -> str:
    """Return the plural of a column name: images, patients, studies."""
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return name[:-1] + "ies"
    return name + ("es" if name.endswith(("s", "x", "ch", "sh")) else "s")


def as_share(estimate: Estimate, faultless: str) -> str:
    """Return ``84 % (95 % interval 80 to 88 %)``.

    Parameters
    ----------
    estimate
        A share with a value; whoever may have none says so before.
    faultless
        What the bound on units without an error says (clopper-pearson-units), such as
        ``"{span} % of {units} are without a fault"``.
    """
    return _estimate_text(estimate, percent, " %", faultless)


def as_value(estimate: Estimate, faultless: str) -> str:
    """Return ``0.84 (95 % interval 0.80 to 0.88)``; ``faultless`` as in `as_share`."""
    return _estimate_text(estimate, two_decimals, "", faultless)


def interval_of(estimate: Estimate) -> str:
    """Return ``95 % interval``."""
    return f"{100 * estimate.level:g} % interval"


def reason_of(estimate: Estimate) -> str:
    """Return why a value or its interval is missing, as words."""
    return str(estimate.reason).replace("_", " ")


def _estimate_text(
    estimate: Estimate, number: Callable[[float], str], sign: str, faultless: str
) -> str:
    """Return the value with its interval, bound or reason in brackets."""
    if estimate.low != estimate.low:
        certainty = f"no interval: {reason_of(estimate)}"
    elif estimate.method == "clopper-pearson-units":
        # The bounds are shares of units, whatever the value is.
        span = f"{percent(estimate.low)} to {percent(estimate.high)}"
        bound = faultless.format(span=span, units=plural(estimate.unit))
        certainty = f"{bound}, at {100 * estimate.level:g} %"
    else:
        bounds = f"{number(estimate.low)} to {number(estimate.high)}{sign}"
        certainty = f"{interval_of(estimate)} {bounds}"
    return f"{number(estimate.value)}{sign} ({certainty})"


LONGEST_NAME = 60  # characters of a name


NAME_TAIL = 20  # of them from its end: versions and folds stand there


REASONS = {
    "no_references": "there are no references of that kind",
    "no_predictions": "there are no predictions of that kind",
    "no_objects": "there are neither references nor predictions of that kind",
    "single_class": "the cohort has one class only",
    "no_positives": "nothing of that kind is positive: no prediction is a hit",
    "single_category": "all images are of one category, with references or without",
}


def best_of(estimates: Sequence[Estimate], *, lower: bool) -> list[bool]:
    """Return which estimates are the best of several; none if all are equal."""
    values = [e.value for e in estimates if not math.isnan(e.value)]
    if not values or (len(set(values)) == 1 and len(values) == len(estimates)):
        return [False] * len(estimates)
    top = min(values) if lower else max(values)
    return [len(values) > 1 and e.value == top for e in estimates]


def undefined(estimates: Sequence[Estimate]) -> str:
    """Return why some values are missing, in words; empty if none is."""
    reasons = dict.fromkeys(str(e.reason) for e in estimates if math.isnan(e.value))
    explanations = []
    for reason in reasons:
        if reason in REASONS:
            explanations.append(f"“{reason_word(reason)}”: {REASONS[reason]}")
    if not explanations:
        return ""
    return f"Words instead of a number: the value is undefined ({'; '.join(explanations)})."


def between(low: float, high: float) -> str:
    """Return ``[0.1, 0.3]``; empty if undefined."""
    return "" if math.isnan(low) else f"[{short_number(low)}, {short_number(high)}]"


def reason_word(reason: str | None) -> str:
    """Return a reason as it is displayed."""
    return str(reason).replace("_", " ")


def short(name: str) -> str:
    """Return a name that fits a heading; a long one keeps its beginning and its end."""
    return short_name(name, LONGEST_NAME, NAME_TAIL)


def join(names: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def count_text(name: str, n: int) -> str:
    """Return ``1 image``, ``2 images``, ``3 classes``."""
    return f"{n} {name if n == 1 else plural(name)}"


MARKS = {
    "near_perfect": "*",
    "all_wrong": "∘",
    "few_units": "†",
    "on_bound": "‡",
    "identical_units": "§",
    "independent_objects": "¶",
    "rough_metric": "‖",
    "classes_left_out": "◊",
}


NO_INTERVAL = {  # reason -> beside the value, and as a clause
    "one_unit": ("one {unit} only", "there is only one {unit}"),
    "too_few_units": ("too few {units}", "fewer than 5 {units} stand behind them"),
    "too_many_undefined": ("often undefined", "more than 5 % of the replicates have no value"),
    "constant_input": (
        "no such interval",
        "the replicates do not vary in the way that this kind of interval needs",
    ),
}


def speaks_for(statistics: Mapping[str, Any], estimates: Sequence[Estimate]) -> str:
    """Return the sentence below a table: what its intervals generalise to, or why it has none.

    Empty if no intervals were requested. ``statistics`` is that of the evaluation.
    """
    valued = [estimate for estimate in estimates if estimate.value == estimate.value]
    if statistics["interval"] is None or not valued:
        return ""
    if any(estimate.low == estimate.low for estimate in valued):
        return (
            f"{100 * statistics['level']:g} % confidence intervals, resampled by "
            f"{statistics['unit']} (n = {statistics['n_units']}); "
            f"valid for {statistics['generalises_to']}."
        )
    reason = valued[0].reason
    if reason not in NO_INTERVAL:
        return ""
    return f"No intervals: {_of_units(NO_INTERVAL[reason][1], valued[0])}."


def without_interval(estimate: Estimate) -> str:
    """Return in few words why a value has no interval; empty if it has one, or if none was asked
    for.
    """
    if estimate.low == estimate.low or estimate.reason not in NO_INTERVAL:
        return ""
    return _of_units(NO_INTERVAL[estimate.reason][0], estimate)


def same_for_all(estimates: Sequence[Estimate]) -> bool:
    """Return whether one note on missing intervals holds for all values, so that it is said once.

    That is: all values have an interval, or none has, for one reason.
    """
    defined = [estimate for estimate in estimates if estimate.value == estimate.value]
    return len({without_interval(estimate) for estimate in defined}) <= 1


def marks_of(estimate: Estimate) -> str:
    """Return the marks behind an interval; `legend` explains them."""
    if estimate.low != estimate.low:
        return ""
    return "".join(mark for flag, mark in MARKS.items() if flag in estimate.flags)


def legend(estimates: Sequence[Estimate]) -> list[str]:
    """Return a line for every mark that these estimates have."""
    marks = "".join(map(marks_of, estimates))
    lines = []
    for flag, mark in MARKS.items():
        if mark in marks:
            lines.append(f"{mark} {_of_flag(flag, estimates[0])}")
    return lines


def _of_flag(flag: str, estimate: Estimate) -> str:
    return FLAGS[flag].replace("units", plural(estimate.unit))


def _of_units(words: str, estimate: Estimate) -> str:
    return words.format(unit=estimate.unit, units=plural(estimate.unit))


LONGEST_DISPLAY = 200


KEPT = 120


UNSEEN = "\ufffd"


# characters that are drawn as nothing
INVISIBLE = {
    *map(chr, range(0xFE00, 0xFE10)),
    "\u115f",
    "\u1160",
    "\u3164",
    "\uffa0",
    "\u2800",
}


class Short:
    """The display name of every name; names that are short and look like no other stay."""

    def __init__(self, names: Iterable[str]) -> None:
        by_look: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            by_look.setdefault(_look(name), []).append(name)
        changed: dict[str, str] = {}
        for look, group in by_look.items():
            for name in group:
                new_name = _display_name(name, look, several=len(group) > 1)
                if new_name != name:
                    changed[name] = new_name
        self.changed: Mapping[str, str] = changed

    def name(self, name: str) -> str:
        """Return the display name."""
        return self.changed.get(name, name)

    def image(self, name: str) -> str:
        """Return the display name of an image."""
        return self.name(name)

    def value(self, column: str, value: Any) -> Any:
        """Return an entry of a column as it is displayed; numbers stay."""
        return self.name(value) if isinstance(value, str) else value


def _look(name: str) -> str:
    """Return what a reader sees of a name: unprintable characters all look alike, and browsers
    collapse spaces.
    """
    if name.isprintable() and name.isascii():
        return " ".join(name.split())
    visible = ""
    for character in normalize("NFC", name):
        if character not in INVISIBLE:
            visible += character if character.isprintable() else UNSEEN
    return " ".join(visible.split())


def _display_name(name: str, look: str, *, several: bool) -> str:
    if len(name) > LONGEST_DISPLAY:
        return _shortened(name)
    if not name or not look:
        return f"(no name, {_mark(name)})" if name else "(no name)"
    return f"{name} ({_mark(name)})" if several and name != look else name


def _shortened(name: str) -> str:
    """Return the beginning, the length, and a mark that differs for names with the same
    beginning.
    """
    return f"{name[:KEPT]}… ({len(name)} characters, {_mark(name)})"


def _mark(name: str) -> str:
    """Return a few digits of the hash of a name."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
