# SPDX-License-Identifier: Apache-2.0
"""Open an input file: check its size and encoding, hash it. Knows nothing of formats.

A path comes in, an `InputFile` goes out (`open_source`), to every reader; volumes use
`require_file`, `open_regular` and `hash_file`. `list_files` lists what lies below a folder without
opening it; links out of the folder are left out.

No file is mapped into memory: if another program cuts a mapped file off, the system ends the
process that reads it. A large file is read where it is needed (`FileBytes`), and a piece that comes
short is an error.

A folder of annotation files is one input too, an `InputFolder` (`open_input`, which takes both).
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import BinaryIO, overload

from calipers.errors import InputError

HEAD = 1 << 16  # bytes by which a format is recognised
# More than any file of annotations: a larger one is the wrong file.
MAX_BYTES = 16 << 30
# Files up to this size are read into memory, larger ones piece by piece.
COPIED = 64 << 20
SEARCHED = 1 << 16  # bytes of a piece in which `search` looks
LONGEST_MATCH = 1 << 12  # bytes of a text that `search` finds for sure
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
MOST_ENTRIES = 2_000_000
# The files of a folder that readers may open, and that are hashed with their contents; others, such
# as pictures of many gigabytes, are hashed with their name and length.
ANNOTATION_SUFFIXES = (
    ".txt",
    ".xml",
    ".json",
    ".yaml",
    ".yml",
    ".names",
    ".csv",
    ".parquet",
    ".pq",
)
ARCHIVES, ARRAYS = (".zip", ".tar"), (".npy", ".npz")
# A pickle runs whatever program is stored in it: never opened.
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib")
MOST_ANNOTATION_BYTES = 1 << 28  # of one file in a folder
ANNOTATION_PIECE = 1 << 18  # bytes that are read at once

# Only at the end of a line: a line of JSON Lines holds no other.
BETWEEN_OBJECTS = re.compile(rb"\}([ \t\r]*)\n(?=\s*\{)")
JSON_LINES = (".jsonl", ".ndjson", ".jsonlines")

Progress = Callable[[str, int, int], None]  # (name of the step, work done, work in all)


class FileBytes:
    """The bytes of a large file, read where they are needed: slices and single bytes of it.

    The file stays open as long as this object is in use.
    """

    def __init__(self, stream: BinaryIO, file: str) -> None:
        # A descriptor of its own, without a buffer: whoever opened the file may close it.
        self._stream = os.fdopen(os.dup(stream.fileno()), "rb", buffering=0)
        weakref.finalize(self, self._stream.close)
        self._status = os.fstat(stream.fileno())
        self.file = file

    def __len__(self) -> int:
        return self._status.st_size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> bytes: ...
    def __getitem__(self, at: int | slice) -> int | bytes:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            return self._read(start, max(start, stop))
        place = range(len(self))[at]
        return self._read(place, place + 1)[0]

    def _read(self, start: int, stop: int) -> bytes:
        try:
            self._stream.seek(start)
            piece = self._stream.read(stop - start)
            # One call of the system returns at most 2 GB.
            while len(piece) < stop - start and (
                more := self._stream.read(stop - start - len(piece))
            ):
                piece += more
        except OSError as error:
            raise InputError(
                "a readable file", rule="not-readable", file=self.file, value=error.strerror
            ) from None
        if len(piece) < stop - start:
            raise changed_error(self.file, len(self), start + len(piece))
        return piece

    def require_unchanged(self) -> None:
        """Raise if another program has written to the file since it was opened and hashed."""
        require_version(self.file, _version(self._status), version_of(self._stream.fileno()))

    def stream(self) -> BinaryIO:
        """Return the open file, for a library that reads it by itself."""
        self._stream.seek(0)
        return os.fdopen(os.dup(self._stream.fileno()), "rb")


Buffer = bytes | FileBytes
# Bytes, the time of the last change in nanoseconds, and which file it is. Two writes of one length
# within a tick of the clock, about 4 ms, look alike.
FileVersion = tuple[int, int, int]


def version_of(file: Path | str | int) -> FileVersion | None:
    """Return the version of a file, or of a descriptor; None if there is no such file."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return _version(status)


def _version(status: os.stat_result) -> FileVersion:
    # Not st_ctime: some file systems still move it after a file was closed.
    return status.st_size, status.st_mtime_ns, status.st_ino


