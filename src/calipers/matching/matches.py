# SPDX-License-Identifier: Apache-2.0
"""Matches: the fates of all objects under all views; evidence of all metrics that count objects.

`matching.assign.match` makes them; metrics ask for weighted totals and curves, pages for partners.
What weights do not change (orders, numberings, tables of metrics) is made once and kept here, so
that thousands of replicates share it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers.arguments import names_fields
from calipers.arrays import F64, I8, I32, I64, BlockCache, FateRows, Flags, Gathered
from calipers.kernels import assignment, curves, ragged
from calipers.kernels.assignment import FateTable

FEW_VIEWS = 8  # up to which a row of fates is hardly longer than its number
HITS, COUNTED = range(2)  # entries of `Matches.totals`

FATES = {
    assignment.HIT: "hit",
    assignment.DUPLICATE: "duplicate",
    assignment.FALSE_ALARM: "false alarm",
    assignment.MISSED: "missed",
    assignment.IGNORED: "ignored",
}


@names_fields
@dataclass(frozen=True, slots=True)
class View:
    """One way of deciding fates; COCO = 10 thresholds x 4 sizes = 40 views."""

    criterion: str = "box-iou"
    assignment: str = "by-score"
    threshold: float = 0.5
    size: tuple[float, float] = (0.0, float("inf"))  # area range that counts, closed at both ends
    max_dets: int = 100
    within_class: bool = True
    strict: bool = False
    score_cut: float = float("-inf")  # predictions below it do not exist
    duplicates: str = "penalised"  # penalised | forgiven

    def __hash__(self) -> int:
        # Views of one matching differ in these two: a number of all fields takes three times as
        # long, and views are looked up hundreds of times.
        return hash((self.threshold, self.size))


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of one criterion, sorted by prediction. All candidates are enough for every sweep over
    thresholds.
    """

    reference: I32
    prediction: I32
    similarity: F64

    @classmethod
    def of_partners(cls, partner: I32, similarity: F64) -> Pairs:
        """Return the pairs of predictions and their partners (n_predictions,), -1 without one."""
        rows = np.flatnonzero(partner >= 0)
        return cls(partner[rows], rows.astype(np.int32), similarity[rows])

    def take(self, offsets: I64, images: I64, reference_move: I64, prediction_move: I64) -> Pairs:
        """Return the pairs of the images ``images``; ``offsets`` are those of the predictions.

        The objects of an image are renumbered by as much as the last two say.
        """
        rows, offsets = ragged.take_rows(np.searchsorted(self.prediction, offsets), images)
        image = ragged.owners(offsets)
        return Pairs(
            (self.reference[rows] + reference_move[image]).astype(np.int32),
            (self.prediction[rows] + prediction_move[image]).astype(np.int32),
            self.similarity[rows],
        )


class ObjectsByImage:
    """References and predictions in the order of their images, parted by offsets."""

    if TYPE_CHECKING:

        @property
        def reference_offsets(self) -> I64:
            """(n_images + 1,) where the references of every image begin."""

        @property
        def prediction_offsets(self) -> I64:
            """(n_images + 1,) where the predictions of every image begin."""

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.reference_offsets) - 1

    @cached_property
    def reference_image(self) -> I64:
        """(n_references,) image of every reference."""
        return ragged.owners(self.reference_offsets)

    @cached_property
    def prediction_image(self) -> I64:
        """(n_predictions,) image of every prediction."""
        return ragged.owners(self.prediction_offsets)


