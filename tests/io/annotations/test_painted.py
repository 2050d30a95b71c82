"""Masks that were painted with a brush: LabelMe's PNG files and Label Studio's packed bits."""

from __future__ import annotations

import base64
import io
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import calipers as cal
from annotation_cases import (
    PAINTED_BRUSH,
    PAINTED_PNG,
    labelme,
    labelme_shape,
    put,
    region,
    task,
)
from calipers.io.annotations.painted import RowRuns, brush_runs
from seeds import looped

SIZES = (3, 4, 8, 16)  # of counts, as Label Studio writes them


def packed(bits: str) -> list[int]:
    """Bits as bytes, filled up with zeros."""
    bits += "0" * (-len(bits) % 8)
    return [int(bits[k : k + 8], 2) for k in range(0, len(bits), 8)]


def header(n_words: int, word: int = 8, sizes: tuple[int, ...] = SIZES) -> str:
    return f"{n_words:032b}{word - 1:05b}" + "".join(f"{size - 1:04b}" for size in sizes)


def repeated(value: int, count: int, choice: int = 3, size: int = 16, word: int = 8) -> str:
    return f"1{choice:02b}{count - 1:0{size}b}{value:0{word}b}"


def png(pixels: Any, mode: str | None = None) -> str:
    stream = io.BytesIO()
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    assert mode in (None, image.mode)
    image.save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def brush(rle: Any, width: int, height: int, **others: Any) -> dict[str, Any]:
    sizes = {"original_width": width, "original_height": height}
    return region("polyp", {"format": "rle", "rle": rle}, "brushlabels", **sizes, **others)


def export(folder: Path, *regions: Any) -> Path:
    path = folder / "export.json"
    path.write_text(json.dumps([task("a.png", list(regions))]))
    return path


def painted(start: np.ndarray, length: np.ndarray, n: int) -> np.ndarray:
    pixels = np.zeros(n, np.bool_)
    for first, count in zip(start.tolist(), length.tolist()):
        pixels[first : first + count] = True
    return pixels


def test_a_brush_by_hand(tmp_path) -> None:
    """An image of 3 x 2 pixels: one that is half transparent, and the last row."""
    bits = header(24)
    bits += "1" + "00" + "011" + f"{0:08b}"  # four zeros: the first pixel
    # Four words that follow each other: colours, and an opacity of 128.
    bits += "0" + "00" + "011" + "".join(f"{word:08b}" for word in (10, 0, 30, 128))
    # A colour without opacity is transparent.
    bits += "0" + "00" + "011" + "".join(f"{word:08b}" for word in (10, 20, 30, 0))
    bits += "1" + "01" + "1011" + f"{255:08b}"  # twelve times 255
    references = cal.read(export(tmp_path, brush(packed(bits), 3, 2))).references
    assert references.masks is not None
    assert references.masks.dense(0).tolist() == [[False, True, False], [True, True, True]]
    assert references.boxes.tolist() == [[0, 0, 3, 2]]


@looped("seed", range(60))
def test_packed_bits_equal_a_slow_twin(seed: int) -> None:
    """Random blocks, word sizes and sizes of counts, against words that are written one by one."""
    rng = np.random.default_rng(seed)
    width, height = rng.integers(1, 12, 2).tolist()
    word_bits = int(rng.integers(1, 33))
    sizes = tuple(rng.integers(1, 17, 4).tolist())
    words: list[int] = []
    bits = header(4 * width * height, word_bits, sizes)
    while len(words) < 4 * width * height:
        choice = int(rng.integers(4))
        most = min(4 * width * height - len(words), 1 << sizes[choice], 40)
        count, is_repeated = int(rng.integers(1, most + 1)), bool(rng.integers(2))
        values = rng.integers(0, 1 << word_bits, count) * rng.integers(0, 2, count)
        if is_repeated:
            values[:] = values[0]
        bits += f"{is_repeated:b}{choice:02b}{count - 1:0{sizes[choice]}b}"
        for value in values[: 1 if is_repeated else count].tolist():
            bits += f"{value:0{word_bits}b}"
        words += values.tolist()
    expected = np.array(words).reshape(-1, 4)[:, 3] > 0
    result = brush_runs(packed(bits), width, height)
    assert isinstance(result, RowRuns)
    assert np.array_equal(painted(result.start, result.length, width * height), expected)


def test_the_same_pixels_in_both_tools(tmp_path) -> None:
    expected = [[False, True, True, False], [True, True, True, True]]
    brushed = cal.read(export(tmp_path, brush(PAINTED_BRUSH, 4, 2)))
    shape = labelme_shape("polyp", [[0, 0], [3, 1]], "mask", mask=PAINTED_PNG)
    document = labelme(shape, imageWidth=4, imageHeight=2)
    for cohort in (brushed, cal.read(put(tmp_path / "lm", {"a.json": document}))):
        assert cohort.references.masks is not None
        assert cohort.references.masks.dense(0).tolist() == expected


