"""What must be known of numbers on maps is said: what has no value, what is counted in bins,
what misleads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.warnings import bounds_of, faint_scores
from calipers.kernels import voxel_ranking
from calipers.maps import examine
from calipers.synthetic.volumes import demo_samples
from evaluated import evaluated_demo

QUICK = replace(cal.Protocol.load("anomaly"), replicates=100)


def warned(samples: object, protocol: cal.Protocol = QUICK) -> tuple[str, ...]:
    return cal.evaluate_maps(samples, protocol, ci=False).warnings


def test_samples_and_slices_without_references_are_counted() -> None:
    samples = list(demo_samples(8, size=32))
    healthy = sum(not sample.labels.any() for sample in samples)
    empty = sum(int((~sample.labels.any(axis=(1, 2))).sum()) for sample in samples)
    found = warned(samples)
    rest = f"the mean is over the other {8 - healthy}"
    assert (
        f"AP/sample, AUROC/sample: {healthy} of 8 samples have no references and no value; {rest}."
        in found
    )
    slices = (
        f"AP/slice: {empty} of 256 slices have no references and no value; the mean is over the "
        f"other {256 - empty}."
    )
    assert slices in found


def test_nothing_is_said_if_all_have_a_value() -> None:
    samples = [sample for sample in demo_samples(8, 2, 32) if sample.labels.any()]
    assert not any("no value" in warning for warning in warned(samples))


def test_values_that_are_counted_in_bins_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = list(demo_samples(4, 2, 64))
    exact = cal.evaluate_maps(samples, QUICK, ci=False)
    assert not any("bins" in warning for warning in exact.warnings)
    monkeypatch.setattr(examine, "MOST_BYTES", 1)
    binned = cal.evaluate_maps(samples, QUICK, ci=False)
    for model in binned.models:
        labels = np.concatenate([sample.labels.ravel() for sample in samples]) != 0
        scores = np.concatenate([sample.maps[model].ravel() for sample in samples])
        real = voxel_ranking.ranking_figures(voxel_ranking.sides(scores, labels))
        low, high = bounds_of(binned.cohort.maps[model])["AP"]
        assert low - 1e-12 <= float(real.ap[0]) <= high + 1e-12
        said = (
            f"AP/dataset of {model} is counted in bins: the exact value lies in [{low:.6f}, "
            f"{high:.6f}]."
        )
        assert (said in binned.warnings) == (high - low > 1e-6)
    assert bounds_of(exact.cohort.maps["sharp"]) == {}


def test_maps_of_one_score_are_counted() -> None:
    labels = np.eye(8, dtype=int)
    samples = [(np.full((8, 8), 0.3) if k < 2 else 0.1 + 0.5 * labels, labels) for k in range(5)]
    rest = "their AUROC is 0.5 and their AP the share of reference voxels."
    assert f"model: 2 of 5 maps have one score everywhere; {rest}" in warned(samples)


def test_faint_scores_everywhere_are_pointed_out() -> None:
    labels = np.zeros((64, 64), int)
    labels[:4, :4] = 1
    faint, clear = np.where(labels, 0.9, 0.05), 0.9 * labels
    assert any(
        "lies in voxels scored below 0.1" in warning for warning in warned([(faint, labels)])
    )
    assert not any("scored below" in warning for warning in warned([(clear, labels)]))
    low, whole = faint_scores(
        cal.evaluate_maps([(faint, labels)], ci=False).cohort.maps["model"].histograms
    )
    assert low == pytest.approx(0.05 * (64 * 64 - 16))
    assert whole == pytest.approx(low)


def test_thresholds_that_were_found_are_told_with_their_model() -> None:
    assert QUICK.maps is not None
    chosen = replace(QUICK, maps=replace(QUICK.maps, threshold="fpr:0.05"))
    found = [
        said
        for said in warned(list(demo_samples(3, 2, 32)), chosen)
        if "with a score of at least" in said
    ]
    assert [warning.split(":")[0] for warning in found] == [
        "predictions of sharp",
        "predictions of diffuse",
    ]


def test_boxes_get_no_such_warnings() -> None:
    found = evaluated_demo(ci=False).warnings
    assert not any("voxel" in warning or "slice" in warning for warning in found)
