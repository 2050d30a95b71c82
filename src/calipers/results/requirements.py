# SPDX-License-Identifier: Apache-2.0
"""Acceptance limits on estimates: what is required of which rows, and whether the evaluation shows
it.

In come a TOML file with the schema ``calipers.requirements/1`` (`Requirements.load`) and the rows
of an evaluation (`check`), out go outcomes, also as JUnit XML, which every build server shows
(`junit`). The command ``calipers check`` and `Evaluation.check` call it.

A limit applies to a bound of the interval unless the requirement says otherwise: it tests what the
data show, not what they suggest. What cannot be judged (undefined, no interval, too few patients,
no such row) is *not shown*, and that counts as not met: nothing passes because it is missing.

In JUnit a requirement on a row is a test case. *Not met* and *not shown* are failures of these
types; nothing is ever ``skipped``, because build servers count a skipped test as passed. Input that
cannot be judged is an ``error``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, field, structs

from calipers.arguments import names_fields, names_methods
from calipers.errors import InputError, did_you_mean, spelled
from calipers.results.schema import structure
from calipers.results.toml import parse_toml, read_toml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SCHEMA = "calipers.requirements/1"
LONGEST_ID = 80
LARGEST = 1 << 53  # whole numbers up to here are floats too
Statistic = Literal["low", "high", "value"]
# A number of the file stays a whole number if it is one.
Threshold = (
    Annotated[int, Meta(ge=-LARGEST, le=LARGEST)] | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
)
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=LARGEST)]
Verdict = Literal["met", "not met", "not shown"]
VERDICTS: tuple[Verdict, ...] = ("met", "not shown", "not met")  # from best to worst
EVERY = "*"  # as model, class or value of a group: every one that the evaluation has
BOUNDS = {"low": "lower bound", "high": "upper bound", "value": "value"}
# such an interval is of the share of units without error, not of the metric
SHARE_OF_UNITS = "clopper-pearson-units"


@names_methods
@dataclass(frozen=True, slots=True)
class Limit:
    """One side of a requirement: a number of the row, and what it must reach or must not exceed."""

    statistic: Statistic
    side: Literal["at_least", "at_most"]
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether a number keeps the limit; the limit itself does."""
        return value >= self.limit if self.side == "at_least" else value <= self.limit

    def __str__(self) -> str:
        return f"{BOUNDS[self.statistic]} {self.side.replace('_', ' ')} {_exact(self.limit)}"


