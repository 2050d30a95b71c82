# SPDX-License-Identifier: Apache-2.0
"""The evidence of object stability: matched predictions of K detectors on the same images.

In come a cohort and a `View`; `collect` returns `ObjectPairs`: which model finds which reference,
which predictions of two models mean the same object (couples), and which false alarms lie in one
place. All models of a block of images are put into one table (`Pool`) and compared in one go.

`Strata` divide the objects (everything, classes, sizes), and `pair_cells` gives the agreement of
every pair of models in every image and stratum. `calipers.stability.objects` and `ObjectStability`
compute all numbers from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arrays import F64, I64, Flags, joined, joined_columns
from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions, References
from calipers.engine.ordered_map import in_order
from calipers.errors import UsageError
from calipers.kernels import assignment, boxes, ragged, route
from calipers.kernels.ranks import pair_index
from calipers.matching.assign import match
from calipers.matching.criteria import Criterion, PairTable
from calipers.matching.matches import View

TABLES = ("references", "places", "predictions", "couples")

# Bounds the memory: the comparison of all predictions of an image is quadratic.
AT_ONCE = 8_000_000  # pairs of predictions of one image, summed over the images of a block
SPARSE = 8  # cells per object from which on cells are looked up instead of marked
POOLED = "pooled"
MEASURES = ("box-iou", "mask-iou")  # criteria whose similarity is the intersection over union


@dataclass(frozen=True, slots=True)
class Rows:
    """A flat table; rows ``offsets[i]:offsets[i+1]`` belong to image i."""

    offsets: I64  # (n_images + 1,)

    @property
    def image(self) -> I64:
        """(n,) the image of every row."""
        return ragged.owners(self.offsets)

    def take(self, images: I64) -> Self:
        """Return the rows of some images, in that order; images may be repeated."""
        rows, offsets = ragged.take_rows(self.offsets, images)
        return type(self)(offsets, *(getattr(self, name)[rows] for name in self._columns()))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the tables of several sets of images, one below the other."""
        offsets = ragged.concat_offsets([part.offsets for part in parts])
        return cls(offsets, **joined_columns(parts, cls._columns()))

    @classmethod
    def _columns(cls) -> list[str]:
        return [one.name for one in fields(cls) if one.name != "offsets"]


@dataclass(frozen=True, slots=True)
class Things(Rows):
    """Objects on images with the models that find them: counted references, or places of false
    alarms.
    """

    label: I64  # (n,)
    area: F64  # (n,) of a place: the mean of its false alarms
    by_model: Flags  # (n, K) which models find the reference, or raise a false alarm in the place

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, slots=True)
class Targets(Things):
    """Counted references."""

    row: I64  # (n,) in the cohort


@dataclass(frozen=True, slots=True)
class AlarmPlaces(Things):
    """Places with a false alarm of one model or of several."""

    members: I64  # (n,) number of false alarms


@dataclass(frozen=True, slots=True)
class PooledPredictions(Rows):
    """The predictions of all models at or above the score cut, one model after the other in every
    image.
    """

    model: I64  # (n,)
    label: I64  # (n,)
    area: F64  # (n,)

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True, slots=True)
class Couples(Rows):
    """Predictions of two models that mean the same thing; a prediction has at most one partner per
    other model.
    """

    pair: I64  # (n,) of models, as `kernels.ranks.pair_index` lists them
    first: I64  # (n,) place of the prediction of the first model among all predictions of its image
    second: I64
    iou: F64  # (n,)

    def __len__(self) -> int:
        return len(self.pair)


