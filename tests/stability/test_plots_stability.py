"""Figures of stability: titles state what the numbers say, tables hold the numbers, and all can be
drawn.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.data.bags import Bag
from calipers.errors import UsageError
from calipers.show.svg.draw import svg
from calipers.stability.analyse import stability_table
from calipers.stability.figures import (
    FIGURES,
    available,
    blocks,
    disputed_slice,
    ends,
    marked_by,
    score_text,
)
from calipers.synthetic.bags import demo_bags
from superlatives import names_an_extreme


@pytest.fixture(scope="module")
def found():
    return cal.stability(demo_bags("unstable", n_bags=24, n_models=4, shape=(8, 8)), replicates=100)


def bag_of(values):
    """A bag of models by anything."""
    array = np.asarray(values, np.float64)
    return Bag("x", array.reshape(len(array), -1), array.shape[1:])


def test_no_title_names_what_was_not_tested(found):
    for name in available(found):
        assert not names_an_extreme(found.figure(name).title), name


def test_the_title_of_pairs_is_their_range(found):
    figure, values = found.figure("pairs"), found.per_pair("APJ")
    low, high = score_text(float(np.nanmin(values))), score_text(float(np.nanmax(values)))
    assert figure.title == f"APJ of two models is {low} to {high}, in 6 pairs"
    assert np.array_equal(figure.values, values, equal_nan=True)
    assert found.figure("pairs", score="Spearman").label == "Spearman"


def test_pairs_of_many_models_are_told_by_colour_where_numbers_have_no_room():
    many = cal.stability(np.random.default_rng(0).random((30, 5, 9)), ci=False, kendall=False)
    assert "…" not in svg(many.figure("pairs"), width=460)


def test_leaving_out_models_has_an_interval_for_all_and_a_value_for_each(found):
    figure, left = found.figure("models"), found.leave_one_out("APJ")
    assert figure.rows[0].strong
    assert (figure.rows[0].marks[0].low, figure.rows[0].marks[0].high) == (left.low, left.high)
    assert [row.marks[0].value for row in figure.rows[1:]] == list(left.without)
    low, high = score_text(min(left.without)), score_text(max(left.without))
    assert figure.title == (
        f"APJ is {score_text(left.value)} with all 4 models, and {low} to {high} without one of "
        "them"
    )


def test_of_two_models_nothing_is_said_about_others():
    pair = cal.stability(np.random.default_rng(0).random((2, 6, 9)), ci=False)
    figure = pair.figure("models")
    assert figure.title == "2 models are too few to say anything about other trainings"
    assert figure.rows[0].marks[0].reason == "too few units"


def test_the_histogram_is_of_places_that_anybody_marks(found):
    figure, counts = found.figure("called"), found.called().total
    assert figure.x.names == ("1", "2", "3", "4")
    assert figure.heights.sum() == pytest.approx(1)
    assert figure.heights[0, 0] == counts[1] / counts[1:].sum()
    assert f"n = {counts[1:].sum()} places" in figure.note
    one = found.figure("called", bag=found.ids[2])
    assert one.heights[0, 0] == found.called().per_bag[2, 1] / found.called().per_bag[2, 1:].sum()


def test_the_map_of_an_image_is_the_histogram_of_that_image(found):
    for place in (0, 5):
        figure = found.figure("bags", bag=found.ids[place])
        assert [row[1] for row in figure.table().rows] == found.called().per_bag[place].tolist()
        assert figure.inside.sum() == found.evidence.truth[place]
    assert found.figure("bags").title.startswith(found.ids[found.ranked("APJ")[0]])


def test_a_threshold_of_zero_is_strict_as_in_the_analysis():
    maps = np.random.default_rng(1).random((3, 4, 6)) * (
        np.random.default_rng(2).random((3, 4, 6)) > 0.5
    )
    found = cal.stability(maps, threshold=0.0, ci=False)
    for i in range(4):
        counts = np.bincount(marked_by(found.bag(i), 0.0).ravel(), minlength=4)
        assert counts.tolist() == found.called().per_bag[i].tolist()


def test_of_a_volume_the_slice_with_most_disagreement_is_shown():
    values = np.zeros((2, 4, 3, 3))
    values[:, 1] = 1  # both mark a whole slice: no dispute
    values[0, 2, 0] = 1
    part = disputed_slice(bag_of(values), 0.5)
    assert (part.index, part.of) == (2, 4)
    assert part.counts.tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert disputed_slice(bag_of(np.zeros((2, 5))), 0.5).counts.shape == (1, 5)


def test_large_maps_are_shown_in_blocks_by_the_highest_of_their_numbers():
    values = np.array([[0, 2, 3], [2, 1, 1], [0, 4, 0]])
    assert blocks(values, 2).tolist() == [[2, 3], [4, 0]]
    found = cal.stability(np.random.default_rng(0).random((2, 1, 100, 40)), ci=False)
    figure = found.figure("bags")
    assert figure.counts.shape == (50, 20)
    assert "Blocks of 2 × 2 cells" in figure.note


def test_the_sweep_marks_the_threshold_and_has_the_estimates(found):
    figure = found.figure("sweep")
    thresholds, estimates = found.sweep("APJ")
    assert figure.lines[0].y.tolist() == [one.value for one in estimates]
    assert [thresholds[k] for k in figure.lines[0].marks] == [0.5]
    assert [line.name for line in figure.lines] == ["APJ", "called-by-all"]


def test_intervals_of_the_share_of_units_are_no_bars():
    same = cal.stability(
        np.tile(np.random.default_rng(0).random((1, 12, 9)), (3, 1, 1)), replicates=100
    )
    assert same["APJ"].method == "jeffreys-t"
    value, low, high = ends([same["APJ"]])
    assert (value.tolist(), high.tolist()) == ([1.0], [1.0])
    assert low[0] < 1.0
    before = replace(same["APJ"], method="clopper-pearson-units")  # as version 0.1 stored it
    value, low, high = ends([before])
    assert value.tolist() == [1.0]
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_scores_are_correlated_over_images(found):
    figure, table = found.figure("scores"), found.correlation()
    assert figure.values[0, 1] == table["APJ", "AJ"]
    assert "APJ = AJ / (2 − AJ)" in figure.note


def test_the_spread_over_images_counts_each_once(found):
    figure = found.figure("images")
    assert figure.counts.sum() == found.n_used
    assert (figure.edges[0], figure.edges[-1]) == (-0.4, 1.0)


def test_stability_stands_against_dice_with_deviations_over_models(found):
    figure = found.figure("dice")
    mean, sd = found.localized.per_bag("DICE")
    assert figure.dots[0].y.tolist() == mean.tolist()
    assert np.allclose(figure.dots[0].y_high - figure.dots[0].y, sd)
    assert figure.title.endswith(f"n = {len(mean)}")


def test_every_model_has_its_auc(found):
    figure = found.figure("auc")
    assert figure.dots[0].names == found.models
    assert figure.dots[0].y.tolist() == [
        found.get("AUC", model=model).value for model in found.models
    ]
    assert figure.dots[0].x[0] == pytest.approx(np.nanmean(found.per_pair("APJ")[0]))


def test_without_a_reference_there_is_neither_dice_nor_auc():
    plain = cal.stability(np.random.default_rng(0).random((3, 8, 9)), ci=False)
    assert available(plain) == tuple(name for name in FIGURES if name not in ("dice", "auc"))
    for name in ("dice", "auc"):
        with pytest.raises(UsageError, match="no references"):
            plain.figure(name)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_drawn(found, name):
    pytest.importorskip("matplotlib")
    assert svg(found.figure(name), width=460, name=name).startswith("<svg")
    assert found.plot(name).figure is not None


@pytest.mark.parametrize(
    "maps", [np.zeros((2, 5, 4)), np.ones((3, 5, 4)), np.zeros((2, 1, 1))], ids=["0", "1", "tiny"]
)
def test_maps_that_say_nothing_can_be_drawn(maps):
    found = cal.stability(maps, ci=False)
    for name in available(found):
        assert svg(found.figure(name), width=460, name=name).startswith("<svg")
    assert "no model" in cal.stability(np.zeros((2, 5, 4)), ci=False).figure("called").title.lower()


def test_wrong_choices_are_refused_with_the_nearest(found):
    with pytest.raises(UsageError, match="did you mean 'pairs'"):
        found.figure("pair")
    with pytest.raises(UsageError, match="takes score, not 'bag'"):
        found.figure("pairs", bag=1)
    with pytest.raises(UsageError, match="no image 'B0O8' was used"):
        found.figure("bags", bag="B0O8")
    with pytest.raises(UsageError, match="12 were used"):
        found.figure("called", bag=12)
    with pytest.raises(UsageError, match="was made without its maps"):
        replace(found, source=None).figure("bags")


def test_several_analyses_are_points_with_deviations(found):
    other = cal.stability(demo_bags("stable-good", n_bags=12, n_models=3, shape=(8, 8)), ci=False)
    table = stability_table(
        {("made up", "max"): found, ("made up", "mean"): other, ("more", "max"): other}
    )
    figure = table.figure()
    assert [dots.name for dots in figure.dots] == ["made up", "more"]
    assert figure.dots[0].names == ("max", "mean")
    assert figure.dots[0].x[0] == found["APJ"].value
    assert figure.dots[0].x_high[0] - figure.dots[0].x[0] == pytest.approx(found.sd("APJ"))
    assert "n = 3" in figure.title
    assert svg(table.figure("DICE", "Spearman"), name="d").startswith("<svg")
    with pytest.raises(UsageError, match="did you mean 'DICE'"):
        table.figure("DICEE")
