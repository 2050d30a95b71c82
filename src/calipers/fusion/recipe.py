# SPDX-License-Identifier: Apache-2.0
"""Recipes: how the predictions of several models become those of an ensemble, step by step.

A recipe is a TOML file of the schema ``calipers.recipe/1``, or one of those that ship with Calipers
(`recipes`). Its steps are carried out in order. Until a step brings the members together, each step
works on every member by itself; the steps that fuse always bring them together, ``nms`` and
``soft-nms`` with ``pool = true``.

A recipe may hold what was learnt on a tuning split: the curves of its calibrations, the values that
a search chose, and under ``provenance`` where they come from. What may be searched stands in it
too: ``tune`` of a step has values for its options, ``[tune]`` those for the weights of members.

`FusionRecipe.load` gives a checked recipe; `calipers.fusion.fuse` carries it out and
`calipers.fusion.tune` searches; `FusionRecipe.to_toml` writes what they learnt.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.fusion.calibrate import CalibrationMethod, ScoreCurve
from calipers.fusion.fusion_methods import Confidence, Decay
from calipers.results.schema import structure
from calipers.results.toml import parse_toml, read_toml, toml_key, toml_lines

SCHEMA = "calipers.recipe/1"

Kind = Literal[
    "nms",
    "soft-nms",
    "non-maximum-weighted",
    "weighted-boxes-fusion",
    "resize",
    "top-k",
    "score-cut",
    "calibrate",
]
Share = Annotated[float, Meta(ge=0, le=1)]
NotNegative = Annotated[float, Meta(ge=0)]

# The options of every kind with their defaults; None has to be given.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "nms": {"iou_threshold": 0.5, "pool": False},
    "soft-nms": {
        "method": "gaussian",
        "iou_threshold": 0.5,
        "sigma": 0.5,
        "skip_threshold": 0.001,
        "pool": False,
    },
    "non-maximum-weighted": {"iou_threshold": 0.5, "skip_threshold": 0.0},
    "weighted-boxes-fusion": {
        "iou_threshold": 0.5,
        "skip_threshold": 0.0,
        "confidence": "avg",
    },
    "resize": {"factor": None, "score_above": 0.0},
    "top-k": {"k": None},
    "score-cut": {"least": None},
    "calibrate": {"method": "isotonic", "iou_threshold": 0.5, "curves": {}},
}
METHODS: Mapping[str, tuple[str, ...]] = {
    "soft-nms": get_args(Decay),
    "calibrate": get_args(CalibrationMethod),
}
# Kinds whose boxes are others than those of the members.
MOVING = ("non-maximum-weighted", "weighted-boxes-fusion", "resize")
FUSING = ("non-maximum-weighted", "weighted-boxes-fusion")


class CurveTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A fitted curve: knots and values, a temperature, or the reason why there is none."""

    n: Annotated[int, Meta(ge=0)]
    hits: Annotated[int, Meta(ge=0)]
    knots: list[Share] | UnsetType = UNSET
    values: list[Share] | UnsetType = UNSET
    temperature: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    reason: Literal["no_boxes", "no_hits", "all_hits", "constant_scores"] | UnsetType = UNSET

    def __post_init__(self) -> None:
        kinds = [name for name in ("knots", "temperature", "reason") if self._has(name)]
        if len(kinds) != 1 or self._has("knots") != self._has("values"):
            raise InputError("knots and values, or a temperature, or a reason", rule="choice")
        if isinstance(self.knots, list) and isinstance(self.values, list):
            _check_ascending("knots", self.knots, strictly=True)
            _check_ascending("values", self.values, strictly=False)
            if len(self.knots) != len(self.values):
                raise InputError("as many values as knots", rule="type", location="values")

    def _has(self, name: str) -> bool:
        return getattr(self, name) is not UNSET

    def curve(self) -> ScoreCurve:
        """Return the curve that is written here."""
        stated = {name: getattr(self, name) for name in self.__struct_fields__ if self._has(name)}
        for name in ("knots", "values"):
            if name in stated:
                stated[name] = tuple(stated[name])
        return ScoreCurve(**stated)


class StepTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table ``[[step]]``; which keys it may have depends on its kind."""

    kind: Kind
    iou_threshold: Share | UnsetType = UNSET
    skip_threshold: Share | UnsetType = UNSET
    confidence: Confidence | UnsetType = UNSET
    method: Decay | CalibrationMethod | UnsetType = UNSET
    sigma: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    pool: bool | UnsetType = UNSET
    factor: Annotated[float, Meta(gt=0, le=10)] | UnsetType = UNSET
    score_above: Share | UnsetType = UNSET
    k: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    least: Share | UnsetType = UNSET
    curves: dict[str, CurveTable] | UnsetType = UNSET
    tune: dict[str, Annotated[list[Any], Meta(min_length=1)]] = {}

    def __post_init__(self) -> None:
        options = OPTIONS[self.kind]
        methods = METHODS.get(self.kind, ())
        if self.method is not UNSET and methods and self.method not in methods:
            raise InputError(
                "one of " + ", ".join(methods), rule="choice", location="method", value=self.method
            )
        for key in self.tune:
            if key not in options or key == "curves":
                raise InputError(
                    f"an option of {self.kind}",
                    rule="unknown-key",
                    location=f"tune.{key}",
                    value=key,
                    hint=did_you_mean(key, [name for name in options if name != "curves"]),
                )
        for key in self.__struct_fields__[1:-1]:
            is_set = getattr(self, key) is not UNSET
            if is_set and key not in options:
                raise InputError(
                    f"an option of {self.kind}",
                    rule="unknown-key",
                    location=key,
                    value=key,
                    hint=did_you_mean(key, options),
                )
            if not is_set and key in options and options[key] is None:
                raise InputError(f"the key {key!r}", rule="missing-key", location=key)


class TuneTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``[tune]``: what is searched beyond the options of steps."""

    weights: Annotated[list[NotNegative], Meta(min_length=1)] | None = None  # of every member


class RecipeDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole recipe."""

    schema: str
    name: Annotated[str, Meta(min_length=1)]
    step: Annotated[list[StepTable], Meta(min_length=1)]
    source: str = ""
    members: Annotated[list[str], Meta(min_length=1)] | None = None
    weights: dict[str, NotNegative] = {}
    tune: TuneTable = TuneTable()
    provenance: dict[str, str | int | float | bool] = {}


# What a step does, for readers who have not seen its file.
IN_WORDS = {
    "nms": "NMS at an IoU above {iou_threshold}",
    "soft-nms": "soft-NMS, gaussian with sigma {sigma}",
    "non-maximum-weighted": "non-maximum weighted at an IoU above {iou_threshold}",
    "weighted-boxes-fusion": "weighted boxes fusion at an IoU above {iou_threshold}",
    "resize": "sides times {factor} where the score is above {score_above}",
    "top-k": "the {k} best boxes of every image",
    "score-cut": "scores of {least} or more",
    "calibrate": "{method} calibration of scores, hits at an IoU of {iou_threshold}",
}


@dataclass(frozen=True)
class RecipeStep:
    """One step with all of its options, and the values that a search may give them."""

    kind: str
    options: Mapping[str, Any]
    ranges: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def pools(self) -> bool:
        """Whether it brings the members together."""
        return self.kind in FUSING or bool(self.options.get("pool", False))

    @property
    def needs_curves(self) -> bool:
        """Whether it calibrates scores; curves are fitted for it."""
        return self.kind == "calibrate" and self.options["method"] != "none"

    def with_options(self, **options: Any) -> RecipeStep:
        """Return the step with other values of some options."""
        return replace(self, options={**self.options, **options})

    def as_dict(self) -> dict[str, Any]:
        """Return the step for JSON output."""
        options = dict(self.options)
        if "curves" in options:
            curves = self.options["curves"].items()
            options["curves"] = {name: curve.as_dict() for name, curve in curves}
        return {"kind": self.kind, **options}

    def __str__(self) -> str:
        words = IN_WORDS[self.kind].format(**self.options)
        if self.kind == "calibrate" and not self.needs_curves:
            words = "no calibration"
        if self.options.get("k") == 1:
            words = "the best box of every image"
        if self.options.get("method") == "linear":
            words = "soft-NMS, linear at an IoU above {iou_threshold}".format(**self.options)
        if self.options.get("skip_threshold"):
            words += f", without scores below {self.options['skip_threshold']}"
        if "confidence" in self.options:
            words += f", confidence {self.options['confidence']}"
        return words + (", all members together" if self.options.get("pool") else "")


@dataclass(frozen=True)
class FusionRecipe:
    """How the predictions of members become those of an ensemble."""

    name: str
    source: str
    steps: tuple[RecipeStep, ...]
    members: tuple[str, ...] | None = None  # None: all models
    weights: Mapping[str, float] = field(default_factory=dict)  # of members; others have 1
    weight_range: tuple[float, ...] = ()  # what a search may give to every member
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of what was learnt

    @classmethod
    def load(cls, recipe: str | Path | FusionRecipe) -> FusionRecipe:
        """Return a recipe from a built-in name, the path of a TOML file, or a recipe.

        Examples
        --------
        >>> from calipers.fusion.recipe import FusionRecipe
        >>> [step.kind for step in FusionRecipe.load("endocv2022").steps]
        ['nms', 'weighted-boxes-fusion', 'resize']
        """
        if isinstance(recipe, FusionRecipe):
            return recipe
        text = str(recipe)
        if text in recipes():
            file = resources.files("calipers").joinpath("fusion", "recipes", f"{text}.toml")
            return cls.from_toml(file.read_text(encoding="utf-8"), file=f"recipe {text}")
        path = Path(text)
        if path.suffix == ".toml" or os.path.exists(path):
            return cls.from_toml(read_toml(path, "a recipe (TOML)"), file=text)
        raise UsageError(f"no recipe {text!r}; {did_you_mean(text, recipes())}")

    @classmethod
    def from_toml(cls, text: str, *, file: str = "<text>") -> FusionRecipe:
        """Return the recipe written in ``text``."""
        document = structure(parse_toml(text, file), RecipeDocument, file, schema=SCHEMA)
        members = document.members
        if members is not None and len(set(members)) < len(members):
            raise InputError(
                "each member once", rule="choice", file=file, location="members", value=members
            )
        for name in document.weights:
            if members is not None and name not in members:
                raise InputError(
                    "a member",
                    rule="choice",
                    file=file,
                    location=f"weights.{name}",
                    value=name,
                    hint=did_you_mean(name, members),
                )
        return cls(
            name=document.name,
            source=document.source,
            steps=tuple(_step(table, file, k) for k, table in enumerate(document.step)),
            members=None if members is None else tuple(members),
            weights=dict(document.weights),
            weight_range=tuple(document.tune.weights or ()),
            provenance=dict(document.provenance),
        )

    @property
    def moves(self) -> bool:
        """Whether a step moves boxes; otherwise all steps only choose and score."""
        return any(step.kind in MOVING for step in self.steps)

    def to_toml(self) -> str:
        """Return the recipe as TOML; reading it back gives an equal recipe."""
        head: dict[str, Any] = {"schema": SCHEMA, "name": self.name, "source": self.source}
        if self.members is not None:
            head["members"] = list(self.members)
        lines = toml_lines(head)
        if self.weights:
            lines += ["", "[weights]", *toml_lines(self.weights)]
        if self.weight_range:
            lines += ["", "[tune]", *toml_lines({"weights": list(self.weight_range)})]
        if self.provenance:
            lines += ["", "[provenance]", *toml_lines(self.provenance)]
        for step in self.steps:
            options = step.as_dict()
            curves = options.pop("curves", {})
            if step.ranges:
                options["tune"] = {key: list(values) for key, values in step.ranges.items()}
            lines += ["", "[[step]]", *toml_lines(options)]
            for name, curve in curves.items():
                lines += ["", f"[step.curves.{toml_key(name)}]", *toml_lines(curve)]
        return "\n".join([*lines, ""])

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe for JSON output."""
        steps = [step.as_dict() for step in self.steps]
        members = None if self.members is None else list(self.members)
        return {
            "schema": SCHEMA,
            "name": self.name,
            "source": self.source,
            "members": members,
            "weights": dict(self.weights),
            "steps": steps,
            "provenance": dict(self.provenance),
        }


