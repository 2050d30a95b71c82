# SPDX-License-Identifier: Apache-2.0
"""Recipes: how the predictions of several models become those of an ensemble, step by step.

A recipe is a TOML file of the schema ``calipers.recipe/1``, or one of those that ship with Calipers
(`recipes`). Its steps are carried out in order. Until a step brings the members together, each step
works on every member by itself; the steps that fuse always bring them together, ``nms`` and
``soft-nms`` with ``pool = true``.

`FusionRecipe.load` gives a checked recipe; `calipers.fusion.fuse` carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.fusion.pool import Confidence, Decay
from calipers.results.schema import structure
from calipers.results.toml import parse_toml, read_toml

SCHEMA = "calipers.recipe/1"

Kind = Literal[
    "nms",
    "soft-nms",
    "non-maximum-weighted",
    "weighted-boxes-fusion",
    "resize",
    "top-k",
    "score-cut",
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
}
# Kinds whose boxes are others than those of the members.
MOVING = ("non-maximum-weighted", "weighted-boxes-fusion", "resize")
FUSING = ("non-maximum-weighted", "weighted-boxes-fusion")


class StepTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table ``[[step]]``; which keys it may have depends on its kind."""

    kind: Kind
    iou_threshold: Share | UnsetType = UNSET
    skip_threshold: Share | UnsetType = UNSET
    confidence: Confidence | UnsetType = UNSET
    method: Decay | UnsetType = UNSET
    sigma: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    pool: bool | UnsetType = UNSET
    factor: Annotated[float, Meta(gt=0, le=10)] | UnsetType = UNSET
    score_above: Share | UnsetType = UNSET
    k: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    least: Share | UnsetType = UNSET

    def __post_init__(self) -> None:
        options = OPTIONS[self.kind]
        for key in self.__struct_fields__[1:]:
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


class RecipeDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole recipe."""

    schema: str
    name: Annotated[str, Meta(min_length=1)]
    step: Annotated[list[StepTable], Meta(min_length=1)]
    source: str = ""
    members: Annotated[list[str], Meta(min_length=1)] | None = None
    weights: dict[str, NotNegative] = {}


@dataclass(frozen=True)
class RecipeStep:
    """One step with all of its options."""

    kind: str
    options: Mapping[str, Any]

    @property
    def pools(self) -> bool:
        """Whether it brings the members together."""
        return self.kind in FUSING or bool(self.options.get("pool", False))

    def __str__(self) -> str:
        options = [f"{key}={value}" for key, value in self.options.items()]
        return f"{self.kind}({', '.join(options)})"


@dataclass(frozen=True)
class FusionRecipe:
    """How the predictions of members become those of an ensemble."""

    name: str
    source: str
    steps: tuple[RecipeStep, ...]
    members: tuple[str, ...] | None = None  # None: all models
    weights: Mapping[str, float] = field(default_factory=dict)  # of members; others have 1

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
        if path.suffix == ".toml" or path.exists():
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
            steps=tuple(_step(table) for table in document.step),
            members=None if members is None else tuple(members),
            weights=dict(document.weights),
        )

    @property
    def moves(self) -> bool:
        """Whether a step moves boxes; otherwise all steps only choose and score."""
        return any(step.kind in MOVING for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe for JSON output."""
        steps = [{"kind": step.kind, **step.options} for step in self.steps]
        members = None if self.members is None else list(self.members)
        return {
            "schema": SCHEMA,
            "name": self.name,
            "source": self.source,
            "members": members,
            "weights": dict(self.weights),
            "steps": steps,
        }


@cache
def recipes() -> tuple[str, ...]:
    """Return the names of the recipes that ship with Calipers."""
    folder = resources.files("calipers").joinpath("fusion", "recipes")
    names = [file.name for file in folder.iterdir() if file.name.endswith(".toml")]
    return tuple(sorted(name.removesuffix(".toml") for name in names))


def _step(table: StepTable) -> RecipeStep:
    options = {}
    for key, default in OPTIONS[table.kind].items():
        value = getattr(table, key)
        options[key] = default if value is UNSET else value
    return RecipeStep(table.kind, options)
