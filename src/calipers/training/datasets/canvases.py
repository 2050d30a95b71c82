# SPDX-License-Identifier: Apache-2.0
"""Canvases: small characters scattered on noise, so that the place of every object is known.

`open_canvases` takes ``digits`` (the 1,797 digits of scikit-learn, no file is needed) or a folder
in the layout of MNIST (``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-...``, with
or without ``.gz``) and returns `CanvasSet`. Test canvases are made of characters that no training
canvas shows: those of the t10k files, or every fifth digit.

A canvas is drawn from its number and the seed alone, whenever it is asked for. Half of the canvases
show the ``target`` class; the others show none of it, but the other classes. `write_canvases` makes
a folder of pictures of them, to try what is meant for pictures of one's own.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.random import Generator

from calipers.arrays import F64, I64, U8, Flags
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.source import open_regular, require_file
from calipers.io.tables.table import delimited
from calipers.io.write import write
from calipers.results.files import write_atomically

IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
PARTS = {"train": "train", "test": "t10k"}
MAGIC = {3: 0x803, 1: 0x801}  # by the number of axes, of bytes
MOST_BYTES = 2 << 30
EVERY = 5  # of the digits without files every fifth is for tests
INK = 0.2  # from here on a pixel belongs to a character
TRIES = 50  # to place a character clear of the others


@dataclass(frozen=True, slots=True)
class Canvases:
    """How canvases are composed."""

    # The limits are for the settings in the record of a run, which `predict` draws again.
    n_train: Annotated[int, Meta(ge=0, le=1_000_000)] = 2000
    n_test: Annotated[int, Meta(ge=0, le=1_000_000)] = 400
    target: str = "0"
    side: Annotated[int, Meta(ge=1, le=4096)] = 64
    glyph: Annotated[int, Meta(ge=1, le=4096)] = 14  # side of a character
    fewest: Annotated[int, Meta(ge=0, le=1000)] = 3
    most: Annotated[int, Meta(ge=0, le=1000)] = 6
    noise: Annotated[float, Meta(ge=0, le=10)] = 0.1  # standard deviation, of 1
    seed: Annotated[int, Meta(ge=0)] = 0


@dataclass(frozen=True)
class Glyphs:
    """Characters with their classes."""

    pixels: F64  # (n, side, side) from 0 to 1
    labels: I64
    classes: tuple[str, ...]


@dataclass(frozen=True)
class ComposedCanvas:
    """One canvas: what it shows, and where."""

    pixels: U8  # (side, side)
    boxes: F64  # (m, 4) around the ink of every character
    labels: I64  # (m,)


@dataclass(frozen=True)
class CanvasSet:
    """Canvases that are drawn when they are asked for."""

    name: str
    settings: Canvases
    glyphs: dict[str, Glyphs]  # train and test

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the characters."""
        return self.glyphs["train"].classes

    @property
    def ids(self) -> tuple[str, ...]:
        """Training canvases first."""
        names = [f"train-{i:05d}" for i in range(self.settings.n_train)]
        return (*names, *(f"test-{i:05d}" for i in range(self.settings.n_test)))

    @property
    def test(self) -> Flags:
        """(n,) which canvases are for tests."""
        return np.arange(self.settings.n_train + self.settings.n_test) >= self.settings.n_train

    def drawing(self, i: int) -> ComposedCanvas:
        """Draw a canvas."""
        part = "test" if i >= self.settings.n_train else "train"
        random = np.random.default_rng([self.settings.seed, i, int(part == "test")])
        # Canvases with and without the target alternate.
        return _draw(self.glyphs[part], self.settings, with_target=i % 2 == 0, random=random)


