"""The samples of the demo: two models whose characters show in the numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import ndimage

from calipers.errors import UsageError
from calipers.heatmaps.files import load_map
from calipers.synthetic.volumes import demo_samples, write_samples

MODELS = ("sharp", "diffuse")


@pytest.fixture(scope="module")
def samples():
    return list(demo_samples())


def objects(mask):
    return ndimage.label(mask, np.ones((3,) * mask.ndim))


def test_samples_are_complete(samples):
    assert len(samples) == 24
    assert len({sample.name for sample in samples}) == 24
    for sample in samples:
        assert sample.labels.shape == (64, 64, 64)
        assert set(np.unique(sample.labels)) <= {0, 1}
        assert sample.spacing == (1.0, 1.0, 2.0)
        assert tuple(sample.maps) == MODELS
        assert sample.image.shape == sample.labels.shape
        for values in sample.maps.values():
            assert values.dtype == np.float32
            assert (values.shape, values.min() >= 0, values.max() <= 1) == (
                (64, 64, 64),
                True,
                True,
            )


def test_patients_have_two_samples_and_a_quarter_is_healthy(samples):
    patients = [sample.groups["patient"] for sample in samples]
    assert all(patients.count(name) == 2 for name in patients)
    assert len({sample.groups["centre"] for sample in samples}) == 3
    healthy = {sample.groups["patient"] for sample in samples if not sample.labels.any()}
    assert len(healthy) == 3
    assert samples[0].labels.any()


def test_the_sharp_model_misses_small_lesions_and_the_diffuse_one_none(samples):
    small, large = {model: [] for model in MODELS}, {model: [] for model in MODELS}
    for sample in samples:
        labels, n = objects(sample.labels)
        for k in range(1, n + 1):
            lesion = labels == k
            for model in MODELS:
                hit = bool((sample.maps[model][lesion] >= 0.5).any())
                (small if lesion.sum() < 100 else large)[model].append(hit)
    assert np.mean(small["sharp"]) < 0.4 < 0.95 < np.mean(large["sharp"])
    assert np.mean(small["diffuse"]) > 0.95
    assert np.mean(large["diffuse"]) > 0.95
    assert min(len(small["sharp"]), len(large["sharp"])) >= 20


def test_the_sharp_model_is_exact_and_the_diffuse_one_raises_false_alarms(samples):
    dice, false = {model: [] for model in MODELS}, dict.fromkeys(MODELS, 0)
    for sample in samples:
        for model in MODELS:
            said = sample.maps[model] >= 0.5
            labels, n = objects(said)
            false[model] += sum(not sample.labels[labels == k].any() for k in range(1, n + 1))
            if sample.labels.any():
                dice[model].append(
                    2 * (said & (sample.labels > 0)).sum() / (said.sum() + sample.labels.sum())
                )
    assert np.mean(dice["sharp"]) > 0.85 > 0.75 > np.mean(dice["diffuse"]) > 0.5
    assert false["sharp"] == 0
    assert false["diffuse"] >= 5


def test_a_sample_depends_on_seed_and_number_alone(samples):
    again = list(demo_samples(3))
    for sample, other in zip(samples, again):
        np.testing.assert_array_equal(sample.labels, other.labels)
        np.testing.assert_array_equal(sample.image, other.image)
        for model in MODELS:
            np.testing.assert_array_equal(sample.maps[model], other.maps[model])
    assert (next(demo_samples(1, seed=1)).image != samples[0].image).any()


def test_slices_in_two_dimensions():
    samples = list(demo_samples(8, dimensions=2, size=96))
    assert {sample.labels.shape for sample in samples} == {(96, 96)}
    assert {sample.spacing for sample in samples} == {(1.0, 1.0)}
    assert sum(bool(sample.labels.any()) for sample in samples) == 6


def test_it_is_quick(samples):
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        list(demo_samples())
        best = min(best, time.process_time() - began)
        if best < 2.0:
            break
    assert best < 2.0


def test_senseless_requests_are_refused_at_once():
    for wrong in ({"dimensions": 4}, {"size": 8}, {"n": 0}):
        with pytest.raises(UsageError):
            demo_samples(**wrong)


def test_files_hold_what_the_samples_hold(tmp_path):
    samples = list(demo_samples(2, size=32))
    assert write_samples(tmp_path / "new", samples) == 2
    for part in ("references", "sharp", "diffuse", "images"):
        assert sorted(file.name for file in (tmp_path / "new" / part).iterdir()) == [
            "S001.npz",
            "S002.npz",
        ]
    np.testing.assert_array_equal(
        load_map(tmp_path / "new" / "sharp" / "S001.npz"), samples[0].maps["sharp"]
    )
    assert np.load(tmp_path / "new" / "references" / "S001.npz")["spacing"].tolist() == [
        1.0,
        1.0,
        2.0,
    ]
    assert (tmp_path / "new" / "samples.csv").read_text().splitlines()[:2] == [
        "image,patient,centre",
        "S001,P001,North",
    ]
    first = (tmp_path / "new" / "sharp" / "S001.npz").read_bytes()
    write_samples(tmp_path / "again", samples)
    assert (tmp_path / "again" / "sharp" / "S001.npz").read_bytes() == first


def test_another_writer_can_take_over(tmp_path):
    calls = []
    n = write_samples(
        tmp_path,
        demo_samples(1, size=32),
        lambda path, array, spacing: calls.append((path, spacing)),
    )
    assert n == 1
    assert [path.parent.name for path, _ in calls] == ["references", "sharp", "diffuse", "images"]
    assert {spacing for _, spacing in calls} == {(1.0, 1.0, 2.0)}
