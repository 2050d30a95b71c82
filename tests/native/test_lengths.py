"""What the compiled kernels refuse: buffers that are too short, words that are missing,
costs that are not finite.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.kernels import rodeo, route
from calipers.statistics import weights
from random_cohorts import random_cohort

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")

# Of these any length will do: the kinds of rows, the recalls, the random bits, the draws.
ANY_LENGTH = {
    ("totals", 3),
    ("average_precision", 3),
    ("average_precision", 13),
    ("replicate_precision", 14),
    ("random_words", 1),
    ("count_draws", 0),
    ("count_draws", 1),
}
# Arguments that lead into other tables: labels, rows, images, ranks, kinds. Entries beyond those
# tables are refused, and so are numbers that cannot be sorted.
PLACES = {
    "fused_boxes": (17,),
    "decayed_scores": (4,),
    "overlapping": (1, 5),
    "ranks": (1, 2),
    "decide": (0, 1, 2, 6, 10, 11),
    "error_types": (0, 1, 2, 7),
    "totals": (2, 4),
    "ranking": (1,),
    "average_precision": (2, 4, 5, 13),
    "replicate_precision": (0, 1, 3, 5, 7, 8),
    "replicate_hits": (0, 1, 3, 5, 7, 8),
    "cell_totals": (0, 1, 2),
    "rodeo_paths": (1, 5),
}
COUNTS = {
    "fused_boxes": (2, 3, 5),
    "decayed_scores": (6,),
    "overlapping": (9,),
    "ranks": (3,),
    "totals": (6, 7),
    "ranking": (2,),
    "average_precision": (9, 10, 11),
    "replicate_precision": (11, 12),
    "replicate_hits": (11, 12, 14),
    "lane_tally": (10,),
    "cell_totals": (5, 6),
    "transpose": (1, 2),
    "rodeo_tally": (10, 11, 12),
}
PROTOCOL = """
schema = "calipers.protocol/1"
name = "all kernels"
source = "test"
[[metric]]
name = "AP"
kind = "average-precision"
[[metric]]
name = "FROC"
kind = "froc"
[[metric]]
name = "RoDeO"
kind = "rodeo"
[[metric]]
name = "dAP/cls"
kind = "error-types"
"""
KERNELS = (
    "fused_boxes",
    "decayed_scores",
    "overlapping",
    "ranks",
    "decide",
    "error_types",
    "row_kinds",
    "totals",
    "ranking",
    "average_precision",
    "replicate_hits",
    "lane_tally",
    "replicate_precision",
    "replicate_curve",
    "cell_totals",
    "random_words",
    "count_draws",
    "transpose",
    "rodeo_paths",
    "rodeo_tally",
)


def _copied(argument: Any) -> Any:
    return np.array(argument, order="C") if isinstance(argument, np.ndarray) else argument


@pytest.fixture(scope="module")
def calls() -> dict[str, tuple[Any, ...]]:
    """The arguments with which an evaluation calls every kernel.

    They are copies: what the evaluation keeps of its arrays, it may make read-only afterwards.
    Draws that another test left behind are not used, or the kernels behind them would not be
    called.
    """
    native, found = route.native(), dict[str, tuple[Any, ...]]()
    assert native is not None

    def recorded(name: str) -> Any:
        def call(*arguments: Any) -> Any:
            # The first call: later ones may compare without classes, and look at no label.
            found.setdefault(name, tuple(map(_copied, arguments)))
            return getattr(native, name)(*arguments)

        return call

    recorder = SimpleNamespace(**{name: recorded(name) for name in KERNELS})
    cohort = random_cohort(30, 3, seed=1, crowd_share=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(route, "native", lambda: recorder)
        patch.setattr(weights, "_draws", {})
        evaluation = cal.evaluate(cohort, cal.Protocol.from_toml(PROTOCOL))
        matches = next(
            table for (_, key), table in evaluation.evidence.items() if key[0] == "matches"
        )
        half = matches.take(np.arange(15))
        half.totals(np.ones((1, 15), np.int64))  # type: ignore[attr-defined]
        evaluation.figure("pr")
        for recipe in ("wbf", "soft-nms"):
            cal.fuse(cohort, recipe)
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_a_short_buffer_is_refused(calls: dict[str, tuple[Any, ...]], name: str) -> None:
    native, arguments = route.native(), calls[name]
    getattr(native, name)(*arguments)
    tried = 0
    for k, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray) and argument.size and (name, k) not in ANY_LENGTH:
            short = np.ascontiguousarray(argument).ravel()[:-1].copy()
            with pytest.raises(ValueError, match="lengths do not fit"):
                getattr(native, name)(*arguments[:k], short, *arguments[k + 1 :])
            tried += 1
    assert tried >= 1 or name == "count_draws"


@pytest.mark.parametrize("name", KERNELS)
def test_a_missing_argument_is_an_error_of_python(
    calls: dict[str, tuple[Any, ...]], name: str
) -> None:
    with pytest.raises(IndexError):
        getattr(route.native(), name)(*calls[name][:-1])


def _beyond(column: Any) -> list[Any]:
    """Return copies of a column with an entry that no table has."""
    wrong: tuple[Any, ...] = (-1, np.iinfo(column.dtype).max) if column.dtype.kind == "i" else ()
    if column.dtype.kind == "f":
        wrong = (np.nan,)
    if column.dtype == np.uint8:  # 255 is a row of its own
        wrong = (200,)
    copies = []
    for value in wrong:
        for place in {0, column.size // 2, column.size - 1}:
            copy = column.copy()
            copy.reshape(-1)[place] = value
            copies.append(copy)
    return copies


@pytest.mark.parametrize(
    ("name", "k"), [(name, k) for name, places in PLACES.items() for k in places]
)
def test_entries_beyond_the_tables_are_refused(
    calls: dict[str, tuple[Any, ...]], name: str, k: int
) -> None:
    arguments = calls[name]
    columns = _beyond(arguments[k])
    assert columns
    for column in columns:
        with pytest.raises(ValueError, match="entries beyond"):
            getattr(route.native(), name)(*arguments[:k], column, *arguments[k + 1 :])


@pytest.mark.parametrize(
    ("name", "k"), [(name, k) for name, places in COUNTS.items() for k in places]
)
def test_impossible_numbers_of_views_classes_and_rows_are_refused(
    calls: dict[str, tuple[Any, ...]], name: str, k: int
) -> None:
    for wrong in (-1, 2**32, 2**62, 2**63 - 1):
        with pytest.raises(ValueError, match="lengths do not fit"):
            getattr(route.native(), name)(*calls[name][:k], wrong, *calls[name][k + 1 :])


def test_ranks_that_come_twice_are_refused(calls: dict[str, tuple[Any, ...]]) -> None:
    arguments = list(calls["error_types"])
    arguments[7] = np.zeros_like(arguments[7])
    with pytest.raises(ValueError, match="entries beyond"):
        route.native().error_types(*arguments)  # type: ignore[union-attr]


def test_offsets_that_lead_beyond_the_rows_are_refused(calls: dict[str, tuple[Any, ...]]) -> None:
    native, arguments = route.native(), calls["ranks"]
    for at, value in ((-1, arguments[0][-1] + 1), (1, arguments[0][-1] + 1), (0, -1)):
        offsets = arguments[0].copy()
        offsets[at] = value
        with pytest.raises(ValueError, match="lengths do not fit"):
            native.ranks(offsets, *arguments[1:])  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["lane_tally", "rodeo_tally"])
@pytest.mark.parametrize("owner", [4, 5, 6], ids=["pairs", "missed", "extra"])
def test_sums_for_an_owner_that_is_not_there_are_refused(
    calls: dict[str, tuple[Any, ...]], name: str, owner: int
) -> None:
    arguments = calls[name]
    n_owners = arguments[10]
    for wrong in (-1, n_owners):
        column = arguments[owner].copy()
        column[-1] = wrong
        with pytest.raises(ValueError, match="lengths do not fit"):
            getattr(route.native(), name)(*arguments[:owner], column, *arguments[owner + 1 :])


def test_costs_that_are_not_finite_leave_boxes_unmatched() -> None:
    """Readers refuse such boxes; whoever calls the kernel all the same gets an answer,
    not a crash.
    """
    near = np.array([[0, 0, 1e150, 1e150], [5, 5, 1e150, 1e150]])
    sides = [
        rodeo.BoxSide(np.array([0, 2]), np.array([0, 1], np.int32), boxes, np.full(2, 1e300))
        for boxes in (near, near + 1e155)
    ]
    with route.forced("native"):
        found = rodeo.paths(*sides, 2, "data-set")
    assert found.n_pairs.tolist() == [0]
    assert found.n_missed.tolist() == found.n_extra.tolist() == [2]


def test_more_threads_than_the_system_gives_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = random_cohort(3000, 3, seed=2, objects=1.0)
    few = cal.evaluate(cohort, "coco", ci=False).rows
    monkeypatch.setenv("CALIPERS_THREADS", "9" * 30)
    assert cal.evaluate(cohort, "coco", ci=False).rows == few
