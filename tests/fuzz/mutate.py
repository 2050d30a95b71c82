"""Mutations: small, seeded damage to bytes, to lines of text, to JSON-like documents, to arrays.

Each function takes a generator and a sound input and returns a damaged one. Damage follows the
structure of an input, so that it gets past the first check: values of a document are replaced by
values that others would deliver, and bytes are hit most often where headers are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

Random = np.random.Generator

# What stands in files that people and programs deliver, and what should never stand there.
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    10**30,
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "1",
    "a",
    "NaN",
    "ä\u202e\x1b[0m",
    "\ud800",
    "x" * 300,
    [],
    [1],
    [[1, 2]],
    [1, 2, 3, 4],
    {},
    {"id": 1},
)
ODD_WORDS = (
    "",
    " ",
    "nan",
    "inf",
    "-1",
    "1e999",
    "9" * 400,
    "007",
    "1,5",
    "null",
    "true",
    "[]",
    "{}",
    "[" * 200,
    '"',
    "'''",
    "=cmd()",
    "\0",
    "ä",
    "\ufeff",
    "a.b.c",
    "1979-05-27",
    "0x1F",
)


def of_bytes(rng: Random, whole: bytes) -> bytes:
    """Change, cut, repeat or insert a few bytes; the beginning is hit most often."""
    content = bytearray(whole)
    for _ in range(int(rng.integers(1, 5))):
        place = int(len(content) * rng.random() ** 2)
        kind = rng.integers(0, 6)
        if kind == 0:
            content[place : place + 1] = bytes([int(rng.integers(0, 256))])
        elif kind == 1:
            content[place : place + 4] = int(rng.integers(0, 2**32)).to_bytes(4, "little")
        elif kind == 2:
            content[place : place + int(rng.integers(1, 40))] = b""
        elif kind == 3:
            content[place:place] = content[place : place + int(rng.integers(1, 40))]
        elif kind == 4:
            del content[int(len(content) * rng.random()) :]
        elif place < len(content):
            content[place] ^= 1 << int(rng.integers(0, 8))
    return bytes(content) or b"\0"


def of_text(rng: Random, whole: str) -> str:
    """Replace, repeat, drop or swap words and lines; sometimes bytes instead."""
    lines = whole.split("\n")
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(len(lines)))
        kind = rng.integers(0, 6)
        if kind == 0:
            del lines[k]
            lines = lines or [""]
        elif kind == 1:
            lines.insert(k, lines[int(rng.integers(len(lines)))])
        elif kind == 2:
            lines.insert(k, str(rng.choice(ODD_WORDS)))
        else:
            # The signs stay, so that cells and values are replaced, not the grammar.
            pieces = _pieces(lines[k])
            at = int(rng.integers(len(pieces)))
            pieces[at] = str(rng.choice(ODD_WORDS))
            lines[k] = "".join(pieces)
    return "\n".join(lines)


def _pieces(line: str) -> list[str]:
    pieces, word = [], ""
    for sign in line:
        if sign in ',;\t="[]{} ':
            pieces += [word, sign]
            word = ""
        else:
            word += sign
    return [*pieces, word]


def of_document(rng: Random, document: Any) -> Any:
    """Replace, drop, repeat or rename entries of a document of lists and mappings."""
    return _in_place(rng, deepcopy(document))


def _in_place(rng: Random, changed: Any) -> Any:
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(changed))
        if not places:
            return ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
        holder, key = places[int(rng.integers(len(places)))]
        kind = rng.integers(0, 5)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        elif kind == 2 and isinstance(holder, dict):
            holder[str(rng.choice(ODD_WORDS))] = holder.pop(key)
        else:
            holder[key] = deepcopy(ODD_VALUES[int(rng.integers(len(ODD_VALUES)))])
    return changed


def _places(document: Any) -> list[tuple[Any, Any]]:
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        entries: list[Any] = []
        if isinstance(holder, dict):
            entries = list(holder)
        elif isinstance(holder, list):
            entries = list(range(len(holder)))
        for key in entries:
            places.append((holder, key))
            waiting.append(holder[key])
    return places


def of_json(rng: Random, whole: bytes) -> bytes:
    """Damage a JSON text as a document; sometimes as text or bytes, or with a key twice."""
    kind = rng.integers(0, 10)
    if kind == 0:
        return of_bytes(rng, whole)
    if kind == 1:
        return of_text(rng, whole.decode()).encode("utf-8", "surrogatepass")
    text = json.dumps(_in_place(rng, json.loads(whole)))
    if kind == 2 and '"' in text:
        keys = text.split('": ')
        at = int(rng.integers(len(keys)))
        keys[at] = keys[at] + '": 1, "id'
        text = '": '.join(keys)
    return text.encode("utf-8", "surrogatepass")


def _extreme(rng: Random, array: Any) -> Any:
    if not array.size or array.dtype.kind not in "iufb":
        return array[:-1]
    copy = array.copy()
    extremes: list[Any] = [-1, 40, 2**31 - 1, -(2**31), 0]
    if array.dtype.kind == "f":
        extremes = [np.nan, np.inf, -np.inf, 1e308, -1e308]
    value = np.array(extremes[int(rng.integers(len(extremes)))])
    copy.reshape(-1)[rng.integers(copy.size)] = value.astype(copy.dtype)
    return copy


def _other_length(rng: Random, array: Any) -> Any:
    return array[:-1] if rng.random() < 0.5 else np.concatenate([array, array[-1:], array[-1:]])


def _other_type(rng: Random, array: Any) -> Any:
    kinds: list[Any] = [np.int8, np.uint64, np.float32, np.complex128, np.bool_, object, "U8"]
    with np.errstate(all="ignore"):
        return array.astype(kinds[int(rng.integers(len(kinds)))])


def _other_shape(rng: Random, array: Any) -> Any:
    return array[:, None] if rng.random() < 0.5 else array.reshape(-1)[None]


def _no_array(rng: Random, array: Any) -> Any:
    values: list[Any] = [None, array.tolist(), "text", 7, b"\0" * 16]
    return values[int(rng.integers(len(values)))]


DAMAGES: tuple[Callable[[Random, Any], Any], ...] = (
    _extreme,
    _extreme,
    _other_length,
    _other_type,
    _other_shape,
    _no_array,
)


def of_array(rng: Random, array: Any) -> Any:
    """Put an extreme entry into an array, or give it another length, type or shape."""
    return DAMAGES[int(rng.integers(len(DAMAGES)))](rng, array)


# What a report of measurements may say instead, by the name of an element.
OF_REPORTS: dict[str, tuple[Any, ...]] = {
    "GraphicData": ([1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0, 9.0, 8.0], [5.0] * 8, [0.0] * 16, []),
    "GraphicType": ("POINT", "POLYLINE", "CIRCLE", "ELLIPSE", "MULTIPOINT", "polyline", "", "X"),
    "NumericValue": ("50", "0", "-1", "101", "1e2", "", ["50", "60"], "0.5"),
    "CodeValue": ("125007", "121071", "111030", "111012", "111047", "%", "1", "", "x"),
    "CodeMeaning": ("Nodule", "Mass", "", " ", "Nodule "),
    "CodingSchemeDesignator": ("DCM", "SCT", "99LOCAL", ""),
    "ValueType": ("SCOORD", "SCOORD3D", "NUM", "CODE", "CONTAINER", ""),
    "ReferencedSOPInstanceUID": ("1.2.3.1", "1.2.3.2", "1.2.3.9", "", "1.2.3.1 "),
    "ReferencedFrameNumber": ("1", "0", "2", ["1", "2"], ""),
}


def of_report(rng: Random, whole: bytes) -> bytes:
    """Return a DICOM report of which elements say something else, are missing or stand twice."""
    import io

    import pydicom

    report = pydicom.dcmread(io.BytesIO(whole))
    for _ in range(int(rng.integers(1, 4))):
        items = [report]
        for item in items:  # which grows
            for element in item:
                items += list(element.value or ()) if element.VR == "SQ" else []
        # Most of the items are below groups; the first is the report itself.
        item = items[int(rng.integers(len(items)))]
        elements = list(item)
        element = elements[int(rng.integers(len(elements)))] if elements else None
        if element is None:
            continue
        if element.VR == "SQ" and element.value and rng.random() < 0.7:
            k = int(rng.integers(len(element.value)))
            if rng.random() < 0.5:
                del element.value[k]
            else:
                element.value.insert(k, deepcopy(element.value[k]))
        elif element.keyword in OF_REPORTS and rng.random() < 0.9:
            values = OF_REPORTS[element.keyword]
            element.value = values[int(rng.integers(len(values)))]
        elif rng.random() < 0.3:
            item.ReferencedFrameNumber = ("1", ["1", "2"])[int(rng.integers(2))]
        elif rng.random() < 0.5:
            del item[element.tag]
    stream = io.BytesIO()
    try:
        report.save_as(stream)
    except Exception:  # a value that pydicom does not write
        return of_bytes(rng, whole)
    return stream.getvalue()


# Numbers that stand in headers of volumes, and some that never should.
OF_HEADERS = ("1", "-1", "0", "0.5", "2", "3", "9", "0.7071", "1e-3", "nan", "inf", "1e30", "-0.0")


def _of_text_header(end: bytes) -> Callable[[Random, bytes], bytes]:
    """Return the damage to a header of text; ``end`` is behind it."""

    def damage(rng: Random, whole: bytes) -> bytes:
        place = whole.index(end) + len(end)
        lines = whole[:place].decode("latin-1").split("\n")
        if rng.random() < 0.3:
            header = of_text(rng, "\n".join(lines))
        else:
            # Numbers stay numbers, so that the header is read as a whole.
            for _ in range(int(rng.integers(1, 4))):
                k = int(rng.integers(len(lines)))
                pieces = re.split(r"(-?[0-9][0-9.eE+-]*)", lines[k])
                if len(pieces) > 1:
                    at = 2 * int(rng.integers(len(pieces) // 2)) + 1
                    pieces[at] = str(rng.choice(OF_HEADERS))
                lines[k] = "".join(pieces)
            header = "\n".join(lines)
        return header.encode("latin-1", "replace") + whole[place:]

    return damage


# Fields of a NIfTI-1 header: offset, type, and how many there are.
NIFTI = (
    (40, "<i2", 8), (70, "<i2", 1), (72, "<i2", 1), (76, "<f4", 8), (108, "<f4", 1),
    (112, "<f4", 2), (123, "u1", 1), (252, "<i2", 2), (256, "<f4", 3), (268, "<f4", 3),
    (280, "<f4", 12),
)  # fmt: skip


def _of_nifti(rng: Random, whole: bytes) -> bytes:
    """Replace numbers of a header by other numbers of their kind."""
    content = bytearray(whole)
    # With a place in most files: two forms that agree before the damage, or one of them.
    np.frombuffer(content, "<i2", 2, 252)[:] = rng.integers(0, 3, 2)
    np.frombuffer(content, "<f4", 4, 76)[:] = 1, 0.7, 0.5, 2.5
    np.frombuffer(content, "<f4", 3, 268)[:] = -10, 5, 3
    np.frombuffer(content, "<f4", 12, 280)[:] = 0.7, 0, 0, -10, 0, 0.5, 0, 5, 0, 0, 2.5, 3
    for _ in range(int(rng.integers(1, 4))):
        start, kind, n = NIFTI[int(rng.integers(len(NIFTI)))]
        field = np.frombuffer(content, kind, n, start)
        number = float(rng.choice(OF_HEADERS))
        if field.dtype.kind != "f":
            number = int(rng.choice([0, 1, 2, 3, 4, 8, 9, 10, 16, 64, 256, 512]))
            number %= 256 if kind == "u1" else 2**15
        field[int(rng.integers(n))] = number
    return bytes(content)


HEADERS: dict[str, Callable[[Random, bytes], bytes]] = {
    ".nii": _of_nifti,
    ".nrrd": _of_text_header(b"\n\n"),
    ".mha": _of_text_header(b"LOCAL\n"),
}
