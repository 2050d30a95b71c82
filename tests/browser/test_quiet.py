"""A page keeps to itself: no request, no message, no error, and a policy that would forbid them."""

from __future__ import annotations

import re

import pytest

from browser.known import every_report
from browser.reading import open_all
from browser.reports import EVERY


@pytest.mark.parametrize("javascript", [True, False], ids=["script", "no-script"])
@every_report(half="odd")
def test_every_report_is_quiet(opened, reports, name, javascript):
    page = opened(reports[name], javascript=javascript)
    open_all(page)
    page.mouse.wheel(0, 100_000)
    page.wait_for_timeout(50)  # what is late is caught at the end too
    assert page.watch.problems() == []


@pytest.mark.parametrize("name", EVERY)
def test_the_policy_forbids_everything_but_what_is_named(reports, name):
    text = reports[name].read_text(encoding="utf-8")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)[1]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.strip("; ").split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("base-uri") == "'none'"
    assert rules.pop("form-action") == "'none'"
    assert set(rules.pop("img-src", "data:").split()) <= {"data:", "blob:"}
    assert set(rules) <= {"style-src", "script-src"}
    for allowed in rules.values():
        assert re.fullmatch(r"('sha256-[A-Za-z0-9+/]{43}=' ?)+", allowed)


@pytest.mark.parametrize("name", EVERY)
def test_the_policy_comes_before_all_that_it_governs(reports, name):
    text = reports[name].read_text(encoding="utf-8")
    assert text.index("Content-Security-Policy") < min(
        text.index(tag) for tag in ("<title", "<style", "<body")
    )


QUIET = "<!doctype html><html lang=en><title>t</title>"
POLICY = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ("<img src=https://127.0.0.1:9/x.png>", "request: https://127.0.0.1:9/x.png"),
        ("<img src=beside.png>", "request: file://"),
        ("<script>console.log('hello')</script>", "console log: hello"),
        ("<script>throw Error('broken')</script>", "error: broken"),
        ("<script>alert('look')</script>", "dialog: look"),
        (POLICY + "<style>h1 { color: red }</style>", "policy: style-src-elem inline"),
        (POLICY + "<p style='color: red'>", "policy: style-src-attr inline"),
        (POLICY + "<script>1</script>", "policy: script-src-elem inline"),
    ],
    ids=["network", "file", "console", "error", "dialog", "style", "attribute", "script"],
)
def test_the_watch_notices(opened, html, said):
    page = opened(QUIET + html, strict=False)
    for _ in range(100):
        if _notices(page, said):
            break
        page.wait_for_timeout(10)
    assert _notices(page, said), page.watch.problems()


def _notices(page, said: str) -> bool:
    return any(problem.startswith(said) for problem in page.watch.problems())


def test_the_watch_lets_a_quiet_page_pass(opened):
    picture = "<h1>h</h1><img alt='' src=data:image/gif;base64,R0lGODlhAQABAAAAACw=>"
    assert opened(QUIET + picture, strict=False).watch.problems() == []
