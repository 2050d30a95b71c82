# SPDX-License-Identifier: Apache-2.0
"""List the files below a folder without opening them; links out of it are left out."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from calipers.errors import InputError

MOST_ENTRIES = 1_000_000


@dataclass(frozen=True, slots=True)
class Listing:
    """Regular files below a folder, in the order of their names."""

    root: str  # real path
    files: dict[str, str]  # path below the folder with slashes -> real path
    left: int  # links that leave the folder
    closed: int  # folders that could not be read


def list_files(folder: Path, *, most: int = MOST_ENTRIES, holds: str = "files") -> Listing:
    """Return the files below a folder; more than ``most`` entries are an error. Hidden ones are
    skipped.

    ``holds`` says in messages what the folder is for.
    """
    root = os.path.realpath(_check_folder(folder, holds))
    files: dict[str, str] = {}
    waiting, visited = [("", root)], set[tuple[int, int]]()
    entries = left = closed = 0
    while waiting:
        prefix, place = waiting.pop()
        try:
            if (identity := _identity(place)) in visited:
                continue
            visited.add(identity)
            inside = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError:
            closed += 1
            continue
        entries += len(inside)
        if entries > most:
            hint = f"name the folder of the {holds} themselves"
            raise InputError(
                f"at most {most:,} files", rule="too-large", file=str(folder), hint=hint
            )
        for entry in (entry for entry in inside if not entry.name.startswith(".")):
            path, outside = _real(entry, root)
            left += outside
            if path is None:
                continue
            if _is_folder(entry):
                # Links wait until all folders are done, so that a file keeps its real path.
                position = 0 if entry.is_symlink() else len(waiting)
                waiting.insert(position, (f"{prefix}{entry.name}/", path))
            elif _is_file(entry):
                files[prefix + entry.name] = path
    return Listing(root, files, left, closed)


def _check_folder(folder: Path, holds: str) -> Path:
    try:
        mode = os.stat(folder).st_mode
    except (OSError, ValueError):
        raise InputError(f"a folder of {holds}", rule="not-found", file=str(folder)) from None
    if not stat.S_ISDIR(mode):
        hint = f"name the folder that holds the {holds}"
        raise InputError(f"a folder of {holds}", rule="not-a-folder", file=str(folder), hint=hint)
    return folder


def _real(entry: os.DirEntry[str], root: str) -> tuple[str | None, bool]:
    """Return the real path of an entry, and False; None and True for a link out of the root."""
    if not entry.is_symlink():
        return entry.path, False
    path = os.path.realpath(entry.path)
    inside = path == root or path.startswith(root.rstrip(os.sep) + os.sep)
    return (path, False) if inside else (None, True)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a regular file: no pipe, no device, no dangling link."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino
