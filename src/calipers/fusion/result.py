# SPDX-License-Identifier: Apache-2.0
"""The result of a fusion as a document: the account of the recipe and, if asked for, how good the
ensemble is.

`calipers.fusion.evaluate` makes a `FusionEvaluation`; ``calipers fuse`` puts it with the account of
the recipe into a `FusionDocument`, whose JSON is ``calipers.fusion/1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from calipers.fusion.fuse import Fusion
from calipers.results.comparison import Comparison, Difference
from calipers.results.document import Document
from calipers.results.estimate import Row


@dataclass(frozen=True)
class FusionEvaluation:
    """Members and ensemble on the same images."""

    ensemble: str
    protocol: str
    rows: tuple[Row, ...]  # of members and ensemble
    differences: Comparison  # the ensemble minus every member, and minus every ensemble below
    without: Mapping[str, str]  # member -> the name of the ensemble without it
    warnings: tuple[str, ...]

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
class FusionDocument(Document):
    """What a recipe made of the members."""

    SCHEMA: ClassVar[str] = "calipers.fusion/1"
    TABLES: ClassVar[str] = "calipers.fusion.tables:tables"

    fusion: Fusion
    ensemble: str
    file: str  # the file of the fused predictions
    notes: tuple[str, ...] = ()  # of the readers
    evaluation: FusionEvaluation | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is worth knowing, once each."""
        of_evaluation = () if self.evaluation is None else self.evaluation.warnings
        return tuple(dict.fromkeys((*self.notes, *self.fusion.notes, *of_evaluation)))

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
            "evaluation": evaluation,
            "warnings": list(self.warnings),
        }
