# SPDX-License-Identifier: Apache-2.0
"""Read the bytes of voxels, compressed or not: exactly as many as the header says.

Compressed streams are read to their end, where their checksum is.
"""

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
    """Turn any exception of a decoder into a ``volume-broken`` error.

    The message of a decoder may quote a header with the name of a patient, so only the type of its
    exception is kept.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they may quote headers, too
            yield
    except CalipersError:
        raise
    except Exception as error:
        raise broken_file(file, type(error).__name__) from None


def broken_file(file: str, value: object, expected: str = "a whole file") -> InputError:
    """Return the error for a file that is truncated or damaged."""
    hint = "it may be truncated or damaged: copy it again, or open it with another program"
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
    """Return ``count`` bytes after ``skip`` of a gzip stream that begins at ``start``, and verify
    its checksum.
    """
    with open_regular(path, follow=True) as file:
        file.seek(start)
        with gzip.GzipFile(fileobj=file) as stream:
            while skip:
                step = stream.read(min(skip, STEP))
                if not step:
                    raise broken_file(str(path), "the end of the file", "voxels after the header")
                skip -= len(step)
            raw = fill(stream, count, str(path))
            drain(stream, str(path))
            return raw


def read_zlib(path: Path, start: int, count: int) -> U8:
    """Return the ``count`` bytes of a zlib stream from ``start`` to the end of the file, and verify
    its checksum.
    """
    raw, size = np.empty(count, np.uint8), 0
    decoder = zlib.decompressobj()
    with open_regular(path, follow=True) as file:
        file.seek(start)
        while not decoder.eof:
            packed = decoder.unconsumed_tail or file.read(STEP)
            if packed:
                # One byte more than is needed: it reveals a longer stream without unpacking it.
                step = decoder.decompress(packed, min(STEP, count - size) + 1)
            else:
                step = decoder.flush()
            if size + len(step) > count:
                raise broken_file(str(path), "more of them", f"{count:,} bytes of voxels")
            raw[size : size + len(step)] = np.frombuffer(step, np.uint8)
            size += len(step)
            if not packed:
                break
    if not decoder.eof or size < count:
        raise broken_file(str(path), f"{size:,} bytes", f"{count:,} bytes of voxels")
    return raw


def fill(stream: Any, count: int, file: str) -> U8:
    """Return the next ``count`` bytes of a stream, or raise."""
    raw = np.empty(count, np.uint8)
    view, size = memoryview(raw.data), 0
    while size < count:
        step = stream.readinto(view[size : size + STEP])
        if not step:
            raise broken_file(file, f"{size:,} bytes", f"{count:,} bytes of voxels")
        size += step
    return raw


def drain(stream: Any, file: str) -> None:
    """Read a compressed stream to its end, where its checksum is; a long rest is an error."""
    size = 0
    while step := stream.read(STEP):
        size += len(step)
        if size > MOST_BEHIND:
            raise InputError(
                "an end after the voxels",
                rule="too-large",
                file=file,
                value=f"more than {MOST_BEHIND:,} bytes behind them",
                hint="the header says less than the file holds",
            )
