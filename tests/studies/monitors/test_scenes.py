"""Pictures under shifts: what is said to happen to them happens, and to nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.monitors.archive import MonitorArchive, shipped
from calipers.studies.monitors.scene_pictures import scenes_figure
from calipers.studies.monitors.scenes import (
    BOTH,
    FOREIGN,
    PICTURE_SHIFTS,
    USUAL,
    SceneCounts,
    drawn_shapes,
    open_scenes,
    shifted,
)
from training import layouts

COUNTS = SceneCounts(training=8, usual=12, each=3, both=15, epochs=1)


@pytest.fixture(scope="module")
def scenes():
    pytest.importorskip("sklearn")
    return open_scenes(None, COUNTS, 3)


def test_all_shifts_are_there_as_often_as_asked_for(scenes) -> None:
    assert len(scenes) == 12 + 3 * 3 * 6 + 15
    kinds = list(zip(scenes.shift, scenes.strength.tolist()))
    assert kinds.count((USUAL, 0)) == 12
    for name in (*PICTURE_SHIFTS, FOREIGN):
        assert [kinds.count((name, k)) for k in (1, 2, 3)] == [3, 3, 3]
    assert scenes.shift.count(BOTH) == 15


def test_the_definitions_of_ood_follow_what_was_done(scenes) -> None:
    shift = np.array(scenes.shift)
    picture = np.isin(shift, (*PICTURE_SHIFTS, BOTH))
    np.testing.assert_array_equal(scenes.ood("picture"), picture)
    np.testing.assert_array_equal(scenes.ood("object"), np.isin(shift, (FOREIGN, BOTH)))
    np.testing.assert_array_equal(scenes.ood("either"), shift != USUAL)


def test_boxes_are_those_of_the_digits_whatever_happens(scenes) -> None:
    n = scenes.canvases.settings.n_train
    for k in range(len(scenes)):
        drawing, canvas = scenes.drawing(k), scenes.canvases.drawing(n + k)
        np.testing.assert_array_equal(drawing.boxes, canvas.boxes)
        same = (drawing.pixels == canvas.pixels).all()
        assert same == (scenes.shift[k] == USUAL)
        np.testing.assert_array_equal(drawing.pixels, scenes.drawing(k).pixels)


def test_foreign_objects_only_add_and_leave_digits_in_sight(scenes) -> None:
    n = scenes.canvases.settings.n_train
    for k in [k for k in range(len(scenes)) if scenes.shift[k] == FOREIGN]:
        before, after = scenes.canvases.drawing(n + k).pixels, scenes.drawing(k).pixels
        assert (after >= before).all()
        assert (after > before).sum() > 20


@pytest.mark.parametrize("name", PICTURE_SHIFTS)
def test_a_stronger_shift_changes_more(scenes, name) -> None:
    pixels = scenes.canvases.drawing(9).pixels / 255.0
    changes = []
    for strength in (1, 2, 3):
        random = np.random.default_rng(0)
        changes.append(float(np.abs(shifted(pixels, name, strength, random) - pixels).mean()))
    assert 0 < changes[0] < changes[1] < changes[2]


def test_idx_folders_bring_their_own_foreign_objects(tmp_path) -> None:
    layouts.idx(tmp_path / "both" / "digits")
    layouts.idx(tmp_path / "both" / "fashion")
    scenes = open_scenes(str(tmp_path / "both"), COUNTS, 0)
    assert (scenes.name, scenes.foreign_name) == ("digits", "fashion")
    assert open_scenes(str(tmp_path / "both" / "digits"), COUNTS, 0).foreign_name == "drawn shapes"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="MNIST"):
        open_scenes(str(tmp_path / "empty"), COUNTS, 0)
    with pytest.raises(InputError, match="nowhere"):
        open_scenes(str(tmp_path / "nowhere"), COUNTS, 0)


def test_drawn_shapes_are_the_same_every_time() -> None:
    shapes = drawn_shapes(14)
    np.testing.assert_array_equal(shapes.pixels, drawn_shapes(14).pixels)
    assert shapes.pixels.min() == 0
    assert (shapes.pixels.max(axis=(1, 2)) > 0.5).all()


def test_scenes_are_drawn_again_only_if_they_are_those_of_the_archive() -> None:
    pytest.importorskip("sklearn")
    archive = MonitorArchive.read(shipped())
    figure = scenes_figure(archive)
    assert figure is not None
    assert [panel.title for panel in figure.panels] == ["usual", *PICTURE_SHIFTS, "foreign", "both"]
    assert "in distribution" in figure.panels[0].note
    assert all("OOD" in panel.note for panel in figure.panels[1:])
    record = archive.detectors[0]
    image, boxes, labels = record.references
    moved = replace(record, references=(image, boxes + 1, labels))
    assert scenes_figure(replace(archive, detectors=(moved,))) is None
    assert scenes_figure(replace(archive, about={})) is None
    assert scenes_figure(None) is None
