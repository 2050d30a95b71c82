"""Figures of monitors: titles state what the numbers say, tables hold the numbers, and all can be
drawn.
"""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.errors import UsageError
from calipers.monitors.figures import FIGURES, OF_ONE, available, leading
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.scope import Scope
from calipers.show.svg.draw import svg
from superlatives import names_an_extreme

# Twelve images: the last four fail, the odd ones are out of distribution.
SCORE = [1.0] * 8 + [0.0, 0.0, 0.5, 0.5]
UNSAFE = np.array(SCORE) < 0.9
OOD = np.arange(12) % 2 == 1
FAILS = np.where(UNSAFE, 2.0, 0.0) + np.linspace(0, 1, 12)
SHIFT = np.where(OOD, 2.0, 0.0) + np.linspace(1, 0, 12)


def evaluated(monitors=None, tau=0.9, ood=OOD, **options) -> MonitorEvaluation:
    monitors = {"shift": SHIFT, "fails": FAILS} if monitors is None else monitors
    return cal.evaluate_monitor(
        monitors,
        Scope.from_values(SCORE),
        tau,
        ood,
        threshold=options.pop("threshold", 1.5),
        ci=False,
        **options,
    )


@pytest.fixture(scope="module")
def found() -> MonitorEvaluation:
    return evaluated()


def test_the_leading_monitor_finds_failures_not_shifts(found: MonitorEvaluation) -> None:
    assert leading(found) == ("fails", "shift")
    assert leading(evaluated(tau=None)) == ("fails", "shift")
    only = cal.evaluate_monitor(
        {"fails": FAILS, "shift": SHIFT}, [1.0] * 12, tau=0.5, ood=OOD, threshold=1.5, ci=False
    )
    assert leading(only, 1) == (
        "fails",
    )  # without an unsafe image nobody leads: the order as given


@pytest.mark.parametrize("tau", [0.9, None])
def test_no_title_names_what_was_not_tested(tau: float | None) -> None:
    """Which monitor is better is tested in pairs; one that is looked at by itself may be named."""
    result = evaluated(tau=tau)
    for name in set(available(result)) - {*OF_ONE, "risk"}:
        assert not names_an_extreme(result.figure(name).title), name


def test_both_kinds_of_labels_stand_side_by_side(found: MonitorEvaluation) -> None:
    figure = found.figure("auroc")
    assert figure.title == (
        "AUROC for unsafe images: 1.00 (fails), 0.25 (shift); for images out of distribution: "
        "1.00 (shift), 0.58 (fails)"
    )
    assert figure.series == ("OMS labels", "OOD labels")
    assert [row.n for row in figure.rows] == ["4 / 6", "4 / 6"]
    assert figure.rows[1].marks[0].value == 1.0
    assert figure.rows[0].marks[1].value == 1.0


def test_risk_has_the_best_order_and_that_of_chance_beside_it(found: MonitorEvaluation) -> None:
    chance, best, first, second = found.figure("risk").lines
    assert chance.y.tolist() == [4 / 12, 4 / 12]
    assert best.y[0] == 0
    assert best.y[-1] == pytest.approx(4 / 12)
    assert (first.name, second.name) == ("fails", "shift")
    assert first.y[5] == 0
    assert first.y[-1] == pytest.approx(4 / 12)
    assert (
        found.figure("risk").title
        == "Of the 50 % of images that fails trusts most, 0 % are unsafe; of all, 33 %"
    )


def test_roc_curves_are_those_of_their_labels(found: MonitorEvaluation) -> None:
    oms, ood = found.figure("roc-oms"), found.figure("roc-ood")
    assert oms.title == "OMS: AUROC for unsafe images is 1.00 (fails), 0.25 (shift)"
    assert ood.title == ("OOD: AUROC for images out of distribution is 1.00 (shift), 0.58 (fails)")
    assert oms.y.label == "share of 4 unsafe images rejected"
    assert ood.x.label == "share of 6 images in distribution rejected"


