"""Pages as a reader opens them, from a file, with a watch on everything that a quiet page never
does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PIXELS = 96 / 25.4  # per millimetre
MARGIN = 10  # mm, what browsers leave on paper
PAPER = {
    "width": int((210 - 2 * MARGIN) * PIXELS),
    "height": int((297 - 2 * MARGIN) * PIXELS),
}  # A4
OWN = ("data:", "blob:")  # requests that leave nothing but the page itself
VIOLATIONS = """
addEventListener('securitypolicyviolation', event => {
  (window.__violations ??= []).push(
    `${event.violatedDirective} ${event.blockedURI} ${event.sample}`
  );
});
"""
LONG_TASKS = """
window.__tasks = [];
new PerformanceObserver(list => {
  for (const task of list.getEntries())
    window.__tasks.push({start: task.startTime, duration: task.duration});
}).observe({type: 'longtask', buffered: true});
"""


@dataclass
class Watch:
    """What was seen of one page."""

    page: Page
    url: str
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on(
            "console", lambda message: self.seen.append(f"console {message.type}: {message.text}")
        )
        self.page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.context.on("request", lambda request: self._request(request.url))
        self.page.context.on(
            "page", lambda other: other is self.page or self.seen.append(f"window: {other.url}")
        )

    def _dismiss(self, dialog) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, url: str) -> None:
        if url.split("#")[0] != self.url and not url.startswith(OWN):
            self.seen.append(f"request: {url[:200]}")

    def problems(self) -> list[str]:
        """Return everything that must not happen and did."""
        violations = self.page.evaluate("window.__violations ?? []")
        return [*self.seen, *(f"policy: {violation}" for violation in violations)]


class Opener:
    """Opens pages; the fixture ``opened`` is one, and closes what it opened."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.contexts: list[BrowserContext] = []
        self.watches: list[Watch] = []

    def __call__(
        self,
        html_or_path: str | Path,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        javascript: bool = True,
        print: bool = False,  # the word of the browser
        strict: bool = True,
    ) -> Page:
        """Open HTML or the path of a file; at the end a ``strict`` page must have been quiet."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
            reduced_motion="reduce",  # a colour in transition is neither of its two
            accept_downloads=True,
        )
        context.set_default_timeout(10_000)
        context.add_init_script(VIOLATIONS + LONG_TASKS)
        self.contexts.append(context)
        page = context.new_page()
        path = self._file(html_or_path)
        watch = Watch(page, path.as_uri())
        if print:
            page.emulate_media(media="print")
        page.goto(watch.url)
        page.watch = watch  # type: ignore[attr-defined]
        if strict:
            self.watches.append(watch)
        return page

    def _file(self, html_or_path: str | Path) -> Path:
        if isinstance(html_or_path, Path):
            return html_or_path
        path = self.folder / f"page-{len(self.contexts)}.html"
        path.write_text(html_or_path, encoding="utf-8")
        return path

    def close(self) -> list[str]:
        """Close all pages and return what they did wrong."""
        problems = [problem for watch in self.watches for problem in watch.problems()]
        for context in self.contexts:
            context.close()
        return problems
