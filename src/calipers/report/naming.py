# SPDX-License-Identifier: Apache-2.0
"""Display names: a page repeats each name hundreds of times, so very long ones are shortened.

Empty names, and names that look the same although they differ in invisible characters, get a mark
that tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any
from unicodedata import normalize

from calipers.evaluation import Evaluation
from calipers.report.renaming import rename_all

LONGEST = 200
KEPT = 120
UNSEEN = "\ufffd"
# characters that are drawn as nothing
INVISIBLE = {
    *map(chr, range(0xFE00, 0xFE10)),
    "\u115f",
    "\u1160",
    "\u3164",
    "\uffa0",
    "\u2800",
}


def with_display_names(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with names of more than 200 characters shortened, and names that look
    alike marked.
    """
    cohort = evaluation.cohort
    all_names = [*cohort.classes, *cohort.models, *cohort.images.ids, *cohort.images.groups]
    values: set[str] = set()
    for column in cohort.images.groups.values():
        values.update(map(str, column.tolist()))
    names = Short([*all_names, *values])
    if not names.changed:
        return evaluation
    return rename_all(evaluation, names)


class Short:
    """The display name of every name; names that are short and look like no other stay."""

    def __init__(self, names: Iterable[str]) -> None:
        by_look: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            by_look.setdefault(_look(name), []).append(name)
        changed: dict[str, str] = {}
        for look, group in by_look.items():
            for name in group:
                new_name = _display_name(name, look, several=len(group) > 1)
                if new_name != name:
                    changed[name] = new_name
        self.changed: Mapping[str, str] = changed

    def name(self, name: str) -> str:
        """Return the display name."""
        return self.changed.get(name, name)

    def image(self, name: str) -> str:
        """Return the display name of an image."""
        return self.name(name)

    def value(self, column: str, value: Any) -> Any:
        """Return an entry of a column as it is displayed; numbers stay."""
        return self.name(value) if isinstance(value, str) else value


def _look(name: str) -> str:
    """Return what a reader sees of a name: unprintable characters all look alike, and browsers
    collapse spaces.
    """
    if name.isprintable() and name.isascii():
        return " ".join(name.split())
    visible = ""
    for character in normalize("NFC", name):
        if character not in INVISIBLE:
            visible += character if character.isprintable() else UNSEEN
    return " ".join(visible.split())


def _display_name(name: str, look: str, *, several: bool) -> str:
    if len(name) > LONGEST:
        return _shortened(name)
    if not name or not look:
        return f"(no name, {_mark(name)})" if name else "(no name)"
    return f"{name} ({_mark(name)})" if several and name != look else name


def _shortened(name: str) -> str:
    """Return the beginning, the length, and a mark that differs for names with the same
    beginning.
    """
    return f"{name[:KEPT]}… ({len(name)} characters, {_mark(name)})"


def _mark(name: str) -> str:
    """Return a few digits of the hash of a name."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
