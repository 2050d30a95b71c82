"""The browser of the tests: the system's own chromium, headless, and silent on the network."""

from __future__ import annotations

import os
import shutil

# The browser without its window is the same engine for a fifth less of CPU time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TO_INSTALL = (
    "the browser tests need a browser: apt install chromium-headless-shell (or chromium), or set "
    "CALIPERS_CHROMIUM to the path of one"
)
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """Return the path of the browser: ``CALIPERS_CHROMIUM`` if it is set,
    else the first known name on the path.
    """
    named = os.environ.get("CALIPERS_CHROMIUM")
    if named:
        return shutil.which(named)
    return next(filter(None, map(shutil.which, NAMES)), None)


def is_required() -> bool:
    """Return whether a missing browser is a failure (``CALIPERS_BROWSER=required``) instead of a
    skip.
    """
    return os.environ.get("CALIPERS_BROWSER") == "required"


def arguments() -> list[str]:
    """Return the flags of the browser; chromium refuses its sandbox to root,
    and only to root is it given up.
    """
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [*QUIET, *(["--no-sandbox"] if is_root else [])]
