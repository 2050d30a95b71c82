# SPDX-License-Identifier: Apache-2.0
"""Open an input file: check its size and encoding, hash it, map it. Knows nothing of formats.

A path comes in, an `InputFile` goes out (`open_source`), to every reader; volumes, which are too
large to be mapped as text, use `require_file`, `open_regular` and `hash_file`. `list_files` lists
what lies below a folder without opening it; links out of the folder are left out.

A folder of annotation files is one input too, an `InputFolder` (`open_input`, which takes both).
"""

from __future__ import annotations

import codecs
import hashlib
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from calipers.errors import InputError

HEAD = 1 << 16  # bytes by which a format is recognised
# More than any file of annotations: a larger one is the wrong file.
MAX_BYTES = 16 << 30
# Files up to this size are read into memory, larger ones are mapped.
COPIED = 64 << 20
# Large enough that the disk is the limit, small enough for any memory.
HASH_STEP = 1 << 22

# UTF-32 LE begins like UTF-16 LE: the longer mark is tried first.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# Entries below a folder: a whole disk, named by mistake, is not walked through.
MOST_ENTRIES = 1_000_000
# The files of a folder that readers may open, and that are hashed with their contents; others, such
# as pictures of many gigabytes, are hashed with their name and length.
ANNOTATION_SUFFIXES = (".txt", ".xml", ".json", ".yaml", ".yml", ".names", ".csv")
# A pickle runs whatever program is stored in it: never opened.
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib")
MOST_ANNOTATION_BYTES = 1 << 28  # of one file in a folder


