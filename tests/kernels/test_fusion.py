"""The kernels of fusion: greedy clusters against an obvious twin, and equal bits on both routes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calipers.kernels import boxes as fusion
from calipers.kernels import ragged, route
from calipers.kernels.boxes import iou as pairwise_iou
from seeds import looped

Table = tuple[np.ndarray, ...]


def table(seed: int, dimensions: int = 2, n_images: int = 6, whole: bool = False) -> Table:
    """Return offsets, labels, boxes, extents and scores; whole coordinates make ties."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 25, n_images)
    n = int(counts.sum())
    low, side = random.random((n, dimensions)) * 20, random.random((n, dimensions)) * 15
    score = random.random(n)
    if whole:
        low, side, score = np.floor(low / 4), np.floor(side / 4), np.floor(score * 4) / 4
    boxes = np.concatenate([low, low + side], axis=1)
    label = random.integers(0, 3, n).astype(np.int32)
    return ragged.from_counts(counts), label, boxes, np.prod(side, axis=1), score


def one_iou(a: np.ndarray, b: np.ndarray) -> float:
    half = len(a) // 2
    if (np.minimum(a[half:], b[half:]) <= np.maximum(a[:half], b[:half])).any():
        return 0.0
    extents = [np.array([np.prod(box[half:] - box[:half])]) for box in (a, b)]
    return float(pairwise_iou(a[:, None], b[:, None], *extents)[0])


def one_by_one(
    problem: Table, threshold: float, moving: bool
) -> tuple[list[int], dict[int, np.ndarray]]:
    """Go through the boxes from the best on; each joins the nearest cluster or leads one."""
    offsets, label, boxes, _, score = problem
    image = ragged.owners(offsets)
    leader, place, members = list(range(len(score))), dict[int, np.ndarray](), {}
    for row in sorted(range(len(score)), key=lambda k: (-score[k], k)):
        best, nearest = threshold, -1
        for head in place:
            if (image[head], label[head]) == (image[row], label[row]):
                overlap = one_iou(place[head], boxes[row])
                if overlap > best:
                    best, nearest = overlap, head
        if nearest < 0:
            place[row], members[row] = boxes[row], [row]
            continue
        leader[row] = nearest
        members[nearest].append(row)
        rows = members[nearest]
        if moving and score[rows].sum() > 0:
            place[nearest] = np.average(boxes[rows], axis=0, weights=score[rows])
    return leader, place


def members(problem: Table, n_models: int = 3) -> list[fusion.BoxPool]:
    """Deal the boxes of a table out to models, one after the other."""
    offsets, label, boxes, extent, score = problem
    image, model = ragged.owners(offsets), np.arange(len(score)) % n_models
    pools, first = [], 0
    for m in range(n_models):
        own = np.flatnonzero(model == m)
        pools.append(
            fusion.BoxPool(
                ragged.from_owner(image[own], len(offsets) - 1),
                label[own],
                boxes[own],
                extent[own],
                score[own],
                first_row=first,
            )
        )
        first += len(own)
    return pools


def pooled(problem: Table) -> fusion.BoxPool:
    return fusion.BoxPool(*problem)


def bits(pool: fusion.BoxPool) -> list[bytes]:
    columns = (pool.offsets, pool.label, pool.boxes, pool.extent, pool.score, pool.rows)
    return [np.ascontiguousarray(column).tobytes() for column in columns]


WEIGHTS = np.array([1.0, 0.5, 3.0])


def all_methods(pools: list[fusion.BoxPool], threshold: float = 0.4) -> list[fusion.BoxPool]:
    """Return what every method leaves, with weights, every confidence, and a cut of scores."""
    weights = WEIGHTS[: len(pools)]
    answers = [fusion.suppressed(pools, weights, threshold)]
    answers.append(fusion.merged_about_best(pools, weights, threshold, 0.1))
    for confidence in route.CONFIDENCES:
        answers.append(fusion.fused(pools, weights, threshold, 0.1, confidence))
    answers.append(fusion.fused(pools, weights, threshold, 0.0, "avg", overflow=True))
    for sigma in (None, 0.3):
        pool, _ = fusion.together(pools)
        score = fusion.decayed_scores(pool, threshold, sigma)
        answers.append(fusion.best_first(replace(pool, score=score)))
    return answers


def assert_same_bits(pools: list[fusion.BoxPool]) -> None:
    answers = []
    for name in ("numpy", "native"):
        with route.forced(name), np.errstate(all="ignore"):
            answers.append([bits(pool) for pool in all_methods(pools)])
    assert answers[0] == answers[1]


@pytest.mark.usefixtures("kernel_route")
@pytest.mark.parametrize("dimensions", [2, 3])
@looped("seed", range(10))
def test_suppression_is_the_greedy_rule(seed: int, dimensions: int) -> None:
    problem = table(seed, dimensions)
    left = fusion.suppressed([pooled(problem)], np.ones(1), 0.3)
    leaders, _ = one_by_one(problem, 0.3, moving=False)
    assert sorted(left.rows) == sorted(set(leaders))
    np.testing.assert_array_equal(left.boxes, problem[2][left.rows])
    np.testing.assert_array_equal(left.offsets, fusion.best_first(left).offsets)


