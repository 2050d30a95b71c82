"""The grid: what cannot differ is one configuration, and bad grids are refused with the nearest
name.
"""

from __future__ import annotations

import math
from itertools import product

import pytest

from calipers.errors import UsageError
from calipers.sensitivity.multiverse import DEFAULT, FAMILIES, configurations, default_grid, plan_of
from cases import cohort_of, masked


def number(n_classes: int = 2, **grid: list) -> int:
    return len(configurations(grid, n_classes=n_classes))


def test_the_default_grid_has_479_configurations():
    found = configurations(DEFAULT)
    # 10 places; AP: x 3 interpolations x 2 x 3 cuts; F1: x 3 assignments x (2 averages + 1) x 3
    # cuts; FROC: x 2
    assert len(found) == 180 + 270 + 20 + 9 == 479
    assert found.n_possible == math.prod(map(len, DEFAULT.values()))
    assert found.choices == tuple(DEFAULT)


def test_no_two_configurations_are_equal_and_every_combination_has_one():
    grid = {
        **DEFAULT,
        "threshold": (0.1, 0.5),
        "interpolation": ("coco101", "voc11"),
        "score_cut": ("none", 0.5),
    }
    found = configurations(grid)
    assert len({tuple(one.items()) for one in found.each}) == len(found)
    for values in product(*grid.values()):
        combination = dict(zip(grid, values))
        assert (
            sum(
                one.items() <= combination.items()
                for one in found.each
                if one["metric"] == values[0]
            )
            == 1
        )


@pytest.mark.parametrize("metric", FAMILIES)
def test_a_configuration_has_only_what_its_metric_knows(metric):
    found = configurations({**DEFAULT, "metric": [metric]})
    for one in found.each:
        assert set(one) - {"metric"} <= set(FAMILIES[metric][2])


def test_a_yes_or_no_criterion_has_no_threshold():
    grid = {"metric": ["F1"], "threshold": [0.1, 0.5]}
    assert number(**grid, criterion=["box-iou"]) == 2
    assert number(**grid, criterion=["any-overlap"]) == 1
    assert number(**grid, criterion=["box-iou", "any-overlap", "point-in-box"]) == 4


def test_without_classes_there_is_nothing_to_average():
    assert number(metric=["F1"], classes=["within", "ignore"], average=["pooled", "classes"]) == 3
    assert (
        number(
            metric=["F1"], classes=["within", "ignore"], average=["pooled", "classes"], n_classes=1
        )
        == 1
    )


def test_an_interpolation_matters_to_average_precision_only():
    assert number(metric=["AP", "F1"], interpolation=["coco101", "voc11"]) == 3


def test_masks_bring_their_criteria_into_the_default_grid():
    plain = cohort_of("plain", seed=1, models=2)
    assert default_grid(plain) == dict(DEFAULT)
    criteria = default_grid(masked(plain))["criterion"]
    assert set(criteria) - set(DEFAULT["criterion"]) == {"mask-iou", "point-in-mask"}
    assert criteria[0] == "box-iou"


def test_scores_outside_of_zero_to_one_are_not_cut_by_default():
    from dataclasses import replace

    cohort = cohort_of("plain", seed=1, models=2)
    table = cohort.models["model-1"]
    raw = replace(
        cohort, models={**cohort.models, "model-1": replace(table, score=table.score * 10)}
    )
    unscored = replace(
        cohort, models={n: replace(t, scored=False) for n, t in cohort.models.items()}
    )
    assert default_grid(raw)["score_cut"] == default_grid(unscored)["score_cut"] == ("none",)


def test_the_plan_of_a_configuration_says_the_same():
    one = {
        "metric": "F2",
        "criterion": "iop",
        "threshold": 0.3,
        "score_cut": "none",
        "least_area": 100,
    }
    plan = plan_of(one, "m")
    assert (plan.kind, plan.options["beta"], plan.options["thresholds"]) == ("f-beta", 2, (0.3,))
    assert (plan.options["score_cut"], plan.options["size"]) == (-math.inf, "from 100")
    assert plan_of({"metric": "AP", "criterion": "any-overlap"}, "m").options["thresholds"] == (
        0.5,
    )
    assert "size" not in plan_of({**one, "least_area": 0}, "m").options


