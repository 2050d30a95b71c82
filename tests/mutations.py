"""Files with a few bytes changed, for tests that nothing but an InputError comes of them."""

from __future__ import annotations

import numpy as np


def mutated(whole: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, repeat or insert a few bytes; the beginning, where headers are, is hit most
    often.
    """
    found = bytearray(whole)
    for _ in range(int(rng.integers(1, 5))):
        place = int(len(found) * rng.random() ** 2)
        kind = rng.integers(0, 5)
        if kind == 0:
            found[place : place + 1] = bytes([int(rng.integers(0, 256))])
        elif kind == 1:
            found[place : place + 4] = int(rng.integers(0, 2**32)).to_bytes(4, "little")
        elif kind == 2:
            found[place : place + int(rng.integers(1, 40))] = b""
        elif kind == 3:
            found[place:place] = found[place : place + int(rng.integers(1, 40))]
        else:
            found[place : place + 1] = (
                bytes([found[place] ^ (1 << int(rng.integers(0, 8)))]) if found[place:] else b""
            )
    return bytes(found)
