# SPDX-License-Identifier: Apache-2.0
"""Agreement of localization criteria with clinicians' ratings, and of clinicians with each other.

`agreement` reads a table of ratings and returns an `Agreement`: rows of estimates for every
criterion and threshold, comparisons of criteria, coefficients among raters, sentences and warnings.
`calipers.agreement` and the ``agreement`` command call it. The numbers are made in `decisions`
(criteria) and `raters`, the table is read by `read`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.agreement.decisions import (
    BOUNDS,
    BY_RATER,
    CriterionDifference,
    Decision,
    RatingView,
    Thresholds,
    compare_criteria,
    criterion_rows,
    decision_rows,
    decisions_of,
    measure,
    threshold_rows,
)
from calipers.agreement.estimates import Resampling
from calipers.agreement.raters import Panel, rater_agreement
from calipers.agreement.read import RatingChoices, Ratings, Scale, read_ratings
from calipers.arguments import names_arguments
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.kernels.resampling import check_seed
from calipers.results.document import Document
from calipers.results.estimate import Estimate, Row
from calipers.show.words import (
    count_text,
    flag_text,
    percent_text,
    plural,
    share_in_words,
)
from calipers.statistics.estimates import Progress
from calipers.statistics.intervals import check_level, check_replicates
from calipers.statistics.weights import Units

FAULTLESS = "too few errors for an interval; {span} of such {units} are without error"
HEADLINE = 0.5  # the threshold of a criterion that is put into words, if it was looked at

MOST_RATERS = 20  # shown one by one
# Every replicate has margins of every rater, and the panel a place for every item and rater.
MOST_OF_PANEL = 4096
MOST_RATINGS = 1 << 25
# Limits of the remarks: our judgement.
UNBALANCED = 0.8
FEWEST_FOR_P = 6

Words = str | Sequence[str] | None


@dataclass(frozen=True, repr=False, eq=False)
class Agreement(Document):
    """What `calipers.agreement` returns."""

    SCHEMA = "calipers.agreement/1"
    TABLES = "calipers.agreement.tables:tables"

    ratings: Ratings
    decisions: tuple[Decision, ...]
    rows: tuple[Row, ...]
    comparisons: tuple[CriterionDifference, ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...]

    def get(self, metric: str, **group: str | float) -> Estimate:
        """Return one estimate.

        Parameters
        ----------
        metric
            Such as ``"sensitivity"``, ``"AUROC"`` or, among raters, ``"Fleiss"``.
        group
            ``criterion``, ``threshold``, ``rater``; as much of it as is needed to mean one row.
        """
        candidates = [row for row in self.rows if row.metric == metric]
        if not candidates:
            names = dict.fromkeys(row.metric for row in self.rows)
            raise UsageError(f"no metric {metric!r} in this result; {did_you_mean(metric, names)}")
        labels = {}
        for name, value in group.items():
            labels[name] = f"{value:g}" if isinstance(value, int | float) else value
        rows = []
        for row in candidates:
            own = dict(row.group or {})
            # All that was named has to agree; what was not named may be anything.
            if labels.items() <= own.items():
                rows.append(row)
        if "rater" not in labels:
            # Without a rater, the row over all raters is meant, if there is one.
            rows = [row for row in rows if "rater" not in (row.group or {})] or rows
        if len(rows) != 1:
            groups = "; ".join(str(dict(row.group or {})) for row in (rows or candidates)[:4])
            raise UsageError(
                f"{len(rows)} rows of {metric!r} match {group}; name one, such as {groups}"
            )
        return rows[0].estimate

    def headlines(self) -> list[Decision]:
        """Return one decision per criterion that has any: the one at 0.5, else the first."""
        headlines = []
        for criterion in self.ratings.criteria:
            own = [decision for decision in self.decisions if decision.criterion == criterion]
            usual = [decision for decision in own if decision.threshold == HEADLINE]
            headlines += (usual or own)[:1]
        return headlines

    def sentences(self) -> list[str]:
        """Return in words what every criterion at its headline threshold does to useful and not
        useful predictions.
        """
        return [self._sentence(decision) for decision in self.headlines()]

    def _sentence(self, decision: Decision) -> str:
        accepted = self.get("sensitivity", **decision.group)
        rejected = self.get("specificity", **decision.group)
        useful = self._rated(accepted.n_predictions)
        not_useful = self._rated(rejected.n_predictions)
        first = f"Of {useful} useful, {decision} accepts {_percent(accepted)}"
        return f"{first}; of {not_useful} not useful it rejects {_percent(rejected)}."

    def _rated(self, n: int) -> str:
        """Return ``14 predictions rated``, or of repeated ratings ``14 ratings that say``."""
        if self.ratings.repeated:
            return f"{count_text('rating', n)} that {'says' if n == 1 else 'say'}"
        return f"{count_text('prediction', n)} rated"

    def _content(self) -> dict[str, Any]:
        ratings = self.ratings
        useful = None if ratings.useful is None else int(ratings.useful.sum())
        not_useful = None if useful is None else len(ratings) - useful
        raters = None if ratings.rater is None else len(ratings.rater)
        images = None if ratings.image is None else len(ratings.image)
        return {
            "settings": self.settings,
            "ratings": {
                "ratings": len(ratings),
                "useful": useful,
                "not_useful": not_useful,
                "items": len(ratings.item),
                "raters": raters,
                "images": images,
                "categories": list(ratings.categories),
                "scale": ratings.scale,
                "criteria": list(ratings.criteria),
                "distances": sorted(ratings.distances),
                "understood": list(ratings.understood),
                "files": [ratings.intake.as_dict()],
            },
            "rows": self._records(),
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "sentences": self.sentences(),
            "warnings": list(self.warnings),
        }


@names_arguments
def agreement(
    ratings: Any,
    *,
    rating: str | None = None,
    criteria: Words = None,
    distances: Words = None,
    thresholds: Thresholds = None,
    rater: str | None = None,
    item: str | None = None,
    cluster: str | None = None,
    useful: Words = None,
    categories: Words = None,
    scale: Scale | None = None,
    lenient: bool = False,
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Agreement:
    """Compare what criteria accept with what raters call useful, and raters with each other.

    Parameters
    ----------
    ratings
        A table with a row per rating: a file (CSV, TSV, parquet), a mapping of columns, or a pandas
        frame.
    rating, criteria, rater, item
        Columns; found by their names if left out.
    distances
        Criteria that are better when small; those called a distance are recognised.
    thresholds
        Numbers for all criteria, or ``{"criterion": numbers}``.
    cluster
        Unit of resampling: ``patient`` (default if known), ``image``, ``item``, any column.
    useful
        The ratings that count as useful; not needed for useful / not useful, yes / no, 1 / 0.
    categories
        All ratings from lowest to highest, where words have an order.
    scale
        ``nominal``, ``ordinal`` or ``interval``, for the agreement among raters.
    lenient
        Set rows without a rating or with broken cells aside and count them.
    level, replicates, seed
        Of the intervals.
    progress
        Called with (replicates done, replicates in all) of each resampling.

    Notes
    -----
    A criterion accepts a prediction if its value is at least the threshold (above it at 0; at most,
    for a distance). Sensitivity is the share of useful predictions that it accepts, specificity the
    share of not useful ones that it rejects. See `calipers.agreement_scores` for all scores,
    `calipers.agreement.raters` for several raters.

    Examples
    --------
    >>> import calipers as cal
    >>> table = {
    ...     "patient": [k // 2 for k in range(20)],
    ...     "rating": ["useful"] * 14 + ["not useful"] * 6,
    ...     "box-iou": [.9, .8, .7, .6, .55, .3, .2, .6, .7, .8]
    ...     + [.4, .3, .6, .7, .0, .1, .0, .0, .0, .2],
    ... }
    >>> result = cal.agreement(table, thresholds=.5)
    >>> useful = result.get("sensitivity", criterion="box-iou", threshold=.5)
    >>> round(useful.value, 3), useful.n_predictions, useful.unit, useful.n_units
    (0.714, 14, 'patient', 10)
    >>> result.sentences()[0]
    'Of 14 predictions rated useful, box-iou at 0.5 accepts 71 % (...); of 6 predictions rated not
    useful it ...'
    """
    _check_settings(level, replicates, seed)
    choices = RatingChoices(
        rating=rating,
        criteria=_as_tuple(criteria),
        distances=_as_tuple(distances) or (),
        rater=rater,
        item=item,
        cluster=cluster,
        useful=_as_tuple(useful),
        categories=_as_tuple(categories),
        scale=scale,
    )
    table = read_ratings(ratings, choices, lenient=lenient)
    # One resampling for everything, so that all scores see the same replicates.
    units = Units.of(table.unit, table.units, len(table))
    how = Resampling(units, replicates, seed, level, progress)
    panel = panel_of(table) if table.repeated else None
    decisions = decisions_of(table, thresholds)
    rows, comparisons, flags = _criteria(table, decisions, how)
    if panel is not None:
        among, new_flags = rater_agreement(panel, _item_resampling(table, how), table.name)
        rows, flags = [*rows, *among], flags | new_flags
    settings = {"level": level, "replicates": replicates, "seed": seed, "unit": how.units.name}
    settings["n_units"] = how.units.number
    warnings = [
        *_remarks(table, decisions, how),
        *in_words(sorted(flags), how.units.name, how.units.number),
    ]
    return Agreement(
        table, tuple(decisions), tuple(rows), tuple(comparisons), settings, tuple(warnings)
    )


def _percent(estimate: Estimate) -> str:
    if estimate.value != estimate.value:
        return "nothing that could be counted"
    return share_in_words(estimate, FAULTLESS)


def panel_of(ratings: Ratings) -> Panel:
    """Return the ratings as items by raters; raters without a name take the places in order of the
    rows.
    """
    # Coefficients that do not need to know who rated work with places alone.
    rater = ratings.rater.code if ratings.rater is not None else _place_in_item(ratings.item.code)
    n_items, n_raters = len(ratings.item), int(rater.max()) + 1
    if n_raters > MOST_OF_PANEL or n_items * n_raters > MOST_RATINGS:
        raise InputError(
            f"at most {MOST_OF_PANEL:,} raters, and {MOST_RATINGS:,} items times raters",
            rule="too-large",
            file=ratings.intake.file,
            field="rater" if ratings.rater is not None else "item",
            value=f"{n_items:,} items with up to {n_raters:,} raters",
            hint="name the columns of the raters and of the items with --rater COLUMN and "
            "--item COLUMN; a column that differs in every row is neither",
        )
    codes = np.full((n_items, n_raters), -1, np.int64)
    codes[ratings.item.code, rater] = ratings.code
    return Panel(codes, ratings.values, ratings.scale, named=ratings.rater is not None)


def _criteria(
    table: Ratings, decisions: Sequence[Decision], how: Resampling
) -> tuple[list[Row], list[CriterionDifference], set[str]]:
    """Return everything about criteria: pooled, by rater, and against each other."""
    if not table.criteria:
        return [], [], set()
    if table.useful is None:
        categories = ", ".join(table.categories)
        raise UsageError(
            "which ratings count as useful? Name them with --useful VALUE,... (useful=...); "
            f"the table has: {categories}"
        )
    view, model = RatingView.of(table, decisions), table.name
    point = measure(view, iter([np.ones((1, len(table)), np.int64)]))
    replicates = measure(view, how.blocks())
    rows, flags = decision_rows(view, point, replicates, how, model=model, names=tuple(BOUNDS))
    areas, area_flags = criterion_rows(view, point, replicates, how, model=model)
    best = threshold_rows(view, point, replicates, how, model=model, distances=table.distances)
    # A criterion of zeros and ones has nothing to choose a threshold from.
    graded = [row for row in best if not table.yes_no((row.group or {})["criterion"])]
    by_rater = _by_rater(table, view, how)
    comparisons = compare_criteria(view, point, replicates, how)
    return [*rows, *areas, *graded, *by_rater], comparisons, flags | area_flags


def _by_rater(table: Ratings, view: RatingView, how: Resampling) -> list[Row]:
    """Return the main scores for every rater alone."""
    if table.rater is None or not 1 < len(table.rater) <= MOST_RATERS:
        return []
    scores = []
    for k, name in enumerate(table.rater.names):
        rows = np.flatnonzero(table.rater.code == k)
        # Units that a rater has not seen must not widen the intervals: resampled among the own rows
        # only.
        part, own = view.take(rows), how.part(rows)
        point = measure(part, iter([np.ones((1, len(rows)), np.int64)]))
        replicates = measure(part, own.blocks())
        group = {"rater": name}
        scores += decision_rows(
            part, point, replicates, own, model=table.name, names=BY_RATER, group=group
        )[0]
        scores += criterion_rows(part, point, replicates, own, model=table.name, group=group)[0]
    return scores


def _item_resampling(table: Ratings, how: Resampling) -> Resampling:
    """Return the resampling of items: each belongs to the unit of its ratings."""
    first = np.unique(table.item.code, return_index=True)[1]
    return how.part(first)


def _place_in_item(
    code: np.ndarray[Any, np.dtype[np.int64]],
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return for every row how many rows of its item came before."""
    order = np.argsort(code, kind="stable")
    codes = code[order]
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    place = np.empty(len(code), np.int64)
    place[order] = np.arange(len(code)) - np.repeat(starts, np.diff(np.append(starts, len(code))))
    return place


def _remarks(table: Ratings, decisions: Sequence[Decision], how: Resampling) -> list[str]:
    """Return the notes that a reader needs to interpret the numbers."""
    remarks = list(table.intake.notes)
    for rule, n in table.intake.quarantined.items():
        remarks.append(f"{n} of {table.intake.read} rows set aside: {rule}")
    if table.rater is not None and len(table.rater) > 1 and not table.repeated:
        remarks.append(
            f"each item is rated once, by one of {len(table.rater)} raters: agreement among "
            "raters cannot be estimated, and a difference between raters cannot be told from a "
            "difference between their items; see the rows by rater"
        )
    if table.rater is not None and len(table.rater) > MOST_RATERS and table.criteria:
        remarks.append(f"{len(table.rater)} raters: too many to show one by one")
    if table.repeated and table.criteria:
        remarks.append(f"every rating counts once: {len(table)} ratings of {len(table.item)} items")
    if table.repeated and table.rater is None:
        remarks.append("raters have no names: no Conger kappa, and no rows by rater")
    return [*remarks, *_criterion_remarks(table, decisions, how)]


def _criterion_remarks(table: Ratings, decisions: Sequence[Decision], how: Resampling) -> list[str]:
    """Return the notes on criteria: constant ones, missing thresholds, too few units."""
    remarks = []
    if table.criteria and table.useful is not None and len(table):
        share = float(table.useful.mean())
        if share in (0.0, 1.0):
            only = "useful" if share else "not useful"
            remarks.append(
                f"all {len(table)} ratings are {only}: scores that compare two kinds of ratings "
                "are undefined"
            )
        elif max(share, 1 - share) > UNBALANCED:
            remarks.append(
                f"{percent_text(share)} of the ratings are useful: kappa, pi, alpha and MCC are "
                "small for that reason alone; look at the two shares and at AC1"
            )
    with_decision = {decision.criterion for decision in decisions}
    for name, values in table.criteria.items():
        if (values == values[0]).all():
            remarks.append(f"the criterion {name} is {values[0]:g} for every prediction")
        if name not in with_decision:
            remarks.append(
                f"no threshold for {name}: only AUROC and its best threshold "
                f"(give --thresholds {name}=NUMBER,...)"
            )
    if len(table.criteria) > 1 and how.units.number < FEWEST_FOR_P:
        # Swapping on K units has 2^K ways, half of them mirror images.
        smallest = 2 / 2**how.units.number
        remarks.append(
            f"{how.units.number} {plural(how.units.name)}: no p value by units can be below "
            f"{smallest:g}"
        )
    return remarks


def in_words(flags: Sequence[str], unit: str, n_units: int) -> list[str]:
    """Return one sentence for every flag of the intervals."""
    sentences = {
        "few_units": f"some values come from fewer than 10 of the {n_units} {plural(unit)}: their "
        "intervals are rough",
        "few_errors": f"{flag_text('few_errors', unit)} (marked * in tables)",
        "identical_units": f"{flag_text('identical_units', unit)} (marked § in tables)",
    }
    return [sentence for flag, sentence in sentences.items() if flag in flags]


def _as_tuple(words: Words) -> tuple[str, ...] | None:
    if words is None:
        return None
    if isinstance(words, str):
        return (words,)
    return tuple(words)


def _check_settings(level: float, replicates: int, seed: int) -> None:
    check_level(level)
    check_replicates(replicates)
    check_seed(seed)