class Requirement(Struct, frozen=True, forbid_unknown_fields=True):
    """One acceptance limit and the rows it applies to.

    Examples
    --------
    >>> from calipers.results.requirements import Requirement
    >>> centres = {"centre": "*"}
    >>> str(Requirement("REQ-1", "sensitivity@0.5", group=centres, at_least=0.8, min_units=20))
    'sensitivity@0.5: lower bound at least 0.8, from 20 units on'
    """

    id: Text
    metric: Text
    text: Text = ""
    model: Text = EVERY
    label: Text | None = field(default=None, name="class")  # None = pooled
    group: Annotated[dict[str, str], Meta(min_length=1)] | None = None  # None = all images
    # None = the bound that is harder to keep: low for at_least, high for at_most
    statistic: Statistic | None = None
    at_least: Threshold | None = None
    at_most: Threshold | None = None
    min_images: Count = 0
    min_units: Count = 0
    min_references: Count = 0
    level: float | None = None  # the interval must have it

    def __post_init__(self) -> None:
        """Raise for what no type can say, and for keys that make no sense together."""

        def refuse(expected: str, rule: str, **facts: Any) -> None:
            raise InputError(expected, rule=rule, file=f"requirement {self.id!r}", **facts)

        if not self.id.isprintable() or self.id != self.id.strip() or len(self.id) > LONGEST_ID:
            expected = (
                f"an id of at most {LONGEST_ID} characters, in one line, without space around it"
            )
            refuse(expected, "requirement-id", location="id", value=self.id)
        if not self.limits:
            hint = "at_least = 0.8 demands that the lower bound of the interval reaches 0.8"
            refuse("at_least, at_most or both", "no-limit", hint=hint)
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            value = f"at_least {self.at_least:g}, at_most {self.at_most:g}"
            refuse("at_least <= at_most", "contradiction", value=value)
        if self.level is None:
            return
        if not 0 < self.level < 1:
            hint = f"did you mean {self.level / 100:g}?" if 1 < self.level < 100 else ""
            refuse(
                "a level between 0 and 1", "range", location="level", value=self.level, hint=hint
            )
        if self.statistic == "value":
            hint = (
                'a limit on the value looks at no interval: leave out level, or statistic = "value"'
            )
            refuse("a level only for a bound", "contradiction", hint=hint)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits; all of them must hold."""
        limits = []
        if self.at_least is not None:
            limits.append(Limit(self.statistic or "low", "at_least", self.at_least))
        if self.at_most is not None:
            limits.append(Limit(self.statistic or "high", "at_most", self.at_most))
        return tuple(limits)

    @property
    def minimum(self) -> dict[str, int]:
        """How many of what must stand behind the estimate, such as ``{"units": 20}``."""
        counts = {
            "images": self.min_images,
            "units": self.min_units,
            "references": self.min_references,
        }
        return {name: n for name, n in counts.items() if n}

    def __str__(self) -> str:
        minimum = " and ".join(f"{n} {name}" for name, n in self.minimum.items())
        words = f"{self.metric}: {' and '.join(map(str, self.limits))}"
        return words + (f", from {minimum} on" if minimum else "")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a requirement on one row, or on none if the evaluation has no such row."""

    requirement: Requirement
    row: Mapping[str, Any] | None  # of the JSON contract
    verdict: Verdict
    why: str  # in words

    @property
    def place(self) -> str:
        """Model, class and group of the row, in words; if the row is missing, those required."""
        requirement = self.requirement
        model, label = requirement.model, requirement.label
        group: Mapping[str, str] | None = requirement.group
        if self.row is not None:
            model, label, group = self.row["model"], self.row["class"], self.row["group"]
        words = ["every model" if model == EVERY else model]
        if label is not None:
            words.append(label)
        for column, value in (group or {}).items():
            words.append(f"{column} {value}")
        return ", ".join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome for JSON output."""
        requirement = self.requirement
        return {
            "id": requirement.id,
            "text": requirement.text,
            "outcome": self.verdict,
            "why": self.why,
            "metric": requirement.metric,
            "limits": [
                {"statistic": limit.statistic, limit.side: limit.limit}
                for limit in requirement.limits
            ],
            "minimum": requirement.minimum,
            "level": requirement.level,
            "row": None if self.row is None else dict(self.row),
        }


class RequirementsDocument(Struct, forbid_unknown_fields=True):
    """A file of requirements."""

    schema: str
    name: str = ""
    requirement: list[Requirement] = []


@names_fields
@dataclass(frozen=True, slots=True)
class Requirements:
    """A checked list of requirements, and its source. Make one with `Requirements.load`."""

    entries: tuple[Requirement, ...]
    name: str = ""
    file: str = "<python>"
    sha256: str = ""  # of the file

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def load(cls, path: str | Path) -> Requirements:
        """Return the requirements of a TOML file with the schema ``calipers.requirements/1``."""
        return parse(read_toml(path, "a file of requirements"), str(path))

    @classmethod
    def from_toml(cls, text: str, *, file: str = "<text>") -> Requirements:
        """Return the requirements written in ``text``."""
        return parse(text, file)


def check(
    rows: Sequence[Mapping[str, Any]],
    requirements: Requirements | Sequence[Requirement],
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> tuple[Outcome, ...]:
    """Return the outcome of every requirement on every row that it applies to.

    Parameters
    ----------
    rows
        Rows of the JSON contract, such as `Row.as_dict` returns.
    bounds
        Between which values metrics lie, by name. A limit outside them is an error: such a
        requirement is always met or never.

    Notes
    -----
    A requirement without any row has one outcome, *not shown*. If it applies to every model, a
    model without such a row has one too.
    """
    for requirement in requirements:
        _check_range(requirement, bounds or {}, getattr(requirements, "file", "<python>"))
    models = tuple(dict.fromkeys(row["model"] for row in rows))
    # Rows are looked up by metric, so that many requirements on many rows stay fast.
    of_metric: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        of_metric.setdefault(row["metric"], []).append(row)
    outcomes: list[Outcome] = []
    for requirement in requirements:
        candidates = of_metric.get(requirement.metric, rows)
        outcomes += _outcomes(candidates, requirement, models)
    return tuple(outcomes)


def _check_range(
    requirement: Requirement, bounds: Mapping[str, tuple[float, float]], file: str
) -> None:
    """Raise for a limit that no value of the metric can reach, or that none can break."""
    low, high = bounds.get(requirement.metric, (-math.inf, math.inf))
    for limit in requirement.limits:
        if low <= limit.limit <= high:
            continue
        percent = (low, high) == (0.0, 1.0) and 2 <= limit.limit <= 100
        hint = f"{limit.side} = {limit.limit / 100:g} is {limit.limit:g} %" if percent else ""
        ends = f"from {_exact(low)} to {_exact(high)}"
        if math.isinf(high):
            ends = f"of at least {_exact(low)}"
        raise InputError(
            f"a limit {ends}, the range of {requirement.metric}",
            rule="limit-range",
            file=file,
            location=f"requirement {requirement.id!r}",
            field=limit.side,
            value=limit.limit,
            hint=hint,
        )


def verdicts(outcomes: Sequence[Outcome]) -> dict[str, Verdict]:
    """Return the verdict on each requirement by its id: met if all its outcomes are, else the worst
    of them.
    """
    worst: dict[str, Verdict] = {}
    for outcome in outcomes:
        earlier = worst.get(outcome.requirement.id, "met")
        worst[outcome.requirement.id] = max(earlier, outcome.verdict, key=VERDICTS.index)
    return worst


def _outcomes(
    rows: Sequence[Mapping[str, Any]], requirement: Requirement, models: Sequence[str]
) -> Iterator[Outcome]:
    matches, absent = _matching_rows(rows, requirement)
    if not matches:
        yield Outcome(requirement, None, "not shown", absent)
        return
    for row in matches:
        yield _judge(row, requirement)
    if requirement.model == EVERY:
        models_with_rows = {row["model"] for row in matches}
        for model in models:
            if model not in models_with_rows:
                why = f"the evaluation has no such row for the model {model!r}"
                yield Outcome(structs.replace(requirement, model=model), None, "not shown", why)


class _Sieve(NamedTuple):
    """One thing that a row must have: what it is called, which one, and where the row has it."""

    what: str
    name: str | tuple[str, ...] | None
    of: Callable[[Mapping[str, Any]], Any]

    def keeps(self, row: Mapping[str, Any]) -> bool:
        every = self.name == EVERY and self.what != "metric"
        return self.of(row) is not None if every else bool(self.of(row) == self.name)


def _sieves(requirement: Requirement) -> Iterator[_Sieve]:
    yield _Sieve("metric", requirement.metric, itemgetter("metric"))
    yield _Sieve("model", requirement.model, itemgetter("model"))
    group = requirement.group or {}
    yield _Sieve("columns", tuple(sorted(group)), lambda row: tuple(sorted(row["group"] or {})))
    for column, name in group.items():
        yield _Sieve(column, name, lambda row, column=column: row["group"][column])  # type: ignore[misc]
    yield _Sieve("class", requirement.label, itemgetter("class"))


def _matching_rows(
    rows: Sequence[Mapping[str, Any]], requirement: Requirement
) -> tuple[list[Mapping[str, Any]], str]:
    """Return the rows that a requirement applies to; if there are none, what the evaluation has
    instead.
    """
    candidates = list(rows)
    if requirement.group:
        columns = {column for row in rows for column in row["group"] or {}}
        group = {spelled(name, columns): value for name, value in requirement.group.items()}
        requirement = structs.replace(requirement, group=group)
    for sieve in _sieves(requirement):
        matches = [row for row in candidates if sieve.keeps(row)]
        if not matches:
            return [], _absent(requirement, sieve, candidates)
        candidates = matches
    return candidates, ""


def _absent(requirement: Requirement, sieve: _Sieve, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what is not in the evaluation, and what is there instead."""
    if not rows:
        return "the evaluation has no rows"
    present = [entry for entry in dict.fromkeys(map(sieve.of, rows)) if entry is not None]
    columns = ",".join(requirement.group or {})
    if sieve.what == "columns":
        present_columns = " or ".join(" and ".join(entry) for entry in present if entry)
        if not columns:
            return f"{requirement.metric} has no row of all images, only by {present_columns}"
        words = f"the evaluation has no groups by {columns} (--by {columns})"
        return words + (f"; known: {present_columns}" if present_columns else "")
    if sieve.what == "class" and sieve.name is None:
        return f"{requirement.metric} has no pooled row, only classes: {', '.join(present)}"
    if sieve.what == "class" and not present:
        in_groups = f" in groups (--by {columns},class)" if columns else ""
        return f"{requirement.metric} has no values per class{in_groups}"
    suggestion = did_you_mean(str(sieve.name), present)
    return f"the evaluation has no {sieve.what} {sieve.name!r}; {suggestion}"


