"""Boxes on images: layers that can be hidden, halos, words, and nothing from elsewhere."""

from __future__ import annotations

import pytest

from calipers.errors import UsageError
from calipers.show.figures import MARKS, BoxMark, Overlay
from calipers.show.svg.draw import stylesheet, svg
from figure_cases import PIXEL, having, tree

Box = tuple[float, float, float, float]


def drawn(
    box: Box, fate: str = "hit", size: tuple[float, float] = (200.0, 100.0)
) -> dict[str, str]:
    [[mark]] = having(tree(Overlay("t", size, (BoxMark(fate, box, "nodule", 0.83),))), "fig-mark")
    return mark.attrib | {"title": mark[0].text or ""}


def test_a_box_stands_at_its_pixels() -> None:
    mark = drawn((10.25, 20, 60, 50))
    assert [mark[key] for key in ("x", "y", "width", "height")] == ["10.25", "20", "49.75", "30"]
    assert mark["title"] == "hit: nodule, score 0.83"


def test_lines_keep_their_width_when_a_picture_is_enlarged() -> None:
    assert (
        ".fig-halo,.fig-mark rect,.fig-mark path{vector-effect:non-scaling-stroke}" in stylesheet()
    )


def test_every_fate_has_a_layer_and_every_box_a_halo_below() -> None:
    marks = tuple(BoxMark(fate, (1, 1, 9, 9), "a") for fate in MARKS)
    root = tree(Overlay("t", (10.0, 10.0), marks))
    order = list(root)
    for fate in MARKS:
        name = fate.replace(" ", "-")
        halo, layer = having(root, f"fig-layer-{name}")
        assert halo.get("class") == f"fig-layer fig-layer-{name} fig-halo fig-halo-{name}"
        assert halo.get("d") == "M1 1h8v8h-8z"
        assert layer.get("class") == f"fig-layer fig-layer-{name} fig-mark fig-{name}"
        assert order.index(halo) < min(order.index(other) for other in having(root, "fig-mark"))
    assert root.get("viewBox") == "0 0 10 10"
    assert "fig-backdrop" in root[2].get("class", "")


def test_a_layer_without_boxes_is_not_there() -> None:
    root = tree(Overlay("t", (10.0, 10.0), (BoxMark("hit", (1, 1, 2, 2), "a"),)))
    assert len(having(root, "fig-layer")) == 2  # the halo and the box


@pytest.mark.parametrize("box", [(-50, 10, 60, 90), (-9, -9, 999, 999), (150, 50, 300, 150)])
def test_a_box_that_reaches_beyond_is_cut_just_inside_the_edge(box: Box) -> None:
    mark = drawn(box)
    x, y = float(mark["x"]), float(mark["y"])
    assert 0 <= x <= x + float(mark["width"]) <= 200
    assert 0 <= y <= y + float(mark["height"]) <= 100
    assert mark["title"].endswith("reaches beyond the image")


@pytest.mark.parametrize(
    "box", [(250, 20, 300, 40), (-90, 50, -10, 50), (20, -40, 60, -5), (300, 300, 310, 310)]
)
def test_a_box_outside_leaves_a_trace_at_the_edge(box: Box) -> None:
    mark = drawn(box, "false alarm")
    x, y = float(mark["x"]), float(mark["y"])
    assert 0 <= x <= x + float(mark["width"]) <= 200
    assert 0 <= y <= y + float(mark["height"]) <= 100
    assert min(x, y, 200 - x, 100 - y) < 2
    assert "fig-outside" in mark["class"]
    assert mark["title"].endswith("outside the image")


def test_a_box_without_size_is_still_visible_and_corners_may_be_swapped() -> None:
    assert float(drawn((5, 5, 5, 5))["width"]) > 0
    assert drawn((60, 50, 10, 20))["x"] == "10"


def test_pictures_come_from_the_page_itself() -> None:
    [image] = tree(Overlay("t", (10.0, 10.0), (), picture=PIXEL)).iter("image")
    assert image.get("href") == PIXEL
    [use] = tree(Overlay("t", (10.0, 10.0), (), symbol="picture-3")).iter("use")
    assert use.get("href") == "#picture-3"


@pytest.mark.parametrize(
    "address",
    ["https://example.org/a.png", "data:text/html,<b>", 'data:image/png;base64,"', "x.png"],
)
def test_pictures_from_elsewhere_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="data:image"):
        svg(Overlay("t", (10.0, 10.0), (), picture=address))


def test_an_id_that_is_none_and_an_unknown_fate_are_refused() -> None:
    with pytest.raises(UsageError, match="symbol"):
        svg(Overlay("t", (10.0, 10.0), (), symbol="a b"))
    with pytest.raises(UsageError, match="expected one of reference, hit"):
        svg(Overlay("t", (10.0, 10.0), (BoxMark("lucky", (1, 1, 2, 2), "a"),)))


def test_the_description_counts_the_fates() -> None:
    marks = (
        BoxMark("hit", (1, 1, 2, 2), "a"),
        BoxMark("missed", (1, 1, 2, 2), "a"),
        BoxMark("hit", (3, 3, 4, 4), "a"),
    )
    desc = tree(Overlay("t", (10.0, 10.0), marks))[1].text
    assert desc == "Image of 10 by 10 pixels, without the picture: 2 hit, 1 missed."


RINGS = (((1.0, 1.0), (9.0, 1.0), (9.0, 9.0), (1.0, 9.0)), ((3.0, 3.0), (5.0, 4.5), (3.0, 6.0)))


def test_an_outline_takes_the_place_of_its_box_and_halo() -> None:
    mark = BoxMark("hit", (1, 1, 9, 9), "lesion", 0.5, RINGS)
    root = tree(Overlay("t", (10.0, 10.0), (mark,)))
    halo, layer = having(root, "fig-layer-hit")
    assert halo.get("d") == layer[0].get("d") == "M1 1h8v8h-8zM3 3l2 1.5l-2 1.5z"
    assert layer[0].tag.endswith("path")
    assert layer[0][0].text == "hit: lesion, score 0.5"


def test_the_map_lies_between_the_picture_and_the_marks_and_can_be_hidden() -> None:
    mark = BoxMark("hit", (1, 1, 9, 9), "lesion")
    root = tree(Overlay("t", (10.0, 10.0), (mark,), symbol="picture-1", shade_symbol="map-0-1"))
    order = list(root)
    [shade] = having(root, "fig-layer-map")
    [picture] = having(root, "fig-picture")
    assert shade.get("href") == "#map-0-1"
    assert order.index(picture) < order.index(shade) < order.index(having(root, "fig-halo")[0])
    [described] = [e.text or "" for e in root.iter() if e.tag.endswith("desc")]
    assert "with the map of scores" in described


@pytest.mark.parametrize("bad", ["http://x/y.png", "data:text/html,x"])
def test_a_map_from_elsewhere_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="data:image"):
        svg(Overlay("t", (10.0, 10.0), (), shade=bad))
    with pytest.raises(UsageError, match="id of letters"):
        svg(Overlay("t", (10.0, 10.0), (), shade_symbol=bad))
