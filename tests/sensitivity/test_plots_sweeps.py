"""Figures of sweeps: the right kind, the numbers of the sweep,
and titles that say no more than those.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.sensitivity.figures import (
    NOTHING,
    ranges,
    sensitivity,
    spread_of_words,
    sweep_figures,
    who_is_best,
)
from calipers.sensitivity.sweep import Sweep, SweepAxis
from calipers.show.figures import Contour, Curves, Forest, HeatMap
from calipers.show.mpl import draw
from figure_cases import tree

NUMBERS = SweepAxis("threshold", (0.1, 0.5, 0.9))
WORDS = SweepAxis("criterion", ("box-iou", "iop"))
CUTS = SweepAxis("score_cut", (0.2, 0.4))
RULES = SweepAxis("assignment", ("by-score", "optimal", "by-overlap"))
NOISE = SweepAxis("position-noise.sigma", (0.0, 1.0, 2.0))


def made(
    axes: tuple[SweepAxis, ...],
    models: tuple[str, ...] = ("A", "B"),
    metrics: tuple[str, ...] = ("AP@0.5",),
):
    shape = (len(models), len(metrics), *(len(axis.values) for axis in axes))
    value = np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape)
    band = "95 % confidence intervals, resampled by patient (n = 9)"
    return Sweep(
        axes,
        models,
        metrics,
        value,
        value - 0.05,
        value + 0.05,
        1,
        band,
        "p",
        10,
        20,
        0,
        (),
        metrics,
    )


@pytest.mark.parametrize(
    ("axes", "kind"),
    [
        ((NUMBERS,), Curves),
        ((WORDS,), Forest),
        ((NUMBERS, CUTS), Contour),
        ((NUMBERS, WORDS), Curves),
        ((WORDS, NUMBERS), Curves),
        ((WORDS, RULES), HeatMap),
        ((NUMBERS, SweepAxis("score_cut", (0.5,))), Curves),
        ((SweepAxis("threshold", (0.5,)),), Curves),
    ],
)
def test_choices_decide_the_kind_and_both_routes_draw_it(axes, kind) -> None:
    sweep = made(axes)
    figure = sweep.figure()
    assert type(figure) is kind
    assert tree(figure, standalone=True) is not None
    assert sweep.plot() is not None
    shown = {row[-1] if kind in (Contour, HeatMap) else row[2] for row in figure.table().rows}
    of_first = sweep.value[:, 0] if len(axes) == 1 else sweep.value[0, 0]
    assert shown == {float(value) for value in of_first.ravel()}


def test_a_contour_has_the_first_choice_along_x_in_rising_order() -> None:
    sweep = made((SweepAxis("threshold", (0.9, 0.1, 0.5)), CUTS), ("A",))
    figure = sweep.figure()
    assert isinstance(figure, Contour)
    assert figure.xs.tolist() == [0.1, 0.5, 0.9]
    for row in figure.table().rows:
        i, j = sweep.axes[0].values.index(row[0]), CUTS.values.index(row[1])
        assert row[2] == sweep.value[0, 0, i, j]


def test_a_line_per_word_takes_its_own_numbers_whichever_comes_first() -> None:
    for axes in ((NUMBERS, WORDS), (WORDS, NUMBERS)):
        sweep = made(axes, ("A",))
        figure = sweep.figure()
        assert isinstance(figure, Curves)
        assert [line.name for line in figure.lines] == list(WORDS.values)
        for k, line in enumerate(figure.lines):
            table = sweep.value[0, 0]
            np.testing.assert_array_equal(line.y, table[:, k] if axes[0] is NUMBERS else table[k])


def test_an_oracle_shows_all_its_metrics_and_models_one() -> None:
    oracle = made((NOISE,), ("oracle",), ("RoDeO/loc", "RoDeO/shape"))
    assert [line.name for line in oracle.figure().lines] == ["RoDeO/loc", "RoDeO/shape"]
    assert [line.name for line in oracle.figure("RoDeO/shape").lines] == ["RoDeO/shape"]
    models = made((NUMBERS,), metrics=("AP@0.5", "F1@0.5"))
    assert [line.name for line in models.figure().lines] == ["A", "B"]
    assert models.figure().y.label == "AP"  # over thresholds it is not that at 0.5
    assert [line.name for line in models.figure(model="B").lines] == ["AP", "F1"]


def test_metrics_of_another_scale_get_a_figure_of_their_own() -> None:
    oracle = replace(
        made((NOISE,), ("oracle",), ("AP@0.5", "FP/image", "F1@0.5")), bounded=("AP@0.5", "F1@0.5")
    )
    found = sweep_figures(oracle)
    assert list(found) == ["AP@0.5 and F1@0.5", "FP/image"]
    assert np.isnan(found["FP/image"].y.high)
    two = sweep_figures(made((NUMBERS, WORDS)))
    assert list(two) == ["AP@0.5 of A", "AP@0.5 of B"]


def test_axes_state_their_units() -> None:
    assert (
        made((NOISE,), ("oracle",)).figure().x.label
        == "position noise, standard deviation (sides of the box)"
    )
    area = made((SweepAxis("least_area", (10.0, 20.0)),)).figure()
    assert area.x.label == "smallest area that counts (px²)"
    lower = replace(made((NUMBERS,)), lower=("AP@0.5",)).figure()
    assert lower.y.label == "AP (lower is better)"


def test_the_note_says_what_bands_are_and_what_is_behind() -> None:
    note = made((NUMBERS,)).figure().note
    assert (
        note
        == "Bands: pointwise 95 % confidence intervals, resampled by patient (n = 9). 10 images, "
        "20 references; protocol p."
    )
    none = replace(made((NUMBERS,)), band="none").figure().note
    assert none == "10 images, 20 references; protocol p."


@pytest.mark.parametrize(
    ("axis", "rows", "lower", "said"),
    [
        (
            NUMBERS,
            [[0.9, 0.5, 0.2], [0.8, 0.4, 0.1]],
            False,
            "On these images A has the best AP at every threshold",
        ),
        (
            NUMBERS,
            [[0.9, 0.5, 0.2], [0.8, 0.4, 0.1]],
            True,
            "On these images B has the best AP at every threshold",
        ),
        (
            NUMBERS,
            [[0.9, 0.5, 0.2], [0.8, 0.5, 0.1]],
            False,
            "On these images A has the best AP at every threshold, at some with others",
        ),
        (NUMBERS, [[0.9, 0.5, 0.1]] * 2, False, "The models have the same AP at every threshold"),
        (
            NUMBERS,
            [[0.9, 0.5, 0.1], [0.8, 0.6, 0.2]],
            False,
            "On these images the best model depends on the threshold: A first, B at 0.5 and above",
        ),
        (NUMBERS, [[np.nan] * 3] * 2, False, NOTHING),
        (
            NUMBERS,
            [[np.nan] * 3, [0.1, 0.2, 0.3]],
            False,
            "On these images B has the best AP at every threshold",
        ),
        (
            WORDS,
            [[0.9, 0.1], [0.8, 0.2]],
            False,
            "On these images the best model depends on the criterion: A with box-iou; B with iop",
        ),
        (
            WORDS,
            [[0.9, 0.3], [0.8, 0.2]],
            False,
            "On these images A has the best AP with every criterion",
        ),
    ],
)
def test_who_is_best(axis, rows, lower, said) -> None:
    assert who_is_best(axis, "AP", ("A", "B"), np.array(rows), lower=lower) == said


@pytest.mark.parametrize(
    ("axis", "rows", "said"),
    [
        (
            NOISE,
            {"loc": [1, 0.5, 0.2], "cls": [1, 1, 1]},
            "Position noise moves loc most, which falls from 1.00 to 0.20; cls hardly moves",
        ),
        (
            NOISE,
            {"loc": [0.995, 1, 1], "cls": [1, 1, 1]},
            "Position noise hardly moves any metric: by 0.01 at most",
        ),
        (
            NUMBERS,
            {"AP": [0.8, 0.5, 0.1]},
            "AP falls from 0.80 to 0.10 over a threshold of 0.1 to 0.9",
        ),
        (
            NUMBERS,
            {"AP": [0.8, 0.9, 0.1]},
            "AP lies between 0.10 and 0.90 over a threshold of 0.1 to 0.9",
        ),
        (NUMBERS, {"AP": [0.8, 0.8, 0.8]}, "AP hardly moves with the threshold: 0.80 to 0.80"),
        (NUMBERS, {"AP": [np.nan] * 3}, NOTHING),
        (WORDS, {"AP": [0.8, 0.3]}, "AP ranges from 0.30 (iop) to 0.80 (box-iou)"),
    ],
)
def test_what_moves(axis, rows, said) -> None:
    assert sensitivity(axis, list(rows), np.array(list(rows.values()), float)) == said


def test_a_range_over_two_choices_names_both_ends() -> None:
    values = np.array([[0.1, 0.2], [0.3, 0.9], [0.4, 0.5]])
    assert ranges((NUMBERS, CUTS), "F1", values) == (
        "F1 ranges from 0.10 (threshold 0.1, score cut 0.2) to 0.90 (threshold 0.5, score cut 0.4)"
    )
    assert ranges((NUMBERS, CUTS), "F1", np.full((3, 2), np.nan)) == NOTHING
    assert ranges((NUMBERS, CUTS), "F1", np.full((3, 2), 0.5)) == "F1 hardly moves: 0.50 to 0.50"


def test_the_spread_of_words_is_where_it_is_largest() -> None:
    values = np.array([[0.9, 0.5, np.nan], [0.9, 0.8, 0.1]])
    assert spread_of_words(NUMBERS, WORDS, "AP", values) == (
        "The criterion moves AP by up to 0.30: at threshold 0.5, 0.50 with box-iou, 0.80 with iop"
    )
    assert spread_of_words(NUMBERS, WORDS, "AP", values * np.nan) == NOTHING


def test_unknown_names_are_told() -> None:
    with pytest.raises(cal.UsageError, match=r"did you mean 'AP@0\.5'"):
        made((NUMBERS,)).figure("AP@0,5")
    with pytest.raises(cal.UsageError, match="no model 'Z'"):
        made((NUMBERS,)).figure(model="Z")


def test_a_notebook_shows_the_figure() -> None:
    shown = made((NUMBERS,), ("<b>", "B"))._repr_html_()
    assert "<svg" in shown
    assert "<b>" not in shown
    assert made((WORDS,), ("A", "B"))._repr_html_().count("<svg") == 1


def test_the_figure_of_a_sweep_can_be_saved(tmp_path) -> None:
    assert draw.save(made((NUMBERS, CUTS)).figure(), tmp_path / "sweep.pdf").stat().st_size > 1000
