"""What the demo is meant to show: average precision and RoDeO rank the same models the other way
round.
"""

from __future__ import annotations

import pytest

import calipers as cal
from calipers.synthetic.demo import demo_cohort


@pytest.mark.parametrize("seed", range(6))
def test_two_metrics_tell_two_stories(seed: int) -> None:
    cohort = demo_cohort(seed)
    coco = cal.evaluate(cohort, protocol="coco", ci=False)
    rodeo = cal.evaluate(cohort, protocol="rodeo", ci=False)
    ap = {model: coco[model, "AP"].value for model in cohort.models}
    total = {model: rodeo[model, "RoDeO"].value for model in cohort.models}
    assert sorted(ap, key=ap.__getitem__) == ["mislabels", "misses-small", "overpredicts"]
    assert sorted(total, key=total.__getitem__) == ["overpredicts", "misses-small", "mislabels"]
    assert rodeo["mislabels", "RoDeO/loc"].value > 0.85
    assert rodeo["mislabels", "RoDeO/shape"].value > 0.8
    assert rodeo["mislabels", "RoDeO/cls"].value < 0.6
    assert coco["misses-small", "APl"].value > 0.7
    assert coco["misses-small", "APs"].value < 0.2
