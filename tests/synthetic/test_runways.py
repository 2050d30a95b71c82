"""Runways: one object per image, and the files that are written of them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from calipers.errors import UsageError
from calipers.evaluation.evaluate import evaluate
from calipers.io.read import read
from calipers.monitors.baselines import picture_features
from calipers.monitors.read import read_alarms
from calipers.synthetic.runways import MONITORS, endoscopy_cohort, runway_cohort, write_runways


def test_the_score_of_a_runway_is_that_of_one_object():
    made = runway_cohort(300, seed=2)
    n, hit = np.diff(made.cohort.models["detector"].offsets), ~made.columns["fails"]
    scored = evaluate(made.cohort, "overview", ci=False)
    assert scored["detector", "sensitivity@0.5"].value == hit.mean()
    assert scored["detector", "FP/image@0.5"].value == pytest.approx((n - hit).mean())
    score = np.where(hit, 2 / (n + 1), 0.0)
    assert set(np.round(score, 3)) == {0.0, 0.667, 1.0}


def test_runways_are_written_and_read_back(tmp_path):
    made = runway_cohort(12, seed=5)
    files = write_runways(tmp_path, made)
    assert len(files) == 15
    cohort = read(tmp_path / "lard.csv", tmp_path / "detector.csv")
    assert cohort.intake.files[0].format == "lard"
    assert cohort.images.ids == made.cohort.images.ids
    assert cohort.references.boxes.tolist() == made.cohort.references.boxes.tolist()
    assert cohort.models["detector"].boxes.tolist() == made.cohort.models["detector"].boxes.tolist()
    assert cohort.references.masks is not None
    alarms = read_alarms(tmp_path / "alarms.csv", cohort.images)
    assert alarms.names == MONITORS
    assert alarms.values.tolist() == [values.tolist() for values in made.alarms.values()]
    assert alarms.ood.tolist() == made.columns["ood"].tolist()
    assert alarms.tuning.tolist() == made.split("tuning").tolist()
    assert (np.asarray(Image.open(tmp_path / "images" / "00003.png")) == made.pictures[3]).all()
    found = picture_features(cohort, tmp_path)
    assert found.values.tolist() == picture_features(made.cohort, made.pictures).values.tolist()
    with pytest.raises(UsageError, match="runway cohorts"):
        write_runways(tmp_path, endoscopy_cohort(2))


def test_shares_can_be_chosen():
    made = runway_cohort(40, seed=0, shares={"none": 1, "fog": 3}, far=0.0)
    assert (made.columns["shift"] == "fog").sum() == 30
    assert not made.columns["hard"].any()
    with pytest.raises(UsageError, match="blur"):
        runway_cohort(40, shares={"mist": 1})
