# SPDX-License-Identifier: Apache-2.0
"""The schema ``calipers.protocol/1``: which keys a protocol has, of which type, and how it is
written as TOML.

The tables of a protocol are structs, which `calipers.results.schema.structure` fills and checks;
their defaults are those of a protocol. Options that belong to one kind of metric are left to that
metric. `checked` gives the struct of parsed TOML, `toml_document` turns the JSON of a stored
protocol back into such a document, so that both are checked by the same rules, and `render` writes
a protocol. The names of metrics have a grammar, and `contradiction` compares what a name claims
with the options.

Only `calipers.evaluation.protocol` calls it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from calipers.errors import InputError, did_you_mean, spelled
from calipers.metrics.metric_names import CRITERION_WORDS
from calipers.registry import INTERVALS, known, own_matching, resolve
from calipers.results.schema import structure
from calipers.results.toml import toml_lines, toml_value

if TYPE_CHECKING:
    from calipers.evaluation.protocol import Protocol

SCHEMA = "calipers.protocol/1"
NO_LIMIT = sys.maxsize
NUMBER = r"-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?"
NAME = re.compile(
    r"[A-Za-z][A-Za-z0-9.\- ]*(/[a-z]+)?"
    rf"(@([a-z][a-z\-]*:)?{NUMBER}(:{NUMBER})?|@[a-z][a-z\-]*)?(#{NUMBER})?"
)
GRAMMAR = 'NAME ["/" part] ["@" [criterion ":"] threshold] ["#" score-cut], such as sensitivity@0.5'
NotNegative = Annotated[int, Meta(ge=0)]


class MatchingTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table ``[matching]``."""

    criterion: str = "box-iou"
    assignment: str = "by-score"
    thresholds: Any = 0.5  # a number, a list of them, or a table: see `_check_thresholds`
    classes: Literal["within", "ignore"] = "within"
    max_dets: int | float = 100
    score_cut: float = -math.inf
    ties: Literal["coco", "block"] = "block"
    strict: bool = False
    duplicates: Literal["penalised", "forgiven"] = "penalised"

    def __post_init__(self) -> None:
        _check_thresholds(self.thresholds)
        if self.max_dets != math.inf and not (
            self.max_dets >= 1 and self.max_dets == int(self.max_dets)
        ):
            expected = "a whole number of at least 1, or inf"
            raise InputError(expected, rule="range", location="max_dets", value=self.max_dets)
        if math.isnan(self.score_cut):  # which TOML has, and no setting means anything with it
            raise InputError(
                "a number", rule="non-finite", location="score_cut", value=self.score_cut
            )


class MetricTable(MatchingTable, frozen=True, forbid_unknown_fields=False, kw_only=True):
    """A table ``[[metric]]``; keys that are not named here are options, which the metric checks."""

    name: str
    kind: str
    size: str | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InputError(
                "a metric name",
                rule="metric-name",
                location="name",
                value=self.name,
                hint=GRAMMAR,
            )
        MatchingTable.__post_init__(self)


class MapsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``[maps]``; `calipers.metrics.maps.MapSettings` has its defaults and ranges."""

    threshold: float | str | UnsetType = UNSET
    tuning: str | UnsetType = UNSET
    connectivity: Literal["full", "edges", "faces"] | UnsetType = UNSET
    least: int | UnsetType = UNSET
    score: Literal["max", "mean"] | UnsetType = UNSET
    slices: Literal["x", "y", "z"] | UnsetType = UNSET
    batch: int | UnsetType = UNSET


class StatisticsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``[statistics]``."""

    level: float = 0.95
    replicates: NotNegative = 2000
    cluster: str | Annotated[list[str], Meta(min_length=1)] = "auto"
    interval: str = "bootse-t-logit"
    seed: NotNegative = 0
    strata: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            expected = "a level between 0 and 1"
            raise InputError(expected, rule="range", location="level", value=self.level)
        _check_choice(self.interval, INTERVALS, "interval")


class ReportTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``[report]``."""

    headline: list[str] = []


class ProtocolDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole protocol, or the changes to a preset that it ``extends``."""

    schema: str
    name: str | None = None
    source: str | None = None
    extends: Any = None
    matching: MatchingTable = field(default_factory=MatchingTable)
    sizes: dict[str, Any] = {}  # names are free, beside from and rescale_to
    maps: MapsTable | None = None
    metric: list[MetricTable] = []
    statistics: StatisticsTable = field(default_factory=StatisticsTable)
    report: ReportTable = field(default_factory=ReportTable)

    def __post_init__(self) -> None:
        for key in ("name", "source"):
            if getattr(self, key) is None and self.extends is None:
                raise InputError(f"the key {key!r}", rule="missing-key", location=key)
        for key, value in self.sizes.items():
            _check_size(key, value)


