# SPDX-License-Identifier: Apache-2.0
"""Which files a folder or a list offers, and the name of the sample that each of them is for."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from calipers.errors import InputError, UsageError
from calipers.readers.delimited import decode, read_table
from calipers.readers.listing import list_files
from calipers.readers.source import InputFile, open_source, require_file
from calipers.readers.tabular import texts
from calipers.readers.volumes.opening import EXTENSIONS, PICKLES, stem_of

LISTS = (".txt", ".lst", ".csv", ".tsv")
SLICES = (".dcm", ".dicom")
SLOT = "{name}"
Matcher = Callable[[str], str | None]


@dataclass(frozen=True)
class Offered:
    """Files by the name of their sample."""

    source: str  # folder or list
    files: Mapping[str, str]  # name -> path
    notes: tuple[str, ...] = ()
    single: bool = False  # one file, not a folder or a list


def offered(
    source: Path, role: str, pattern: str | None = None, columns: tuple[str, ...] = ()
) -> Offered:
    """Return the files of a folder, a list, or one file.

    Notes
    -----
    In a folder the name is the path below it without extension, in composed Unicode; with a pattern
    it is what stands for ``{name}`` in that path. The slices of a DICOM series in a folder of their
    own are one sample, named like the folder. A list holds paths, relative to itself or absolute: a
    path in a list is the user's own word, so it may lead anywhere.
    """
    if pattern is not None and pattern.count(SLOT) < 1:
        raise UsageError(
            f"a pattern has {SLOT} where the name of the sample stands, such as '{SLOT}_seg.nii.gz'"
        )
    if source.is_dir():
        return _in_folder(source, role, pattern)
    if source.name.lower().endswith(LISTS):
        return _in_list(source, pattern, columns)
    require_file(source)
    base = stem_of(source.name) or source.name
    return Offered(str(source), {unicodedata.normalize("NFC", base): str(source)}, single=True)


def _in_folder(folder: Path, role: str, pattern: str | None) -> Offered:
    listing = list_files(folder, holds=role)
    paths, others = _volumes(listing.files)
    if not paths:
        raise _nothing(folder, role, listing.files)
    found, strange = _named(paths.items(), _matcher(pattern), str(folder))
    counted = {
        "files of other kinds were not read": others,
        f"files do not fit the pattern {pattern!r}": strange,
        "links out of the folder were not followed": listing.left,
        "folders could not be read": listing.closed,
    }
    return Offered(
        str(folder), found, tuple(f"{folder}: {n} {what}" for what, n in counted.items() if n)
    )


def _volumes(files: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return path below the folder -> real path of what may be a volume, and the number of other
    files.

    DICOM files in a folder of their own are slices: the folder is the volume, with whatever else
    lies in it.
    """
    series = {
        name.rpartition("/")[0] for name in files if "/" in name and name.lower().endswith(SLICES)
    }
    found: dict[str, str] = {}
    others = 0
    for name, path in files.items():
        folder = name.rpartition("/")[0]
        if folder in series:
            found.setdefault(folder, os.path.dirname(path))
        elif name.lower().endswith(EXTENSIONS):
            found[name] = path
        else:
            others += 1
    return found, others


def _named(
    paths: Iterable[tuple[str, str]], fits: Matcher, source: str
) -> tuple[dict[str, str], int]:
    """Return name -> path, and how many did not fit the pattern; two files of one name are an
    error.
    """
    found: dict[str, str] = {}
    shown: dict[str, str] = {}
    strange = 0
    for below, path in paths:
        name = fits(unicodedata.normalize("NFC", below))
        if name is None:
            strange += 1
            continue
        if name in found:
            raise InputError(
                "one file per sample",
                rule="dup-name",
                file=source,
                value=f"{shown[name]} and {below}",
                hint="both are called the same without extension: remove one, or give a pattern with its extension",
            )
        found[name], shown[name] = path, below
    return dict(sorted(found.items())), strange


def _matcher(pattern: str | None) -> Matcher:
    """Return what finds the name of a sample in a path; None if it does not fit."""
    if pattern is None:
        return lambda below: stem_of(below) or below
    first, *rest = unicodedata.normalize("NFC", pattern).split(SLOT)
    text = re.escape(first) + "(?P<name>.+)" + "(?P=name)".join(re.escape(part) for part in rest)
    whole, bare = re.compile(text), stem_of(pattern) is None

    def fits(below: str) -> str | None:
        match = whole.fullmatch(below) or (
            whole.fullmatch(stem_of(below) or below) if bare else None
        )
        return match["name"] if match else None

    return fits


def _nothing(folder: Path, role: str, files: Mapping[str, str]) -> InputError:
    pickled = next((name for name in files if name.lower().endswith(PICKLES)), None)
    if pickled is not None:
        hint = (
            "pickles and checkpoints are never opened: save arrays with numpy.save or numpy.savez"
        )
        return InputError(
            f"{role} as volumes", rule="pickle", file=str(folder), value=pickled, hint=hint
        )
    value = next(iter(files), "nothing")
    return InputError(
        f"{role} with one of {', '.join(EXTENSIONS)}",
        rule="no-volumes",
        file=str(folder),
        value=value,
    )


def _in_list(file: Path, pattern: str | None, columns: tuple[str, ...]) -> Offered:
    opened = open_source(file)
    rows = _plain_lines(opened) if not file.name.lower().endswith((".csv", ".tsv")) else None
    names: list[str] | None = None
    if rows is None:
        rows, names = _table_rows(opened, columns)
    paths = [(str(file.parent / row) if not os.path.isabs(row) else row) for row in rows]
    bases = [Path(row).name for row in rows] if names is None else names
    fits = _matcher(pattern) if names is None else _as_it_is
    found, strange = _named(zip(bases, paths), fits, str(file))
    if not found:
        raise InputError("paths of volumes", rule="no-volumes", file=str(file))
    notes = [f"{file}: {strange} paths do not fit the pattern {pattern!r}"] if strange else []
    return Offered(str(file), found, tuple(notes))


def _as_it_is(name: str) -> str | None:
    return name


def _plain_lines(opened: InputFile) -> list[str]:
    return [
        line.strip()
        for line in decode(opened).splitlines()
        if line.strip() and not line.startswith("#")
    ]


def _table_rows(opened: InputFile, columns: tuple[str, ...]) -> tuple[list[str], list[str] | None]:
    """Return the paths of a table, and the names of their samples if it says them."""
    table = read_table(opened)
    lower = {name.lower(): name for name in table.names}
    column = next((lower[name.lower()] for name in columns if name.lower() in lower), None)
    if column is None:
        if len(table.names) == 1 and stem_of(table.names[0]) is not None:
            return _plain_lines(opened), None
        expected = f"a column {' or '.join(columns)}"
        raise InputError(
            expected, rule="missing-column", file=opened.file, location="1", value=list(table.names)
        )
    rows = texts(table, column)
    empty = next((k for k, row in enumerate(rows) if not row.strip()), None)
    if empty is not None:
        raise table.problem(empty, column, "missing-path", "a path", rows[empty]).as_error(
            opened.file
        )
    if "name" in lower:
        return rows, texts(table, lower["name"])
    if (
        "reference" in lower and lower["reference"] != column
    ):  # pairs stand in one row: both have the reference's name
        return rows, [
            stem_of(Path(row).name) or Path(row).name for row in texts(table, lower["reference"])
        ]
    return rows, None