@dataclass(frozen=True)
class ObjectPairs:
    """The evidence of object stability: flat tables with offsets per image."""

    n_models: int
    n_classes: int
    references: Targets
    places: AlarmPlaces
    predictions: PooledPredictions
    couples: Couples
    ignored: I64  # (n_images,) references that are ignored or crowds
    # (n_images, K) predictions of a reference that another prediction of the model has found
    duplicates: I64

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.ignored)

    def take(self, images: I64) -> ObjectPairs:
        """Return the evidence of some images; images may be repeated."""
        tables: dict[str, Any] = {name: getattr(self, name).take(images) for name in TABLES}
        tables |= {"ignored": self.ignored[images], "duplicates": self.duplicates[images]}
        return ObjectPairs(self.n_models, self.n_classes, **tables)

    @classmethod
    def concat(cls, parts: Sequence[ObjectPairs]) -> ObjectPairs:
        """Return the evidence of all images of several parts; rows of references stay what they
        are.
        """
        first = parts[0]
        tables: dict[str, Any] = {}
        for name in TABLES:
            kind = type(getattr(first, name))
            tables[name] = kind.concat([getattr(part, name) for part in parts])
        return cls(
            first.n_models,
            first.n_classes,
            **tables,
            ignored=joined(parts, "ignored"),
            duplicates=joined(parts, "duplicates"),
        )

    @cached_property
    def couple_rows(self) -> tuple[I64, I64]:
        """The rows in ``predictions`` of both predictions of every couple."""
        begin = self.predictions.offsets[:-1][self.couples.image]
        return begin + self.couples.first, begin + self.couples.second

    @cached_property
    def whole_cells(self) -> PairCells:
        """The agreement of every pair of models in every image, which all tables of sums share."""
        return pair_cells(self, Strata.whole(self))


def collect(
    cohort: Cohort,
    models: Sequence[str],
    view: View,
    step: Callable[[], None] = lambda: None,
    workers: int = 1,
) -> ObjectPairs:
    """Return the evidence of all images, in which predictions below the score cut were removed;
    call ``step`` after every block. Threads share the blocks.
    """

    def of_block(span: tuple[int, int]) -> ObjectPairs:
        first_row = int(cohort.references.offsets[span[0]])
        return _collect_block(cohort.span(*span), models, view, first_row)

    parts = []
    for part in in_order(of_block, blocks(cohort, models), workers=workers, ahead=2 * workers):
        parts.append(part)
        step()
    return ObjectPairs.concat(parts)


def blocks(cohort: Cohort, models: Sequence[str]) -> list[tuple[int, int]]:
    """Return spans of images that are worked on at once."""
    counts = sum(np.diff(cohort.models[name].offsets) for name in models)
    # NumPy compares all pairs at once; the twins keep only those that overlap, which are few.
    most = AT_ONCE if route.native() is None else 4 * AT_ONCE
    return ragged.batches(np.maximum(np.asarray(counts, np.int64) ** 2, 1), most)


def _collect_block(cohort: Cohort, models: Sequence[str], view: View, begin: int) -> ObjectPairs:
    """Return the evidence of one block; ``begin`` is the row of its first reference in the whole
    cohort.
    """
    n_classes = len(cohort.classes)
    pool, order = Pool.of(cohort, models)
    matches = [match(cohort, name, [view]) for name in models]
    # In the order of the pool, image by image.
    fates = np.concatenate([one.prediction_fate[0] for one in matches])[order]
    of_references = np.stack([one.reference_fate[0] for one in matches], axis=1)
    near = _near_pairs(pool, view, models)
    table, image = pool.predictions, pool.predictions.image
    twice = np.flatnonzero(fates == assignment.DUPLICATE)
    n_images, n_models = cohort.n_images, len(models)
    return ObjectPairs(
        n_models=n_models,
        n_classes=n_classes,
        references=_references(cohort.references, of_references, begin),
        places=_places(pool, near, fates == assignment.FALSE_ALARM),
        predictions=PooledPredictions(
            table.offsets, pool.model, table.label.astype(np.int64), table.area
        ),
        couples=_couples(pool, near, view),
        ignored=np.bincount(
            cohort.references.image[of_references[:, 0] == assignment.IGNORED], minlength=n_images
        ),
        duplicates=np.bincount(
            image[twice] * n_models + pool.model[twice], minlength=n_images * n_models
        ).reshape(n_images, n_models),
    )


