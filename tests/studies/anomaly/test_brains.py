"""Brains: deformed at random, the same for a seed, with round spheres in every second one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from calipers.errors import InputError, UsageError
from calipers.studies.anomaly import brains
from calipers.studies.anomaly.archive import SEEN, SLICES, VOLUMES
from calipers.studies.anomaly.brain_training import has_object, samples_of
from calipers.studies.anomaly.brains import (
    RADII,
    SIDE,
    BrainSetting,
    VolumeCounts,
    read_template,
    settings_of,
    with_spheres,
)
from calipers.synthetic.demo import stream
from studies.anomaly.made_brains import made_template


@pytest.fixture(scope="module")
def settings() -> list[BrainSetting]:
    return settings_of(made_template(), VolumeCounts(2, 1, 3), 5)


def test_brains_of_one_seed_are_the_same_and_differ_from_each_other(settings) -> None:
    one, other = settings[0].normal("training", 2)
    assert (one == settings[0].normal("training", 1)[0]).all()
    assert np.abs(one - other).mean() > 0.02
    assert (one != settings[1].normal("training", 1)[0]).any()
    assert (one != replace(settings[0], seed=6).normal("training", 1)[0]).any()
    assert one.shape == (SIDE,) * 3
    assert 0 <= one.min() < one.max() <= 1


def test_every_second_test_brain_has_one_large_and_four_small_spheres(settings) -> None:
    with_objects, without, again = settings[0].test_volumes()
    assert not without.labels.any()
    for volume in (with_objects, again):
        sizes = [int((volume.labels == number).sum()) for number in range(1, 6)]
        # Round: as many voxels as a ball of that radius has, within its rim.
        for size, radius in zip(sizes, RADII):
            assert size == pytest.approx(4 / 3 * np.pi * radius**3, rel=0.06)
        _, n = ndimage.label(volume.labels > 0, np.ones((3, 3, 3)))
        assert n == len(RADII)


def test_spheres_differ_from_what_was_there_and_nothing_else_changes(settings) -> None:
    before = settings[0].normal("training", 1)[0]
    inside = np.zeros(before.shape, np.bool_)
    inside[8:56, 8:56, 8:56] = True
    after, labels = with_spheres(before, inside, stream(1, "spheres"))
    assert (after[labels == 0] == before[labels == 0]).all()
    assert inside[labels > 0].all()
    for number in range(1, 6):
        mask = labels == number
        assert len(np.unique(after[mask])) == 1
        assert abs(float(after[mask][0]) - float(before[mask].mean())) > 0.1


def test_views_are_volumes_all_slices_and_slices_with_an_object(settings) -> None:
    case = settings[0].test_volumes()[0]
    maps = {"one": [case.image.astype(np.float16)]}
    whole, every, some = (list(samples_of([case], maps, view)) for view in (VOLUMES, SLICES, SEEN))
    assert [len(whole), len(every)] == [1, SIDE]
    assert len(some) == has_object(case).sum() < SIDE
    assert all(sample.labels.any() for sample in some)
    assert len({sample.name for sample in every}) == SIDE


def test_without_nilearn_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(brains, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install nilearn==0\.14\.1$"):
        read_template()


def test_a_nilearn_without_the_template_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"pip install nilearn==0\.14\.1") as caught:
        read_template(tmp_path)
    assert caught.value.rule == "not-found"


def test_a_template_of_another_shape_is_refused(tmp_path) -> None:
    from calipers.io.write_volume import write_volume

    for file in brains.FILES.values():
        write_volume(tmp_path / file, np.zeros((4, 5, 6), np.float32))
    with pytest.raises(InputError, match="pip install nilearn==") as caught:
        read_template(tmp_path)
    assert caught.value.rule == "shape-mismatch"
