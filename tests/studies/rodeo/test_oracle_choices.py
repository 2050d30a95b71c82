"""Shares over the choices that the paper leaves open: other orders of scores, halves and grids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calipers.studies.rodeo.claims import RodeoRun
from calipers.studies.rodeo.oracle_choices import (
    COARSE,
    HALF,
    INPUT,
    ORDER,
    OTHER,
    STEP,
    TEST,
    scan_of,
    scan_table,
    with_choices,
)
from calipers.studies.rodeo.study import CLAIMS

SWEPT = "ap-and-rodeo-fall-with-underprediction"


@pytest.fixture
def run(small_rodeo) -> RodeoRun:
    return small_rodeo[0]


def upside_down(run: RodeoRun) -> RodeoRun:
    """Return a run in which every curve rises where it fell."""
    sweeps = {}
    for name, sweep in run.sweeps.items():
        sweeps[name] = replace(sweep, value=1.0 - sweep.value)
    return replace(run, sweeps=sweeps)


def test_the_order_of_scores_exchanges_the_two_kinds_of_ap_and_nothing_else(run: RodeoRun) -> None:
    other = with_choices(run, order=INPUT)
    for one, ordered in (("AP@0.1", "AP in order@0.1"), ("AP in order@0.5", "AP@0.5")):
        np.testing.assert_array_equal(
            other.curve("figure-5", one)[1], run.curve("figure-5", ordered)[1]
        )
        np.testing.assert_array_equal(other.error("figure-5", one), run.error("figure-5", ordered))
    for name in ("RoDeO", "accuracy@0.5", "mAP@0.1:0.7"):
        np.testing.assert_array_equal(other.grid("figure-8", name), run.grid("figure-8", name))


def test_a_coarse_grid_has_every_second_strength_and_both_ends(run: RodeoRun) -> None:
    coarse = with_choices(run, grid=COARSE)
    x, values = run.curve("figure-5", "RoDeO")
    kept = [0, 2, 4] if len(x) == 5 else sorted({*range(0, len(x), 2), len(x) - 1})
    np.testing.assert_array_equal(coarse.curve("figure-5", "RoDeO")[0], x[kept])
    np.testing.assert_array_equal(coarse.curve("figure-5", "RoDeO")[1], values[kept])
    full, thin = run.grid("figure-8", "RoDeO"), coarse.grid("figure-8", "RoDeO")
    assert thin.shape[0] < full.shape[0]
    assert thin[0, 0] == full[0, 0]
    assert thin[-1, -1] == full[-1, -1]


def test_shares_count_the_configurations_in_which_the_verdict_is_held(run: RodeoRun) -> None:
    scan = scan_of(run, CLAIMS.entries)
    verdicts = {claim.name: claim.verdict for claim in CLAIMS.judge_all(run)}
    # Neither printed numbers nor exact figures nor networks have open choices of oracles.
    without = {"table-1-totals", "ciou-is-relative", "overlap-ends-quickly", "hausdorff-is-linear"}
    assert not (without | {"nodules-fail-in-shape-trained"}) & {*scan.sentences}
    assert {"ap-falls-with-position", "accuracy-falls-linearly", SWEPT} <= {*scan.sentences}
    # Equal scores as one step is the order of the verdicts.
    for name in scan.sentences:
        held = scan.share(name, **{ORDER: STEP})
        assert (held.n_held, held.n_total) == (int(verdicts[name] == "held"), 1), name
    assert scan.share(SWEPT).n_total == 2


def test_the_other_half_has_its_own_say(run: RodeoRun) -> None:
    scan = scan_of(run, CLAIMS.entries, upside_down(run))
    assert scan.share(SWEPT).n_total == 8
    assert scan.share(SWEPT).n_held == scan.share(SWEPT, **{HALF: TEST}).n_held > 0
    table = scan_table(scan)
    rows = {row[0]: dict(zip(table.columns, row)) for row in table.rows}
    assert rows[SWEPT]["all"] == f"{scan.share(SWEPT).n_held}/8"
    assert rows[SWEPT][f"half of the images: {OTHER}"] == "0/4"