@dataclass(frozen=True)
class Pool:
    """The predictions of all models in one table: image by image, and in each model by model."""

    cohort: Cohort  # in which the pooled predictions are references and predictions
    model: I64  # (n,)
    n_models: int

    @property
    def predictions(self) -> Predictions:
        """The pooled predictions."""
        return self.cohort.models[POOLED]

    @classmethod
    def of(cls, cohort: Cohort, models: Sequence[str]) -> tuple[Pool, I64]:
        """Return the pool, and for every prediction its row in the tables of all models, one below
        the other.
        """
        tables = [cohort.models[name] for name in models]
        stack = Predictions.concat([replace(table, facts={}) for table in tables])
        image = joined(tables, "image")
        model = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        order = np.argsort(image, kind="stable")
        table = stack.rows(order, ragged.from_owner(image, cohort.n_images))
        # Predictions stand in as references too, so that criteria can compare them pairwise.
        pool = replace(cohort, references=_as_references(table), models={POOLED: table}, maps={})
        return cls(pool, model[order], len(tables)), order


@dataclass(frozen=True)
class Near:
    """Pairs of pooled predictions of two models at or above the cut-off, earlier model first."""

    first: I64
    second: I64
    similarity: F64


def _references(references: References, fates: NDArray[np.int8], begin: int) -> Targets:
    rows = np.flatnonzero(fates[:, 0] != assignment.IGNORED)
    return Targets(
        ragged.from_counts(np.bincount(references.image[rows], minlength=references.n_images)),
        references.label[rows].astype(np.int64),
        references.area[rows],
        fates[rows] == assignment.HIT,
        begin + rows,
    )


def _as_references(table: Predictions) -> References:
    nobody = np.zeros(len(table), np.bool_)
    return References(
        offsets=table.offsets,
        boxes=table.boxes,
        extent=table.extent,
        label=table.label,
        place=table.place,
        facts={},
        area=table.area,
        ignore=nobody,
        crowd=nobody,
        masks=table.masks,
        points=table.points,
    )


def _near_pairs(pool: Pool, view: View, models: Sequence[str]) -> Near:
    """Return the pairs that reach the threshold, whichever of the two is taken for the reference.

    Criteria that list their candidates themselves are symmetric; of the others the smaller
    similarity counts.
    """
    criterion: Criterion = registry.resolve("criterion", view.criterion)
    cutoff, n_classes = criterion.cutoff(view.threshold), len(pool.cohort.classes)
    table = pool.predictions
    try:
        if criterion.fused is not None:
            row, column, similarity = criterion.fused(pool.cohort, table, n_classes)
            near = (pool.model[row] < pool.model[column]) & (similarity >= cutoff)
            first, second = row[near].astype(np.int64), column[near].astype(np.int64)
            return Near(first, second, similarity[near])
        one, other = boxes.all_pairs(
            table.offsets, table.label, table.offsets, table.label, n_classes
        )
        apart = pool.model[one] < pool.model[other]
        one, other = one[apart], other[apart]
        # both directions: some criteria are not symmetric, and neither side is the reference
        there = criterion.similarity(PairTable(pool.cohort, table, one, other))
        back = criterion.similarity(PairTable(pool.cohort, table, other, one))
    except UsageError as error:
        raise UsageError(
            f"predictions of {', '.join(models)} cannot be compared with each other: {error}"
        ) from error
    similarity = np.minimum(there, back)
    near = (similarity >= cutoff) & (similarity > criterion.none)
    return Near(one[near], other[near], similarity[near])


