# SPDX-License-Identifier: Apache-2.0
"""Archives that studies keep of their trained networks, and tables that packages bring.

An archive is an ``.npz`` that a study wrote with ``--keep``, or one that ships. `kept_archive` says
where it is in a folder, or how to make it; `archive_arrays` gives its arrays to a ``with`` block,
in which the study makes its objects of them. Whatever goes wrong there, because a file was damaged
or is something else, is one `InputError`: the studies check the meaning of their arrays only.
`package_table` does the same for a table of an installed package that is damaged, or of another
version.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calipers.errors import CalipersError, InputError

# Archives have a few megabytes; one that unpacks to more is none, or made to fill the memory.
MOST_BYTES = 512 << 20
# What damaged archives raise in NumPy and in the code that takes them apart.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,  # a way to compress that zipfile does not know
    OSError,
    RecursionError,
    RuntimeError,  # a member that is encrypted
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def kept_archive(folder: str | Path, file: str, study: str) -> Path:
    """Return where the archive of a training is in its folder.

    Raises
    ------
    InputError
        ``not-found``: nothing was trained into the folder, or not to the end.
    """
    path = Path(folder) / file
    if not path.is_file():
        raise InputError(
            "the archive of a training",
            rule="not-found",
            file=str(path),
            hint=f"make it with: calipers study {study} --train --keep {folder}",
        )
    return path


@contextmanager
def archive_arrays(
    content: bytes | Path, file: str, what: str, hint: str
) -> Iterator[dict[str, Any]]:
    """Give the arrays of an archive by their names; what fails in the block is refused.

    Parameters
    ----------
    content
        The archive, or where it is.
    what, hint
        What was expected, and what to do, for messages.

    Raises
    ------
    InputError
        ``npz-format``: the archive is damaged, too large, or not of this study.
    """
    try:
        yield _arrays(content)
    except CalipersError:
        raise
    except DAMAGE as error:
        value = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(what, rule="npz-format", file=file, value=value, hint=hint) from None


def _arrays(content: bytes | Path) -> dict[str, Any]:
    if isinstance(content, Path):
        # Opening a pipe would wait for its writer.
        if not content.is_file():
            raise FileNotFoundError("not a file")
        if os.path.getsize(content) > MOST_BYTES:
            raise ValueError("too large")
        content = content.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
            raise ValueError(f"it unpacks to more than {MOST_BYTES} bytes")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@contextmanager
def package_table(path: Path, what: str, package: str) -> Iterator[None]:
    """Refuse a table of an installed package that cannot be read in the block.

    Parameters
    ----------
    what, package
        What the table is, and the package with the version that has it, such as
        ``torchxrayvision==1.5.7``.

    Raises
    ------
    InputError
        ``format``: the table is damaged, or that of another version.
    """
    try:
        yield
    except CalipersError:
        raise
    except (*DAMAGE, csv.Error) as error:
        value = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{what} of {package.replace('==', ' ')}",
            rule="format",
            file=str(path),
            value=value,
            hint=f"install it again: pip install --no-deps --force-reinstall {package}",
        ) from None