def test_a_relative_distance_is_lenient_where_an_overlap_is_small():
    one = {"metric": "F1", "criterion": "centre-distance-relative", "threshold": 0.1}
    assert plan_of(one, "m").options["thresholds"] == (0.9,)


def test_a_metric_may_have_a_threshold_of_its_own():
    """The thresholds of the grid do not touch it; of distances it is the counterpart, too."""
    grid = {"metric": ["AP@0.4", "FROC@0.5"], "criterion": ["box-iou"], "threshold": [0.1, 0.75]}
    each = configurations(grid).each
    assert [one["metric"] for one in each] == ["AP@0.4", "FROC@0.5", "FROC@0.5"]
    assert "threshold" not in each[0]
    assert plan_of(each[0], "m").options["thresholds"] == (0.4,)
    assert plan_of(each[1], "m").options["rates"] == (0.5,)
    distant = {"metric": "F1@0.1", "criterion": "centre-distance-relative"}
    assert plan_of(distant, "m").options["thresholds"] == (0.9,)


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ({"metric": ["F3"]}, "no metric 'F3' in a grid; "),
        ({"metric": ["AP@1.5"]}, "such as AP@0.4"),
        ({"metric": ["RoDeO@0.5"]}, "no metric 'RoDeO@0.5' in a grid"),
        ({"metric": ["AP@"]}, "no metric 'AP@' in a grid"),
        (
            {"metric": ["F1"], "criteria": ["iop"]},
            "no choice 'criteria' in a grid; did you mean 'criterion'",
        ),
        ({"metric": ["F1"], "criterion": ["box-uoi"]}, "did you mean 'box-iou'"),
        ({"metric": ["F1"], "criterion": ["centre-distance"]}, "use 'centre-distance-relative'"),
        ({"metric": ["F1"], "assignment": ["optimum"]}, "did you mean 'optimal'"),
        ({"metric": ["F1"], "average": ["class"]}, "did you mean 'classes'"),
        ({"metric": ["F1"], "classes": ["ignored"]}, "did you mean 'ignore'"),
        ({"metric": ["AP"], "interpolation": ["voc-11"]}, "did you mean 'voc11'"),
        ({"metric": ["RoDeO"], "summary": ["harmonc"]}, "did you mean 'harmonic'"),
        ({"metric": ["F1"], "threshold": [1.5]}, r"a number in \[0, 1\], not 1.5"),
        ({"metric": ["F1"], "threshold": [True]}, r"a number in \[0, 1\], not True"),
        ({"metric": ["F1"], "score_cut": ["no"]}, r"a number in \[0, 1\] or none, not 'no'"),
        ({"metric": ["F1"], "least_area": [-1]}, "an area of at least 0"),
        ({"metric": ["F1"], "threshold": []}, "a list of different values"),
        ({"metric": ["F1"], "threshold": [0.5, 0.5]}, "a list of different values"),
        ({"metric": ["F1"], "threshold": 0.5}, "a list of different values"),
        ({"metric": "F1"}, "a list of different values"),
        ({"threshold": [0.5]}, "a grid needs metrics"),
    ],
)
def test_a_bad_grid_is_refused_with_the_nearest_name(grid, told):
    with pytest.raises(UsageError, match=told):
        configurations(grid)


def test_a_grid_that_is_too_large_is_refused():
    many = [k / 30_000 for k in range(30_000)]
    with pytest.raises(UsageError, match="30,000 configurations that differ"):
        configurations({"metric": ["F1"], "threshold": many})
    with pytest.raises(UsageError, match="leave out some values"):
        configurations({"metric": ["F1"], "threshold": many, "score_cut": many})
