from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.synthetic.demo import CLASSES, NODULE, demo_cohort, draw_images
from random_cohorts import random_cohort


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return demo_cohort()


def _overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """IoU of every box of a with every box of b."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.clip(high - low, 0.0, None).prod(axis=-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=-1) for boxes in (a, b)]
    return np.asarray(shared / (areas[0][:, None] + areas[1] - shared))


def _best(cohort: Cohort, model: str, *, same_class: bool) -> np.ndarray:
    """Best IoU of any prediction of the model with each reference."""
    references, predictions = cohort.references, cohort.predictions(model)
    overlap = _overlap(references.boxes, predictions.boxes)
    overlap[references.image[:, None] != predictions.image] = 0.0
    if same_class:
        overlap[references.label[:, None] != predictions.label] = 0.0
    return np.asarray(overlap.max(axis=1))


def test_the_same_seed_gives_the_same_cohort(cohort: Cohort) -> None:
    again = demo_cohort.__wrapped__(0)
    assert again.images.ids == cohort.images.ids
    np.testing.assert_array_equal(again.references.boxes, cohort.references.boxes)
    for name, predictions in cohort.models.items():
        np.testing.assert_array_equal(again.models[name].boxes, predictions.boxes)
        np.testing.assert_array_equal(again.models[name].score, predictions.score)
        np.testing.assert_array_equal(again.models[name].label, predictions.label)


def test_the_global_random_state_has_no_influence(cohort: Cohort) -> None:
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    np.testing.assert_array_equal(
        demo_cohort.__wrapped__().references.boxes, cohort.references.boxes
    )
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_another_seed_gives_another_cohort(cohort: Cohort) -> None:
    other = demo_cohort(1)
    assert other.images.ids == cohort.images.ids or other.n_images == cohort.n_images
    assert not np.array_equal(
        other.models["mislabels"].score[:20], cohort.models["mislabels"].score[:20]
    )


def test_counts(cohort: Cohort) -> None:
    assert cohort.n_images == 120
    assert len(np.unique(cohort.group("patient"))) == 80
    assert len(np.unique(cohort.group("centre"))) == 4
    assert cohort.classes == CLASSES
    assert list(cohort.models) == ["mislabels", "overpredicts", "misses-small"]
    empty = np.mean(np.diff(cohort.references.offsets) == 0)
    assert 0.18 <= empty <= 0.32
    assert (np.bincount(cohort.references.label, minlength=4) >= 20).all()


def test_a_patient_belongs_to_one_centre(cohort: Cohort) -> None:
    pairs = set(zip(cohort.group("patient").tolist(), cohort.group("centre").tolist()))
    assert len(pairs) == 80


def test_sizes_of_findings_follow_their_class(cohort: Cohort) -> None:
    area, label = cohort.references.area, cohort.references.label
    medians = [np.median(area[label == k]) for k in range(4)]
    assert medians == sorted(medians)
    np.testing.assert_array_equal(
        area < 32**2, label == NODULE
    )  # so that APs is about nodules only
    assert medians[3] > 96**2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mislabels_finds_everything_and_names_a_third_wrongly(seed: int) -> None:
    cohort = demo_cohort(seed)
    assert np.mean(_best(cohort, "mislabels", same_class=False) >= 0.5) > 0.92
    right = np.mean(_best(cohort, "mislabels", same_class=True) >= 0.5)
    assert 0.5 < right < 0.72


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_overpredicts_says_too_much_with_lower_scores(seed: int) -> None:
    cohort = demo_cohort(seed)
    references, predictions = cohort.references, cohort.predictions("overpredicts")
    assert len(predictions) > 3 * len(references)
    assert np.mean(_best(cohort, "overpredicts", same_class=True) >= 0.5) > 0.92
    overlap = _overlap(predictions.boxes, references.boxes)
    overlap[predictions.image[:, None] != references.image] = 0.0
    alone = overlap.max(axis=1) < 0.1
    assert np.median(predictions.score[alone]) < np.median(predictions.score[~alone])
    healthy = np.flatnonzero(np.diff(references.offsets) == 0)
    assert np.diff(predictions.offsets)[healthy].sum() > len(healthy)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_misses_small_sees_large_findings_only(seed: int) -> None:
    cohort = demo_cohort(seed)
    best = _best(cohort, "misses-small", same_class=True)
    nodule = cohort.references.label == NODULE
    assert np.mean(best[nodule] >= 0.5) < 0.12
    assert np.mean(best[~nodule] >= 0.5) > 0.85
    assert np.median(best[~nodule]) > 0.9


def test_misses_small_means_its_scores() -> None:
    """Over many cohorts, a score of s is right in about a share s of the cases."""
    scores, right = [], []
    for seed in range(12):
        cohort = demo_cohort(seed)
        references, predictions = cohort.references, cohort.predictions("misses-small")
        overlap = _overlap(predictions.boxes, references.boxes)
        overlap[predictions.image[:, None] != references.image] = 0.0
        overlap[predictions.label[:, None] != references.label] = 0.0
        scores.append(predictions.score)
        right.append(overlap.max(axis=1, initial=0.0) >= 0.5)
    score, hit = np.concatenate(scores), np.concatenate(right)
    for low, high in ((0.5, 0.75), (0.75, 0.9), (0.9, 1.0)):
        chosen = (score >= low) & (score < high)
        assert abs(hit[chosen].mean() - score[chosen].mean()) < 0.08


def test_images_are_drawn_with_the_declared_size(cohort: Cohort, tmp_path: Path) -> None:
    part = cohort.take(np.array([0, 60, 90, 115]))
    paths = draw_images(part, tmp_path)
    assert [path.name for path in paths] == part.group("file_name").tolist()
    for path, size in zip(paths, part.images.size.tolist()):
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert list(image.size) == size
            pixels = np.asarray(image)
        assert pixels.dtype == np.uint8
        assert pixels.std() > 30


def test_a_part_of_the_cohort_is_drawn_like_the_whole(cohort: Cohort, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = draw_images(cohort.take(np.array([3, 4])), tmp_path / "a")[1]
    second = draw_images(cohort.take(np.array([4])), tmp_path / "b")[0]
    assert first.read_bytes() == second.read_bytes()


def test_findings_are_visible(cohort: Cohort, tmp_path: Path) -> None:
    """A mass is brighter than the same place of the same chest without it."""
    references = cohort.references
    k = int(references.image[np.flatnonzero(references.label == 1)[0]])
    with_findings = cohort.take(np.array([k]))
    without = with_findings.references.keep(np.zeros(len(with_findings.references), np.bool_))
    healthy = Cohort(with_findings.images, cohort.classes, without, {}, cohort.intake)
    drawn = []
    for name, part in (("a", with_findings), ("b", healthy)):
        (tmp_path / name).mkdir()
        with Image.open(draw_images(part, tmp_path / name)[0]) as image:
            drawn.append(np.asarray(image, np.float64))
    row = int(np.flatnonzero(with_findings.references.label == 1)[0])
    x0, y0, x1, y1 = with_findings.references.boxes[row].astype(int)
    assert drawn[0][y0:y1, x0:x1].mean() > drawn[1][y0:y1, x0:x1].mean() + 10


def test_other_cohorts_cannot_be_drawn(tmp_path: Path) -> None:
    other = random_cohort(2, 1, seed=0)
    other = other.with_groups({"file_name": np.array(["a.png", "b.png"])})
    with pytest.raises(UsageError, match="demo cohorts"):
        draw_images(other, tmp_path)