def require_version(file: str, version: FileVersion | None, now: FileVersion | None) -> None:
    """Raise if a file is no longer what it was when it was opened: its parts would not fit."""
    if version is not None and now != version:
        raise changed_error(file, version[0], 0 if now is None else now[0])


def changed_error(file: str, n_bytes: int, n_now: int) -> InputError:
    """Return the error for a file that is no longer what it was when it was opened."""
    return InputError(
        f"a file of {n_bytes:,} bytes that stays as it was when it was opened",
        rule="not-readable",
        file=file,
        value=f"{n_now:,} bytes",
        hint="another program writes to it: wait until it is done",
    )


def search(
    pattern: re.Pattern[bytes], data: Buffer, start: int, stop: int
) -> tuple[int, re.Match[bytes]] | None:
    """Return where a pattern first matches: the start of the piece, and the match in it."""
    if isinstance(data, bytes):
        match = pattern.search(data, start, stop)
        return (0, match) if match else None
    for at in range(start, stop, SEARCHED):
        # Pieces overlap, so that a match on a border is seen.
        match = pattern.search(data[at : min(at + SEARCHED + LONGEST_MATCH, stop)])
        if match:
            return at, match
    return None


@dataclass(frozen=True)
class InputFile:
    """An input file: its bytes as UTF-8 (read on demand if there are many), size, hash, notes."""

    file: str
    data: Buffer
    size: int
    sha256: str
    notes: list[str] = field(default_factory=list)
    progress: Progress | None = field(default=None, compare=False, repr=False)
    member: str = ""  # of the archive, if the data are those of a file in it

    def advance(self, n_done: int, total: int | None = None, *, step: str = "reading") -> None:
        """Say how much of the file is done, of its bytes or of a total, to whoever asked for it."""
        if self.progress is not None:
            total = max(1, len(self.data) if total is None else total)
            name = os.path.basename(self.file.rstrip("/"))
            self.progress(f"{step} {name}", min(n_done, total), total)

    @cached_property
    def head(self) -> str:
        """The beginning of the file as text, without white space before it."""
        return self.data[:HEAD].decode("utf-8", "replace").lstrip()

    def require_unchanged(self) -> None:
        """Raise if the hash need no longer be that of the bytes that were read."""
        if isinstance(self.data, FileBytes):
            self.data.require_unchanged()


@dataclass(frozen=True)
class InputFolder(InputFile):
    """A folder of annotation files as one input.

    ``size`` counts the bytes of the annotation files; ``data`` is empty. ``sha256`` covers the name
    of every file below the folder, the contents of annotation files and the length of the others.
    """

    files: Mapping[str, str] = field(default_factory=dict)  # path below the folder -> real path
    # When they were hashed: what is read later has to be the same.
    versions: Mapping[str, FileVersion | None] = field(default_factory=dict, repr=False)
    numbers: Iterator[int] = field(default_factory=lambda: count(1), compare=False, repr=False)

    def count_file(self) -> None:
        """Say that one more file of the folder is opened."""
        self.advance(next(self.numbers), len(self.files))

    def ending(self, *suffixes: str) -> list[str]:
        """Return the files whose names end so, in the order of their names."""
        return [name for name in self.files if name.lower().endswith(suffixes)]

    def contents_with(self, names: Iterable[str]) -> tuple[str, int]:
        """Return a hash and a size that cover the contents of further files, which a reader opened
        although they are no annotation files by their names.
        """
        digest, size = hashlib.sha256(self.sha256.encode()), self.size
        for name in sorted(names):
            with open_regular(Path(self.files[name]), follow=False) as stream:
                content, n_bytes = _hash_of(stream)
                self._require_version(name, stream)
            digest.update(f"{name}\0{content}\0".encode("utf-8", "surrogateescape"))
            size += n_bytes
        return digest.hexdigest(), size

    def _require_version(self, name: str, stream: BinaryIO) -> None:
        file = f"{self.file.rstrip('/')}/{name}"
        require_version(file, self.versions.get(name), version_of(stream.fileno()))

    def open(self, name: str) -> InputFile:
        """Open an annotation file of the folder; it may be empty."""
        file = f"{self.file.rstrip('/')}/{name}"
        self.count_file()
        with open_regular(Path(self.files[name]), follow=False) as stream:
            raw = _read_annotations(stream, file)
            self._require_version(name, stream)
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
        kind = "a file" if path.suffix else "a file or folder"
        raise InputError(kind, rule="not-found", file=str(path), hint=_neighbours(path)) from None
    except (OSError, ValueError) as error:
        raise InputError(
            "a readable file", rule="not-readable", file=str(path), value=str(error)
        ) from None
    _check_name(str(path.parent), path.name)
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
        # A file of /proc may say that it is regular and have nothing to read until something
        # happens.
        if _has_to_wait(descriptor):
            raise kind("content", rule="not-readable", file=str(path), value="nothing to read yet")
        try:
            yield file
        except OSError as error:
            # A broken disk, a file of /proc: errors of decoders have no number.
            if error.errno is None or error.filename is not None:
                raise
            raise kind(
                "a readable file", rule="not-readable", file=str(path), value=error.strerror
            ) from None