def write_canvases(
    folder: Path | str,
    source: str = "digits",
    *,
    n: int = 500,
    side: int = 96,
    classes: Sequence[str] = ("0", "1", "2"),
    seed: int = 0,
) -> Path:
    """Write a folder of pictures: ``pictures``, ``annotations.json`` with boxes (COCO), and
    ``labels.csv``, which says whether a picture shows the first of the classes.

    Characters of other classes are drawn, but not annotated. One character may be on several
    pictures, so that a split of them is easier than one of new characters.
    """
    from PIL import Image

    settings = Canvases(n, 0, classes[0], side, glyph=side // 5, seed=seed)
    canvas_set = open_canvases(source, settings)
    codes = [canvas_set.classes.index(name) for name in classes]
    root = Path(folder)
    (root / "pictures").mkdir(parents=True, exist_ok=True)
    references: list[dict[str, Any]] = []
    shows = []
    for i in range(n):
        name = f"canvas-{i:04d}.png"
        drawing = canvas_set.drawing(i)
        Image.fromarray(drawing.pixels).save(root / "pictures" / name)
        rows = np.flatnonzero(np.isin(drawing.labels, codes))
        labels = np.array([codes.index(k) for k in drawing.labels[rows].tolist()], np.int64)
        size = {"width": side, "height": side}
        entry = {"image_id": name, "boxes": drawing.boxes[rows], "labels": labels}
        references.append(entry | size)
        shows.append(int(0 in labels))
    write(Cohort.from_arrays(references, {}, classes=classes), root / "annotations.json")
    names = [entry["image_id"] for entry in references]
    write_atomically(root / "labels.csv", delimited({"image": names, "label": shows}))
    return root


def is_canvases(folder: Path) -> bool:
    """Return whether a folder has the layout of MNIST."""
    return any(folder.glob(f"*{IMAGES}*"))


def open_canvases(source: str, settings: Canvases) -> CanvasSet:
    """Return the canvases of a folder of idx files, or of ``digits``."""
    folder = Path(source)
    if folder.is_dir():
        name, glyphs = f"canvases of {folder.name}", _idx_glyphs(folder)
    else:
        name, glyphs = "canvases of digits", _sklearn_glyphs()
    classes = glyphs["train"].classes
    if settings.target not in classes:
        raise UsageError(
            f"no character of {source} is {settings.target!r}; "
            f"{did_you_mean(settings.target, classes)}"
        )
    if settings.glyph > settings.side // 2:
        raise UsageError(f"characters of {settings.glyph} pixels need a side of twice that")
    resized = {}
    for part, own in glyphs.items():
        pixels = _resized(own.pixels, settings.glyph)
        resized[part] = Glyphs(pixels, own.labels, classes)
    return CanvasSet(name, settings, resized)


def _draw(
    glyphs: Glyphs, settings: Canvases, *, with_target: bool, random: Generator
) -> ComposedCanvas:
    side, size = settings.side, settings.glyph
    target = glyphs.classes.index(settings.target)
    others = np.flatnonzero(glyphs.labels != target)
    chosen_ones = random.choice(others, int(random.integers(settings.fewest, settings.most + 1)))
    if with_target:
        chosen_ones[0] = random.choice(np.flatnonzero(glyphs.labels == target))
    canvas = np.zeros((side, side))
    corners: list[tuple[int, int]] = []
    boxes = []
    for k in chosen_ones.tolist():
        x, y = _free_place(corners, side - size, size, random)
        corners.append((x, y))
        place = canvas[y : y + size, x : x + size]
        np.maximum(place, glyphs.pixels[k], out=place)
        boxes.append(_box_of_ink(glyphs.pixels[k], x, y))
    noisy = canvas + settings.noise * random.standard_normal(canvas.shape)
    pixels = np.round(np.clip(noisy, 0, 1) * 255).astype(np.uint8)
    return ComposedCanvas(pixels, np.array(boxes, np.float64), glyphs.labels[chosen_ones])


def _free_place(
    corners: list[tuple[int, int]], last: int, size: int, random: Generator
) -> tuple[int, int]:
    """Return a corner clear of the others; after many tries, any corner."""
    for _ in range(TRIES):
        x, y = (int(number) for number in random.integers(0, last + 1, 2))
        if all(max(abs(x - left), abs(y - top)) >= size for left, top in corners):
            break
    return x, y


def _box_of_ink(glyph: F64, x: int, y: int) -> tuple[float, float, float, float]:
    rows, columns = np.nonzero(glyph >= INK)
    # A character that is fainter than this everywhere is marked as a whole.
    if not len(rows):
        return x, y, x + glyph.shape[1], y + glyph.shape[0]
    left, top = x + int(columns.min()), y + int(rows.min())
    return left, top, x + int(columns.max()) + 1, y + int(rows.max()) + 1


def _sklearn_glyphs() -> dict[str, Glyphs]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UsageError(
            "the data 'digits' need scikit-learn: pip install 'calipers[studies]'"
        ) from None
    bunch = load_digits()
    pixels, labels = bunch.images / 16.0, bunch.target.astype(np.int64)
    classes = tuple(map(str, range(10)))
    is_test = np.arange(len(labels)) % EVERY == 0
    return {
        "train": Glyphs(pixels[~is_test], labels[~is_test], classes),
        "test": Glyphs(pixels[is_test], labels[is_test], classes),
    }


def _idx_glyphs(folder: Path) -> dict[str, Glyphs]:
    """Read the four files; without those of t10k every fifth character is for tests."""
    glyphs = {}
    for part, prefix in PARTS.items():
        images = _idx_file(folder, f"{prefix}-{IMAGES}")
        labels = _idx_file(folder, f"{prefix}-{LABELS}")
        pixels, codes = read_idx(images, 3), read_idx(labels, 1)
        if len(pixels) != len(codes):
            value = f"{len(codes)} labels for {len(pixels)} images"
            raise InputError("a label per image", rule="length", file=str(labels), value=value)
        classes = tuple(str(k) for k in range(int(codes.max()) + 1))
        glyphs[part] = Glyphs(pixels / 255.0, codes.astype(np.int64), classes)
    if len(glyphs["train"].classes) < len(glyphs["test"].classes):
        raise InputError("classes of the training files", rule="labels-differ", file=str(folder))
    return glyphs


def _idx_file(folder: Path, name: str) -> Path:
    # Some archives write a dot instead of the last hyphens.
    for candidate in (name, f"{name}.gz", name.replace("-idx", ".idx")):
        if (folder / candidate).exists():
            return folder / candidate
    hint = "the layout is that of MNIST: train and t10k, images and labels"
    raise InputError(f"the file {name}", rule="not-found", file=str(folder), hint=hint)


def read_idx(path: Path, axes: int) -> U8:
    """Return the bytes of an idx file with so many axes; ``.gz`` is unpacked within limits."""
    with open_regular(require_file(path), follow=True) as stream:
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        source = gzip.GzipFile(fileobj=stream) if packed else stream
        try:
            head = source.read(4 + 4 * axes)
            if len(head) < 4 + 4 * axes:
                raise _broken(path, f"a header of {4 + 4 * axes} bytes", len(head))
            magic, *shape = struct.unpack(f">{1 + axes}I", head)
            if magic != MAGIC[axes]:
                raise _broken(path, f"the mark {MAGIC[axes]:#x} of {axes} axes", hex(magic))
            n = int(np.prod(shape, dtype=np.float64))
            if not 0 < n <= MOST_BYTES:
                raise _broken(path, f"1 to {MOST_BYTES} values", n)
            content = b"".join(_pieces(source, n + 1))
        except (OSError, EOFError, zlib.error) as error:
            raise _broken(path, "a whole file", type(error).__name__) from None
    if len(content) != n:
        raise _broken(path, f"{n} values, as its header says", f"{len(content)} or more")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _pieces(source: object, n: int) -> Iterator[bytes]:
    """Yield at most n bytes; the header alone decides on no memory."""
    while n > 0:
        piece: bytes = source.read(min(n, 1 << 20))  # type: ignore[attr-defined]
        if not piece:
            return
        n -= len(piece)
        yield piece


def _broken(path: Path, expected: str, value: object) -> InputError:
    return InputError(expected, rule="idx-format", file=str(path), value=value)


def _resized(pixels: F64, side: int) -> F64:
    """Return (n, side, side) characters, by bilinear interpolation."""
    from PIL import Image

    if pixels.shape[1:] == (side, side):
        return pixels
    result = np.empty((len(pixels), side, side))
    for i, own in enumerate(pixels):
        picture = Image.fromarray(np.asarray(own, np.float32))
        result[i] = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR))
    return np.clip(result, 0, 1)
