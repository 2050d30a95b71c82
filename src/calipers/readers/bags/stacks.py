# SPDX-License-Identifier: Apache-2.0
"""`Stack`: read one bag of a compressed array (bags, ...), from the nearest position before it."""

from __future__ import annotations

import threading
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from calipers.readers.volumes.numpy_files import ArrayLayout, as_array
from calipers.readers.volumes.streams import STEP, broken_file, drain, fill
from calipers.readers.volumes.volume import Array

MOST_CURSORS = 8  # of readers that go through different parts at once


@dataclass
class _Cursor:
    """A stream, and the bag that it stands before."""

    stream: IO[bytes]
    at: int


@dataclass
class Stack:
    """An array in an archive that is read bag by bag; reading forwards costs one pass.

    A compressed stream has no random access. Open streams keep their position, so that several
    readers that each go forwards do not unpack anything twice; a step back unpacks from the
    beginning.
    """

    path: Path
    member: str
    layout: ArrayLayout
    each: ArrayLayout  # of one bag
    _archive: zipfile.ZipFile | None = None
    _cursors: list[_Cursor] = field(default_factory=list)  # the last used one is last
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, k: int) -> Array:
        """Return bag ``k``."""
        with self._lock:
            cursor = self._nearest(k)
            try:
                raw = self._read_at(cursor, k)
            except BaseException:
                self._drop(cursor)  # its position is unknown
                raise
            if cursor.at == self.layout.shape[0]:
                self._drop(cursor)
        return as_array(raw, self.each)

    def _read_at(self, cursor: _Cursor, k: int) -> Array:
        file = str(self.path)
        self._skip(cursor, (k - cursor.at) * self.each.count)
        raw = fill(cursor.stream, self.each.count, file)
        cursor.at = k + 1
        if cursor.at == self.layout.shape[0]:
            drain(cursor.stream, file)  # the checksum
        return raw

    def _nearest(self, k: int) -> _Cursor:
        """Return the cursor that has the least way to go, moved to the end of the list."""
        behind = [cursor for cursor in self._cursors if cursor.at <= k]
        if behind:
            best = max(behind, key=lambda cursor: cursor.at)
            self._cursors.remove(best)
        else:
            if self._archive is None:
                self._archive = zipfile.ZipFile(self.path)
            best = _Cursor(self._archive.open(self.member), 0)
            fill(best.stream, self.layout.start, str(self.path))
        self._cursors.append(best)
        if len(self._cursors) > MOST_CURSORS:
            self._drop(self._cursors[0])
        return best

    def _drop(self, cursor: _Cursor) -> None:
        cursor.stream.close()
        self._cursors.remove(cursor)

    def _skip(self, cursor: _Cursor, count: int) -> None:
        while count:
            step = cursor.stream.read(min(count, STEP))
            if not step:
                raise broken_file(str(self.path), "the end of the file", "maps of all bags")
            count -= len(step)
