# SPDX-License-Identifier: Apache-2.0
"""Names that can be borne and told apart: a page repeats each of them hundreds of times, and nobody
reads a megabyte.

Names that show nothing, and names that look the same though they differ in signs that nobody sees,
get a mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any
from unicodedata import normalize

from calipers.evaluation import Evaluation
from calipers.report.renaming import renamed

LONGEST = 200
KEPT = 120
UNSEEN = "\ufffd"
INVISIBLE = {
    *map(chr, range(0xFE00, 0xFE10)),
    "\u115f",
    "\u1160",
    "\u3164",
    "\uffa0",
    "\u2800",
}  # drawn as nothing


def bearable(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with names of more than 200 characters shortened, and those that look
    alike marked.
    """
    cohort = evaluation.cohort
    columns = {
        name: {str(value) for value in column.tolist()}
        for name, column in cohort.images.groups.items()
    }
    values = set().union(*columns.values()) if columns else set()
    names = Short([*cohort.classes, *cohort.models, *cohort.images.ids, *columns, *values])
    if not names.changed:
        return evaluation
    return renamed(evaluation, names)


class Short:
    """What every name becomes; names that are short enough, and look like no other, stay."""

    def __init__(self, names: Iterable[str]) -> None:
        same_look: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            same_look.setdefault(_look(name), []).append(name)
        self.changed: Mapping[str, str] = {
            name: new_name
            for look, group in same_look.items()
            for name in group
            if (new_name := _display_name(name, look, several=len(group) > 1)) != name
        }

    def name(self, name: str) -> str:
        """Return a name as it is shown."""
        return self.changed.get(name, name)

    def image(self, name: str) -> str:
        """Return the id of an image as it is shown."""
        return self.name(name)

    def value(self, column: str, value: Any) -> Any:
        """Return an entry of a column as it is shown; numbers stay."""
        return self.name(value) if isinstance(value, str) else value


def _look(name: str) -> str:
    """Return what is seen of a name: unprintable signs as one and the same, spaces as a browser
    draws them.
    """
    if name.isprintable() and name.isascii():
        return " ".join(name.split())
    visible = "".join(
        c if c.isprintable() else UNSEEN for c in normalize("NFC", name) if c not in INVISIBLE
    )
    return " ".join(visible.split())


def _display_name(name: str, look: str, *, several: bool) -> str:
    if len(name) > LONGEST:
        return _shortened(name)
    if not name or not look:
        return f"(no name, {_mark(name)})" if name else "(no name)"
    return f"{name} ({_mark(name)})" if several and name != look else name


def _shortened(name: str) -> str:
    """Return the beginning, the length, and a few digits that tell it from others with the same
    beginning.
    """
    return f"{name[:KEPT]}… ({len(name)} characters, {_mark(name)})"


def _mark(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