def _has_to_wait(descriptor: int) -> bool:
    """Return whether reading an open file would wait; never for one on a disk."""
    import select  # not every system has its poll

    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return not poll.poll(0)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, read in steps."""
    with path.open("rb") as file:
        return _hash_of(file)[0]


def _hash_of(stream: BinaryIO, advance: Callable[[int], None] | None = None) -> tuple[str, int]:
    """Return the SHA-256 and the length of an open file; ``advance`` is called with the bytes that
    have been read.
    """
    digest, n_bytes = hashlib.sha256(), 0
    while step := stream.read(HASH_STEP):
        digest.update(step)
        n_bytes += len(step)
        if advance is not None:
            advance(n_bytes)
    return digest.hexdigest(), n_bytes


def open_source(path: Path | str, progress: Progress | None = None) -> InputFile:
    """Open an input and bring it to UTF-8.

    A file of moderate size is read at once, a larger one where it is needed. A byte order mark is
    honoured and noted; other encodings are an error later, where the offending byte can be named.
    """
    path = require_file(path)
    try:
        with open_regular(path, follow=True) as file:
            version = version_of(file.fileno())
            size = os.fstat(file.fileno()).st_size
            # The hash is that of the bytes on disk, before any decoding.
            if size <= COPIED:
                content = file.read(COPIED + 1)
                data: Buffer = content
                n_bytes, sha256 = len(content), hashlib.sha256(content).hexdigest()
            else:
                data = FileBytes(file, str(path))
                _require_content(data[:HEAD], str(path))
                file.seek(0)  # both descriptors share their place in the file
                opened = InputFile(str(path), data, size, "", progress=progress)
                sha256, n_bytes = _hash_of(file, partial(opened.advance, step="hashing"))
            require_version(str(path), version, version_of(file.fileno()))
    except OSError as error:
        raise InputError(
            "a readable file", rule="not-readable", file=str(path), value=error.strerror
        ) from None
    if n_bytes != size:
        raise changed_error(str(path), size, n_bytes)
    for mark, encoding in BYTE_ORDER_MARKS:
        if data[: len(mark)] == mark:
            return replace(_as_utf8(path, data[:], encoding, sha256), progress=progress)
    return InputFile(str(path), data, len(data), sha256, progress=progress)


def _require_content(head: bytes, file: str) -> None:
    """Raise for a large file that begins with nothing: none of the formats does, and to hash its
    gigabytes first would take seconds.
    """
    if not any(head):
        raise InputError(
            "content",
            rule="empty-file",
            file=file,
            value=f"{len(head):,} NUL bytes at the beginning",
            hint="the file was created but not written: copy or export it again",
        )


def first_lines(file: InputFile, most: int) -> InputFile:
    """Return the beginning of a file of lines, of about ``most`` bytes; the file itself if it is
    not longer, or if it has quotes, which may go on over the end of a line.
    """
    if len(file.data) <= most:
        return file
    start = bytes(file.data[:most])
    end = start.rfind(b"\n") + 1
    if not end or b'"' in start:
        return file
    return replace(file, data=start[:end])


def open_input(path: Path | str, progress: Progress | None = None) -> InputFile:
    """Open a file, or a folder of annotation files; ``progress`` is called while it is read."""
    if os.path.isdir(path):
        return replace(open_folder(path), progress=progress)
    if str(path).lower().endswith(ARCHIVES):
        return _as_one_document(_open_archive(Path(path), progress))
    return _as_one_document(open_source(path, progress))


def _open_archive(path: Path, progress: Progress | None) -> InputFile:
    """Open the only annotation file of an archive, in which annotation tools export; the archive
    itself if it holds volumes, or several.
    """
    from calipers.io.archives import find_member, list_archive  # which imports this module

    archive = open_source(path, progress)
    members = list_archive(path).files
    names = [name for name in members if name.lower().endswith(ANNOTATION_SUFFIXES)]
    # Arrays are volumes, and a file beside them says something about them.
    has_arrays = any(name.lower().endswith(ARRAYS) for name in members)
    member = find_member(path / names[0]) if len(names) == 1 and not has_arrays else None
    if member is None:
        return archive
    if member.size > MOST_ANNOTATION_BYTES:
        raise InputError(
            f"at most {MOST_ANNOTATION_BYTES} bytes", rule="too-large", file=member.file
        )
    raw = bytes(member.read())
    note = f"the only annotation file of the archive is read: {names[0]}"
    for mark, encoding in BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            text = _as_utf8(path, raw, encoding, archive.sha256)
            return replace(archive, data=text.data, notes=[note, *text.notes], member=names[0])
    # The hash and the size are those of the archive, which is the file on disk.
    return replace(archive, data=raw, notes=[note], member=names[0])


def _as_one_document(file: InputFile) -> InputFile:
    """Return a file with a JSON object per line as the list of them; other files as they are."""
    first, _, rest = bytes(file.data[:HEAD]).lstrip().partition(b"\n")
    is_named_so = file.file.lower().endswith(JSON_LINES)
    if not _is_object(first) or not (is_named_so or rest.lstrip().startswith(b"{")):
        return file
    # A comma takes the place of the end of the line, so that bytes keep their number but for one.
    content = BETWEEN_OBJECTS.sub(rb"},\1", file.data[:])
    note = "a JSON object per line, read as a list of them: /0 is the first"
    return replace(file, data=b"[" + content + b"]", notes=[*file.notes, note])


def _is_object(line: bytes) -> bool:
    """Return whether a line is a whole JSON object: in a document of many lines none is."""
    if not line.startswith(b"{") or not line.rstrip().endswith(b"}"):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def model_name(path: Path | str) -> str:
    """Return the name of a model by that of its file; one in a folder ``labels``, where YOLO puts
    them, is called like the folder above.
    """
    path = Path(path)
    if not os.path.isdir(path):  # False too for a name that is too long
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
    versions = {name: version_of(real_path) for name, real_path in files.items()}
    for name, real_path in files.items():
        if name.lower().endswith(ANNOTATION_SUFFIXES):
            _check_name(str(path), name)
            with open_regular(Path(real_path), follow=False) as stream:
                if (versions[name] or (0,))[0] > COPIED:
                    _require_content(stream.read(HEAD), f"{path}/{name}")
                    stream.seek(0)
                content, n_bytes = _hash_of(stream)
            size += n_bytes
        else:
            length = (versions[name] or (0,))[0]
            content = f"{length} bytes"
        digest.update(f"{name}\0{content}\0".encode("utf-8", "surrogateescape"))
    notes = []
    if listing.left:
        notes.append(f"{listing.left} links lead out of the folder and are not followed")
    whole = digest.hexdigest()
    return InputFolder(str(path), b"", size, whole, notes, files=files, versions=versions)


def _read_annotations(stream: BinaryIO, file: str) -> bytes:
    # Piece by piece: Python reserves as much memory as is asked for, and most files are small.
    pieces = []
    n_bytes = 0
    while piece := stream.read(ANNOTATION_PIECE):
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes > MOST_ANNOTATION_BYTES:
            raise InputError(f"at most {MOST_ANNOTATION_BYTES} bytes", rule="too-large", file=file)
    return b"".join(pieces)


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
    for name in difflib.get_close_matches(path.name, names, n=3, cutoff=0.6):
        # All files of a folder may end alike: that does not make their names similar.
        if difflib.SequenceMatcher(None, path.stem, Path(name).stem).ratio() >= 0.6:
            return f"did you mean {name!r}?"
    return ""


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
                # Samples are named after their files; of pictures only some are asked for.
                if holds != "pictures":
                    _check_name(str(folder), prefix + entry.name)
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
    """Return the real path of an entry, and False; None and True for a link out of the root, None
    and False for one that cannot be followed.
    """
    if not entry.is_symlink():
        return entry.path, False
    try:
        path = os.path.realpath(entry.path)
    except OSError:  # it was removed meanwhile, or is a link of /proc that leads nowhere
        return None, False
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