def _judge(row: Mapping[str, Any], requirement: Requirement) -> Outcome:
    lacking = _lacking(row, requirement)
    if lacking:
        return Outcome(requirement, row, "not shown", "; ".join(lacking))
    broken = [limit for limit in requirement.limits if not limit.holds(row[limit.statistic])]
    words = [
        _comparison_words(limit, row[limit.statistic]) for limit in broken or requirement.limits
    ]
    return Outcome(requirement, row, "not met" if broken else "met", "; ".join(words))


def _lacking(row: Mapping[str, Any], requirement: Requirement) -> list[str]:
    """Return why a row cannot be judged; nothing if it can."""
    reasons = []
    if _undefined(row["value"]):
        reasons.append(f"{requirement.metric} is undefined{_reason(row)}")
    for name, n in requirement.minimum.items():
        n_row = row[f"n_{name}"]
        if n_row < n:
            unit = f" ({row['unit']})" if name == "units" else ""
            basis = f"{n_row} {name.removesuffix('s') if n_row == 1 else name}{unit}"
            verb = "is" if n == 1 else "are"
            reasons.append(f"the estimate is based on {basis}, {n} {verb} required")
    bounds = [limit.statistic for limit in requirement.limits if limit.statistic != "value"]
    if reasons or not bounds:
        return reasons
    if any(_undefined(row[bound]) for bound in bounds):
        return [f"there is no interval{_reason(row)}{_remedy(row)}"]
    if row["method"] == SHARE_OF_UNITS:
        return [
            f"the stored bounds are not of {requirement.metric} but of the share of units without "
            "error, as version 0.1 wrote them: evaluate again for an interval of the metric"
        ]
    if row["low"] == row["high"]:
        return [
            ("the interval has a width of 0: all units agree, which says nothing about other units")
        ]
    level = row["level"]
    if requirement.level is not None and (
        level is None or not math.isclose(level, requirement.level, abs_tol=1e-9)
    ):
        return [f"the interval has the level {level}, {requirement.level:g} is required"]
    return []