def tuned_name(name: str) -> str:
    """Return the name of a recipe whose parameters were chosen on a tuning split."""
    return name if name.endswith("-tuned") else f"{name}-tuned"


@cache
def recipes() -> tuple[str, ...]:
    """Return the names of the recipes that ship with Calipers."""
    folder = resources.files("calipers").joinpath("fusion", "recipes")
    names = [file.name for file in folder.iterdir() if file.name.endswith(".toml")]
    return tuple(sorted(name.removesuffix(".toml") for name in names))


def _step(table: StepTable, file: str, place: int) -> RecipeStep:
    options: dict[str, Any] = {}
    for key, default in OPTIONS[table.kind].items():
        value = getattr(table, key)
        options[key] = default if value is UNSET else value
    if "curves" in options:
        curves = options["curves"].items()
        options["curves"] = {name: curve.curve() for name, curve in curves}
    ranges = {}
    for key, values in table.tune.items():
        for k, value in enumerate(values):
            where = f"step[{place}].tune.{key}[{k}]"
            _check_option(table.kind, key, value, file, where)
        ranges[key] = tuple(values)
    return RecipeStep(table.kind, options, ranges)


def _check_option(kind: str, key: str, value: Any, file: str, where: str) -> None:
    """Raise unless a value of a range could stand in the step itself."""
    required = {name: 1 for name, default in OPTIONS[kind].items() if default is None}
    try:
        structure({"kind": kind, **required, key: value}, StepTable, file)
    except InputError as error:
        raise error.at(file, where) from None


def _check_ascending(name: str, numbers: list[float], *, strictly: bool) -> None:
    for low, high in pairwise(numbers):
        if high < low or (strictly and high == low):
            raise InputError("ascending numbers", rule="range", location=name, value=high)
    if not numbers:
        raise InputError("at least one number", rule="type", location=name)
