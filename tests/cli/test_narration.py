"""Progress on a terminal: the step by name, how far it is, and how long it will take."""

from __future__ import annotations

import pytest

from calipers.cli.main import run
from calipers.show import terminal
from calipers.show.terminal import Narrator


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def narrator(clock, monkeypatch):
    monkeypatch.setattr(Narrator, "line_width", 0)  # and so it is afterwards
    made = Narrator(quiet=False)
    made.live = True
    return made


def test_short_work_shows_nothing(narrator, clock, capsys):
    progress = narrator.steps("matching", "resampling")
    for done in (1, 2, 3):
        clock[0] += 0.1
        progress(done, 3)
    assert capsys.readouterr().err == ""


def test_a_step_is_named_and_its_time_is_its_own(narrator, clock, capsys):
    progress = narrator.steps("matching", "resampling")
    clock[0] += 50
    progress(1, 2)
    assert "matching [==========>         ]  50 %, 50 s left" in capsys.readouterr().err
    clock[0] += 50
    progress(2, 2)
    assert capsys.readouterr().err.strip() == ""
    clock[0] += 2
    progress(1, 10)
    assert "resampling [==>                 ]  10 %, 18 s left" in capsys.readouterr().err


def test_further_steps_are_counted(narrator, clock, capsys):
    progress = narrator.steps("matching", "resampling")
    for total in (1, 4, 4):
        for done in range(1, total + 1):
            clock[0] += 2
            progress(done, total)
    clock[0] += 2
    progress(1, 4)
    said = capsys.readouterr().err
    assert "resampling [=====>              ]  25 %, 6 s left" in said
    assert said.count("resampling, part 2 [") == 3
    assert "resampling, part 3 [=====>              ]  25 %, 6 s left" in said


@pytest.mark.parametrize(
    ("seconds", "said"), [(3, "3 s"), (89, "89 s"), (120, "2 min"), (7800, "2 h 10 min")]
)
def test_long_times_are_said_in_minutes(narrator, clock, capsys, seconds, said):
    progress = narrator.steps("resampling")
    clock[0] += seconds
    progress(1, 2)
    assert f"]  50 %, {said} left" in capsys.readouterr().err


def test_a_line_of_progress_never_wraps():
    for width in (terminal.WIDTH, 50, 20, 5):
        for step, name in ((1, "x" * 200), (999, "évaluation des prédictions " * 9)):
            line = terminal.progress_line(name, step, 1000, 100_000.0, width)
            assert len(line) <= width
    assert terminal.progress_line("x" * 200, 1, 1000, 100_000.0).endswith(" h 0 min left")


def test_work_that_goes_on_counts_its_own_speed(narrator, clock, capsys):
    """A run that was killed at 40 % has 60 % to go, however quickly it got to 40 % this time."""
    progress = narrator.whole()
    for done in (32, 64):
        clock[0] += 2
        progress("decoding", done, 64)
    progress("training", 40, 100)
    clock[0] += 30
    progress("training", 50, 100)
    assert "training [==========>         ]  50 %, 2 min left" in capsys.readouterr().err
    clock[0] += 30
    progress("training", 60, 100)
    assert "training [============>       ]  60 %, 2 min left" in capsys.readouterr().err


def test_what_follows_unfinished_work_begins_on_a_line_of_its_own(narrator, clock, capsys):
    progress = narrator.steps("training")
    clock[0] += 50
    progress(1, 2)
    narrator.say("stopped early")
    *_, line, cleared, note = capsys.readouterr().err.split("\r")
    assert line.startswith("  training [")
    assert cleared.isspace()
    assert len(cleared) == len(line)
    assert note == "stopped early\n"
    narrator.say("only once")
    assert capsys.readouterr().err == "only once\n"
    progress(1, 2)
    capsys.readouterr()
    assert run(["no-such-verb"]) == 2
    assert capsys.readouterr().err.split("\r")[2].startswith("error: ")


def test_quiet_and_pipes_have_no_progress(clock, capsys):
    for made in (Narrator(quiet=True), Narrator(quiet=False)):
        progress = made.steps("matching")
        clock[0] += 60
        progress(1, 2)
    assert capsys.readouterr().err == ""
