"""What users are told to do where files are not what they were taken for."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes.volume_folders import check_volumes
from calipers.errors import InputError
from calipers.io.volumes.open import open_volume
from calipers.io.write_volume import write_volume
from volume_cases import noise


def refused(*paths: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        cal.read(*paths)
    return caught.value


def masks_and_pixels(folder: Path) -> tuple[Path, Path]:
    """Write masks, and maps of whole scores up to 255 with some noise, as pictures have it."""
    draw = np.random.default_rng(3)
    _, y, x = np.indices((8, 32, 32))
    for k in range(4):
        place = draw.integers(8, 24, 2)
        distance = (y - place[0]) ** 2 + (x - place[1]) ** 2
        scores = 220 * np.exp(-distance / 60) + draw.integers(0, 12, distance.shape)
        for name, voxels in (("masks", distance < 20), ("maps", scores)):
            (folder / name).mkdir(exist_ok=True)
            write_volume(folder / name / f"case{k}.npz", voxels.astype(np.uint8))
    return folder / "masks", folder / "maps"


def test_swapped_maps_of_whole_scores_are_found(tmp_path) -> None:
    masks, maps = masks_and_pixels(tmp_path)
    right = check_volumes(Inputs(masks, {"maps": maps}, None, {}))
    swapped = check_volumes(Inputs(maps, {"masks": masks}, None, {}))
    assert "files-swapped" in {symptom.code for symptom in swapped.findings}
    assert "files-swapped" not in {symptom.code for symptom in right.findings}
    assert swapped.commands == right.commands
    assert len(right.commands) == 1


def test_swapped_maps_of_whole_scores_are_no_labels(tmp_path) -> None:
    masks, maps = masks_and_pixels(tmp_path)
    error = refused(maps, masks)
    assert error.rule == "mask-values"
    assert "swapped" in error.hint
    with pytest.raises(InputError, match="swapped") as caught:
        cal.evaluate_maps(cal.read_maps(maps, masks), ci=False)
    assert caught.value.rule == "mask-values"


def test_many_labels_in_blocks_are_labels(tmp_path) -> None:
    """As those of 100 organs."""
    voxels = np.kron(np.arange(100).reshape(10, 10), np.ones((4, 4), int))[None].repeat(3, axis=0)
    for name in ("truth", "cad"):
        (tmp_path / name).mkdir()
        write_volume(tmp_path / name / "case.npz", voxels.astype(np.uint8))
    assert len(cal.read(tmp_path / "truth", tmp_path / "cad").classes) == 99


def test_the_hint_on_an_unknown_format_stands_before_the_formats(tmp_path) -> None:
    strange = tmp_path / "x.foo"
    strange.write_text("hello")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.docx").write_text("hello")
    for path, first in ((strange, "name the format"), (folder, "give one file")):
        error = refused(path)
        assert len(error.expected) < 60
        assert error.hint.startswith(first)
        assert "voc" in error.hint


def test_a_segmentation_that_cannot_be_queried_is_not_called_cut_off(tmp_path, monkeypatch) -> None:
    highdicom = pytest.importorskip("highdicom")
    from dicom_cases import masks, segmentation, series

    path = segmentation(
        tmp_path / "seg.dcm", masks(), series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    )

    def fail(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("no such column: L.ReferencedSegmentNumber")

    monkeypatch.setattr(highdicom.seg.Segmentation, "get_volume", fail)
    with pytest.raises(InputError) as caught:
        open_volume(path).read()
    assert caught.value.rule == "volume-broken"
    assert "the file is whole" in caught.value.hint
    assert "OperationalError" not in str(caught.value)


def test_projects_of_other_annotators_are_told_what_to_export(tmp_path) -> None:
    region = {"shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}}
    project = {"a.png12": {"filename": "a.png", "size": 12, "regions": [region]}}
    (tmp_path / "via.json").write_text(json.dumps(project))
    error = refused(tmp_path / "via.json")
    assert error.rule == "wrong-role"
    assert "VGG Image Annotator" in error.hint
