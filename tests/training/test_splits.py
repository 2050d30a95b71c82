"""Splits are disjoint by patient, follow the seed and not the order of files, and keep boxes."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.training.datasets.splits import check_two_kinds, folds, holdout, split_images, subset
from calipers.training.datasets.training_images import TrainingImages


def made(n_patients=60, seed=0, test=None):
    rng = np.random.default_rng(seed)
    patients, positive, boxed = [], [], []
    for p in range(n_patients):
        for _ in range(int(rng.integers(1, 5))):
            patients.append(f"p{p}")
            positive.append(p % 2 == 0 and rng.random() < 0.7)
            boxed.append(positive[-1] and p % 6 == 0)
    n = len(patients)
    box = np.array([[0.0, 0.0, 5.0, 5.0]])
    return TrainingImages(
        name="made",
        ids=tuple(f"im{i:03d}" for i in range(n)),
        classes=("a",),
        findings=np.array(positive)[:, None],
        boxes=tuple(box if own else None for own in boxed),
        box_labels=tuple(np.zeros(int(own), np.int64) for own in boxed),
        patients=tuple(patients),
        picture=lambda i: np.zeros((4, 4), np.uint8),
        test=test,
    )


@pytest.mark.parametrize("seed", range(5))
def test_parts_share_no_patient_and_hold_all_images(seed):
    images = made(seed=seed)
    split = split_images(images, seed)
    parts = [split.train, split.validation, split.test]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(images)))
    patients = [{images.patients[i] for i in part.tolist()} for part in parts]
    assert not patients[0] & patients[1]
    assert not patients[0] & patients[2]
    assert not patients[1] & patients[2]
    assert len(split.test) / len(images) == pytest.approx(0.2, abs=0.06)
    # The few boxed images are divided as well.
    assert images.boxed[split.test].sum() / images.boxed.sum() == pytest.approx(0.2, abs=0.15)


def test_a_split_follows_the_seed_and_not_the_order():
    images = made()
    order = np.random.default_rng(1).permutation(len(images))
    shuffled = images.take(order)
    for fold in (None, 2):
        one = split_images(images, 3, fold=fold).as_dict(images.ids)
        other = split_images(shuffled, 3, fold=fold).as_dict(shuffled.ids)
        assert {name: sorted(ids) for name, ids in other.items()} == one
        assert split_images(images, 4, fold=fold).as_dict(images.ids) != one


def test_folds_hold_every_image_once():
    images = made()
    parts = folds(images, 5, 0)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(images)))
    for i, part in enumerate(parts):
        own = {images.patients[k] for k in part.tolist()}
        for other in parts[i + 1 :]:
            assert not own & {images.patients[k] for k in other.tolist()}
        assert len(part) == pytest.approx(len(images) / 5, rel=0.3)
    np.testing.assert_array_equal(split_images(images, 0, fold=2).test, parts[1])


def test_an_official_test_set_stays():
    images = made()
    test = np.zeros(len(images), np.bool_)
    test[:20] = True
    split = split_images(made(test=test), 0)
    assert split.test.tolist() == list(range(20))


def test_subsets_leave_out_5_percent_and_keep_boxes():
    images = made(200)
    rows = np.arange(0, len(images), 2)
    parts = [subset(images, rows, 0.95, 0, k) for k in range(5)]
    for part in parts:
        assert len(part) == len(rows) - round(0.05 * len(rows))
        assert set(part.tolist()) <= set(rows.tolist())
        assert images.boxed[part].sum() == images.boxed[rows].sum()
    assert len({tuple(part.tolist()) for part in parts}) == 5
    np.testing.assert_array_equal(parts[0], subset(images, rows, 0.95, 0, 0))
    np.testing.assert_array_equal(subset(images, rows, 1.0, 0, 0), rows)


def test_what_cannot_be_split_is_refused():
    images = made(1)
    with pytest.raises(cal.InputError, match="single-patient"):
        holdout(images, np.arange(len(images)), 0.2, 0, "test")
    flags = np.array([True, True])
    with pytest.raises(cal.InputError, match="2 of 2 show 'a'"):
        check_two_kinds(flags, np.arange(2), "training", "made", "a")
