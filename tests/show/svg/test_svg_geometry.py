"""What is drawn stands where the numbers say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from calipers.show import figures as f
from calipers.show.svg.axes import (
    DARK_INK,
    LIGHT_INK,
    NEAR,
    ON_DARK,
    SHADES,
    TOLERANCE,
    PixelScale,
    clip_line,
    contrast,
    label_heights,
    limits,
    luminance,
    shade_of,
    step_line,
    thin_line,
)
from calipers.show.svg.canvas import width_of
from calipers.show.svg.fields import isolines
from figure_cases import NAN, X, Y, having, points, texts, tick_pixels, tree

ROUNDING = 0.11  # pixels


def pixel_of(root: object, value: float, low: str, high: str, side: str = "x") -> float:
    a, b = tick_pixels(root, low, high, side)  # type: ignore[arg-type]
    x0, x1 = float(low), float(high)
    return a + (value - x0) / (x1 - x0) * (b - a)


def test_a_point_of_a_curve_lands_on_its_numbers() -> None:
    root = tree(
        f.Curves(
            "t",
            X,
            Y,
            (f.Line("a", np.array([0.0, 3.7, 10.0]), np.array([0.1, 0.83, 0.9]), marks=(1,)),),
        )
    )
    place = having(having(root, "fig-m")[0], "fig-m")[0]
    assert float(place.get("cx", 0)) == pytest.approx(pixel_of(root, 3.7, "0", "10"), abs=ROUNDING)
    assert float(place.get("cy", 0)) == pytest.approx(
        pixel_of(root, 0.83, "0.2", "0.8", "y"), abs=ROUNDING
    )
    corner = points(having(root, "fig-line")[0].get("d", ""))[1]
    assert corner == pytest.approx(
        [pixel_of(root, 3.7, "0", "10"), pixel_of(root, 0.83, "0.2", "0.8", "y")], abs=ROUNDING
    )


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors() -> None:
    axis = f.Axis("x", 0.125, 8.0, log=True, ticks=(0.125, 1.0, 8.0), names=("1/8", "1", "8"))
    root = tree(
        f.Curves("t", axis, Y, (f.Line("a", np.array([0.125, 8.0]), np.array([0.0, 1.0])),))
    )
    eighth, one = tick_pixels(root, "1/8", "1")
    assert tick_pixels(root, "1", "8")[1] - one == pytest.approx(one - eighth, abs=0.2)


def test_a_curve_from_zero_reaches_the_edge_of_a_logarithmic_axis() -> None:
    axis = f.Axis("x", 0.125, 8.0, log=True, ticks=(0.125, 8.0), names=("1/8", "8"))
    root = tree(
        f.Curves(
            "t", axis, Y, (f.Line("a", np.array([0.0, 0.25, 8.0]), np.array([0.2, 0.4, 1.0])),)
        )
    )
    start = points(having(root, "fig-line")[0].get("d", ""))[0]
    assert start[0] == pytest.approx(tick_pixels(root, "1/8", "8")[0], abs=ROUNDING)
    assert start[1] == pytest.approx(
        pixel_of(root, 0.3, "0.2", "0.8", "y"), abs=ROUNDING
    )  # half of the way


@pytest.mark.parametrize("step", [False, True])
def test_a_band_contains_its_line(step: bool) -> None:
    x = np.linspace(0, 10, 40)
    y = 0.5 + 0.3 * np.sin(x)
    root = tree(f.Curves("t", X, Y, (f.Line("a", x, y, y - 0.1, y + 0.08, step=step),)))
    polygon = points(having(root, "fig-band")[0].get("d", ""))
    line = points(having(root, "fig-line")[0].get("d", ""))
    for px, py in line[line[:, 0] < line[-1, 0]]:
        crossings = _crossings(polygon, px + 0.013)  # beside the corners
        assert min(crossings) < py < max(crossings)


def _crossings(polygon: np.ndarray, x: float) -> list[float]:
    found = []
    for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, axis=0)):
        if (x0 <= x) != (x1 <= x):
            found.append(y0 + (x - x0) / (x1 - x0) * (y1 - y0))
    return found


def test_a_line_is_broken_where_it_is_undefined() -> None:
    y = np.array([0.1, 0.2, NAN, 0.4, 0.5, NAN, 0.7])
    root = tree(f.Curves("t", X, Y, (f.Line("a", np.arange(7.0), y),)))
    assert having(root, "fig-line")[0].get("d", "").count("M") == 2
    assert len(having(root, "fig-m")) == 1 + 1  # the point without neighbours, and the legend


def test_names_stand_at_the_ends_of_lines_only_where_they_have_room() -> None:
    def lines(gap: float) -> tuple[f.Line, ...]:
        return tuple(
            f.Line(f"m{k}", np.array([0.0, 10.0]), np.array([0.0, 0.5 + gap * k]), slot=k)
            for k in range(3)
        )

    apart, close = tree(f.Curves("t", X, Y, lines(0.2))), tree(f.Curves("t", X, Y, lines(0.001)))
    assert tick_pixels(apart, "m0", "m2")[0] == tick_pixels(apart, "m0", "m2")[1] > 500
    first, last = tick_pixels(apart, "m0", "m2", "y")
    ends = [points(e.get("d", ""))[-1][1] for e in having(apart, "fig-line")[:3]]
    assert (first, last) == pytest.approx((ends[0], ends[2]), abs=ROUNDING)
    assert (
        len({e.get("y") for e in close.iter("text") if "".join(e.itertext()) in ("m0", "m1", "m2")})
        == 1
    )  # above


@pytest.mark.parametrize("ends", [[50.0, 52.0], [50.0, 58.0, 90.0], [0.0, 6.0], [94.0, 100.0]])
def test_names_that_are_moved_keep_their_distance(ends: list[float]) -> None:
    placed = label_heights(ends, 0.0, 100.0)
    assert placed is not None
    assert (np.diff(placed) >= NEAR - 1e-9).all()


def test_names_that_would_have_to_move_far_have_no_room() -> None:
    assert label_heights([50.0, 50.0, 50.0, 50.0], 0.0, 100.0) is None


def test_whiskers_end_where_intervals_end() -> None:
    root = tree(f.Forest("t", Y, ("a",), (f.ForestRow("r", "9", (f.Mark(0.5, 0.2, 0.9),)),)))
    (x0, y0), (x1, y1) = points(having(root, "fig-whisker")[0].get("d", ""))
    assert (x0, x1) == pytest.approx(
        [pixel_of(root, v, "0.2", "0.8") for v in (0.2, 0.9)], abs=ROUNDING
    )
    mark = having(root, "fig-m")[0]
    assert float(mark.get("cx", 0)) == pytest.approx(
        pixel_of(root, 0.5, "0.2", "0.8"), abs=ROUNDING
    )
    assert y0 == y1 == float(mark.get("cy", 0))
    assert "0.50 (0.20 to 0.90)" in texts(root)


def test_an_interval_beyond_the_axis_gets_an_arrow() -> None:
    inside_, beyond = (
        having(
            tree(f.Forest("t", Y, ("a",), (f.ForestRow("r", "9", (f.Mark(0.5, 0.2, high),)),))),
            "fig-whisker",
        )[0]
        for high in (0.9, 1.7)
    )
    assert inside_.get("d", "").count("M") == 1
    assert beyond.get("d", "").count("M") == 3


def test_a_forest_grows_with_its_rows_and_says_reasons() -> None:
    def forest(n: int) -> f.Forest:
        undefined = f.ForestRow("u", "0", (f.Mark(NAN, reason="no references"),))
        return f.Forest(
            "t",
            Y,
            ("a",),
            (undefined, *(f.ForestRow(str(k), "9", (f.Mark(0.5),)) for k in range(n))),
        )

    heights = [float(tree(forest(n)).get("viewBox", "").split()[3]) for n in (2, 12)]
    assert heights[1] - heights[0] == pytest.approx(230)
    [reason] = having(tree(forest(2)), "fig-reason")
    assert reason.text == "no references"


def test_numbers_stand_beside_a_forest_of_one_series_on_a_broad_sheet() -> None:
    def shown(series: int, width: float) -> bool:
        row = f.ForestRow("r", "9", (f.Mark(0.5, 0.4, 0.6),) * series)
        return "value (interval)" in texts(
            tree(f.Forest("t", Y, ("a", "b")[:series], (row,)), width=width)
        )

    assert (shown(1, 640), shown(1, 400), shown(2, 640)) == (True, False, False)


def test_the_pooled_row_is_bold_and_a_diamond() -> None:
    rows = tuple(
        f.ForestRow(name, "9", (f.Mark(0.5, 0.4, 0.6),), strong=name == "all")
        for name in ("x", "all")
    )
    root = tree(f.Forest("t", Y, ("a",), rows))
    assert {"all", "9", "0.50 (0.40 to 0.60)"} == {e.text for e in having(root, "fig-strong")}
    assert [e.tag for e in having(root, "fig-m")] == ["circle", "path"]


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a very long category indeed", "another one that is long") * 6]
)
def test_bars_are_as_long_as_their_numbers(names: tuple[str, ...]) -> None:
    heights = np.tile([[0.25, 0.75]], (1, len(names) // 2))
    root = tree(f.Bars("t", f.Axis("class", names=names), Y, ("s",), heights))
    side, length = (
        ("y", "height") if len(names) == 2 else ("x", "width")
    )  # they lie down for long names
    unit = abs(pixel_of(root, 1.0, "0.2", "0.8", side) - pixel_of(root, 0.0, "0.2", "0.8", side))
    drawn = [float(e.get(length, 0)) for e in having(root, "fig-f0")]
    assert drawn[:2] == pytest.approx([0.25 * unit, 0.75 * unit], abs=2 * ROUNDING)


def test_stacked_bars_stand_on_each_other() -> None:
    heights = np.array([[1.0, -1.0], [2.0, 3.0]])
    root = tree(
        f.Bars(
            "t", f.Axis("class", names=("a", "b")), f.Axis("n"), ("s", "r"), heights, stacked=True
        )
    )
    low, high = ([e for e in having(root, cls) if len(e)] for cls in ("fig-f0", "fig-f1"))

    def top(e: object, share: float) -> float:
        return float(e.get("y")) + share * float(e.get("height"))  # type: ignore[attr-defined]

    assert top(low[0], 0) == pytest.approx(top(high[0], 1), abs=0.2)  # on top
    assert top(low[1], 0) == pytest.approx(top(high[1], 1), abs=0.2)  # on both sides of zero


def test_a_histogram_is_as_high_as_its_counts() -> None:
    figure = f.Histogram(
        "t", Y, f.Axis("n", 0, 4), np.array([0, 0.5, 1]), ("a",), np.array([[1.0, 3.0]]), cut=0.25
    )
    root = tree(figure)
    heights = [pixel_of(root, v, "2", "3", "y") for v in (0, 1, 1, 3, 3, 0)]
    assert points(having(root, "fig-line")[0].get("d", ""))[:, 1] == pytest.approx(
        heights, abs=ROUNDING
    )
    assert points(having(root, "fig-cut")[0].get("d", ""))[0][0] == pytest.approx(
        pixel_of(root, 0.25, "0.2", "0.8"), abs=0.2
    )


def test_a_box_spans_the_quartiles() -> None:
    root = tree(f.BoxDots("t", Y, ("a",), (np.linspace(0, 1, 101),)))
    box = having(root, "fig-box")[0]
    top, height = float(box.get("y", 0)), float(box.get("height", 0))
    assert (top, top + height) == pytest.approx(
        [pixel_of(root, v, "0.2", "0.8", "y") for v in (0.75, 0.25)], abs=0.2
    )
    assert not having(root, "fig-dots")  # too many
    assert f.box_ends(np.linspace(0, 1, 101)) == pytest.approx((0.05, 0.25, 0.5, 0.75, 0.95))


def test_no_dot_of_a_few_lies_beyond_the_whiskers() -> None:
    few, other = np.array([0.1, 0.5, 0.6, 0.9]), np.array([0.2, np.nan, 0.4, 0.5])
    words = ("w", "x", "y", "z")
    root = tree(f.BoxDots("t", Y, ("a", "b"), (few, other), points=(words, words)))
    assert f.box_ends(few)[::4] == (0.1, 0.9)
    pieces = having(root, "fig-whisker")[0].get("d", "").split("M")[1:]
    heights = np.concatenate([points(f"M{piece}")[:, 1] for piece in pieces])
    ends = [pixel_of(root, v, "0.2", "0.8", "y") for v in (0.9, 0.1)]
    assert [heights.min(), heights.max()] == pytest.approx(ends, abs=0.2)
    # n is told where it is not that of the names of the dots.
    texts = ["".join(element.itertext()) for element in root.iter() if element.text]
    assert "a" in texts
    assert "b (n\xa0=\xa03)" in texts


def test_areas_of_blobs_are_shares() -> None:
    root = tree(f.Blob("t", ("a",), np.array([[0.8, 0.2]]), (1,), ((1, 2),)))
    radii = [float(e.get("r", 0)) for e in having(root, "fig-blob") if len(e)]
    assert (radii[0] / radii[1]) ** 2 == pytest.approx(4, abs=0.15)


def test_isolines_of_a_plane_are_straight() -> None:
    x, y = np.linspace(0, 3, 7), np.linspace(0, 2, 5)
    [(px, py)] = isolines(x, y, x[None, :] + 2 * y[:, None], 2.2)
    assert px + 2 * py == pytest.approx(2.2)
    assert {0.0, 2.2} & {round(float(px[0]), 9), round(float(px[-1]), 9)}


def test_an_isoline_around_a_hill_is_closed_and_round() -> None:
    x = np.linspace(-1, 1, 61)
    [(px, py)] = isolines(x, x, -np.hypot(x[None, :], x[:, None]), -0.6)
    assert (px[0], py[0]) == (px[-1], py[-1])
    assert np.hypot(px, py) == pytest.approx(0.6, abs=0.01)


def test_saddles_and_holes_have_no_loose_pieces() -> None:
    values = np.array([[1.0, 0, 1], [0, 1, 0], [1, 0, 1]])
    for level in (0.2, 0.5, 0.7):
        lines = isolines(np.arange(3.0), np.arange(3.0), values, level)
        for px, py in lines:
            closed = (px[0], py[0]) == (px[-1], py[-1])
            assert closed or all(
                px[k] in (0, 2) or py[k] in (0, 2) for k in (0, -1)
            )  # ends lie on the edge
    values[1, 1] = NAN
    assert isolines(np.arange(3.0), np.arange(3.0), values, 0.5) == []


def test_contours_have_lines_with_numbers_and_areas() -> None:
    grid = np.add.outer(np.zeros(5), np.linspace(0, 1, 6))
    root = tree(
        f.Contour(
            "t",
            f.Axis("a", 0, 1),
            f.Axis("b"),
            np.linspace(0, 1, 6),
            np.arange(5.0),
            grid,
            "h",
            (0.5,),
        )
    )
    [line] = having(root, "fig-iso")
    assert points(line.get("d", ""))[:, 0] == pytest.approx(pixel_of(root, 0.5, "0", "1"), abs=0.2)
    assert [e.text for e in having(root, "fig-iso-label")] == ["0.5"]
    assert len(having(root, "fig-area")) == len(SHADES)
    edge = points(having(root, f"fig-q{len(SHADES) // 2}")[-1].get("d", ""))[:, 0]
    assert edge.min() == pytest.approx(pixel_of(root, 0.5, "0", "1"), abs=0.2)


def test_contours_with_given_ends_share_their_colours() -> None:
    at = np.linspace(0, 1, 6)
    grid = np.add.outer(np.zeros(6), at)

    def areas(values: np.ndarray) -> int:
        return len(
            having(tree(f.Contour("t", X, Y, at, at, values, "h", (), 0.0, 1.0)), "fig-area")
        )

    assert areas(grid) == len(SHADES)
    assert areas(0.5 * grid) == len(SHADES) // 2 + 1  # the darker half is not used
    assert areas(np.zeros((6, 6))) == 1
    root = tree(f.Contour("t", X, Y, at, at, 0.1 * grid, "h", (), 0.0, 1.0))
    assert {"0", "1"} <= set(texts(root))


def test_square_contours_have_equal_units() -> None:
    xs, ys = np.linspace(0, 10, 5), np.linspace(0, 5, 5)
    figure = f.Contour("t", f.Axis("a"), f.Axis("b"), xs, ys, np.outer(ys, xs), "h", square=True)
    plain, square = (
        having(tree(g), "fig-undefined")[0] for g in (replace(figure, square=False), figure)
    )
    sizes = [float(square.get(side, 0)) for side in ("width", "height")]
    assert sizes[0] == pytest.approx(2 * sizes[1], abs=0.5)
    assert float(plain.get("width", 0)) == sizes[0]


def test_what_is_undefined_in_a_map_is_hatched_and_says_so() -> None:
    values = np.array([[0.0, NAN, 1.0]])
    root = tree(
        f.HeatMap(
            "t", f.Axis("x", names=("a", "b", "c")), f.Axis("y", names=("r",)), values, "share"
        )
    )
    [hole] = having(root, "fig-undefined")
    assert hole.get("fill") == "url(#figure-hatch)"
    assert "undefined" in texts(root)
    assert [e.text for e in having(root, "fig-on-light") + having(root, "fig-on-dark")] == [
        "0.00",
        "1.00",
    ]


def test_texts_on_colours_have_contrast() -> None:
    for shade, dark in zip(SHADES, ON_DARK):
        assert contrast(shade, LIGHT_INK if dark else DARK_INK) >= 4.5
    assert contrast("#ffffff", "#000000") == pytest.approx(21)


def test_colours_grow_darker_evenly() -> None:
    lightness = np.cbrt([luminance(shade) for shade in SHADES])
    steps = np.diff(lightness)
    assert (steps < 0).all()
    assert steps.min() / steps.max() < 1.6
    assert shade_of(np.array([-1, 0, 0.5, 1, 2, NAN]), 0, 1).tolist() == [0, 0, 8, 15, 15, -1]


def test_names_of_points_do_not_cover_each_other() -> None:
    dots = f.Dots(
        "a",
        np.full(4, 5.0),
        np.array([0.5, 0.5, 0.505, 0.9]),
        names=("one", "two", "three", "four"),
    )
    root = tree(f.Scatter("t", X, Y, (dots,)))
    boxes = [(e.get("x"), e.get("y")) for e in having(root, "fig-halo-text")]
    assert len(boxes) == len(set(boxes)) >= 2
    assert len(having(root, "fig-m")) == 4


def test_thinning_moves_a_line_less_than_can_be_seen() -> None:
    x = np.linspace(0, 600, 4000)
    y = 200 + 100 * np.sin(x / 40)
    px, py = thin_line(x, y)
    assert len(px) < 400
    assert np.abs(np.interp(x, px, py) - y).max() < 4 * TOLERANCE
    peak_x, peak_y = thin_line(np.zeros(3), np.array([0.0, 10.0, 5.0]))  # there and back again
    assert (len(peak_x), peak_y.max()) == (3, 10.0)


def test_steps_hold_their_value() -> None:
    x, y = step_line(np.array([0.0, 1, 2]), np.array([5.0, 6, 7]))
    assert (x.tolist(), y.tolist()) == ([0, 1, 1, 2, 2], [5, 5, 6, 6, 7])
    cut_x, cut_y = clip_line(np.array([0.0, 1, 2]), np.array([5.0, 6, 7]), 0.5, 1.5, step=True)
    assert (cut_x.tolist(), cut_y.tolist()) == ([0.5, 1, 1.5], [5, 6, 6])


@pytest.mark.parametrize(
    ("axis", "values", "expected"),
    [
        (f.Axis("x", 0, 1), [], (0, 1)),
        (f.Axis("x"), [], None),
        (f.Axis("x"), [[NAN, math.inf]], None),
        (f.Axis("x", log=True), [[0, -1]], None),
        (f.Axis("x"), [[0, 1]], (0, 1.04)),
        (f.Axis("x"), [[-1, 1]], (-1.08, 1.08)),
        (f.Axis("x"), [[5, 5]], (4.5, 5.5)),
        (f.Axis("x", 0), [[-1, 3]], (0, 3.12)),
        (f.Axis("x", 0, log=True), [[1, 1]], (0.5, 2)),
    ],
)
def test_limits(
    axis: f.Axis, values: list[list[float]], expected: tuple[float, float] | None
) -> None:
    assert limits(axis, values) == (expected if expected is None else pytest.approx(expected))


def test_bars_of_no_height_stand_on_the_axis() -> None:
    assert limits(f.Axis("n"), [[0, 0]], zero=True) == (0, 1)


def test_a_scale_says_where_numbers_are() -> None:
    assert PixelScale(0, 10, 100, 200)([0, 5, 20, NAN]).tolist()[:3] == [100, 150, 300]
    assert PixelScale(1, 100, 0, 10, log=True).at(10) == pytest.approx(5)
    assert math.isnan(PixelScale(1, 100, 0, 10, log=True).at(0))
    assert PixelScale(0, 10, 200, 100).within(99) == 100


def test_words_of_a_cell_that_are_too_long_stand_in_two_lines() -> None:
    columns = tuple(f"tau 0.{k}" for k in range(9))
    words = (tuple(f"{k}. (0.6{k})" for k in range(9)),)
    root = tree(
        f.HeatMap(
            "t", f.Axis("labels", names=columns), f.Axis("monitor", names=("count",)),
            np.full((1, 9), 0.6), "AUROC", words=words,
        ),
        width=460,
    )  # fmt: skip
    shown = texts(root)
    assert "3." in shown
    assert "(0.63)" in shown
    assert not [text for text in shown if "…" in text]


def test_a_count_has_no_ticks_between_whole_numbers() -> None:
    counts, edges = np.array([[0.0, 3.0, 1.0]]), np.linspace(0.0, 1.0, 4)
    root = tree(f.Histogram("t", X, f.Axis("images", 0.0, whole=True), edges, ("a",), counts))
    beside = [e.text for e in having(root, "fig-end")]
    assert beside == ["0", "1", "2", "3"]


def test_the_last_number_below_a_forest_is_not_cut() -> None:
    rows = (f.ForestRow("all", "5", (f.Mark(0.7395, 0.7195, 0.7595),)),)
    root = tree(f.Forest("t", f.Axis("APJ"), ("model",), rows), width=430)
    last = max(float(e.get("x", 0)) for e in root.iter("text") if e.text == "0.76")
    assert last + width_of("0.76") / 2 <= 430