@pytest.mark.usefixtures("kernel_route")
@pytest.mark.parametrize("dimensions", [2, 3])
@looped("seed", range(10))
def test_fusion_is_the_greedy_rule(seed: int, dimensions: int) -> None:
    problem = table(seed, dimensions)
    fused = fusion.fused([pooled(problem)], np.ones(1), 0.3, 0.0, "max")
    leaders, place = one_by_one(problem, 0.3, moving=True)
    assert sorted(fused.rows) == sorted(set(leaders))
    expected = np.array([place[row] for row in fused.rows])
    np.testing.assert_allclose(fused.boxes, expected.reshape(fused.boxes.shape), rtol=1e-12)


@pytest.mark.usefixtures("kernel_route")
def test_whole_coordinates_tie_and_the_first_cluster_wins() -> None:
    for seed in range(30):
        problem = table(seed, whole=True)
        leaders, place = one_by_one(problem, 0.25, moving=True)
        fused = fusion.fused([pooled(problem)], np.ones(1), 0.25, 0.0, "avg", overflow=True)
        assert sorted(fused.rows) == sorted(set(leaders))
        totals = {head: problem[4][np.array(leaders) == head].sum() for head in place}
        np.testing.assert_allclose(fused.score, [totals[row] for row in fused.rows], rtol=1e-12)


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_both_routes_give_the_same_bits(dimensions: int, whole: bool) -> None:
    for seed in range(10):
        assert_same_bits(members(table(seed, dimensions, n_images=20, whole=whole)))


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("crowding", ["even", "one far off", "tied", "many labels"])
def test_scores_that_crowd_are_sorted_alike(crowding: str) -> None:
    """On one image with more boxes than a word has bits."""
    _, label, boxes, extent, score = table(5, n_images=20)
    label = np.zeros_like(label)
    if crowding == "one far off":
        score[7] = 1e9  # all others share a bucket
    if crowding == "tied":
        score = np.round(score, 1)
    if crowding == "many labels":
        label[::3] = 1_000_000
    assert len(score) > 3 * 64
    assert_same_bits(members((np.array([0, len(score)]), label, boxes, extent, score)))


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = members(table(3, n_images=300))
    answers = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIPERS_THREADS", threads)
        answers.append([bits(pool) for pool in all_methods(pools)])
    assert answers[0] == answers[1]


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e-12, 1e140])
@pytest.mark.parametrize("place", [0.0, 1e6])
def test_extremes_of_places_give_the_same_bits(unit: float, place: float) -> None:
    for seed in range(5):
        _, label, boxes, extent, score = table(seed, n_images=4)
        offsets, label = np.array([0, len(score)]), np.zeros_like(label)
        assert_same_bits(members((offsets, label, boxes * unit + place, extent, score)))


def assert_same_clusters(problem: Table, threshold: float) -> None:
    answers = []
    for name in ("numpy", "native"):
        with route.forced(name), np.errstate(all="ignore"):
            left = fusion.suppressed(members(problem), WEIGHTS, threshold)
            fused = fusion.fused(members(problem), WEIGHTS, threshold, 0.0, "avg")
        answers.append(bits(left) + bits(fused))
    assert answers[0] == answers[1]


