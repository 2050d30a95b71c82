# SPDX-License-Identifier: Apache-2.0
"""The protocol: a written-down evaluation plan, as TOML or as one of the presets.

A protocol says how places are compared, who is assigned to whom, which metrics are computed and how
uncertainty is stated. Unknown keys are errors that name the nearest known one; nothing is taken
from the environment.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from calipers import registry
from calipers.arguments import names_arguments, names_fields, wrong_argument
from calipers.errors import InputError, UsageError, did_you_mean, shown
from calipers.evaluation.protocol_schema import (
    GRAMMAR,
    NAME,
    NO_LIMIT,
    SCHEMA,
    checked,
    contradiction,
    render,
    thresholds_of,
    toml_document,
)
from calipers.kernels.assignment import CHOOSING_IN_TURN
from calipers.kernels.resampling import check_seed
from calipers.matching.matches import View
from calipers.metrics.base import DERIVED_OPTION, MATCHING_OPTIONS, Facts, Metric, MetricPlan
from calipers.metrics.metric_names import hint_among, named_plan
from calipers.results.toml import parse_toml, read_toml
from calipers.statistics.intervals import check_level

if TYPE_CHECKING:
    from calipers.metrics.maps import MapSettings

MOST_REPLICATES = 10_000_000
MOST_METRICS, MOST_VIEWS = 1000, 20_000  # of a protocol: every threshold is matched by itself
NAME_OF_POINT = " ("  # in the name of a metric, such as AP (threshold=0.1)


@names_fields
@dataclass(frozen=True)
class Protocol:
    """A complete, checked plan. Make one with `Protocol.load`, change it with
    `dataclasses.replace`.
    """

    name: str
    source: str
    matching: View
    thresholds: tuple[float, ...]
    sizes: Mapping[str, tuple[float, float]]
    size_from: Literal["declared", "box", "mask"]
    rescale_to: tuple[float, float] | None
    ties: Literal["block", "coco"]
    score_cut: float
    metrics: tuple[MetricPlan, ...]
    headline: tuple[str, ...]
    level: float
    replicates: int
    cluster: str | tuple[str, ...]
    interval: str
    seed: int
    strata: str | None = None  # groups that are fixed: units are drawn inside each of them
    maps: MapSettings | None = None  # for protocols whose references and predictions are maps

    def __post_init__(self) -> None:
        check_level(self.level)
        if not 0 <= self.replicates <= MOST_REPLICATES:
            raise UsageError(
                f"replicates are a number from 0 to {MOST_REPLICATES:,}, got {self.replicates}"
            )
        check_seed(self.seed)

    @classmethod
    def load(cls, protocol: str | Path | Protocol) -> Protocol:
        """Return a protocol from a preset name, the path of a TOML file, or a protocol.

        Examples
        --------
        >>> from calipers import Protocol
        >>> Protocol.load("coco").headline
        ('AP', 'AP50', 'AP75')
        """
        if isinstance(protocol, Protocol):
            protocol.check()
            return protocol
        text = str(protocol)
        if text in presets():
            return _preset(text)
        path = Path(text)
        if path.suffix == ".toml" or os.path.exists(path):
            return cls.from_toml(read_toml(path), file=text)
        raise UsageError(f"no preset {text!r}; {did_you_mean(text, presets())}")

    def check(self) -> None:
        """Raise for settings that no file could hold: a protocol may also be made in Python.

        Such a protocol would be computed with settings that mean nothing, and what is saved with it
        could not be opened.
        """
        _ = self._checked_document  # kept: a protocol is checked once

    @cached_property
    def _checked_document(self) -> dict[str, Any]:
        """The protocol as a file has it; raises where a file could not hold it."""
        _check_fields(self)
        _check_fields(self.matching)
        # The class of these is loaded only where maps are: it is known by what it has.
        if self.maps is not None and not hasattr(self.maps, "as_dict"):
            raise UsageError(f"Protocol: maps are settings of maps, not {shown(self.maps)}")
        plans: Sequence[Any] = self.metrics  # a tuple can hold anything
        for plan in plans:
            if not isinstance(plan, MetricPlan) or not isinstance(plan.options, Mapping):
                raise UsageError(f"Protocol: metrics are plans with options, not {shown(plan)}")
        # Names of metrics may say more than those of files: a sweep has one at every point.
        names = {}
        for k, plan in enumerate(self.metrics):
            names[plan.name] = f"m{k}" if NAME_OF_POINT in plan.name else plan.name
        headline = tuple(names.get(name, name) for name in self.headline)
        metrics = tuple(replace(plan, name=names[plan.name]) for plan in self.metrics)
        plain, file = replace(self, metrics=metrics, headline=headline), "<Protocol>"
        # The rules of files, which no other place has to repeat.
        document = toml_document(plain.as_dict(), file)
        _build(document, file)
        return document

    @classmethod
    def from_toml(cls, text: str, *, file: str = "<text>") -> Protocol:
        """Return the protocol written in ``text``, starting from the preset it ``extends``."""
        document = parse_toml(text, file)
        if "extends" not in document:
            return _build(document, file)
        base = checked(document, file).extends
        if base not in presets():
            hint = did_you_mean(str(base), presets())
            raise InputError(
                "the name of a preset",
                rule="unknown-preset",
                file=file,
                field="extends",
                value=base,
                hint=hint,
            )
        protocol = _build(_extended(tomllib.loads(_preset_text(base)), document), file)
        return _renamed(protocol, _preset(base), document)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], *, file: str = "<protocol>") -> Protocol:
        """Return the protocol that `as_dict` gave, from a document that may have been changed
        since.
        """
        protocol = _build(toml_document(stored, file), file)
        if protocol.as_dict() != stored:
            hint = "only protocols that can be written as TOML are found again"
            raise InputError(
                "a protocol in which every key stands once",
                rule="stored-protocol",
                file=file,
                hint=hint,
            )
        return protocol

    def to_toml(self) -> str:
        """Return the protocol as TOML; reading it back gives an equal protocol."""
        return render(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the protocol for JSON output; infinities become null."""
        document = asdict(self)
        document["metrics"] = [{"name": m.name, "kind": m.kind, **m.options} for m in self.metrics]
        document.pop("maps")
        if self.maps is not None:
            document["maps"] = self.maps.as_dict()
        return dict(_finite({"schema": SCHEMA, **document}))

    def resolved(self) -> list[MetricPlan]:
        """Return the metric plans with the defaults of the matching filled in."""
        return [_resolve(self, plan) for plan in self.metrics]

    def compile(self) -> list[Metric[Any]]:
        """Return the metric objects: one for all plans of a kind that share their evidence, in
        order of appearance.
        """
        return self._compiled

    def compile_rounds(self, most: int) -> list[list[Metric[Any]]]:
        """Return the same metrics in rounds of about ``most`` numbers, for thousands of classes."""
        rounds: list[list[Metric[Any]]] = []
        numbers = most
        for kind, plans in self._plans_together:
            # Never one plan of several: NumPy adds up the classes of a single number pairwise.
            step = max(2, most)
            edges = [*range(0, max(1, len(plans) - 1), step), len(plans)]
            for first, end in pairwise(edges):
                metric = registry.resolve("metric", kind)(plans[first:end])
                if not rounds or numbers + len(metric.facts.names) > most:
                    rounds.append([])
                    numbers = 0
                rounds[-1].append(metric)
                numbers += len(metric.facts.names)
        return rounds

    @cached_property
    def _compiled(self) -> list[Metric[Any]]:
        return [registry.resolve("metric", kind)(plans) for kind, plans in self._plans_together]

    @cached_property
    def _plans_together(self) -> list[tuple[str, list[MetricPlan]]]:
        together: dict[tuple[Any, ...], list[MetricPlan]] = {}
        # A sweep has a limit on its points of its own.
        named = [plan for plan in self.metrics if NAME_OF_POINT not in plan.name]
        if len(named) > MOST_METRICS:
            _refuse_size(f"at most {MOST_METRICS:,} metrics", len(named))
        n_views = 0
        for plan in self.resolved():
            kind = registry.resolve("metric", plan.kind)
            recipe = kind([plan]).recipe
            n_views += len(getattr(recipe, "views", ()))
            if named and n_views > MOST_VIEWS:
                _refuse_size(f"at most {MOST_VIEWS:,} thresholds of all metrics", n_views)
            # Plans of one kind and recipe share a metric, and with it the pass over the evidence.
            together.setdefault((plan.kind, recipe.key), []).append(plan)
        return [(key[0], plans) for key, plans in together.items()]

    @cached_property
    def lower_is_better(self) -> frozenset[str]:
        """The names of the metrics of which less is better."""
        names = []
        for metric in self.compile():
            facts = metric.facts
            names += [name for name in facts.names if facts.lower_is_better(name)]
        return frozenset(names)

    @cached_property
    def units(self) -> dict[str, str]:
        """The units of the metrics whose values are no shares, by their names."""
        units: dict[str, str] = {}
        for metric in self.compile():
            units.update(metric.facts.units)
        return units

    def remark(self, metric: str) -> str:
        """Return how to read the values of a metric, such as "frames, lower is better"; nothing if
        it is a share of which more is better.
        """
        unit = self.units.get(metric, "")
        direction = "lower is better" if metric in self.lower_is_better else ""
        return ", ".join(filter(None, (unit, direction)))

    @cached_property
    def whole(self) -> frozenset[str]:
        """The names of the metrics whose values are whole numbers."""
        return frozenset().union(*(metric.facts.whole for metric in self.compile()))

    @cached_property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Between which values every metric lies, by its name."""
        bounds = {}
        for metric in self.compile():
            for k, name in enumerate(metric.facts.names):
                bounds[name] = metric.facts.bounds_of(k)
        return bounds

    def facts_of_kinds(self) -> dict[str, list[Facts]]:
        """Return kind -> the facts of its metrics, in order of appearance."""
        kind_of = {plan.name: plan.kind for plan in self.metrics}
        facts: dict[str, list[Facts]] = {}
        for metric in self.compile():
            facts.setdefault(kind_of[metric.facts.names[0]], []).append(metric.facts)
        return facts

    def only(self, names: Sequence[str]) -> Protocol:
        """Return the protocol with only these metrics."""
        names_here = [plan.name for plan in self.metrics]
        for name in names:
            if name not in names_here:
                raise UsageError(
                    f"protocol {self.name!r} has no metric {name!r}; {hint_among(name, names_here)}"
                )
        selection = tuple(plan for plan in self.metrics if plan.name in names)
        return replace(
            self,
            metrics=selection,
            headline=tuple(n for n in self.headline if n in names) or tuple(names),
        )

    def including(self, names: Sequence[str]) -> Protocol:
        """Return the protocol with those of these metrics that it lacks, as `with_metrics`."""
        own = [plan.name for plan in self.metrics]
        others = [name for name in names if name not in own]
        if not others:
            return self
        return replace(self.with_metrics([*own, *others]), headline=self.headline)

    def with_metrics(self, names: Sequence[str]) -> Protocol:
        """Return the protocol with these metrics: its own by their names, others by what a name
        says, such as ``AP@0.4``, or ``score=0.75*AUROC/case + 0.25*FROC@0.25``.

        Examples
        --------
        >>> from calipers import Protocol
        >>> protocol = Protocol.load("coco").with_metrics(["AP50", "FROC@1", "F1@0.3"])
        >>> [(plan.name, plan.kind) for plan in protocol.metrics]
        [('AP50', 'average-precision'), ('FROC@1', 'froc'), ('F1@0.3', 'f-beta')]
        """
        plans_here = {plan.name: plan for plan in self.metrics}
        plans = []
        for name in names:
            title, sign, formula = name.partition("=")
            if sign:
                options = {"formula": formula.strip()}
                plans.append(MetricPlan(title.strip(), "weighted-sum", options))
            elif name in plans_here:
                plans.append(plans_here[name])
            else:
                plans.append(named_plan(name, self.thresholds, list(plans_here)))
        if tuple(plans) == self.metrics:
            return self
        protocol = replace(
            self,
            name=f"{self.name}, metrics chosen",
            source=f"{self.source}; metrics chosen by name",
            metrics=tuple(plans),
            headline=tuple(plan.name for plan in plans),
        )
        for plan in plans:
            if not NAME.fullmatch(plan.name):
                raise UsageError(f"{plan.name!r} is not the name of a metric: {GRAMMAR}")
        _check_together(protocol, "metrics")
        return protocol


@names_arguments
def presets() -> list[str]:
    """Return the names of the presets that ship with Calipers."""
    return list(_preset_names())


@lru_cache(maxsize=1)
def _preset_names() -> tuple[str, ...]:
    folder = resources.files("calipers").joinpath("presets")
    names = (entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(sorted(name.removesuffix(".toml") for name in names))


@lru_cache(maxsize=64)
def _preset(name: str) -> Protocol:
    """Return a preset; they are frozen, so each is parsed once."""
    return Protocol.from_toml(_preset_text(name), file=f"preset {name}")


def _refuse_size(expected: str, number: int) -> NoReturn:
    raise InputError(
        expected,
        rule="too-large",
        file="<Protocol>",
        field="metric",
        value=number,
        hint="leave metrics or thresholds out, evaluate in several runs, or use calipers sweep for "
        "curves over thresholds",
    )


def _preset_text(name: str) -> str:
    return (
        resources.files("calipers").joinpath("presets", f"{name}.toml").read_text(encoding="utf-8")
    )


def _extended(base: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Replace keys of a preset: tables key by key, the list of metrics as a whole."""
    result = dict(base)
    for key, value in document.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = {**result[key], **value}
        elif key != "extends":
            result[key] = value
    if (
        "metric" in document and "report" not in document
    ):  # a headline of metrics that were replaced
        result.pop("report", None)
    return result


