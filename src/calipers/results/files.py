# SPDX-License-Identifier: Apache-2.0
"""Files of results: written whole or not at all, where nothing is lost, with their record.

Everything that writes calls these functions:

- `write_atomically` writes one file and `staged_folder` several, so that a reader never sees half
  of a result;
- `small_text` and `small_json` read a small file that a user names or an earlier run left;
- `check_file` and `check_folder` refuse a bad target before any work is done: results are never
  written over other files or among the inputs;
- `sha256_of` is the hash of a document as `canonical` JSON, which a later run can be compared with;
  `calipers.results.provenance` records where a result comes from;
- `Encoded` and `Slices` are pictures as a page embeds them and a saved evaluation keeps them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from calipers import errors
from calipers.errors import InputError, UsageError, shorten

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, a limit of the process
O_BINARY = getattr(os, "O_BINARY", 0)  # elsewhere than on Windows, all files are
LAST = "run.json"  # vouches for the files beside it
MOST_FOLDERS = 256  # around an output: making them one inside the other goes that deep
STAGE = ".calipers-"  # begins the names of hidden folders of runs
OLD = f"{STAGE}old-"  # of those that keep an earlier result while a new one takes its place
CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
)


def write_atomically(path: Path | str, content: bytes | str) -> None:
    """Write a whole file or nothing: see `atomic_file`."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with atomic_file(path, len(data)) as file:
        file.write(data)


def write_pieces(path: Path | str, pieces: Iterable[bytes]) -> None:
    """Write a file of pieces that come one after the other, whole or not at all."""
    with atomic_file(path) as file:
        for piece in pieces:
            file.write(piece)


@contextmanager
def atomic_file(path: Path | str, size: int | None = None) -> Iterator[BinaryIO]:
    """Give a file to write into, of which all appears or nothing: temporary file in the same
    folder, flush, sync, rename. ``size`` is its number of bytes, if that is known.

    A link is followed, and stays. A device or pipe is refused: the rename would put a file in its
    place, and an administrator's machine would be left without its `/dev/null`.
    """
    path = Path(path)
    # What no file system knows, and Python answers with a ValueError.
    if "\0" in str(path):
        raise InputError("a name without zero bytes", rule="not-writable", file=str(path))
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        name = shorten(str(path))
        raise InputError("a name of whole characters", rule="not-writable", file=name) from None
    try:
        if path.is_symlink():
            path = _real(str(path))
        _refuse_special(path)
        # In the same folder: a rename is atomic only within one file system.
        temporary, handle = _new_file(path.parent, f".{path.name[:40]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                # Without this a crash after the rename could leave an empty file of the right name.
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"a place where {'the file' if size is None else f'{size} bytes'} can be written",
            rule=_rule_of(error),
            file=str(path),
            value=error.strerror,
            hint="choose another output folder or free some space; earlier results are untouched",
        ) from None


def new_folder(place: Path, beginning: str) -> Path:
    """Make a folder under a name that nothing else has, with the rights that the user's umask
    leaves: results of patients are for others to read only where the user says so. Its owner, who
    has to write into it, has all rights.
    """
    while True:
        folder = place / _free_name(beginning)
        with suppress(FileExistsError):
            folder.mkdir()
            _owned(folder, stat.S_IRWXU)
            return folder