def copies(dimensions: int) -> Table:
    """Return jittered copies of objects whose sides differ by factors of up to 100, on six images.

    On some images extents are not those of the corners, as a reader's product of width and height
    may not be; on some there are many classes, so few boxes of each.
    """
    random = np.random.default_rng(dimensions)
    n_images, n = 6, 120
    image = np.repeat(np.arange(n_images), n)
    low = random.random((n_images * n // 5, dimensions)) * 10
    side = np.exp(random.normal(0, 1, low.shape))
    copy = random.integers(0, n // 5, len(image)) + image * (n // 5)
    low = low[copy] + random.normal(0, 0.1, (len(image), dimensions)) * side[copy]
    side = side[copy] * np.exp(random.normal(0, 0.1, low.shape))
    change = random.normal(0, np.array([0, 1e-15, 0.2])[image % 3])
    label = random.integers(0, 1 + image % 2 * 5).astype(np.int32)
    boxes = np.concatenate([low, low + side], axis=1)
    offsets = np.arange(n_images + 1) * n
    return offsets, label, boxes, np.prod(side, axis=1) * (1 + change), random.random(len(image))


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("threshold", [0.0, 1e-7, 0.1, 0.33, 0.34, 0.5, 0.9])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_index_of_boxes_forgets_no_pair(dimensions: int, threshold: float) -> None:
    """Whether it goes by centres or, below an IoU of 1/3, by cores; in cells with many and few."""
    assert_same_clusters(copies(dimensions), threshold)


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("threshold", [0.2, 0.4, 0.5, 0.9])
def test_boxes_that_meet_are_near_even_if_one_is_much_longer(threshold: float) -> None:
    """Pairs that begin at the same place and differ in length as much as they may."""
    random = np.random.default_rng(0)
    low = np.repeat(random.random((30, 2)) * 20, 2, axis=0)
    axis = np.repeat(random.integers(0, 2, 30), 2)
    side = np.ones((60, 2))
    side[np.arange(60), axis] = np.where(np.arange(60) % 2, 0.999 / threshold, 1.0)
    boxes, score = np.concatenate([low, low + side], axis=1), random.random(60)
    offsets, label = np.array([0, 60]), np.zeros(60, np.int32)
    assert_same_clusters((offsets, label, boxes, np.prod(side, axis=1), score), threshold)


@pytest.mark.usefixtures("kernel_route")
def test_an_iou_at_the_threshold_is_not_above_it() -> None:
    """Also where the threshold times the union is rounded to less than the intersection."""
    sides = 1 + np.arange(1, 300) / 7
    sides = sides[1 / sides**2 * sides**2 < 1][:3]
    assert len(sides) == 3
    offsets, label, score = np.array([0, 2]), np.zeros(2, np.int32), np.array([0.9, 0.8])
    for side in sides:
        boxes = np.array([[0, 0, 1, 1], [0, 0, side, side]])
        pool = fusion.BoxPool(offsets, label, boxes, np.array([1, side**2]), score)
        iou = 1 / side**2
        for threshold, n_left in ((np.nextafter(iou, 0), 1), (iou, 2), (np.nextafter(iou, 1), 2)):
            assert len(fusion.suppressed([pool], np.ones(1), float(threshold))) == n_left
            assert len(fusion.fused([pool], np.ones(1), float(threshold), 0.0, "avg")) == n_left


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
def test_infinite_scores_are_suppressed_alike() -> None:
    offsets, label, boxes, extent, score = table(2)
    pool = fusion.BoxPool(offsets, label, boxes, extent, np.where(score > 0.8, np.inf, score))
    answers = []
    for name in ("numpy", "native"):
        with route.forced(name):
            answers.append(bits(fusion.suppressed([pool], np.ones(1), 0.4)))
    assert answers[0] == answers[1]


@pytest.mark.usefixtures("kernel_route")
def test_boxes_without_area_lead_clusters_of_their_own() -> None:
    boxes = np.array([[1.0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 4, 4]])
    extent, score = np.array([0.0, 0, 16]), np.array([0.9, 0.9, 0.5])
    pool = fusion.BoxPool(np.array([0, 3]), np.zeros(3, np.int32), boxes, extent, score)
    for left in (
        fusion.suppressed([pool], np.ones(1), 0.0),
        fusion.fused([pool], np.ones(1), 0.0, 0.0, "avg"),
    ):
        assert left.rows.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(left.boxes, boxes)


@pytest.mark.usefixtures("kernel_route")
def test_a_cluster_whose_scores_are_all_0_stays_where_its_leader_is() -> None:
    boxes = np.array([[0.0, 0, 4, 4], [0, 0, 4, 3]])
    extent = np.array([16.0, 12])
    pool = fusion.BoxPool(np.array([0, 2]), np.zeros(2, np.int32), boxes, extent, np.zeros(2))
    for left in (
        fusion.fused([pool], np.ones(1), 0.5, 0.0, "avg"),
        fusion.merged_about_best([pool], np.ones(1), 0.5, 0.0),
    ):
        assert (left.rows.tolist(), left.boxes.tolist()) == ([0], [boxes[0].tolist()])


@pytest.mark.usefixtures("kernel_route")
def test_nothing_gives_nothing() -> None:
    no_images = (np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros((0, 4)))
    no_boxes = (np.zeros(4, np.int64), np.zeros(0, np.int32), np.zeros((0, 6)))
    for columns in (no_images, no_boxes):
        pool = fusion.BoxPool(*columns, np.zeros(0), np.zeros(0))
        for left in all_methods([pool, pool]):
            assert (len(left), left.boxes.shape) == (0, columns[2].shape)
            np.testing.assert_array_equal(left.offsets, columns[0])


def test_the_exponential_is_that_of_numpy() -> None:
    x = -np.random.default_rng(0).random(10_000) * 50
    np.testing.assert_allclose(fusion.falling_exp(x), np.exp(x), rtol=5e-16, atol=0)
    ends = np.array([0.0, -0.0, -745.0, -746.0, -np.inf])
    assert fusion.falling_exp(ends).tolist() == [1.0, 1.0, 5e-324, 0.0, 0.0]


def test_the_best_of_an_image_are_found() -> None:
    keep = fusion.best_rows(np.array([0, 3, 3, 5]), np.array([0.1, 0.9, 0.9, 0.2, 0.3]), 1)
    assert keep.tolist() == [False, True, False, False, True]


def test_a_resized_box_keeps_its_centre_and_others_their_bits() -> None:
    boxes = np.array([[0.0, 0, 10, 20], [0.1, 0.2, 0.7, 0.9]])
    resized = fusion.resized(boxes, np.array([0.5, 1.0]))
    assert resized[0].tolist() == [2.5, 5.0, 7.5, 15.0]
    assert resized[1].tobytes() == boxes[1].tobytes()
