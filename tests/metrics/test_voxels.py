"""Metrics on maps by hand: every measure at every level, every empty case,
and what they claim on discs.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.metrics.maps import MapRecipe, Measure
from calipers.synthetic.volumes import Disc, labelled
from map_cases import KINDS, disc_sample, every_level, map_protocol, values_of

E = 1e-5


def evaluated(
    samples: Any, metrics: dict[str, dict[str, Any]] | None = None, **settings: Any
) -> cal.Evaluation:
    protocol = map_protocol(metrics or every_level(), **{"batch": 2, **settings})
    return cal.evaluate_maps(samples, protocol, ci=False)


def two_samples() -> list[dict[str, Any]]:
    """Four voxels each: scores 4 3 2 1 with the first and third to be found,
    and 4 2 1 1 with the second.
    """
    first = {"map": np.array([[0.8, 0.6], [0.4, 0.2]]), "labels": np.array([[1, 0], [1, 0]])}
    second = {"map": np.array([[0.8, 0.4], [0.2, 0.2]]), "labels": np.array([[0, 1], [0, 0]])}
    return [{**first, "name": "a"}, {**second, "name": "b"}]


def test_average_precision_by_hand() -> None:
    found = values_of(evaluated(two_samples()))
    # a: 1/1 at 0.8, 2/3 at 0.4. b: 1/2 at 0.4.
    assert found["AP/sample"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2) / 2)
    # Together 0.8 has one of each, 0.6 a false one, and 0.4 two more to be found: 1/2, and twice
    # 3/5.
    assert found["AP/dataset"] == pytest.approx((1 / 2 + 2 * 3 / 5) / 3)
    assert found["AP/slice"] == found["AP/sample"]
    assert found["AP/batch"] == pytest.approx(found["AP/dataset"])


def test_auroc_by_hand() -> None:
    found = values_of(evaluated(two_samples()))
    # a: of 4 pairs 3 are right. b: of 3 pairs 2 are.
    assert found["AUROC/sample"] == pytest.approx((3 / 4 + 2 / 3) / 2)
    # Positives 0.8 0.4 0.4; negatives 0.8 0.6 0.2 0.2 0.2: 4.5 + 3 + 3 of 15.
    assert found["AUROC/dataset"] == found["AUROC/batch"] == pytest.approx(10.5 / 15)


def test_dice_and_iou_by_hand() -> None:
    found = values_of(evaluated(two_samples()))
    # a is best from 0.4 on: 2 hits, 1 false: 4/5. b is best from 0.4 on: 1 hit, 1 false: 2/3.
    assert found["Dice/sample"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert found["IoU/sample"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    # Together from 0.4 on: 3 hits, 2 false.
    assert found["Dice/dataset"] == found["Dice/batch"] == pytest.approx(6 / 8)
    assert found["IoU/dataset"] == found["IoU/batch"] == pytest.approx(3 / 5)
    # At 0.5 a has 1 hit and 1 false of 2, b has 1 false of 1.
    assert found["Dice/sample@0.5"] == pytest.approx((1 / 2 + 0) / 2)
    assert found["IoU/sample@0.5"] == pytest.approx((1 / 3 + 0) / 2)
    assert found["Dice/dataset@0.5"] == found["Dice/batch@0.5"] == pytest.approx(2 / 6)
    assert found["IoU/dataset@0.5"] == found["IoU/batch@0.5"] == pytest.approx(1 / 5)
    # With at most 0.2 of the negatives called: a none (only 0.8 is above 0.6), b none; together one
    # of five: 0.8.
    assert found["Dice/sample@fpr:0.2"] == pytest.approx((2 / 3 + 0) / 2)
    assert found["Dice/dataset@fpr:0.2"] == found["Dice/batch@fpr:0.2"] == pytest.approx(2 / 5)
    assert found["IoU/dataset@fpr:0.2"] == pytest.approx(1 / 4)


def test_aupro_by_hand() -> None:
    """One region of two voxels: half of it before any false voxel, half of it after one of two."""
    sample = {"map": np.array([[0.8, 0.6], [0.4, 0.2]]), "labels": np.array([[1, 0], [1, 0]])}
    found = values_of(evaluated([sample]))
    # The overlap is 1/2 up to a rate of 1/2, then 1: it jumps there, because no false voxel ties
    # with 0.4.
    assert found["AUPRO/dataset"] == found["AUPRO/sample"] == pytest.approx(0.5)
    assert found["AUPRO-all/dataset"] == pytest.approx(0.5 * 0.5 + 0.5 * 1.0)


def test_aupro_gives_every_region_the_same_weight() -> None:
    labels = np.zeros((12, 12), np.uint8)
    labels[:5, :5] = 1
    labels[10, 10] = 1
    found = values_of(evaluated([((labels > 0) * (np.arange(12) < 8) * 1.0, labels)]))
    # The large one is found, the small one only at the last score, with everything else: a ramp
    # from 1/2 to 1.
    assert found["AUPRO-all/dataset"] == pytest.approx(0.75)
    assert found["AUPRO/dataset"] == pytest.approx(0.5 + 0.5 * 0.3 / 2)


def test_slices_by_hand() -> None:
    """Three slices along z: 1, 1/2, and one without anything to find;
    cut along x there is another mean.
    """
    labels, scores = np.zeros((3, 2, 2), np.uint8), np.zeros((3, 2, 2))
    labels[0, 0, 0] = labels[1, 0, 0] = 1
    scores[0, 0, 0], scores[1, 0, 0], scores[1, 0, 1], scores[2] = 0.9, 0.5, 0.7, 0.3
    found = values_of(evaluated([(scores, labels)]))
    assert found["AP/slice"] == pytest.approx((1 + 1 / 2) / 2)
    # Along x the first slice holds 0.9 and 0.5 against 0.3 and 0, the second has nothing to find.
    assert values_of(evaluated([(scores, labels)], slices="x"))["AP/slice"] == 1.0
    assert found["AP/sample"] == pytest.approx((1 + 2 / 3) / 2)


def test_batches_by_hand() -> None:
    """Three samples in batches of two: the last one is a batch of its own,
    and batches weigh alike.
    """
    good = {"map": np.array([[0.9, 0.1]]), "labels": np.array([[1, 0]])}
    bad = {"map": np.array([[0.1, 0.9]]), "labels": np.array([[1, 0]])}
    found = values_of(
        evaluated([{**s, "name": n} for s, n in ((good, "a"), (bad, "b"), (bad, "c"))])
    )
    # First batch: 0.9 has one of each, 0.1 too: AP 1/2. Second: 1/2.
    assert found["AP/batch"] == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert found["AUROC/batch"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["Dice/batch@0.5"] == pytest.approx((2 / 4 + 0) / 2)


def test_a_mean_over_samples_leaves_out_what_has_no_value_and_says_so() -> None:
    healthy = {
        "map": np.array([[0.9, 0.1], [0.0, 0.0]]),
        "labels": np.zeros((2, 2), int),
        "name": "c",
    }
    evaluation = evaluated([*two_samples(), healthy])
    alone, found = values_of(evaluated(two_samples())), values_of(evaluation)
    for name in (
        "AP/sample",
        "AUROC/sample",
        "Dice/sample",
        "IoU/sample@0.5",
        "AUPRO/sample",
        "AP/slice",
        "Dice/slice",
    ):
        assert found[name] == alone[name]
    assert any(
        "AP/sample" in warning and "1 of 3 samples" in warning for warning in evaluation.warnings
    )
    assert found["AP/dataset"] < alone["AP/dataset"]  # the false voxel counts there
    assert found["Dice/dataset@0.5"] < alone["Dice/dataset@0.5"]


NOTHING = np.zeros((4, 4), np.uint8)
SOMETHING = np.pad(np.ones((2, 2), np.uint8), 1)


def test_without_anything_to_find() -> None:
    """Voxels have no value, whatever is called; F1 is 1 if nothing is, 0 else;
    the soft IoU says how much is.
    """
    for scores, f1, soft in ((NOTHING * 0.0, 1.0, 1.0), (SOMETHING * 1.0, 0.0, E / (0.5 * 4 + E))):
        evaluation = evaluated([(scores, NOTHING)])
        found = values_of(evaluation)
        for name, options in every_level().items():
            if options["kind"] in (*KINDS.values(), "aupro"):
                assert math.isnan(found[name]), name
                assert evaluation[name].reason == "no_references"
        assert found["F1@0.5"] == found["F1@0.01"] == f1
        assert found["softIoU"] == pytest.approx(soft)


def test_without_any_prediction() -> None:
    """All voxels are tied at 0: they are one operating point, at which everything is called."""
    found = values_of(evaluated([(NOTHING * 0.0, SOMETHING)]))
    share = 4 / 16
    for level in ("dataset", "sample", "slice", "batch"):
        assert found[f"AP/{level}"] == share
        assert found[f"AUROC/{level}"] == 0.5
        assert found[f"Dice/{level}"] == pytest.approx(2 * share / (1 + share))
        assert found[f"Dice/{level}@0.5"] == found[f"IoU/{level}@0.5"] == 0.0
        assert found[f"Dice/{level}@fpr:0.2"] == 0.0
    assert found["AUPRO-all/dataset"] == pytest.approx(0.5)
    assert found["AUPRO/dataset"] == pytest.approx(0.15)  # a ramp to 0.3, over 0.3
    assert found["F1@0.5"] == 0.0
    assert found["softIoU"] == pytest.approx(E / (0.5 * 4 + E))


def test_a_constant_map_ranks_nothing_and_is_told() -> None:
    evaluation = evaluated([(np.full((4, 4), 0.7), SOMETHING)])
    found = values_of(evaluation)
    assert found["AP/dataset"] == found["AP/sample"] == 0.25
    assert found["AUROC/dataset"] == 0.5
    assert found["Dice/dataset@0.5"] == pytest.approx(2 * 4 / (16 + 4))
    assert found["F1@0.01"] == 1.0  # one object that covers all
    assert any("1 of 1 maps has one score everywhere" in warning for warning in evaluation.warnings)


def test_everything_is_to_be_found() -> None:
    """There is nothing that could be called falsely: no rate of it,
    no area under a curve over it.
    """
    evaluation = evaluated([(np.array([[0.9, 0.2]]), np.ones((1, 2), int))])
    found = values_of(evaluation)
    assert found["AP/dataset"] == found["Dice/dataset"] == found["IoU/sample"] == 1.0
    assert found["Dice/dataset@0.5"] == pytest.approx(2 / 3)
    for name in (
        "AUROC/dataset",
        "AUROC/sample",
        "AUPRO/dataset",
        "AUPRO/sample",
        "Dice/dataset@fpr:0.2",
    ):
        assert math.isnan(found[name])
        assert evaluation[name].reason == "single_category"


def test_a_perfect_map_is_perfect() -> None:
    evaluation = evaluated([(SOMETHING * 1.0, SOMETHING), (np.eye(4), np.eye(4, dtype=int))])
    for name, value in values_of(evaluation).items():
        if name == "softIoU/printed":
            assert value == pytest.approx(0.3 / (1.5 - 0.3))
        elif "fpr" in name:  # 20 % of the other voxels may be called, and are tied at 0: none is
            assert value == 1.0, name
        else:
            assert value == pytest.approx(1.0), name


@pytest.mark.parametrize(
    ("variant", "alpha", "value"),
    [
        ("tversky", 0.5, (1.5 + E) / (0.5 * 1.9 + 0.5 * 2 + E)),
        ("tversky", 0.2, (1.5 + E) / (0.2 * 1.9 + 0.8 * 2 + E)),
        ("jaccard", 0.5, (1.5 + E) / (1.5 + 0.4 + 0.5 + E)),
        ("jaccard", 0.2, (1.5 + E) / (1.5 + 0.4 * 0.4 + 1.6 * 0.5 + E)),
        ("printed", 0.5, 0.5 * 1.5 / (0.5 * 1.9 + 0.5 * 2)),
    ],
)
def test_soft_iou_by_hand(variant: str, alpha: float, value: float) -> None:
    """An object of two voxels scored 0.9 and 0.6, the background sums up to 0.4,
    another object is left out.
    """
    labels = np.array([[1, 1, 0, 0], [0, 0, 0, 2]])
    scores = np.array([[0.9, 0.6, 0.3, 0.0], [0.1, 0.0, 0.0, 0.7]])
    metrics = {"m": {"kind": "soft-instance-iou", "variant": variant, "alpha": alpha}}
    alone = np.where(labels == 2, 0, labels), np.where(labels == 2, 0.0, scores)
    assert float(evaluated([alone[::-1]], metrics)["m"]) == pytest.approx(value)
    found = cal.evaluate_maps(
        [(scores, labels)], map_protocol(metrics), labels="instances", ci=False
    )
    other = cal.soft_instance_iou(np.where(labels == 1, 0.0, scores), labels == 2, alpha, variant)
    assert float(found["m"]) == pytest.approx((value + other) / 2)
    assert float(found["m"]) == pytest.approx(cal.soft_instance_iou(scores, labels, alpha, variant))


def test_reasons_are_given_exactly_where_values_are_undefined() -> None:
    cohort = evaluated([(NOTHING * 0.0, NOTHING), (SOMETHING * 0.5, SOMETHING)]).cohort
    for images in ([0], [1], [0, 1], []):
        part = cohort.take(np.array(images, np.int64))
        for metric in map_protocol(every_level(), batch=2).compile():
            if not isinstance(metric.recipe, MapRecipe):
                continue
            evidence = metric.recipe.collect(part, "model")
            value = metric.value(evidence, np.ones((1, len(images)), np.int64))[0]
            assert set(metric.reasons(evidence)) == {
                (0, k) for _, k in np.argwhere(np.isnan(value)).tolist()
            }


def test_identifiers_tell_definitions_apart() -> None:
    rows = {row.metric: row.metric_id for row in evaluated(two_samples()).rows}
    assert rows["AP/dataset"] == "voxel-ap.dataset@1"
    assert rows["AUROC/slice"] == "voxel-auroc.slice@1"
    assert rows["Dice/sample"] == "voxel-dice.sample.best@1"
    assert rows["IoU/dataset@0.5"] == "voxel-iou.dataset.threshold@1"
    assert rows["Dice/dataset@fpr:0.2"] == "voxel-dice.dataset.fpr@1"
    assert rows["softIoU/jaccard"] == "soft-instance-iou.jaccard@1"


def test_metrics_on_maps_need_maps() -> None:
    with pytest.raises(cal.UsageError, match="evaluate_maps"):
        cal.evaluate(cal.demo_cohort(), "anomaly")
    cohort = evaluated(two_samples(), {"AP/dataset": {"kind": "voxel-average-precision"}}).cohort
    with pytest.raises(cal.UsageError, match="was not measured when the maps were read"):
        cal.evaluate(cohort, map_protocol(every_level()))
    assert Measure("AP").key == "AP/dataset"


# The claims of the controlled study, on discs.

PLACES = [
    (12.5, 12.5),
    (50.5, 12.5),
    (12.5, 50.5),
    (50.5, 50.5),
    (31.5, 31.5),
    (31.5, 6.5),
    (6.5, 31.5),
    (57.5, 31.5),
]
DISCS = [Disc(place, 5.0) for place in PLACES]
STUDY = (
    "softIoU",
    "AP/dataset",
    "AP/sample",
    "AUROC/dataset",
    "Dice/dataset",
    "F1@0.5",
    "F1@0.01",
    "F1@centre",
)


def studied(samples: list[dict[str, Any]]) -> dict[str, float]:
    metrics = {**every_level(), "F1@centre": {"kind": "instance-f1", "criterion": "point-in-hull"}}
    return values_of(evaluated(samples, metrics))


def test_small_objects_gained_at_the_price_of_large_ones() -> None:
    """(a) Large objects lose as many of their outermost voxels as small ones gain:
    soft IoU rises, AP and AUROC not.
    """
    shape = (64, 64)
    large, small = (
        [Disc((16.5, 16.5), 9.0), Disc((46.5, 16.5), 9.0)],
        [Disc((10 + 14 * k, 48.5), 3.0) for k in range(4)],
    )
    labels = (labelled([*large, *small], shape) > 0).astype(np.uint8)
    y, x = np.mgrid[:64, :64] + 0.5
    found = []
    for n in range(5):
        said = labelled(large, shape) > 0
        gained = labelled(small[:n], shape) > 0
        away = np.min([np.hypot(x - d.centre[0], y - d.centre[1]) for d in large], axis=0)
        rim = np.argsort(np.where(said, away, -1.0), axis=None, kind="stable")[::-1][: gained.sum()]
        said.reshape(-1)[rim] = False
        found.append(studied([{"map": (said | gained) * 1.0, "labels": labels}]))
    for before, after in pairwise(found):
        assert after["softIoU"] > before["softIoU"]
        for name in ("AP/dataset", "AUROC/dataset"):
            assert after[name] <= before[name] + 1e-12
        assert after["F1@0.01"] > before["F1@0.01"]


def test_size_has_its_peak_at_the_truth() -> None:
    """(b) F1 at 0.01 and by centre are flat until discs touch."""
    radii = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    discs = [Disc(place, 5.0) for place in PLACES[:5]]
    found = {r: studied([disc_sample(discs, [Disc(d.centre, r) for d in discs])]) for r in radii}
    for name in ("softIoU", "AP/dataset", "AP/sample", "Dice/dataset", "Dice/dataset@0.5"):
        values = [found[r][name] for r in radii]
        assert max(values) == values[radii.index(5.0)] == pytest.approx(1.0), name
        assert values[:4] == sorted(values[:4])
        assert values[3:] == sorted(values[3:], reverse=True)
    for name in ("F1@0.01", "F1@centre"):
        assert {found[r][name] for r in radii} == {1.0}
    touching = studied([disc_sample(discs, [Disc(d.centre, 25.0) for d in discs])])
    assert touching["F1@0.01"] < 1.0
    assert touching["F1@centre"] < 1.0


@pytest.mark.parametrize("n", [1, 2, 3])
def test_false_discs_of_the_size_of_objects(n: int) -> None:
    """(c) With k of them the soft IoU is 1 / (1 + k / 2), and AP is n / (n + k)."""
    for k in range(5):
        found = studied([disc_sample(DISCS[:n], DISCS[: n + k])])
        assert found["softIoU"] == pytest.approx(1 / (1 + k / 2), abs=1e-6)
        assert found["AP/dataset"] == found["AP/sample"] == pytest.approx(n / (n + k))
        assert found["F1@0.5"] == pytest.approx(2 * n / (2 * n + k))


def test_missed_objects() -> None:
    """(d) Soft IoU and F1 fall, and so does AP per sample."""
    found = [studied([disc_sample(DISCS[:4], DISCS[: 4 - k])]) for k in range(4)]
    for name in ("softIoU", "F1@0.5", "AP/dataset", "AP/sample", "Dice/dataset"):
        values = [one[name] for one in found]
        assert values == sorted(values, reverse=True), name
        assert values[-1] < values[0]
    assert [one["softIoU"] for one in found] == pytest.approx([1, 0.75, 0.5, 0.25], abs=1e-5)


def test_empty_samples() -> None:
    """(e) From a baseline with one of four objects missed: only soft IoU and F1 per sample rise,
    data-set AP falls.
    """
    base = [disc_sample(DISCS[:4], DISCS[:3], name=f"s{k}") for k in range(3)]
    healthy = [disc_sample([], [], name=f"h{k}") for k in range(3)]
    before, after = studied(base), studied([*base, *healthy])
    for name in ("softIoU", "F1@0.5", "F1@0.01", "F1@centre"):
        assert after[name] == pytest.approx((before[name] + 1) / 2), name
    assert after["AP/dataset"] < before["AP/dataset"]
    for name in (
        "AP/sample",
        "AUROC/sample",
        "AP/slice",
        "Dice/sample",
        "Dice/dataset",
        "Dice/dataset@0.5",
    ):
        assert after[name] == before[name], name
    pooled = {"F1": {"kind": "instance-f1", "average": "pooled", "thresholds": 0.5}}
    assert values_of(evaluated(base, pooled)) == values_of(evaluated([*base, *healthy], pooled))