def _renamed(protocol: Protocol, base: Protocol, document: Mapping[str, Any]) -> Protocol:
    """Return a changed preset under another name and source: it is not the preset any more."""
    if replace(protocol, name=base.name, source=base.source) == base:
        return protocol
    name = protocol.name if "name" in document else f"{base.name}, changed"
    source = protocol.source if "source" in document else f"{base.source}; with changes"
    return replace(protocol, name=name, source=source)


def _check_fields(settings: Protocol | View) -> None:
    """Raise for an entry that is not of the type of its field, or no number."""
    kind = type(settings)
    values = {one.name: getattr(settings, one.name) for one in fields(settings)}
    problem = wrong_argument(kind.__init__, (settings, *values.values()), {})
    if problem is None:
        for name, value in values.items():
            entries = value if isinstance(value, tuple) else (value,)
            if any(isinstance(entry, float) and math.isnan(entry) for entry in entries):
                problem = f"{name} is a number, not NaN"
    if problem is not None:
        raise UsageError(f"{kind.__name__}: {problem}")


def _build(document: Mapping[str, Any], file: str) -> Protocol:
    """Return the protocol of a document, which is checked."""
    plan = checked(document, file)
    matching, statistics = plan.matching, plan.statistics
    thresholds = thresholds_of(matching.thresholds)
    sizes = dict(plan.sizes)
    size_from, rescale_to = sizes.pop("from", "declared"), sizes.pop("rescale_to", None)
    levels = statistics.cluster
    cluster = levels if isinstance(levels, str) else tuple(levels)
    maps = _map_settings(document["maps"], file) if "maps" in document else None
    protocol = Protocol(
        name=plan.name or "",
        source=plan.source or "",
        matching=View(
            criterion=registry.check("criterion", matching.criterion),
            assignment=registry.check("assignment", matching.assignment),
            threshold=thresholds[0],
            max_dets=_limit(matching.max_dets),
            within_class=matching.classes == "within",
            strict=matching.strict,
            score_cut=matching.score_cut,
            duplicates=matching.duplicates,
        ),
        thresholds=thresholds,
        sizes={name: (float(low), float(high)) for name, (low, high) in sizes.items()},
        size_from=size_from,
        rescale_to=None if rescale_to is None else tuple(rescale_to),
        ties=matching.ties,
        score_cut=matching.score_cut,
        # Options as they are written, not as the struct has them: the metric checks its own.
        metrics=tuple(_plan(entry) for entry in document.get("metric", [])),
        headline=tuple(plan.report.headline),
        level=statistics.level,
        replicates=statistics.replicates,
        cluster=cluster,
        interval=statistics.interval,
        seed=statistics.seed,
        strata=statistics.strata,
        maps=maps,
    )
    _check_together(protocol, file)
    return protocol


