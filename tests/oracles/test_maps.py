"""Oracles of maps: exact numbers of voxels, on arrays that can be drawn by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import ndimage

import calipers as cal
from calipers.data.maps import Sample
from calipers.oracles.maps import MAP_KINDS, corrupt_map
from calipers.synthetic.volumes import demo_samples, disc, labelled, scatter

FULL = {2: np.ones((3, 3)), 3: np.ones((3, 3, 3))}
EVERY = {
    "shrink": {"voxels": 5},
    "grow": {"voxels": 5},
    "missed-objects": {"p": 0.5},
    "false-objects": {"n": 2, "radius": 2},
    "noise": {"sigma": 0.1},
    "blur": {"sigma": 1.0},
    "shift": {"distance": 3.0},
    "empty-samples": {"n": 2},
}
EACH = pytest.mark.parametrize(("kind", "choices"), EVERY.items(), ids=list(EVERY))


def drawn(*rows: str) -> np.ndarray:
    """Return an array of digits."""
    return np.array([[int(cell) for cell in row.replace(".", "0")] for row in rows])


def objects_of(found: np.ndarray) -> list[int]:
    """Return the sizes of the connected components, in the order of the array."""
    labels, n = ndimage.label(found, FULL[found.ndim])
    return [int((labels == k).sum()) for k in range(1, n + 1)]


def four_discs(shape: tuple[int, ...] = (96, 96)) -> np.ndarray:
    return (labelled(scatter(4, shape, 6.0, seed=2, gap=6.0), shape) > 0).astype(np.uint8)


SQUARE = drawn(
    ".......",
    ".11111.",
    ".11111.",
    ".11111.",
    ".11111.",
    ".11111.",
    ".......",
)


def test_all_kinds_are_tested() -> None:
    assert set(EVERY) == set(MAP_KINDS)


def test_shrinking_by_a_radius_peels_the_square() -> None:
    inner = np.zeros_like(SQUARE)
    inner[2:5, 2:5] = 1
    np.testing.assert_array_equal(corrupt_map(SQUARE, "shrink", radius=1), inner)
    np.testing.assert_array_equal(corrupt_map(SQUARE, "shrink", radius=2), np.pad([[1]], 3))
    np.testing.assert_array_equal(corrupt_map(SQUARE, "shrink", radius=0.9), SQUARE)
    assert corrupt_map(SQUARE, "shrink", radius=3).sum() == 0


def test_shrinking_by_a_number_takes_corners_first() -> None:
    """All 16 voxels of the rim have the depth 1; the corners are farthest from the centroid."""
    found = corrupt_map(SQUARE, "shrink", voxels=4)
    np.testing.assert_array_equal(
        found, drawn(".......", "..111..", ".11111.", ".11111.", ".11111.", "..111..", ".......")
    )
    for n in range(26):
        assert corrupt_map(SQUARE, "shrink", voxels=n).sum() == 25 - n
    assert corrupt_map(SQUARE, "shrink", voxels=99).sum() == 0
    assert corrupt_map(SQUARE, "shrink", fraction=0.2).sum() == 20


def test_growing_by_a_radius_adds_what_is_near() -> None:
    point = np.pad([[1]], 3)
    np.testing.assert_array_equal(corrupt_map(point, "grow", radius=1), drawn(*grown(1)))
    np.testing.assert_array_equal(corrupt_map(point, "grow", radius=1.5), drawn(*grown(2)))
    for n in (0, 1, 4, 20, 48, 60):  # 49 voxels in all
        assert corrupt_map(point, "grow", voxels=n).sum() == min(1 + n, 49)
    np.testing.assert_array_equal(corrupt_map(point, "grow", voxels=8), drawn(*grown(2)))


def grown(squared: int) -> list[str]:
    rows = range(-3, 4)
    return ["".join("1" if x * x + y * y <= squared else "." for x in rows) for y in rows]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_discs_stay_discs_when_they_shrink_and_grow(dimensions: int) -> None:
    shape, middle = (40,) * dimensions, (20.5,) * dimensions
    sizes = {radius: int(disc(shape, middle, radius).sum()) for radius in (5.0, 8.0, 11.0)}
    true = disc(shape, middle, 8.0)
    smaller = corrupt_map(true, "shrink", voxels=sizes[8.0] - sizes[5.0])
    larger = corrupt_map(true, "grow", voxels=sizes[11.0] - sizes[8.0])
    for found, radius in ((smaller, 5.0), (larger, 11.0)):
        wanted = disc(shape, middle, radius)
        assert found.sum() == wanted.sum()
        assert (found.astype(bool) & wanted).sum() / wanted.sum() > 0.93


@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_object_loses_and_gains_the_same_number(dimensions: int) -> None:
    labels = four_discs((96,) * 2 if dimensions == 2 else (48, 48, 48))
    sizes = objects_of(labels)
    assert objects_of(corrupt_map(labels, "shrink", voxels=17)) == [size - 17 for size in sizes]
    assert objects_of(corrupt_map(labels, "grow", voxels=17)) == [size + 17 for size in sizes]


def test_growing_objects_take_nothing_from_each_other() -> None:
    labels = drawn("1...2", "1...2")
    found = cal.corrupt_maps([labels], "grow", voxels=2, labels="instances", name="grown")[0]
    np.testing.assert_array_equal(found.maps["grown"], drawn("11.11", "11.11"))
    full = corrupt_map(labels, "grow", voxels=100, labels="instances")
    assert full.sum() == 10


def test_touching_objects_are_apart_only_as_instances() -> None:
    labels = drawn("112233")
    assert corrupt_map(labels, "missed-objects", n=1, labels="instances").sum() == 4
    assert corrupt_map(labels, "missed-objects", n=1, labels="nonzero").sum() == 0


def test_a_value_of_instances_need_not_start_at_one() -> None:
    labels = np.full((2, 4), 7)
    labels[:, 2:] = 9
    assert corrupt_map(labels, "missed-objects", n=1, labels="instances").sum() == 4


def test_missed_objects_by_number_and_by_chance() -> None:
    labels = four_discs()
    sizes = objects_of(labels)
    for n in range(6):
        assert len(objects_of(corrupt_map(labels, "missed-objects", n=n))) == max(0, 4 - n)
    assert objects_of(corrupt_map(labels, "missed-objects", p=0.0)) == sizes
    left = [
        len(objects_of(corrupt_map(labels, "missed-objects", p=0.25, seed=seed)))
        for seed in range(300)
    ]
    assert abs(np.mean(left) - 3) < 4 * np.sqrt(4 * 0.25 * 0.75 / 300)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_false_objects_have_exact_sizes_and_touch_nothing(dimensions: int) -> None:
    labels = four_discs((96, 96) if dimensions == 2 else (48, 48, 48))
    for seed in range(10):
        found = corrupt_map(labels, "false-objects", n=3, voxels=29, seed=seed)
        assert (found[labels > 0] == 1).all()
        assert sorted(objects_of(found)) == sorted([*objects_of(labels), 29, 29, 29])
        added = found.astype(bool) & (labels == 0)
        assert not (ndimage.binary_dilation(added, FULL[dimensions]) & (labels > 0)).any()


def test_a_false_object_is_the_disc_of_its_radius_inside_the_image() -> None:
    blank = np.zeros((9, 9), int)
    for seed in range(20):
        found = corrupt_map(blank, "false-objects", radius=3, seed=seed)
        rows, columns = np.nonzero(found)
        centre = (rows.min() + 3.5, columns.min() + 3.5)
        np.testing.assert_array_equal(found, disc((9, 9), centre[::-1], 3.0))


def test_all_free_places_are_equally_likely() -> None:
    blank = np.zeros((4, 5), int)
    found = sum(corrupt_map(blank, "false-objects", voxels=1, seed=seed) for seed in range(2000))
    np.testing.assert_allclose(found / 2000, 1 / 20, atol=4 * np.sqrt(0.05 * 0.95 / 2000))


def test_without_room_the_sample_is_named() -> None:
    with pytest.raises(cal.UsageError, match=r"sample 'full': no free place for 2 discs"):
        cal.corrupt_maps(
            [Sample("full", np.zeros((9, 9), int), {})], "false-objects", n=2, radius=3
        )[0]
    with pytest.raises(cal.UsageError, match="larger than the image"):
        corrupt_map(np.zeros((9, 9), int), "false-objects", voxels=10**9)


def test_noise_is_normal_and_cut() -> None:
    labels = np.zeros((200, 200), int)
    labels[:, 100:] = 1
    found = corrupt_map(labels, "noise", sigma=0.2)
    assert (found.min(), found.max()) == (0, 1)
    low = found[:, :100]
    assert abs((low == 0).mean() - 0.5) < 0.02
    assert np.sqrt((low**2).mean() * 2) == pytest.approx(0.2, rel=0.02)


def test_blur_keeps_the_mass_and_a_known_profile() -> None:
    point = np.zeros((41, 41), int)
    point[20, 20] = 1
    found = corrupt_map(point, "blur", sigma=2.0)
    assert found.sum() == pytest.approx(1, abs=1e-5)
    assert found[20, 22] / found[20, 20] == pytest.approx(np.exp(-0.5), rel=1e-4)
    np.testing.assert_array_equal(corrupt_map(point, "blur", sigma=0.0), point)


def test_shift_by_whole_voxels_loses_what_leaves() -> None:
    labels = drawn("11..", "1...", "....")
    np.testing.assert_array_equal(
        corrupt_map(labels, "shift", x=1, y=1), drawn("....", ".11.", ".1..")
    )
    np.testing.assert_array_equal(corrupt_map(labels, "shift", x=-1), drawn("1...", "....", "...."))
    assert corrupt_map(labels, "shift", x=50).sum() == 0
    volume = np.zeros((3, 4, 5), int)
    volume[0, 1, 2] = 1
    assert np.argwhere(corrupt_map(volume, "shift", x=2, y=1, z=1)).tolist() == [[1, 2, 4]]
    with pytest.raises(cal.UsageError, match="no z in two dimensions"):
        corrupt_map(labels, "shift", z=1)


def test_shift_by_a_distance_goes_everywhere_as_far() -> None:
    labels = np.zeros((41, 41), int)
    labels[20, 20] = 1
    steps = np.array(
        [np.argwhere(corrupt_map(labels, "shift", distance=10, seed=s))[0] - 20 for s in range(200)]
    )
    assert np.abs(np.hypot(*steps.T) - 10).max() <= np.sqrt(0.5)
    assert {tuple(row) for row in np.sign(steps).tolist()} >= {(1, 1), (1, -1), (-1, 1), (-1, -1)}


def test_empty_samples_come_last_and_say_nothing() -> None:
    samples = list(demo_samples(3, dimensions=2, size=32))
    found = cal.corrupt_maps(samples, ["empty-samples(n=4)", "missed-objects(n=1)"], name="oracle")
    assert len(found) == 7
    assert [sample.name for sample in found[3:]] == ["empty-1", "empty-2", "empty-3", "empty-4"]
    for sample in found[3:]:
        assert not sample.labels.any()
        assert not any(scores.any() for scores in sample.maps.values())
        assert sample.groups["patient"] == sample.name
        assert sample.spacing == samples[0].spacing
    assert [
        len(objects_of(sample.labels)) - len(objects_of(sample.maps["oracle"]))
        for sample in found[:3]
    ] == [1] * 3


def test_other_corruptions_reach_the_empty_samples() -> None:
    found = cal.corrupt_maps(
        [np.zeros((20, 20), int)], ["empty-samples(n=1)", "false-objects(voxels=5)"], name="o"
    )
    assert [sample.maps["o"].sum() for sample in found] == [5, 5]
    assert not np.array_equal(found[0].maps["o"], found[1].maps["o"])


@EACH
@pytest.mark.parametrize("dimensions", [2, 3])
def test_sequence_and_iterator_give_the_same_samples(
    kind: str, choices: dict, dimensions: int
) -> None:
    samples = list(demo_samples(3, dimensions=dimensions, size=32))
    one, again = (cal.corrupt_maps(samples, kind, seed=4, name="o", **choices) for _ in range(2))
    stream = cal.corrupt_maps(iter(samples), kind, seed=4, name="o", **choices)
    assert isinstance(stream, Iterator)
    for first, second, third in zip(one, again, stream, strict=True):
        assert first.name == third.name
        np.testing.assert_array_equal(first.maps["o"], second.maps["o"])
        np.testing.assert_array_equal(first.maps["o"], third.maps["o"])
        assert first.maps["o"].dtype == np.float32
        assert 0 <= first.maps["o"].min() <= first.maps["o"].max() <= 1
    np.testing.assert_array_equal(one[-1].maps["o"], one[len(one) - 1].maps["o"])
    assert len(one[1:]) == len(one) - 1
    with pytest.raises(IndexError):
        one[len(one)]


def test_samples_keep_all_they_had() -> None:
    (sample,) = demo_samples(1, dimensions=2, size=32)
    (found,) = cal.corrupt_maps([sample], "noise(sigma=0.1)")
    assert list(found.maps) == [*sample.maps, "noise(sigma=0.1)"]
    assert (found.labels is sample.labels, found.image is sample.image, found.groups) == (
        True,
        True,
        sample.groups,
    )


def test_composition_follows_the_order_of_the_list() -> None:
    labels = four_discs()
    first = corrupt_map(labels, ["shrink(voxels=20)", "blur(sigma=1)"])
    small = corrupt_map(labels, "shrink", voxels=20)
    np.testing.assert_array_equal(first, corrupt_map(small.astype(int), "blur", sigma=1.0))
    other = corrupt_map(labels, ["blur(sigma=1)", "shrink(voxels=20)"])
    assert not np.array_equal(first, other)


def test_a_missed_object_takes_the_scores_of_its_voxels_with_it() -> None:
    labels = drawn("11..22")
    found = corrupt_map(labels, ["noise(sigma=0.1)", "missed-objects(n=2)"], labels="instances")
    assert (found[0, [0, 1, 4, 5]] == 0).all()


def test_the_maps_are_evaluated_like_any_model() -> None:
    samples = [four_discs() for _ in range(6)]
    made = cal.corrupt_maps(
        samples, "false-objects", n=4, voxels=int(four_discs().sum()) // 4, name="false"
    )
    evaluation = cal.evaluate_maps(made, ci=False)
    # As many false voxels as true ones, all with score 1: precision 1/2 at every recall.
    assert evaluation["AP/dataset"].value == pytest.approx(0.5, abs=0.01)


def test_groups_of_samples_are_looked_at_without_making_them_twice() -> None:
    samples = [four_discs()]
    made = cal.corrupt_maps(samples, "noise", sigma=0.1, name="o")
    calls = []
    original = type(made).__getitem__

    class Counted(type(made)):
        def __getitem__(self, index):
            calls.append(index)
            return original(self, index)

    made.__class__ = Counted
    cal.evaluate_maps(made, ci=False)
    assert calls.count(0) == 1


@pytest.mark.parametrize(
    ("kind", "choices", "told"),
    [
        ("shrnk", {"voxels": 1}, "did you mean 'shrink'"),
        ("shrink", {}, "needs one of voxels, fraction, radius, not none"),
        ("shrink", {"voxels": 1, "radius": 2}, "not voxels and radius"),
        ("shrink", {"voxels": 1.5}, "a whole number from 0"),
        ("shrink", {"voxel": 1}, "did you mean 'voxels'"),
        ("missed-objects", {"p": 2}, "from 0 to 1"),
        ("false-objects", {"n": 2}, "needs one of voxels, radius"),
        ("noise", {}, "needs sigma"),
        ("empty-samples", {}, "needs n"),
    ],
)
def test_bad_choices_are_told_before_anything_is_read(kind: str, choices: dict, told: str) -> None:
    with pytest.raises(cal.UsageError, match=told):
        cal.corrupt_maps([], kind, **choices)


def test_bad_samples_are_told() -> None:
    with pytest.raises(cal.UsageError, match="list of samples"):
        cal.corrupt_maps(np.zeros((3, 3)), "noise", sigma=0.1)
    with pytest.raises(cal.UsageError, match=r"samples\[0\]"):
        cal.corrupt_maps([[1, 2, 3]], "noise", sigma=0.1)[0]
    twice = cal.corrupt_maps(
        [Sample("s", np.zeros((3, 3), int), {"o": np.zeros((3, 3))})], "noise", sigma=0, name="o"
    )
    with pytest.raises(cal.UsageError, match="another name"):
        twice[0]
    assert len(cal.corrupt_maps([], "empty-samples", n=3)) == 0
