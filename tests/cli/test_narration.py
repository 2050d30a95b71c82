"""Progress on a terminal: the step by name, how far it is, and how long it will take."""

from __future__ import annotations

import json

import pytest

import calipers as cal
from calipers.cli.main import run
from calipers.io import assemble, source
from calipers.io.coco import walk
from calipers.io.tables import delimited
from calipers.io.write import write
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


@pytest.fixture
def steps(monkeypatch):
    """What is shown on a terminal, without one: name of the step, how much is done, of how much."""
    seen = []
    monkeypatch.setattr(
        Narrator, "_show", lambda self, name, done, total, elapsed: seen.append((name, done, total))
    )
    return seen


def assert_counted(steps, name, total=None):
    counts = [(done, of) for step, done, of in steps if step == name]
    assert counts
    assert counts == sorted(counts)
    assert total is None or counts[-1] == (total, total)


def test_agreement_counts_its_replicates(calipers, steps, tmp_path):
    rows = [f"{k // 2},{'useful' if k % 3 else 'not useful'},0.{k % 10}" for k in range(30)]
    table = tmp_path / "ratings.csv"
    table.write_text("\n".join(["patient,rating,box-iou", *rows]), encoding="utf-8")
    assert calipers("agreement", table, "--thresholds", 0.5, "--replicates", 200).code == 0
    assert_counted(steps, "resampling", 200)


def test_mixed_counts_its_replicates(calipers, steps, tmp_path):
    rows = [f"{k % 6},{k // 2},0.{(7 * k) % 10},{'ab'[k % 2]}" for k in range(60)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["centre,patient,iou,kind", *rows]), encoding="utf-8")
    words = ("--formula", "iou ~ kind", "--groups", "centre,patient", "--bootstrap", 10)
    assert calipers("mixed", table, *words).code == 0
    assert_counted(steps, "bootstrap", 10)
    assert_counted(steps, "bootstrap, part 2", 10)


def test_the_doctor_says_what_it_reads(calipers, steps, files):
    assert calipers("doctor", files.references, f"ours={files.ours}").code == 0
    names = [name for name, _, _ in steps]
    assert names[0].startswith("reading ")
    assert "reading ours" in names
    assert "examining ours: class numbers" in names
    assert names[-1].startswith("trying commands: reading ")
    amounts = [done for _, done, _ in steps]
    assert amounts == sorted(amounts)
    assert amounts[-1] < steps[-1][2]


def test_the_doctor_says_which_trial_it_is_at(calipers, steps, tmp_path):
    write(cal.demo_cohort(), tmp_path / "refs.json")
    write(cal.demo_cohort(), tmp_path / "preds.json", what="mislabels")
    document = json.loads((tmp_path / "preds.json").read_text())
    for record in document["annotations"]:
        x, y, width, height = record["bbox"]
        record["bbox"] = [x, y, x + width, y + height]
    (tmp_path / "preds.json").write_text(json.dumps(document))
    calipers("doctor", tmp_path / "refs.json", tmp_path / "preds.json")
    names = [name for name, _, _ in steps]
    assert "trial 2, boxes are cxcywh" in names
    assert any(name.startswith("trial 30, boxes ") for name in names)
    # An evaluation looks for the same among its warnings, if hardly a reference is met.
    for record in document["annotations"]:
        record["bbox"] = [record["bbox"][0], record["bbox"][1], 1, 1]
    (tmp_path / "preds.json").write_text(json.dumps(document))
    steps.clear()
    calipers("evaluate", tmp_path / "refs.json", tmp_path / "preds.json", "--no-ci")
    trials = [(done, total) for name, done, total in steps if name.startswith("trial ")]
    assert len(trials) > 30
    assert trials == sorted(trials)


VERBS = {
    "evaluate": ("evaluate", "REFS", "PREDS", "--no-ci"),
    "inspect": ("inspect", "REFS", "PREDS"),
    "convert": ("convert", "REFS", "OUT.csv", "--predictions", "PREDS"),
    "compare": ("compare", "REFS", "a=PREDS", "b=PREDS", "--replicates", 100),
    "fuse": ("fuse", "REFS", "a=PREDS", "b=PREDS", "-o", "OUT.json"),
    "sweep": ("sweep", "REFS", "PREDS", "--over", "threshold=0.5:0.6:0.1", "--metric", "AP@0.5"),
}


@pytest.mark.parametrize("suffix", ["json", "csv"])
@pytest.mark.parametrize("verb", VERBS)
def test_verbs_count_the_bytes_that_they_read(verb, suffix, calipers, steps, tmp_path, monkeypatch):
    """Every file is read in pieces, and its size is the total."""
    monkeypatch.setattr(walk, "PIECE", 1 << 12)
    monkeypatch.setattr(delimited, "LONGEST_LINE", 1 << 12)
    files = {"REFS": f"refs.{suffix}", "PREDS": f"preds.{suffix}"}
    write(cal.demo_cohort(), tmp_path / files["REFS"])
    write(cal.demo_cohort(), tmp_path / files["PREDS"], what="mislabels")
    words = []
    for word in map(str, VERBS[verb]):
        for key, name in {**files, "OUT": "out"}.items():
            word = word.replace(key, str(tmp_path / name))
        words.append(word)
    result = calipers(*words)
    assert result.code == 0, result.err
    for name in files.values():
        counts = [step for step in steps if step[0].endswith(f"reading {name}")]
        assert len(counts) > 1
        if verb != "inspect":  # which counts reading among all of its steps
            assert {total for _, _, total in counts} == {(tmp_path / name).stat().st_size}
            amounts = [done for _, done, _ in counts]
            assert amounts[0] < 0.5 * counts[0][2]
            assert amounts[-1] > 0.5 * counts[0][2]


def test_reading_leaves_no_line_on_the_terminal(narrator, clock, capsys, tmp_path):
    write(cal.demo_cohort(), tmp_path / "refs.csv")
    clock[0] += 2
    cal.read(tmp_path / "refs.csv", progress=narrator.whole())
    shown = capsys.readouterr().err
    assert "reading refs.csv [" in shown or "converting refs.csv [" in shown
    assert Narrator.line_width == 0
    assert shown.endswith("\r")


def test_a_large_file_is_hashed_and_checked_under_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "COPIED", 0)
    monkeypatch.setattr(source, "HASH_STEP", 1 << 12)
    monkeypatch.setattr(assemble, "BLOCK", 64)
    path = tmp_path / "refs.json"
    write(cal.demo_cohort(), path)
    seen = []
    cohort = cal.read(path, progress=lambda *step: seen.append(step))
    size = path.stat().st_size
    assert ("hashing refs.json", 1 << 12, size) in seen
    assert ("hashing refs.json", size, size) in seen
    assert ("checking references", 64, len(cohort.references)) in seen
    assert seen[-1] == ("reading", 1, 1)
    assert [file.sha256 for file in cal.read(path).intake.files] == [
        file.sha256 for file in cohort.intake.files
    ]


def test_a_folder_counts_its_files(tmp_path):
    write(cal.demo_cohort(), tmp_path / "labels", format="voc")
    seen = []
    cal.read(tmp_path / "labels", progress=lambda *step: seen.append(step))
    counts = [(done, total) for name, done, total in seen if name == "reading labels"]
    assert len(counts) > 10
    assert counts == sorted(counts)
    assert counts[-1][0] == counts[-1][1]
