"""`corrupt`: seeds, composition, what is left out, and what is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

import calipers as cal
from calipers.oracles.corrupt import KINDS, STREAM, as_predictions, boxes_from
from oracle_cases import ignoring, of_boxes, one_box_each, said
from random_cohorts import random_cohort

EVERY = {
    "position-noise": {"sigma": 0.5},
    "position-bias": {"bias": 0.5},
    "shape-noise": {"sigma": 0.5},
    "size-noise": {"sigma": 0.5},
    "aspect-noise": {"sigma": 0.5},
    "class-underprediction": {"p": 0.3},
    "class-overprediction": {"p": 0.3},
    "box-overprediction": {"mean": 1.0},
    "class-confusion": {"p": 0.3},
    "random-boxes": {"size": 0.2, "p": 0.1},
}
EACH = pytest.mark.parametrize(("kind", "choices"), EVERY.items(), ids=list(EVERY))


def test_all_kinds_are_tested() -> None:
    assert set(EVERY) == set(KINDS)


@EACH
@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_seed_gives_the_same_model_and_another_seed_another(
    kind: str, choices: dict, dimensions: int
) -> None:
    cohort = random_cohort(40, 3, seed=1, models=0, dimensions=dimensions)
    first, again, other = (
        said(cal.corrupt(cohort, kind, seed=seed, **choices)) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first.boxes, again.boxes)
    np.testing.assert_array_equal(first.label, again.label)
    same = first.boxes.shape == other.boxes.shape and np.array_equal(first.boxes, other.boxes)
    assert not (same and np.array_equal(first.label, other.label))


@EACH
@pytest.mark.parametrize("dimensions", [2, 3])
def test_what_comes_out_is_a_model_that_is_sure_of_itself(
    kind: str, choices: dict, dimensions: int
) -> None:
    cohort = random_cohort(40, 3, seed=2, models=0, dimensions=dimensions)
    made = cal.corrupt(cohort, kind, **choices)
    found = said(made)
    assert (found.score == 1).all()
    assert (np.diff(found.image) >= 0).all()
    assert found.boxes.shape[1] == 2 * dimensions
    assert (found.boxes[:, dimensions:] > found.boxes[:, :dimensions]).all()
    assert ((found.label >= 0) & (found.label < 3)).all()
    assert made.references is cohort.references
    assert made.images is cohort.images
    (name,) = made.models
    assert name.startswith(f"{kind}({next(iter(choices))}=")
    cal.evaluate(made, "rodeo", ci=False)


@EACH
def test_ignored_references_are_left_out(kind: str, choices: dict) -> None:
    cohort = of_boxes(
        [([[0, 0, 10, 10], [20, 20, 30, 30]], [0, 0]), ([[5, 5, 9, 9]], [0])], classes=("a",)
    )
    flagged = ignoring(cohort, [False, True, True])
    bare = of_boxes([([[0, 0, 10, 10]], [0]), ([], [])], classes=("a",))
    for seed in range(5):
        first, second = (
            said(cal.corrupt(one, kind, seed=seed, **choices)) for one in (flagged, bare)
        )
        np.testing.assert_array_equal(first.boxes, second.boxes)


@EACH
def test_a_cohort_without_references_is_no_problem(kind: str, choices: dict) -> None:
    cohort = of_boxes([([], [])] * 100)
    found = said(cal.corrupt(cohort, kind, **choices))
    added = kind in ("class-overprediction", "random-boxes")
    assert (len(found) > 0) is added


def test_several_corruptions_follow_each_other_on_one_stream_of_numbers() -> None:
    cohort = random_cohort(30, 4, seed=3, models=0)
    texts = ["class-confusion(p=0.3)", "box-overprediction(mean=1)", "position-noise(sigma=0.5)"]
    found = said(cal.corrupt(cohort, texts, seed=9))
    random = np.random.Generator(np.random.Philox(key=np.array([9, STREAM], np.uint64)))
    drawn = boxes_from(cohort.references, ~cohort.references.ignore)
    drawn = KINDS["class-confusion"](drawn, cohort, random, p=0.3)
    drawn = KINDS["box-overprediction"](drawn, cohort, random, mean=1.0)
    drawn = KINDS["position-noise"](drawn, cohort, random, sigma=0.5)
    expected = as_predictions(drawn, cohort.n_images)
    np.testing.assert_array_equal(found.boxes, expected.boxes)
    np.testing.assert_array_equal(found.label, expected.label)


def test_one_after_the_other_with_of_is_the_same_as_both_when_the_second_is_certain() -> None:
    cohort = one_box_each(30)
    both = cal.corrupt(cohort, ["position-noise(sigma=0.5)", "class-confusion(p=0)"], seed=4)
    first = cal.corrupt(cohort, "position-noise", sigma=0.5, seed=4, name="moved")
    second = cal.corrupt(first, "class-confusion", p=0.0, of="moved")
    np.testing.assert_allclose(said(second).boxes, said(both).boxes, atol=1e-9)
    assert list(second.models) == ["moved", "class-confusion(p=0)"]


def test_a_model_can_be_corrupted_too() -> None:
    cohort = random_cohort(30, 3, seed=5)
    found = said(cal.corrupt(cohort, "size-noise", sigma=0.0, of="model-1"))
    np.testing.assert_allclose(found.boxes, cohort.models["model-1"].boxes, atol=1e-9)
    assert (found.score == 1).all()
    with pytest.raises(cal.UsageError, match="did you mean 'model-1'"):
        cal.corrupt(cohort, "size-noise", sigma=0.0, of="model1")


def test_the_name_says_all_that_was_done() -> None:
    cohort = one_box_each(3)
    made = cal.corrupt(
        cohort, ["class-confusion(p=0.3)", "position-bias(bias=0.123456789, literal=true)"]
    )
    assert list(made.models) == [
        "class-confusion(p=0.3) + position-bias(bias=0.123456789, literal=True)"
    ]
    with pytest.raises(cal.UsageError, match="another name"):
        cal.corrupt(cal.corrupt(cohort, "size-noise", sigma=1), "size-noise", sigma=1)


@pytest.mark.parametrize(
    ("kind", "choices", "told"),
    [
        ("positon-noise", {"sigma": 1}, "did you mean 'position-noise'"),
        ("position-noise", {"sgima": 1}, "did you mean 'sigma'"),
        ("position-noise", {}, "needs sigma"),
        ("position-noise", {"sigma": -0.1}, "from 0 to 20, not -0.1"),
        ("position-noise", {"sigma": float("nan")}, "not nan"),
        ("position-noise", {"sigma": "much"}, "not 'much'"),
        ("position-noise", {"sigma": True}, "not True"),
        ("position-bias", {"bias": 1, "literal": 1}, "True or False, not 1"),
        ("class-confusion", {"p": 1.5}, "from 0 to 1, not 1.5"),
        ("random-boxes", {"size": 0}, "above 0 to 1, not 0"),
        ("box-overprediction", {"mean": 1e9}, "to 1000"),
        ("position-noise(sigma=0.5", {}, "reads like"),
        ("position-noise(0.5)", {}, "reads like"),
        ("position-noise(sigma=much)", {}, "reads like"),
        ("position-noise(sigma=1, sigma=2)", {}, "given twice"),
        ("position-noise(sigma=1)", {"sigma": 1}, "after each kind"),
        ([], {}, "at least one corruption"),
        (["class-confusion(p=0.5)", "shape-nose(sigma=1)"], {}, "did you mean 'shape-noise'"),
    ],
)
def test_bad_choices_are_told(kind, choices, told) -> None:
    with pytest.raises(cal.UsageError, match=told):
        cal.corrupt(one_box_each(2), kind, **choices)


def test_bad_seeds_are_told() -> None:
    with pytest.raises(cal.UsageError, match="seed"):
        cal.corrupt(one_box_each(2), "position-noise", sigma=1, seed=-1)


@pytest.mark.slow
@EACH
def test_a_hundred_thousand_images_take_less_than_two_seconds(kind: str, choices: dict) -> None:
    cohort = random_cohort(100_000, 8, seed=0, models=0, objects=2.0)
    began = time.process_time()
    cal.corrupt(cohort, kind, **choices)
    assert time.process_time() - began < 2.0
