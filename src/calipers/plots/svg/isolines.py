# SPDX-License-Identifier: Apache-2.0
"""Lines of equal height on a grid, by marching squares."""

from __future__ import annotations

import numpy as np

from calipers.plots.figures import F64

# Row and column of the first corner; 0 = along the row, 1 = along the column.
Edge = tuple[int, int, int]
# Sides of a cell that a line crosses, by which corners are above: bits 1, 2, 4, 8 = upper left,
# upper right, lower right, lower left; sides 0, 1, 2, 3 = upper, right, lower, left. The two
# saddles are decided by the middle.
SIDES = {
    1: ((3, 0),), 2: ((0, 1),), 3: ((3, 1),), 4: ((1, 2),), 6: ((0, 2),), 7: ((3, 2),),
    8: ((2, 3),), 9: ((2, 0),), 11: ((2, 1),), 12: ((1, 3),), 13: ((1, 0),), 14: ((0, 3),),
}  # fmt: skip
SADDLES = {5: (((3, 0), (1, 2)), ((3, 2), (1, 0))), 10: (((0, 1), (2, 3)), ((0, 3), (2, 1)))}


def isolines(x: F64, y: F64, values: F64, level: float) -> list[tuple[F64, F64]]:
    """Return the lines on which the grid has a height.

    Parameters
    ----------
    x, y : (m,), (n,) array
        Places of the columns and rows, in any unit.
    values : (n, m) array
        Heights; cells with an undefined corner are left out.

    Returns
    -------
    list of (x, y)
        Every line as its points in order; a closed one ends where it starts.
    """
    neighbours: dict[Edge, list[Edge]] = {}
    for one, other in _pieces(values, level):
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    return [_places(chain, x, y, values, level) for chain in _chains(neighbours)]


def _pieces(values: F64, level: float) -> list[tuple[Edge, Edge]]:
    corners = values[:-1, :-1], values[:-1, 1:], values[1:, 1:], values[1:, :-1]
    defined = np.isfinite(sum(corners))
    kind = sum((corner >= level).astype(np.int64) << k for k, corner in enumerate(corners))
    middle = np.asarray(sum(corners)) / 4 >= level
    pieces: list[tuple[Edge, Edge]] = []
    for r, c in np.argwhere(defined & (kind != 0) & (kind != 15)).tolist():
        code = int(np.asarray(kind)[r, c])
        sides = SADDLES[code][int(middle[r, c])] if code in SADDLES else SIDES[code]
        pieces.extend((_edge(r, c, a), _edge(r, c, b)) for a, b in sides)
    return pieces


def _edge(r: int, c: int, side: int) -> Edge:
    return ((r, c, 0), (r, c + 1, 1), (r + 1, c, 0), (r, c, 1))[side]


def _chains(neighbours: dict[Edge, list[Edge]]) -> list[list[Edge]]:
    """Return the pieces joined to lines: open ones from their ends, then what is left, which is
    closed.
    """
    chains = []
    for start in sorted(neighbours, key=lambda edge: (len(neighbours[edge]) > 1, edge)):
        chain = [start]
        while neighbours[chain[-1]]:
            following = neighbours[chain[-1]].pop()
            neighbours[following].remove(chain[-1])
            chain.append(following)
        if len(chain) > 1:
            chains.append(chain)
    return chains


def _places(chain: list[Edge], x: F64, y: F64, values: F64, level: float) -> tuple[F64, F64]:
    """Return where the line crosses the edges, by straight lines between the corners."""
    r, c, along = np.array(chain).T
    r2, c2 = r + (along == 1), c + (along == 0)
    one, other = values[r, c], values[r2, c2]
    share = np.clip((level - one) / np.where(other == one, 1.0, other - one), 0.0, 1.0)
    return x[c] + share * (x[c2] - x[c]), y[r] + share * (y[r2] - y[r])
