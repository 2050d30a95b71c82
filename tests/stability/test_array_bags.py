"""Bags from arrays: every broken rule names the first difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.bags import ArrayBags

GOOD = np.full((2, 3, 4), 0.5)


def changed(place: tuple[int, ...], value: float) -> np.ndarray:
    maps = GOOD.copy()
    maps[place] = value
    return maps


def with_bag(shape: tuple[int, ...]) -> list[np.ndarray]:
    return [np.full((2, 4), 0.5), np.full(shape, 0.5)]


@pytest.mark.parametrize(
    ("maps", "rule", "said"),
    [
        (GOOD[:1], "one-model", "two or more models, got 1"),
        ({"a": GOOD[0]}, "one-model", "two or more models, got 1"),
        ({}, "one-model", "two or more models, got 0"),
        ([np.full((1, 4), 0.5)], "one-model", "two or more models, got 1"),
        (GOOD[:, :0], "no-bags", "at least one bag"),
        ([], "no-bags", "at least one bag"),
        (GOOD[:, :, :0], "no-bags", "bag '0': expected at least one instance"),
        (GOOD[0], "shape-mismatch", "three or more axes"),
        (np.float64(0.5), "shape-mismatch", "three or more axes"),
        ([np.full(4, 0.5)], "shape-mismatch", "bag 0: expected an array"),
        (with_bag((3, 4)), "bags-differ", "bag 1: expected 2 models as in bag 0, got 3"),
        (
            {"a": GOOD[0], "b": GOOD[1][:2]},
            "bags-differ",
            "model 'b': expected 3 bags as 'a' has, got 2",
        ),
        (
            {"a": GOOD[0], "b": np.full((3, 5), 0.5)},
            "shape-mismatch",
            r"model 'b', bag 0: expected the shape \(4,\)",
        ),
        (
            {"a": GOOD[0], "b": np.full(3, 0.5)},
            "shape-mismatch",
            "model 'b': expected two or more axes",
        ),
        (
            {"a": {"x": [0.5], "y": [0.5]}, "b": {"x": [0.5]}},
            "bags-differ",
            "model 'b'.*no bag 'y'",
        ),
        ({"a": {"x": [0.5]}, "b": {"x": [0.5], "z": [0.1]}}, "bags-differ", "model 'b'.*bag 'z'"),
        (
            {"a": {"x": [0.5], "y": [0.5]}, "b": {"y": [0.5], "x": [0.5]}},
            "bags-differ",
            "bag 0: expected bag 'x' as in",
        ),
        ({"a": {"x": [0.5]}, "b": [[0.5]]}, "bags-differ", "bag ids for all models or for none"),
        (
            changed((1, 2, 3), np.nan),
            "non-finite",
            r"model 'model 2', bag '2', instance \(3\).*got nan",
        ),
        (
            changed((0, 1, 0), -np.inf),
            "non-finite",
            r"model 'model 1', bag '1', instance \(0\).*got -inf",
        ),
        (
            changed((1, 0, 2), 1.5),
            "score-range",
            r"model 'model 2', bag '0', instance \(2\).*got 1.5",
        ),
        (changed((0, 2, 1), -0.1), "score-range", r"bag '2', instance \(1\)"),
        (np.full((2, 3, 4), "x"), "type", "numbers"),
        ([[["a"], ["b"]]], "type", "numbers"),
        (np.full((2, 3, 4), 0.5j), "type", "numbers"),
        ([[[0.5, 0.5], [0.5]]], "shape-mismatch", "different lengths"),
        (np.full((2, 3, 4), None), "type", "numbers"),
    ],
)
def test_bad_maps_are_refused_with_the_first_difference(maps: Any, rule: str, said: str) -> None:
    with pytest.raises(cal.InputError, match=said) as error:
        ArrayBags.of(maps)
    assert error.value.rule == rule


def test_values_outside_get_a_hint() -> None:
    with pytest.raises(cal.InputError, match="give probabilities"):
        ArrayBags.of(np.full((2, 3, 4), 3.0))


@pytest.mark.parametrize(
    ("options", "rule", "said"),
    [
        ({"labels": [0, 1]}, "labels-differ", "3 labels"),
        ({"labels": [0, 1, 2]}, "labels-differ", r"labels\[2\], bag '2'.*got 2"),
        ({"labels": ["a", "b", "c"]}, "type", "numbers"),
        ({"labels": [0, np.nan, 1]}, "labels-differ", r"labels\[1\]"),
        ({"ids": ["a", "b"]}, "bags-differ", "3 ids"),
        ({"ids": ["a", "b", "a"]}, "bags-differ", r"ids\[2\].*every id once"),
        ({"models": ["a"]}, "bags-differ", "2 different names"),
        ({"models": ["a", "a"]}, "bags-differ", "2 different names"),
        ({"groups": {"patient": [1, 2]}}, "labels-differ", "groups"),
        ({"instances": [None, None]}, "labels-differ", "3 entries"),
        (
            {"instances": [None, [0, 1], None]},
            "shape-mismatch",
            r"bag '1': expected the shape \(4,\)",
        ),
        ({"instances": [None, [0, 1, 2, 0], None]}, "labels-differ", "instances of bag '1'"),
        ({"instances": {"7": [0, 0, 0, 1]}}, "labels-differ", "got '7'"),
        (
            {"instances": [[1, 0, 0, 0], None, None], "labels": [0, 1, 1]},
            "labels-differ",
            "bag '0'.*labelled 0",
        ),
        ({"bag_scores": [[0.1, 0.2, 0.3]]}, "bags-differ", r"\(2, 3\) \(models, bags\)"),
        (
            {"bag_scores": [[0.1, 0.2, 0.3], [0.1, np.inf, 0.3]]},
            "non-finite",
            "model 'model 2', bag '1'",
        ),
    ],
)
def test_what_comes_with_the_maps_must_fit(options: dict[str, Any], rule: str, said: str) -> None:
    with pytest.raises(cal.InputError, match=said) as error:
        ArrayBags.of(GOOD, **options)
    assert error.value.rule == rule


def test_models_of_a_mapping_have_their_names() -> None:
    with pytest.raises(cal.InputError, match="the models of the maps, a, b"):
        ArrayBags.of({"a": GOOD[0], "b": GOOD[1]}, models=["x", "y"])


def test_bags_are_positive_if_an_instance_is_and_nobody_said() -> None:
    bags = ArrayBags.of(GOOD, instances=[[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    assert bags.positive is not None
    assert bags.positive.tolist() == [False, True, False]
    assert "no bag labels were given" in bags.notes[0]
    assert ArrayBags.of(GOOD, instances=[None, [1, 0, 0, 0], None]).positive is None


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.float16, np.float32, np.int64])
def test_any_kind_of_number_becomes_float64_bag_by_bag(kind: Any) -> None:
    bags = ArrayBags.of(np.ones((2, 3, 2, 2), kind))
    assert bags.maps[0].dtype == kind
    assert (bags[0].values.dtype, bags[0].values.shape, bags[0].shape) == (
        np.float64,
        (2, 4),
        (2, 2),
    )


def test_instances_may_be_named_by_their_bag() -> None:
    bags = ArrayBags.of(GOOD, ids=["x", "y", "z"], instances={"y": [1, 0, 0, 1]})
    assert [bags[i].instances is None for i in range(3)] == [True, False, True]
    assert bags[1].instances is not None
    assert bags[1].instances.tolist() == [True, False, False, True]


def test_anything_that_gives_an_array_is_one() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return GOOD

    assert len(ArrayBags.of(Tensor())) == 3
