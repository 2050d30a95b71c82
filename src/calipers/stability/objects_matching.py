# SPDX-License-Identifier: Apache-2.0
"""Match the predictions of several models with the references and with each other.

In come a cohort and a `View`; out goes the evidence of object stability: which model finds which
reference, which predictions of two models mean the same object, and which false alarms lie in one
place. All models of a block of images are put into one table and compared in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.assignment import match
from calipers.criteria import Criterion, PairTable
from calipers.errors import UsageError
from calipers.kernels import matching, pairs, ragged
from calipers.kernels.pairwise import pair_index
from calipers.matches import View
from calipers.stability.objects_evidence import (
    AlarmPlaces,
    Couples,
    ObjectPairs,
    PooledPredictions,
    Targets,
)
from calipers.tables import Cohort, Predictions, References

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

AT_ONCE = 8_000_000  # pairs of predictions of one image, summed over the images of a block
POOLED = "pooled"
MEASURES = ("box-iou", "mask-iou")  # criteria whose similarity is the intersection over union


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
        image = np.concatenate([table.image for table in tables])
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


def blocks(cohort: Cohort, models: Sequence[str]) -> list[tuple[int, int]]:
    """Return spans of images that are worked on at once."""
    counts = sum(np.diff(cohort.models[name].offsets) for name in models)
    return ragged.batches(np.maximum(np.asarray(counts, np.int64) ** 2, 1), AT_ONCE)


def collect(
    cohort: Cohort, models: Sequence[str], view: View, step: Callable[[], None] = lambda: None
) -> ObjectPairs:
    """Return the evidence of all images, in which predictions below the score cut were removed;
    call ``step`` after every block.
    """
    parts = []
    for start, stop in blocks(cohort, models):
        first_row = int(cohort.references.offsets[start])
        parts.append(_collect_block(cohort.span(start, stop), models, view, first_row))
        step()
    return ObjectPairs.concat(parts)


def _collect_block(cohort: Cohort, models: Sequence[str], view: View, begin: int) -> ObjectPairs:
    """Return the evidence of one block; ``begin`` is the row of its first reference in the whole
    cohort.
    """
    n_classes = len(cohort.classes)
    pool, order = Pool.of(cohort, models)
    matches = [match(cohort, name, [view]) for name in models]
    fates = np.concatenate([one.prediction_fate[0] for one in matches])[order]
    of_references = np.stack([one.reference_fate[0] for one in matches], axis=1)
    near = _near(pool, view, models)
    table, image = pool.predictions, pool.predictions.image
    twice = np.flatnonzero(fates == matching.DUPLICATE)
    n_images, n_models = cohort.n_images, len(models)
    return ObjectPairs(
        n_models=n_models,
        n_classes=n_classes,
        references=_references(cohort.references, of_references, begin),
        places=_places(pool, near, fates == matching.FALSE_ALARM),
        predictions=PooledPredictions(
            table.offsets, pool.model, table.label.astype(np.int64), table.area
        ),
        couples=_couples(pool, near, view),
        ignored=np.bincount(
            cohort.references.image[of_references[:, 0] == matching.IGNORED], minlength=n_images
        ),
        duplicates=np.bincount(
            image[twice] * n_models + pool.model[twice], minlength=n_images * n_models
        ).reshape(n_images, n_models),
    )


def _references(references: References, fates: NDArray[np.int8], begin: int) -> Targets:
    rows = np.flatnonzero(fates[:, 0] != matching.IGNORED)
    return Targets(
        ragged.from_counts(np.bincount(references.image[rows], minlength=references.n_images)),
        references.label[rows].astype(np.int64),
        references.area[rows],
        fates[rows] == matching.HIT,
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


def _near(pool: Pool, view: View, models: Sequence[str]) -> Near:
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
        one, other = pairs.all_pairs(
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
    first, second = near.first * k + other, near.second * k + one
    cutoffs, nobody = np.array([-np.inf]), np.zeros(n * k, np.bool_)
    if view.assignment == "optimal":
        table = pool.predictions
        cell = pairs.cells(table.offsets, table.label, len(pool.cohort.classes))
        cells = np.repeat((cell * k + pool.model) * k, k) + np.tile(np.arange(k), n)
        winner = matching.optimal(
            first, second, near.similarity, cells, cutoffs, nobody[:, None], nobody
        )
    else:
        score = np.repeat(pool.predictions.score, k)
        winner = matching.by_overlap(
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
    numbers = np.zeros((k, k), np.int64)
    numbers[pair_index(k)] = np.arange(k * (k - 1) // 2)
    begin = table.offsets[:-1][image]
    return Couples(
        ragged.from_owner(image, pool.cohort.n_images),
        numbers[pool.model[first], pool.model[second]],
        first - begin,
        second - begin,
        _iou(pool, first, second, near.similarity[order], view),
    )


def _iou(pool: Pool, first: I64, second: I64, similarity: F64, view: View) -> F64:
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
    first = np.unique(place, return_index=True)[1]  # members of a place share image and class
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
