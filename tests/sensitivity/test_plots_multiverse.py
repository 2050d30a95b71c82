"""Figures of the multiverse: titles state what the numbers say, tables hold the numbers, and all
can be drawn.
"""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.errors import UsageError
from calipers.sensitivity.figures import FIGURES
from calipers.sensitivity.result import robustness
from calipers.show.svg.draw import svg
from cases import cohort_of
from sensitivity_cases import multiverse_of

EACH = [{"metric": m, "threshold": t} for m in ("AP", "F1") for t in (0.3, 0.5)]


@pytest.fixture(scope="module")
def found():
    return multiverse_of([[3, 2, 1], [3, 3, 1], [1, 2, 3], [1, 2, 3]], EACH)


def test_ranks_share_ties(found):
    figure = found.figure("ranks")
    assert figure.title == "c most often has the best value, in 50 % of 4 configurations"
    shares = dict(zip(figure.models, figure.shares.tolist()))
    assert shares["a"] == [0.375, 0.125, 0.5]
    assert shares["b"] == [0.125, 0.875, 0.0]
    assert np.allclose(figure.shares.sum(axis=0), 1)
    assert figure.table().columns[-1] == "share of configurations"


def test_the_curve_rises_and_marks_the_base(found):
    figure = found.figure("curve")
    zero, line = figure.lines
    assert figure.title == "a has a better value than b in 25 % of 4 configurations"
    assert line.y.tolist() == [-1, -1, 0, 1]
    assert line.marks == (3,)
    assert line.low is None
    assert zero.y.tolist() == [0, 0]


def test_the_curve_has_the_band_of_its_replicates(found):
    drawn = np.stack([found.values, found.values + 0.1, found.values * 2])
    bounds = robustness(found.values, drawn, (0, 1), seed=0, unit="image", n_units=9)
    banded = multiverse_of(found.values, EACH, robustness=bounds)
    line = banded.figure("curve").lines[1]
    # The third configuration has the same difference in all replicates: no band.
    assert np.isnan(line.low).tolist() == [False, False, True, False]
    banded_points = ~np.isnan(line.low)
    assert (line.low <= line.y)[banded_points].all()
    assert (line.y <= line.high)[banded_points].all()
    assert "resampled by image (n = 9)" in banded.figure("curve").note


def test_choices_come_with_their_share_of_the_variance(found):
    figure = found.figure("choices")
    assert figure.title.startswith("The rank of a depends most on metric (")
    assert [row.name for row in figure.rows] == ["metric", "threshold"]
    assert figure.rows[0].marks[0].value == found.explained["metric"]


def test_levels_name_the_choice_that_moves_most_and_leave_out_what_moves_nothing():
    found = multiverse_of([[2, 1], [2, 1], [1, 2], [1, 2]], EACH)
    figure = found.figure("levels")
    assert (
        figure.title
        == "With metric AP, a has the best value in 100 % of the configurations; in all, 50 %"
    )
    assert figure.y.names == ("metric AP", "metric F1")
    assert figure.values.tolist() == [[1, 0], [0, 1]]
    assert figure.note.endswith("change no share by 1 %: threshold.")


def test_if_nothing_moves_the_titles_say_so():
    found = multiverse_of([[2, 1]] * 4, EACH)
    assert found.figure("levels").title == "No single choice changes which model has the best value"
    assert found.figure("choices").title == "No single choice changes the ranking"


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_drawn(found, name):
    pytest.importorskip("matplotlib")
    for one in (found, multiverse_of([[2, 1]] * 4, EACH), multiverse_of([[1, 2]], EACH[:1])):
        assert svg(one.figure(name), width=460, name=name).startswith("<svg")
        assert one.plot(name).figure is not None


def test_an_unknown_figure_names_the_nearest(found):
    with pytest.raises(UsageError, match="did you mean 'ranks'"):
        found.figure("rank")


def test_a_notebook_shows_sentences_and_shares():
    found = cal.multiverse(cohort_of("plain", seed=2, models=2), {"metric": ["RoDeO"]})
    shown = found._repr_html_()
    assert "configurations won" in shown
    assert "model-1" in shown