def _couples(pool: Pool, near: Near, view: View) -> Couples:
    """Return the one-to-one pairs of predictions of every two models.

    A prediction takes part once for every other model: it stands under its row and that model's
    number.
    """
    n, k = len(pool.model), pool.n_models
    one, other = pool.model[near.first], pool.model[near.second]
    # Row and model as one number: all pairs of models are assigned in one call.
    first, second = near.first * k + other, near.second * k + one
    cutoffs, nobody = np.array([-np.inf]), np.zeros(n * k, np.bool_)
    if view.assignment == "optimal":
        table = pool.predictions
        cell = boxes.cells(table.offsets, table.label, len(pool.cohort.classes))
        cells = np.repeat((cell * k + pool.model) * k, k) + np.tile(np.arange(k), n)
        winner = assignment.optimal(
            first, second, near.similarity, cells, cutoffs, nobody[:, None], nobody
        )
    else:
        score = np.repeat(pool.predictions.score, k)
        winner = assignment.by_overlap(
            first, second, near.similarity, score, cutoffs, nobody[:, None], nobody
        )
    rows = np.sort(winner[winner[:, 0] >= 0, 0]).astype(np.int64)
    couples = Near(near.first[rows], near.second[rows], near.similarity[rows])
    return _couple_table(pool, couples, view)