def checked(document: Mapping[str, Any], file: str) -> ProtocolDocument:
    """Return a document as a struct; whatever is wrong is an error that names the place."""
    return structure(document, ProtocolDocument, file, schema=SCHEMA)


def _check_choice(value: Any, words: Sequence[str], key: str) -> None:
    if value not in words:
        raise InputError(
            "one of " + ", ".join(words),
            rule="choice",
            location=key,
            value=value,
            hint=did_you_mean(str(value), words),
        )


def _check_thresholds(thresholds: Any) -> None:
    """Raise unless the thresholds are a range, or ascending numbers."""

    def refuse(expected: str) -> None:
        raise InputError(expected, rule="thresholds", location="thresholds", value=thresholds)

    if isinstance(thresholds, Mapping):
        keys = ("from", "to", "step")
        for key in thresholds:
            if key not in keys:
                raise InputError(
                    "a key of the schema",
                    rule="unknown-key",
                    location=f"thresholds.{key}",
                    value=key,
                    hint=did_you_mean(key, keys),
                )
        if len(thresholds) != 3 or not all(map(_is_number, thresholds.values())):
            refuse("the numbers from, to and step")
        if not all(map(math.isfinite, thresholds.values())):
            refuse("finite numbers from, to and step")
        if not thresholds["step"] > 0 or thresholds["to"] < thresholds["from"]:
            refuse("from <= to and step > 0")
        if (thresholds["to"] - thresholds["from"]) / thresholds["step"] > 10_000:
            refuse("at most 10,000 thresholds")
        if len(thresholds_of(thresholds)) == 1 and thresholds["to"] > thresholds["from"]:
            refuse("a step that is not longer than the range")
        return
    values = thresholds if isinstance(thresholds, list) else [thresholds]
    if not values or not all(map(_is_number, values)):
        refuse("at least one number")
    if any(b <= a for a, b in pairwise(values)):
        refuse("ascending thresholds, each once")


def _check_size(key: str, value: Any) -> None:
    """Raise unless an entry of ``[sizes]`` is a range of areas, or one of the two settings."""
    place = f"sizes.{key}"
    if key == "from":
        _check_choice(value, ("declared", "box", "mask"), place)
        return
    is_pair = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    if key == "rescale_to":
        expected, fits = "[width, height]", is_pair and 0 < min(value) <= max(value) < math.inf
    else:
        expected, fits = "[smallest, largest] area", is_pair and 0 <= value[0] < value[1]
    if not fits:
        raise InputError(expected, rule="size-range", location=place, value=value)


def _is_number(value: Any) -> bool:
    """Return whether this is a number; infinity is one, NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def thresholds_of(value: float | Sequence[float] | Mapping[str, float]) -> tuple[float, ...]:
    """Return the thresholds of a number, a list, or a range (``linspace``: ends are exact)."""
    if isinstance(value, Mapping):
        import numpy as np

        low, high, step = value["from"], value["to"], value["step"]
        return tuple(np.linspace(low, high, round((high - low) / step) + 1).tolist())
    if isinstance(value, int | float):
        return (float(value),)
    return tuple(float(entry) for entry in value)


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(map(_is_number, values))


def contradiction(name: str, kind: str, options: Mapping[str, Any]) -> str | None:
    """Return what a metric's name claims and its options deny, such as a threshold, or None."""
    head, _, cut = name.partition("#")
    _, _, claim = head.partition("@")
    if cut and not _are_close([float(cut)], [options.get("score_cut", -math.inf)]):
        return f"a score cut of {cut}"
    if not claim or own_matching(kind):  # such a metric checks its name itself
        return None
    words = claim.split(":")
    if not _number(words[0]):
        word = words.pop(0)
        criterion = spelled(CRITERION_WORDS.get(word, word), known("criterion"))
        if criterion != options["criterion"]:
            return f"the criterion {criterion}"
    claimed = [float(word) for word in words if _number(word)]
    values = options.get(resolve("metric", kind).facts.claim, ())
    if not _are_numbers(values):  # the metric refuses them, and says what it takes
        return None
    if len(claimed) == 2 and values:
        values = [values[0], values[-1]]  # a range is named by its two ends
    if claimed and not _are_close(claimed, values):
        return f"{claim} behind the @"
    return None