def _map_settings(table: Mapping[str, Any], file: str) -> MapSettings:
    from calipers.metrics.maps import MapSettings

    try:
        return MapSettings.from_dict(table)
    except UsageError as error:
        raise InputError(
            "settings of maps", rule="maps", file=file, location="maps", value=str(error)
        ) from None


def _plan(entry: dict[str, Any]) -> MetricPlan:
    options = {key: value for key, value in entry.items() if key not in ("name", "kind")}
    return MetricPlan(entry["name"], registry.check("metric", entry["kind"]), options)


def _check_together(protocol: Protocol, file: str) -> None:
    """Check what needs the whole document: names, sizes, headline, and that every metric accepts
    its options.
    """
    names = [plan.name for plan in protocol.metrics]
    if not names:
        raise InputError("at least one [[metric]]", rule="no-metric", file=file)
    for k, plan in enumerate(protocol.metrics):
        where = f"metric[{k}]"
        if plan.name in names[:k]:
            raise InputError(
                "unique metric names",
                rule="dup-metric",
                file=file,
                location=where,
                value=plan.name,
            )
        for size in _sizes_of(plan):
            if size not in protocol.sizes:
                hint = "add it under [sizes]"
                if protocol.sizes:
                    hint = did_you_mean(str(size), protocol.sizes)
                raise InputError(
                    "a size of [sizes]",
                    rule="unknown-size",
                    file=file,
                    location=where,
                    value=size,
                    hint=hint,
                )
    for k, plan in enumerate(protocol.resolved()):
        _check_claims(plan, file, f"metric[{k}]")
    for name in protocol.headline:
        if name not in names:
            hint = did_you_mean(name, names)
            raise InputError(
                "a metric",
                rule="unknown-metric",
                file=file,
                field="headline",
                value=name,
                hint=hint,
            )
    protocol.compile()