@dataclass(frozen=True)
class InputFile:
    """An input file: its bytes as UTF-8 (mapped if the file is UTF-8), size, hash and notes."""

    file: str
    data: bytes | mmap.mmap
    size: int
    sha256: str
    notes: list[str] = field(default_factory=list)

    @cached_property
    def head(self) -> str:
        """The beginning of the file as text, without white space before it."""
        return self.data[:HEAD].decode("utf-8", "replace").lstrip()

    def forget(self, start: int, stop: int) -> None:
        """Tell the system that a stretch of the mapped file need not stay in memory."""
        if isinstance(self.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            # Only whole pages inside the stretch: their neighbours are still being read.
            page = mmap.ALLOCATIONGRANULARITY
            first = -(-start // page) * page
            if stop - first >= page:
                self.data.madvise(mmap.MADV_DONTNEED, first, (stop - first) // page * page)


@dataclass(frozen=True)
class InputFolder(InputFile):
    """A folder of annotation files as one input.

    ``size`` counts the bytes of the annotation files; ``data`` is empty. ``sha256`` covers the name
    of every file below the folder, the contents of annotation files and the length of the others.
    """

    files: Mapping[str, str] = field(default_factory=dict)  # path below the folder -> real path

    def ending(self, *suffixes: str) -> list[str]:
        """Return the files whose names end so, in the order of their names."""
        return [name for name in self.files if name.lower().endswith(suffixes)]

    def open(self, name: str) -> InputFile:
        """Open an annotation file of the folder; it may be empty."""
        file = f"{self.file.rstrip('/')}/{name}"
        with open_regular(Path(self.files[name]), follow=False) as stream:
            raw = _read_annotations(stream, file)
        for mark, encoding in BYTE_ORDER_MARKS:
            if raw.startswith(mark):
                opened = _as_utf8(Path(file), raw, encoding, "")
                # Told once for the folder, however many of its files have such a mark.
                self.notes.extend(f"a file was {note}" for note in opened.notes)
                return opened
        return InputFile(file, raw, len(raw), "")


def require_file(path: Path | str) -> Path:
    """Return the path of a regular file that has content, or raise."""
    path = Path(path)
    try:
        # Asked before the file is opened: opening a pipe would wait for its writer.
        status = path.stat()
    except FileNotFoundError:
        raise InputError(
            "a file", rule="not-found", file=str(path), hint=_neighbours(path)
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            "a readable file", rule="not-readable", file=str(path), value=str(error)
        ) from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or pipe"
        raise InputError(
            "a regular file", rule="not-a-file", file=str(path), value=kind, hint="give one file"
        )
    if status.st_size == 0:
        raise InputError(
            "content",
            rule="empty-file",
            file=str(path),
            value="0 bytes",
            hint="was the export cut off?",
        )
    if status.st_size > MAX_BYTES:
        raise InputError(
            f"at most {MAX_BYTES} bytes", rule="too-large", file=str(path), value=status.st_size
        )
    return path


@contextmanager
def open_regular(
    path: Path, *, follow: bool, kind: type[InputError] = InputError
) -> Iterator[BinaryIO]:
    """Open a regular file; pipes and devices are refused without waiting for them.

    Links are followed if ``follow`` says so, and ``kind`` is the error that is raised.
    """
    flags = os.O_RDONLY
    # Not every system has all of these flags.
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or str(error)
        raise kind("a readable file", rule="not-readable", file=str(path), value=message) from None
    # Asked again of the open file, which may no longer be the one that the path named.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise kind("a regular file", rule="not-a-file", file=str(path))
    with os.fdopen(descriptor, "rb") as file:
        yield file


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, read in steps."""
    with path.open("rb") as file:
        return _hash_of(file)[0]


def _hash_of(stream: BinaryIO) -> tuple[str, int]:
    """Return the SHA-256 and the length of an open file."""
    digest, n_bytes = hashlib.sha256(), 0
    while step := stream.read(HASH_STEP):
        digest.update(step)
        n_bytes += len(step)
    return digest.hexdigest(), n_bytes


def open_source(path: Path | str) -> InputFile:
    """Open an input and bring it to UTF-8.

    Plain UTF-8 of some size is mapped, not copied; a smaller file is read at once, so that nobody
    can cut it off under the reader. A byte order mark is honoured and noted; other encodings are
    an error later, where the offending byte can be named.
    """
    path = require_file(path)
    try:
        with open_regular(path, follow=True) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= COPIED:
                data: bytes | mmap.mmap = file.read(COPIED + 1)
                sha256 = hashlib.sha256(data).hexdigest()
            else:
                # The hash is that of the bytes on disk, before any decoding.
                sha256 = hash_file(path)
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError(
            "a readable file", rule="not-readable", file=str(path), value=error.strerror
        ) from None
    if len(data) != size:
        raise InputError(
            f"a file of {size:,} bytes, as it was opened",
            rule="not-readable",
            file=str(path),
            value=f"{len(data):,} bytes",
            hint="another program writes to it: wait until it is done",
        )
    for mark, encoding in BYTE_ORDER_MARKS:
        if data[: len(mark)] == mark:
            return _as_utf8(path, data[:], encoding, sha256)
    return InputFile(str(path), data, len(data), sha256)


def open_input(path: Path | str) -> InputFile:
    """Open a file, or a folder of annotation files."""
    return open_folder(path) if os.path.isdir(path) else open_source(path)


def model_name(path: Path | str) -> str:
    """Return the name of a model by that of its file; one in a folder ``labels``, where YOLO puts
    them, is called like the folder above.
    """
    path = Path(path)
    if not path.is_dir():
        return path.stem
    # The dot in the name of a folder begins no suffix.
    place = path.resolve()
    return place.parent.name if place.name == "labels" else place.name


def open_folder(path: Path | str) -> InputFolder:
    """List a folder and hash it; no file outside of it is touched.

    Raises
    ------
    InputError
        The folder, or one below it, cannot be read, or it is too large.
    """
    listing = list_files(Path(path), holds="annotations")
    if listing.closed:
        raise InputError(
            "folders that can be read",
            rule="not-readable",
            file=str(path),
            value=f"{listing.closed} that cannot",
        )
    digest, size = hashlib.sha256(), 0
    files = dict(sorted(listing.files.items()))
    for name, real_path in files.items():
        if name.lower().endswith(ANNOTATION_SUFFIXES):
            _check_name(str(path), name)
            with open_regular(Path(real_path), follow=False) as stream:
                content, n_bytes = _hash_of(stream)
            size += n_bytes
        else:
            content = f"{_length(real_path)} bytes"
        digest.update(f"{name}\0{content}\0".encode("utf-8", "surrogateescape"))
    notes = []
    if listing.left:
        notes.append(f"{listing.left} links lead out of the folder and are not followed")
    return InputFolder(str(path), b"", size, digest.hexdigest(), notes, files)


def _read_annotations(stream: BinaryIO, file: str) -> bytes:
    raw = stream.read(MOST_ANNOTATION_BYTES + 1)
    if len(raw) > MOST_ANNOTATION_BYTES:
        raise InputError(f"at most {MOST_ANNOTATION_BYTES} bytes", rule="too-large", file=file)
    return raw


def _check_name(folder: str, name: str) -> None:
    """Raise for a name that cannot be written as UTF-8: images are named after their files."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            "names of files in UTF-8",
            rule="encoding",
            file=folder,
            value=name.encode("utf-8", "surrogateescape"),
        ) from None


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _as_utf8(path: Path, raw: bytes, encoding: str, sha256: str) -> InputFile:
    name = "UTF-8" if encoding == "utf-8-sig" else encoding.upper()
    if encoding == "utf-8-sig":
        content = raw[len(codecs.BOM_UTF8) :]
    else:
        try:
            content = raw.decode(encoding).encode("utf-8")
        except UnicodeError as error:
            raise InputError(
                f"text in {name}, as its byte order mark says",
                rule="encoding",
                file=str(path),
                value=str(error),
            ) from None
    note = f"read as {name} (it begins with a byte order mark)"
    return InputFile(str(path), content, len(raw), sha256, [note])


def _neighbours(path: Path) -> str:
    """Suggest a file of the folder with a similar name: most missing files are misspelt."""
    import difflib

    try:
        names = os.listdir(path.parent)
    except (OSError, ValueError):
        return "the folder does not exist either"
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""


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
    # Folders that were visited, by their identity: links may form a circle.
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