@dataclass(frozen=True, eq=False)
class Matches(ObjectsByImage):
    """Fates of all objects under all views; partner and similarity under ``views[0]``, the one that
    is shown.
    """

    views: tuple[View, ...]
    n_classes: int
    reference_offsets: I64
    prediction_offsets: I64
    reference_label: I32
    prediction_label: I32
    score: F64
    rank: I32  # of a prediction in its image and class; a cut at m predictions is rank < m
    reference_fate: I8  # (n_views, n_references)
    prediction_fate: I8  # (n_views, n_predictions)
    partners: Pairs  # predictions that have a partner: few of millions have
    pairs: Pairs  # all candidates
    # (n_views, n_predictions) duplicates that the protocol forgives, ignored in all counts
    forgiven: Flags | None = None

    @cached_property
    def partner(self) -> I32:
        """(n_predictions,) row of the reference, -1 without a partner."""
        partner = np.full(len(self.score), -1, np.int32)
        partner[self.partners.prediction] = self.partners.reference
        return partner

    @cached_property
    def similarity(self) -> F64:
        """(n_predictions,) to the partner, NaN without one."""
        similarity = np.full(len(self.score), np.nan)
        similarity[self.partners.prediction] = self.partners.similarity
        return similarity

    @cached_property
    def _reference_table(self) -> FateTable:
        return FateTable.unnumbered(self.reference_fate)  # too few to be worth it

    @cached_property
    def _prediction_table(self) -> FateTable:
        return FateTable(self.prediction_fate)

    @cached_property
    def _deepest(self) -> int:
        return int(self.rank.max(initial=0))

    @cached_property
    def _rankings(
        self,
    ) -> dict[tuple[int, bool, bool], tuple[FateTable, curves.CurveOrder, Any, dict[Any, Any]]]:
        return {}

    @cached_property
    def _index(self) -> dict[View, int]:
        return {view: k for k, view in enumerate(self.views)}

    @cached_property
    def _known_views(self) -> dict[int, tuple[tuple[View, ...], list[int]]]:
        return {}

    @cached_property
    def _plain_totals(self) -> dict[Any, I64]:
        return {}

    @cached_property
    def _totals_of_block(self) -> BlockCache:
        return BlockCache()

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Results that metrics compute from the matches once and use under all weights."""
        return {}

    def remember(self, table: FateTable) -> None:
        """Keep the numbering of the prediction rows that came with the matching; it would be made
        again otherwise.
        """
        self.__dict__["_prediction_table"] = table

    def index(self, view: View) -> int:
        """Return which row of the fates belongs to a view."""
        return self._index[view]

    def indices(self, views: tuple[View, ...]) -> list[int]:
        """Return which rows of the fates belong to some views; looked up once for each tuple."""
        # Hashing forty views takes longer than the sums; a tuple that lives on keeps its id.
        entry = self._known_views.get(id(views))
        if entry is None or entry[0] is not views:
            entry = self._known_views[id(views)] = views, [self._index[view] for view in views]
        return entry[1]

    def totals(self, weights: I64, max_dets: int = sys.maxsize) -> tuple[I64, I64]:
        """Return (R, V, 2, K) for references and for the best ``max_dets`` predictions of every
        cell.

        Entries ``HITS`` and ``COUNTED`` are the weight of the hits and of all objects that are not
        ignored.
        """
        return self.reference_totals(weights), self.prediction_totals(weights, max_dets)

    def reference_totals(self, weights: I64) -> I64:
        """Return (R, V, 2, K) for references."""
        totals = self._known_totals(weights)
        if "references" not in totals:
            side = (self._reference_table, self.reference_label, np.zeros(0, np.int32), 0)
            if totals is self._plain_totals:
                totals["references"] = assignment.counts(*side, self.n_classes)
            else:
                image = self.reference_image
                totals["references"] = assignment.totals(*side, image, weights, self.n_classes)
        return totals["references"]

    def prediction_totals(
        self, weights: I64, max_dets: int = sys.maxsize, *, only_hits: bool = False
    ) -> I64:
        """Return (R, V, 2, K) for the best ``max_dets`` predictions of every cell.

        With ``only_hits`` the entry ``COUNTED`` may leave out predictions that hit nothing, which
        are most of them.
        """
        limit = min(max_dets, self._deepest + 1)
        totals = self._known_totals(weights)
        # Full totals under `limit`; those that may leave out misses under `(limit, True)`.
        if limit in totals:
            return totals[limit]
        key: Any = (limit, True) if only_hits else limit
        if key in totals:
            return totals[key]
        rank = self.rank if limit <= self._deepest else np.zeros(0, np.int32)
        side = (self._prediction_table, self.prediction_label, rank, limit)
        # Totals under weights 1 are kept for good, so they are worth counting in full.
        if totals is self._plain_totals:
            totals[limit] = assignment.counts(*side, self.n_classes)
            return totals[limit]
        totals[key] = assignment.totals(
            *side, self.prediction_image, weights, self.n_classes, only_hits=only_hits
        )
        return totals[key]

    def image_totals(self, weights: I64) -> I64:
        """Return (R,): the weight of all images."""
        totals = self._known_totals(weights)
        if "images" not in totals:
            totals["images"] = weights.sum(axis=1, dtype=np.int64)
        return totals["images"]

    def _known_totals(self, weights: I64) -> dict[Any, I64]:
        """Return the totals known under these weights, to be filled by the caller."""

        def known() -> dict[Any, I64]:
            # Dozens of calls bring the same weights, so they are looked at once.
            return self._plain_totals if assignment.all_ones(weights) else {}

        return self._totals_of_block.get(weights, known)

    def curves(
        self, views: list[int], weights: I64, max_dets: int, *, blocks: bool, pooled: bool = False
    ) -> curves.CurveProblem:
        """Return the input of the curves of some views: the best ``max_dets`` predictions, ranked.

        The limit holds in every cell of image and class. Sorted once and kept: all views and
        replicates share the order. ``pooled`` ranks all classes together.
        """
        limit = min(max_dets, self._deepest + 1)
        key = (limit, blocks, pooled)
        if key not in self._rankings:
            # Without a limit that cuts anything, the table of all predictions serves as it is.
            rows: slice | I64 = slice(None)
            table = self._prediction_table
            if limit <= self._deepest:
                rows = np.flatnonzero(self.rank < limit)
                table = FateTable(self.prediction_fate[:, rows])
            label, n_classes = self.prediction_label[rows], self.n_classes
            if pooled:
                label, n_classes = np.zeros_like(label), 1
            ranking = curves.ranking(self.score[rows], label, n_classes, blocks=blocks)
            self._rankings[key] = table, ranking, rows, {}
        table, ranking, rows, plans = self._rankings[key]

        def images() -> I64:
            return self.prediction_image[rows]

        return curves.CurveProblem(table, views, ranking, images, weights, plans)

    def take(self, images: I64) -> Matches:
        """Return the matches of the images ``images``, in that order; images may be repeated."""
        reference_rows, reference_offsets = ragged.take_rows(self.reference_offsets, images)
        prediction_rows, prediction_offsets = ragged.take_rows(self.prediction_offsets, images)
        # Rows are renumbered, and with them everything that points to rows.
        moves = (
            reference_offsets[:-1] - self.reference_offsets[images],
            prediction_offsets[:-1] - self.prediction_offsets[images],
        )
        return replace(
            self,
            reference_offsets=reference_offsets,
            prediction_offsets=prediction_offsets,
            reference_label=self.reference_label[reference_rows],
            prediction_label=self.prediction_label[prediction_rows],
            score=self.score[prediction_rows],
            rank=self.rank[prediction_rows],
            reference_fate=self.reference_fate[:, reference_rows],
            prediction_fate=self.prediction_fate[:, prediction_rows],
            partners=self.partners.take(self.prediction_offsets, images, *moves),
            forgiven=None if self.forgiven is None else self.forgiven[:, prediction_rows],
            pairs=self.pairs.take(self.prediction_offsets, images, *moves),
        )

    @classmethod
    def concat(cls, parts: Sequence[Matches]) -> Matches:
        """Return the matches of all images of several parts: blocks of a run, or shards of many."""
        if len(parts) == 1:
            return parts[0]
        joint = JointMatches()
        for part in parts:
            joint.add(part)
        return joint.result()


class JointFateRows:
    """The fates of blocks, one behind the other; ``room`` is how many objects will come."""

    def __init__(self, n_views: int, *, room: int = 0) -> None:
        self.n_views = n_views
        self._numbers: dict[bytes, int] = {}
        self._place = Gathered(room=room, dtype=np.int32)

    def add(self, fates: I8 | FateRows) -> None:
        """Append fates (V, n)."""
        part = ragged.distinct_rows(fates)
        numbers = []
        for row in part.rows:
            numbers.append(self._numbers.setdefault(row.tobytes(), len(self._numbers)))
        self._place.add(np.array(numbers, np.int32)[part.place])

    def result(self) -> FateRows:
        """Return the fates of all of them."""
        rows = np.frombuffer(b"".join(self._numbers), np.int8).reshape(-1, self.n_views)
        return FateRows(rows, self._place.result())


class JointPairs:
    """The pairs of blocks, one behind the other."""

    def __init__(self) -> None:
        # In 32 bits from the start, as they end.
        self._ends = Gathered(dtype=np.int32), Gathered(dtype=np.int32)
        self._similarity = Gathered()

    def add(self, part: Pairs, n_references: int, n_predictions: int) -> None:
        """Append the pairs of a block, before which so many objects were."""
        self._ends[0].add(part.reference, n_references)
        self._ends[1].add(part.prediction, n_predictions)
        self._similarity.add(part.similarity)

    def result(self) -> Pairs:
        """Return the pairs of all of them."""
        reference, prediction = self._ends
        return Pairs(reference.result(), prediction.result(), self._similarity.result())


class JointMatches:
    """Matches of blocks, put one behind the other as they come: a block can be forgotten then.

    ``references`` and ``predictions`` are how many will come, if that is known.
    """

    def __init__(self, references: int = 0, predictions: int = 0) -> None:
        self._first: Matches | None = None  # the only one, as long as no other came
        self._room = references, predictions
        self._columns: dict[str, Gathered | JointFateRows] = {}
        self._pairs: dict[str, JointPairs] = {}
        self._offsets: dict[str, list[I64]] = {"reference_offsets": [], "prediction_offsets": []}
        self._tables: list[FateTable] = []  # the numbers of rows, without their fates
        self._n = [0, 0]  # references and predictions

    def add(self, part: Matches) -> None:
        """Append the matches of the next images."""
        if self._first is None and not self._columns:
            self._first = part
            return
        if self._first is not None:
            first, self._first = self._first, None
            self._begin(first)
            self._append(first)
        self._append(part)

    def _begin(self, first: Matches) -> None:
        references, predictions = self._room
        # All parts are matched under the same views.
        self._views, self._n_classes = first.views, first.n_classes
        self._columns = {
            "reference_label": Gathered(room=references),
            "prediction_label": Gathered(room=predictions),
            "score": Gathered(room=predictions),
            "rank": Gathered(room=predictions),
            # Fates are (views, objects): objects are the second axis.
            "reference_fate": Gathered(1, room=references),
            "prediction_fate": Gathered(1, room=predictions),
        }
        # Of millions of predictions under many views, fates are most of the evidence.
        if len(first.views) > FEW_VIEWS:
            rows = JointFateRows(len(first.views), room=predictions)
            self._columns["prediction_fate"] = rows
        if first.forgiven is not None:
            self._columns["forgiven"] = Gathered(1, room=predictions)
        self._pairs = {"partners": JointPairs(), "pairs": JointPairs()}

    def _append(self, part: Matches) -> None:
        n_references, n_predictions = self._n
        for name, column in self._columns.items():
            column.add(getattr(part, name))
        for name, joint in self._pairs.items():
            joint.add(getattr(part, name), n_references, n_predictions)
        for name, offsets in self._offsets.items():
            offsets.append(getattr(part, name))
        numbering = part._prediction_table.numbering or (None, None)
        self._tables.append(FateTable(np.zeros((0, 0), np.int8), *numbering))
        self._n = [n_references + len(part.reference_label), n_predictions + len(part.score)]

    def result(self) -> Matches:
        """Return the matches of all images."""
        if self._first is not None:
            return self._first
        arrays: dict[str, Any] = {}
        for name in list(self._columns):
            arrays[name] = self._columns.pop(name).result()
        for name, offsets in self._offsets.items():
            arrays[name] = ragged.concat_offsets(offsets)
        for name in list(self._pairs):
            arrays[name] = self._pairs.pop(name).result()
        matches = Matches(views=self._views, n_classes=self._n_classes, **arrays)
        numbering = FateTable.joint_numbering(self._tables)
        matches.remember(FateTable(matches.prediction_fate, *numbering))
        return matches
