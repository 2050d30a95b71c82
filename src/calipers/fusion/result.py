# SPDX-License-Identifier: Apache-2.0
"""The result of a fusion as a document: the account of the recipe and, if asked for, how good the
ensemble is.

`calipers.fusion.evaluate` makes a `FusionEvaluation` and `calipers.fusion.tune` a `FusionTuning`;
``calipers fuse`` puts them with the account of the recipe into a `FusionDocument`, whose JSON is
``calipers.fusion/1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from calipers.evaluation.result import Evaluation
from calipers.fusion.fuse import Fusion
from calipers.fusion.recipe import FusionRecipe
from calipers.results.comparison import Comparison, Difference
from calipers.results.document import Document
from calipers.results.estimate import Estimate, Row

# The three models of a tuning: the recipe as it was given, and the tuned one twice.
AS_GIVEN = "as given"
SAME_IMAGES = "tuned, same images"
HELD_OUT = "tuned, held-out folds"


@dataclass(frozen=True)
class FusionEvaluation:
    """Members and ensemble on the same images."""

    ensemble: str
    protocol: str
    rows: tuple[Row, ...]  # of members and ensemble
    differences: Comparison  # the ensemble minus every member, and minus every ensemble below
    without: Mapping[str, str]  # member -> the name of the ensemble without it
    warnings: tuple[str, ...]
    evaluation: Evaluation = field(repr=False)  # of all of these models, for curves

    @property
    def members(self) -> tuple[Difference, ...]:
        """The ensemble minus each of its members."""
        left_out = set(self.without.values())
        return tuple(row for row in self.differences.rows if row.model_b not in left_out)

    def contribution(self, member: str, metric: str) -> Difference:
        """Return the ensemble minus the ensemble without a member."""
        return self.differences.get(metric, a=self.ensemble, b=self.without[member])

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were compared."""
        return tuple(dict.fromkeys(row.metric for row in self.differences.rows))

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation for JSON output."""
        contributions = []
        for member in self.without:
            for metric in self.metrics:
                row = self.contribution(member, metric).as_dict()
                contributions.append({"member": member, **row})
        return {
            "protocol": self.protocol,
            "rows": [row.as_dict() for row in self.rows],
            "differences": [row.as_dict() for row in self.members],
            "contributions": contributions,
        }


@dataclass(frozen=True)
class TunedParameter:
    """What a search made of a parameter."""

    name: str
    values: tuple[Any, ...]  # that were tried
    start: Any
    choice: Any
    in_folds: tuple[Any, ...]  # what was chosen with each fold left out

    @property
    def agreement(self) -> int:
        """In how many folds the same value was chosen."""
        return sum(value == self.choice for value in self.in_folds)

    def as_dict(self) -> dict[str, Any]:
        """Return the parameter for JSON output."""
        return {
            "name": self.name,
            "values": list(self.values),
            "start": self.start,
            "choice": self.choice,
            "in_folds": list(self.in_folds),
        }


@dataclass(frozen=True, repr=False, eq=False)
class FusionTuning(Document):
    """What `calipers.tune_fusion` returns: the tuned recipe, and what tuning is worth.

    ``recipe`` is for `calipers.fuse`. Figure: ``tuning``.
    """

    SCHEMA: ClassVar[str] = "calipers.tuning/1"
    TABLES: ClassVar[str] = "calipers.fusion.tables:tuning_tables"
    FIGURES: ClassVar[str] = "calipers.fusion.figures:TUNING_FIGURES"
    FIRST_FIGURE: ClassVar[str] = "tuning"

    recipe: FusionRecipe
    metric: str
    protocol: str
    lower_is_better: bool
    folds: int
    rounds: int
    seed: int
    unit: str
    n_units: int
    n_images: int
    n_trials: int  # values that were computed
    parameters: tuple[TunedParameter, ...]
    rows: tuple[Row, ...]  # as given, same images, held out
    gain: Difference  # held out minus as given
    warnings: tuple[str, ...]

    @property
    def as_given(self) -> Estimate:
        """The recipe before tuning."""
        return self._estimate(AS_GIVEN)

    @property
    def optimistic(self) -> Estimate:
        """The tuned recipe on the images that chose it."""
        return self._estimate(SAME_IMAGES)

    @property
    def held_out(self) -> Estimate:
        """Tuned recipes on folds that they have not seen: what to expect on new data."""
        return self._estimate(HELD_OUT)

    def _estimate(self, model: str) -> Estimate:
        return next(row.estimate for row in self.rows if row.model == model)

    def _content(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "protocol": self.protocol,
            "folds": self.folds,
            "rounds": self.rounds,
            "seed": self.seed,
            "unit": self.unit,
            "n_units": self.n_units,
            "n_images": self.n_images,
            "n_trials": self.n_trials,
            "rows": self._records(),
            "gain": self.gain.as_dict(),
            "parameters": [parameter.as_dict() for parameter in self.parameters],
            "recipe": self.recipe.as_dict(),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, repr=False, eq=False)
class FusionDocument(Document):
    """What a recipe made of the members.

    Figures, if the ensemble was evaluated: ``ensemble``, ``differences``, ``contributions``,
    ``pr``; if the recipe was tuned: ``tuning``.
    """

    SCHEMA: ClassVar[str] = "calipers.fusion/1"
    TABLES: ClassVar[str] = "calipers.fusion.tables:tables"
    FIGURES: ClassVar[str] = "calipers.fusion.figures:available"
    FIRST_FIGURE: ClassVar[str] = "ensemble"
    PAGE: ClassVar[str] = "calipers.fusion.page:write_fusion_page"
    FOLDER: ClassVar[str] = "calipers.fusion.page:write_fusion"

    fusion: Fusion  # of all images
    ensemble: str
    file: str  # the file of the fused predictions
    notes: tuple[str, ...] = ()  # of the readers
    evaluation: FusionEvaluation | None = None
    tuning: FusionTuning | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is worth knowing, once each."""
        of_evaluation = () if self.evaluation is None else self.evaluation.warnings
        of_tuning = () if self.tuning is None else self.tuning.warnings
        every = (*self.notes, *self.fusion.notes, *of_tuning, *of_evaluation)
        return tuple(dict.fromkeys(every))

    def _content(self) -> dict[str, Any]:
        evaluation = None if self.evaluation is None else self.evaluation.as_dict()
        return {
            "written": self.file,
            "ensemble": self.ensemble,
            "recipe": self.fusion.recipe.as_dict(),
            "images": self.fusion.predictions.n_images,
            "predictions": len(self.fusion.predictions),
            "members": [asdict(member) for member in self.fusion.members],
            "steps": [asdict(count) for count in self.fusion.counts],
            "tuning": None if self.tuning is None else self.tuning.as_dict(),
            "evaluation": evaluation,
            "warnings": list(self.warnings),
        }