def _undefined(number: float | None) -> bool:
    return number is None or math.isnan(number)


def _reason(row: Mapping[str, Any]) -> str:
    return f": {row['reason'].replace('_', ' ')}" if row["reason"] else ""


# What to do about an interval that is missing.
REMEDIES = {
    "not_requested": "evaluate without --no-ci",
    "one_unit": "an interval needs 5 units or more",
    "too_few_units": "an interval needs 5 units or more with something to find",
}


def _remedy(row: Mapping[str, Any]) -> str:
    remedy = REMEDIES.get(row["reason"], "")
    return f"; {remedy}" if remedy else ""


def _comparison_words(limit: Limit, value: float) -> str:
    """Return the comparison in words, with all digits where three would show two equal numbers."""
    number = f"{value:.3f}" if abs(value - limit.limit) >= 0.001 else _exact(value)
    relation = {
        ("at_least", True): "at least",
        ("at_least", False): "below",
        ("at_most", True): "at most",
        ("at_most", False): "above",
    }[limit.side, limit.holds(value)]
    return f"{BOUNDS[limit.statistic]} {number} is {relation} {_exact(limit.limit)}"


def _exact(number: float) -> str:
    return repr(number).removesuffix(".0")


def parse(text: str, file: str) -> Requirements:
    """Return the requirements of a TOML text; whatever is wrong is an error that names the key."""
    contents = structure(parse_toml(text, file), RequirementsDocument, file, schema=SCHEMA)
    if not contents.requirement:
        raise InputError("at least one [[requirement]]", rule="no-requirement", file=file)
    ids: set[str] = set()
    for k, entry in enumerate(contents.requirement):
        if entry.id in ids:
            where = f"requirement[{k}].id"
            raise InputError(
                "every id once", rule="dup-requirement", file=file, location=where, value=entry.id
            )
        ids.add(entry.id)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return Requirements(tuple(contents.requirement), contents.name, file, digest)