def _sizes_of(plan: MetricPlan) -> list[Any]:
    """Return the names of sizes that a metric looks at."""
    several = plan.options.get("over_sizes", [])
    size = plan.options.get("size")
    names = list(several) if isinstance(several, list | tuple) else []
    return names if size is None else [size, *names]


def _check_claims(plan: MetricPlan, file: str, where: str) -> None:
    """Refuse a name that says something else than the options, and overlaps above 1."""
    claim = contradiction(plan.name, plan.kind, plan.options)
    if claim is not None:
        hint = "a metric must compute what its name says: rename it, or set its own thresholds"
        raise InputError(
            f"options with {claim}",
            rule="metric-claim",
            file=file,
            location=where,
            value=plan.name,
            hint=hint,
        )
    if not registry.own_matching(plan.kind):
        criterion = registry.resolve("criterion", plan.options["criterion"])
        least, most = min(plan.options["thresholds"]), max(plan.options["thresholds"])
        if least < 0 and (criterion.distance or criterion.none == 0):
            what = "distances" if criterion.distance else "overlaps"
            raise InputError(
                "thresholds of at least 0",
                rule="thresholds",
                file=file,
                location=where,
                value=least,
                hint=f"{what} are never below 0",
            )
        if most > 1 and not criterion.distance:
            hint = "overlaps lie in [0, 1]: write 0.5 for 50 %"
            raise InputError(
                "thresholds of at most 1",
                rule="thresholds",
                file=file,
                location=where,
                value=most,
                hint=hint,
            )


