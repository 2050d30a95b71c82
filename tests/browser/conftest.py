"""The browser, one for all tests of a process; pages that are watched;
the reports that they show.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser.chromium import TO_INSTALL, arguments, find_chromium, is_required
from browser.opening import PAPER, Opener, Windows
from browser.reports import Reports

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None and is_required():
        pytest.fail(TO_INSTALL, pytrace=False)
    if path is None:
        pytest.skip(TO_INSTALL)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=arguments())
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def windows(browser: Browser) -> Windows:
    return Windows(browser)


@pytest.fixture
def opened(windows: Windows, tmp_path) -> Iterator[Opener]:
    """``opened(html_or_path, width=, height=, dark=, javascript=,
    print=)`` gives a page that must stay quiet.
    """
    opener = Opener(windows, tmp_path)
    yield opener
    problems = opener.close()
    assert not problems, "the page was not quiet:\n" + "\n".join(problems)


@pytest.fixture(scope="module")
def kept(windows: Windows, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """The same for pages that the tests of a module share: each leaves its page as it was."""
    opener = Opener(windows, tmp_path_factory.mktemp("kept"))
    yield opener
    problems = opener.close()
    assert not problems, "a page was not quiet:\n" + "\n".join(problems)


@pytest.fixture(scope="module")
def read(request: pytest.FixtureRequest, windows: Windows, reports: Reports) -> Iterator[Page]:
    """The page of a report, opened once for all tests of a module that only read it:
    `every_report(of="read")`.
    """
    yield from _kept(windows, reports[request.param])


@pytest.fixture(scope="module")
def printed(request: pytest.FixtureRequest, windows: Windows, reports: Reports) -> Iterator[Page]:
    """The page of a report on paper of A4, within its margins."""
    yield from _kept(windows, reports[request.param], **PAPER, print=True)


def _kept(windows: Windows, path: Path, **options: Any) -> Iterator[Page]:
    opener = Opener(windows, path.parent)
    yield opener(path, **options)
    opener.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """``reports["demo"]`` is the path of a report; see `browser.reports` for the names."""
    return Reports(tmp_path_factory.mktemp("reports"))
