# SPDX-License-Identifier: Apache-2.0
"""Estimates per group: columns of the images, bins of a number, sizes of the objects, classes.

A grouping is written as ``centre``, ``centre,size`` (crossed), ``age=40:60`` (bins of a numeric
column, cut at 40 and 60), ``size`` (the protocol's sizes), ``size=10000:40000`` (areas in px^2, cut
there), or with ``class`` among the columns (values per class in every group). Groups of images take
the evidence that is there. Sizes are strata of objects: fates are decided anew, and objects outside
the range are ignored by pycocotools' rule, closed at both ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.data.cohort import Cohort, Images
from calipers.errors import UsageError, did_you_mean, spelled
from calipers.evaluation.collect import (
    EVERY_SIZE,
    collect,
    estimated_rows,
    jobs_of,
    with_areas,
)
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.results.estimate import Row
from calipers.statistics.estimates import Progress
from calipers.statistics.weights import units_of

if TYPE_CHECKING:
    from calipers.results.comparison import ColumnSummary, GroupedRows, GroupSummary

COCO_SIZES = {"small": (0.0, 1024.0), "medium": (1024.0, 9216.0), "large": (9216.0, EVERY_SIZE)}
MOST_GROUPS = 500  # more are a mistake: a column of ids, or a number without bins
UNKNOWN = "unknown"  # the group of images without a number
SIZE_NAMES = {2: ("small", "large"), 3: ("small", "medium", "large")}
SPREAD = ("n_defined", "mean", "sd", "lowest", "highest")  # what `spread_of_values` returns


@dataclass(frozen=True)
class Group:
    """Some images, looked at under some range of sizes."""

    values: Mapping[str, str]
    images: NDArray[np.int64]
    size: str | None


@dataclass(frozen=True)
class Grouping:
    """One ``by``: columns that are crossed."""

    columns: tuple[str, ...]  # as given, without class
    cuts: Mapping[str, tuple[float, ...]]
    per_class: bool

    @classmethod
    def parse(cls, text: str, names: Collection[str], holders: str = "images") -> Grouping:
        """Return the grouping that is written as ``centre,age=40:60,class``; ``names`` are the
        columns that exist.
        """
        columns, cuts, per_class = [], {}, False
        for entry in text.split(","):
            name, sign, numbers = entry.strip().partition("=")
            if name == "class" and not sign:
                per_class = True
                continue
            name = spelled(name, ["size", *names])
            if name != "size" and name not in names:
                nearest = did_you_mean(name, ["size", "class", *names])
                raise UsageError(f"by: the {holders} have no column {name!r}; {nearest}")
            if name in columns:
                raise UsageError(f"by: {name!r} is named twice in {text!r}")
            columns.append(name)
            if sign:
                cuts[name] = _cuts(name, numbers)
        return cls(tuple(columns), cuts, per_class)


def grouped(
    evaluation: Evaluation,
    by: Sequence[str],
    progress: Progress | None = None,
    workers: int = 1,
) -> Evaluation:
    """Return the evaluation with the rows of all groups behind its own, and their summaries;
    ``workers`` threads match and resample.
    """
    from calipers.results.comparison import GroupedRows

    rows = list(evaluation.rows)
    summaries = list(evaluation.groups)
    groupings = list(evaluation.groupings)
    present = {summary.by for summary in summaries}
    columns = evaluation.cohort.images.groups
    for text in dict.fromkeys(canonical(entry, columns) for entry in by):
        grouping = Grouping.parse(text, columns)
        if text in present:
            continue
        if not grouping.columns:
            # By class alone: the rows of the classes are there already.
            own = [row for row in evaluation.rows if row.label is not None and row.group is None]
            summaries += _summaries([replace(row, label=None) for row in own], text)
            continue
        group_rows = _rows(evaluation, grouping, progress, workers)
        groupings.append(GroupedRows(text, group_rows, tuple(_summaries(group_rows, text))))
        rows += group_rows
        summaries += groupings[-1].summaries
    return replace(
        evaluation, rows=tuple(rows), groups=tuple(summaries), groupings=tuple(groupings)
    )


def _rows(
    evaluation: Evaluation, grouping: Grouping, progress: Progress | None, workers: int
) -> tuple[Row, ...]:
    """Return the rows of all groups, by model, then metric."""
    place = {metric: k for k, metric in enumerate(evaluation.metrics)}
    models = {model: k for k, model in enumerate(evaluation.models)}
    rows: list[Row] = []
    for protocol, evidence, groups in _strata(evaluation, grouping, progress, workers):
        for group in groups:
            rows += estimated_rows(
                evaluation.cohort,
                protocol,
                evidence,
                ci=evaluation.ci,
                units=evaluation.units,
                images=group.images,
                group=group.values,
                per_class=grouping.per_class,
                workers=workers,
                progress=progress,
            )
    # Stable: the groups of a model and metric stay in their order.
    return tuple(sorted(rows, key=lambda row: (models[row.model], place[row.metric])))


def canonical(text: str, columns: Collection[str] = ()) -> str:
    """Return a grouping in its one spelling: without blanks and repetitions of ``class``, and with
    the names that the columns have.
    """
    names: list[str] = []
    for entry in text.split(","):
        name, sign, cuts = entry.strip().partition("=")
        name = f"{spelled(name, columns)}{sign}{cuts}"
        if name != "class" or "class" not in names:
            names.append(name)
    return ",".join(names)


def check_groupings(images: Images, by: Sequence[str], holders: str = "images") -> None:
    """Raise for an impossible grouping, before any work is done."""
    for text in by:
        _image_groups(images, Grouping.parse(text, images.groups, holders), None)


def check_columns(
    images: Images, protocol: Protocol, by: Sequence[str], holders: str = "images"
) -> None:
    """Raise for groupings and units that these images cannot have, before any work is done:
    matching may take hours, and that of a part is not the end of the work.
    """
    check_groupings(images, by, holders)
    units_of(images.groups, len(images), protocol.cluster, protocol.strata)


def _strata(
    evaluation: Evaluation, grouping: Grouping, progress: Progress | None, workers: int
) -> Iterator[tuple[Protocol, Mapping[Any, Any], list[Group]]]:
    """Yield, for every range of sizes, the protocol and evidence that see it, and the groups of
    images.
    """
    cohort, protocol = evaluation.cohort, evaluation.protocol
    if "size" not in grouping.columns:
        yield protocol, evaluation.evidence, _image_groups(cohort.images, grouping, None)
        return
    for name, size in _sizes(protocol, grouping.cuts.get("size")).items():
        narrowed = _narrowed(protocol, name, size)
        # Objects outside the range are ignored, so fates change: the evidence is collected anew.
        sized = with_areas(cohort, narrowed)
        evidence = collect(
            sized, jobs_of(sized, narrowed.compile()), workers=workers, progress=progress
        )
        yield narrowed, evidence, _image_groups(cohort.images, grouping, name)


def _image_groups(images: Images, grouping: Grouping, size: str | None) -> list[Group]:
    """Return the groups of images, in the order of their values; empty ones do not exist."""
    check_number(images, grouping)
    axes: list[list[tuple[str, str, NDArray[np.bool_]]]] = []
    for name in grouping.columns:
        if name == "size":
            axes.append([(name, str(size), np.ones(len(images), np.bool_))])
        else:
            values = _values(images, name, grouping.cuts.get(name))
            axes.append([(name, value, here) for value, here in values])
    groups = []
    for cell in product(*axes):
        inside = np.ones(len(images), np.bool_)
        for _, _, here in cell:
            inside &= here
        if inside.any():
            values_of_group = {name: value for name, value, _ in cell}
            groups.append(Group(values_of_group, np.flatnonzero(inside), size))
    return groups


def check_number(images: Images, grouping: Grouping) -> None:
    """Raise for a grouping with too many groups, before any of them is made: each value of a column
    of ids has a flag for every image.
    """
    numbers = {}
    for name in grouping.columns:
        if name != "size":
            numbers[name] = _number_of_values(images, name, grouping.cuts.get(name))
    if math.prod(numbers.values()) > MOST_GROUPS:
        hint = f"bin a numeric column with {max(numbers, key=lambda name: numbers[name])}=40:60"
        raise UsageError(
            f"by {','.join(grouping.columns)} makes more than {MOST_GROUPS} groups; {hint}"
        )


def _number_of_values(images: Images, name: str, cuts: tuple[float, ...] | None) -> int:
    """Return how many values `_values` gives."""
    column = images.group(name)
    missing = np.asarray(column != column)
    if cuts is None:
        return len(np.unique(column[~missing])) + bool(missing.any())
    return len(cuts) + 1 + bool(np.isnan(_column_numbers(column, name)).any())


def _values(
    images: Images, name: str, cuts: tuple[float, ...] | None
) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return the values of a column, or its bins, each with the images that have it."""
    column = images.group(name)
    if cuts is None:
        missing = np.asarray(column != column)  # NaN of a numeric column
        values = [(str(value), column == value) for value in np.unique(column[~missing]).tolist()]
    else:
        numbers = _column_numbers(column, name)
        # side="right": a value on a cut belongs to the bin that begins there.
        missing, place = np.isnan(numbers), np.searchsorted(cuts, numbers, side="right")
        names = [_range_name(low, high) for low, high in pairwise((-math.inf, *cuts, math.inf))]
        values = [(bin_name, (place == k) & ~missing) for k, bin_name in enumerate(names)]
    if missing.any():
        values.append((UNKNOWN, missing))
    return values