def test_a_label_beside_a_brush_and_a_bit_mask(tmp_path) -> None:
    """The tag Brush writes the mask and the label apart; bit masks are transparent pictures."""
    full = packed(header(200) + repeated(255, 200))
    sizes = {"original_width": 10, "original_height": 5}
    alone = {"id": "b", "type": "brush", **sizes, "value": {"format": "rle", "rle": full}}
    label = {**alone, "type": "labels", "value": {**alone["value"], "labels": ["cyst"]}}
    pixels = np.zeros((5, 10, 4), np.uint8)
    pixels[2:4, 3:7, 3] = 255
    address = f"data:image/png;base64,{png(pixels, 'RGBA')}"
    mask = region("polyp", {"imageDataURL": address}, "bitmasklabels", **sizes)
    references = cal.read(export(tmp_path, alone, label, mask)).references
    assert references.masks is not None
    assert references.masks.voxels.tolist() == [50, 8]
    assert references.boxes.tolist() == [[0, 0, 10, 5], [3, 2, 7, 4]]
    assert references.label.tolist() == [0, 1]


def test_a_predicted_brush_has_the_score_of_its_region(tmp_path) -> None:
    half = packed(header(8) + repeated(0, 4) + repeated(9, 4))
    full = packed(header(8) + repeated(1, 8))
    prediction = {"score": 0.25, "result": [brush(full, 2, 1, score=0.75), brush(half, 2, 1)]}
    path = tmp_path / "export.json"
    path.write_text(json.dumps([task("a.png", [brush(half, 2, 1)], predictions=[prediction])]))
    table = cal.read(path, path).models["export"]
    assert table.score.tolist() == [0.75, 0.25]
    assert table.masks is not None
    assert table.masks.voxels.tolist() == [2, 1]


def mask_shape(pixels: Any, x: float, y: float, **others: Any) -> dict[str, Any]:
    height, width = np.asarray(pixels).shape
    points = [[x, y], [x + width - 1, y + height - 1]]
    return {**labelme_shape("polyp", points, "mask", mask=png(pixels)), **others}


def test_a_mask_of_labelme_by_hand(tmp_path) -> None:
    pixels = [[0, 1, 1], [1, 0, 0]]
    references = cal.read(put(tmp_path, {"a.json": labelme(mask_shape(pixels, 10, 20))})).references
    expected = np.zeros((80, 100), np.bool_)
    expected[20, 11:13] = expected[21, 10] = True
    assert references.masks is not None
    np.testing.assert_array_equal(references.masks.dense(0), expected)
    assert references.boxes.tolist() == [[10, 20, 13, 22]]


def test_masks_of_one_group_are_painted_together(tmp_path) -> None:
    """They may overlap. A group of a mask and a rectangle is only a box, as every such group."""
    parts = [mask_shape(np.ones((4, 4)), x, 0, group_id=1) for x in (0, 2, 90)]
    turned = labelme_shape("cyst", [[9, 10], [12, 12], [10, 14], [7, 12]], "oriented_rectangle")
    folder = put(tmp_path / "masks", {"a.json": labelme(*parts, turned)})
    references = cal.read(folder).references
    assert references.masks is not None
    # Two squares of 16 pixels share 8.
    assert references.masks.voxels[0] == 16 + 16 - 8 + 16
    assert references.boxes.tolist() == [[0, 0, 94, 4], [7, 10, 12, 14]]
    mixed = labelme_shape("polyp", [[50, 50], [60, 70]], "rectangle", group_id=1)
    folder = put(tmp_path / "mixed", {"a.json": labelme(*parts, mixed)})
    references = cal.read(folder).references
    assert references.masks is None
    assert references.boxes.tolist() == [[0, 0, 94, 70]]


def test_a_mask_without_the_size_of_its_image_is_a_box(tmp_path) -> None:
    document = labelme(mask_shape([[0, 1]], 3, 4), imageWidth=None, imageHeight=None)
    references = cal.read(put(tmp_path, {"a.json": document})).references
    assert references.masks is None
    assert references.boxes.tolist() == [[4, 4, 5, 5]]


def test_a_mask_at_the_border_lacks_the_last_pixel(tmp_path) -> None:
    """LabelMe's points are one too far there: its own slice of the array ends with the image."""
    shape = mask_shape([[1, 1]], 98, 79)
    shape["points"] = [[98, 79], [100, 80]]
    references = cal.read(put(tmp_path, {"a.json": labelme(shape)})).references
    assert references.boxes.tolist() == [[98, 79, 100, 80]]


