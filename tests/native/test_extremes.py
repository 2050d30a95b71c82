"""Both routes on the edges: coordinates at the ends of float64, empty tables, one image, many views, many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calipers.kernels import compiled, curves, fates, pairs, rodeo, route

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")

ASSIGNMENTS = compiled.ASSIGNMENTS


def both(function: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result, after the two routes agreed on every bit of it."""
    results = []
    for name in ("numpy", "native"):
        with route.forced(name), np.errstate(all="ignore"):
            results.append(function(*arguments, **options))
    slow, fast = ((r,) if isinstance(r, np.ndarray) else r for r in results)
    for a, b in zip(slow, fast, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    return results[1]


def side(
    rng: np.random.Generator, counts: list[int], scale: float, dimensions: int = 2, n_classes: int = 3
) -> rodeo.Side:
    n = sum(counts)
    low = rng.integers(0, 6, (n, dimensions)) * scale
    boxes = np.concatenate([low, low + rng.integers(1, 6, (n, dimensions)) * scale], axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    extent = np.prod(boxes[:, dimensions:] - boxes[:, :dimensions], axis=1)
    return rodeo.Side(offsets, rng.integers(0, n_classes, n).astype(np.int32), boxes, extent)


def rules(rng: np.random.Generator, assignment: str, n_views: int, n_ref: int, n_pred: int) -> fates.Rules:
    return fates.Rules(
        assignment=assignment,
        cutoffs=np.round(rng.uniform(0, 1, n_views), 1),
        size=rng.integers(0, 3, n_views),
        ignored=rng.random((3, n_ref)) < 0.3,
        outside=rng.random((3, n_pred)) < 0.3,
        crowd=rng.random(n_ref) < 0.2,
        forgiven=bool(rng.integers(0, 2)),
    )


def check_matching(reference: rodeo.Side, prediction: rodeo.Side, n_views: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_ref, n_pred = len(reference.label), len(prediction.label)
    for assignment in ASSIGNMENTS:
        plan = rules(rng, assignment, n_views, n_ref, n_pred)
        found = fates.PairList(*both(pairs.overlapping, reference, prediction, plan.crowd, 3))
        score = np.round(rng.random(n_pred), 1)
        rank = both(fates.ranks, prediction.offsets, prediction.label, score, 3)
        ranked = fates.Ranked(prediction.label, score, rank, 3)
        offsets = (reference.offsets, prediction.offsets)
        decided = decided_by_both(found, offsets, ranked, rng.random(n_pred) < 0.1, plan)
        check_sums(decided[1], prediction, score, rank, rng)


def decided_by_both(*arguments: Any) -> Any:
    """Return what `fates.decide` finds: fates of references and predictions, partners, similarities."""

    def plain() -> tuple[Any, ...]:
        reference, table, partner, similarity = fates.decide(*arguments)
        return reference, table.fates, partner, similarity

    return both(plain)


def check_sums(table: Any, prediction: rodeo.Side, score: Any, rank: Any, rng: np.random.Generator) -> None:
    """Totals and curves of random weights, small and beyond a byte."""
    n_images = len(prediction.offsets) - 1
    image = np.repeat(np.arange(n_images), np.diff(prediction.offsets))
    for most in (400, 200):  # more than a byte holds, and what the lanes take
        weights = rng.integers(0, most, (70, n_images))
        weights[0] = 1
        _compare_weighted(rng, table, prediction.label, score, rank, image, weights)
    _compare_weighted(rng, table, prediction.label, score, rank, image, np.ones((1, n_images), np.int64))


def _compare_weighted(
    rng: np.random.Generator, table: Any, label: Any, score: Any, rank: Any, image: Any, weights: Any
) -> None:
    """Totals and curves of some replicates on both routes."""
    n = len(weights)
    both(lambda: fates.totals(compiled.FateTable(table), label, rank, 2, image, weights, 3))
    positives = rng.integers(0, 500, (n, len(table), 3))
    for blocks in (False, True):
        ranked = curves.Ranking(*both(curves.ranking, score, label, 3, blocks=blocks))
        views = list(range(len(table)))[::-1]
        for recalls, enveloped in ((np.linspace(0, 1, 101), True), (None, True), (None, False)):
            both(
                lambda r=recalls, e=enveloped, k=ranked, v=views: curves.average_precision(
                    curves.Problem(compiled.FateTable(table), v, k, image, weights), positives, r, enveloped=e
                )
            )
        allowed = rng.uniform(0, 50, (n, 4))
        both(
            lambda k=ranked, v=views, a=allowed: curves.hits_at(
                curves.Problem(compiled.FateTable(table), v, k, image, weights), a
            )
        )


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_coordinates_at_the_ends_of_the_numbers(scale: float, dimensions: int) -> None:
    if dimensions == 3:
        scale = {1e-150: 1e-100, 1.0: 1.0, 1e150: 1e100}[scale]
    rng = np.random.default_rng(0)
    counts = [3, 0, 5, 1, 0, 2]
    reference, prediction = side(rng, counts, scale, dimensions), side(rng, counts[::-1], scale, dimensions)
    check_matching(reference, prediction, 4, seed=1)
    for weight in ("data-set", "image", 0.0, 1.0, 7.5):
        both(rodeo.paths, reference, prediction, 3, weight)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_coordinates_whose_areas_leave_the_numbers_do_not_part_the_routes(scale: float) -> None:
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        reference, prediction = side(rng, [4, 2], scale), side(rng, [3, 3], scale)
    both(pairs.overlapping, reference, prediction, np.zeros(6, np.bool_), 3)


@pytest.mark.parametrize("counts", [[], [0], [0, 0, 0], [1], [7]], ids=str)
def test_empty_tables_and_one_image(counts: list[int]) -> None:
    rng = np.random.default_rng(2)
    for other in ([0] * len(counts), counts):
        reference, prediction = side(rng, counts, 1.0), side(rng, other, 1.0)
        check_matching(reference, prediction, 2, seed=3)
        both(rodeo.paths, reference, prediction, 3, "data-set")


@pytest.mark.parametrize("n_views", [1, 7, 8, 9, 63, 64, 65, 130])
def test_any_number_of_views(n_views: int) -> None:
    rng = np.random.default_rng(n_views)
    counts = rng.integers(0, 6, 30).tolist()
    check_matching(side(rng, counts, 1.0), side(rng, counts[::-1], 1.0), n_views, seed=n_views)


def test_an_image_with_many_objects() -> None:
    rng = np.random.default_rng(5)
    reference, prediction = side(rng, [200, 1], 1.0), side(rng, [300, 1], 1.0)
    check_matching(reference, prediction, 5, seed=6)
    both(rodeo.paths, side(rng, [40], 1.0), side(rng, [25], 1.0), 3, "data-set")


@pytest.mark.slow
def test_a_million_rows() -> None:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 5, 500_000).tolist()
    reference, prediction = side(rng, counts, 1.0), side(rng, counts, 1.0)
    assert len(prediction.label) > 900_000
    plan = rules(rng, "by-score", 12, len(reference.label), len(prediction.label))
    found = fates.PairList(*both(pairs.overlapping, reference, prediction, plan.crowd, 3))
    score = rng.random(len(prediction.label))
    rank = both(fates.ranks, prediction.offsets, prediction.label, score, 3)
    ranked = fates.Ranked(prediction.label, score, rank, 3)
    absent = np.zeros(len(score), np.bool_)
    decided = decided_by_both(found, (reference.offsets, prediction.offsets), ranked, absent, plan)
    check_sums(decided[1], prediction, score, rank, rng)