def _are_close(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether two lists of numbers are equal but for rounding."""
    if len(a) != len(b):
        return False
    return all(math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12) for x, y in zip(a, b))


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def render(protocol: Protocol) -> str:
    """Return a protocol as TOML."""
    p, view = protocol, protocol.matching
    lines = [
        f'schema = "{SCHEMA}"',
        f"name = {toml_value(p.name)}",
        f"source = {toml_value(p.source)}",
        "",
        "[matching]",
    ]
    max_dets = float("inf") if view.max_dets == NO_LIMIT else view.max_dets
    matching = {
        "criterion": view.criterion,
        "assignment": view.assignment,
        "thresholds": list(p.thresholds),
        "classes": "within" if view.within_class else "ignore",
        "max_dets": max_dets,
        "score_cut": p.score_cut,
        "ties": p.ties,
        "strict": view.strict,
        "duplicates": view.duplicates,
    }
    lines += toml_lines(matching)
    sizes: dict[str, Any] = {"from": p.size_from}
    for name, size in p.sizes.items():
        sizes[name] = list(size)
    if p.rescale_to is not None:
        sizes["rescale_to"] = list(p.rescale_to)
    lines += ["", "[sizes]", *toml_lines(sizes)]
    if p.maps is not None:
        lines += ["", "[maps]", *toml_lines(p.maps.as_dict())]
    for plan in p.metrics:
        metric = {"name": plan.name, "kind": plan.kind, **plan.options}
        lines += ["", "[[metric]]", *toml_lines(metric)]
    cluster = list(p.cluster) if isinstance(p.cluster, tuple) else p.cluster
    statistics: dict[str, Any] = {
        "level": p.level,
        "replicates": p.replicates,
        "cluster": cluster,
        "interval": p.interval,
        "seed": p.seed,
    }
    if p.strata:
        statistics["strata"] = p.strata
    lines += ["", "[statistics]", *toml_lines(statistics)]
    lines += ["", "[report]", *toml_lines({"headline": list(p.headline)}), ""]
    return "\n".join(lines)


class StoredView(Struct):
    """The matching of a stored protocol; JSON has null where there is no limit."""

    criterion: Any
    assignment: Any
    strict: Any
    duplicates: Any
    within_class: bool
    max_dets: int | float | None


class StoredProtocol(Struct):
    """The shape of a protocol's JSON; what may be in it is judged as TOML."""

    name: Any
    source: Any
    size_from: Any
    rescale_to: Any
    ties: Any
    score_cut: Any
    matching: StoredView
    thresholds: list[Any]
    sizes: dict[str, Any]
    metrics: list[Any]
    headline: list[str]
    level: Any
    replicates: Any
    cluster: Any
    interval: Any
    seed: Any
    strata: Any
    maps: Any = UNSET


def toml_document(stored: Any, file: str) -> dict[str, Any]:
    """Return the document of ``calipers.protocol/1`` whose protocol has this JSON.

    Null becomes the limit it stands for. Only the shape is checked here: `checked` judges the
    values.
    """
    p = structure(stored, StoredProtocol, file, syntax="JSON", where="/protocol")
    view = p.matching
    document: dict[str, Any] = {"schema": stored.get("schema"), "name": p.name, "source": p.source}
    document["matching"] = {
        "criterion": view.criterion,
        "assignment": view.assignment,
        "strict": view.strict,
        "duplicates": view.duplicates,
        "thresholds": p.thresholds,
        "classes": "within" if view.within_class else "ignore",
        "max_dets": _stored_limit("max_dets", view.max_dets),
        "score_cut": _stored_limit("score_cut", p.score_cut),
        "ties": p.ties,
    }
    sizes: dict[str, Any] = {}
    for name, size in p.sizes.items():
        bounds = size if isinstance(size, list) else [size]
        sizes[name] = [_stored_limit(name, bound) for bound in bounds]
    sizes["from"] = p.size_from
    if p.rescale_to is not None:
        sizes["rescale_to"] = p.rescale_to
    document["sizes"] = sizes
    if p.maps is not UNSET:
        document["maps"] = p.maps
    document["metric"] = [_stored_plan(entry) for entry in p.metrics]
    document["statistics"] = {
        "level": p.level,
        "replicates": p.replicates,
        "cluster": p.cluster,
        "interval": p.interval,
        "seed": p.seed,
    }
    if p.strata is not None:
        document["statistics"]["strata"] = p.strata
    document["report"] = {"headline": p.headline}
    return document


def _stored_limit(key: str, value: Any) -> Any:
    """Return the infinity that JSON has no word for: no cut of the scores is below all of them,
    other limits above.
    """
    if value is not None:
        return value
    return -math.inf if key == "score_cut" else math.inf


def _stored_plan(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: _stored_limit(key, value) for key, value in entry.items()}