DAMAGED = png([[1]])[:-12]
COLOURED = png(np.ones((1, 1, 3)), "RGB")


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        (mask_shape([[0, 0]], 1, 1), "empty-mask"),
        (mask_shape([[1]], 1, 1, mask=None), "mask-png"),
        (mask_shape([[1]], 1, 1, mask="no base64"), "mask-png"),
        (mask_shape([[1]], 1, 1, mask="AAAA"), "mask-png"),
        (mask_shape([[1]], 1, 1, mask=DAMAGED), "mask-png"),
        (mask_shape([[1]], 1, 1, mask=COLOURED), "mask-png"),
        (mask_shape([[1]], 100, 10), "outside"),
        (mask_shape([[1]], -1, 10), "outside"),
        (mask_shape([[1]], 1, 1, points=[[1, 1], [9, 9]]), "mask-size"),
        (mask_shape([[1]], 1, 1, points=[[1, 1]]), "box-shape"),
    ],
)
def test_broken_masks_of_labelme(tmp_path, shape: Any, rule: str) -> None:
    sound = mask_shape([[1]], 5, 5)
    folder = put(tmp_path, {"a.json": labelme(sound, shape, sound)})
    with pytest.raises(cal.InputError) as caught:
        cal.read(folder)
    assert caught.value.rule == rule
    assert "shapes/1" in caught.value.location
    cohort = cal.read(folder, lenient=True)
    assert len(cohort.references) == 2
    assert cohort.intake.files[0].quarantined == {rule: 1}


FULL = packed(header(8) + repeated(1, 8))


@pytest.mark.parametrize(
    ("rle", "rule"),
    [
        (None, "rle-kind"),
        ("AAAA", "rle-kind"),
        ([0.5], "rle-kind"),
        ([*FULL[:-1], 256], "rle-kind"),
        ([*FULL[:-1], "1"], "rle-kind"),
        ([], "rle-length"),
        (FULL[:6], "rle-length"),
        (FULL[:-1], "rle-length"),
        (packed(header(12) + repeated(1, 12)), "rle-length"),
        (packed(header(8) + repeated(1, 9)), "rle-length"),
        (packed(header(8) + repeated(1, 4)), "rle-length"),
        (packed(header(8) + repeated(0, 8)), "empty-mask"),
    ],
)
def test_broken_brushes(tmp_path, rle: Any, rule: str) -> None:
    path = export(tmp_path, brush(FULL, 2, 1), brush(rle, 2, 1), brush(FULL, 2, 1))
    with pytest.raises(cal.InputError) as caught:
        cal.read(path)
    assert caught.value.rule == rule
    assert caught.value.location.endswith("/result/1")
    cohort = cal.read(path, lenient=True)
    assert len(cohort.references) == 2


def striped(width: int, height: int) -> list[int]:
    """Rows that are painted by turns: few bytes along rows, and a run per pixel down columns."""
    bits = header(4 * width * height)
    for row in range(height):
        for first in range(0, 4 * width, 1 << 16):
            bits += repeated(row % 2, min(1 << 16, 4 * width - first))
    return packed(bits)


@pytest.mark.parametrize(
    ("name", "rle", "width", "height"),
    [
        ("claims", packed(header(4)), 1_000_000, 1_000_000),
        ("stripes", striped(9_000, 1_000), 9_000, 1_000),
        ("narrow", packed(header(40_000_000) + repeated(1, 65_536) * 611), 1, 10_000_000),
    ],
)
def test_brushes_that_unpack_to_much_are_refused_at_once(
    tmp_path, name: str, rle: list[int], width: int, height: int
) -> None:
    path = export(tmp_path, *[brush(rle, width, height)] * 3)
    assert_refused_at_once(path, lenient=name != "claims")


@pytest.mark.parametrize(("side", "pattern"), [(6_000, [1, 1]), (5_000, [0, 1])])
def test_pictures_that_unpack_to_much_are_refused_at_once(
    tmp_path, side: int, pattern: list[int]
) -> None:
    """More pixels than a small file may have; a run in every second pixel."""
    shape = mask_shape(np.tile(np.array(pattern, np.uint8), (side, side // 2)), 0, 0)
    folder = put(tmp_path, {"a.json": labelme(shape, imageWidth=side, imageHeight=side)})
    assert_refused_at_once(folder, lenient=True)


def assert_refused_at_once(path: Path, *, lenient: bool) -> None:
    """Within a second and 200 MB; lenient reading does not help."""
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(cal.InputError) as caught:
        cal.read(path, lenient=lenient)
    seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.rule in ("too-large", "rle-length")
    # Tracing makes Python a few times slower.
    assert seconds < 3
    assert peak < 200e6
