"""Labels and maps: a meaning is declared, what does not fit it is refused with its values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import special, stats

from calipers.errors import InputError, UsageError
from calipers.io.volumes.values import NORMALISATIONS, as_labels, as_map

MASK = np.array([[0, 1, 1], [0, 0, 1]])


def error_of(call: object, *arguments: object, **options: object) -> InputError:
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    return caught.value


@pytest.mark.parametrize("value", [1, 7, 255])
@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16, np.int64, np.float32, np.float64])
def test_binary_is_zero_and_one_other_value(value: int, kind: type) -> None:
    found = as_labels((MASK * value).astype(kind))
    assert found.dtype == np.uint8
    assert np.array_equal(found, MASK)


def test_binary_may_be_empty_full_or_true() -> None:
    assert not as_labels(np.zeros((2, 3), np.int16)).any()
    assert as_labels(np.full((2, 3), 255, np.uint8)).all()
    assert np.array_equal(as_labels(MASK > 0), MASK)


def test_other_values_are_listed_and_at_most_ten_of_them() -> None:
    error = error_of(as_labels, np.array([[0, 1, 3]]))
    assert (error.rule, error.value) == ("mask-values", "'0, 1, 3'")
    assert "nonzero" in error.hint
    smooth = np.array([[0, 17, 128, 200, 255]], np.uint8)
    assert "smoothing" in error_of(as_labels, smooth).hint
    assert (
        error_of(as_labels, np.arange(50)[None]).value
        == "'0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 40 more'"
    )


def test_nonzero_instances_and_lists() -> None:
    array = np.array([[0, 1, 3], [5, 3, 0]], np.int16)
    assert as_labels(array, "nonzero").tolist() == [[0, 1, 1], [1, 1, 0]]
    assert as_labels(array, [1, 3]).tolist() == [[0, 1, 1], [0, 1, 0]]
    assert as_labels(array, (9,)).tolist() == [[0, 0, 0], [0, 0, 0]]
    found = as_labels(array.astype(np.float64), "instances")
    assert found.dtype == np.int32
    assert np.array_equal(found, array)


@pytest.mark.parametrize("meaning", ["binary", "nonzero", "instances", [1]])
def test_floats_that_are_not_whole_are_refused(meaning: object) -> None:
    error = error_of(as_labels, np.array([[0.0, 0.5, 1.0]]), meaning)
    assert (error.rule, error.value) == ("mask-values", "'0.5'")
    assert error_of(as_labels, np.array([[0.0, np.nan]]), meaning).rule == "non-finite"


@pytest.mark.parametrize(
    "array", [np.array([[0, -1]]), np.array([[0, 2**40]]), np.array([[0.0, 1e30]])]
)
def test_labels_out_of_range_are_refused(array: np.ndarray) -> None:
    assert error_of(as_labels, array, "instances").rule == "mask-values"


def test_unknown_words_name_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'binary'"):
        as_labels(MASK, "binery")
    with pytest.raises(UsageError, match="did you mean 'minmax'"):
        as_map(MASK, "minmaxx")


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("u1", "f4"), ("i8", "f4"), ("?", "f4")],
)
def test_scores_are_float32_unless_they_were_float64(kind: str, wanted: str) -> None:
    found = as_map(np.array([[0, 1], [1, 0]]).astype(kind))
    assert found.dtype == np.dtype(wanted)
    assert found.tolist() == [[0, 1], [1, 0]]


def test_the_largest_float16_is_divided_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_map(np.array([[0, 65504]], "f2"), "uint16")[0, 1] == np.float32(65504 / 65535)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_what_is_not_finite_is_counted_and_placed(normalise: str) -> None:
    array = np.zeros((2, 3, 4), np.float32)
    array[1, 2, 3], array[1, 0, 2] = np.nan, np.inf
    error = error_of(as_map, array, normalise)
    assert (error.rule, error.location) == ("non-finite", "[1, 0, 2]")
    assert "2 of 24" in error.value
    overflown = np.array([[np.inf]], np.float16)
    assert error_of(as_map, overflown, normalise).rule == "non-finite"


def test_scores_outside_the_unit_are_refused_with_a_proposal() -> None:
    error = error_of(as_map, np.array([[0, 200]], np.uint8))
    assert error.rule == "score-range"
    assert "uint8" in error.hint
    assert "uint16" in error_of(as_map, np.array([[0, 2000]], np.uint16)).hint
    assert "logits, normalise with sigmoid" in error_of(as_map, np.array([[-3.0, 2.0]])).hint
    assert "percentages, normalise with percent" in error_of(as_map, np.array([[0.0, 94.8]])).hint
    assert "percents" not in error_of(as_map, np.array([[0.0, 3.0]])).hint
    assert error_of(as_map, np.array([[0.0, 1.0000001]])).rule == "score-range"


def test_normalisations_are_what_their_names_say() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        logits = np.round(rng.normal(0, 40, (3, 4, 5)), 1)
        assert as_map(logits, "sigmoid") == pytest.approx(special.expit(logits), rel=1e-12)
        assert np.array_equal(as_map(logits, "clip"), np.clip(logits, 0, 1))
        low, high = logits.min(), logits.max()
        assert as_map(logits, "minmax") == pytest.approx((logits - low) / (high - low), abs=1e-14)
        ranks = (stats.rankdata(logits).reshape(logits.shape) - 1) / (logits.size - 1)
        assert as_map(logits, "rank") == pytest.approx(ranks, abs=1e-14)
    assert as_map(np.array([[0, 51, 255]], np.uint8), "uint8").tolist() == [[0, np.float32(0.2), 1]]
    assert as_map(np.array([[0, 65_535]], np.uint16), "uint16").tolist() == [[0, 1]]
    # A sample on which the model is never surer than 1 % is one of percentages all the same.
    assert as_map(np.array([[0.5, 0.0]]), "percent").tolist() == [[0.005, 0]]
    assert error_of(as_map, np.array([[0.0, 101.0]]), "percent").rule == "score-range"
    assert error_of(as_map, np.array([[0, 256]]), "uint8").rule == "score-range"
    assert error_of(as_map, np.array([[-1.0, 2]]), "uint16").rule == "score-range"


def test_extremes_do_not_overflow() -> None:
    assert as_map(np.array([[-1.7e308, 0, 1.7e308]]), "minmax").tolist() == [[0, 0.5, 1]]
    assert as_map(np.array([[-1e4, 1e4]], np.float32), "sigmoid").tolist() == [[0, 1]]


def test_constant_maps_stay_constant() -> None:
    flat = np.full((2, 2), 0.3)
    assert as_map(flat, "minmax").tolist() == [[0, 0], [0, 0]]
    assert as_map(flat, "rank").tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert as_map(flat).tolist() == flat.tolist()
