"""The kernels of fusion: greedy clusters against an obvious twin, and equal bits on both routes."""

from __future__ import annotations

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


@pytest.mark.usefixtures("kernel_route")
@pytest.mark.parametrize("moving", [True, False])
@pytest.mark.parametrize("dimensions", [2, 3])
@looped("seed", range(10))
def test_clusters_are_the_greedy_rule(seed: int, dimensions: int, moving: bool) -> None:
    problem = table(seed, dimensions)
    leader, merged = fusion.clusters(*problem, 0.3, moving)
    expected, place = one_by_one(problem, 0.3, moving)
    assert leader.tolist() == expected
    for head, box in place.items():
        np.testing.assert_allclose(merged[head], box, rtol=1e-12)


@pytest.mark.usefixtures("kernel_route")
def test_whole_coordinates_tie_and_the_first_cluster_wins() -> None:
    for seed in range(30):
        problem = table(seed, whole=True)
        assert (
            fusion.clusters(*problem, 0.25, False)[0].tolist()
            == one_by_one(problem, 0.25, False)[0]
        )


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("moving", [True, False])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_both_routes_give_the_same_bits(dimensions: int, whole: bool, moving: bool) -> None:
    for seed in range(20):
        problem = table(seed, dimensions, n_images=40, whole=whole)
        answers = []
        for name in ("numpy", "native"):
            with route.forced(name):
                answers.append(fusion.clusters(*problem, 0.4, moving))
        assert np.array_equal(answers[0][0], answers[1][0])
        assert answers[0][1].tobytes() == answers[1][1].tobytes()


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("crowding", ["even", "one far off", "tied"])
def test_scores_that_crowd_are_sorted_alike(crowding: str) -> None:
    offsets, label, boxes, extent, score = table(5, n_images=20)
    offsets, label = np.array([0, len(score)]), np.zeros_like(label)
    if crowding == "one far off":
        score[7] = 1e9  # all others share a bucket
    if crowding == "tied":
        score = np.round(score, 1)
    answers = []
    for name in ("numpy", "native"):
        with route.forced(name):
            leader, merged = fusion.clusters(offsets, label, boxes, extent, score, 0.4, True)
            answers.append((leader.tobytes(), merged.tobytes()))
    assert answers[0] == answers[1]


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = table(3, n_images=300)
    answers = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIPERS_THREADS", threads)
        leader, merged = fusion.clusters(*problem, 0.4, True)
        answers.append((leader.tobytes(), merged.tobytes()))
    assert answers[0] == answers[1]


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e-12, 1e140])
@pytest.mark.parametrize("place", [0.0, 1e6])
@pytest.mark.parametrize("infinite", [True, False])
def test_extremes_of_places_and_scores_give_the_same_bits(
    unit: float, place: float, infinite: bool
) -> None:
    for seed in range(5):
        offsets, label, boxes, extent, score = table(seed, n_images=4)
        offsets, label = np.array([0, len(score)]), np.zeros_like(label)
        if infinite:
            score = np.where(score > 0.8, np.inf, score)
        problem = (offsets, label, boxes * unit + place, extent, score)
        answers = []
        for name in ("numpy", "native"):
            with route.forced(name), np.errstate(all="ignore"):
                answers.append(fusion.clusters(*problem, 0.4, not infinite))
        assert np.array_equal(answers[0][0], answers[1][0])
        assert answers[0][1].tobytes() == answers[1][1].tobytes()


@pytest.mark.usefixtures("kernel_route")
def test_boxes_without_area_lead_clusters_of_their_own() -> None:
    boxes = np.array([[1.0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 4, 4]])
    leader, merged = fusion.clusters(
        np.array([0, 3]),
        np.zeros(3, np.int32),
        boxes,
        np.array([0.0, 0, 16]),
        np.array([0.9, 0.9, 0.5]),
        0.0,
        True,
    )
    assert leader.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(merged, boxes)


@pytest.mark.usefixtures("kernel_route")
def test_a_cluster_whose_scores_are_all_0_stays_where_its_leader_is() -> None:
    boxes = np.array([[0.0, 0, 4, 4], [0, 0, 4, 3]])
    leader, merged = fusion.clusters(
        np.array([0, 2]), np.zeros(2, np.int32), boxes, np.array([16.0, 12]), np.zeros(2), 0.5, True
    )
    assert leader.tolist() == [0, 0]
    np.testing.assert_array_equal(merged[0], boxes[0])


@pytest.mark.usefixtures("kernel_route")
def test_nothing_gives_nothing() -> None:
    empty = (np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros((0, 4)), np.zeros(0))
    leader, merged = fusion.clusters(*empty, np.zeros(0), 0.5, True)
    assert (len(leader), merged.shape) == (0, (0, 4))


def test_the_best_of_an_image_are_found() -> None:
    keep = fusion.best_rows(np.array([0, 3, 3, 5]), np.array([0.1, 0.9, 0.9, 0.2, 0.3]), 1)
    assert keep.tolist() == [False, True, False, False, True]


def test_a_resized_box_keeps_its_centre_and_others_their_bits() -> None:
    boxes = np.array([[0.0, 0, 10, 20], [0.1, 0.2, 0.7, 0.9]])
    resized = fusion.resized(boxes, np.array([0.5, 1.0]))
    assert resized[0].tolist() == [2.5, 5.0, 7.5, 15.0]
    assert resized[1].tobytes() == boxes[1].tobytes()
