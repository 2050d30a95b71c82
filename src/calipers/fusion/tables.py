# SPDX-License-Identifier: Apache-2.0
"""Tables of a fusion: what the members brought, what each step left, how good the ensemble is.

A `FusionDocument` comes in, `show.table.Table` goes out; the command line and notebooks show these.
"""

from __future__ import annotations

from calipers.evaluation.tables import reading_notes
from calipers.fusion.result import (
    AS_GIVEN,
    HELD_OUT,
    SAME_IMAGES,
    FusionDocument,
    FusionEvaluation,
    FusionTuning,
)
from calipers.results.comparison import Difference
from calipers.show.comparison_tables import P_COLUMNS
from calipers.show.table import Table, TableRow
from calipers.show.words import (
    intervals_by,
)


def tables(result: FusionDocument) -> list[Table]:
    """Return members and steps and, if the ensemble was evaluated, values and contributions."""
    all_tables = [members_table(result), steps_table(result)]
    if result.tuning is not None:
        all_tables += tuning_tables(result.tuning)
    if result.evaluation is not None:
        all_tables.append(values_table(result.evaluation))
        if result.evaluation.without:
            all_tables.append(contributions_table(result.evaluation))
    return all_tables


def members_table(result: FusionDocument) -> Table:
    """Return what every member brings."""
    rows: list[TableRow] = []
    for member in result.fusion.members:
        rows.append((member.model, member.boxes, member.images, member.classes))
    return Table(
        ("member", "boxes", "images with boxes", "classes with boxes"),
        tuple(rows),
        title="Members",
        name="table-members",
        kinds=("name", "count", "count", "count"),
    )


def steps_table(result: FusionDocument) -> Table:
    """Return how many boxes there are after every step."""
    rows: list[TableRow] = [(count.step, count.boxes) for count in result.fusion.counts]
    return Table(
        ("step", "boxes after it"),
        tuple(rows),
        title=f"Recipe {result.fusion.recipe.name}",
        name="table-steps",
        kinds=("text", "count"),
    )


def values_table(evaluation: FusionEvaluation) -> Table:
    """Return the metrics of members and ensemble, and the difference between the two."""
    difference_of = {(row.metric, row.model_b): row for row in evaluation.members}
    rows: list[TableRow] = []
    for metric in evaluation.metrics:
        for row in evaluation.rows:
            difference = difference_of.get((metric, row.model))
            if row.metric == metric and difference is None:
                rows.append((metric, row.model, row.estimate, None, None))
            elif row.metric == metric and difference is not None:
                rows.append((metric, row.model, row.estimate, *_tested(difference)))
    return Table(
        ("metric", "model", "value", f"{evaluation.ensemble} − model", _p_column(evaluation)),
        tuple(rows),
        title="Members and ensemble",
        notes=tuple(filter(None, (_note(evaluation), *_reading(evaluation)))),
        name="table-ensemble",
        kinds=("name", "name", "value", "signed", "p"),
    )


def contributions_table(evaluation: FusionEvaluation) -> Table:
    """Return the ensemble without each member, and how much worse that is."""
    rows: list[TableRow] = []
    for metric in evaluation.metrics:
        for member in evaluation.without:
            row = evaluation.contribution(member, metric)
            rows.append((metric, member, row.value_b, *_tested(row)))
    columns = ("metric", "member", "ensemble without it", "contribution", _p_column(evaluation))
    return Table(
        columns,
        tuple(rows),
        title="What each member adds",
        notes=(
            "The contribution is the ensemble minus the ensemble without the member, on the same "
            "images. Contributions do not add up: members that agree replace each other.",
        ),
        name="table-contributions",
        kinds=("name", "name", "value", "signed", "p"),
    )


def tuning_tables(tuning: FusionTuning) -> list[Table]:
    """Return what tuning is worth, and what it chose."""
    return [tuning_table(tuning), parameters_table(tuning)]


def tuning_table(tuning: FusionTuning) -> Table:
    """Return the metric of the recipe as given, tuned on the same images, and on held-out folds."""
    words = {
        AS_GIVEN: "the recipe before tuning",
        SAME_IMAGES: "optimistic: the parameters were chosen on these images",
        HELD_OUT: "honest: the recipe of a fold was chosen on the other folds",
    }
    rows: list[TableRow] = []
    for row in tuning.rows:
        rows.append((row.model, row.estimate, words[row.model]))
    return Table(
        ("recipe", tuning.metric, ""),
        tuple(rows),
        title=f"Tuning of {tuning.recipe.name}",
        notes=(tuning_note(tuning),),
        name="table-tuning",
        kinds=("name", "value", "text"),
    )


def tuning_note(tuning: FusionTuning) -> str:
    """Return how the search was done and judged, and whether it is shown to help."""
    return (
        f"{tuning.gain.sentence} {tuning.n_images:,} images, {tuning.folds} folds by {tuning.unit} "
        f"(n = {tuning.n_units:,}), seed {tuning.seed}; {tuning.n_trials:,} values were computed. "
        "The interval of the held-out value does not include the variability of the search itself."
    )


def parameters_table(tuning: FusionTuning) -> Table:
    """Return what was searched and chosen, and in how many folds the choice was the same."""
    rows: list[TableRow] = []
    for parameter in tuning.parameters:
        values = ", ".join(map(str, parameter.values))
        agreement = f"{parameter.agreement} of {len(parameter.in_folds)}"
        start, choice = str(parameter.start), str(parameter.choice)
        rows.append((parameter.name, values, start, choice, agreement))
    return Table(
        ("parameter", "tried", "as given", "tuned", "same choice in folds"),
        tuple(rows),
        title="What the search chose",
        notes=("A choice that differs between folds is unstable and may be due to chance.",),
        name="table-parameters",
        kinds=("text", "text", "text", "text", "text"),
    )


def _tested(row: Difference) -> TableRow:
    p = row.p_adjusted
    return row.estimate, p if p == p else "no test"


def _p_column(evaluation: FusionEvaluation) -> str:
    return P_COLUMNS[evaluation.differences.correction]


def _reading(evaluation: FusionEvaluation) -> tuple[str, str]:
    """Return of which metrics less is better, and which have a unit; mostly neither."""
    protocol = evaluation.evaluation.protocol
    if any(protocol.remark(metric) for metric in evaluation.metrics):
        return reading_notes(protocol, evaluation.metrics)
    return "", ""


def _note(evaluation: FusionEvaluation) -> str:
    comparison = evaluation.differences
    return (
        f"Protocol {evaluation.protocol}; "
        f"{intervals_by(comparison.level, comparison.unit, comparison.n_units)}. Differences are "
        f"paired. Their tests and those of the contributions, {comparison.family} in all, are "
        "corrected together; the intervals are not corrected."
    )
