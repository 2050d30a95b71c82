# SPDX-License-Identifier: Apache-2.0
"""Arrays in zip and tar archives, read where they lie: nothing is extracted.

A member is addressed as if the archive were a folder, ``maps.zip/case1.npy``. `list_archive` lists
the members as `calipers.io.source.list_files` lists a folder, for `calipers.io.volumes.pairing`;
`find_member` returns one of them, whose bytes `calipers.io.volumes.numpy` reads.

The list of members is read once per archive and process. It is parsed here and not by `zipfile` and
`tarfile`, whose objects take twice the memory (528 and 446 bytes per member, ours 230 and 202).
Names that lead out of the archive, encrypted members, devices, and lengths beyond the file are
errors; links are left out. A packed tar (``.tar.gz``) has no places to go to: it is refused with a
hint.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from calipers.errors import InputError, did_you_mean
from calipers.io.source import (
    MOST_ENTRIES,
    FileVersion,
    Listing,
    open_regular,
    require_version,
    version_of,
)

ARCHIVES = (".zip", ".tar")
PACKED_TARS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
INSIDE = re.compile(r"\.(zip|t[a-z0-9.]+)[/\\]", re.IGNORECASE)
UNPACK = "pack it as .zip or as .tar without compression, which can be read in place"
RENAME = "names with '..' or an absolute path are refused: pack the archive again"
KEPT = 16  # archives whose lists are kept
LONGEST_DIRECTORY = 1 << 28  # bytes of the list of a zip
LONGEST_NAME = 1 << 16  # bytes of a name, or of the record of a tar that holds one
SHARE_OF_NAMES = 1000  # names that a similar one is looked for in

STORED, DEFLATED = 0, 8  # methods of zip
BIG = 0xFFFFFFFF  # the length is elsewhere, in a record of zip64
END, END_64, PLACE_64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
ENTRY, LOCAL = struct.Struct("<4s4B4HL2L5H2L"), struct.Struct("<4s2B4HL2L2H")
BLOCK = 512  # of a tar
REGULAR, FOLDER, LINKS = b"0\0" + b"7", b"5", b"12"


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """Where the bytes of a member lie."""

    archive: str
    name: str
    start: int  # of a zip: of its local header
    packed: int  # bytes in the archive
    size: int  # bytes unpacked
    checksum: int | None = None  # CRC-32 of the unpacked bytes; a tar has none
    deflated: bool = False
    version: FileVersion | None = None  # of the archive when its list was read

    @property
    def file(self) -> str:
        """The path as messages show it."""
        return f"{self.archive}/{self.name}"

    def trace(self) -> str:
        """Return a text that changes with the content, as far as that is known without reading."""
        facts = os.stat(self.archive)
        mark = facts.st_mtime_ns if self.checksum is None else self.checksum
        return f"{self.name}:{self.size}:{mark}"

    def head(self, count: int) -> bytes:
        """Return at most ``count`` bytes of the beginning."""
        with open_regular(Path(self.archive), follow=True) as stream:
            stream.seek(self._data_start(stream))
            raw = stream.read(min(self.packed, max(count, 1 << 12)))
            self._require_unchanged(stream)
        if self.deflated:
            raw = zlib.decompressobj(-zlib.MAX_WBITS).decompress(raw, count)
        return raw[:count]

    def read(self) -> bytearray:
        """Return all bytes, checked against their checksum if there is one."""
        raw = bytearray(self.packed)
        with open_regular(Path(self.archive), follow=True) as stream:
            stream.seek(self._data_start(stream))
            del raw[cast(BufferedReader, stream).readinto(raw) :]
            self._require_unchanged(stream)
        if self.deflated:
            # One byte more than promised shows that the list is wrong, whatever else would come.
            unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
            raw = bytearray(unpacker.decompress(raw, self.size + 1))
        if len(raw) != self.size:
            raise _broken(self.file, f"{len(raw):,} bytes", f"the {self.size:,} bytes of its list")
        if self.checksum is not None and zlib.crc32(raw) != self.checksum:
            raise _broken(self.file, "other bytes", "the bytes of its checksum")
        return raw

    def _require_unchanged(self, stream: BinaryIO) -> None:
        """Raise if the archive is not the one that was listed: a tar has no checksums."""
        require_version(self.archive, self.version, version_of(stream.fileno()))

    def _data_start(self, stream: BinaryIO) -> int:
        """Return where the bytes begin: in a zip, behind a second header of any length."""
        if self.checksum is None:
            return self.start
        stream.seek(self.start)
        header = stream.read(LOCAL.size)
        if len(header) < LOCAL.size or header[:4] != b"PK\3\4":
            raise _broken(self.file, "none", "a header before the member")
        *_, name, extra = LOCAL.unpack(header)
        return self.start + LOCAL.size + int(name) + int(extra)


def is_archive(path: Path) -> bool:
    """Return whether a path names an archive; one that is packed as a whole is refused."""
    name = path.name.lower()
    if name.endswith(PACKED_TARS) and path.is_file():
        raise InputError(
            "an archive that can be read in place",
            rule="archive-packed",
            file=str(path),
            hint=UNPACK,
        )
    return name.endswith(ARCHIVES) and path.is_file()


def list_archive(path: Path) -> Listing:
    """Return the files in an archive as if it were a folder; hidden ones are skipped."""
    members, n_links = _members(path)
    files = {}
    for name, member in members.items():
        parts = name.split("/")
        # macOS adds a folder of its own to archives.
        if parts[0] != "__MACOSX" and not any(part.startswith(".") for part in parts):
            files[name] = member.file
    return Listing(str(path), files, n_links, 0)


def find_member(path: Path) -> ArchiveMember | None:
    """Return the member that a path names; None if no part of the path is an archive."""
    if INSIDE.search(os.fspath(path)) is None:  # a million files are asked, and this is quick
        return None
    for parent in path.parents:
        if not parent.name.lower().endswith((*ARCHIVES, *PACKED_TARS)) or not parent.is_file():
            continue
        if not is_archive(parent):
            return None
        members, _ = _members(parent)
        name = path.relative_to(parent).as_posix()
        if name not in members:
            some = list(members)[:SHARE_OF_NAMES]
            raise InputError(
                "the name of a member of the archive",
                rule="not-found",
                file=str(parent),
                value=name,
                hint=did_you_mean(name, some),
            )
        return members[name]
    return None


def _members(path: Path) -> tuple[dict[str, ArchiveMember], int]:
    """Return name -> member, and the number of links, which are not followed."""
    version = version_of(path)
    if version is None:
        raise InputError("an archive", rule="not-found", file=str(path))
    return _parsed(str(path), version)


@lru_cache(maxsize=KEPT)
def _parsed(path: str, version: FileVersion) -> tuple[dict[str, ArchiveMember], int]:
    """Parse the list of an archive; ``version`` is there so that a new file is parsed again."""
    members: dict[str, ArchiveMember] = {}
    n_links, size = 0, version[0]
    entries = _in_tar if path.lower().endswith(".tar") else _in_zip
    with open_regular(Path(path), follow=True) as stream:
        for member in entries(path, stream, size):
            if member is None:
                n_links += 1
                continue
            _check_name(path, member.name)
            if member.name in members:
                raise InputError(
                    "one member of a name", rule="archive-member", file=path, value=member.name
                )
            if member.start + member.packed > size:
                raise _broken(path, f"{size:,} bytes", f"an archive that holds {member.name!r}")
            members[member.name] = replace(member, version=version)
            if len(members) + n_links > MOST_ENTRIES:
                raise InputError(f"at most {MOST_ENTRIES:,} members", rule="too-large", file=path)
        require_version(path, version, version_of(stream.fileno()))
    if not members:
        raise InputError("an archive with files", rule="no-volumes", file=path)
    return members, n_links


def _check_name(path: str, name: str) -> None:
    """Raise for a name that leads out of the archive: nothing is extracted, yet it is a sign of an
    attack.
    """
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or "" in parts or "\0" in name or ":" in parts[0]:
        raise InputError(
            "names of files", rule="archive-member", file=path, value=name, hint=RENAME
        )


def _in_zip(path: str, stream: BinaryIO, size: int) -> Iterator[ArchiveMember]:
    start, length = _directory(path, stream, size)
    stream.seek(start)
    data, at = stream.read(length), 0
    while at < length:
        if len(data) < at + ENTRY.size or data[at : at + 4] != b"PK\1\2":
            raise _broken(path, f"byte {start + at}", "a list of members")
        fields = ENTRY.unpack_from(data, at)
        flags, method, checksum, packed, unpacked = (fields[k] for k in (5, 6, 9, 10, 11))
        n_name, n_extra, n_comment, place = *fields[12:15], fields[18]
        begin = at + ENTRY.size
        raw, extra = data[begin : begin + n_name], data[begin + n_name : begin + n_name + n_extra]
        at = begin + n_name + n_extra + n_comment
        name = _text(path, raw, "utf-8" if flags & 0x800 else "cp437")
        if name.endswith("/") and not unpacked:
            continue
        if flags & 1 or method not in (STORED, DEFLATED):
            raise InputError(
                "members that are stored or deflated and not encrypted",
                rule="archive-member",
                file=path,
                value=name,
            )
        unpacked, packed, place = _long_numbers(path, extra, [unpacked, packed, place])
        if method == STORED and unpacked != packed:
            raise _broken(path, f"{packed:,} bytes", f"the {unpacked:,} bytes of {name!r}")
        yield ArchiveMember(path, name, place, packed, unpacked, checksum, method == DEFLATED)


def _directory(path: str, stream: BinaryIO, size: int) -> tuple[int, int]:
    """Return where the list of a zip begins, and its length."""
    # The record at the end has 22 bytes and a comment of at most 64 kB behind it; a pointer of 20
    # bytes before it leads to the record of zip64.
    stream.seek(max(0, size - (1 << 16) - 42))
    tail = stream.read()
    at = tail.rfind(END)
    if at < 0 or len(tail) < at + 22:
        raise _broken(path, "no list of members", "a zip archive")
    length, start = struct.unpack("<12xLL2x", tail[at : at + 22])
    end, pointer = size - len(tail) + at, tail[max(0, at - 20) : at]
    if pointer[:4] == PLACE_64 and len(pointer) == 20:
        (end,) = struct.unpack("<8xQ4x", pointer)
        stream.seek(min(end, size))
        record = stream.read(56)
        if len(record) < 56 or record[:4] != END_64:
            raise _broken(path, "none", "the record of zip64 at the end")
        length, start = struct.unpack("<40xQQ", record)
    if length > LONGEST_DIRECTORY:
        raise InputError(
            f"a list of members of at most {LONGEST_DIRECTORY:,} bytes",
            rule="too-large",
            file=path,
            value=f"{length:,} bytes",
        )
    if start + length != end:
        raise _broken(path, "a list elsewhere", "a list of members at the end of the archive")
    return start, length


def _long_numbers(path: str, extra: bytes, numbers: list[int]) -> list[int]:
    """Return the numbers of a member; those that do not fit into 32 bits are in a record of
    zip64.
    """
    if BIG not in numbers:
        return numbers
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            record = extra[at + 4 : at + 4 + length]
            values = list(struct.unpack(f"<{len(record) // 8}Q", record[: len(record) // 8 * 8]))
            if len(values) >= numbers.count(BIG):
                return [values.pop(0) if number == BIG else number for number in numbers]
        at += 4 + length
    raise _broken(path, "none", "the lengths of a large member")


def _in_tar(path: str, stream: BinaryIO, size: int) -> Iterator[ArchiveMember | None]:
    at, long_name, long_size = 0, "", None
    while at + BLOCK <= size:
        stream.seek(at)
        header = stream.read(BLOCK)
        if not header.strip(b"\0"):
            break  # blocks of zeros are the end
        if _octal(path, header[148:156]) != sum(header[:148]) + sum(header[156:]) + 8 * 32:
            raise _broken(path, f"byte {at}", "the header of a member of a tar")
        length, kind = _octal(path, header[124:136]), header[156:157]
        if kind in (b"L", b"x", b"g", b"K"):
            if length > LONGEST_NAME:
                raise _broken(path, f"{length:,} bytes", "a record of a tar")
            record = stream.read(length)
            if kind == b"L":
                long_name = _text(path, record.rstrip(b"\0"), "utf-8")
            elif kind == b"x":
                values = _records(path, record)
                long_name = values.get("path", long_name)
                long_size = values.get("size")
            at += BLOCK + -(-length // BLOCK) * BLOCK
            continue
        length = length if long_size is None else _number(path, long_size)
        name, long_name, long_size = long_name or _short_name(path, header), "", None
        start, at = at + BLOCK, at + BLOCK + -(-length // BLOCK) * BLOCK
        if kind in LINKS:
            at = start  # a link has no bytes, whatever its header says
            yield None
        elif kind == b"" or kind in REGULAR:
            yield ArchiveMember(path, name.removeprefix("./"), start, length, length)
        elif kind != FOLDER:
            raise InputError(
                "files, folders and links in a tar, nothing else",
                rule="archive-member",
                file=path,
                value=f"{name} of the kind {kind!r}",
            )


def _short_name(path: str, header: bytes) -> str:
    name = _text(path, header[:100].partition(b"\0")[0], "utf-8")
    if header[257:263] != b"ustar\0":
        return name
    prefix = _text(path, header[345:500].partition(b"\0")[0], "utf-8")
    return f"{prefix}/{name}" if prefix else name


def _records(path: str, record: bytes) -> dict[str, str]:
    """Return the values of an extended header: ``"25 path=long/name.npy"`` and so on."""
    values, at = {}, 0
    while at < len(record) and record[at : at + 1] != b"\0":
        length_text, space, _ = record[at : at + 20].partition(b" ")
        length = _number(path, length_text.decode("ascii", "replace")) if space else 0
        line = record[at + len(length_text) + 1 : at + length]
        key, sign, value = line.partition(b"=")
        if not sign or not line.endswith(b"\n"):
            raise _broken(path, "something else", "records of an extended header")
        if key in (b"path", b"size"):
            values[key.decode("ascii")] = _text(path, value[:-1], "utf-8")
        at += length
    return values


def _octal(path: str, field: bytes) -> int:
    """Return a number of a header; large ones are written in base 256."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ~(0x80 << 8 * (len(field) - 1))
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        raise _broken(path, field, "a number in the header of a member") from None


def _number(path: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 19:
        raise _broken(path, text, "a length")
    return int(text)


def _text(path: str, raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        raise InputError("names in UTF-8", rule="encoding", file=path, value=raw) from None


def _broken(file: str, value: object, expected: str) -> InputError:
    hint = "the archive may be truncated or damaged: copy it again"
    return InputError(expected, rule="volume-broken", file=file, value=value, hint=hint)
