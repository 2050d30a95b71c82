# SPDX-License-Identifier: Apache-2.0
"""`StabilityResult`, the result of `calipers.stability`: rows of estimates, and methods that
compute everything else from the evidence (per bag, per pair, thresholds, leaving out models).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import finite, word
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.pairwise import pair_index
from calipers.results import Estimate, Row
from calipers.results.document import RowsDocument
from calipers.stability import document, wording
from calipers.stability import localization as localizing
from calipers.stability.called import CallCounts
from calipers.stability.cases import Cases
from calipers.stability.components import Components, components
from calipers.stability.correlation import ScoreCorrelation, correlate
from calipers.stability.localization import LEAST_JACCARD, Localization
from calipers.stability.models import LeaveOneOut, leave_one_out
from calipers.stability.pairs import BagPairs, check_name, pair_scores
from calipers.stability.paradox import Paradox, paradox
from calipers.stability.plan import ALL_MODELS, StabilityPlan
from calipers.stability.remarks import Remark
from calipers.stability.rows import IDENTICAL, group_text, names_of
from calipers.stability.scores import AT_THRESHOLD, CALLED, bag_values, check_score, conventional
from calipers.stability.undefined import UndefinedPairs
from calipers.tables.bags import Bag, Bags

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calipers.plots.figures import Figure
    from calipers.stability.objects_result import ObjectStability

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class StabilityResult(RowsDocument):
    """What `calipers.stability` returns.

    ``result["APJ"]`` is the estimate of a score over all models: the mean over bags of the mean
    over pairs of models, with an interval over bags or patients. Its ``n_images`` are the bags that
    were used; of those that have a value, ``n_references`` are the ones that are known to be
    positive and ``n_predictions`` the maps of all models.
    """

    plan: StabilityPlan
    evidence: BagPairs
    cases: Cases
    stability_rows: tuple[Row, ...]
    localized: Localization
    remarks: tuple[Remark, ...] = ()
    # the maps, for pictures of single bags
    source: Bags | None = field(default=None, repr=False, compare=False)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return self.plan.models

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the bags that were used."""
        return self.plan.ids

    @property
    def n_bags(self) -> int:
        """Bags, used or not."""
        return self.plan.n_bags

    @property
    def n_used(self) -> int:
        """Bags in the stability scores."""
        return len(self.plan.ids)

    @property
    def threshold(self) -> float:
        """At or above it an instance is called positive."""
        return self.plan.threshold

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the scores of all models."""
        return names_of(self.plan)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All estimates: scores, the second summary of undefined pairs, the sweep, then every model
        by itself.
        """
        return (*self.stability_rows, *self.localized.rows)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Remarks on the numbers, in words."""
        return tuple(remark.text for remark in self.remarks)

    @property
    def flags(self) -> tuple[str, ...]:
        """The codes of what may mislead, such as ``kappa-paradox``, ``undefined-pairs``,
        ``few-models``.
        """
        return tuple(remark.code for remark in self.remarks if remark.flag)

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of a score over all models."""
        return self.get(name)

    def get(self, metric: str, *, model: str = ALL_MODELS, **group: str | float) -> Estimate:
        """Return one estimate, such as ``get("APJ", threshold=0.3)`` or ``get("DICE", model="seed
        1")``.
        """
        metric, model = word("a score", metric), word("a model", model)
        texts = {name: group_text(value) for name, value in group.items()}
        estimate = self._by_key.get((model, metric, tuple(sorted(texts.items()))))
        if estimate is not None:
            return estimate
        if model not in (ALL_MODELS, *self.models):
            raise UsageError(
                f"no model {model!r}; {did_you_mean(model, (ALL_MODELS, *self.models))}"
            )
        metrics = dict.fromkeys(row.metric for row in self.rows if row.model == model)
        if metric in metrics:
            raise UsageError(f"no row of {metric!r} with {texts or 'no group'}")
        reason = self.localized.missing.get(metric)
        hint = reason.replace("_", " ") if reason else did_you_mean(metric, metrics)
        raise UsageError(f"no score {metric!r} of {model}; {hint}")

    def per_bag(self, name: str) -> F64:
        """Return (n_used,): the mean of a score over the pairs of models on every bag; NaN where it
        is undefined.
        """
        self._check(name)
        return bag_values(self.evidence, name, self._here, self.plan.undefined)

    def sd(self, name: str, ddof: int = 0) -> float:
        """Return the standard deviation over bags; ``ddof`` 0 as the published tables have it."""
        values = self.per_bag(name)
        defined_values = values[~np.isnan(values)]
        return float(defined_values.std(ddof=ddof)) if len(defined_values) > ddof else float("nan")

    def ranked(self, name: str) -> I64:
        """Return the places of the bags that have a value, least stable first; ties in the order of
        the bags.
        """
        values = self.per_bag(name)
        # called-by-some measures disagreement, all other scores agreement
        sign = -1.0 if name == "called-by-some" else 1.0
        bags = np.flatnonzero(~np.isnan(values))
        return bags[np.argsort(sign * values[bags], kind="stable")]

    def per_pair(self, name: str) -> F64:
        """Return (n_models, n_models): the mean of a score over bags for every pair; NaN on the
        diagonal.
        """
        scores = self._pairs(name)
        first, second = pair_index(len(self.models))
        matrix = np.full((len(self.models), len(self.models)), np.nan)
        for p, (i, j) in enumerate(zip(first, second)):
            values = scores[~np.isnan(scores[:, p]), p]
            if len(values):
                matrix[i, j] = matrix[j, i] = values.mean()
        return matrix

    def undefined(self, name: str) -> UndefinedPairs:
        """Return how many pairs and bags have no value, under the convention ``skip``."""
        if word("a score", name) in CALLED:
            return UndefinedPairs.of(name, self.per_bag(name)[:, None])
        return UndefinedPairs.of(name, self._pairs(name, "skip"))

    def with_convention(self, name: str) -> Estimate:
        """Return the estimate in which two maps that call everything alike count as 1: the second
        summary.
        """
        self._check(name)
        return self.get(name, **IDENTICAL) if conventional(name) else self.get(name)

    def leave_one_out(self, name: str) -> LeaveOneOut:
        """Return a score without each model in turn, and its interval over models: what holds for
        other trainings.
        """
        self._pairs(name)
        level, undefined = self.plan.certainty.level, self.plan.undefined
        return leave_one_out(self.evidence, name, self._here, undefined, self.models, level)

    def components(self, name: str) -> Components:
        """Return the variance of a score between bags, between pairs of models, and the rest."""
        return components(name, self._pairs(name))

    def correlation(self, method: str = "spearman") -> ScoreCorrelation:
        """Return the correlations between scores over bags, by ``spearman`` or ``pearson``."""
        word("a correlation", method)
        return correlate(
            self.names, np.stack([self.per_bag(name) for name in self.names], axis=1), method
        )

    def sweep(self, name: str) -> tuple[F64, list[Estimate]]:
        """Return the thresholds of the sweep and the estimates of a score at them."""
        self._check(name)
        if name not in AT_THRESHOLD:
            raise UsageError(f"{name} compares values, not calls: it has no threshold to sweep")
        return np.array(self.plan.sweep), [self.get(name, threshold=t) for t in self.plan.sweep]

    def called(self, threshold: float | None = None) -> CallCounts:
        """Return how many models call an instance positive, at the chosen threshold or one of the
        sweep.
        """
        at = self.threshold if threshold is None else finite("threshold", threshold)
        return CallCounts(at, self.evidence.calls[:, self.evidence.at(at)])

    def bag(self, i: int) -> Bag:
        """Return the maps of all models on the i-th bag that was used; it may be read from disk
        now.
        """
        if self.source is None:
            raise UsageError("this result was made without its maps: run the analysis again")
        positive = self.source.positive
        if self.plan.bags == "positive" and positive is not None:
            return self.source[int(np.flatnonzero(positive)[i])]
        return self.source[range(len(self.source))[i]]

    def margins(self) -> F64:
        """Return (n_used, n_models): negative less positive calls of every model (n0* - n1*)."""
        return np.asarray(
            self.evidence.n[:, None] - 2 * self.evidence.ones[:, self._here], np.float64
        )

    def paradox(self) -> Paradox:
        """Return on how many pairs prevalence makes AJ and APJ misleading."""
        return paradox(self.evidence, self._here)

    def localization(
        self, pooling: str = "max", least_jaccard: float = LEAST_JACCARD
    ) -> Localization:
        """Return the models against the reference.

        Parameters
        ----------
        pooling
            How a map becomes a score of its bag, for the AUC, where no bag scores were given:
            ``max``, ``mean``, ``noisy-or`` or ``lse``.
        least_jaccard
            From which Jaccard index on a bag counts as found, for the accuracy.
        """
        pooling, least_jaccard = word("a pooling", pooling), finite("least_jaccard", least_jaccard)
        if (pooling, least_jaccard) == ("max", LEAST_JACCARD):
            return self.localized
        return localizing.localization(self.evidence, self.plan, self.cases, pooling, least_jaccard)

    def sentences(self) -> list[str]:
        """Return the result in words, the verdict first."""
        return wording.sentences(self)

    def figure(self, name: str, **choices: Any) -> Figure:
        """Return a figure as data: one of `calipers.plots.stability.FIGURES`.

        Parameters
        ----------
        name
            ``pairs``, ``models``, ``called``, ``bags``, ``images``, ``sweep``, ``scores``, ``dice``
            or ``auc``.
        choices
            Such as ``score="Spearman"``, or ``bag="image 7"`` of ``bags`` and ``called``.
        """
        from calipers.plots.stability import figure

        return figure(self, name, **choices)

    def plot(self, name: str = "pairs", ax: Axes | None = None, **choices: Any) -> Axes:
        """Draw a figure with matplotlib (extra ``mpl``) and return its axes."""
        from calipers.plots.mpl import draw

        return draw(self.figure(name, **choices), ax)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write the page alone, whole or not at all; ``images``, ``objects`` and ``command`` as in
        `save`.
        """
        from calipers.report.stability import write_stability_page

        return write_stability_page(self, Path(path), **options)

    def save(
        self,
        folder: str | Path,
        *,
        force: bool = False,
        command: Sequence[str] = (),
        images: str | Path | None = None,
        objects: ObjectStability | None = None,
    ) -> Path:
        """Write ``stability.html``, ``stability.json``, ``stability.csv``, ``bags.csv`` and
        figures; return the page.

        Parameters
        ----------
        folder
            New or empty, and not the folder of an input.
        force
            Allow a folder that holds something; an earlier result in it is replaced, other files
            stay.
        command
            The command line of the analysis, shown on the page.
        images
            A folder with the pictures of the images, found by their ids; maps are drawn above them.
        objects
            What the same models find, object by object, if they are detectors.
        """
        from calipers.report.stability import write_stability

        return write_stability(
            self, Path(folder), force=force, command=command, images=images, objects=objects
        )

    def _repr_html_(self) -> str:
        from calipers.report.stability import of_stability

        return of_stability(self)

    def __str__(self) -> str:
        return document.as_text(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of the contract ``calipers.stability/1``."""
        return document.as_dict(self)

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, tuple[tuple[str, str], ...]], Estimate]:
        table = {}
        for row in self.rows:
            group = tuple(sorted((row.group or {}).items()))
            table[row.model, row.metric, group] = row.estimate
        return table

    @property
    def _here(self) -> int:
        return self.evidence.at(self.threshold)

    def _check(self, name: str) -> None:
        check_score(word("a score", name))
        if name not in self.names:
            raise UsageError(f"{name} was not computed: run the analysis with kendall=True")

    def _pairs(self, name: str, undefined: str | None = None) -> F64:
        """Return (B, P) scores of the pairs; raise for a number that is not one of pairs."""
        if word("a score", name) in CALLED:
            raise UsageError(f"{name} is a share over all models, not a score of pairs of them")
        check_name(name)
        self._check(name)
        return pair_scores(self.evidence, name, self._here, undefined or self.plan.undefined)
