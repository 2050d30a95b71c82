"""Pages as a reader opens them, from a file, with a watch on everything that a quiet page never
does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PIXELS = 96 / 25.4  # per millimetre
MARGIN = 10  # mm, what browsers leave on paper
PAPER = {
    "width": int((210 - 2 * MARGIN) * PIXELS),
    "height": int((297 - 2 * MARGIN) * PIXELS),
}  # A4
FORGET = "localStorage.clear(); sessionStorage.clear()"
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
        for source, event, answer in self._ears():
            source.on(event, answer)

    def end(self) -> None:
        """Look away: the window goes on to show another page."""
        for source, event, answer in self._ears():
            source.remove_listener(event, answer)

    def _ears(self) -> list[tuple[Page | BrowserContext, str, Callable[[Any], None]]]:
        context = self.page.context
        return [
            (self.page, "console", self._message),
            (self.page, "pageerror", self._error),
            (self.page, "dialog", self._dismiss),
            (context, "request", self._request),
            (context, "page", self._window),
        ]

    def _message(self, message) -> None:
        self.seen.append(f"console {message.type}: {message.text}")

    def _error(self, error) -> None:
        self.seen.append(f"error: {error}")

    def _dismiss(self, dialog) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request) -> None:
        if request.url.split("#")[0] != self.url and not request.url.startswith(OWN):
            self.seen.append(f"request: {request.url[:200]}")

    def _window(self, other) -> None:
        if other is not self.page:
            self.seen.append(f"window: {other.url}")

    def problems(self) -> list[str]:
        """Return everything that must not happen and did."""
        violations = self.page.evaluate("window.__violations ?? []")
        return [*self.seen, *(f"policy: {violation}" for violation in violations)]


class Windows:
    """Windows of the browser, each with a context of its own, that are used again.

    A new context costs a profile and a process, four times what it costs to open a report.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.free: dict[bool, list[Page]] = {True: [], False: []}

    def take(self, *, javascript: bool = True, fresh: bool = False) -> Page:
        """Return an empty window; a ``fresh`` one has never shown anything."""
        if self.free[javascript] and not fresh:
            return self.free[javascript].pop()
        context = self.browser.new_context(
            java_script_enabled=javascript,
            reduced_motion="reduce",  # a colour in transition is neither of its two
            accept_downloads=True,
        )
        context.set_default_timeout(10_000)
        context.add_init_script(VIOLATIONS + LONG_TASKS)
        return context.new_page()

    def give_back(self, page: Page, *, javascript: bool) -> None:
        """Leave nothing of the last page in its window: the next one finds it as if it were new."""
        page.evaluate(FORGET)
        page.context.clear_cookies()
        page.context.clear_permissions()
        page.goto("about:blank")
        page.mouse.move(0, 0)
        self.free[javascript].append(page)


@dataclass(frozen=True)
class Opening:
    """A page that was opened, and how."""

    watch: Watch
    javascript: bool
    strict: bool

    @property
    def is_clean(self) -> bool:
        """Whether the window can show another page: a page that misbehaves on purpose, that was
        closed or that opened others has the last word in its window.
        """
        page = self.watch.page
        return self.strict and not page.is_closed() and page.context.pages == [page]


class Opener:
    """Opens pages; the fixture ``opened`` is one, and closes what it opened."""

    def __init__(self, windows: Windows, folder: Path) -> None:
        self.windows, self.folder = windows, folder
        self.openings: list[Opening] = []

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
        fresh: bool = False,
    ) -> Page:
        """Open HTML or the path of a file; at the end a ``strict`` page must have been quiet."""
        page = self.windows.take(javascript=javascript, fresh=fresh or not strict)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(
            media="print" if print else "screen", color_scheme="dark" if dark else "light"
        )
        watch = Watch(page, self._file(html_or_path).as_uri())
        self.openings.append(Opening(watch, javascript, strict))
        page.goto(watch.url)
        page.watch = watch  # type: ignore[attr-defined]
        return page

    def _file(self, html_or_path: str | Path) -> Path:
        if isinstance(html_or_path, Path):
            return html_or_path
        path = self.folder / f"page-{len(self.openings)}.html"
        path.write_text(html_or_path, encoding="utf-8")
        return path

    def close(self) -> list[str]:
        """Close all pages and return what they did wrong."""
        problems = []
        for opening in self.openings:
            if opening.strict:
                problems += opening.watch.problems()
        for opening in self.openings:
            page = opening.watch.page
            opening.watch.end()
            if opening.is_clean:
                self.windows.give_back(page, javascript=opening.javascript)
            else:
                page.context.close()
        self.openings = []
        return problems