def test_the_sweep_has_every_tau_with_its_prevalence(found: MonitorEvaluation) -> None:
    assert found.figure("sweep").lines[0].x.tolist() == [0.5, 1.0]
    assert found.figure("prevalence").lines[0].y.tolist() == [2 / 12, 4 / 12]
    assert found.figure("prevalence").title == "At tau = 0.9, 33 % of 12 images are unsafe"
    free = evaluated(tau=None).figure("prevalence")
    assert free.title == "17 % of images are unsafe at tau = 0.5, 33 % at 1"


def test_outcomes_count_every_kind_of_image(found: MonitorEvaluation) -> None:
    figure = found.figure("outcomes", "shift")
    rejected = SHIFT >= 1.5
    assert figure.x.names == (
        "not OOD, safe (4)",
        "not OOD, unsafe (2)",
        "OOD, safe (4)",
        "OOD, unsafe (2)",
    )
    assert figure.heights.sum() == 12
    assert figure.heights[1].sum() == (rejected & UNSAFE).sum()
    assert figure.heights[2].tolist() == [0, 2, 0, (~rejected & UNSAFE & OOD).sum()]
    assert figure.title == "shift lets 2 of 4 unsafe images through, 2 of them in distribution"


def test_without_ood_labels_outcomes_are_safe_and_unsafe() -> None:
    assert evaluated(ood=None).figure("outcomes", "fails").x.names == ("safe (8)", "unsafe (4)")
    assert (
        evaluated(ood=None).figure("outcomes", "fails").title
        == "fails lets 0 of 4 unsafe images through"
    )


def test_without_a_threshold_nothing_is_rejected() -> None:
    assert "has no threshold" in evaluated(threshold=None).figure("outcomes", "fails").title


def test_scores_are_on_the_scale_of_the_monitor() -> None:
    found = evaluated({"low": -FAILS}, higher_is_alarm=False, threshold=-1.5)
    figure = found.figure("scores")
    assert figure.edges[0] == -FAILS.max()
    assert figure.cut == -1.5
    assert "low = alarm" in figure.x.label
    assert np.allclose(figure.counts.sum(axis=1), 1)
    assert figure.title == "low: unsafe images have the higher alarm in 100 % of pairs"


def test_the_ranking_says_who_wins_where(found: MonitorEvaluation) -> None:
    figure = found.figure("ranking")
    assert figure.x.names == ("OMS at 0.9", "OOD", "tau 0.5", "tau 1")
    assert figure.words[0][0] == "1. (1.00)"
    assert figure.words[0][1].startswith("2. (")
    assert figure.title == "On these images OOD labels put shift first, OMS labels fails"


@pytest.mark.parametrize("tau", [0.9, None, -1.0, 2.0])
@pytest.mark.parametrize("ood", [OOD, None, np.zeros(12, bool)])
@pytest.mark.parametrize("threshold", [1.5, "best-f1", None])
def test_every_figure_can_be_drawn_whatever_is_missing(tau, ood, threshold) -> None:
    for monitors in ({"a": FAILS}, {"a": FAILS, "b": np.zeros(12), "c": UNSAFE}):
        found = evaluated(monitors, tau, ood, threshold=threshold)
        for name in available(found):
            assert svg(found.figure(name), width=460, name=name).startswith("<svg")
        for name in OF_ONE:
            assert svg(found.figure(name, "a"), width=460, name=name).startswith("<svg")


def test_figures_can_be_drawn_for_papers(found: MonitorEvaluation) -> None:
    pytest.importorskip("matplotlib")
    for name in FIGURES:
        assert found.plot(name, monitor="fails").figure is not None


def test_an_unknown_figure_names_the_nearest_and_an_absent_one_those_there_are(
    found: MonitorEvaluation,
) -> None:
    with pytest.raises(UsageError, match="did you mean 'risk'"):
        found.figure("risc")
    with pytest.raises(UsageError, match="it has auroc, risk, roc-oms"):
        evaluated(ood=None).figure("roc-ood")
    with pytest.raises(UsageError, match="several monitors"):
        found.figure("scores")