def _column_numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where it is blank; other text is an error."""
    try:
        if column.dtype.kind in "UO" and (column == "").any():
            column = np.where(column == "", "nan", column)
        return column.astype(np.float64)
    except ValueError:
        texts = [str(value) for value in column.tolist() if value != "" and not _is_number(value)]
        raise UsageError(
            f"by {name}=...: bins need numbers, but the column has {texts[0]!r}"
        ) from None


def _sizes(protocol: Protocol, cuts: tuple[float, ...] | None) -> dict[str, tuple[float, float]]:
    """Return the ranges of areas: those that are cut out, else the protocol's, else COCO's."""
    if cuts is None:
        # The range of all sizes is no group.
        own = {name: size for name, size in protocol.sizes.items() if not _is_every_size(size)}
        return own or COCO_SIZES
    ranges = list(pairwise((0.0, *cuts, math.inf)))
    names = SIZE_NAMES.get(len(ranges)) or tuple(f"{low:g} to {high:g}" for low, high in ranges)
    return dict(zip(names, ranges))


def _narrowed(protocol: Protocol, name: str, size: tuple[float, float]) -> Protocol:
    """Return the protocol in which all metrics that look at every size look at one range only."""
    plans = []
    for plan in protocol.metrics:
        # A matching of its own knows no ranges of sizes; a mean over sizes has chosen its own.
        if registry.own_matching(plan.kind) or "over_sizes" in plan.options:
            continue
        if "size" not in plan.options or _is_every_size(protocol.sizes[plan.options["size"]]):
            plans.append(replace(plan, options={**plan.options, "size": name}))
    if not plans:
        raise UsageError(f"by size: no metric of protocol {protocol.name!r} looks at all sizes")
    names = {plan.name for plan in plans}
    headline = tuple(metric for metric in protocol.headline if metric in names)
    sizes = {**protocol.sizes, name: size}
    return replace(protocol, sizes=sizes, metrics=tuple(plans), headline=headline)


def _is_every_size(size: tuple[float, float]) -> bool:
    return size[0] <= 0 and size[1] >= EVERY_SIZE


def _summaries(rows: Sequence[Row], by: str) -> Iterator[GroupSummary]:
    """Yield range, unweighted mean and standard deviation over the groups, for every model, metric
    and class.
    """
    from calipers.results.comparison import GroupSummary

    cells: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.model, row.metric, row.label), []).append(row)
    for (model, metric, label), members in cells.items():
        values = [row.estimate.value for row in members]
        spread: dict[str, Any] = dict(zip(SPREAD, spread_of_values(values)))
        yield GroupSummary(
            by=by, model=model, metric=metric, label=label, n_groups=len(members), **spread
        )


def summarised(evaluation: Evaluation, over: str, by: str | None = None) -> ColumnSummary:
    """Return mean, standard deviation and range over the groups of one column.

    Parameters
    ----------
    over
        A column of a grouping, such as ``centre``: its groups are averaged, each with the same
        weight.
    by
        The grouping; the first one with this column if left out.
    """
    from calipers.results.comparison import ColumnAverage, ColumnSummary, GroupImages

    columns: list[str] = []
    for one in evaluation.groupings:
        columns += one.rows[0].group or {} if one.rows else {}
    over = spelled(over, columns)
    grouping = _grouping_over(evaluation, over, by)
    names: list[str] = []
    cells: dict[tuple[str, str, tuple[tuple[str, str], ...]], dict[str, float]] = {}
    for row in grouping.rows:
        if row.label is None:
            others = {key: value for key, value in (row.group or {}).items() if key != over}
            name = (row.group or {})[over]
            names.append(name)
            key = (row.model, row.metric, tuple(others.items()))
            cells.setdefault(key, {})[name] = row.estimate.value
    order = list(dict.fromkeys(names))
    averages = []
    for (model, metric, others_of_cell), cell in cells.items():
        values = tuple(cell.get(name, math.nan) for name in order)
        spread: dict[str, Any] = dict(zip(SPREAD, spread_of_values(values)))
        group = dict(others_of_cell)
        averages.append(
            ColumnAverage(model=model, metric=metric, group=group, values=values, **spread)
        )
    images = []
    for name, inside in _column_groups(evaluation.cohort, over, grouping.by):
        if name in order:
            images.append(GroupImages(name, *_positive(evaluation.cohort, inside)))
    return ColumnSummary(over, grouping.by, tuple(images), tuple(averages))


def spread_of_values(values: Sequence[float]) -> tuple[int, float, float, float, float]:
    """Return the number of defined values, their mean, standard deviation (n - 1), lowest and
    highest.

    Examples
    --------
    >>> n, mean, sd, low, high = spread_of_values([0.24, 0.00, 0.16, 0.14, 0.19, 0.00])
    >>> n, round(mean, 2), round(sd, 2), low, high
    (6, 0.12, 0.1, 0.0, 0.24)
    """
    defined = [value for value in values if not math.isnan(value)]
    mean = float(np.mean(defined)) if defined else math.nan
    sd = float(np.std(defined, ddof=1)) if len(defined) > 1 else math.nan
    return len(defined), mean, sd, min(defined, default=math.nan), max(defined, default=math.nan)


def _grouping_over(evaluation: Evaluation, over: str, by: str | None) -> GroupedRows:
    """Return the grouping whose column is averaged."""
    if over in ("size", "class"):
        raise UsageError(f"a summary is over groups of images, such as centres, not over {over}")
    for grouping in evaluation.groupings:
        # Not parsed: names for display may hold commas.
        columns = grouping.rows[0].group or {} if grouping.rows else {}
        if over in columns and by in (None, grouping.by):
            return grouping
    there = ", ".join(grouping.by for grouping in evaluation.groupings) or "none"
    raise UsageError(
        f"a summary over {over!r} needs a grouping with this column, such as by "
        f"{over},size; there are: {there}"
    )


def _column_groups(cohort: Cohort, over: str, by: str) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return the groups of the column that is averaged, or its bins, with their images."""
    match = re.search(rf"(?:^|,)\s*{re.escape(over)}=([^,]*)", by)
    cuts = None if match is None else _cuts(over, match.group(1))
    return _values(cohort.images, over, cuts)


def _positive(cohort: Cohort, inside: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the number of images, and of those that have a reference which is not ignored."""
    references = cohort.references
    positive = np.zeros(cohort.n_images, np.bool_)
    positive[references.image[~(references.ignore | references.crowd)]] = True
    return int(inside.sum()), int((inside & positive).sum())


def _cuts(name: str, text: str) -> tuple[float, ...]:
    try:
        cuts = tuple(float(entry) for entry in text.split(":"))
    except ValueError:
        raise UsageError(
            f"by {name}={text}: cuts are numbers with colons, such as {name}=40:60"
        ) from None
    if not all(a < b for a, b in pairwise(cuts)) or not all(map(math.isfinite, cuts)):
        raise UsageError(f"by {name}={text}: cuts ascend and are finite")
    if name == "size" and cuts[0] <= 0:
        raise UsageError(f"by {name}={text}: areas are cut above 0")
    return cuts


def _range_name(low: float, high: float) -> str:
    if math.isinf(low):
        return f"below {high:g}"
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to below {high:g}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
