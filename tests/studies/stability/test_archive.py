"""The archive of trained networks: what ships, what rounding does, and files that are none."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.framework import run_study
from calipers.studies.stability.archive import (
    ARCHIVE,
    NetworkArchive,
    bag_area,
    dequantise,
    quantise,
    read_archive,
    setting_name,
    shipped_archive,
)
from calipers.studies.stability.networks import KNOWN, UNKNOWN, NetworkSettings

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def archive() -> NetworkArchive:
    return shipped_archive()


def test_rounding_keeps_every_call_at_a_half_and_the_order_of_steps() -> None:
    p = np.linspace(0, 1, 20_001, dtype=np.float32)
    rounded = dequantise(quantise(p))
    assert np.array_equal(rounded >= 0.5, p >= 0.5)
    assert (np.diff(rounded) >= 0).all()
    logits = np.log(rounded.astype(float) / (1 - rounded))
    assert np.abs(logits[1:-1] - np.log(p[1:-1] / (1 - p[1:-1]))).max() < 24 / 256 / 2 + 1e-3


def test_the_shipped_archive_is_small_and_says_how_it_was_made(archive: NetworkArchive) -> None:
    record = archive.record
    assert archive.source["bytes"] <= MOST_BYTES
    assert record["command"][:4] == ["calipers", "study", "stability", "--train"]
    settings = NetworkSettings()
    assert record["settings"]["seed"] == settings.seed
    assert len(record["models"]) == settings.subsets * len(archive.maps)
    assert len(archive.maps) + len(record["incomplete"]) == len(settings.cells())
    assert all(len(digest) == 64 for digest in record["models"].values())
    change = record["quantisation"]["largest_change_of_a_bag"]
    assert change["APJ"] == 0
    assert change["Spearman"] < 0.1


def test_every_cell_of_the_archive_is_complete(archive: NetworkArchive) -> None:
    for key, maps in archive.maps.items():
        bags = archive.bags[key[0]]
        assert maps.shape == (5, len(bags.ids), 12, 12)
        assert archive.odds[key].shape == (5, len(bags.positive))
        assert ((archive.areas(key) > 0.5) & (archive.areas(key) <= 1)).all()
        assert bags.instances.any(axis=(1, 2)).all()
        # Objects lie in the picture, not in the padding.
        assert not (bags.instances & ~bags.inside).any()


def test_the_area_counts_ties_half() -> None:
    positive = np.array([True, True, False, False])
    assert bag_area(np.array([3.0, 2.0, 1.0, 0.0]), positive) == 1
    assert bag_area(np.array([1.0, 1.0, 1.0, 1.0]), positive) == 0.5
    assert bag_area(np.array([0.0, 3.0, 1.0, 2.0]), positive) == 0.5


def test_settings_have_names_for_tables() -> None:
    assert setting_name("digits", UNKNOWN) == "digits"
    assert setting_name("digits", KNOWN) == "digits, known instances"


def test_files_that_are_no_archive_are_refused_with_what_to_do(tmp_path) -> None:
    with pytest.raises(InputError, match="--train --keep "):
        run_study("stability", keep=tmp_path / "nowhere", quick=True)
    (tmp_path / ARCHIVE).write_bytes(b"no archive")
    with pytest.raises(InputError, match="npz-format"):
        read_archive(tmp_path)
    np.savez(tmp_path / ARCHIVE, record=np.array('{"schema": "calipers.stability-archive/9"}'))
    with pytest.raises(InputError, match="another version"):
        read_archive(tmp_path)
