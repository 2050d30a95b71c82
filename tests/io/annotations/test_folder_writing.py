"""YOLO and Pascal VOC folders that are written are read back the same."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from annotation_cases import put
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError
from calipers.io.read import read
from calipers.io.write import write

IDS = ("a", "deep/b", "c.1.2", "nothing here")


def random_cohort(seed: int, ids: tuple[str, ...] = IDS, *, whole: bool = False) -> Cohort:
    """References and predictions on images of known size; the last one is empty."""
    rng = np.random.default_rng(seed)
    images, predictions = [], []
    for k, name in enumerate(ids):
        n = 0 if k == len(ids) - 1 else int(rng.integers(1, 5))
        low = rng.uniform(0, 50, (n, 2))
        boxes = np.hstack([low, low + rng.uniform(1, 40, (n, 2))])
        if whole:
            boxes = np.round(boxes)
        labels = rng.integers(0, 3, n)
        shared = {"image_id": name, "boxes": boxes, "labels": labels}
        images.append({**shared, "width": 120, "height": 100, "ignore": rng.random(n) < 0.3})
        predictions.append({**shared, "scores": rng.random(n)})
    names = ["dog", "it's", "<big & bad>"]
    return Cohort.from_arrays(images, {"m": predictions}, classes=names)


def same(one: Cohort, two: Cohort, *, exactly: bool) -> None:
    """Compare references by the names of images and classes, which may be in another order."""
    for name in one.images.ids:
        k, j = one.images.ids.index(name), two.images.ids.index(name)
        first, second = one.references.take(np.array([k])), two.references.take(np.array([j]))
        tolerance = 0.0 if exactly else 1e-9
        np.testing.assert_allclose(first.boxes, second.boxes, rtol=0, atol=tolerance)
        labels = [one.classes[label] for label in first.label]
        assert labels == [two.classes[label] for label in second.label]


@pytest.mark.parametrize("seed", range(5))
def test_yolo_references_and_predictions_come_back(tmp_path, seed: int) -> None:
    cohort = random_cohort(seed)
    write(cohort, tmp_path / "refs", format="yolo")
    write(cohort, tmp_path / "m", what="m", format="yolo")
    groups = tmp_path / "refs" / "images.csv"
    again = read(tmp_path / "refs", tmp_path / "m", groups=groups)
    assert again.classes == cohort.classes
    assert set(again.images.ids) == set(cohort.images.ids)
    same(cohort, again, exactly=False)
    scores = sorted(again.models["m"].score.tolist())
    assert scores == sorted(cohort.models["m"].score.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_voc_references_come_back(tmp_path, seed: int) -> None:
    cohort = random_cohort(seed, whole=True)
    write(cohort, tmp_path / "v", format="voc")
    again = read(tmp_path / "v")
    assert set(again.images.ids) == set(cohort.images.ids)
    same(cohort, again, exactly=True)
    assert again.references.ignore.sum() == cohort.references.ignore.sum()
    order = [again.images.ids.index(name) for name in cohort.images.ids]
    np.testing.assert_array_equal(again.images.size[order], cohort.images.size)


def test_a_folder_is_written_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    target = tmp_path / "out"
    put(target, {"mine.txt": "keep"})
    cohort = random_cohort(0)
    with pytest.raises(InputError, match="new or empty"):
        write(cohort, target, format="voc")
    assert os.listdir(tmp_path) == ["out"]
    assert (target / "mine.txt").read_text() == "keep"
    (target / "mine.txt").unlink()
    write(cohort, target, format="voc")
    assert (target / "Annotations" / "deep" / "b.xml").is_file()

    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError):
        write(cohort, tmp_path / "other", format="voc")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(
    "name", ["../up", "/abs", "a//b", "a/./b", "..", "x" * 300, "a\\b", "a:b", "tab\t", " ", "a\0"]
)
def test_names_that_lead_elsewhere_are_refused(tmp_path, name: str) -> None:
    for folder_format in ("yolo", "voc"):
        with pytest.raises(InputError) as caught:
            write(random_cohort(0, ("a", name, "c")), tmp_path / "o", format=folder_format)
        assert caught.value.rule == "file-name"
    assert not list(tmp_path.iterdir())


def test_names_that_differ_in_case_only_are_refused(tmp_path) -> None:
    with pytest.raises(InputError):
        write(random_cohort(0, ("a", "A", "c")), tmp_path / "o", format="yolo")


def test_what_the_formats_cannot_hold(tmp_path) -> None:
    cohort = random_cohort(0)
    with pytest.raises(UsageError, match="references only"):
        write(cohort, tmp_path / "o", what="m", format="voc")
    with pytest.raises(UsageError, match="holds boxes as"):
        write(cohort, tmp_path / "o", format="yolo", box_format="xyxy")
    unsized = [{"image_id": "a", "boxes": [[1, 1, 5, 5]], "labels": [0]}]
    with pytest.raises(InputError) as caught:
        write(Cohort.from_arrays(unsized, classes=["p"]), tmp_path / "o", format="yolo")
    assert caught.value.rule == "size-unknown"
    strange = Cohort.from_arrays(unsized, classes=["two\nlines"])
    with pytest.raises(InputError):
        write(strange, tmp_path / "o", format="voc")
