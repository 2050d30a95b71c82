"""Runways and endoscopy frames: what was planted is what is there, and OOD and OMS disagree as
announced.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from calipers.errors import UsageError
from calipers.monitors.baselines import baseline, picture_features
from calipers.synthetic.runways import MONITORS, endoscopy_cohort, runway_cohort

MAKERS = {"runways": runway_cohort, "endoscopy": endoscopy_cohort}
MADE = {name: make(1200, seed=4) for name, make in MAKERS.items()}
pytestmark = pytest.mark.parametrize("name", MAKERS)


def auroc(alarm, positive):
    ranks = rankdata(alarm)
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (~positive).sum())


def overlaps(a, b):
    common = np.clip(
        np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2]),
        0,
        None,
    )
    inter = common.prod(axis=2)
    area = [(c[:, 2:] - c[:, :2]).prod(axis=1) for c in (a, b)]
    return inter / (area[0][:, None] + area[1][None, :] - inter)


def micro_f1(cohort, k):
    """F1 of an image over all classes, by hand: no object touches another, so pairs are plain."""
    references, found = cohort.references, cohort.models["detector"]
    mine, theirs = (slice(*table.offsets[k : k + 2]) for table in (references, found))
    pairs = overlaps(references.boxes[mine], found.boxes[theirs]) >= 0.5
    pairs &= references.label[mine][:, None] == found.label[theirs][None, :]
    assert (pairs.sum(axis=0) <= 1).all()
    assert (pairs.sum(axis=1) <= 1).all()
    return 2 * pairs.sum() / sum(pairs.shape)


def test_failures_are_the_images_with_a_low_score(name):
    made = MADE[name]
    score = np.array([micro_f1(made.cohort, k) for k in range(made.cohort.n_images)])
    assert (score[made.columns["fails"]] == 0).all()
    assert (score[~made.columns["fails"]] >= 2 / 3).all()


def test_hits_have_a_high_overlap(name):
    made = MADE[name]
    best = []
    for k in np.flatnonzero(~made.columns["fails"])[:200].tolist():
        part = made.cohort.take(np.array([k]))
        best += overlaps(part.references.boxes, part.models["detector"].boxes).max(axis=1).tolist()
    assert min(best) >= 0.8


def test_rates_of_failure_are_the_planted_ones(name):
    columns = MADE[name].columns
    for shift in (
        "none",
        "sky" if name == "runways" else "tint",
    ):  # usual images and harmless shifts
        easy, hard = (
            (columns["shift"] == shift) & (columns["hard"] == flag) for flag in (False, True)
        )
        assert columns["fails"][easy].mean() == pytest.approx(0.035, abs=0.035)
        assert columns["fails"][hard].mean() == pytest.approx(0.45, abs=0.17)
    fog = columns["fails"][columns["shift"] == "fog"].mean()
    assert fog > 2 * columns["fails"][columns["shift"] == "none"].mean()


def test_shares_are_exact(name):
    columns = MADE[name].columns
    assert columns["ood"].sum() == 600
    assert ((columns["shift"] == "none") == ~columns["ood"]).all()


def test_only_usual_images_are_for_fitting(name):
    made = MADE[name]
    assert not made.columns["ood"][made.split("fit")].any()
    for split in ("tuning", "test"):
        assert 0.3 < made.columns["ood"][made.split(split)].mean() < 0.8
    with pytest.raises(UsageError, match="tuning"):
        made.split("training")


@pytest.mark.parametrize("monitor", MONITORS)
def test_monitors_are_as_good_as_announced(name, monitor):
    made = MADE[name]
    for paradigm, column in (("ood", "ood"), ("oms", "fails")):
        found = auroc(made.alarms[monitor], made.columns[column])
        assert found == pytest.approx(made.expected_auroc(monitor, paradigm), abs=0.05)


def test_the_two_paradigms_rank_the_monitors_differently(name):
    made = MADE[name]
    for images in (None, made.split("test")):
        ood = {monitor: made.expected_auroc(monitor, "ood", images) for monitor in MONITORS}
        oms = {monitor: made.expected_auroc(monitor, "oms", images) for monitor in MONITORS}
        assert max(ood, key=ood.get) == "shift-detector"
        assert max(oms, key=oms.get) == "failure-predictor"
        assert oms["failure-predictor"] > oms["shift-detector"] + 0.2


def test_no_positives_have_no_expectation(name):
    made = MADE[name]
    assert np.isnan(made.expected_auroc("random", "ood", made.split("fit")))
    with pytest.raises(UsageError, match="paradigms"):
        made.expected_auroc("random", "mood")


def test_a_seed_determines_everything(name):
    one, same, other = (MAKERS[name](40, seed=seed) for seed in (7, 7, 8))
    assert (
        one.cohort.models["detector"].boxes.tolist()
        == same.cohort.models["detector"].boxes.tolist()
    )
    assert (one.pictures[3] == same.pictures[3]).all()
    assert one.alarms["random"].tolist() == same.alarms["random"].tolist()
    assert one.cohort.references.boxes.tolist() != other.cohort.references.boxes.tolist()


def test_an_image_does_not_depend_on_how_many_there_are(name):
    few, many = (MAKERS[name](n, seed=7).cohort.references for n in (20, 60))
    assert few.boxes.tolist() == many.span(0, 20).boxes.tolist()


def test_pictures_come_on_demand(name):
    made = MAKERS[name](5, seed=0)
    assert len(made.pictures) == 5
    assert len(made.pictures[1:3]) == 2
    assert (made.pictures[-1] == made.pictures[4]).all()
    assert made.pictures[0].dtype == np.uint8
    with pytest.raises(IndexError):
        made.pictures[5]


def test_pictures_show_the_shifts(name):
    made = MAKERS[name](160, seed=3)
    features = picture_features(made.cohort, made.pictures)
    for monitor in ("image-mahalanobis", "image-knn"):
        alarm = baseline(monitor, made.cohort, images=features, fit=made.split("fit"))
        seen = ~made.split("fit") & ~np.isin(made.columns["shift"], ["taxiway", "new-class"])
        assert auroc(alarm[seen], made.columns["ood"][seen]) > 0.95


def test_the_highest_score_says_more_of_failures_than_of_shifts(name):
    made = MADE[name]
    alarm = baseline("max-score", made.cohort)
    assert auroc(alarm, made.columns["fails"]) > 0.9 > 0.65 > auroc(alarm, made.columns["ood"])


def test_bad_requests_are_refused(name):
    with pytest.raises(UsageError, match="at least one"):
        MAKERS[name](0)
