# SPDX-License-Identifier: Apache-2.0
"""Finished results on disk: a run goes on where it was stopped, and parts of a run become one.

A `RunPlan` says what is done, with which settings, on which items. A `Store` is a folder that
belongs to one plan: ``blocks.json`` holds the plan, ``items.txt`` a line per item, and every file
``0000012-<hash>.npz`` the results of one block of neighbouring items. The name of a block holds the
hash of its content, so a damaged one is seen, dropped and worked on again.

- *Resume*: `Store.open` on the folder of a stopped run. Its plan must be the same; else the error
  names the setting or the item that differs.
- *Parts*: with a `Part` only its items are worked on. `merged` opens the folders of all parts as
  one store that is only read, after it has refused missing, repeated and foreign ones.

`work.in_order` asks a store for every item; callers only open and close it, and do what they do
with the results inside of `blaming_blocks`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from calipers.arguments import BLAMED
from calipers.engine.encoding import decoded, encoded
from calipers.engine.ordered_map import Part
from calipers.errors import CalipersError, InputError
from calipers.results.files import (
    canonical,
    locked_at_once,
    output_folder,
    sha256_of,
    small_json,
    small_text,
    write_atomically,
)
from calipers.results.schema import structure

SCHEMA = "calipers.blocks/1"
PLAN = "blocks.json"
ITEMS = "items.txt"
BLOCK_NAME = re.compile(r"(\d{7})-([0-9a-f]{40})\.npz")
LARGEST_PLAN = 16 << 20  # bytes; command lines and protocols are small
LARGEST_ITEMS = 1 << 30  # bytes; a line per image
FILES = "the files differ"
START_OVER = "give the same files and options as before, or remove the folder to start over"


class BlocksDocument(Struct, forbid_unknown_fields=True, frozen=True):
    """``blocks.json``: what a folder of blocks belongs to."""

    schema: str
    work: str
    settings: dict[str, Any]
    n_items: Annotated[int, Meta(ge=0)]
    items_sha256: str
    size: Annotated[int, Meta(ge=1)]
    part: tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]] | None
    command: list[str]


@dataclass(frozen=True)
class RunPlan:
    """What a run does, so that another run can tell whether its results are the same.

    ``items`` has a line per item that changes with its content: a name, sizes, times of files.
    """

    work: str  # maps, stability, evaluate
    settings: Mapping[str, Any]  # JSON values: protocol, options, versions
    items: Sequence[str]
    size: int = 1  # items per block
    command: Sequence[str] = ()

    @property
    def n_blocks(self) -> int:
        """Number of blocks; the last one may be short."""
        return -(-len(self.items) // self.size)

    def lines(self) -> str:
        """Return the text of ``items.txt``."""
        return "".join(f"{canonical(item)}\n" for item in self.items)

    def document(self, part: Part | None) -> BlocksDocument:
        """Return what ``blocks.json`` holds."""
        return BlocksDocument(
            schema=SCHEMA,
            work=self.work,
            settings=dict(self.settings),
            n_items=len(self.items),
            items_sha256=_hash(self.lines()),
            size=self.size,
            part=None if part is None else (part.number, part.total),
            command=list(self.command),
        )


@dataclass
class Store:
    """The finished blocks of a plan, in one folder or, of parts, in several."""

    plan: RunPlan
    folders: Sequence[Path]
    part: Part | None = None
    read_only: bool = False
    n_read: int = 0  # blocks that came from disk
    _files: dict[int, Path] = field(default_factory=dict)
    _block: tuple[int, list[Any]] = (-1, [])  # the block that was read last
    _waiting: list[Any] = field(default_factory=list)  # results of the block that is being filled

    @property
    def n_done(self) -> int:
        """How many items are stored."""
        return sum(self._length(block) for block in self._files)

    def wants(self, k: int) -> bool:
        """Return whether item k belongs to this part."""
        first, end = self.span
        return first <= k < end

    def __contains__(self, k: int) -> bool:
        """Return whether the result of item k is stored and sound."""
        block = k // self.plan.size
        if block not in self._files:
            if self.read_only:
                raise _missing_block(self.folders, self.plan.items[k])
            return False
        return self._loaded(block) is not None

    def get(self, k: int) -> Any:
        """Return the result of an item that is stored."""
        results = self._loaded(k // self.plan.size)
        assert results is not None, "callers ask first"
        return results[k % self.plan.size]

    def put(self, k: int, result: Any) -> None:
        """Take the result of the next item; a full block is written."""
        if self.read_only or k // self.plan.size in self._files:
            return
        self._waiting.append(result)
        if len(self._waiting) == self._length(k // self.plan.size):
            self._write(k // self.plan.size)

    def flush(self) -> None:
        """Check that every block that was begun is on disk."""
        assert not self._waiting, "a block was begun and not finished"

    def remove(self) -> None:
        """Delete the folder: its results are part of a finished result."""
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def span(self) -> tuple[int, int]:
        """The first item of this part, and the one after its last."""
        if self.part is None:
            return 0, len(self.plan.items)
        first, end = self.part.bounds(self.plan.n_blocks)
        return first * self.plan.size, min(end * self.plan.size, len(self.plan.items))

    def _length(self, block: int) -> int:
        return min(self.plan.size, len(self.plan.items) - block * self.plan.size)

    def _write(self, block: int) -> None:
        data = encoded(self._waiting)
        name = f"{block:07d}-{hashlib.sha256(data).hexdigest()[:40]}.npz"
        write_atomically(self.folders[0] / name, data)
        self._files[block] = self.folders[0] / name
        self._waiting = []

    def _loaded(self, block: int) -> list[Any] | None:
        """Return the results of a block, None if its file is damaged."""
        if self._block[0] == block:
            return self._block[1]
        results = _results(self._files[block], self._length(block))
        if results is None:
            if self.read_only:
                raise InputError(
                    "a block as it was written",
                    rule="blocks-damaged",
                    file=str(self._files[block]),
                    hint="run that part again",
                )
            self._files.pop(block).unlink(missing_ok=True)
            return None
        self._block = (block, results)
        self.n_read += 1
        return results


@contextmanager
def blaming_blocks(store: Store) -> Iterator[None]:
    """Refuse stored blocks that the work inside cannot use.

    The hash of a block vouches for its bytes, not for whoever wrote it. Where blocks came from disk
    they are the first suspects; without them a failure stays what it is, a fault of the program.
    """
    try:
        yield
    except BLAMED as error:
        if isinstance(error, CalipersError) or not store.n_read:
            raise
        raise InputError(
            "blocks as a run writes them",
            rule="blocks-damaged",
            file=", ".join(map(str, store.folders)),
            value=f"{type(error).__name__}: {error}",
            hint="remove the folder, and run the command again without it",
        ) from error


@contextmanager
def opened(folder: Path, plan: RunPlan, part: Part | None = None) -> Iterator[Store]:
    """Open the store of a plan in a folder, which is made if need be, for one run at a time."""
    output_folder(folder, force=True)
    with locked_at_once(folder) as is_ours:
        if not is_ours:
            raise InputError(
                "a folder that no other run uses",
                rule="blocks-in-use",
                file=str(folder),
                hint="another run of this command is under way: wait for it, or choose another -o",
            )
        if (folder / PLAN).exists():
            _check_same(folder, plan, part)
        else:
            write_atomically(folder / ITEMS, plan.lines())
            write_atomically(folder / PLAN, json.dumps(asdict(plan.document(part)), indent=1))
        yield Store(plan, (folder,), part, _files=_block_files(folder, plan.n_blocks))


def merged(folders: Sequence[Path]) -> tuple[Store, list[list[str]]]:
    """Return the blocks of all parts as one store that is only read, and the command that made
    each of them, which the caller compares: plans hold only what blocks depend on.
    """
    documents = [_document(folder) for folder in folders]
    first = documents[0]
    parts: dict[Part, Path] = {}
    for folder, document in zip(folders, documents):
        check_same_run(folders[0], folder, _difference(first, document))
        part = _part(document, folder)
        total = _part(first, folders[0]).total
        if part.total != total:
            check_same_run(folders[0], folder, f"parts of {total} and of {part.total}")
        if part in parts:
            raise InputError(
                "every part once",
                rule="repeated-part",
                file=str(folder),
                value=f"part {part}, as in {parts[part]}",
            )
        parts[part] = folder
    if len(parts) < total:
        # Each of the first parts is one of those that are there, or missing.
        numbers = range(1, min(total, len(parts) + 8) + 1)
        missing = [str(Part(k, total)) for k in numbers if Part(k, total) not in parts]
        raise InputError(
            f"all {total} parts",
            rule="missing-part",
            file=str(folders[0]),
            value=f"no part {', '.join(missing[:8])}",
            hint="run the missing parts, and give the folders of all parts",
        )
    plan = RunPlan(first.work, first.settings, _items(folders[0], first), first.size, first.command)
    files: dict[int, Path] = {}
    for folder in folders:
        files |= _block_files(folder, plan.n_blocks)
    store = Store(plan, tuple(folders), read_only=True, _files=files)
    return store, [document.command for document in documents]


def check_same_run(first: Path, folder: Path, difference: str) -> None:
    """Raise if a part differs from the first one."""
    if difference:
        raise InputError(
            f"a part of the same run as {first}",
            rule="foreign-part",
            file=str(folder),
            location=difference,
            hint="merge takes the parts of one command, with the same files and options",
        )


def _block_files(folder: Path, n_blocks: int) -> dict[int, Path]:
    """Return block -> file of the blocks of a plan in a folder."""
    files = {}
    for name in sorted(os.listdir(folder)):
        match = BLOCK_NAME.fullmatch(name)
        if match and int(match.group(1)) < n_blocks:
            files[int(match.group(1))] = folder / name
    return files


def _results(file: Path, length: int) -> list[Any] | None:
    """Return the results in a block, None if it is damaged."""
    match = BLOCK_NAME.fullmatch(file.name)
    try:
        if not file.is_file():  # opening a pipe would wait for its writer
            return None
        data = file.read_bytes()
        if match is None or hashlib.sha256(data).hexdigest()[:40] != match.group(2):
            return None
        results = decoded(data)
    except (OSError, ValueError):
        return None
    if not isinstance(results, list) or len(results) != length:
        return None
    return results


def _check_same(folder: Path, plan: RunPlan, part: Part | None) -> None:
    """Raise unless the folder holds blocks of this plan and part."""
    document, current = _document(folder), plan.document(part)
    difference = _difference(document, current)
    if not difference and document.part != current.part:
        difference = f"part {_part_text(document)} and {_part_text(current)}"
    if difference == FILES:
        difference = _which_item(_items(folder, document), plan.items)
    if difference:
        raise InputError(
            "the blocks of this run",
            rule="resume-mismatch",
            file=str(folder),
            location=difference,
            hint=START_OVER,
        )


def _difference(document: BlocksDocument, other: BlocksDocument) -> str:
    """Return the first key in which two plans differ, as text."""
    for key in ("schema", "work", "size", "n_items"):
        ours, theirs = getattr(document, key), getattr(other, key)
        if ours != theirs:
            return f"{key}: {_short(ours)} and {_short(theirs)}"
    difference = first_difference(document.settings, other.settings)
    if difference:
        return difference
    if document.items_sha256 != other.items_sha256:
        return FILES
    return ""


def first_difference(first: Mapping[str, Any], second: Mapping[str, Any], above: str = "") -> str:
    """Return the first setting in which two tables differ, as text; tables in tables are searched
    too, so that a user sees the one setting and not all of its neighbours.
    """
    for key in sorted({*first, *second}):
        ours, theirs = first.get(key), second.get(key)
        if sha256_of(ours) == sha256_of(theirs):
            continue
        name = f"{above}.{key}" if above else key
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            return first_difference(ours, theirs, name)
        return f"{name}: {_short(ours)} and {_short(theirs)}"
    return ""


def difference_of(before: RunPlan, now: RunPlan) -> str:
    """Return what differs between two plans, as text; nothing if they are the same."""
    difference = _difference(before.document(None), now.document(None))
    return _which_item(before.items, now.items) if difference == FILES else difference


def _which_item(before: Sequence[str], now: Sequence[str]) -> str:
    """Return the first item that differs, as text."""
    for old, new in zip(before, now):
        if old != new:
            return f"{_short(new)}, before {_short(old)}"
    return FILES


def _items(folder: Path, document: BlocksDocument) -> list[str]:
    """Return the items that a folder was made for."""
    text = small_text(folder / ITEMS, "the items of finished blocks", LARGEST_ITEMS)
    # Fewer or other items would be another result, without a word.
    if _hash(text) != document.items_sha256:
        raise InputError(
            f"the items as they were written with {PLAN}",
            rule="blocks-damaged",
            file=str(folder / ITEMS),
            hint="run that part again in a new folder",
        )
    return [json.loads(line) for line in text.splitlines()]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _document(folder: Path) -> BlocksDocument:
    """Return the plan that a folder was made for."""
    if not (folder / PLAN).exists():
        content = f"a folder without {PLAN}" if folder.is_dir() else "no such folder"
        raise _no_blocks(folder, "", content)
    try:
        document = small_json(folder / PLAN, "the plan of finished blocks", LARGEST_PLAN)
        return structure(document, BlocksDocument, str(folder / PLAN), schema=SCHEMA, syntax="JSON")
    except InputError as error:
        raise _no_blocks(folder, error.location, error.value or error.expected) from None


def _no_blocks(folder: Path, location: str, content: object) -> InputError:
    return InputError(
        f"a folder of finished blocks, with {PLAN}",
        rule="no-blocks",
        file=str(folder),
        location=location,
        value=content,
        hint="--part 1/4 -o DIR writes such a folder; one that is damaged has to be removed",
    )


def _part_text(document: BlocksDocument) -> str:
    return "none" if document.part is None else "/".join(map(str, document.part))


def _part(document: BlocksDocument, folder: Path) -> Part:
    if document.part is None:
        raise InputError(
            "a folder that --part wrote",
            rule="no-part",
            file=str(folder),
            hint="this run was stopped: run its command again to go on",
        )
    number, total = document.part
    if number > total:
        raise _no_blocks(folder, "/part", f"part {_part_text(document)}")
    return Part(number, total)


def _missing_block(folders: Sequence[Path], item: str) -> InputError:
    return InputError(
        "parts that were run to their end",
        rule="missing-block",
        file=", ".join(map(str, folders)),
        location=_short(item),
        hint="run the command of that part again: it goes on where it was stopped",
    )
