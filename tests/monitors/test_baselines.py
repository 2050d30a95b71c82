"""Baseline monitors: hand values, empty images, and shifts that must alarm."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError
from calipers.monitors.baselines import (
    BASELINES,
    FINEST,
    NAMES,
    NEEDS_FIT,
    NEEDS_PICTURES,
    Features,
    Normal,
    baseline,
    features_of,
    nearest,
    picture_features,
    shrinkage_of,
)
from random_cohorts import random_cohort


def cohort_of(*scores, boxes=None, **more):
    """Return a cohort with these scores on its images; one reference each."""
    references = [
        {
            "image_id": f"i{k}",
            "boxes": [[10, 10, 30, 30]],
            "labels": [0],
            "width": 100,
            "height": 100,
            **more,
        }
        for k in range(len(scores))
    ]
    predictions = [
        {
            "image_id": f"i{k}",
            "boxes": np.tile([10.0, 10, 30, 30], (len(given), 1)) if boxes is None else boxes[k],
            "labels": [0] * len(given),
            "scores": given,
        }
        for k, given in enumerate(scores)
    ]
    return Cohort.from_arrays(references, predictions, classes=("x",), score_scale="raw")


SCORED = cohort_of([0.9, 0.5], [0.25], [], [1.0, 0.0])


def test_scores_by_hand():
    assert baseline("max-score", SCORED).tolist() == pytest.approx([0.1, 0.75, 1, 0])
    assert baseline("mean-score", SCORED).tolist() == pytest.approx([0.3, 0.75, 1, 0.5])
    assert baseline("count", SCORED).tolist() == [2, 1, 0, 2]
    half = -0.9 * np.log2(0.9) - 0.1 * np.log2(0.1)
    quarter = -0.25 * np.log2(0.25) - 0.75 * np.log2(0.75)
    assert baseline("score-entropy", SCORED).tolist() == pytest.approx(
        [(half + 1) / 2, quarter, 1, 0]
    )


@pytest.mark.parametrize("name", ["max-score", "mean-score", "score-entropy"])
def test_images_without_predictions_can_be_calm(name):
    assert baseline(name, SCORED, empty="calm")[2] == 0
    with pytest.raises(UsageError, match="alarm"):
        baseline(name, SCORED, empty="alert")


def test_a_cut_leaves_predictions_out():
    assert baseline("count", SCORED, score_cut=0.5).tolist() == [2, 0, 0, 1]
    assert baseline("max-score", SCORED, score_cut=0.95).tolist() == [1, 1, 1, 0]


def test_the_count_is_judged_by_the_median_of_the_fit_images():
    assert baseline("count", SCORED, fit=np.array([0, 3])).tolist() == [0, 1, 2, 0]


def test_raw_scores_rank_images_without_predictions_first():
    raw = cohort_of([3.0], [-2.0], [])
    assert baseline("max-score", raw).tolist() == [-2, 3, 4]
    assert baseline("mean-score", raw, empty="calm").tolist() == [-2, 3, -3]
    with pytest.raises(UsageError, match="between 0 and 1"):
        baseline("score-entropy", raw)


def test_no_predictions_anywhere():
    nothing = cohort_of([], [])
    for name in ("max-score", "mean-score", "score-entropy"):
        assert baseline(name, nothing).tolist() == [1, 1]
    assert baseline("count", nothing).tolist() == [0, 0]
    assert baseline("box-likelihood", nothing, fit="all").tolist() == [0, 0]


def test_an_unusual_box_alarms():
    cohort = random_cohort(60, 2, seed=3)
    usual = cohort.images.size[0]
    far = [[0.0, 0.0, usual[0], 1.0]]  # as wide as the image, one pixel high
    one = Cohort.from_arrays(
        [{"boxes": [], "labels": [], "width": usual[0], "height": usual[1]}] * 3,
        [
            {"boxes": far, "labels": [0], "scores": [0.9]},
            {"boxes": cohort.references.boxes[:1], "labels": [0], "scores": [0.9]},
            {
                "boxes": [*far, *cohort.references.boxes[:1].tolist()],
                "labels": [0, 0],
                "scores": [0.9, 0.9],
            },
        ],
        classes=cohort.classes,
    )
    worst = baseline("box-likelihood", one, fit=cohort)
    assert worst[0] > worst[1] + 2
    assert worst[2] == worst[0]
    mean = baseline("box-likelihood", one, fit=cohort, over="mean")
    assert mean[2] == pytest.approx((mean[0] + mean[1]) / 2)


def test_the_log_density_is_that_of_scipy():
    from scipy.stats import multivariate_normal

    rows = np.random.default_rng(0).normal(2.0, [1.0, 5.0, 0.2], (200, 3))
    normal = Normal.fitted(rows)
    root = normal.root * normal.scale[:, None]
    peer = multivariate_normal(rows.mean(axis=0), root @ root.T)
    assert normal.log_density(rows[:20]) == pytest.approx(peer.logpdf(rows[:20]), abs=1e-9)


@pytest.mark.parametrize(("n", "d"), [(5, 12), (40, 3), (200, 12), (2, 2)])
def test_the_shrinkage_is_that_of_ledoit_and_wolf(n, d):
    covariance = pytest.importorskip("sklearn.covariance")
    rows = np.random.default_rng(n * d).normal(size=(n, d)) @ np.diag(np.arange(1.0, d + 1))
    centred = rows - rows.mean(axis=0)
    expected = covariance.ledoit_wolf_shrinkage(centred, assume_centered=True)
    assert shrinkage_of(centred) == pytest.approx(max(expected, 1e-3), abs=1e-9)


def test_boxes_and_predictions_may_be_fitted_on():
    cohort = random_cohort(40, 2, seed=1)
    by_references = baseline("box-likelihood", cohort, fit=np.arange(20))
    by_predictions = baseline("box-likelihood", cohort, fit=np.arange(20), source="predictions")
    assert by_references.shape == by_predictions.shape == (40,)
    assert np.isfinite(by_references).all()
    assert (by_references != by_predictions).any()


def test_constant_boxes_have_a_likelihood():
    assert np.isfinite(baseline("box-likelihood", SCORED, fit="all")).all()


def test_boxes_of_volumes_and_of_unknown_sizes():
    assert np.isfinite(
        baseline("box-likelihood", random_cohort(20, 1, seed=0, dimensions=3), fit="all")
    ).all()
    bare = [{"boxes": [[0, 0, k + 2, 5]], "labels": [0]} for k in range(5)]
    scored = [{**one, "scores": [0.5]} for one in bare]
    assert np.isfinite(
        baseline("box-likelihood", Cohort.from_arrays(bare, scored, classes=("x",)), fit="all")
    ).all()


def pictures(n, seed=0, brightness=0.4):
    random = np.random.default_rng(seed)
    base = np.linspace(0.0, 0.3, 24)[None, :] + brightness
    return [base + random.normal(0.0, 0.04, (16, 24)) + random.normal(0.0, 0.02) for _ in range(n)]


def plain(n):
    return cohort_of(*[[0.5]] * n)


@pytest.mark.parametrize("name", sorted(NEEDS_PICTURES))
@pytest.mark.parametrize("shift", ["bright", "flat", "blurred", "noisy", "coloured"])
def test_a_shifted_picture_alarms(name, shift):
    from scipy.ndimage import gaussian_filter

    given = pictures(41)
    last = given[-1]
    given[-1] = {
        "bright": last + 0.3,
        "flat": np.full(last.shape, last.mean()),
        "blurred": gaussian_filter(last, 2.0),
        "noisy": last + np.random.default_rng(5).normal(0.0, 0.15, last.shape),
        "coloured": np.stack([last + 0.1, last, last - 0.1], axis=2),
    }[shift]
    alarm = baseline(name, plain(41), images=given, fit=np.arange(30))
    assert alarm.argmax() == 40
    assert alarm[40] > 2 * alarm[30:40].max()


def test_features_by_hand():
    named = dict(zip(NAMES, features_of(np.array([[0, 255], [0, 255]], np.uint8))))
    assert (named["mean"], named["sd"], named["q50"], named["entropy"]) == (0.5, 0.5, 0.5, 1.0)
    assert named["log-gradient"] == pytest.approx(0.0, abs=1e-6)  # steps of 1 along x, none along y
    assert named["log-laplacian"] == pytest.approx(np.log(1.0 + 1e-8))  # +1 and -1
    assert (named["red"], named["blue"]) == (0, 0)
    red = dict(zip(NAMES, features_of(np.tile(np.array([255, 0, 0], np.uint8), (2, 2, 1)))))
    assert (red["mean"], red["red"], red["blue"]) == pytest.approx((1 / 3, 2 / 3, -1 / 3))


@pytest.mark.parametrize("shape", [(1024, 512), (1025, 3), (520, 700, 3)])
@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_large_pictures_are_reduced_to_means_of_blocks(shape, kind):
    picture = (np.random.default_rng(0).random(shape) * 255).astype(kind)
    step = -(-max(shape[:2]) // 512)
    height, width = (side // min(step, side) for side in shape[:2])
    across = min(step, shape[1])
    small = np.zeros((height, width, *shape[2:]))
    for y in range(height):
        for x in range(width):
            small[y, x] = picture[y * step : (y + 1) * step, x * across : (x + 1) * across].mean(
                axis=(0, 1)
            )
    small /= 255 if kind is np.uint8 else 1
    assert features_of(picture) == pytest.approx(features_of(small))


def test_one_pixel_and_one_value_have_features():
    for picture in (np.zeros((1, 1)), np.full((3, 3), 700.0), np.zeros((2, 3, 4), np.int16)):
        assert np.isfinite(features_of(picture)).all()


def test_broken_pictures_are_refused_by_name():
    bad = pictures(3)
    bad[1] = np.full((2, 2), np.nan)
    with pytest.raises(InputError, match="i1") as refused:
        picture_features(plain(3), bad)
    assert refused.value.rule == "non-finite"
    with pytest.raises(InputError, match="i0"):
        picture_features(plain(1), [np.zeros((0, 4))])


def test_features_that_are_constant_or_depend_on_each_other_are_no_obstacle():
    same = Features(("a", "b", "c"), np.tile([1.0, 2.0, 3.0], (10, 1)))
    for name in NEEDS_PICTURES:
        assert baseline(name, plain(10), images=same, fit="all").tolist() == [0] * 10
    x = np.linspace(0, 1, 10)
    tied = Features(("a", "b"), np.stack([x, 2 * x], axis=1))
    assert np.isfinite(baseline("image-mahalanobis", plain(10), images=tied, fit="all")).all()
    # A feature that never varied on the fit images counts where it does.
    odd = np.tile([1.0, 2.0], (10, 1))
    odd[9, 1] += 5 * FINEST
    for name in NEEDS_PICTURES:
        found = baseline(name, plain(10), images=Features(("a", "b"), odd), fit=np.arange(9))
        assert found[9] == pytest.approx(5.0)


def test_the_distance_in_one_dimension_is_the_deviation():
    values = np.array([[0.0], [2.0], [5.0]])
    found = baseline(
        "image-mahalanobis", plain(3), images=Features(("a",), values), fit=np.array([0, 1])
    )
    assert found.tolist() == pytest.approx([1, 1, 4])  # mean 1, deviation 1


def test_an_image_is_not_its_own_neighbour():
    rows = np.array([[0.0], [1.0], [3.0], [10.0]])
    scale = rows[:3].std()
    found = nearest(rows, rows[:3], 1, np.array([0, 1, 2, -1])) * scale
    assert found.tolist() == pytest.approx([1, 1, 2, 7])
    farthest = nearest(rows, rows[:3], 5, np.array([0, 1, 2, -1])) * scale
    assert farthest.tolist() == pytest.approx([3, 2, 3, 10])


def test_many_images_are_compared_in_parts(monkeypatch):
    random = np.random.default_rng(2)
    rows, fit, own = random.normal(size=(50, 3)), random.normal(size=(20, 3)), np.full(50, -1)
    whole = nearest(rows, fit, 3, own)
    monkeypatch.setattr("calipers.monitors.baselines.AT_ONCE", 100)
    assert nearest(rows, fit, 3, own).tolist() == whole.tolist()


def test_the_judged_images_do_not_enter_the_fit():
    given = pictures(30)
    first = baseline("image-mahalanobis", plain(30), images=given, fit=np.arange(20))
    given[29] = np.zeros((16, 24))
    second = baseline("image-mahalanobis", plain(30), images=given, fit=np.arange(20))
    assert first[:29].tolist() == second[:29].tolist()


def test_fitting_must_be_said():
    for name in NEEDS_FIT:
        with pytest.raises(UsageError, match="fit='all'"):
            baseline(name, plain(3), images=pictures(3))


def test_a_fit_cohort_has_pictures_of_its_own():
    judged, training = plain(4), plain(30)
    with pytest.raises(UsageError, match="fit_pictures"):
        baseline("image-knn", judged, images=pictures(4), fit=training)
    alarm = baseline(
        "image-knn", judged, images=pictures(4, 1), fit=training, fit_pictures=pictures(30, 2)
    )
    dark = baseline(
        "image-knn", judged, images=pictures(4, 1, 0.1), fit=training, fit_pictures=pictures(30, 2)
    )
    assert dark.min() > alarm.max()


def test_pictures_are_found_in_a_folder(tmp_path):
    (tmp_path / "images").mkdir()
    given = [(255 * np.clip(one, 0, 1)).astype(np.uint8) for one in pictures(3)]
    Image.fromarray(given[0]).save(tmp_path / "images" / "i0.png")
    Image.fromarray(given[1]).save(tmp_path / "i1.bmp")
    Image.fromarray(np.stack([given[2]] * 3, axis=2)).save(tmp_path / "i2.png")
    found = picture_features(plain(3), tmp_path)
    assert found.values == pytest.approx(picture_features(plain(3), given).values)
    by_id = {f"i{k}": one for k, one in enumerate(given)}
    assert picture_features(plain(3), by_id).values == pytest.approx(found.values)
    (tmp_path / "i1.bmp").unlink()
    with pytest.raises(InputError, match="i1") as refused:
        picture_features(plain(3), tmp_path)
    assert refused.value.rule == "no-picture"
    Image.fromarray(given[0]).save(tmp_path / "i0.png")
    with pytest.raises(InputError, match="several"):
        picture_features(plain(1), tmp_path)


def test_colours_of_a_file_are_read(tmp_path):
    Image.fromarray(np.tile(np.array([200, 100, 0], np.uint8), (4, 4, 1))).save(tmp_path / "i0.png")
    named = dict(zip(NAMES, picture_features(plain(1), tmp_path).values[0]))
    assert named["red"] == pytest.approx(100 / 255)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "max-skore"}, "max-score"),
        ({"name": "image-knn", "fit": "all"}, "pictures"),
        ({"name": "image-knn", "fit": "al", "images": []}, "all"),
        ({"name": "box-likelihood", "fit": np.array([7])}, "indices"),
        ({"name": "box-likelihood", "fit": np.zeros(4, bool)}, "none"),
        ({"name": "box-likelihood", "fit": "all", "over": "best"}, "worst"),
        ({"name": "box-likelihood", "fit": "all", "source": "reference"}, "references"),
        ({"name": "box-likelihood", "fit": np.array([0])}, "at least 2 boxes"),
        ({"name": "image-knn", "fit": np.array([0]), "images": pictures(4)}, "at least 2 images"),
        ({"name": "image-knn", "fit": "all", "images": pictures(4), "neighbours": 0}, "from 1 to"),
        ({"name": "image-knn", "fit": "all", "images": pictures(3)}, "one picture per image"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(UsageError, match=said):
        baseline(options.pop("name"), SCORED, **options)


def test_a_model_is_named_where_there_are_several():
    several = random_cohort(5, 1, seed=0, models=2)
    with pytest.raises(UsageError, match="name the model"):
        baseline("count", several)
    assert (
        baseline("count", several, "model-2").tolist()
        == np.diff(several.models["model-2"].offsets).tolist()
    )


def test_every_baseline_is_described():
    assert set(BASELINES) >= NEEDS_FIT >= NEEDS_PICTURES
    cohort, given = plain(6), pictures(6)
    for name in BASELINES:
        alarm = baseline(name, cohort, images=given, fit=np.arange(4))
        assert alarm.shape == (6,)
        assert np.isfinite(alarm).all()
