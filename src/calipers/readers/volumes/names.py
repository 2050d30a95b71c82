# SPDX-License-Identifier: Apache-2.0
"""List the files of a folder or a list, by the name of the sample that each of them belongs to.

`pairing` and the readers of bags call `list_samples` with a folder, a list of paths or one file.
"""

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
class SampleList:
    """Files by the name of their sample."""

    source: str  # folder or list
    files: Mapping[str, str]  # name -> path
    notes: tuple[str, ...] = ()
    single: bool = False  # one file, not a folder or a list


def list_samples(
    source: Path, role: str, pattern: str | None = None, columns: tuple[str, ...] = ()
) -> SampleList:
    """Return the files of a folder, a list, or one file.

    Notes
    -----
    In a folder the name is the path below it without extension, in composed Unicode; with a pattern
    it is the part of that path that matches ``{name}``. The slices of a DICOM series in a folder of
    their own are one sample, named like the folder. A list holds paths, relative to itself or
    absolute; the user wrote them, so they may lead anywhere.
    """
    if pattern is not None and pattern.count(SLOT) < 1:
        raise UsageError(
            f"a pattern needs {SLOT} in place of the sample's name, such as '{SLOT}_seg.nii.gz'"
        )
    if source.is_dir():
        return _in_folder(source, role, pattern)
    if source.name.lower().endswith(LISTS):
        return _in_list(source, pattern, columns)
    require_file(source)
    base = stem_of(source.name) or source.name
    return SampleList(str(source), {unicodedata.normalize("NFC", base): str(source)}, single=True)


def _in_folder(folder: Path, role: str, pattern: str | None) -> SampleList:
    listing = list_files(folder, holds=role)
    paths, others = _volumes(listing.files)
    if not paths:
        raise _nothing(folder, role, listing.files)
    files, strange = _by_name(paths.items(), _matcher(pattern), str(folder))
    counts = {
        "files of other kinds were not read": others,
        f"files do not match the pattern {pattern!r}": strange,
        "links out of the folder were not followed": listing.left,
        "folders could not be read": listing.closed,
    }
    notes = tuple(f"{folder}: {n} {what}" for what, n in counts.items() if n)
    return SampleList(str(folder), files, notes)


def _volumes(files: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return path below the folder -> real path of what may be a volume, and the number of other
    files.

    DICOM files in a folder of their own are slices: that folder is one volume, whatever else is in
    it.
    """
    series = set()
    for name in files:
        if "/" in name and name.lower().endswith(SLICES):
            series.add(name.rpartition("/")[0])
    volumes: dict[str, str] = {}
    others = 0
    for name, path in files.items():
        folder = name.rpartition("/")[0]
        if folder in series:
            volumes.setdefault(folder, os.path.dirname(path))
        elif name.lower().endswith(EXTENSIONS):
            volumes[name] = path
        else:
            others += 1
    return volumes, others


def _by_name(
    paths: Iterable[tuple[str, str]], fits: Matcher, source: str
) -> tuple[dict[str, str], int]:
    """Return name -> path, and how many paths do not match the pattern.

    Two files with the same name are an error.
    """
    files: dict[str, str] = {}
    path_below: dict[str, str] = {}  # for the message: the path without the folder
    strange = 0
    for below, path in paths:
        name = fits(unicodedata.normalize("NFC", below))
        if name is None:
            strange += 1
            continue
        if name in files:
            hint = (
                "both have the same name without extension: remove one, "
                "or give a pattern that includes the extension"
            )
            raise InputError(
                "one file per sample",
                rule="dup-name",
                file=source,
                value=f"{path_below[name]} and {below}",
                hint=hint,
            )
        files[name], path_below[name] = path, below
    return dict(sorted(files.items())), strange


def _matcher(pattern: str | None) -> Matcher:
    """Return a function from a path to the name of its sample; None if the path does not match."""
    if pattern is None:
        return lambda below: stem_of(below) or below
    first, *rest = unicodedata.normalize("NFC", pattern).split(SLOT)
    text = re.escape(first) + "(?P<name>.+)" + "(?P=name)".join(re.escape(part) for part in rest)
    expression = re.compile(text)
    # A pattern without extension also matches files with any extension of a volume.
    without_extension = stem_of(pattern) is None

    def fits(below: str) -> str | None:
        match = expression.fullmatch(below)
        if match is None and without_extension:
            match = expression.fullmatch(stem_of(below) or below)
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


def _in_list(file: Path, pattern: str | None, columns: tuple[str, ...]) -> SampleList:
    opened = open_source(file)
    names: list[str] | None = None
    if file.name.lower().endswith((".csv", ".tsv")):
        rows, names = _table_rows(opened, columns)
    else:
        rows = _plain_lines(opened)
    paths = []
    for row in rows:
        path = row if os.path.isabs(row) else str(file.parent / row)
        paths.append(path)
    fits: Matcher = _as_it_is
    if names is None:
        names = [Path(row).name for row in rows]
        fits = _matcher(pattern)
    files, strange = _by_name(zip(names, paths), fits, str(file))
    if not files:
        raise InputError("paths of volumes", rule="no-volumes", file=str(file))
    notes: tuple[str, ...] = ()
    if strange:
        notes = (f"{file}: {strange} paths do not match the pattern {pattern!r}",)
    return SampleList(str(file), files, notes)


def _as_it_is(name: str) -> str | None:
    return name


def _plain_lines(opened: InputFile) -> list[str]:
    return [
        line.strip()
        for line in decode(opened).splitlines()
        if line.strip() and not line.startswith("#")
    ]


def _table_rows(opened: InputFile, columns: tuple[str, ...]) -> tuple[list[str], list[str] | None]:
    """Return the paths of a table, and the names of their samples if it has them."""
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
    # A row with a reference is a pair: both files get the name of the reference.
    if "reference" in lower and lower["reference"] != column:
        references = [Path(row).name for row in texts(table, lower["reference"])]
        return rows, [stem_of(name) or name for name in references]
    return rows, None
