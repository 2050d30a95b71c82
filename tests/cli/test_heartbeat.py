"""On a terminal no verb stands still: every one of them runs here in a pseudo-terminal."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from calipers.cli.main import VERBS, _outlet, run
from calipers.show import terminal
from calipers.show.terminal import Heartbeat, Narrator
from fuzz.verbs import sound_commands

if sys.platform == "win32":
    pytest.skip("Windows has no pseudo-terminals", allow_module_level=True)

NETWORKS = ("train", "predict")  # these need PyTorch; they are invoked as all others are
# A bar with the time that is left.
COUNTING = re.compile(r"\r  ([^\r\n\[]*) \[[=> ]*\] +\d+ %, [^\r\n]* left")
# Steps of which the work is known: each says how long it still takes. What is not here takes
# seconds: mixed fits one model, and check reads a result that is stored.
COUNTED = {
    "demo": ["reading"],
    "inspect": ["reading refs.json", "examining the references", "trying commands"],
    "doctor": ["reading refs.json", "examining the references", "trying commands"],
    "evaluate": ["reading refs.json", "matching"],
    "maps": ["reading", "matching"],
    "compare": ["reading refs.json", "matching", "resampling", "ranking"],
    "multiverse": ["reading refs.json", "matching", "resampling"],
    "stability": ["reading"],
    "monitor": ["reading refs.json", "resampling"],
    "agreement": ["resampling"],
    "sweep": ["reading refs.json", "matching"],
    "corrupt": ["reading refs.json"],
    "fuse": ["reading refs.json", "writing"],
    "report": ["checking objects.parquet", "matching", "page: figures"],
    "verify": ["checking objects.parquet", "matching", "comparing objects.parquet"],
    "merge": ["reading", "matching"],
    "boxes": ["maps"],
    "study": ["digits"],
    "convert": ["reading refs.json", "writing"],
}
# A line that is drawn over and over again: a bar, or what runs for how long.
MOVING = re.compile(r"\r  [^\r\n]*(?:\] +\d+ %|so far|page: )")


class Screen:
    """What a program wrote to a terminal, and what stands there in the end."""

    def __init__(self) -> None:
        self.text = ""

    @property
    def lines(self) -> list[str]:
        """The lines as a reader sees them; a carriage return goes to the start of the line."""
        lines = []
        for written in self.text.replace("\r\n", "\n").split("\n"):
            line = ""
            for piece in written.split("\r"):
                line = piece + line[len(piece) :]
            lines.append(line.rstrip())
        return lines


@contextmanager
def pseudo_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Let stdout and stderr be a terminal, as `calipers.cli.main.main` makes them."""
    screen = Screen()
    ours, theirs = os.openpty()

    def listen() -> None:
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:
                return
            if not data:
                return
            screen.text += data.decode()

    thread = Thread(target=listen, daemon=True)
    thread.start()
    with monkeypatch.context() as patch:
        for name in ("CI", "TERM"):
            patch.delenv(name, raising=False)
        patch.setattr(Narrator, "line_width", 0)
        streams = []
        for name, is_vital in (("stdout", True), ("stderr", False)):
            streams.append(os.fdopen(os.dup(theirs), "w", encoding="utf-8"))
            patch.setattr(sys, name, _outlet(streams[-1], vital=is_vital))
        yield screen
        sys.stdout.flush()
        sys.stderr.flush()
    for stream in streams:
        stream.close()
    os.close(theirs)
    thread.join(timeout=10)
    os.close(ours)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as long work, and lasts for a few beats."""
    begin = Heartbeat.__enter__

    def begin_slowly(heartbeat: Heartbeat) -> None:
        begin(heartbeat)
        time.sleep(0.1)

    monkeypatch.setattr(Heartbeat, "__enter__", begin_slowly)
    for name in ("PATIENCE", "STALE"):
        monkeypatch.setattr(terminal, name, 0.0)
    monkeypatch.setattr(terminal, "BEAT", 0.005)
    monkeypatch.setattr("calipers.io.write.BLOCK", 4)  # files of a few objects have several blocks


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """A command of every verb, in the folder with its files."""
    folder = tmp_path_factory.mktemp("heartbeat")
    commands = sound_commands(folder)
    commands["demo"] = ["--stability", "-o", "demo"]
    commands["study"] = ["stability", "--quick"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for part, name in zip(("1/2", "2/2"), commands["merge"]):
            # Two blocks of images would be needed for two parts: maps have one for each sample.
            assert run(["maps", *commands["maps"], "--part", part, "-o", name, "--quiet"]) == 0
        yield commands


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in NETWORKS])
def test_no_verb_stands_still(
    commands: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, at_once: None, verb: str
) -> None:
    with pseudo_terminal(monkeypatch) as screen:
        assert run([verb, *commands[verb]]) == (1 if verb == "check" else 0), screen.text
    assert MOVING.search(screen.text), screen.text
    steps = set(COUNTING.findall(screen.text))
    assert set(COUNTED.get(verb, ())) <= steps, screen.text
    # What moved is gone in the end, and nothing stands beside or under it.
    left = [line for line in screen.lines if MOVING.search(f"\r{line}")]
    assert left == []
    assert Heartbeat.width == 0


def test_a_quiet_verb_says_nothing(
    commands: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, at_once: None
) -> None:
    for option in ("--quiet", "--json"):
        with pseudo_terminal(monkeypatch) as screen:
            assert run(["evaluate", *commands["evaluate"], option]) == 0
        assert MOVING.search(screen.text) is None


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    monkeypatch.setattr(terminal, "BEAT", 0.01)
    monkeypatch.setattr(terminal, "PATIENCE", 0.1)
    monkeypatch.setattr(terminal, "STALE", 0.1)
    return time.sleep


def test_silent_work_says_what_runs_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, beat: Callable[[float], None]
) -> None:
    with pseudo_terminal(monkeypatch) as screen, Heartbeat("sorting", quiet=False):
        beat(0.05)
        sys.stderr.flush()
        assert screen.text == ""
        beat(0.3)
        print("a result", flush=True)
        beat(0.3)
    assert screen.text.count("sorting: 0 s so far") > 4
    assert screen.lines == ["a result", ""]


def test_the_time_that_is_left_follows_the_clock(
    monkeypatch: pytest.MonkeyPatch, beat: Callable[[float], None]
) -> None:
    with pseudo_terminal(monkeypatch) as screen, Heartbeat("evaluate", quiet=False):
        narrator = Narrator(quiet=False)
        progress = narrator.steps("matching")
        beat(0.15)
        progress(1, 30)
        before = len(screen.text)
        beat(0.5)
        sys.stderr.flush()
        left = [int(n) for n in re.findall(r"matching \[.*?\] +3 %, (\d+) s left", screen.text)]
        assert len(left) > 5
        # 29 steps are left: of 0.15 s each at first, of 0.65 s in the end.
        assert left == sorted(left)
        assert left[-1] > left[0] + 5
        assert "so far" not in screen.text[before:]
        progress(30, 30)
    assert screen.lines == [""]


def test_a_step_of_the_page_tells_its_time(
    monkeypatch: pytest.MonkeyPatch, beat: Callable[[float], None]
) -> None:
    with pseudo_terminal(monkeypatch) as screen, Heartbeat("evaluate", quiet=False):
        narrator = Narrator(quiet=False)
        beat(0.15)
        narrator.doing("figures")
        beat(0.4)
        narrator.doing("")
    assert "page: figures (0 s)" in screen.text
    assert screen.lines == [""]


def test_work_that_is_counted_again_goes_at_its_own_speed(
    monkeypatch: pytest.MonkeyPatch, beat: Callable[[float], None]
) -> None:
    with pseudo_terminal(monkeypatch) as screen:
        progress = Narrator(quiet=False).whole()
        progress("checking", 0, 4)
        beat(0.4)
        progress("checking", 2, 4)
        progress("comparing", 0, 4)
        beat(0.1)
        progress("comparing", 1, 4)
        progress("comparing", 4, 4)
    # Had it gone on, the first step of four would seem to have taken all of the time.
    assert re.search(r"comparing \[.*\] +25 %, 0 s left", screen.text)
