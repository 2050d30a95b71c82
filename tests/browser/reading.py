"""What a reader does with a page: read it, open what is closed, sort a table,
take a table away as CSV.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

HEADINGS = "h1, h2, h3, h4, h5, h6"
# Everything that answers to a reader: these must be reachable without a mouse.
INTERACTIVE = (
    "a[href], button, summary, input:not([type=hidden]), select, textarea, "
    "[tabindex]:not([tabindex='-1'])"
)


def words(page: Page) -> str:
    """Return what is to be read now, with single spaces:
    closed details and hidden parts are not.
    """
    return _spaced(page.evaluate("document.body.innerText"))


def all_words(page: Page) -> str:
    """Return all text of the page, also of what is closed; never of scripts and styles."""
    text = page.evaluate(
        """() => {
            const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
            while (walk.nextNode())
                if (!walk.currentNode.parentElement.closest('script, style'))
                    found.push(walk.currentNode.data);
            return found.join('\\n');
        }"""
    )
    return _spaced(text)


def plain(name: str) -> str:
    """Return what must be left of a name wherever it is shown: its visible characters, the first
    forty of them.

    A page may shorten names, and may show invisible characters as it likes; it may not lose or
    change the others.
    """
    visible = "".join(c if c.isprintable() else " " for c in name)
    return _spaced(visible)[:40].strip()


def as_plain(text: str) -> str:
    """Return text of the page so that `plain` names can be found in it:
    without signs for invisible characters.
    """
    return _spaced("".join(c if c.isprintable() and c != "\ufffd" else " " for c in text))


def open_all(page: Page) -> None:
    """Open everything that can be opened."""
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")


def headings(page: Page) -> list[tuple[int, str]]:
    """Return level and text of every heading, in order; shown or not."""
    found = page.evaluate(
        f"[...document.querySelectorAll('{HEADINGS}')].map(h => [+h.tagName[1], h.textContent])"
    )
    return [(level, _spaced(text)) for level, text in found]


def rows_of(table: Locator) -> list[list[str]]:
    """Return the cells of the shown rows of a table's body, as text."""
    found = table.evaluate(
        "table => [...table.tBodies].flatMap(body => [...body.rows]).filter(row => "
        "row.checkVisibility())"
        ".map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return [[_spaced(cell) for cell in row] for row in found]


def column_of(table: Locator, number: int) -> list[str]:
    """Return one column of a table, counted from 0, as it stands now."""
    return [row[number] for row in rows_of(table)]


def sorted_by(table: Locator, number: int) -> list[str]:
    """Press the head of a column, counted from 0, as a reader would,
    and return the column as it then stands.
    """
    head = table.locator("thead th").nth(number)
    button = head.locator("button")
    (button if button.count() else head).first.click()
    return column_of(table, number)


def downloaded(page: Page, button: Locator, folder: Path) -> Path:
    """Press a button that gives a file, and return where the file is now,
    under the name that it was given.
    """
    with page.expect_download() as waiting:
        button.click()
    download = waiting.value
    path = folder / download.suggested_filename
    download.save_as(path)
    return path


def downloaded_csv(page: Page, button: Locator, folder: Path) -> list[list[str]]:
    """Press a button that gives a table as CSV, and return its rows, the head first."""
    text = downloaded(page, button, folder).read_bytes().decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


def _spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
