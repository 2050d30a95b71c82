"""Average precision of many replicates: against a walk through the predictions,
against really repeated images.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calipers.kernels import curves, route
from calipers.kernels.assignment import DUPLICATE, FALSE_ALARM, HIT, IGNORED, FateTable
from reference import resampling

both_routes = pytest.mark.usefixtures("kernel_route")

RECALLS = {
    "coco101": np.linspace(0, 1, 101),
    "voc11": np.linspace(0, 1, 11),
    "every-point": None,
    "tie-aware": None,
}
LAST_BITS = 3e-16
FATES = [IGNORED, HIT, HIT, HIT, DUPLICATE, FALSE_ALARM, FALSE_ALARM]


class Scene:
    """Predictions of several classes and views on some images,
    and the references that are counted.
    """

    def __init__(
        self,
        seed: int,
        *,
        n: int = 60,
        images: int = 12,
        classes: int = 3,
        views: int = 4,
        levels: int = 0,
    ):
        random = np.random.default_rng(seed)
        self.image = np.sort(random.integers(0, images, n))
        self.label = random.integers(0, classes, n).astype(np.int32)
        self.score = random.random(n)
        if levels:
            self.score = np.floor(self.score * levels) / levels
        self.fates = random.choice(FATES, (views, n)).astype(np.int8)
        self.fates[1:, :] = np.where(
            self.fates[:1] == IGNORED, IGNORED, self.fates[1:]
        )  # some views count the same
        self.n_images, self.n_classes = images, classes
        extra = random.integers(0, 3, (images, views, classes))
        self.references = extra + self._hits()  # per image; every hit has a reference of its own
        self.references[:, :, -1] = 0  # nobody has the last class: undefined
        self.random = random

    def _hits(self) -> np.ndarray:
        found = np.zeros((self.n_images, len(self.fates), self.n_classes), np.int64)
        for view, row in enumerate(self.fates):
            np.add.at(found[:, view], (self.image[row == HIT], self.label[row == HIT]), 1)
        return found

    def images(self) -> np.ndarray:
        return self.image

    def weights(self, n: int, most: int = 3) -> np.ndarray:
        found = self.random.integers(0, most + 1, (n, self.n_images))
        found[0] = np.arange(self.n_images) % 2
        return found

    def values(self, weights: np.ndarray, kind: str, *, blocks: bool) -> np.ndarray:
        """(R, V, K) by the kernel."""
        positives = np.tensordot(weights.astype(np.int64), self.references, axes=1)
        return self._solved(np.arange(len(self.image)), weights, positives, kind, blocks)

    def listed(self, weight: np.ndarray, kind: str, *, blocks: bool) -> np.ndarray:
        """(V, K) of predictions that are really listed as often as the weight of their image says,
        side by side.
        """
        rows = resampling.repeated(weight[self.image])
        positives = np.tensordot(weight[None], self.references, axes=1)
        return self._solved(rows, np.ones((1, self.n_images), np.int64), positives, kind, blocks)[0]

    def _solved(
        self, rows: np.ndarray, weights: np.ndarray, positives: np.ndarray, kind: str, blocks: bool
    ) -> np.ndarray:
        ranked = curves.ranking(self.score[rows], self.label[rows], self.n_classes, blocks=blocks)
        views = list(range(len(self.fates)))
        problem = curves.CurveProblem(
            FateTable(self.fates[:, rows]), views, ranked, lambda: self.image[rows], weights, {}
        )
        return curves.average_precision(
            problem, positives, RECALLS[kind], enveloped=kind != "tie-aware"
        )

    def by_hand(self, weight: np.ndarray, kind: str, *, blocks: bool) -> np.ndarray:
        """(V, K) of one replicate by the slow twin."""
        found = np.zeros((len(self.fates), self.n_classes))
        recalls = RECALLS[kind]
        for view, row in enumerate(self.fates):
            for k in range(self.n_classes):
                mine = np.flatnonzero((row != IGNORED) & (self.label == k))
                entries = [
                    (float(self.score[i]), bool(row[i] == HIT), int(weight[self.image[i]]))
                    for i in mine
                ]
                positives = int(weight @ self.references[:, view, k])
                found[view, k] = resampling.average_precision(
                    entries,
                    positives,
                    0 if recalls is None else len(recalls),
                    blocks=blocks or kind == "tie-aware",
                    enveloped=kind != "tie-aware",
                )
        return found


every_kind = pytest.mark.parametrize("kind", RECALLS)
every_tie = pytest.mark.parametrize(
    ("levels", "blocks"), [(0, False), (0, True), (3, False), (3, True), (1, True)]
)


@both_routes
@every_kind
@every_tie
def test_values_are_those_of_a_walk_through_the_predictions(
    kind: str, levels: int, blocks: bool
) -> None:
    blocks = blocks or kind == "tie-aware"
    for seed in range(6):
        scene = Scene(seed, levels=levels)
        weights = scene.weights(5)
        expected = [scene.by_hand(weight, kind, blocks=blocks) for weight in weights]
        found = scene.values(weights, kind, blocks=blocks)
        np.testing.assert_allclose(found, expected, rtol=0, atol=LAST_BITS)
        assert np.isnan(found[:, :, -1]).all()


@both_routes
@every_kind
@every_tie
def test_a_weight_gives_the_bits_of_copies_listed_side_by_side(
    kind: str, levels: int, blocks: bool
) -> None:
    blocks = blocks or kind == "tie-aware"
    for seed in range(10):
        scene = Scene(seed, levels=levels)
        weights = scene.weights(3, most=5)
        found = scene.values(weights, kind, blocks=blocks)
        expected = [scene.listed(weight, kind, blocks=blocks) for weight in weights]
        np.testing.assert_array_equal(found, expected)


@both_routes
@every_kind
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_replicates_together_are_replicates_one_by_one(kind: str, n: int) -> None:
    scene = Scene(n)
    weights = scene.weights(n)
    together = scene.values(weights, kind, blocks=True)
    assert together.shape == (n, 4, 3)
    single = [scene.values(weight[None], kind, blocks=True)[0] for weight in weights]
    np.testing.assert_array_equal(together, single)
    for at in {0, n // 2, n - 1}:
        by_hand = scene.by_hand(weights[at], kind, blocks=True)
        np.testing.assert_allclose(together[at], by_hand, rtol=0, atol=LAST_BITS)


@both_routes
@pytest.mark.parametrize("levels", [0, 3, 1])
@pytest.mark.parametrize("most", [2, 255, 1000])
def test_hits_at_false_alarms_are_those_of_a_walk_through_the_predictions(
    levels: int, most: int
) -> None:
    for seed in range(5):
        scene = Scene(seed, levels=levels)
        weights = scene.weights(66, most=most)
        ranked = curves.ranking(scene.score, scene.label, 3, blocks=True)
        problem = curves.CurveProblem(
            FateTable(scene.fates), [0, 1, 2, 3], ranked, scene.images, weights, {}
        )
        allowed = np.array([[0.0, 1.0, 2.5, 3.0, most, 5.0 * most, 1e9]]).repeat(66, axis=0)
        found = curves.hits_at(problem, allowed)
        for r in (0, 1, 65):
            for view, k in ((0, 0), (3, 1), (2, 2)):
                mine = np.flatnonzero((scene.fates[view] != IGNORED) & (scene.label == k))
                entries = [
                    (
                        float(scene.score[i]),
                        bool(scene.fates[view, i] == HIT),
                        int(weights[r, scene.image[i]]),
                    )
                    for i in mine
                ]
                expected = [resampling.hits_at(entries, limit) for limit in allowed[r].tolist()]
                assert found[r, view, k].tolist() == expected


@both_routes
@every_kind
@pytest.mark.parametrize("most", [255, 256, 100_000])
def test_heavy_weights(kind: str, most: int) -> None:
    scene = Scene(7)
    weights = scene.weights(3, most=2) * most
    light = scene.values(weights // most, kind, blocks=True)
    found = scene.values(weights, kind, blocks=True)
    np.testing.assert_allclose(found, light, rtol=0, atol=1e-15)  # precision is hits / (all + eps)
    mixed = scene.weights(3, most=most)
    expected = [scene.by_hand(weight, kind, blocks=True) for weight in mixed]
    np.testing.assert_allclose(scene.values(mixed, kind, blocks=True), expected, rtol=0, atol=1e-15)


@every_kind
@given(
    st.integers(0, 10**6),
    st.integers(1, 70),
    st.sampled_from([0, 2, 5]),
    st.booleans(),
    st.integers(0, 80),
)
@settings(max_examples=40, deadline=None)
def test_both_routes_give_the_same_bits(
    kind: str, seed: int, n_replicates: int, levels: int, blocks: bool, n: int
) -> None:
    scene = Scene(seed, n=n, levels=levels)
    weights = scene.weights(n_replicates, most=4)
    found = []
    for name in ("numpy", "native"):
        with route.forced(name):
            found.append(scene.values(weights, kind, blocks=blocks or kind == "tie-aware"))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_the_type_and_layout_of_weights_do_not_matter(
    kernel_route: str, dtype: type, layout: str
) -> None:
    scene = Scene(3)
    weights = scene.weights(65)
    given_so = np.array(weights, dtype, order=layout)
    np.testing.assert_array_equal(
        scene.values(given_so, "coco101", blocks=False),
        scene.values(weights, "coco101", blocks=False),
    )


def test_little_memory_at_a_time_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(4)
    weights = scene.weights(20)
    with route.forced("numpy"):
        expected = scene.values(weights, "coco101", blocks=True)
        monkeypatch.setattr(curves, "AT_ONCE", 100)
        np.testing.assert_array_equal(scene.values(weights, "coco101", blocks=True), expected)


@pytest.mark.parametrize("quotients", [False, True])
@pytest.mark.parametrize("n", [101, 11])
def test_recalls_reached_is_what_a_search_in_float64_finds(n: int, quotients: bool) -> None:
    recalls = np.arange(n) / (n - 1) if quotients else np.linspace(0.0, 1.0, n)
    rounded = curves.rounded_up(recalls)
    for positives in range(1, 3001):
        hits = np.arange(positives + 1)
        expected = np.searchsorted(recalls, hits / positives, side="right")
        found = curves.recalls_reached(hits, np.array(positives), rounded)
        np.testing.assert_array_equal(found, expected, err_msg=str(positives))


@given(st.integers(1, 10**8), st.floats(0, 1), st.sampled_from([101, 11]))
def test_recalls_reached_by_large_numbers(positives: int, share: float, n: int) -> None:
    near = (
        round(share * (n - 1)) * positives // (n - 1)
    )  # at and around a recall that is met exactly
    for hits in {round(share * positives), near, max(near - 1, 0), min(near + 1, positives)}:
        rounded = curves.rounded_up(np.linspace(0.0, 1.0, n))
        found = curves.recalls_reached(np.array(hits), np.array(positives), rounded)
        assert found == resampling.recalls_reached(hits, positives, n)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), max_size=8),
        min_size=1,
        max_size=5,
    )
)
def test_level_sums(segments: list[list[tuple[int, int]]]) -> None:
    values, counts, offsets, expected = [], [], [0], []
    for segment in segments:
        falling = sorted((1 / level for level, _ in segment), reverse=True)
        values += falling
        counts += [count for _, count in segment]
        offsets.append(len(values))
        expected.append(resampling.level_sum(falling, [count for _, count in segment]))
    rows = np.array([values, values])
    weights = np.array([counts, counts], np.int64)
    found = curves.level_sums(rows.reshape(2, -1), weights.reshape(2, -1), np.array(offsets))
    assert found.tolist() == [expected, expected]


def test_recalls_that_are_not_evenly_spaced_take_the_slow_way() -> None:
    assert curves.evenly_spaced(np.linspace(0, 1, 101))
    assert curves.evenly_spaced(np.arange(101) / 100)
    assert not curves.evenly_spaced(np.array([0.0, 0.3, 1.0]))
    assert not curves.evenly_spaced(np.array([0.5]))
