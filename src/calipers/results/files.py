# SPDX-License-Identifier: Apache-2.0
"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from calipers.errors import InputError


def write_atomically(path: Path | str, content: bytes | str) -> None:
    """Write a whole file or nothing: temporary file in the same folder, flush, sync, rename."""
    path = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"a place where {len(data)} bytes can be written",
            rule="disk-full" if error.errno == 28 else "not-writable",
            file=str(path),
            value=error.strerror,
            hint="choose another output folder or free some space; earlier results are untouched",
        ) from None


def output_folder(path: Path | str, *, force: bool, inputs: tuple[str, ...] = ()) -> Path:
    """Create the folder for results, refusing to overwrite results or to write next to inputs."""
    folder = check_folder(path, force=force, inputs=inputs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            "a folder that can be created", rule="not-writable", file=str(folder), value=error.strerror
        ) from None
    return folder


def check_folder(path: Path | str, *, force: bool, inputs: tuple[str, ...] = ()) -> Path:
    """Return the folder if results may go there; nothing is created.

    Parameters
    ----------
    force
        Allow a folder that already holds something.
    inputs
        Files that are read; the folder of an input never receives output.
    """
    folder = Path(path)
    for name in inputs:
        if Path(name).is_file() and folder.resolve() == Path(name).resolve().parent:
            raise InputError(
                "an output folder that is not an input folder",
                rule="output-in-input",
                file=str(folder),
                hint="results are never written among the inputs: choose a new folder",
            )
    if folder.exists() and not folder.is_dir():
        raise InputError("a folder", rule="not-a-folder", file=str(folder), hint="a file of that name exists")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(
            "a new or empty output folder",
            rule="output-exists",
            file=str(folder),
            hint="choose another folder, or pass --force to replace what is there",
        )
    return folder