def _couple_table(pool: Pool, near: Near, view: View) -> Couples:
    """Return one-to-one pairs as a table, sorted by image."""
    k, table = pool.n_models, pool.predictions
    image = table.image[near.first]
    order = np.argsort(image, kind="stable")
    first, second, image = near.first[order], near.second[order], image[order]
    # From two models to the number of their pair.
    numbers = np.zeros((k, k), np.int64)
    numbers[pair_index(k)] = np.arange(k * (k - 1) // 2)
    begin = table.offsets[:-1][image]
    return Couples(
        ragged.from_owner(image, pool.cohort.n_images),
        numbers[pool.model[first], pool.model[second]],
        first - begin,
        second - begin,
        _couple_iou(pool, first, second, near.similarity[order], view),
    )


def _couple_iou(pool: Pool, first: I64, second: I64, similarity: F64, view: View) -> F64:
    """Return the intersection over union of couples, of masks if all predictions have some, else of
    boxes.
    """
    if view.criterion in MEASURES:
        return similarity
    measure = "box-iou" if pool.predictions.masks is None else "mask-iou"
    criterion: Criterion = registry.resolve("criterion", measure)
    return criterion.similarity(PairTable(pool.cohort, pool.predictions, first, second))


def _places(pool: Pool, near: Near, alarm: Flags) -> AlarmPlaces:
    """Return where the false alarms are: those of different models that are near each other share a
    place.

    Places are connected groups: a false alarm belongs to one if it is near any of its members.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    alarms = np.flatnonzero(alarm)
    number = np.cumsum(alarm) - 1  # of a prediction among the false alarms: nodes of the graph
    edge = alarm[near.first] & alarm[near.second]
    ends = number[near.first[edge]], number[near.second[edge]]
    n = len(alarms)
    graph = coo_array((np.ones(len(ends[0]), np.bool_), ends), shape=(n, n))
    n_places, place = (
        connected_components(graph, directed=False) if n else (0, np.zeros(0, np.int32))
    )
    table, image = pool.predictions, pool.predictions.image
    # The first member of every place, which is the last to be written; all share image and class.
    first = np.empty(n_places, np.int64)
    first[place[::-1]] = np.arange(n)[::-1]
    order = np.argsort(image[alarms[first]], kind="stable")
    members = np.bincount(place, minlength=n_places)
    by_model = np.zeros((n_places, pool.n_models), np.bool_)
    by_model[place, pool.model[alarms]] = True
    area = np.bincount(place, weights=table.area[alarms], minlength=n_places) / members
    return AlarmPlaces(
        ragged.from_counts(np.bincount(image[alarms[first]], minlength=pool.cohort.n_images)),
        table.label[alarms[first]][order].astype(np.int64),
        area[order],
        by_model[order],
        members[order],
    )


class Strata(NamedTuple):
    """The number of strata, and the stratum of every object of the four tables of `ObjectPairs`."""

    number: int
    references: I64
    places: I64
    predictions: I64
    couples: I64

    @classmethod
    def whole(cls, evidence: ObjectPairs) -> Strata:
        """Return one stratum for everything."""
        tables = (evidence.references, evidence.places, evidence.predictions, evidence.couples)
        return cls(1, *(np.zeros(len(table), np.int64) for table in tables))

    @classmethod
    def classes(cls, evidence: ObjectPairs) -> Strata:
        """Return one stratum per class."""
        first, _ = evidence.couple_rows
        label = evidence.predictions.label
        return cls(
            evidence.n_classes,
            evidence.references.label,
            evidence.places.label,
            label,
            label[first],
        )

    @classmethod
    def sizes(cls, evidence: ObjectPairs, cuts: F64) -> Strata:
        """Return one stratum per range of areas: below the first cut, from it to the second, ..."""
        first, second = evidence.couple_rows
        area = evidence.predictions.area
        of_couples = 0.5 * (area[first] + area[second])
        areas = (evidence.references.area, evidence.places.area, area, of_couples)
        return cls(len(cuts) + 1, *(np.searchsorted(cuts, area, side="right") for area in areas))


class PairCells(NamedTuple):
    """Agreement and mean IoU of every pair of models in the cells (image and stratum) in which any
    model predicts something.
    """

    image: I64  # (n,)
    stratum: I64
    agreement: F64  # (n, P) NaN where both predict nothing
    iou: F64  # (n, P) NaN without couples


def pair_cells(evidence: ObjectPairs, strata: Strata) -> PairCells:
    """Return agreement and mean IoU per cell and pair of models."""
    n, predictions, couples = strata.number, evidence.predictions, evidence.couples
    one, other = pair_index(evidence.n_models)
    first, second = evidence.couple_rows
    # Image and stratum as one number; only cells in which something is predicted are kept.
    prediction_key = predictions.image * n + strata.predictions
    couple_key = couples.image * n + strata.couples
    keys, (cell, couple_cell) = _numbered([prediction_key, couple_key], evidence.n_images * n)

    def table(rows: I64, columns: I64, width: int, weights: F64 | None = None) -> F64:
        sums = np.bincount(rows * width + columns, weights, minlength=len(keys) * width)
        return np.asarray(sums.reshape(len(keys), width), np.float64)

    n_pairs = len(one)
    counts = table(cell, predictions.model, evidence.n_models)
    n_couples = table(couple_cell, couples.pair, n_pairs)
    # Partners are counted in the cell of each prediction: a couple may lie in another stratum than
    # its members.
    n_partners = table(cell[first], couples.pair, n_pairs) + table(
        cell[second], couples.pair, n_pairs
    )
    n_single = counts[:, one] + counts[:, other] - n_partners
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement = 2 * n_couples / (2 * n_couples + n_single)
        iou = table(couple_cell, couples.pair, n_pairs, couples.iou) / n_couples
    return PairCells(keys // n, keys % n, agreement, iou)


def _numbered(keys: Sequence[I64], most: int) -> tuple[I64, list[I64]]:
    """Return the distinct keys below ``most`` in ascending order, and the place of every key among
    them.
    """
    if most > SPARSE * sum(map(len, keys)):
        distinct = np.unique(np.concatenate(keys))
        return distinct, [np.searchsorted(distinct, each) for each in keys]
    # Nearly all keys occur: marking them in a table is several times faster than sorting.
    occurs = np.zeros(most, np.bool_)
    for each in keys:
        occurs[each] = True
    place = np.cumsum(occurs) - 1
    return np.flatnonzero(occurs), [place[each] for each in keys]


def mean_of_defined(values: F64) -> F64:
    """Return the mean of every row over what is not NaN; NaN where nothing is."""
    defined = ~np.isnan(values)
    number = defined.sum(axis=1)
    total = np.where(defined, values, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, number, out=np.full(len(values), np.nan), where=number > 0))
