"""Both routes on the edges: coordinates at the ends of float64, empty tables, one image, many
views, many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from calipers.kernels import assignment as fates
from calipers.kernels import boxes, curves, rodeo, route
from calipers.kernels.assignment import FateTable

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")

ASSIGNMENTS = route.ASSIGNMENTS


class Routes:
    """Runs kernels on both routes and notes where their results part in a bit."""

    def __init__(self) -> None:
        self.compared, self.differences = 0, list[str]()

    def both(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """Return the result of the native route."""
        results = []
        for name in ("numpy", "native"):
            with route.forced(name), np.errstate(all="ignore"):
                results.append(function(*arguments, **options))
        slow, fast = (
            list(map(described, (r,) if isinstance(r, np.ndarray) else r)) for r in results
        )
        if slow != fast:
            self.differences.append(f"comparison {self.compared}, {function.__qualname__}")
        self.compared += 1
        return results[1]

    @property
    def parted(self) -> list[str]:
        """Where the routes do not agree; nothing if they do."""
        return self.differences if self.compared else ["nothing was compared"]


def described(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    """Return type, shape and bits."""
    return str(array.dtype), array.shape, np.ascontiguousarray(array).tobytes()


@pytest.fixture
def routes() -> Routes:
    return Routes()


def side(
    rng: np.random.Generator,
    counts: list[int],
    scale: float,
    dimensions: int = 2,
    n_classes: int = 3,
) -> rodeo.BoxSide:
    n = sum(counts)
    low = rng.integers(0, 6, (n, dimensions)) * scale
    boxes = np.concatenate([low, low + rng.integers(1, 6, (n, dimensions)) * scale], axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    extent = np.prod(boxes[:, dimensions:] - boxes[:, :dimensions], axis=1)
    return rodeo.BoxSide(offsets, rng.integers(0, n_classes, n).astype(np.int32), boxes, extent)


def rules(
    rng: np.random.Generator, assignment: str, n_views: int, n_ref: int, n_pred: int
) -> fates.Rules:
    return fates.Rules(
        assignment=assignment,
        cutoffs=np.round(rng.uniform(0, 1, n_views), 1),
        size=rng.integers(0, 3, n_views),
        ranges=np.array([[0.0, 1.0], [0.0, 0.7], [0.3, 0.9]]),
        reference_area=np.round(rng.random(n_ref), 1),
        prediction_area=np.round(rng.random(n_pred), 1),
        ignore=rng.random(n_ref) < 0.2,
        crowd=rng.random(n_ref) < 0.2,
    )


def compare_matching(
    routes: Routes,
    reference: rodeo.BoxSide,
    prediction: rodeo.BoxSide,
    n_views: int,
    seed: int,
    assignments: Sequence[str] = ASSIGNMENTS,
) -> None:
    """Pairs, ranks, fates, totals and curves."""
    rng = np.random.default_rng(seed)
    n_ref, n_pred = len(reference.label), len(prediction.label)
    for assignment in assignments:
        plan = rules(rng, assignment, n_views, n_ref, n_pred)
        found = fates.PairList(
            *routes.both(boxes.overlapping, reference, prediction, plan.crowd, 3)
        )
        score = np.round(rng.random(n_pred), 1)
        rank = routes.both(fates.ranks, prediction.offsets, prediction.label, score, 3)
        ranked = fates.PredictionRanks(prediction.label, score, rank, 3)
        offsets = (reference.offsets, prediction.offsets)
        decided = decided_by_both(routes, found, offsets, ranked, rng.random(n_pred) < 0.1, plan)
        compare_sums(routes, decided[1], prediction, score, rank, rng)


def decided_by_both(routes: Routes, *arguments: Any) -> Any:
    """Return what `fates.decide` finds: fates of references and predictions, partners,
    similarities.
    """

    def plain() -> tuple[Any, ...]:
        reference, table, partner, similarity = fates.decide(*arguments)
        return reference, table.fates, partner, similarity

    return routes.both(plain)


def compare_sums(
    routes: Routes,
    table: Any,
    prediction: rodeo.BoxSide,
    score: Any,
    rank: Any,
    rng: np.random.Generator,
) -> None:
    """Totals and curves of random weights, small and beyond a byte."""
    n_images = len(prediction.offsets) - 1
    image = np.repeat(np.arange(n_images), np.diff(prediction.offsets))
    for most in (400, 200):  # more than a byte holds, and what the lanes take
        weights = rng.integers(0, most, (70, n_images))
        weights[0] = 1
        _compare_weighted(routes, rng, table, prediction.label, score, rank, image, weights)
    _compare_weighted(
        routes, rng, table, prediction.label, score, rank, image, np.ones((1, n_images), np.int64)
    )


def _compare_weighted(
    routes: Routes,
    rng: np.random.Generator,
    table: Any,
    label: Any,
    score: Any,
    rank: Any,
    image: Any,
    weights: Any,
) -> None:
    """Totals and curves of some replicates on both routes."""
    n = len(weights)
    routes.both(lambda: fates.totals(FateTable(table), label, rank, 2, image, weights, 3))
    positives = rng.integers(0, 500, (n, len(table), 3))
    for blocks in (False, True):
        ranked = curves.CurveOrder(*routes.both(curves.ranking, score, label, 3, blocks=blocks))
        views = list(range(len(table)))[::-1]
        for recalls, enveloped in ((np.linspace(0, 1, 101), True), (None, True), (None, False)):
            routes.both(
                lambda r=recalls, e=enveloped, k=ranked, v=views: curves.average_precision(
                    curves.CurveProblem(FateTable(table), v, k, lambda: image, weights),
                    positives,
                    r,
                    enveloped=e,
                )
            )
        allowed = rng.uniform(0, 50, (n, 4))
        routes.both(
            lambda k=ranked, v=views, a=allowed: curves.hits_at(
                curves.CurveProblem(FateTable(table), v, k, lambda: image, weights), a
            )
        )


def test_a_bit_that_differs_is_noticed(routes: Routes) -> None:
    assert routes.parted == ["nothing was compared"]
    assert routes.both(np.zeros, 1) == [0.0]
    assert routes.parted == []
    routes.both(lambda: np.array([0.0 if route.native() is None else -0.0]))
    assert len(routes.parted) == 1


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_coordinates_at_the_ends_of_the_numbers(
    routes: Routes, scale: float, dimensions: int
) -> None:
    if dimensions == 3:
        scale = {1e-150: 1e-100, 1.0: 1.0, 1e150: 1e100}[scale]
    rng = np.random.default_rng(0)
    counts = [3, 0, 5, 1, 0, 2]
    reference, prediction = (
        side(rng, counts, scale, dimensions),
        side(rng, counts[::-1], scale, dimensions),
    )
    compare_matching(routes, reference, prediction, 4, seed=1)
    for weight in ("data-set", "image", 0.0, 1.0, 7.5):
        routes.both(rodeo.paths, reference, prediction, 3, weight)
    assert routes.parted == []


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_coordinates_whose_areas_leave_the_numbers_do_not_part_the_routes(
    routes: Routes, scale: float
) -> None:
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        reference, prediction = side(rng, [4, 2], scale), side(rng, [3, 3], scale)
    routes.both(boxes.overlapping, reference, prediction, np.zeros(6, np.bool_), 3)
    assert routes.parted == []


@pytest.mark.parametrize("counts", [[], [0], [0, 0, 0], [1], [7]], ids=str)
def test_empty_tables_and_one_image(routes: Routes, counts: list[int]) -> None:
    rng = np.random.default_rng(2)
    for other in ([0] * len(counts), counts):
        reference, prediction = side(rng, counts, 1.0), side(rng, other, 1.0)
        compare_matching(routes, reference, prediction, 2, seed=3)
        routes.both(rodeo.paths, reference, prediction, 3, "data-set")
    assert routes.parted == []


@pytest.mark.parametrize("n_views", [1, 7, 8, 9, 63, 64, 65, 130])
def test_any_number_of_views(routes: Routes, n_views: int) -> None:
    rng = np.random.default_rng(n_views)
    counts = rng.integers(0, 6, 10).tolist()
    sides = side(rng, counts, 1.0), side(rng, counts[::-1], 1.0)
    # Every view is decided by itself, and takes its time: two assignments speak for the others.
    some = [ASSIGNMENTS[(n_views + k) % len(ASSIGNMENTS)] for k in range(2)]
    compare_matching(routes, *sides, n_views, n_views, some if n_views > 9 else ASSIGNMENTS)
    assert routes.parted == []


def test_an_image_with_many_objects(routes: Routes) -> None:
    rng = np.random.default_rng(5)
    reference, prediction = side(rng, [200, 1], 1.0), side(rng, [300, 1], 1.0)
    compare_matching(routes, reference, prediction, 5, seed=6)
    routes.both(rodeo.paths, side(rng, [40], 1.0), side(rng, [25], 1.0), 3, "data-set")
    assert routes.parted == []


@pytest.mark.slow
def test_a_million_rows(routes: Routes) -> None:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 5, 500_000).tolist()
    reference, prediction = side(rng, counts, 1.0), side(rng, counts, 1.0)
    assert len(prediction.label) > 900_000
    plan = rules(rng, "by-score", 12, len(reference.label), len(prediction.label))
    found = fates.PairList(*routes.both(boxes.overlapping, reference, prediction, plan.crowd, 3))
    score = rng.random(len(prediction.label))
    rank = routes.both(fates.ranks, prediction.offsets, prediction.label, score, 3)
    ranked = fates.PredictionRanks(prediction.label, score, rank, 3)
    absent = np.zeros(len(score), np.bool_)
    decided = decided_by_both(
        routes, found, (reference.offsets, prediction.offsets), ranked, absent, plan
    )
    compare_sums(routes, decided[1], prediction, score, rank, rng)
    assert routes.parted == []
