"""Maps in the album: slices of samples that are loaded once more, above them outlines."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import calipers as cal
from calipers.data.maps import Sample
from calipers.pictures import overlays
from calipers.pictures.album import Album, album
from calipers.pictures.pixels import Pixels, encode, shade
from calipers.show.figures import Overlay
from calipers.synthetic.volumes import demo_samples

QUICK = replace(cal.Protocol.load("anomaly"), replicates=100)


def evaluated(samples: Any, **options: Any) -> cal.Evaluation:
    return cal.evaluate_maps(samples, QUICK, ci=False, **options)


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return list(demo_samples(6, size=32))


@pytest.fixture(scope="module")
def shown(samples: list[Sample]) -> Album:
    return album(evaluated(samples), None, per_group=3)


def every(found: Album) -> list[Overlay]:
    return [
        overlay for group in found.groups for entry in group.entries for overlay in entry.overlays
    ]


def corners(overlay: Overlay) -> int:
    return sum(len(ring) for mark in overlay.marks for ring in mark.outline)


def pixels_of(data: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))))


def test_every_model_has_its_own_map_on_one_picture(shown: Album) -> None:
    pair = next(
        entry for group in shown.groups for entry in group.entries if len(entry.models) == 2
    )
    one, other = pair.overlays
    assert one.symbol == other.symbol == pair.picture
    assert {one.shade_symbol[:6], other.shade_symbol[:6]} == {"map-0-", "map-1-"}
    assert all(overlay.shade_symbol in shown.pictures for overlay in every(shown))


def test_marks_are_outlines_in_the_slice(shown: Album) -> None:
    marks = [mark for overlay in every(shown) for mark in overlay.marks]
    assert marks
    assert all(mark.outline for mark in marks)
    for mark in marks:
        corners = np.array([corner for ring in mark.outline for corner in ring])
        x0, y0, x1, y1 = mark.box
        assert (corners >= (x0, y0)).all()
        assert (corners <= (x1, y1)).all()
    assert any(
        "outlines are those that reach the slice" in overlay.note for overlay in every(shown)
    )


def test_all_objects_of_maps_are_shown_as_they_have_a_threshold(shown: Album) -> None:
    assert set(shown.cuts.values()) == {-np.inf}
    assert "all predictions" in shown.groups[0].why


def test_maps_are_transparent_where_scores_are_low() -> None:
    colours = shade(np.array([[0, 128, 255]], np.uint8))
    assert colours.shape == (1, 3, 4)
    red, green, blue, opacity = colours[0].astype(int).T
    assert opacity[0] == 0
    assert (np.diff(opacity) > 0).all()
    assert (np.diff(green) > 0).all()
    assert (green > red).all()
    assert (green > blue).all()


def test_a_map_is_encoded_with_its_opacity() -> None:
    levels = np.zeros((32, 32), np.uint8)
    levels[8:24, 8:24] = 255
    found = pixels_of(encode(Pixels(levels, 32, 32, scores=True)).data)
    assert found.shape == (32, 32, 4)
    assert found[0, 0, 3] == 0
    assert found[16, 16, 3] > 150


def test_the_picture_is_the_slice_of_the_image(samples: list[Sample], shown: Album) -> None:
    key = next(overlay.symbol for overlay in every(shown) if overlay.symbol)
    _, image, place = key.replace("-z", "-").split("-")
    plane = samples[int(image)].image
    assert plane is not None
    found = pixels_of(shown.pictures[key].data).astype(float)
    found = found if found.ndim == 2 else found.mean(axis=2)
    assert np.corrcoef(found.ravel(), plane[int(place)].ravel())[0, 1] > 0.95


def test_a_sample_is_loaded_once(samples: list[Sample]) -> None:
    evaluation, seen = evaluated(samples), list[int]()
    load = evaluation.load_sample
    assert load is not None

    def counting(k: int) -> Sample:
        seen.append(k)
        return load(k)  # type: ignore[misc]

    steps: list[tuple[int, int]] = []
    album(
        replace(evaluation, load_sample=counting),
        None,
        progress=lambda done, of: steps.append((done, of)),
    )
    assert len(seen) == len(set(seen))
    assert steps == [(k + 1, len(seen)) for k in range(len(seen))]


def test_without_images_the_maps_stand_on_a_dark_ground(samples: list[Sample]) -> None:
    found = album(evaluated([replace(sample, image=None) for sample in samples]), None)
    assert all(not overlay.symbol and overlay.shade_symbol for overlay in every(found))
    assert found.notes == ("The samples have no image: the maps are shown on a dark background.",)


def test_an_iterator_leaves_outlines_on_empty_frames(samples: list[Sample]) -> None:
    found = album(evaluated(iter(samples)), None)
    assert not found.pictures
    assert any(mark.outline for overlay in every(found) for mark in overlay.marks)


def test_samples_that_are_gone_are_counted(samples: list[Sample]) -> None:
    def gone(k: int) -> Sample:
        raise FileNotFoundError(f"no file {k}")

    found = album(replace(evaluated(samples), load_sample=gone), None)
    assert not found.pictures
    assert "could not be read again; the first: S0" in found.notes[0]


def test_maps_count_in_the_budget(samples: list[Sample]) -> None:
    found = album(evaluated(samples), None, budget_bytes=3000)
    assert sum(one.bytes for one in found.pictures.values()) <= 3000
    assert any("left out to keep the page small" in note for note in found.notes)


def test_many_corners_are_drawn_coarser(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    rough = [((chance.random((128, 128)) < 0.3) * 0.9, np.eye(128, dtype=int)) for _ in range(2)]
    evaluation = evaluated(rough)
    fine = max(corners(overlay) for overlay in every(album(evaluation, None)))
    monkeypatch.setattr(overlays, "MOST_CORNERS", fine // 2)
    assert all(0 < corners(overlay) <= fine // 2 for overlay in every(album(evaluation, None)))
