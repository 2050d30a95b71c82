"""Networks of table 1: their archive, and what the claims make of their values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.framework import run_study
from calipers.studies.rodeo.chexnets import (
    ChexnetArchive,
    NetworkCounts,
    NetworkRecord,
    chest_images,
    shipped_networks,
)
from calipers.studies.rodeo.claims import TABLE, RodeoRun
from calipers.studies.rodeo.tables import TOTAL, class_estimates

NAMES = (
    "map-hides-what-rodeo-shows-trained",
    "accuracy-praises-what-is-misclassified-trained",
    "nodules-fail-in-shape-trained",
)


def made_record(**changes) -> NetworkRecord:
    """Two images; the first has a nodule and is right, the second a mass and is called a nodule."""
    image = np.array([0, 1])
    boxes = np.array([[2.0, 2, 10, 10], [20, 20, 40, 40]])
    predictions = (image, boxes, np.array([0, 0]), np.array([0.75, 0.5]))
    record = NetworkRecord(
        "chests", "2 chests", ("nodule", "mass"), 64, 2, 0.9, (image, boxes, image), predictions
    )
    return replace(record, **changes)


def test_an_archive_is_read_as_it_was_written(tmp_path) -> None:
    made = ChexnetArchive((made_record(),), {"command": "by hand"})
    for name in ("one.npz", "two.npz"):
        made.write(tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    (again,) = ChexnetArchive.read(tmp_path / "one.npz").networks
    for table in ("references", "predictions"):
        for one, other in zip(getattr(again, table), getattr(made.networks[0], table)):
            np.testing.assert_array_equal(one, other)
    values = class_estimates(again.cohort(), again.model, replicates=100)
    assert values["nodule"]["RoDeO/loc"].value == 1
    assert values["mass"]["RoDeO/cls"].value < values["nodule"]["RoDeO/cls"].value
    assert set(values) == {"nodule", "mass", TOTAL}


@pytest.mark.parametrize("content", [b"PK", b"no archive"])
def test_what_is_no_archive_is_refused(tmp_path, content: bytes) -> None:
    (tmp_path / "chexnet.npz").write_bytes(content)
    with pytest.raises(InputError, match="calipers study rodeo --train --keep DIR"):
        run_study("rodeo", keep=tmp_path, quick=True)


def test_the_archive_that_ships_is_small_and_says_how_it_was_made() -> None:
    archive = ChexnetArchive.read(shipped_networks())
    assert shipped_networks().stat().st_size < 200_000
    assert archive.about["command"] == "calipers study rodeo --train"
    assert [one.name for one in archive.networks] == ["digits", "chests"]
    assert all(one.auc > 0.8 for one in archive.networks)


def test_drawn_chests_have_boxes_of_their_findings() -> None:
    images = chest_images(NetworkCounts(6, 2, 1), 0)
    assert images.test is not None
    assert images.test.sum() == 2
    for i, labels in enumerate(images.box_labels):
        assert sorted(labels.tolist()) == np.flatnonzero(images.findings[i]).tolist()
        assert len(images.boxes[i]) == len(labels)
    assert images.picture(0).shape == (96, 96)


def judged(trained) -> dict[str, str]:
    run = RodeoRun({}, {}, None, 0, trained)  # type: ignore[arg-type]
    verdicts = {}
    for statement, judge in TABLE.entries:
        if statement.name in NAMES:
            judgement = judge(run)
            verdicts[statement.name] = judgement.outcome if judgement.is_tested else "untested"
    return verdicts


def row(cls: float, loc: float, shape: float, accuracy: float, precision: float) -> dict:
    names = ("RoDeO/cls", "RoDeO/loc", "RoDeO/shape", "accuracy@0.3", "mAP@0.1:0.7", "RoDeO")
    return dict(
        zip(names, (cls, loc, shape, accuracy, precision, 3 / (1 / cls + 1 / loc + 1 / shape)))
    )


def test_claims_follow_the_values_of_networks() -> None:
    as_printed = {
        "nodule": row(0.6, 0.5, 0.2, 0.5, 0.02),
        "mass": row(0.1, 0.6, 0.3, 0.9, 0.021),
    }
    otherwise = {
        "nodule": row(0.6, 0.1, 0.2, 0.9, 0.02),
        "mass": row(0.1, 0.6, 0.3, 0.5, 0.2),
    }
    assert judged({"one": as_printed}) == dict.fromkeys(NAMES, True)
    assert judged({"one": otherwise}) == dict.fromkeys(NAMES, False)
    assert judged({}) == dict.fromkeys(NAMES, "untested")
    both = judged({"one": as_printed, "other": otherwise})
    assert [both[name] for name in NAMES[:2]] == [None, None]


def test_a_bad_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"chexnet\.npz"):
        run_study("rodeo", keep=tmp_path, quick=True)
