# SPDX-License-Identifier: Apache-2.0
"""The shell of every page: head, content security policy, style and script, all in one file."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from calipers.plots.svg import stylesheet
from calipers.report.markup import text


def document(
    title: str, body: str, *, skip: str, payload: str = "", styles: tuple[str, ...] = ()
) -> str:
    """Return a page as HTML; the policy allows our style and script only.

    Parameters
    ----------
    title
        Of the window; escaped here.
    body
        HTML whose texts are escaped already.
    skip
        Words of the link that leads past the navigation, to the element ``content``.
    payload
        JSON that the script reads, for pages with a table of every row.
    styles
        Names of further style sheets among the assets.
    """
    style = "".join(map(_asset, ("page.css", *styles))) + stylesheet()
    script = _asset("page.js")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    rows = f'<script type="application/json" id="rows">{payload}</script>\n' if payload else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text('Calipers: ' + title)}</title>\n<style>{style}</style>\n</head>\n"
        f'<body>\n<a class="skip" href="#content">{text(skip)}</a>\n{body}\n'
        f"{rows}<script>{script}</script>\n"
        "</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return (
        resources.files("calipers").joinpath("report", "assets", name).read_text(encoding="utf-8")
    )


def _digest(content: str) -> str:
    """Return the hash by which a policy allows an inline style or script."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
