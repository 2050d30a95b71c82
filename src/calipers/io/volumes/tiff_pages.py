# SPDX-License-Identifier: Apache-2.0
"""The directory of a TIFF file: how many pages it has, and whether each of them is whole.

`tiff_pages` takes an open file and returns a `TiffPage` per page, to the reader of pictures, which
leaves the pixels to Pillow. Pillow follows the chain of pages only as far as it can: a file
that was cut off would become a volume with fewer slices. Here every page must lie in the file with
all of its pixels.

A page is a list of entries of 12 bytes (BigTIFF: 20), each with a tag, a type, a count and the
values or where they are; behind the entries stands the place of the next page, 0 after the last
(TIFF 6.0, section 2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from calipers.arrays import I64
from calipers.errors import InputError
from calipers.io.volumes.volume import broken_file

MOST_PAGES = 65_536
MOST_CHANNELS = 4_096
MOST_ENTRIES = 4_096  # writers use a few dozen
WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, FORMAT = 256, 257, 258, 259, 262, 277, 339
FILL_ORDER, PLANES, PREDICTOR = 266, 284, 317
# Where the pixels are and how many bytes they have, in strips or in tiles.
PIXELS = ((273, 279), (324, 325))
LIKE = (
    WIDTH,
    HEIGHT,
    BITS,
    COMPRESSION,
    PHOTOMETRIC,
    SAMPLES,
    FORMAT,
    FILL_ORDER,
    PLANES,
    PREDICTOR,
)
# Decoders take other values for one of these, and give other pixels without a word.
CHOICES = {FILL_ORDER: (1, 2), PLANES: (1, 2), PREDICTOR: (1, 2, 3)}
TYPES = (*range(1, 14), 16, 17, 18)
ROWS_PER_STRIP = 278
ENTRIES = (*LIKE, ROWS_PER_STRIP, *PIXELS[0], *PIXELS[1])  # that hold whole numbers
SINGLE = tuple(tag for tag in (*LIKE, ROWS_PER_STRIP) if tag not in (BITS, FORMAT))
KINDS = {1: "u1", 3: "u2", 4: "u4", 16: "u8"}  # types of whole numbers
WHITE_IS_ZERO = 0  # of the photometric interpretation
# Values of entries that a file may leave out.
ABSENT = {
    BITS: 1,
    COMPRESSION: 1,
    SAMPLES: 1,
    FORMAT: 1,
    FILL_ORDER: 1,
    PLANES: 1,
    PREDICTOR: 1,
}


@dataclass(frozen=True)
class TiffPage:
    """What decides how the pixels of a page are stored; pages of a volume are alike in it."""

    width: int
    height: int
    bits: int
    compression: int
    photometric: int
    samples: int
    format: int
    fill_order: int
    planes: int
    predictor: int


def tiff_pages(stream: BinaryIO, size: int, file: str) -> list[TiffPage]:
    """Return the pages of a TIFF file of ``size`` bytes; raise if one of them is not whole."""
    stream.seek(0)
    head = stream.read(16)
    order = "<" if head.startswith(b"I") else ">"
    large = head[2:4] in (b"+\0", b"\0+")
    if len(head) < (16 if large else 8):
        raise broken_file(file, "the end of the file", "a TIFF header")
    code, at = ("Q", 8) if large else ("I", 4)
    (place,) = struct.unpack_from(order + code, head, at)
    pages: list[TiffPage] = []
    places: set[int] = set()
    while place:
        if place in places:
            raise broken_file(file, "a page twice", "a chain of pages that ends")
        if len(pages) == MOST_PAGES:
            raise InputError(f"at most {MOST_PAGES} pages", rule="too-large", file=file)
        places.add(place)
        directory = _Directory(stream, size, file, order, large)
        page, place = directory.read(place, len(pages))
        pages.append(page)
    if not pages:
        raise broken_file(file, "none", "a page")
    return pages


class _Directory:
    """Reads one page of a file."""

    def __init__(self, stream: BinaryIO, size: int, file: str, order: str, large: bool) -> None:
        self.stream, self.size, self.file, self.order, self.large = stream, size, file, order, large

    def read(self, place: int, number: int) -> tuple[TiffPage, int]:
        """Return the page at a place, and the place of the next one."""
        wide, number_code = (8, "Q") if self.large else (4, "I")
        count = int(self._numbers(place, "u8" if self.large else "u2", 1)[0])
        if count > MOST_ENTRIES:
            raise broken_file(self.file, f"{count:,} of them", "at most 4,096 entries of a page")
        place += 8 if self.large else 2
        each = 12 + 2 * (wide - 4)
        raw = self._bytes(place, count * each + wide)
        entries: dict[int, tuple[int, int, bytes]] = {}
        for k in range(count):
            tag, kind, length = struct.unpack_from(f"{self.order}HH{number_code}", raw, k * each)
            # A decoder that cannot make sense of a page may give the pixels of the first one.
            odd = tag in ENTRIES and kind not in KINDS
            odd |= tag in SINGLE and length != 1
            if odd or kind not in TYPES or not length:
                raise broken_file(self.file, f"type {kind}, count {length}", f"an entry {tag}")
            entries[tag] = (kind, length, raw[k * each + 4 + wide : (k + 1) * each])
        self._check_pixels(entries, number)
        values = []
        for tag in LIKE:
            numbers = self._entry(entries, tag)
            # One number, or one for every channel.
            if len(set(numbers.tolist())) > 1 or len(numbers) > MOST_CHANNELS:
                raise broken_file(self.file, f"{len(numbers)} numbers", f"one number for tag {tag}")
            value = int(numbers[0]) if len(numbers) else ABSENT.get(tag, -1)
            if value not in CHOICES.get(tag, (value,)):
                raise broken_file(self.file, value, f"tag {tag} among {CHOICES[tag]}")
            values.append(value)
        (after,) = struct.unpack_from(f"{self.order}{number_code}", raw, count * each)
        return TiffPage(*values), int(after)

    def _check_pixels(self, entries: dict[int, tuple[int, int, bytes]], number: int) -> None:
        for starts_tag, counts_tag in PIXELS:
            starts, counts = self._entry(entries, starts_tag), self._entry(entries, counts_tag)
            n = min(len(starts), len(counts))
            # As floats: sums of wrong numbers could overflow.
            ends = starts[:n].astype(np.float64) + counts[:n]
            if n and ends.max() > self.size:
                raise broken_file(self.file, "the end of the file", f"all pixels of page {number}")

    def _entry(self, entries: dict[int, tuple[int, int, bytes]], tag: int) -> I64:
        """Return the whole numbers of an entry; none if it is absent or holds others."""
        kind, count, inside = entries.get(tag, (0, 0, b""))
        if kind not in KINDS or not count:
            return np.zeros(0, np.int64)
        stored = np.dtype(self.order + KINDS[kind])
        if count * stored.itemsize <= len(inside):
            return np.frombuffer(inside, stored, count).astype(np.int64)
        wide = "u8" if self.large else "u4"
        place = int(np.frombuffer(inside, self.order + wide, 1)[0])
        return self._numbers(place, KINDS[kind], count).astype(np.int64)

    def _numbers(self, place: int, kind: str, count: int) -> I64:
        stored = np.dtype(self.order + kind)
        return np.frombuffer(self._bytes(place, count * stored.itemsize), stored)

    def _bytes(self, place: int, count: int) -> bytes:
        # Compared with the size first: a count may claim any number of bytes.
        if place + count > self.size:
            raise broken_file(self.file, "the end of the file", "a page that lies in the file")
        self.stream.seek(place)
        return self.stream.read(count)
