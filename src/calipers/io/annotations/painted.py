# SPDX-License-Identifier: Apache-2.0
"""Masks that were painted with a brush, as annotation tools store them, within limits.

Three kinds of storage become runs along rows: run lengths inside of a rectangle (CVAT), a PNG file
as text inside of JSON (`png_pixels`; LabelMe, and the bit masks of Label Studio), and the packed
bits of Label Studio's brush (`brush_runs`). `Painter` places the runs of an object in its image and
returns its box and the run lengths of COCO, which `calipers.io.annotations.annotation_list` draws.

What cannot be read is returned as an `Odd`, which says why, and becomes a broken record. Sizes are
known before any pixel takes memory: what is too large is an error of the whole input.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calipers.arrays import I64, Array
from calipers.errors import InputError
from calipers.io.annotations.annotation_list import AnnotationList, Box, RecordPlace
from calipers.io.coco.masks import (
    FREE_BYTES,
    MAX_BYTES,
    MAX_RATIO,
    MOST_PIXELS,
    MOST_RUNS,
    RUN_BYTES,
    Odd,
    RunLengths,
)
from calipers.io.volumes.pictures import check_chunks, open_png
from calipers.io.volumes.volume import guarded
from calipers.kernels import coco_rle, runs

# Pixels of a PNG file that need no larger file: the mask of an empty picture packs 1000 to 1.
FREE_PIXELS = 1 << 25
# Of the packed bits: number of words, word size, four sizes of counts.
COUNT_BITS, WORD_BITS, SIZE_BITS, N_SIZES = 32, 5, 4, 4
HEADER_BITS = COUNT_BITS + WORD_BITS + N_SIZES * SIZE_BITS
PEEK = 8  # bytes: more bits than the beginning of a block has, wherever it begins
CHANNELS, ALPHA = 4, 3
FEW_WORDS = 16  # of a block: below, a loop is quicker than arrays


class Rectangle(NamedTuple):
    """The part of an image that is described, in whole pixels."""

    left: int
    top: int
    width: int
    height: int


class RowRuns(NamedTuple):
    """Painted pixels as runs along the rows of a rectangle, ascending; they may cross rows."""

    start: I64
    length: I64
    rectangle: Rectangle


class Painter:
    """Makes masks of runs for the objects of an input, and counts what they cost."""

    def __init__(self, rows: AnnotationList) -> None:
        self.rows = rows
        bytes_of_runs = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * rows.file.size))
        self.most_runs = bytes_of_runs // RUN_BYTES
        self.n_runs = 0

    def mask(
        self, parts: Sequence[RowRuns], size: tuple[float, float], place: RecordPlace, field: str
    ) -> tuple[Box, RunLengths | None] | None:
        """Return the box and the mask of everything that was painted for one object; None if it is
        a broken record.

        Parameters
        ----------
        size
            Width and height of the image; NaN if they are unknown, then there is no mask.
        field
            Where the mask is stored, for messages.

        Raises
        ------
        InputError
            ``too-large``: the masks of the input would take more memory than its size excuses.
        """
        mask = self._mask(parts, size, place)
        if isinstance(mask, Odd):
            self.refuse(mask, place, field)
            return None
        return mask

    def refuse(self, odd: Odd, place: RecordPlace, field: str) -> None:
        """Enter a mask that cannot be read as a broken record, or raise if it is too large."""
        if odd.rule == "too-large":
            raise self._too_large(odd.expected, place, odd.value)
        self.rows.reject(place, odd.rule, odd.expected, odd.value, field=field, hint=odd.hint)

    def _mask(
        self, parts: Sequence[RowRuns], size: tuple[float, float], place: RecordPlace
    ) -> tuple[Box, RunLengths | None] | Odd:
        pieces = [self._cut(part, place) for part in parts]
        x0, x1 = _extent([column for column, _, _ in pieces], [length for _, _, length in pieces])
        y0, y1 = _extent([row for _, row, _ in pieces], None)
        if x1 <= x0:
            return Odd("empty-mask", "a mask with at least one painted pixel", "none is painted")
        box = (float(x0), float(y0), float(x1), float(y1))
        if math.isnan(size[0]) or math.isnan(size[1]):
            return box, None
        width, height = int(size[0]), int(size[1])
        if width * height > MOST_PIXELS:
            raise self._too_large(f"an image of at most {MOST_PIXELS:,} pixels", place, size)
        if x0 < 0 or y0 < 0 or x1 > width or y1 > height:
            expected = f"a mask inside of the {width} x {height} pixels"
            return Odd("outside", expected, [x0, y0, x1, y1])
        starts = [row * width + column for column, row, _ in pieces]
        start, length = _union(starts, [length for _, _, length in pieces])
        return box, self._run_lengths(start, length, (width, height), place)

    def _cut(self, part: RowRuns, place: RecordPlace) -> tuple[I64, I64, I64]:
        """Return column, row (of the image) and length of runs that end with their rows."""
        start, length, (left, top, width, height) = part
        if width * height > MOST_PIXELS:
            expected = f"a mask of at most {MOST_PIXELS:,} pixels"
            raise self._too_large(expected, place, [width, height])
        is_painted = length > 0
        start, length = start[is_painted], length[is_painted]
        # A run over all of a narrow rectangle has a piece in every row.
        n_pieces = ((start + length - 1) // width - start // width + 1).sum()
        if n_pieces > MOST_RUNS:
            raise self._too_large(f"masks of at most {MOST_RUNS:,} runs", place, int(n_pieces))
        start, length, _ = runs.cut_at_rows(start, start + length, width)
        row, column = np.divmod(start, width)
        return left + column, top + row, length

    def _run_lengths(
        self, start: I64, length: I64, size: tuple[int, int], place: RecordPlace
    ) -> RunLengths:
        """Return runs along the rows of an image as the compressed text of COCO."""
        offsets, sizes = np.array([0, len(start)], np.int64), np.array([size], np.int64)
        n_runs = int(runs.Turn.of(offsets, start, length, sizes).counts[0])
        self.n_runs += n_runs
        if n_runs > MOST_RUNS or self.n_runs > self.most_runs:
            expected = f"masks of at most {MOST_RUNS:,} runs, and {self.most_runs:,} in this input"
            raise self._too_large(expected, place, n_runs)
        counts = coco_rle.counts_from_rows(offsets, start, length, sizes)
        _, text = coco_rle.encode_text(*counts)
        return RunLengths([size[1], size[0]], text.tobytes().decode("ascii"))

    def _too_large(self, expected: str, place: RecordPlace, value: object) -> InputError:
        return InputError(
            expected,
            rule="too-large",
            file=self.rows.file.file,
            location=place.location,
            value=value,
        )


def _extent(first: Sequence[I64], length: Sequence[I64] | None) -> tuple[int, int]:
    """Return the lowest place and the one behind the highest; (0, 0) of nothing."""
    low = np.concatenate([np.zeros(0, np.int64), *first])
    if not len(low):
        return 0, 0
    if length is None:
        return int(low.min()), int(low.max()) + 1
    return int(low.min()), int((low + np.concatenate(length)).max())


def _union(starts: Sequence[I64], lengths: Sequence[I64]) -> tuple[I64, I64]:
    """Return runs that cover what any of the given ones covers, in ascending order."""
    start, length = np.concatenate(starts), np.concatenate(lengths)
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + length)[order]
    reach = np.maximum.accumulate(end)
    is_first = np.ones(len(start), np.bool_)
    is_first[1:] = start[1:] > reach[:-1]
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(start)) - 1
    return start[first], reach[last] - start[first]


def runs_of_counts(counts: Sequence[int], rectangle: Rectangle) -> RowRuns | Odd:
    """Return the runs of counts along the rows of a rectangle, outside and inside by turns."""
    n_pixels = rectangle.width * rectangle.height
    if sum(counts) != n_pixels:
        expected = f"run lengths of {rectangle.width} x {rectangle.height} pixels"
        return Odd("rle-length", expected, f"run lengths of {sum(counts)} pixels")
    ends = np.cumsum(np.array(counts, np.int64))
    length = np.array(counts[1::2], np.int64)
    return RowRuns(ends[1::2] - length, length, rectangle)


def runs_of_pixels(pixels: Array, left: int, top: int) -> RowRuns | Odd:
    """Return the runs of an array ``y, x`` of which everything but 0 is painted."""
    is_painted = pixels != 0
    n_runs = int(is_painted[:, 0].sum() + (is_painted[:, 1:] & ~is_painted[:, :-1]).sum())
    if n_runs > MOST_RUNS:
        return Odd("too-large", f"masks of at most {MOST_RUNS:,} runs", n_runs)
    start, length = runs.find(is_painted)
    height, width = pixels.shape
    return RowRuns(start, length, Rectangle(left, top, width, height))


def png_pixels(text: object, *, alpha: bool = False) -> Array | Odd:
    """Return the pixels ``y, x`` of a PNG file that is written as base64.

    With ``alpha`` they are the opacity of a picture with such a channel, where it has one.
    """
    expected = "a PNG file with one channel, as base64"
    if not isinstance(text, str):
        return Odd("mask-png", expected, text)
    try:
        packed = base64.b64decode(text.encode("ascii", "replace"), validate=True)
    except binascii.Error as error:
        return Odd("mask-png", expected, str(error))
    stream = io.BytesIO(packed)
    try:
        with guarded("the mask"):
            check_chunks(stream, "the mask")
            image = open_png(stream)
            width, height = image.size
            if width * height > min(MOST_PIXELS, max(FREE_PIXELS, MAX_RATIO * len(packed))):
                most = f"a mask of at most {FREE_PIXELS:,} pixels, or of {MAX_RATIO} for each byte"
                return Odd("too-large", most, f"{width} x {height} pixels in {len(packed)} bytes")
            if alpha and image.mode in ("RGBA", "LA"):
                image = image.getchannel("A")
            if image.mode not in ("1", "L", "P"):
                return Odd("mask-png", expected, f"a picture of mode {image.mode}")
            return np.asarray(image)
    except InputError as error:
        return Odd("mask-png", expected, f"{error.value} where there should be {error.expected}")


def brush_runs(packed: object, width: int, height: int) -> RowRuns | Odd:
    """Return the painted pixels of Label Studio's brush: those that are not transparent.

    Notes
    -----
    The bytes hold the four channels of all pixels as a sequence of words, packed as the JavaScript
    library rle-pack does: the number of words (32 bits), the bits of a word less 1 (5 bits) and
    four sizes less 1 (4 bits each); then blocks. A block begins with a bit, 1 for one word that is
    repeated and 0 for words that follow each other; two bits choose one of the four sizes; a number
    of that size is the count less 1; then comes the word, or come the words.
    """
    expected = "the packed bytes of a brush, whole numbers from 0 to 255"
    if not isinstance(packed, list) or not all(type(number) is int for number in packed[:1]):
        return Odd("rle-kind", expected, packed)
    try:
        data = bytes(packed)
    except (TypeError, ValueError) as error:
        return Odd("rle-kind", expected, str(error))
    n_words = CHANNELS * width * height
    n_bits = 8 * len(data)
    stated = int.from_bytes(data[:4], "big")
    if n_bits < HEADER_BITS or stated != n_words:
        expected = f"{CHANNELS} values for each of {width} x {height} pixels"
        return Odd("rle-length", expected, f"{stated} values")
    header = int.from_bytes(data[4:8], "big") >> (32 - (HEADER_BITS - COUNT_BITS))
    sizes = []
    for k in reversed(range(N_SIZES)):
        sizes.append((header >> (SIZE_BITS * k) & 0xF) + 1)
    word_bits = (header >> (SIZE_BITS * N_SIZES)) + 1
    pixel_runs = _unpacked(data, n_words, word_bits, sizes)
    if isinstance(pixel_runs, Odd):
        return pixel_runs
    start, length = pixel_runs
    return RowRuns(start, length, Rectangle(0, 0, width, height))


def _unpacked(
    data: bytes, n_words: int, word_bits: int, sizes: Sequence[int]
) -> tuple[I64, I64] | Odd:
    """Return start and length of the runs of pixels whose fourth word is not 0."""
    whole = "packed bytes that end with the last pixel"
    padded, n_bits = data + bytes(PEEK), 8 * len(data)
    peeked = 8 * PEEK
    firsts: list[int] = []
    lengths: list[int] = []
    at, word = HEADER_BITS, 0
    while word < n_words:
        byte = at >> 3
        bits = int.from_bytes(padded[byte : byte + PEEK], "big")
        rest = peeked - (at & 7) - 3
        kind = bits >> rest & 7
        size = sizes[kind & 3]
        rest -= size
        stop = word + 1 + (bits >> rest & ((1 << size) - 1))
        at += 3 + size
        n_own = 1 if kind >= 4 else stop - word
        if stop > n_words or at + n_own * word_bits > n_bits:
            return Odd("rle-length", whole, f"{len(data)} bytes, cut off or with too many values")
        if kind >= 4:
            if bits >> (rest - word_bits) & ((1 << word_bits) - 1):
                first, last = (word + CHANNELS - 1 - ALPHA) >> 2, (stop - 1 - ALPHA) >> 2
                if last >= first:
                    firsts.append(first)
                    lengths.append(last - first + 1)
        else:
            for pixel in _painted_pixels(data, at, word_bits, (word, stop)):
                firsts.append(pixel)
                lengths.append(1)
        at += n_own * word_bits
        word = stop
    return np.array(firsts, np.int64), np.array(lengths, np.int64)


def _painted_pixels(data: bytes, at: int, word_bits: int, span: tuple[int, int]) -> list[int]:
    """Return the pixels whose fourth word lies among the words of a span and is not 0."""
    word, stop = span
    if stop - word <= FEW_WORDS:
        pixels = []
        for pixel in range(word >> 2, ((stop - 1 - ALPHA) >> 2) + 1):
            begin = at + (CHANNELS * pixel + ALPHA - word) * word_bits
            end = begin + word_bits
            bits = int.from_bytes(data[begin >> 3 : (end + 7) >> 3], "big") >> (-end & 7)
            if bits & ((1 << word_bits) - 1):
                pixels.append(pixel)
        return pixels
    n_bits = (stop - word) * word_bits
    octets = np.frombuffer(data[at >> 3 : (at + n_bits + 7) >> 3], np.uint8)
    bits_of_words = np.unpackbits(octets)[at & 7 :][:n_bits].reshape(-1, word_bits)
    places = np.flatnonzero(bits_of_words.any(axis=1)) + word
    painted: list[int] = (places[places % CHANNELS == ALPHA] // CHANNELS).tolist()
    return painted
