# SPDX-License-Identifier: Apache-2.0
"""Figures of stability: of maps, of single images, of objects, and of several analyses.

A `StabilityResult`, an `ObjectStability` or a `StabilityTable` comes in, a figure of
`calipers.show.figures` goes out, with its finding as title. Results look up their figures by name
in `FIGURES`, `OBJECT_FIGURES` and `TABLE_FIGURES`.

- Maps: pairs of models, leaving out models, thresholds, scores, images, and the relation to the
  reference (`pairs`, `models`, `sweep`, `scores`, `images`, `dice`, `auc`).
- Single images: how many models mark each place (`bags`), and the histogram of that (`calls`). A
  bag is an image; its instances are the cells of its map.
- Objects: references found by k of m models, shared false alarms, sizes, agreement of pairs.
- Several analyses: stability against AUC or DICE, a point for each (`table_figure`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Flags, joined
from calipers.data.bags import Bag
from calipers.errors import UsageError, did_you_mean
from calipers.evaluation.figures import ends_of_estimates
from calipers.results.estimate import Estimate
from calipers.results.requirements import SHARE_OF_UNITS
from calipers.show.figures import (
    MINUS,
    Axis,
    Bars,
    Cells,
    Curves,
    Dots,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Histogram,
    Line,
    Mark,
    Scatter,
)
from calipers.show.words import (
    digits,
    intervals_by,
    level_text,
    percent_span,
    percent_text,
    short_name,
    span_text,
    two_decimals,
    why,
)
from calipers.stability.analyse import COLUMNS, Cell, StabilityTable
from calipers.stability.objects_result import ObjectStability
from calipers.stability.result import StabilityResult
from calipers.stability.score_diagnostics import CallCounts, correlation
from calipers.stability.scores import AT_THRESHOLD, called_values

SIDE = 64  # cells along a side, at most; larger maps are shown in blocks

SWEPT = ("APJ", "called-by-all")
CORRELATED = ("APJ", "AJ", "PAR", "NAR", "TAR", "AC1", "Pearson", "Spearman", "Kendall-b")
TOGETHER = 0.5  # rank correlation from which on two scores are said to go together
FEW = 10  # up to so many models, every pair has its number in the figure
BINS = 14  # of width 0.1, from -0.4 to 1

STABILITY, MEASURES = ("APJ", "Spearman"), ("AUC", "DICE")
WORDS = {"AUC": "bag AUC", "DICE": "DICE"}

KINDS = ("all", "some", "none")


def pairs(result: StabilityResult, *, score: str = "APJ") -> HeatMap:
    """Return the mean of a score over images for every two models."""
    values = result.per_pair(score)
    names = tuple(short_name(model) for model in result.models)
    words = []
    if len(names) <= FEW:
        for r, row in enumerate(values.tolist()):
            texts = [score_text(value) or "undefined" for value in row]
            texts[r] = "–"  # a model is not compared with itself
            words.append(tuple(texts))
    missing = result.undefined(score)
    note = (
        f"Mean over {result.n_used} images, {_threshold_text(result, score)}. {missing.pairs} of "
        f"{missing.of_pairs} pairs of maps have no value and are left out. "
        "A model is not compared with itself."
    )
    return HeatMap(
        _pairs_title(result, score, values),
        Axis("model", names=names),
        Axis("with", names=names),
        values,
        score,
        words=tuple(words),
        note=note,
    )


def _pairs_title(result: StabilityResult, score: str, values: F64) -> str:
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    if not len(defined):
        return f"No two models have a value of {score}"
    low, high = score_text(float(np.nanmin(values))), score_text(float(np.nanmax(values)))
    if len(defined) == 1:
        return f"{score} of two models is {low}"
    return f"{score} of two models is {low} to {high}, in {len(defined)} pairs"


def models(result: StabilityResult, *, score: str = "APJ") -> Forest:
    """Return a score with all models, with its interval over models, and without each of them."""
    jackknife = result.leave_one_out(score)
    n = len(result.models)
    reason = (jackknife.reason or "").replace("_", " ")
    overall = Mark(jackknife.value, jackknife.low, jackknife.high, reason)
    rows = [ForestRow("all models", str(n), (overall,), strong=True)]
    for model, value in zip(result.models, jackknife.without):
        mark = Mark(value, reason=reason)
        rows.append(ForestRow(f"without {short_name(model)}", str(n - 1), (mark,)))
    title = f"{n} models are too few to say anything about other trainings"
    if jackknife.reason is None and jackknife.most_different is not None:
        low, high = score_text(min(jackknife.without)), score_text(max(jackknife.without))
        with_it = score_text(jackknife.value)
        title = f"{score} is {with_it} with all {n} models, and {low} to {high} without one of them"
        # Less than half of the last digit that is shown.
        if max(abs(other - jackknife.value) for other in jackknife.without) < 0.005:
            title = f"No single model moves {score}, which is {with_it}"
    note = (
        f"Mean over {result.n_used} images, {_threshold_text(result, score)}. "
        f"The interval of all models is a {level_text(jackknife.level)} t interval over "
        f"{n} models: it is about other trainings, on these images."
    )
    return Forest(
        title, Axis(score), (score,), tuple(rows), n="models", reference=jackknife.value, note=note
    )


def sweep(result: StabilityResult, *, scores: tuple[str, ...] = SWEPT) -> Curves:
    """Return scores against the threshold, with the band of their intervals."""
    lines = []
    for slot, score in enumerate(scores):
        x, estimates = result.sweep(score)
        y, low, high = ends(estimates)
        order = np.argsort(x, kind="stable")
        marks = tuple(np.flatnonzero(x[order] == result.threshold).tolist())
        line = Line(score, x[order], y[order], slot=slot, marks=marks)
        if np.isfinite(low).any():
            line = replace(line, low=low[order], high=high[order])
        lines.append(line)
    note = (
        f"Means over {result.n_used} images. The marker is the threshold of this analysis. "
        f"{_interval_note(result['APJ'])}"
    )
    return Curves(
        _sweep_title(lines[0]),
        Axis("threshold", 0.0, 1.0),
        Axis("score"),
        tuple(lines),
        note=note.strip(),
    )


def _sweep_title(line: Line) -> str:
    """Return where a score is highest and lowest, or that the threshold hardly matters."""
    defined = np.flatnonzero(np.isfinite(line.y))
    if not len(defined):
        return f"{line.name} has no value at any threshold"
    lowest, highest = defined[np.argmin(line.y[defined])], defined[np.argmax(line.y[defined])]
    low, high = score_text(line.y[lowest]), score_text(line.y[highest])
    if line.y[highest] - line.y[lowest] < 0.01:
        return f"{line.name} does not depend on the threshold: {low} to {high}"
    return f"{line.name} is {high} at threshold {line.x[highest]:g}, {low} at {line.x[lowest]:g}"


def scores(
    result: StabilityResult, *, names: tuple[str, ...] = CORRELATED, method: str = "spearman"
) -> HeatMap:
    """Return the correlations between scores over images."""
    table = result.correlation(method)
    score_names = tuple(name for name in names if name in table.names)
    rows = [table.names.index(name) for name in score_names]
    values, counts = table.values[np.ix_(rows, rows)], table.n[np.ix_(rows, rows)]
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    title = "No two scores have a correlation over images"
    if len(defined):
        of_pairs = values[tuple(defined.T)]
        low, high = score_text(float(of_pairs.min())), score_text(float(of_pairs.max()))
        title = f"Correlations of scores over images are {low} to {high}"
    n = f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else f"{counts.min()}"
    how = {"spearman": "Rank correlations", "pearson": "Correlations"}[method]
    note = (
        f"{how} over {n} images with both scores. APJ = AJ / (2 − AJ) for every pair, "
        "so a correlation near 1 between the two is not a finding."
    )
    x, y = Axis("score", names=score_names), Axis("with", names=score_names)
    return HeatMap(title, x, y, values, "correlation", -1.0, 1.0, note=note)


def images(result: StabilityResult, *, score: str = "APJ") -> Histogram:
    """Return the distribution of a score over images."""
    values = result.per_bag(score)
    defined = values[~np.isnan(values)]
    title = f"No image has a value of {score}"
    if len(defined):
        quantiles = np.quantile(defined, (0.1, 0.5, 0.9))
        low, median, high = (score_text(value) for value in quantiles)
        title = (
            f"{score} is {low} to {high} on the middle 80 % of the images, with a median of "
            f"{median}"
        )
    edges = np.round(np.linspace(1.0 - 0.1 * BINS, 1.0, BINS + 1), 10)
    # Rare values below the first edge count in the first bin.
    counts = np.histogram(np.clip(defined, edges[0], edges[-1]), edges)[0].astype(np.float64)[None]
    note = (
        f"n = {len(defined)} images, mean over pairs of models, {_threshold_text(result, score)}."
    )
    n_missing = len(values) - len(defined)
    if n_missing:
        note += f" {n_missing} more have no value, because models mark nothing or everything."
    return Histogram(
        title, Axis(score), Axis("images", whole=True), edges, ("images",), counts, note=note
    )


def dice(result: StabilityResult, *, score: str = "APJ", measure: str = "DICE") -> Scatter:
    """Return stability against agreement with the reference, a point per annotated image.

    Bars are the standard deviation over models.
    """
    local = result.localized
    if not local.has(measure):
        reason = local.missing.get(measure, "unknown measure").replace("_", " ")
        raise UsageError(f"there is no {measure}: {reason}")
    mean, sd = local.per_bag(measure)
    x = result.per_bag(score)[local.places]
    both = int((~np.isnan(x)).sum())
    together = round(correlation(x, mean), 2)
    dots = Dots("", x, mean, y_low=mean - sd, y_high=mean + sd, names=local.ids, quiet=True)
    note = (
        f"A point is an image; {both} of {len(x)} have both values. Bars are the standard "
        f"deviation over {len(result.models)} models (ddof 0), not intervals. "
        f"Threshold {result.threshold:g}."
    )
    return Scatter(
        f"{_dice_title(score, measure, together)}, n = {both}",
        Axis(score),
        Axis(f"{measure}, mean over models", 0.0, 1.0),
        (dots,),
        note=note,
    )


def _dice_title(score: str, measure: str, together: float) -> str:
    if together != together:
        return f"{score} and {measure} cannot be compared over images"
    strength = f"(rank correlation {score_text(together)})"
    if together >= TOGETHER:
        return f"Images with a high {score} have a high {measure} {strength}"
    if together <= -TOGETHER:
        return f"Images with a high {score} have a low {measure} {strength}"
    return f"{score} says little about {measure} {strength}"


def auc(result: StabilityResult, *, score: str = "APJ") -> Scatter:
    """Return, for every model, its agreement with the others against its bag AUC: how well it
    separates whole images.
    """
    local = result.localized
    if not local.has("AUC"):
        raise UsageError(f"there is no bag AUC: {local.missing['AUC'].replace('_', ' ')}")
    areas = [local.get("AUC", model) for model in result.models]
    y, low, high = ends(areas)
    matrix = result.per_pair(score)
    defined = np.isfinite(matrix)
    # Not `nanmean`, which warns for a model without any defined pair.
    total, n = np.where(defined, matrix, 0.0).sum(axis=1), defined.sum(axis=1)
    x = np.divide(total, n, where=n > 0, out=np.full(len(matrix), np.nan))
    names = tuple(short_name(model) for model in result.models)
    dots = Dots("", x, y, y_low=low, y_high=high, names=names)
    title = f"Bag AUC is {_span(y)} for models whose {score} with the others is {_span(x)}"
    if not np.isfinite(x).any():
        title = f"Bag AUC is {_span(y)}; {score} has no value"
    pooled = (
        ""
        if local.pooling == "given"
        else f" Bag scores are the {local.pooling_words} of each map."
    )
    note = (
        f"A point is a model; across, its mean {score} with the others over {result.n_used} "
        f"images; up, its AUC over {areas[0].n_images} images.{pooled} {_interval_note(areas[0])}"
    )
    return Scatter(
        title,
        Axis(f"mean {score} with the other models"),
        Axis("bag AUC"),
        (dots,),
        note=note.strip(),
    )


def ends(estimates: Sequence[Estimate]) -> tuple[F64, F64, F64]:
    """Return values and ends of intervals.

    The ends are NaN if the interval is not that of the value, but of the share of units.
    """
    value, low, high = ends_of_estimates(estimates)
    # An interval of the share of units has nothing to do with the height of the curve.
    of_units = np.array([one.method == SHARE_OF_UNITS for one in estimates], np.bool_)
    return value, np.where(of_units, np.nan, low), np.where(of_units, np.nan, high)


def _span(values: Any) -> str:
    defined = values[np.isfinite(values)]
    if not len(defined):
        return "undefined"
    low, high = score_text(defined.min()), score_text(defined.max())
    return low if low == high else f"{low} to {high}"


def _threshold_text(result: StabilityResult, score: str) -> str:
    return f"threshold {result.threshold:g}" if score in AT_THRESHOLD else "no threshold"


def _interval_note(estimate: Estimate) -> str:
    """Return what bands and bars are; "" if there are none."""
    if why(estimate) or math.isnan(estimate.low):
        return ""
    return f"Pointwise {intervals_by(estimate.level, estimate.unit, estimate.n_units)}."


def score_text(value: float) -> str:
    """Return a score with two digits; empty if it is undefined."""
    if math.isnan(value):
        return ""
    text = two_decimals(value)
    # Rounding must not leave a sign without a number.
    if text == "-0.00":
        return "0.00"
    return text.replace("-", MINUS)


@dataclass(frozen=True)
class MapSlice:
    """The part of an image that is shown: how many models mark every cell, and the reference."""

    counts: I64  # (rows, columns)
    inside: Flags | None
    index: int | None  # which slice of a volume; None: the image is flat
    of: int  # slices

    @property
    def side(self) -> int:
        """Cells along a side of the blocks in which it is shown; 1: as it is."""
        longest: int = max(self.counts.shape)
        return math.ceil(longest / SIDE)


def bags(
    result: StabilityResult,
    *,
    bag: str | int | None = None,
    picture: Callable[[MapSlice], tuple[str, float]] | None = None,
) -> Cells:
    """Return how many models mark every cell of an image; by default of the least stable one.

    Parameters
    ----------
    picture
        Called with the slice that is shown; returns the picture below it, as a ``data:`` address,
        and the height of a cell over its width.
    """
    place = place_of(result, bag)
    part = disputed_slice(result.bag(place), result.threshold)
    background, aspect = "", 1.0
    if picture is not None:
        background, aspect = picture(part)
    side, counts, inside = part.side, part.counts, part.inside
    notes = [f"Threshold {result.threshold:g}."]
    if part.index is not None:
        notes.append(
            f"Slice {part.index + 1} of {part.of}, "
            "the one with most places that some but not all mark."
        )
    if side > 1:
        counts = blocks(counts, side)
        if inside is not None:
            inside = blocks(inside.astype(np.int64), side) > 0
        notes.append(f"Blocks of {side} × {side} cells, each shown by its highest number.")
    n_models = len(result.models)
    return Cells(
        f"{short_name(result.ids[place])}: {_disagreement_text(result, place)}",
        counts,
        n_models,
        f"how many of {n_models} models mark a place",
        inside,
        background,
        aspect,
        note=" ".join(notes),
    )


def _disagreement_text(result: StabilityResult, place: int) -> str:
    value = float(result.per_bag("APJ")[place])
    score = f"APJ {score_text(value) or 'undefined'}"
    counts = result.called().per_bag[place]
    n_marked, n_shared = int(counts[1:].sum()), int(counts[-1])
    if not n_marked:
        return f"no model marks anything, {score}"
    return f"models differ on {n_marked - n_shared} of {n_marked} marked places, {score}"


def calls(result: StabilityResult, *, bag: str | int | None = None) -> Bars:
    """Return how much of what any model marks is marked by 1, 2, ..., all models.

    Over all images together, or in one of them.
    """
    table, n_models = result.called(), len(result.models)
    where, images = "", f"{result.n_used} images together, in which large images weigh more"
    if bag is not None:
        place = place_of(result, bag)
        table = CallCounts(table.threshold, table.per_bag[place : place + 1])
        where, images = f"{short_name(result.ids[place])}: ", "1 image"
    counts = table.total
    n_marked, n = int(counts[1:].sum()), int(counts.sum())
    if n_marked:
        heights = counts[1:] / n_marked
        by_all = percent_text(float(called_values(counts[None], "called-by-all")[0]))
        title = f"of the places that any model marks, all {n_models} mark {by_all}"
    else:
        heights = np.full(n_models, np.nan)
        title = "no model marks anything"
    title = where + title if where else title[:1].upper() + title[1:]
    note = (
        f"n = {n_marked} places that a model marks, of {n} in {images}; "
        f"none marks the other {n - n_marked}."
    )
    x = Axis("models that mark a place", names=tuple(str(k) for k in range(1, n_models + 1)))
    y = Axis("share of marked places", 0.0, 1.0)
    return Bars(title, x, y, ("share",), heights[None], note=note)


def place_of(result: StabilityResult, bag: str | int | None) -> int:
    """Return the index of a bag among those used: by id, by index, or the least stable."""
    if bag is None:
        order = result.ranked("APJ")
        return int(order[0]) if len(order) else 0
    if isinstance(bag, str):
        if bag not in result.ids:
            raise UsageError(f"no image {bag!r} was used; {did_you_mean(bag, result.ids)}")
        return result.ids.index(bag)
    if not 0 <= bag < result.n_used:
        raise UsageError(f"no image {bag}: {result.n_used} were used, counted from 0")
    return int(bag)


def marked_by(bag: Bag, threshold: float) -> I64:
    """Return, in the shape of the map, how many models call every instance positive."""
    # A threshold of 0 is strict: else every instance would be positive.
    positive = bag.values >= threshold if threshold > 0 else bag.values > 0
    return np.asarray(positive.sum(axis=0), np.int64).reshape(bag.shape)


def disputed_slice(bag: Bag, threshold: float) -> MapSlice:
    """Return the slice with the most cells that some but not all models mark.

    Of equal slices, the one with most marks. A map with one axis is shown as one row.
    """
    counts = marked_by(bag, threshold)
    inside = None if bag.instances is None else bag.instances.reshape(bag.shape)
    if counts.ndim < 3:
        flat = None if inside is None else np.atleast_2d(inside)
        return MapSlice(np.atleast_2d(counts), flat, None, 1)
    slices = counts.reshape(len(counts), -1)
    disputed = ((slices > 0) & (slices < len(bag.values))).sum(axis=1)
    # `lexsort` sorts by its last key first; ties go to the earlier slice.
    index = int(np.lexsort((-slices.sum(axis=1), -disputed))[0])
    return MapSlice(counts[index], None if inside is None else inside[index], index, len(counts))


def blocks(values: I64, side: int) -> I64:
    """Return the maximum of every ``side`` x ``side`` block of numbers from 0.

    The maximum, not the mean, so that a small mark does not vanish.
    """
    rows, columns = (-(-n // side) for n in values.shape)
    padded = np.zeros((rows * side, columns * side), np.int64)
    padded[: values.shape[0], : values.shape[1]] = values
    return np.asarray(padded.reshape(rows, side, columns, side).max(axis=(1, 3)))


# Below the functions that it names; the page shows them in its own order.
FIGURES: Mapping[str, Callable[..., Figure]] = {
    "pairs": pairs,
    "models": models,
    "called": calls,
    "bags": bags,
    "images": images,
    "sweep": sweep,
    "scores": scores,
    "dice": dice,
    "auc": auc,
}


def available(result: StabilityResult) -> tuple[str, ...]:
    """Return the figures that a result has: without a reference there is no DICE, without labels no
    AUC.
    """
    needs = {
        "dice": result.localized.has("DICE"),
        "auc": result.localized.has("AUC"),
        "bags": result.source is not None,
    }
    return tuple(name for name in FIGURES if needs.get(name, True))


def table_figure(table: StabilityTable, measure: str = "AUC", score: str = "APJ") -> Scatter:
    """Return a point per key.

    If keys have several parts, the first is the series and the others name the point.
    """
    for name, names in ((measure, MEASURES), (score, STABILITY)):
        if name not in names:
            raise UsageError(f"no {name!r} here; {did_you_mean(name, names)}")
    # The first part of a key, such as the data set, is the colour; the rest names the point.
    series: dict[str, list[tuple[str, Cell, Cell]]] = {}
    for key, row in zip(table.keys, table.cells):
        first, rest = (key[0], " / ".join(key[1:])) if len(key) > 1 else ("", key[0])
        point = (rest, row[COLUMNS.index(score)], row[COLUMNS.index(measure)])
        series.setdefault(first, []).append(point)
    dots = tuple(
        _series_dots(name, points, slot) for slot, (name, points) in enumerate(series.items())
    )
    x, y = joined(dots, "x"), joined(dots, "y")
    note = (
        "A point is an analysis. Bars are standard deviations (ddof 0), not intervals: "
        f"of {score} over images, of {WORDS[measure]} over models."
    )
    return Scatter(
        _table_title(x, y, measure, score), Axis(score), Axis(WORDS[measure]), dots, note=note
    )


def _against(measure: str, table: StabilityTable, score: str = "APJ") -> Scatter:
    return table_figure(table, measure, score)


# the figure without a name takes the measure as a choice
TABLE_FIGURES: Mapping[str, Callable[..., Figure]] = {
    "": table_figure,
    **{measure: partial(_against, measure) for measure in MEASURES},
}


def _series_dots(name: str, points: list[tuple[str, Cell, Cell]], slot: int) -> Dots:
    names = tuple(short_name(point) for point, _, _ in points)
    x, x_sd = np.array([(cell.mean, cell.sd) for _, cell, _ in points]).T
    y, y_sd = np.array([(cell.mean, cell.sd) for _, _, cell in points]).T
    return Dots(short_name(name), x, y, x - x_sd, x + x_sd, y - y_sd, y + y_sd, names, slot)


def _table_title(x: F64, y: F64, measure: str, score: str) -> str:
    both = np.isfinite(x) & np.isfinite(y)
    together = correlation(x, y)
    if not both.any():
        return f"No analysis has both {score} and {WORDS[measure]}"
    span = f"{score} from {span_text(x[both].min(), x[both].max())}"
    other = f"{WORDS[measure]} from {span_text(y[both].min(), y[both].max())}"
    correlation_text = (
        f"; rank correlation {two_decimals(together)}, n = {both.sum()}"
        if together == together
        else ""
    )
    return f"{span}, {other}{correlation_text}"


def found_by(result: ObjectStability) -> Bars:
    """Return the share of references that 0, 1, ..., K models find."""
    n, k = len(result.evidence.references), len(result.models)
    title = "There are no counted references"
    if n:
        share = percent_text(result["found-by-some"].value)
        title = f"{share} of {n} references are found by some but not all of {k} models"
    return _bars(
        title,
        "models that find a reference",
        "share of references",
        [(str(row.k), row.share) for row in result.found_by()],
        f"n = {n} references. {_object_intervals(result)}",
    )


def false_alarms(result: ObjectStability) -> Bars:
    """Return the share of places with a false alarm where 1, ..., K models raise one."""
    n = len(result.evidence.places)
    title = "No model raises a false alarm"
    if n:
        share = percent_text(result["false-alarms-shared"].value)
        title = f"{share} of {n} places with a false alarm are shared"
    return _bars(
        title,
        "models with a false alarm at a place",
        "share of places",
        [(str(row.k), row.share) for row in result.false_alarms_by()],
        f"n = {n} places. {_object_intervals(result)}",
    )


def sizes(result: ObjectStability) -> Bars:
    """Return which shares of the references of every size all, some and none of the models find."""
    names = _size_names(result)
    heights = np.empty((len(KINDS), len(names)))
    counts, parts = [], []
    for k, name in enumerate(names):
        estimates = [result.get(f"found-by-{kind}", size=name) for kind in KINDS]
        heights[:, k] = [estimate.value for estimate in estimates]
        counts.append(f"{estimates[0].n_references} {name}")
        # The finding is about disputed references: those found by all or by none say nothing on
        # stability.
        by_some = estimates[KINDS.index("some")].value
        if not math.isnan(by_some):
            parts.append(f"{percent_text(by_some)} of the {name}")
    title = "There are no counted references"
    if parts:
        title = f"Some but not all models find {', '.join(parts)} references"
    return Bars(
        title,
        Axis("size of the reference", names=names),
        Axis("share of references", 0.0, 1.0),
        ("found by all", "found by some", "found by none"),
        heights,
        stacked=True,
        note=f"n = {', '.join(counts)} references. {_size_note(result)}",
    )


def agreement(result: ObjectStability) -> Forest:
    """Return how far two models agree: on all objects, on every size and on every class."""
    overall = result["agreement"]
    rows = [ForestRow("all objects", str(overall.n_images), _marks(overall), strong=True)]
    for row in result.rows:
        # Sizes and classes have rows of their own; groups of models do not belong here.
        if row.metric != "agreement":
            continue
        if row.label is not None:
            name = row.label
        elif row.group:
            name = f"{row.group['size']} objects"
        else:
            continue
        rows.append(ForestRow(short_name(name), str(row.estimate.n_images), _marks(row.estimate)))
    title = "No model predicts anything"
    if not math.isnan(overall.value):
        title = f"Two models agree on {percent_text(overall.value)} of what they predict"
    return Forest(
        title,
        Axis("agreement of two models", 0.0, 1.0),
        ("agreement",),
        tuple(rows),
        n="images",
        note="Mean over pairs of models, then over images. "
        f"{_size_note(result)} {_object_intervals(result)}",
    )


def object_pairs(result: ObjectStability) -> HeatMap:
    """Return how far every two models agree."""
    values = result.per_pair
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    title = "No two models predict anything on the same images"
    if len(defined):
        of_pairs = values[tuple(defined.T)]
        title = f"Two models agree on {percent_text(of_pairs[0])} of what they predict"
        if len(defined) > 1:
            span = percent_span(float(of_pairs.min()), float(of_pairs.max()))
            title = f"Two models agree on {span} of what they predict, in {len(defined)} pairs"
    # Percentages instead of the numbers of the colours.
    words = []
    for r, row in enumerate(values.tolist()):
        texts = [percent_text(value) for value in row]
        texts[r] = ""  # a model is not compared with itself
        words.append(tuple(texts))
    note = (
        "Mean over images on which one of the two predicts something; "
        f"{result.evidence.n_images} images in all. A model is not compared with itself."
    )
    axis = Axis("model", names=tuple(short_name(name) for name in result.models))
    return HeatMap(title, axis, axis, values, "agreement", words=tuple(words), note=note)


def _bars(title: str, x: str, y: str, shares: list[tuple[str, Estimate]], note: str) -> Bars:
    """Return bars with intervals, one per number of models."""
    names = tuple(name for name, _ in shares)
    heights, low, high = ends_of_estimates([share for _, share in shares])
    axes = Axis(x, names=names), Axis(y, 0.0, 1.0)
    return Bars(title, *axes, (y,), heights[None], low[None], high[None], note=note)


def _marks(estimate: Estimate) -> tuple[Mark, ...]:
    reason = ""
    if math.isnan(estimate.value):
        reason = str(estimate.reason or "").replace("_", " ")
    return (Mark(estimate.value, estimate.low, estimate.high, reason),)


def _size_names(result: ObjectStability) -> tuple[str, ...]:
    """Return the names of the sizes; raise if sizes were not distinguished."""
    groups = [dict(row.group or {}) for row in result.rows if row.metric == "found-by-all"]
    names = tuple(group["size"] for group in groups if "size" in group)
    if not names:
        raise UsageError("sizes were not distinguished: give areas that separate them (sizes=...)")
    return names


def _size_note(result: ObjectStability) -> str:
    areas = " and ".join(digits(area, 4) for area in result.settings["sizes"])
    return f"Sizes are separated at an area of {areas}." if areas else ""


def _object_intervals(result: ObjectStability) -> str:
    settings = result.settings
    if not settings["replicates"] or math.isnan(result["found-by-all"].low):
        return ""
    how = intervals_by(settings["level"], settings["unit"], settings["n_units"])
    return f"{how}."


OBJECT_FIGURES: Mapping[str, Callable[[ObjectStability], Figure]] = {
    "found-by": found_by,
    "false-alarms": false_alarms,
    "sizes": sizes,
    "agreement": agreement,
    "pairs": object_pairs,
}