def _owned(path: Path, rights: int) -> None:
    """Give the owner rights that the umask withheld."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & rights != rights:
        path.chmod(mode | rights)


def _new_file(place: Path, beginning: str) -> tuple[Path, int]:
    """Make a file like `new_folder` a folder, and open it for writing."""
    while True:
        file = place / _free_name(beginning)
        with suppress(FileExistsError):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o666)
            _owned(file, stat.S_IRUSR | stat.S_IWUSR)  # the run reads some of them again
            return file, handle


def _free_name(beginning: str) -> str:
    return beginning + os.urandom(6).hex()


def small_text(path: Path | str, what: str, most: int) -> str:
    """Return the text of a regular file in UTF-8 of at most some bytes.

    ``what`` names the file in messages; whatever is wrong with it is an `InputError`.
    """
    file = str(path)
    if not isinstance(path, str | os.PathLike):
        # A number would be taken for an open file, and closed: 1 is the standard output.
        raise InputError(what, rule="not-a-file", value=file, hint="give the name of a file")
    try:
        # Asked before the file is opened: opening a pipe would wait for its writer.
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or pipe"
            raise InputError(what, rule="not-a-file", file=file, value=kind)
        if status.st_size > most:
            raise InputError(
                f"at most {most} bytes", rule="too-large", file=file, value=status.st_size
            )
        # A file of /proc has no size but content, and a file may grow while it is read; some of
        # /proc would also keep the reader waiting for more.
        with open(path, "rb", buffering=0, opener=_without_waiting) as stream:
            pieces = []
            left = most
            while piece := stream.read(left):
                pieces.append(piece)
                left -= len(piece)
            if piece is None:
                raise InputError(
                    "a readable file", rule="not-readable", file=file, value="nothing to read yet"
                )
            return b"".join(pieces).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "text in UTF-8", rule="encoding", file=file, location=f"byte {error.start}"
        ) from None
    except FileNotFoundError:
        raise InputError(what, rule="not-found", file=file) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("a readable file", rule="not-readable", file=file, value=reason) from None


def _without_waiting(path: str, flags: int) -> int:
    # Not every system has the flag.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def head_of(path: Path | str, size: int) -> bytes:
    """Return the first bytes of a file, without waiting for any."""
    with open(path, "rb", buffering=0, opener=_without_waiting) as stream:
        return stream.read(size) or b""


def small_json(path: Path | str, what: str, most: int) -> Any:
    """Return the document in a file of JSON of at most some bytes; see `small_text`."""
    text = small_text(path, what, most)
    try:
        document = json.loads(text, parse_constant=_no_constant)
        # Half of a surrogate pair can be escaped, but neither hashed nor written again.
        canonical(document).encode()
    except (ValueError, RecursionError) as error:
        raise InputError("JSON", rule="json-syntax", file=str(path), value=str(error)) from None
    return document


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def check_file(output: str, *, force: bool, inputs: Iterable[str]) -> None:
    """Refuse a bad output file before any work is done: no name, an input, a folder, or there
    already.
    """
    target = Path(output)
    if not output:
        raise UsageError("-o needs the name of a file")
    if any(_real(output) == _real(name) for name in inputs):
        raise InputError("an output that is not an input", rule="output-in-input", file=output)
    if target.is_dir() or not target.parent.is_dir():
        hint = "give the name of a file, in a folder that exists"
        raise InputError(
            "a file in a folder that exists", rule="not-a-file", file=output, hint=hint
        )
    _refuse_special(target)
    if target.exists() and not force:
        hint = "choose another name, or pass --force to replace it"
        raise InputError(
            "a file that does not exist yet", rule="output-exists", file=output, hint=hint
        )


def _refuse_special(target: Path) -> None:
    """Refuse a device, a pipe or a socket as an output."""
    try:
        mode = os.stat(target).st_mode
    except (OSError, ValueError):
        return  # there is nothing yet, or writing will say what is wrong with the name
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            "the name of a file",
            rule="not-a-file",
            file=str(target),
            value="a device or pipe",
            hint="give the name of a file",
        )


def _real(name: str) -> Path:
    """Return where a path leads; one that cannot be followed is left as it is, for its reader to
    refuse.
    """
    try:
        return Path(name).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a zero byte
        return Path(name)


def files_of(folder: Path, ours: re.Pattern[str]) -> list[str]:
    """Return the names of the files in a folder that an earlier result of the same kind left."""
    if not folder.is_dir():
        return []
    return [file.name for file in folder.iterdir() if ours.fullmatch(file.name)]


@contextmanager
def staged_folder(
    folder: Path, owned: Sequence[str] = (), *, force: bool = False
) -> Iterator[Path]:
    """Give a hidden folder to write into; on success its files move to ``folder`` together,
    ``run.json`` last.

    On failure the hidden folder is removed, and so are folders that were made for it: what was
    there before stays as it was. What a killed run left is put in order first.

    Parameters
    ----------
    owned
        Names of files that an earlier result may have left; on success those that were not written
        again are removed.
    force
        Allow a folder that holds something by the time the files move; otherwise a second run that
        wrote into the same new folder in the meantime keeps its result, and this one is refused.
    """
    check_depth(folder)
    new_folders = [part for part in (folder, *folder.parents) if not part.exists()]
    stage: Path | None = None
    with ExitStack() as locks:
        try:
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                # A rename is atomic only within one file system: the stage lies beside its target.
                place = folder if folder.is_dir() else folder.parent
                with locked(place):
                    _tidy(place)
                    stage = new_folder(place, STAGE)
                    # Held until the end: it tells a stage in use from one that a kill left behind.
                    locks.enter_context(locked(stage))
            except OSError as error:
                raise _not_writable(folder, error) from None
            yield stage
            _publish(stage, folder, owned, force=force)
        except BaseException:
            if stage is not None:
                shutil.rmtree(stage, ignore_errors=True)
            for part in new_folders:
                if part.is_dir() and not any(part.iterdir()):
                    part.rmdir()
            raise


def _publish(stage: Path, folder: Path, owned: Sequence[str], *, force: bool) -> None:
    """Move the files of a stage into the folder, all of them or none."""
    try:
        if not folder.exists():
            try:
                os.rename(stage, folder)
                return
            except OSError as error:
                # Another run may have made the folder since the line above.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        with locked(folder):
            if not force and _contents(folder):
                raise _exists(folder, "another run wrote into it in the meantime")
            _exchange(stage, folder, owned)
            stage.rmdir()
    except OSError as error:
        raise _not_writable(folder, error) from None


def _exchange(stage: Path, folder: Path, owned: Sequence[str]) -> None:
    """Put the new files in the place of the old ones; if a step fails, all are put back.

    While ``run.json`` is missing the folder holds no valid result: nothing ever vouches for a
    mixture of two.
    """
    new = sorted((file.name for file in stage.iterdir()), key=lambda name: name == LAST)
    backup = new_folder(folder, OLD)
    moved = []
    try:
        for name in dict.fromkeys((LAST, *owned, *new)):
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                raise IsADirectoryError(errno.EISDIR, f"{name} is a folder")
            if os.path.lexists(folder / name):
                os.rename(folder / name, backup / name)
        for name in new:
            os.rename(stage / name, folder / name)
            moved.append(name)
    except BaseException:
        for name in moved:
            os.rename(folder / name, stage / name)
        _restore(backup, folder)
        raise
    shutil.rmtree(backup, ignore_errors=True)


def _restore(backup: Path, folder: Path) -> None:
    """Move the old files back into the folder, ``run.json`` last."""
    for name in sorted(os.listdir(backup), key=lambda name: name == LAST):
        os.replace(backup / name, folder / name)
    backup.rmdir()


def _tidy(place: Path) -> None:
    """Put in order what killed runs left in a folder; the caller holds its lock."""
    for entry in place.glob(f"{STAGE}*"):
        if not entry.is_dir():
            continue
        # What another user may not touch is theirs to put in order, and blocks nobody.
        with suppress(PermissionError):
            if entry.name.startswith(OLD):
                # Nobody exchanges files without the lock: that run died before it was done.
                _restore(entry, place)
            elif not _in_use(entry):
                shutil.rmtree(entry, ignore_errors=True)


def _contents(folder: Path) -> bool:
    """Return whether a folder holds anything but the stages of runs."""
    return any(not name.startswith(STAGE) for name in os.listdir(folder))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process whatever happens to it."""
    handle = _lock(folder, wait=True)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _in_use(folder: Path) -> bool:
    """Return whether another run holds the lock of a folder."""
    with locked_at_once(folder) as is_ours:
        return not is_ours


