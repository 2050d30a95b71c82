"""Figures of maps go through the estimates, and their titles say what the numbers say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.figures_maps import sizes_of, softness
from calipers.show.figures import Curves, Forest, Scatter
from calipers.synthetic.volumes import demo_samples
from evaluated import evaluated_demo

QUICK = replace(cal.Protocol.load("anomaly"), replicates=100)


@pytest.fixture(scope="module")
def evaluation() -> cal.Evaluation:
    return cal.evaluate_maps(list(demo_samples(16, size=32)), QUICK)


def discs(soft: dict[int, float]) -> list[dict[str, object]]:
    """Samples with a small and a large square each, whose voxels are scored as ``soft`` says by
    their side.
    """
    found = []
    for k in range(12):
        labels, scores = np.zeros((40, 40), int), np.zeros((40, 40))
        for side, at in ((3, 2), (12, 20)):
            labels[at : at + side, at : at + side] = 1
            scores[at : at + side, at : at + side] = soft[side] - 0.01 * (k % 4)
        found.append({"map": scores, "labels": labels, "patient": f"p{k}"})
    return found


def test_the_roc_curve_has_a_band_and_marks(evaluation: cal.Evaluation) -> None:
    found = evaluation.figure("voxel-roc")
    assert isinstance(found, Curves)
    assert found.x.log
    assert (found.x.low, found.x.high) == (pytest.approx(1e-4), 1.0)
    for line in found.lines:
        assert (np.diff(line.y) >= -1e-12).all()
        assert line.low is not None
        assert line.high is not None
        assert (line.low <= line.y + 1e-12).all()
        assert (line.y <= line.high + 1e-12).all()
        np.testing.assert_allclose(line.x[list(line.marks)], [1e-4, 1e-3, 1e-2, 1e-1, 1.0])
    assert len(found.table().rows) == 10
    assert found.title.startswith("At one false voxel in 1,000, sharp finds")
    assert "voxels belong to references" in found.note


def test_the_mean_precision_is_the_average_precision(evaluation: cal.Evaluation) -> None:
    for line in evaluation.figure("voxel-pr").lines:  # type: ignore[attr-defined]
        assert line.y.mean() == pytest.approx(evaluation[line.name, "AP/dataset"].value, abs=0.01)


def test_models_keep_their_place_in_the_theme(evaluation: cal.Evaluation) -> None:
    for name in ("voxel-roc", "voxel-pr"):
        assert [line.slot for line in evaluation.figure(name, models=["diffuse"]).lines] == [1]  # type: ignore[attr-defined]
    assert evaluation.figure("levels", models=["diffuse"]).slots == (1,)  # type: ignore[attr-defined]
    assert evaluation.figure("soft-sizes", models=["diffuse"]).dots[0].slot == 1  # type: ignore[attr-defined]


def test_every_reference_is_a_dot_whose_mean_per_sample_is_the_metric(
    evaluation: cal.Evaluation,
) -> None:
    found = evaluation.figure("soft-sizes")
    assert isinstance(found, Scatter)
    references = evaluation.cohort.references
    for dots in found.dots:
        assert len(dots.x) == len(references)
        assert dots.quiet
    np.testing.assert_allclose(found.dots[0].x, references.area * 2.0)  # voxels of 1 x 1 x 2 mm
    assert found.x.label == "volume of the reference (mm³)"
    assert [row[1] for row in found.table().rows[:2]] == ["S001", "S001"]


def test_sizes_are_pixels_where_a_spacing_is_unknown() -> None:
    given = [replace(sample, spacing=None) for sample in demo_samples(3, 2, 32)]
    found = cal.evaluate_maps(given, QUICK, ci=False)
    size, unit = sizes_of(found.cohort)
    assert unit == "pixels"
    assert (size == found.cohort.references.area).all()


def test_the_title_says_that_small_objects_are_worse_only_if_they_are() -> None:
    worse = cal.evaluate_maps(discs({3: 0.2, 12: 0.9}), QUICK)
    assert worse.figure("soft-sizes").title.startswith("Small lesions are localised worse")
    found = softness(worse)
    assert found is not None
    same = replace(
        worse.cohort.references,
        facts={**worse.cohort.references.facts, _key(worse): np.full(24, 0.5)},
    )
    alike = replace(worse, cohort=replace(worse.cohort, references=same))
    told = alike.figure("soft-sizes").title
    assert told.startswith("No effect of size is shown")


def test_sizes_are_split_where_most_objects_have_the_largest() -> None:
    samples = discs({3: 0.2, 12: 0.9})
    for k, sample in enumerate(samples):
        if k % 3:  # two thirds have no small square
            sample["labels"][2:5, 2:5] = 0
    mostly_large = cal.evaluate_maps(samples, QUICK, ci=False).figure("soft-sizes").title
    assert "one size" not in mostly_large
    assert "against" in mostly_large
    for sample in samples:
        sample["labels"][2:5, 2:5] = 0
    equal = cal.evaluate_maps(samples, QUICK, ci=False).figure("soft-sizes").title
    assert equal == "All lesions have one size"


def _key(evaluation: cal.Evaluation) -> str:
    return next(name for name in evaluation.cohort.references.facts if name.startswith("softIoU"))


def test_few_patients_prove_nothing_about_sizes() -> None:
    found = cal.evaluate_maps(discs({3: 0.2, 12: 0.9})[:3], QUICK)
    assert found.figure("soft-sizes").title.startswith("No effect of size is shown")


def test_levels_stand_below_each_other_with_what_is_behind_them(evaluation: cal.Evaluation) -> None:
    found = evaluation.figure("levels")
    assert isinstance(found, Forest)
    names = [row.name for row in found.rows]
    assert names[:3] == ["AP, all voxels", "AP, mean of samples", "AP, mean of slices"]
    assert found.rows[0].marks[0].value == evaluation["sharp", "AP/dataset"].value
    assert [row.n for row in found.rows[:2]] == [
        "",
        str((np.diff(evaluation.cohort.references.offsets) > 0).sum()),
    ]
    assert "depends on the level" in found.title


def test_what_is_missing_is_said() -> None:
    boxes = evaluated_demo("overview", ci=False)
    for name in ("voxel-roc", "voxel-pr", "soft-sizes", "levels"):
        with pytest.raises(cal.UsageError, match="needs maps"):
            boxes.figure(name)
    plain = QUICK.only(["AP/dataset"])
    found = cal.evaluate_maps(list(demo_samples(2, 2, 32)), plain, ci=False)
    with pytest.raises(cal.UsageError, match="several levels"):
        found.figure("levels")
    with pytest.raises(cal.UsageError, match="soft IoU"):
        found.figure("soft-sizes")


def test_without_references_the_curves_say_so() -> None:
    healthy = [replace(s, labels=np.zeros_like(s.labels)) for s in demo_samples(6, 2, 32)]
    found = cal.evaluate_maps(healthy, QUICK)
    assert found.figure("voxel-roc").title == "There is nothing to find: no references"
    assert found.figure("voxel-pr").title == "There is nothing to find: no references"
