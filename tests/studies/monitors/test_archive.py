"""Archives: what is written is read back, and what ships is whole."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.monitors.archive import MonitorArchive, shipped
from calipers.studies.monitors.scenes import DEFINITIONS, FULL, PICTURE_SHIFTS, STRENGTHS
from studies.monitors.detectors import made_detector


def test_an_archive_is_read_back_to_the_bit(tmp_path) -> None:
    archive = MonitorArchive((made_detector(), made_detector(seed=1)), {"command": "by hand"})
    archive.write(tmp_path / "archive.npz")
    again = MonitorArchive.read(tmp_path / "archive.npz")
    assert again.about == {"command": "by hand"}
    for one, other in zip(archive.detectors, again.detectors):
        assert (one.name, one.shift, one.score_cut) == (other.name, other.shift, other.score_cut)
        for first, second in zip(
            one.references + one.predictions, other.references + other.predictions
        ):
            np.testing.assert_array_equal(first, second)
        for name in one.alarms:
            np.testing.assert_array_equal(one.alarms[name], other.alarms[name])
        for name in DEFINITIONS:
            np.testing.assert_array_equal(one.ood[name], other.ood[name])
    cohort = again.detectors[0].cohort()
    assert cohort.n_images == 240
    assert len(cohort.references) == 240


@pytest.mark.parametrize("content", [b"PK\x03\x04 no archive", b"text"])
def test_a_broken_archive_says_how_to_make_one(tmp_path, content) -> None:
    (tmp_path / "archive.npz").write_bytes(content)
    with pytest.raises(InputError, match="--train"):
        MonitorArchive.read(tmp_path / "archive.npz")
    np.savez(tmp_path / "archive.npz", about=np.zeros(3))
    with pytest.raises(InputError, match="--train"):
        MonitorArchive.read(tmp_path / "archive.npz")


def test_the_archive_that_ships_is_small_and_whole() -> None:
    assert shipped().stat().st_size < 1_500_000
    archive = MonitorArchive.read(shipped())
    assert archive.about["command"].startswith("calipers study monitors --train")
    assert not archive.about["quick"]
    for one in archive.detectors:
        cells = len(STRENGTHS) * (len(PICTURE_SHIFTS) + 1)
        assert len(one) == FULL.usual + cells * FULL.each + FULL.both
        assert one.average_precision > 0.8
        for definition in DEFINITIONS:
            assert not one.ood[definition][np.array(one.shift) == "none"].any()
        assert all(np.isfinite(own).all() for own in one.alarms.values())
        assert (one.predictions[3] >= 0.2 - 1e-3).all()
