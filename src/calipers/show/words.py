# SPDX-License-Identifier: Apache-2.0
"""One way to say a number, an estimate, a reason and a name; everything that is read uses it.

Numbers come in, text comes out. Terminal, pages, figures, sentences and exports call these
functions, so that a value is rounded in one way wherever it appears:

========================  ==========================================================
`number_text`             ``0.123``, ``12.3``, ``123``; in sentences with two decimals
`signed_text`             ``+0.012``: a difference
`percent_text`            ``5.2 %``, ``57 %``, ``under 0.1 %``; `percent_span` for two
`level_text`              ``95 %``: a level, with the digits it was given with
`p_text`                  ``p = 0.012``, ``p < 0.001``; `p_number` for a column of them
`interval_text`           ``[0.1, 0.3]``, behind a value
`interval_in_words`       ``95 % CI 0.10 to 0.30``, inside a sentence, or why there is none
`estimate_text`           ``0.123 [0.100, 0.145]*``, or why it is undefined
`share_in_words`          ``84 % (95 % CI 80 to 88 %)``, inside a sentence
`intervals_by`            ``95 % confidence intervals, resampled by patient (n = 80)``
`reason_text`             ``too few units``
`digits`                  a number of any size, with its first significant digits
`count_text`, `plural`    ``1 image``, ``2 images``
`join`                    ``a, b and c``
`short_name`              a long name without its middle; `tell_apart` for several of them
========================  ==========================================================

An estimate has marks behind its interval where caution is due, and `legend` explains them.
`Short` makes names of the data safe to show: not too long, and none that looks like another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from unicodedata import normalize

from calipers.results.estimate import FLAGS, Estimate
from calipers.show.similar_names import ROOM, tell_apart

SMALL, LARGE = 10, 100
SMALLEST_P = 0.001  # a smaller one is "p < 0.001"


def number_text(value: float) -> str:
    """Return a number for a reader: 0.123, 1.234, 12.3, 123; a count of two or more without
    decimals; empty if undefined.
    """
    if math.isnan(value):
        return ""
    if abs(value) >= LARGE or (abs(value) > 1 and value == round(value)):
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < SMALL else f"{value:.1f}"


def two_decimals(value: float) -> str:
    """Return a number in a sentence or a title; what rounds to zero has no sign."""
    return f"{round(float(value), 2) + 0.0:.2f}"


def signed_text(value: float) -> str:
    """Return a difference: ``+0.012``; empty if undefined."""
    if math.isnan(value):
        return ""
    text = number_text(value)
    return text if text.startswith("-") else f"+{text}"


def whole_text(value: float) -> str:
    """Return a number without decimals: a count, or a rank; empty if undefined."""
    return "" if math.isnan(value) else f"{value:.0f}"


def digits(value: float, n: int = 6) -> str:
    """Return a number of any size with ``n`` significant digits; whole numbers whole."""
    if isinstance(value, int) or (
        math.isfinite(value) and value == int(value) and abs(value) < 1e15
    ):
        return str(int(value))
    return f"{value:.{n}g}"


def percent_text(share: float) -> str:
    """Return ``84 %``, with a decimal near both ends; only 0 is 0 %, and only 1 is 100 %."""
    return "undefined" if math.isnan(share) else f"{percent_number(share)} %"


def percent_span(low: float, high: float) -> str:
    """Return ``80 to 88 %``; a decimal that one end needs, the other end has too."""
    fine = near_an_end(low) or near_an_end(high)
    return f"{percent_number(low, fine=fine)} to {percent_number(high, fine=fine)} %"


def span_text(low: float, high: float) -> str:
    """Return ``0.80 to 0.88``."""
    return f"{two_decimals(low)} to {two_decimals(high)}"


def level_text(level: float) -> str:
    """Return a level with the digits it was given with: ``95 %``, ``99.5 %``."""
    return f"{100 * level:g} %"


def near_an_end(share: float) -> bool:
    """Return whether a tenth of a percent matters."""
    return 0 < share < 0.1 or 0.95 < share < 1


def percent_number(share: float, *, fine: bool = False) -> str:
    """Return a share as its number of hundred: ``5.2``, ``57``, ``under 0.1``.

    Rounding never turns "almost none" into none, nor "almost all" into all. ``fine`` asks for a
    decimal also where none is needed.
    """
    value = 100 * share
    if 0 < value < 0.05:
        return "under 0.1"
    if 99.95 <= value < 100:
        return "over 99.9"
    if near_an_end(share) or (fine and 0 < share < 1):
        return f"{value:.1f}"
    return f"{value:.0f}"


def p_text(p: float, *, least: float = 0.0, units: str = "") -> str:
    """Return ``p = 0.02`` with two significant digits, or ``p < 0.001``.

    ``least`` is the smallest p value that a number of ``units`` can give: then p says more about
    their number than about the difference, as in ``p <= 0.063, the smallest that 5 patients can
    give``.
    """
    if p < SMALLEST_P:
        return f"p < {SMALLEST_P:g}"
    if p > least:
        return f"p = {p:.2g}"
    # Rounded up, so that "at most" holds.
    unit = 10.0 ** (math.floor(math.log10(p)) - 1)
    return f"p <= {math.ceil(p / unit - 1e-9) * unit:.2g}, the smallest that {units} can give"


def p_number(p: float) -> str:
    """Return a p value in a column of them: ``0.02``, ``< 0.001``; empty if undefined."""
    return "" if math.isnan(p) else p_text(p).removeprefix("p ").removeprefix("= ")


def interval_text(low: float, high: float, number: Callable[[float], str] = number_text) -> str:
    """Return ``[0.1, 0.3]``; empty if undefined, or of width 0, which would claim certainty."""
    return f"[{number(low)}, {number(high)}]" if low < high else ""


def has_interval(estimate: Estimate) -> bool:
    """Return whether there is an interval to show; results of before may have some of width 0."""
    return estimate.low < estimate.high


def estimate_text(estimate: Estimate, number: Callable[[float], str] = number_text) -> str:
    """Return ``0.123 [0.100, 0.145]*``, or why the value is undefined."""
    if math.isnan(estimate.value):
        return reason_text(estimate.reason)
    interval = interval_text(estimate.low, estimate.high, number)
    return f"{number(estimate.value)} {interval}{marks_of(estimate)}".rstrip()


def reason_text(reason: str | None) -> str:
    """Return a reason, a verdict or a flag in words; empty for none."""
    return "" if reason is None else reason.replace("_", " ")


def why(estimate: Estimate) -> str:
    """Return why a value is undefined, in words; empty if it is defined."""
    return reason_text(estimate.reason) if math.isnan(estimate.value) else ""


def plural(name: str) -> str:
    """Return the plural of a column name: images, patients, studies."""
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return name[:-1] + "ies"
    return name + ("es" if name.endswith(("s", "x", "ch", "sh")) else "s")


def count_text(name: str, n: int) -> str:
    """Return ``1 image``, ``2 images``, ``3 classes``."""
    return f"{n} {name if n == 1 else plural(name)}"


def join(names: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


# Estimates inside sentences: a value, and in brackets its interval or why it has none.


def share_in_words(estimate: Estimate, faultless: str) -> str:
    """Return ``84 % (95 % CI 80 to 88 %)``.

    Parameters
    ----------
    estimate
        A share with a value; whoever may have none says so before.
    faultless
        What the bound on units without an error says (clopper-pearson-units), such as
        ``"{span} of {units} are without a fault"``.
    """
    return f"{percent_text(estimate.value)} ({_certainty(estimate, percent_span, faultless)})"


def value_in_words(estimate: Estimate, faultless: str) -> str:
    """Return ``0.84 (95 % CI 0.80 to 0.88)``; ``faultless`` as in `share_in_words`."""
    return f"{two_decimals(estimate.value)} ({_certainty(estimate, span_text, faultless)})"


def interval_in_words(estimate: Estimate, span: Callable[[float, float], str] = span_text) -> str:
    """Return ``95 % CI 0.80 to 0.88``, or ``no interval: too few patients``.

    ``span`` writes both ends: `span_text`, `percent_span`, or points of a difference.
    """
    if not has_interval(estimate):
        return f"no interval: {without_interval(estimate) or reason_text(estimate.reason)}"
    return ci_text(estimate.level, span(estimate.low, estimate.high))


def ci_text(level: float, span: str) -> str:
    """Return ``95 % CI 0.80 to 0.88``: a confidence interval, as papers abbreviate it in brackets.

    Every interval inside a sentence is written by this function.
    """
    return f"{level_text(level)} CI {span}"


def intervals_by(level: float, unit: str, n_units: int) -> str:
    """Return ``95 % confidence intervals, resampled by patient (n = 80)``: below tables and
    figures.
    """
    return f"{level_text(level)} confidence intervals, resampled by {unit} (n = {n_units})"


def _certainty(estimate: Estimate, span: Callable[[float, float], str], faultless: str) -> str:
    """Return the interval, the bound on units, or why there is neither."""
    if estimate.method == "clopper-pearson-units":
        # The bounds are shares of units, whatever the value is.
        shares = percent_span(estimate.low, estimate.high)
        bound = faultless.format(span=shares, units=plural(estimate.unit))
        return f"{bound}, at {level_text(estimate.level)}"
    return interval_in_words(estimate, span)


# Several estimates together: which is best, which are undefined, and what the marks mean.

REASONS = {
    "no_references": "there are no references of that kind",
    "no_predictions": "there are no predictions of that kind",
    "no_objects": "there are neither references nor predictions of that kind",
    "single_class": "the cohort has one class only",
    "no_positives": "nothing is positive: no prediction is a hit, or no place is marked",
    "single_category": "all are of one category: there is nothing to tell apart",
    "no_sequences": "the images have no column sequence",
    "no_frame_rate": "the frame rate is unknown: give --fps, or a column fps",
}
MARKS = {
    "few_errors": "*",
    "near_perfect": "⁎",
    "all_wrong": "∘",
    "few_units": "†",
    "on_bound": "‡",
    "identical_units": "§",
    "independent_objects": "¶",
    "rough_metric": "‖",
    "classes_left_out": "◊",
    "rare_classes": "△",
}
NO_INTERVAL = {  # reason -> beside the value, and as a clause
    "one_unit": ("one {unit} only", "there is only one {unit}"),
    "no_references": ("no references", "there are no references, only false alarms"),
    "too_few_units": ("too few {units}", "they are based on fewer than 5 {units}"),
    "too_few_positives": (
        "too few wanted images",
        "an alarm is wanted on fewer than 100 images, and the threshold rests on the last few",
    ),
    "too_many_undefined": (
        "often undefined",
        "more than 5 % of the bootstrap samples have no value",
    ),
    "constant_input": (
        "all bootstrap samples agree",
        "all bootstrap samples agree, or vary too little for this kind of interval",
    ),
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
            explanations.append(f"“{reason_text(reason)}”: {REASONS[reason]}")
    if not explanations:
        return ""
    return f"Words instead of a number: the value is undefined ({'; '.join(explanations)})."


def speaks_for(statistics: Mapping[str, Any], estimates: Sequence[Estimate]) -> str:
    """Return the sentence below a table: what its intervals generalise to, or why it has none.

    Empty if no intervals were requested. ``statistics`` is that of the evaluation.
    """
    valued = [estimate for estimate in estimates if estimate.value == estimate.value]
    if statistics["interval"] is None or not valued:
        return ""
    if any(map(has_interval, valued)):
        how = intervals_by(statistics["level"], statistics["unit"], statistics["n_units"])
        return f"{how}; valid for {statistics['generalises_to']}."
    reason = valued[0].reason
    if reason not in NO_INTERVAL:
        return ""
    return f"No intervals: {with_units(NO_INTERVAL[reason][1], valued[0].unit)}."


def without_interval(estimate: Estimate) -> str:
    """Return in few words why a value has no interval; empty if it has one, or if none was asked
    for.
    """
    reason = "constant_input" if estimate.low == estimate.high else estimate.reason
    if has_interval(estimate) or reason not in NO_INTERVAL:
        return ""
    return with_units(NO_INTERVAL[reason][0], estimate.unit)


def same_for_all(estimates: Sequence[Estimate]) -> bool:
    """Return whether one note on missing intervals holds for all values, so that it is said once.

    That is: all values have an interval, or none has, for one reason.
    """
    defined = [estimate for estimate in estimates if estimate.value == estimate.value]
    return len({without_interval(estimate) for estimate in defined}) <= 1


def marks_of(estimate: Estimate) -> str:
    """Return the marks behind an interval; `legend` explains them."""
    if not has_interval(estimate):
        return ""
    return "".join(mark for flag, mark in MARKS.items() if flag in estimate.flags)


def legend(estimates: Sequence[Estimate]) -> list[str]:
    """Return a line for every mark that these estimates have."""
    marks = "".join(map(marks_of, estimates))
    lines = []
    for flag, mark in MARKS.items():
        if mark in marks:
            lines.append(f"{mark} {flag_text(flag, estimates[0].unit)}")
    return lines


def flag_text(flag: str, unit: str) -> str:
    """Return what a flag of an estimate warns of; ``unit`` is what was resampled."""
    return FLAGS[flag].replace("units", plural(unit))


def with_units(words: str, unit: str) -> str:
    """Return words in which ``{unit}`` and ``{units}`` stand for what was resampled."""
    return words.format(unit=unit, units=plural(unit))


# Names of models, classes and images, which come from the data.

LONGEST_NAME = 40  # characters of a name in a title or a cell
NAME_TAIL = 15  # of them from its end: versions and folds stand there
LONGEST_DISPLAY = 200
# long name -> what stands for it beside others of its family; see `names_apart`
_APART: ContextVar[Mapping[str, str]] = ContextVar("_APART", default=MappingProxyType({}))
KEPT = 120
UNSEEN = "\ufffd"
NO_NAME = "(no name)"

# characters that are drawn as nothing
INVISIBLE = {
    *map(chr, range(0xFE00, 0xFE10)),
    "\u115f",
    "\u1160",
    "\u3164",
    "\uffa0",
    "\u2800",
}


def short_name(name: str, longest: int = LONGEST_NAME, tail: int = NAME_TAIL) -> str:
    """Return a name that fits a title or a cell; a long one loses its middle.

    Names of one family differ at their ends: versions and folds stand there. Those that differ in
    their middle alone keep it inside `names_apart`.
    """
    if len(name) <= longest:
        return name
    different = _APART.get().get(name)
    if different is not None and len(different) <= longest:
        return different
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


@contextmanager
def names_apart(names: Iterable[str]) -> Iterator[None]:
    """Shorten names inside so that no two of these become equal."""
    distinct = list(dict.fromkeys(names))
    changed = tell_apart(distinct, short_name, LONGEST_NAME) | tell_apart(distinct, label_name)
    token = _APART.set({**_APART.get(), **changed})
    try:
        yield
    finally:
        _APART.reset(token)


def label_name(name: str) -> str:
    """Return a name that fits the label of a line or a point."""
    return short_name(name, ROOM, (ROOM - 1) * 2 // 5)


class Short:
    """The display name of every name; names that are short and look like no other stay.

    Parameters
    ----------
    names
        All names.
    series
        Those of them that stand beside each other in labels and titles, such as models: long ones
        keep the parts in which they differ.
    """

    def __init__(self, names: Iterable[str], series: Iterable[str] = ()) -> None:
        changed: dict[str, str] = {}
        self.changed: Mapping[str, str] = changed
        self._mark_alike(list(dict.fromkeys(names)), changed)
        labels = {name: changed.get(name, name) for name in series}
        if max(map(len, labels.values()), default=0) > ROOM:
            new_names = tell_apart(labels.values(), label_name)
            for name, label in labels.items():
                if label in new_names:
                    changed[name] = new_names[label]

    @staticmethod
    def _mark_alike(distinct: Sequence[str], changed: dict[str, str]) -> None:
        # Ten thousand images have plain names as a rule: one look at all of them tells.
        if _all_plain(distinct):
            return
        by_look: dict[str, list[str]] = {}
        for name in distinct:
            by_look.setdefault(_look(name), []).append(name)
        for look, group in by_look.items():
            for name in group:
                new_name = _display_name(name, look, several=len(group) > 1)
                if new_name != name:
                    changed[name] = new_name

    def name(self, name: str) -> str:
        """Return the display name."""
        return self.changed.get(name, name)

    def image(self, name: str) -> str:
        """Return the display name of an image."""
        return self.name(name)

    def value(self, column: str, value: Any) -> Any:
        """Return an entry of a column as it is displayed; numbers stay."""
        return self.name(value) if isinstance(value, str) else value


def _all_plain(names: Sequence[str]) -> bool:
    """Return whether all names are short, visible letters of ASCII without any space: each looks
    like itself and like no other.
    """
    together = "".join(names)
    if not together.isascii() or not together.isprintable() or " " in together:
        return False
    return "" not in names and max(map(len, names), default=0) <= LONGEST_DISPLAY


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
        return f"(no name, {_mark(name)})" if name else NO_NAME
    return f"{name} ({_mark(name)})" if several and name != look else name


def _shortened(name: str) -> str:
    """Return the beginning, the length, and a mark that differs for names with the same
    beginning.
    """
    return f"{name[:KEPT]}… ({len(name)} characters, {_mark(name)})"


def _mark(name: str) -> str:
    """Return a few digits of the hash of a name."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
