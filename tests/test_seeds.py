"""Loops of tests run every value, and say which of them failed."""

from __future__ import annotations

import inspect

import pytest

from seeds import looped, looped_seeds


def test_every_value_is_tried_and_the_failing_ones_are_named() -> None:
    seen = []

    @looped("seed", range(5))
    def odd_numbers_fail(seed: int) -> None:
        seen.append(seed)
        assert seed % 2 == 0

    with pytest.raises(ExceptionGroup, match="2 values of seed failed") as failure:
        odd_numbers_fail()
    assert seen == [0, 1, 2, 3, 4]
    notes = [error.__notes__ for error in failure.value.exceptions]
    assert notes == [["seed = 1"], ["seed = 3"]]


def test_a_single_failure_is_raised_as_it_is() -> None:
    @looped("seed", range(5))
    def three_fails(seed: int) -> None:
        if seed == 3:
            raise KeyError(seed)

    with pytest.raises(KeyError) as failure:
        three_fails()
    assert failure.value.__notes__ == ["seed = 3"]


def test_a_value_cannot_skip_those_after_it() -> None:
    @looped("seed", range(5))
    def skips(seed: int) -> None:
        if seed == 1:
            pytest.skip("why not")

    with pytest.raises(AssertionError, match="seed = 1 skips all that follow"):
        skips()


def test_other_arguments_are_left_to_pytest() -> None:
    @looped("seed", range(5))
    @pytest.mark.parametrize("kind", ["a", "b"])
    def both(kind: str, seed: int) -> None:
        assert kind

    assert list(inspect.signature(both).parameters) == ["kind"]
    assert [mark.name for mark in both.pytestmark] == ["parametrize"]
    both(kind="a")


def test_further_seeds_are_a_slow_test() -> None:
    seen = []

    @looped_seeds(5, default=2)
    def note(seed: int) -> None:
        seen.append(seed)

    (mark,) = note.pytestmark
    first, further = mark.args[1]
    assert [m.name for m in first.marks] == []
    assert [m.name for m in further.marks] == ["slow"]
    for param in (first, further):
        note(batch=param.values[0])
    assert seen == [0, 1, 2, 3, 4]


def test_a_loop_over_an_argument_that_is_not_there_is_refused() -> None:
    with pytest.raises(AssertionError, match="no argument seed"):
        looped("seed", range(5))(lambda kind: None)