SUITES = "calipers check"
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
HEAD = f'{DECLARATION}<testsuites name="{SUITES}"'  # tells our files from others


def junit(outcomes: Sequence[Outcome], *, suite: str, properties: Mapping[str, str]) -> str:
    """Return the outcomes as an XML document; it contains no time, so that equal outcomes give
    equal files.
    """
    from xml.etree.ElementTree import SubElement

    failures = sum(outcome.verdict != "met" for outcome in outcomes)
    root, tests = _suite(suite, tests=len(outcomes), failures=failures, errors=0)
    property_list = SubElement(tests, "properties")
    for name, value in properties.items():
        SubElement(property_list, "property", name=name, value=_printable(value))
    for outcome in outcomes:
        requirement = outcome.requirement
        name = _printable(f"{outcome.place}: {requirement}")
        id_ = _printable(requirement.id)
        case = SubElement(tests, "testcase", classname=id_, name=name, time="0")
        words = f"{requirement.text}: {outcome.why}" if requirement.text else outcome.why
        if outcome.verdict == "met":
            SubElement(case, "system-out").text = _printable(words)
        else:
            why = _printable(outcome.why)
            failure = SubElement(case, "failure", type=outcome.verdict, message=why)
            failure.text = _printable(words)
    return _xml_text(root)


def junit_of_error(message: str, *, suite: str) -> str:
    """Return a document with one error: the evaluation or the requirements could not be used."""
    from xml.etree.ElementTree import SubElement

    root, tests = _suite(suite, tests=1, failures=0, errors=1)
    case = SubElement(
        tests,
        "testcase",
        classname="input",
        name="evaluation and requirements can be read",
        time="0",
    )
    SubElement(case, "error", type="input", message=_printable(message)).text = _printable(message)
    return _xml_text(root)


def _suite(name: str, **counts: int) -> tuple[Element, Element]:
    from xml.etree.ElementTree import Element, SubElement

    numbers = {key: str(n) for key, n in counts.items()}
    root = Element("testsuites", {"name": SUITES, **numbers, "time": "0"})
    return root, SubElement(
        root, "testsuite", {"name": _printable(name), **numbers, "skipped": "0", "time": "0"}
    )


def _xml_text(root: Element) -> str:
    from xml.etree.ElementTree import indent, tostring

    indent(root)
    return DECLARATION + tostring(root, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """Return text with unprintable characters escaped: XML does not allow control characters."""
    characters = []
    for character in text:
        if not character.isprintable():
            character = character.encode("unicode_escape").decode("ascii")
        characters.append(character)
    return "".join(characters)
