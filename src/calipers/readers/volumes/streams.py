# SPDX-License-Identifier: Apache-2.0
"""Bytes of voxels, packed or not: exactly as many as the header says, and checksums to the end."""

from __future__ import annotations

import gzip
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import CalipersError, InputError
from calipers.readers.source import open_regular

U8 = NDArray[np.uint8]
GZIP_MARK = b"\x1f\x8b"
STEP = 1 << 22
MOST_BEHIND = 1 << 24  # bytes after the voxels that are read for the sake of the checksum


@contextmanager
def guarded(file: str) -> Iterator[None]:
    """Turn whatever a decoder raises into one kind of error. Its words may quote a header: only
    their kind is kept.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they may quote headers, too
            yield
    except CalipersError:
        raise
    except Exception as error:
        raise broken(file, type(error).__name__) from None


def broken(file: str, value: object, expected: str = "a whole file") -> InputError:
    """Return the error for a file that is truncated or damaged."""
    hint = "it may be cut off or damaged: copy it again, or open it with another program"
    return InputError(expected, rule="volume-broken", file=file, value=value, hint=hint)


def is_packed(path: Path) -> bool:
    """Return whether a file begins as gzip files do."""
    with open_regular(path, follow=True) as file:
        return file.read(len(GZIP_MARK)) == GZIP_MARK


def read_head(path: Path, count: int, *, packed: bool) -> bytes:
    """Return at most ``count`` bytes of the beginning, unpacked."""
    with open_regular(path, follow=True) as file:
        if not packed:
            return file.read(count)
        with gzip.GzipFile(fileobj=file) as stream:
            return stream.read(count)


def read_stored(path: Path, start: int, count: int) -> U8:
    """Return ``count`` bytes from ``start`` on."""
    with open_regular(path, follow=True) as file:
        file.seek(start)
        return fill(file, count, str(path))


def read_gzip(path: Path, start: int, skip: int, count: int) -> U8:
    """Return ``count`` bytes after ``skip`` of a gzip stream that begins at ``start``; its checksum
    is checked.
    """
    with open_regular(path, follow=True) as file:
        file.seek(start)
        with gzip.GzipFile(fileobj=file) as stream:
            while skip:
                step = stream.read(min(skip, STEP))
                if not step:
                    raise broken(str(path), "the end of the file", "voxels after the header")
                skip -= len(step)
            found = fill(stream, count, str(path))
            drain(stream, str(path))
            return found


def read_zlib(path: Path, start: int, count: int) -> U8:
    """Return ``count`` bytes of a zlib stream that begins at ``start`` and goes to the end; its
    checksum is checked.
    """
    found, filled = np.empty(count, np.uint8), 0
    decoder = zlib.decompressobj()
    with open_regular(path, follow=True) as file:
        file.seek(start)
        while not decoder.eof:
            raw = decoder.unconsumed_tail or file.read(STEP)
            # One byte more than is needed: a stream that goes on is found without unpacking it.
            step = (
                decoder.decompress(raw, min(STEP, count - filled) + 1) if raw else decoder.flush()
            )
            if filled + len(step) > count:
                raise broken(str(path), "more of them", f"{count:,} bytes of voxels")
            found[filled : filled + len(step)] = np.frombuffer(step, np.uint8)
            filled += len(step)
            if not raw:
                break
    if not decoder.eof or filled < count:
        raise broken(str(path), f"{filled:,} bytes", f"{count:,} bytes of voxels")
    return found


def fill(stream: Any, count: int, file: str) -> U8:
    """Return the next ``count`` bytes of a stream, or raise."""
    found = np.empty(count, np.uint8)
    view, filled = memoryview(found.data), 0
    while filled < count:
        got = stream.readinto(view[filled : filled + STEP])
        if not got:
            raise broken(file, f"{filled:,} bytes", f"{count:,} bytes of voxels")
        filled += got
    return found


def drain(stream: Any, file: str) -> None:
    """Read a packed stream to its end, where its checksum is; much more than a checksum is an
    error.
    """
    left = 0
    while step := stream.read(STEP):
        left += len(step)
        if left > MOST_BEHIND:
            raise InputError(
                "an end after the voxels",
                rule="too-large",
                file=file,
                value=f"more than {MOST_BEHIND:,} bytes behind them",
                hint="the header says less than the file holds",
            )