@contextmanager
def locked_at_once(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder, and say whether it could be had without waiting."""
    try:
        handle = _lock(folder, wait=False)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        if handle is not None:
            os.close(handle)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Return a handle that holds the lock; None where the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:  # some network file systems lock nothing
        os.close(handle)
        return None
    return handle


def _rule_of(error: OSError) -> str:
    return "disk-full" if error.errno in NO_SPACE else "not-writable"


def _not_writable(folder: Path, error: OSError) -> InputError:
    return InputError(
        "a folder that can be written",
        rule=_rule_of(error),
        file=str(folder),
        value=error.strerror,
    )


def check_depth(folder: Path) -> None:
    """Raise for an output inside of more folders than Python can make, one inside the other."""
    if len(folder.parts) > MOST_FOLDERS:
        raise InputError(
            f"a place inside of at most {MOST_FOLDERS} folders",
            rule="not-writable",
            file=str(folder)[:80],
            value=f"{len(folder.parts)} folders",
        )


def output_folder(path: Path | str, *, force: bool, inputs: tuple[str, ...] = ()) -> Path:
    """Create the folder for results, refusing to overwrite results or to write next to inputs."""
    folder = check_folder(path, force=force, inputs=inputs)
    check_depth(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error) from None
    return folder


@contextmanager
def kept_on_success(path: Path | str, *, force: bool) -> Iterator[Path]:
    """Give a folder for several steps that write by themselves; if one fails, all that is new in
    it goes, and so do the folders that were made for it.
    """
    target = Path(path)
    check_depth(target)
    new_folders = [part for part in (target, *target.parents) if not part.exists()]
    folder = output_folder(target, force=force)
    earlier = set(os.listdir(folder))
    try:
        yield folder
    except BaseException:
        for entry in folder.iterdir():
            if entry.name in earlier:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        for part in new_folders:
            if not any(part.iterdir()):
                part.rmdir()
        raise


def check_folder(path: Path | str, *, force: bool, inputs: tuple[str, ...] = ()) -> Path:
    """Return the folder if results may go there; nothing is created.

    Parameters
    ----------
    force
        Allow a folder that already holds something.
    inputs
        Files and folders that are read. The folder of a file and a folder that is read itself, with
        all below it, never receive output.
    """
    folder = Path(errors.path("the output", path))
    try:
        target = folder.resolve()
        folder.exists()
    except (OSError, ValueError, RuntimeError) as error:
        # A loop of links, a name that is too long, a working folder that is gone.
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            "the name of a folder", rule="not-writable", file=str(folder), value=reason
        ) from None
    for name in inputs:
        place = _real(name)
        among = (
            target == place.parent
            if os.path.isfile(place)
            else os.path.isdir(place) and target.is_relative_to(place)
        )
        if among:
            raise InputError(
                "an output folder that is not an input folder",
                rule="output-in-input",
                file=str(folder),
                hint="results are never written among the inputs: choose a new folder",
            )
    if folder.exists() and not folder.is_dir():
        raise InputError(
            "a folder", rule="not-a-folder", file=str(folder), hint="a file of that name exists"
        )
    parent = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(
            "a folder that can be written", rule="not-writable", file=str(folder), value=str(parent)
        )
    # What a killed run left is no result and blocks nobody.
    if folder.is_dir() and not force and _contents(folder):
        raise _exists(folder)
    return folder


def _exists(folder: Path, value: str | None = None) -> InputError:
    return InputError(
        "a new or empty output folder",
        rule="output-exists",
        file=str(folder),
        value=value,
        hint="choose another folder, or pass --force to replace what is there",
    )


def canonical(document: Any) -> str:
    """Return JSON text that is the same for equal documents: sorted keys, no spaces, no NaN."""
    return CANONICAL.encode(document)


def sha256_of(document: Any) -> str:
    """Return the hash of a document in canonical form."""
    digest = hashlib.sha256()
    for piece in _pieces(document):
        digest.update(piece.encode("utf-8"))
    return digest.hexdigest()


def _pieces(document: Any) -> Iterator[str]:
    """Give the canonical text of a document row by row: the text of all rows together can be
    larger than the memory, because every row repeats the names that users gave.
    """
    if not isinstance(document, dict) or not isinstance(document.get("rows"), list):
        yield canonical(document)
        return
    for k, name in enumerate(sorted(document)):
        yield f"{',' if k else '{'}{canonical(name)}:"
        if name == "rows":
            yield from _entries(document[name])
        else:
            yield canonical(document[name])
    yield "}"


def _entries(rows: list[Any]) -> Iterator[str]:
    yield "["
    for k, row in enumerate(rows):
        if k:
            yield ","
        yield canonical(row)
    yield "]"


def environment() -> dict[str, Any]:
    """Return what the numbers may depend on: versions and machine, no paths, no names of people or
    hosts.
    """
    import numpy
    import scipy

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "platform": platform.system(),
        "machine": platform.machine(),
        "byteorder": sys.byteorder,
    }


@dataclass(frozen=True, slots=True)
class Encoded:
    """A picture as text that a page can hold."""

    data: str  # data:image/webp;base64,...
    width: int  # of what is encoded
    height: int
    bytes: int  # length of the text, which is ASCII


@dataclass(frozen=True, slots=True)
class Slices:
    """The pictures of the samples that a page shows: slices of images, and of the maps of every
    model.

    They are stored with a saved evaluation, because the volumes may be gone when its page is
    written again.
    """

    # `calipers.pictures.album.Wanted` names them
    pictures: Mapping[str, Encoded] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
