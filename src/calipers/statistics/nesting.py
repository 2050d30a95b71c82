# SPDX-License-Identifier: Apache-2.0
"""Which random intercepts a table supports: levels of groups, outermost first.

A group that cannot be told from another one, or of which there are too few to estimate a variance,
is removed, and a note says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.statistics.frames import Frame
from calipers.statistics.weights import plural

I64 = NDArray[np.int64]
MOST_LEVELS = 4


@dataclass(frozen=True)
class Level:
    """One random intercept: the group of every row."""

    name: str
    code: I64  # (n,) index into labels
    labels: tuple[str, ...]  # "A/7": patient 7 of centre A

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, rows: I64) -> Level:
        """Return the level of some rows, with the groups that are left."""
        groups, code = np.unique(self.code[rows], return_inverse=True)
        return Level(
            self.name, code.astype(np.int64), tuple(self.labels[k] for k in groups.tolist())
        )


@dataclass(frozen=True)
class Structure:
    """The random intercepts that remain, the group that became a fixed effect, and notes."""

    levels: tuple[Level, ...]  # outermost first
    fixed: Level | None
    notes: tuple[str, ...]


def check_groups(groups: Sequence[str], response: str) -> tuple[str, ...]:
    """Return the names of the groups; raise if there are too many, repeated, or the response."""
    names = (groups,) if isinstance(groups, str) else tuple(groups)
    if not 1 <= len(names) <= MOST_LEVELS:
        raise UsageError(f"between 1 and {MOST_LEVELS} groups, outermost first, not {list(names)}")
    if len(set(names)) < len(names):
        raise UsageError(f"a group is named twice: {', '.join(names)}")
    if response in names:
        raise UsageError(f"{response!r} is the response and cannot be a group")
    return names


def nested_levels(frame: Frame, names: Sequence[str]) -> tuple[list[Level], list[str]]:
    """Return the levels, outermost first, and notes.

    Equal ids in different outer groups are different groups; a note says so.
    """
    levels: list[Level] = []
    notes = []
    for name in names:
        own = single_level(frame, name)
        if not levels:
            levels.append(own)
            continue
        outer = levels[-1]
        pairs, code = np.unique(np.stack([outer.code, own.code]), axis=1, return_inverse=True)
        labels = tuple(f"{outer.labels[a]}/{own.labels[b]}" for a, b in pairs.T.tolist())
        shared = int((np.bincount(pairs[1]) > 1).sum())
        if shared:
            notes.append(
                f"{shared} values of {name} occur in more than one {outer.name}; "
                f"they are taken for different {plural(name)}"
            )
        levels.append(Level(name, code.reshape(-1).astype(np.int64), labels))
    return levels, notes


def single_level(frame: Frame, name: str) -> Level:
    """Return the groups of one column, whatever they lie in."""
    labels, code = np.unique(frame.texts(name), return_inverse=True)
    return Level(name, code.astype(np.int64), tuple(labels.tolist()))


def resolve(
    levels: Sequence[Level], explained: Sequence[str], few: int, *, crossed: bool = False
) -> Structure:
    """Remove groups that cannot be estimated.

    Crossed groups stay as they are, except those whose groups are the rows themselves.

    Parameters
    ----------
    levels
        Outermost first.
    explained
        Columns that the formula already has as fixed effects.
    few
        Fewer groups than this become a fixed effect.
    """
    notes = []
    remaining = []
    for level in levels:
        if level.name in explained:
            notes.append(f"{level.name} is a fixed effect of the formula, so it has no variance")
        else:
            remaining.append(level)
    remaining = _distinct(remaining, notes, crossed)
    fixed_effect = None
    scarce = [k for k, level in enumerate(remaining) if len(level) < few]
    if scarce and not crossed:
        last = remaining[scarce[-1]]
        outer_names = ", ".join(level.name for level in remaining[: scarce[-1]])
        remaining = remaining[scarce[-1] + 1 :]
        if len(last) > 1:
            fixed_effect = last
            note = (
                f"{len(last)} {plural(last.name)} are too few for a variance: "
                f"{last.name} is a fixed effect"
            )
            if outer_names:
                note += f", which also accounts for {outer_names}"
            notes.append(note)
        else:
            notes.append(f"there is one {last.name} only, so it has no effect of its own")
    if not remaining:
        notes.append("no random intercept is left: rows are taken as independent (least squares)")
    return Structure(tuple(remaining), fixed_effect, tuple(notes))


def _distinct(levels: list[Level], notes: list[str], crossed: bool) -> list[Level]:
    """Take out levels whose groups are the rows themselves, or the groups of the level above."""
    remaining: list[Level] = []
    for level in levels:
        if len(level) == len(level.code):
            notes.append(
                f"one row per {level.name} everywhere: {level.name} is part of the residual"
            )
        elif remaining and len(level) == len(remaining[-1]) and not crossed:
            outer = remaining[-1].name
            notes.append(
                f"one {level.name} per {outer} everywhere: {level.name} is part of {outer}"
            )
        else:
            remaining.append(level)
    return remaining
