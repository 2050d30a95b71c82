"""The pictures of pages in README and docs: ``PYTHONPATH=tests python -m browser.docs_pictures``.

Each is taken from the page as it is now, and carries the hash of the words that it shows, so that
`test_docs_pictures` sees when a page says something else.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, PngImagePlugin

import calipers as cal
from browser.chromium import TO_INSTALL, arguments, find_chromium
from calipers.stability.grid import instance_labels
from calipers.stability.read import read_bags
from calipers.synthetic.bags import demo_bags, write_bags
from evaluated import evaluated_demo

if TYPE_CHECKING:
    from playwright.sync_api import Page

ASSETS = Path(__file__).parent.parent.parent / "docs" / "assets"
KEY = "Words-SHA-256"  # of the text in the PNG file
COMMAND = "PYTHONPATH=tests python -m browser.docs_pictures"

# Everything but the elements of these selectors, with what is in and around them, is taken off the
# page; their words are returned.
ONLY = """chosen => {
    const kept = chosen.flatMap(selector => [...document.querySelectorAll(selector)]);
    const within = e => kept.some(k => k.contains(e) || e.contains(k));
    for (const e of [...document.querySelectorAll('body *')]) if (!within(e)) e.remove();
    return kept.map(k => k.innerText).join('\\n');
}"""


@dataclass(frozen=True)
class Picture:
    """A picture of a page: what it shows, and of which size."""

    name: str
    make: Callable[[Path], Path]  # folder -> page
    chosen: tuple[str, ...]  # selectors of what is shown, from the top
    width: int
    height: int

    @property
    def path(self) -> Path:
        """Where the picture is."""
        return ASSETS / f"{self.name}.png"

    def words(self, page: Page) -> str:
        """Leave only what the picture shows on the page, and return its words."""
        page.set_viewport_size({"width": self.width, "height": self.height})
        return " ".join(page.evaluate(ONLY, list(self.chosen)).split())

    def take(self, page: Page) -> None:
        """Write the picture with the hash of its words."""
        words = self.words(page)
        image = Image.open(io.BytesIO(page.screenshot()))
        facts = PngImagePlugin.PngInfo()
        facts.add_text(KEY, hash_of(words))
        # Text on one colour: 256 of them keep all edges, and a third of the bytes.
        image.convert("RGB").quantize(256).save(self.path, optimize=True, pnginfo=facts)


def hash_of(words: str) -> str:
    """Return the hash that a picture carries."""
    return sha256(words.encode()).hexdigest()


def _report(folder: Path) -> Path:
    return evaluated_demo("overview").report(folder / "report.html")


def _stability(folder: Path) -> Path:
    # As `calipers demo --stability` does: the references are read from the table of labels.
    drawn = demo_bags("stable-wrong")
    data = folder / "data"
    write_bags(data, drawn)
    models = [data / model for model in drawn.models]
    bags = read_bags(models, data / "labels.csv", scores=data / "scores.csv")
    return cal.stability(bags.with_instances(instance_labels)).save(folder / "stability")


PICTURES = (
    Picture("report", _report, ("header", "nav", "#content"), 1190, 865),
    Picture(
        "stability",
        _stability,
        ("header", "nav", ".verdict", ".further li:nth-child(-n+3)", "main .pairs:first-of-type"),
        1160,
        900,
    ),
)


def main() -> None:
    """Take all pictures again."""
    from playwright.sync_api import sync_playwright

    browser_path = find_chromium()
    if browser_path is None:
        sys.exit(TO_INSTALL)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=browser_path, args=arguments())
        for picture in PICTURES:
            page = browser.new_page(color_scheme="light", reduced_motion="reduce")
            page.goto(picture.make(Path(folder)).as_uri())
            picture.take(page)
            sys.stdout.write(f"{picture.path}\n")
        browser.close()


if __name__ == "__main__":
    main()