def _resolve(protocol: Protocol, plan: MetricPlan) -> MetricPlan:
    """Return a metric plan with the defaults of the protocol's matching filled in."""
    own, view = plan.options, protocol.matching
    if DERIVED_OPTION in own:
        hint = did_you_mean(DERIVED_OPTION, MATCHING_OPTIONS)
        raise UsageError(
            f"metric {plan.name!r} ({plan.kind}) has no option {DERIVED_OPTION!r}; {hint}"
        )
    if registry.own_matching(plan.kind):
        # Of the protocol's own options only the metric's defaults apply.
        names = registry.resolve("metric", plan.kind).defaults
        defaults = {name: getattr(protocol, name) for name in names}
        return replace(plan, options={**defaults, **own})
    assignment = registry.check("assignment", own.get("assignment", view.assignment))
    max_dets = match_dets = _limit(own.get("max_dets", view.max_dets))
    if assignment in CHOOSING_IN_TURN:
        # In descending score a later prediction never changes an earlier match: one matching
        # serves every limit.
        limits = [_limit(other.options.get("max_dets", 0)) for other in protocol.metrics]
        match_dets = max([view.max_dets, *limits])
    thresholds = protocol.thresholds
    if "thresholds" in own:
        thresholds = thresholds_of(own["thresholds"])
    options = {
        "criterion": registry.check("criterion", own.get("criterion", view.criterion)),
        "assignment": assignment,
        "classes": "within" if view.within_class else "ignore",
        "score_cut": protocol.score_cut,
        "ties": protocol.ties,
        "strict": view.strict,
        "duplicates": view.duplicates,
        **own,
        "thresholds": thresholds,
        "size": (0.0, float("inf")),
        "max_dets": max_dets,
        DERIVED_OPTION: match_dets,
    }
    if "size" in own:
        options["size"] = protocol.sizes[own["size"]]
    if isinstance(own.get("over_sizes"), list | tuple):
        options["over_sizes"] = tuple(protocol.sizes[name] for name in own["over_sizes"])
    return replace(plan, options=options)


def _limit(max_dets: float) -> int:
    return NO_LIMIT if max_dets == float("inf") else int(max_dets)


def _finite(value: Any) -> Any:
    """Return JSON-ready data: tuples as lists, infinities and missing limits as None."""
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, int):
        return None if value == NO_LIMIT else value
    if isinstance(value, float):
        return None if math.isinf(value) else value
    return value
