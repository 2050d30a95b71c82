"""Files with bytes changed, lost or added: they are read, or refused with a typed error, and
nothing else happens.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import CalipersError
from calipers.stability.read import read_bags

MAPS = np.random.default_rng(0).random((4, 3, 4))
IDS = ("w", "x", "y", "z")
PIECES = (b",", b"\n", b"nan", b"1e999", b"-1", b'"', b"\0", b"\xff", b"9999999999999999999")
LABELS = b"""image,label,x0,y0,x1,y1,width,height
w,1,0,0,9,9,40,30
w,1,2,1,4,3,40,30
x,0,,,,,,
y,1,,,,,,
z,1,5,5,6,6,40,30
"""


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    """Every kind of file, in order."""
    np.savez_compressed(tmp_path / "stack.npz", maps=MAPS, ids=np.array(IDS))
    np.savez(tmp_path / "named.npz", **dict(zip(IDS, MAPS)))
    np.save(tmp_path / "plain.npy", MAPS)
    cells = [
        (bag, y, x, float(MAPS[i, y, x]))
        for i, bag in enumerate(IDS)
        for y in range(3)
        for x in range(4)
    ]
    lines = [",".join(map(str, cell)) for cell in cells]
    (tmp_path / "long.csv").write_text("\n".join(["bag,row,column,value", *lines]) + "\n")
    (tmp_path / "labels.csv").write_bytes(LABELS)
    return {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def changed(data: bytes, by: random.Random) -> bytes:
    """Return the bytes with something cut off, overwritten, put in or taken out."""
    found, at = bytearray(data), by.randrange(len(data))
    match by.randrange(4):
        case 0:
            del found[at:]
        case 1:
            for _ in range(by.randrange(1, 6)):
                found[by.randrange(len(found))] = by.randrange(256)
        case 2:
            found[at:at] = by.choice(PIECES)
        case _:
            del found[at : at + by.randrange(1, 20)]
    return bytes(found)


@pytest.mark.parametrize("name", ["stack.npz", "named.npz", "plain.npy", "long.csv", "labels.csv"])
def test_changed_files_are_read_or_refused(
    tmp_path: Path, whole: dict[str, bytes], name: str
) -> None:
    by, refused = random.Random(name), 0
    other = tmp_path / f"changed{Path(name).suffix}"
    for _ in range(120):
        other.write_bytes(changed(whole[name], by))
        try:
            if name == "labels.csv":
                bags = read_bags([tmp_path / "named.npz", tmp_path / "stack.npz"], other)
            else:
                bags = read_bags([tmp_path / name, other])
            [bags[i] for i in range(len(bags))]
        except CalipersError:
            refused += 1
    assert refused > 60
