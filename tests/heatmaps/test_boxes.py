"""Heat maps to boxes: by hand, against the slow twin, and in the corner cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import ndimage

import calipers as cal
from calipers.heatmaps.boxes import boxes_from_heatmaps
from reference import heatmaps as slow
from seeds import looped


def found(maps, **options):
    options.setdefault("classes", [f"c{k}" for k in range(len(maps[0]))])
    return boxes_from_heatmaps(maps, **options)


def rows(result):
    said = result.predictions
    return [
        (int(image), int(label), float(level), box.tolist(), float(score))
        for image, label, level, box, score in zip(
            said.image, said.label, said.facts["threshold"], said.boxes, said.score
        )
    ]


def heat(*lines):
    return np.array([[float(word) for word in line.split()] for line in lines])[None, None]


def test_by_hand():
    # Scaled by 255: 0.2 is 51, below both cuts; 0.4 is 102; 0.8 is 204.
    maps = heat("0 .2 .4 0", "0 0 .8 0", "1 0 0 .4")
    assert rows(found(maps)) == [
        (0, 0, 60.0, [2.0, 0.0, 4.0, 3.0], pytest.approx((0.4 + 0.8 + 0.4) / 3)),
        (0, 0, 60.0, [0.0, 2.0, 1.0, 3.0], 1.0),
        (0, 0, 180.0, [2.0, 1.0, 3.0, 2.0], 0.8),
        (0, 0, 180.0, [0.0, 2.0, 1.0, 3.0], 1.0),
    ]


def test_corners_connect_unless_faces_are_asked_for():
    maps = heat("1 0", "0 1")
    assert len(found(maps, thresholds=60)) == 1
    assert len(found(maps, thresholds=60, connectivity="faces")) == 2


def test_a_threshold_is_met_by_its_own_value_and_zero_is_strict():
    maps = heat("0 51 255")
    assert [row[3] for row in rows(found(maps, thresholds=51))] == [[1.0, 0.0, 3.0, 1.0]]
    assert [row[3] for row in rows(found(maps, thresholds=0))] == [[1.0, 0.0, 3.0, 1.0]]
    assert [row[3] for row in rows(found(maps, thresholds=255))] == [[2.0, 0.0, 3.0, 1.0]]


@pytest.mark.parametrize("top", [0.1, 1 / 3, 0.7, 1e-9, 3e7])
def test_the_largest_value_is_255_whatever_the_rounding(top):
    assert len(found(heat("0 1") * top + 0.3, thresholds=255)) == 1


def test_scales():
    weak, strong = np.array([[0.0, 0.2]]), np.array([[0.0, 1.0]])
    maps = np.stack([weak, strong])[None]
    assert [row[1] for row in rows(found(maps, thresholds=180))] == [1]
    assert [row[1] for row in rows(found(maps, thresholds=180, scale="image-class"))] == [0, 1]
    assert [row[1] for row in rows(found(maps, thresholds=0.15, scale="none"))] == [0, 1]
    assert [row[1] for row in rows(found(maps, thresholds=0.5, scale="none"))] == [1]


def test_each_image_is_scaled_by_itself():
    maps = np.concatenate([heat("0 .01"), heat("0 9")])
    assert [row[0] for row in rows(found(maps, thresholds=180))] == [0, 1]


def test_scores_are_those_of_the_map_before_scaling():
    maps = heat("2 6 10")
    assert [row[4] for row in rows(found(maps, thresholds=60))] == [8.0]
    assert [row[4] for row in rows(found(maps, thresholds=60, score="max"))] == [10.0]
    assert "outside [0, 1]" in found(maps, thresholds=60).notes[0]


def test_the_best_box_of_a_class_is_kept_and_the_first_of_equal_ones():
    maps = np.stack([heat("1 0 1 0 .5")[0, 0], heat("0 .9 0 .8 .8")[0, 0]])[None]
    kept = rows(found(maps, keep_best=True))
    assert kept == [
        (0, 0, 60.0, [0.0, 0.0, 1.0, 1.0], 1.0),
        (0, 1, 60.0, [1.0, 0.0, 2.0, 1.0], 0.9),
    ]


@looped("seed", range(20))
def test_the_best_mean_is_a_core_and_the_best_maximum_the_first_threshold(seed):
    maps = ndimage.gaussian_filter(np.random.default_rng(seed).random((1, 1, 20, 20)), (0, 0, 2, 2))
    assert [row[2] for row in rows(found(maps, keep_best=True))] == [180.0]
    assert [row[2] for row in rows(found(maps, keep_best=True, score="max"))] == [60.0]


@pytest.mark.parametrize("scale", ["image", "image-class", "none"])
def test_constant_maps_give_nothing_and_are_counted(scale):
    maps = np.stack([np.full((3, 3), 200.0), np.zeros((3, 3)), np.eye(3) * 255.0])[None]
    result = found(maps, scale=scale, size=(7, 5))
    assert set(result.predictions.label.tolist()) == {2}
    assert result.constant.tolist() == [[True, True, False]]
    assert result.as_dict()["constant"] == 2
    assert result.notes[0] == "2 maps of one value give no box"


def test_a_map_that_is_constant_only_on_the_image_gives_nothing_either():
    maps = heat("0 5 0")  # one new pixel sees the middle alone
    result = found(maps, size=(1, 1), scale="image-class")
    assert len(result) == 0
    assert result.constant.all()
    assert result.shrunk == 1


def test_an_image_of_constant_maps_has_no_boxes_but_stays_an_image():
    result = found(np.concatenate([np.zeros((1, 1, 2, 2)), heat("0 1", "0 0")]))
    assert result.predictions.n_images == 2
    assert np.diff(result.predictions.offsets).tolist() == [0, 2]


def test_boxes_lie_on_the_image_not_on_the_map():
    result = found(heat("0 0", "0 1"), size=(20, 10), thresholds=180)
    (box,) = result.predictions.boxes
    assert box[2:].tolist() == [20.0, 10.0]
    assert result.images.size.tolist() == [[20.0, 10.0]]


@looped("seed", range(120))
def test_the_slow_twin_says_the_same(seed):
    random = np.random.default_rng(seed)
    d, n_classes = 2 + seed % 2, int(random.integers(1, 4))
    shape = random.integers(2, 6 if d == 2 else 4, d)
    target = tuple(random.integers(2, 12 if d == 2 else 6, d).tolist())
    maps = random.normal(size=(n_classes, *shape))
    scale = ["image", "image-class", "none"][seed % 3]
    thresholds = (0.2, 0.7) if scale == "none" else (60.0, 180.0)
    connectivity, score = ["full", "edges", "faces"][seed // 3 % 3], ["mean", "max"][seed % 2]
    reach = {"faces": 1, "edges": 2, "full": d}[connectivity]
    twin = slow.boxes(
        [slow.as_grid(part) for part in maps], target, thresholds, scale, reach, score
    )
    options = {
        "thresholds": thresholds,
        "scale": scale,
        "connectivity": connectivity,
        "score": score,
    }
    said = rows(found(maps[None], size=target[::-1], **options))
    assert [row[1:4] for row in said] == [(label, level, box) for label, level, box, _ in twin]
    np.testing.assert_allclose(
        [row[4] for row in said], [row[3] for row in twin], rtol=0, atol=1e-12
    )


@looped("seed", range(20))
def test_flips_and_swapped_axes_move_boxes_and_change_nothing_else(seed):
    values = np.random.default_rng(seed).random((1, 1, 6, 9))
    plain = found(values, size=(9, 6)).predictions
    turned = found(values.swapaxes(2, 3), size=(6, 9)).predictions
    flipped = found(values[..., ::-1], size=(9, 6)).predictions

    def listed(boxes, said):
        return sorted(
            map(
                tuple,
                np.column_stack([boxes, said.facts["threshold"], said.score.round(9)]).tolist(),
            )
        )

    mirrored = np.column_stack(
        [9 - flipped.boxes[:, 2], flipped.boxes[:, 1], 9 - flipped.boxes[:, 0], flipped.boxes[:, 3]]
    )
    assert listed(plain.boxes, plain) == listed(turned.boxes[:, [1, 0, 3, 2]], turned)
    assert listed(plain.boxes, plain) == listed(mirrored, flipped)


def test_large_images_resample_anew_and_give_the_same(monkeypatch):
    maps = np.random.default_rng(0).random((2, 3, 5, 5))
    kept = rows(found(maps, size=(40, 30)))
    monkeypatch.setattr("calipers.heatmaps.boxes.AT_ONCE", 10)
    assert rows(found(maps, size=(40, 30))) == kept


def test_volumes():
    maps = np.zeros((1, 1, 4, 5, 6))
    maps[0, 0, 1:3, 2, 3:5] = 1.0
    assert found(maps, thresholds=60).predictions.boxes.tolist() == [[3.0, 2.0, 1.0, 5.0, 3.0, 3.0]]


def test_arrays_lists_and_generators_are_the_same():
    maps = np.random.default_rng(0).random((3, 2, 4, 4))
    said = rows(found(maps))
    assert rows(boxes_from_heatmaps(list(maps), classes=["a", "b"])) == said
    assert rows(boxes_from_heatmaps((one for one in maps), classes=["a", "b"])) == said
    assert rows(boxes_from_heatmaps([list(one) for one in maps], classes=["a", "b"])) == said
    assert rows(found(maps, size=[(4, 4)] * 3)) == said


def test_images_may_have_different_sizes_and_lack_classes():
    maps = [np.random.default_rng(0).random((2, 4, 4)), [None, heat("0 1 0")[0, 0]]]
    result = boxes_from_heatmaps(maps, classes=["a", "b"], size=[(8, 8), (30, 10)])
    assert result.images.size.tolist() == [[8.0, 8.0], [30.0, 10.0]]
    assert set(result.predictions.label[result.predictions.image == 1].tolist()) == {1}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8, np.int64, np.bool_])
def test_every_kind_of_number_is_a_map(dtype):
    assert len(found(heat("0 1").astype(dtype), thresholds=60)) == 1


@pytest.mark.parametrize(
    ("maps", "rule"),
    [
        (np.zeros((2, 3, 3)), "map-shape"),
        ([np.zeros((3, 3))], "map-shape"),
        ([np.zeros((2, 3, 3))], "map-shape"),
        ([np.zeros((1, 0, 3))], "map-shape"),
        ([np.zeros((1, 3, 3)), np.zeros((1, 2, 3, 3))], "map-shape"),
        ([[np.zeros((3, 3)), np.zeros((3, 3))]], "map-shape"),
        ([[None]], "map-missing"),
        ([np.full((1, 2, 2), "x")], "type"),
        ([np.full((1, 2, 2), 1j)], "type"),
        ([np.full((1, 2, 2), None)], "type"),
        ([np.array([[[0.0, np.nan]]])], "non-finite"),
        ([np.array([[[0.0, np.inf]]])], "non-finite"),
        ([np.array([[[0.0, 1e301]]])], "non-finite"),
        ([np.array([[[0.0, np.inf]]], np.float16)], "non-finite"),
    ],
)
def test_what_is_no_map_is_refused(maps, rule):
    with pytest.raises(cal.InputError) as caught:
        boxes_from_heatmaps(maps, classes=["a"])
    assert caught.value.rule == rule


def test_a_nan_is_counted_and_its_place_is_named():
    maps = np.zeros((2, 1, 3, 3))
    maps[1, 0, 2, 1] = maps[1, 0, 2, 2] = np.nan
    with pytest.raises(cal.InputError, match=r"maps\[1\]\[0, 2, 1\].*got nan.*\n.*2 of 9 values"):
        found(maps)


@pytest.mark.parametrize(
    "options",
    [
        {"thresholds": ()},
        {"thresholds": (60, 60)},
        {"thresholds": 300},
        {"thresholds": -1},
        {"thresholds": float("nan")},
        {"thresholds": "high"},
        {"scale": "images"},
        {"score": "median"},
        {"connectivity": "8"},
    ],
)
def test_senseless_options_are_refused(options):
    with pytest.raises(cal.UsageError):
        found(heat("0 1"), **options)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"size": (4,)}, "image-size"),
        ({"size": (4, 0)}, "image-size"),
        ({"size": (4.5, 4)}, "image-size"),
        ({"size": (4, 4, 4)}, "image-size"),
        ({"size": "big"}, "image-size"),
        ({"size": (100_000, 100_000)}, "too-large"),
        ({"size": [(4, 4), (4, 4)]}, "image-count"),
        ({"image_ids": ["a", "b"]}, "image-count"),
        ({"image_ids": ["a", "a"]}, "dup-image"),
        ({"classes": []}, "classes"),
        ({"classes": "a"}, "classes"),
        ({"classes": ["a", "a"]}, "dup-category"),
    ],
)
def test_names_and_sizes_are_checked(options, rule):
    with pytest.raises(cal.InputError) as caught:
        found(heat("0 1"), **options)
    assert caught.value.rule == rule


def test_no_images_at_all_is_an_error():
    with pytest.raises(cal.UsageError):
        boxes_from_heatmaps([], classes=["a"])


def test_connectivities_agree_where_nothing_touches():
    maps = heat("1 0 0 1", "0 0 0 0", "1 0 0 1")
    counts = {
        len(found(maps, connectivity=name, thresholds=60)) for name in ("full", "edges", "faces")
    }
    assert counts == {4}


def test_more_connectivity_never_gives_more_boxes():
    for seed, d in itertools.product(range(20), (2, 3)):
        maps = np.random.default_rng(seed).random((1, 1, *[6] * d))
        counts = [len(found(maps, connectivity=name)) for name in ("faces", "edges", "full")]
        assert counts == sorted(counts, reverse=True)
