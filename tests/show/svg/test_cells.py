"""Cells of an image: shades follow the numbers, the line runs around the reference, pictures lie
below.
"""

from __future__ import annotations

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.show.figures import Cells
from calipers.show.svg.draw import svg
from figure_cases import PIXEL, having, points, texts, tree

COUNTS = np.array([[0, 1, 2, 2], [0, 0, 2, 2]])
INSIDE = np.array([[False, False, True, True], [False, False, True, True]])


def cells(**options):
    return Cells("t", COUNTS, 2, "models that mark a place", **options)


def test_the_table_counts_cells_by_their_number_and_those_in_the_reference():
    assert cells().table().rows == ((0, 3), (1, 1), (2, 4))
    assert cells(inside=INSIDE).table().rows == ((0, 3, 0), (1, 1, 0), (2, 4, 4))


def test_every_number_has_a_shade_and_none_is_the_lightest():
    root = tree(cells())
    assert [len(having(root, f"fig-q{step}")) for step in (0, 8, 15)] == [
        2,
        2,
        2,
    ]  # a swatch and a path each
    assert texts(root)[:4] == ["models that mark a place", "0", "1", "2"]


def test_the_line_runs_around_the_reference_once():
    root = tree(cells(inside=INSIDE))
    (around,) = [e for e in having(root, "fig-line") if e.get("d", "").count("M") == 4]
    corners = points(around.get("d"))
    assert len(corners) == 2
    assert "reference" in texts(root)
    assert not having(tree(cells(inside=INSIDE & False)), "fig-line")


def test_over_a_picture_cells_of_zero_are_transparent():
    root = tree(cells(picture=PIXEL))
    assert len(having(root, "fig-picture")) == 1
    assert len(having(root, "fig-q0")) == 1  # the swatch
    assert {e.get("fill-opacity") for e in having(root, "fig-seamless")} == {".6"}


def test_a_picture_from_elsewhere_is_refused():
    with pytest.raises(UsageError, match="must not load anything"):
        svg(cells(picture="https://example.org/a.png"))


def test_cells_are_as_high_as_the_picture_asks():
    def height(figure):
        return float(tree(figure).get("viewBox").split()[3])

    flat, deep = height(cells()), height(cells(aspect=2.0))
    assert deep - flat == pytest.approx(2 * 26.0)  # two rows, each twice as high


def test_many_models_have_fewer_swatches_than_numbers():
    figure = Cells("t", np.arange(61)[None], 60, "models")
    found = texts(tree(figure))
    assert found[0] == "models"
    assert found[-1] == "60"
    assert len(found) < 20
