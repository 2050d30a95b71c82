"""Scores by counting: limits, moves, the lines of appendix C, against slow obvious twins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calipers.studies.stability.data import BINARY, LAST_STEPS
from calipers.studies.stability.experiments import (
    ADDED,
    JOINED,
    LINES,
    MOVES,
    SCORES,
    TURNED,
    Counting,
    last_step,
    lines,
    score_values,
    tables_of,
)


@pytest.fixture(scope="module")
def counting() -> Counting:
    return Counting(8)


@pytest.mark.parametrize("n", range(1, 7))
def test_every_table_is_there_once(n: int) -> None:
    obvious = {t for t in itertools.product(range(n + 1), repeat=4) if sum(t) == n}
    found = [tuple(int(count) for count in row) for row in tables_of(n)]
    assert len(found) == len(set(found))
    assert set(found) == obvious


def _apj(n00: float, n01: float, n10: float, n11: float) -> float:
    n = n00 + n01 + n10 + n11
    expected = (n11 + n10) * (n11 + n01) / n
    bottom = n10 + n01 + n11 - expected
    return (n11 - expected) / bottom if abs(bottom) > 1e-12 else float("nan")


def test_moves_are_counted_as_a_loop_would(counting: Counting) -> None:
    for move in MOVES:
        rises = stays = falls = 0
        for row in counting.tables.tolist():
            after = [a + b for a, b in zip(row, MOVES[move])]
            if min(after) < 0:
                continue
            change = _apj(*after) - _apj(*row)
            rises += change > 1e-9
            falls += change < -1e-9
            stays += abs(change) <= 1e-9
        found = counting.move_effect("APJ", move)
        assert (found.rises, found.stays, found.falls, found.n) == (
            rises,
            stays,
            falls,
            rises + stays + falls,
        )


def test_only_turning_a_negative_into_a_positive_agreement_can_lower_a_score(
    counting: Counting,
) -> None:
    for name in SCORES:
        for move in MOVES:
            if move != TURNED:
                assert counting.move_effect(name, move).monotone, (name, move)
    for name in ("APO", "HAPJ", "APJ", "AJ"):
        one = counting.move_effect(name, TURNED)
        assert not one.monotone
        after = np.array([one.example], np.float64) + MOVES[TURNED]
        fall = score_values(np.array([one.example], np.float64), name) - score_values(after, name)
        np.testing.assert_allclose(fall, [one.worst])
    assert counting.move_effect("APJ", ADDED).stays > 0
    assert counting.move_effect("PJ", JOINED).stays == 0


def test_turning_lowers_exactly_where_something_is_disputed_and_n11_is_at_least_n00(
    counting: Counting,
) -> None:
    before = counting.tables[counting.tables[:, 0] >= 1]
    n00, n01, n10, n11 = before.T
    expected = (n01 + n10 > 0) & (n11 >= n00)
    for name in ("HAPJ", "APJ", "AJ"):
        change = score_values(before + np.array(MOVES[TURNED]), name) - score_values(before, name)
        known = ~np.isnan(change)
        np.testing.assert_array_equal((change < -1e-12)[known], expected[known])


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_minima_are_taken_where_a_bag_is_split_in_halves(counting: Counting, n: int) -> None:
    for name, lowest in (("APJ", -1 / 3), ("AJ", -1.0)):
        end = counting.extreme(name, n, low=True)
        assert end.value == pytest.approx(lowest)
        assert end.tables.tolist() == [[0, n / 2, n / 2, 0]]
    assert counting.extreme("APO", n, low=True).value == pytest.approx(1 - n)
    assert counting.extreme("APJ", n, low=False).value == 1


def test_a_score_without_any_value_has_no_extreme(counting: Counting) -> None:
    assert np.isnan(counting.extreme("APO", 1, low=True).value)


def test_the_lines_end_where_they_should() -> None:
    ends = {line: values[-1] for line, values in lines("APJ").items()}
    assert ends == pytest.approx(
        {"blue": 1 / 3, "green": -1 / 7, "black dotted": 1 / 9, "red dotted": -0.2}
    )
    assert all(values[0] == 0 and len(values) == 11 for values in lines("AJ").values())
    assert all(sum(last_step(line)) == 200 for line in LINES)
    assert {line: last_step(line) for line in LAST_STEPS} == LAST_STEPS


@pytest.mark.parametrize("name", BINARY)
def test_tables_ii_and_iii_agree_to_two_digits(name: str) -> None:
    counts, aj, apj = BINARY[name]
    table = np.array([counts], np.float64)
    assert round(float(score_values(table, "AJ")[0]), 2) == aj
    assert round(float(score_values(table, "APJ")[0]), 2) == apj
