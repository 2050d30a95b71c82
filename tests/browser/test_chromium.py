"""Which browser is taken, and how it is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from browser import chromium


def program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def empty_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CALIPERS_CHROMIUM", raising=False)


def test_the_first_known_name_is_taken(tmp_path):
    assert chromium.find_chromium() is None
    for name in reversed(chromium.NAMES):
        path = program(tmp_path, name)
        assert chromium.find_chromium() == str(path)


def test_the_one_that_was_named_goes_first(monkeypatch, tmp_path):
    program(tmp_path, "chromium")
    named = program(tmp_path, "my-browser")
    monkeypatch.setenv("CALIPERS_CHROMIUM", str(named))
    assert chromium.find_chromium() == str(named)
    monkeypatch.setenv("CALIPERS_CHROMIUM", str(tmp_path / "not-there"))
    assert chromium.find_chromium() is None  # never another one in its place


@pytest.mark.parametrize(("user", "without"), [(0, True), (1000, False)])
def test_only_root_goes_without_a_sandbox(monkeypatch, user, without):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("--no-sandbox" in chromium.arguments()) is without


def test_a_missing_browser_fails_where_it_is_required(monkeypatch):
    monkeypatch.delenv("CALIPERS_BROWSER", raising=False)
    assert not chromium.is_required()
    monkeypatch.setenv("CALIPERS_BROWSER", "required")
    assert chromium.is_required()
