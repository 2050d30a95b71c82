"""How a command ends when its surroundings fail: closed streams, signals, two runs at once, a full
disk. The exit code is that of the work; no result is lost or mixed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from calipers.results import files as results_files
from seeds import in_turn
from stored import row, save

CALL = [sys.executable, "-c", "from calipers.cli.main import main; main()"]
HEAD = 'schema = "calipers.requirements/1"\nname = "Acceptance"\n'
NOT_MET = '[[requirement]]\nid = "R"\nmetric = "AP50"\nat_least = 0.9\n'


@pytest.fixture
def verdict(tmp_path: Path) -> list[str]:
    """A check that is not met."""
    demands = tmp_path / "requirements.toml"
    demands.write_text(HEAD + NOT_MET, encoding="utf-8")
    return [*CALL, "check", str(save(tmp_path / "results", [row()])), str(demands)]


def _ended(call: list[str], redirection: str) -> int:
    quoted = " ".join(f"'{word}'" for word in call)
    done = subprocess.run(
        ["bash", "-c", f"{quoted} {redirection}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return done.returncode


# Each is a process of its own: every way meets one kind of output, in turn.
@pytest.mark.parametrize(
    ("redirection", "kind"),
    in_turn(
        ["| true", "| head -c 1", ">&-", "2>&-", ">&- 2>&-", "2>/dev/full", "1</dev/null"],
        ["text", "json"],
        default=1,
    ),
)
def test_closed_streams_change_no_verdict(verdict, redirection, kind):
    further = ["--json"] if kind == "json" else []
    assert _ended([*verdict, *further], redirection) == 1


@pytest.mark.parametrize("redirection", ["| true", ">&-"])
def test_closed_streams_do_not_hide_broken_records(files, redirection):
    document = json.loads(Path(files.references).read_text(encoding="utf-8"))
    document["annotations"][0]["bbox"] = [1, 2, 3, -4]
    broken = files.write("broken.json", document)
    assert _ended([*CALL, "inspect", broken, "--fail-on", "error"], redirection) == 2
    lenient = [*CALL, "inspect", broken, "--fail-on", "error", "--lenient"]
    assert _ended(lenient, redirection) == 1


def test_an_error_that_cannot_be_written_keeps_its_exit_code(verdict):
    assert _ended([*verdict[:-1], "absent.toml", "--json"], ">/dev/full") == 2


def _save_slowly(folder: Path) -> str:
    return (
        "import sys, time\n"
        "import click\n"
        "from calipers.cli import main as cli\n"
        "from calipers.results import files\n"
        "def slow():\n"
        f"    with files.staged_folder(files.Path({str(folder)!r})) as stage:\n"
        "        (stage / 'half').write_text('x')\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "cli.Verbs.get_command = lambda *a: click.command(slow)\n"
        "cli.main(['demo'])\n"
    )


def _hear_interrupts() -> None:
    """A shell starts programs in the background deaf to Ctrl-C, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _signalled_at(module: str, number: int, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program, to which a signal comes when it begins to import a module."""
    code = (
        "import os, sys\n"
        "class Sender:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Sender())\n"
        "from calipers.__main__ import main\n"
        "main()\n"
    )
    call = [sys.executable, "-c", code, *arguments]
    return subprocess.run(call, capture_output=True, check=False, preexec_fn=_hear_interrupts)


# The command line, its verb, and what the verb needs, in Python and in C.
MODULES = ("calipers.cli.main", "calipers.cli.demo", "numpy", "numpy.random.mtrand")


@pytest.mark.parametrize(
    ("module", "number"), in_turn(MODULES, [signal.SIGINT, signal.SIGTERM], default=1)
)
def test_a_signal_while_modules_are_loaded_is_no_traceback(tmp_path, module, number):
    done = _signalled_at(module, number, "demo", "-q", "-o", str(tmp_path / "new"))
    word = b"interrupted" if number == signal.SIGINT else b"terminated"
    assert done.returncode == 128 + number, done.stderr
    # An empty line stands behind the ^C of a terminal.
    assert done.stderr.lstrip().startswith(b"error: " + word)
    assert len(done.stderr.split(b"\n")) <= 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGTERM, 143, b"terminated"),
        (signal.SIGHUP, 129, b"terminated"),
        (signal.SIGINT, 130, b"interrupted"),
    ],
    ids=["TERM", "HUP", "INT"],
)
def test_a_signal_ends_the_run_cleanly(tmp_path, number, code, word):
    folder = tmp_path / "new" / "results"
    run = subprocess.Popen(
        [sys.executable, "-c", _save_slowly(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_hear_interrupts,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(number)
    _, said = run.communicate(timeout=30)
    assert (run.returncode, word in said, b"Traceback" in said) == (code, True, False)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_in_code_made_from_text_has_the_exit_code_of_others(tmp_path):
    """Dataclasses are compiled from text; Python ended with the signal instead of with 130."""
    body = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)"
    code = (
        "import click\n"
        "import calipers.cli.saved, calipers.show.terminal\n"  # nothing is compiled afterwards
        "from calipers.cli import main as cli\n"
        f"slow = lambda: exec({body!r})\n"
        "cli.Verbs.get_command = lambda *a: click.command(slow)\n"
        "cli.main(['demo'])\n"
    )
    (tmp_path / "run.py").write_text(code)
    call = [sys.executable, "-m", "run"]  # as calipers by python -m; scripts end otherwise
    done = subprocess.run(
        call, capture_output=True, check=False, preexec_fn=_hear_interrupts, cwd=tmp_path
    )
    assert (done.returncode, b"interrupted" in done.stderr) == (130, True)


def test_a_run_that_ignores_the_end_of_its_terminal_goes_on(tmp_path):
    """As under nohup."""
    folder = tmp_path / "results"
    code = _save_slowly(folder).replace("time.sleep(60)", "time.sleep(1)")
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, preexec_fn=ignore)
    assert run.stdout is not None
    run.stdout.readline()
    run.send_signal(signal.SIGHUP)
    run.communicate(timeout=30)
    assert (run.returncode, (folder / "half").exists()) == (0, True)


def test_what_a_killed_run_left_blocks_nobody(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    run = subprocess.Popen([sys.executable, "-c", _save_slowly(folder)], stdout=subprocess.PIPE)
    assert run.stdout is not None
    run.stdout.readline()
    # While that run lives, its stage is its own.
    with results_files.staged_folder(folder) as stage:
        (stage / "a").write_text("1")
    assert len(list(folder.glob(".calipers-*/half"))) == 1
    run.kill()
    run.wait()
    (folder / "a").unlink()
    results_files.check_folder(folder, force=False)
    with results_files.staged_folder(folder) as stage:
        (stage / "b").write_text("2")
    assert [entry.name for entry in folder.iterdir()] == ["b"]


def test_of_two_runs_into_one_new_folder_the_second_is_refused(tmp_path):
    folder = tmp_path / "results"

    def second() -> None:
        with results_files.staged_folder(folder) as late:
            (late / "run.json").write_text("second")
            with results_files.staged_folder(folder) as early:
                (early / "run.json").write_text("first")

    for _ in range(2):  # a folder that is not there yet, and an empty one
        with pytest.raises(results_files.InputError, match=r"in the meantime.*output-exists"):
            second()
        assert [entry.name for entry in folder.iterdir()] == ["run.json"]
        assert (folder / "run.json").read_text() == "first"
        (folder / "run.json").unlink()


def _write(folder: Path, word: str, names: tuple[str, ...], *, force: bool) -> None:
    with results_files.staged_folder(folder, owned=("a", "b", "c"), force=force) as stage:
        for name in (*names, "run.json"):
            (stage / name).write_text(word)


@pytest.fixture
def earlier(tmp_path: Path) -> dict[str, str]:
    """An earlier result, and a file of the user beside it."""
    _write(tmp_path / "results", "old", ("a", "b"), force=False)
    (tmp_path / "results" / "notes.txt").write_text("mine")
    return _contents(tmp_path / "results")


def _contents(folder: Path) -> dict[str, str]:
    return {entry.name: entry.read_text() for entry in sorted(folder.iterdir())}


def test_force_exchanges_the_whole_result(tmp_path, earlier):
    _write(tmp_path / "results", "new", ("a", "c"), force=True)
    expected = {"a": "new", "c": "new", "notes.txt": "mine", "run.json": "new"}
    assert _contents(tmp_path / "results") == expected


@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()], ids=str)
def test_a_move_that_fails_puts_the_old_result_back(tmp_path, earlier, monkeypatch, step, error):
    rename, calls = os.rename, [0]

    def failing(source, target):
        calls[0] += 1
        if calls[0] == step + 1:
            raise error
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises((results_files.InputError, KeyboardInterrupt)):
        _write(tmp_path / "results", "new", ("a", "c"), force=True)
    monkeypatch.undo()
    assert calls[0] > step
    assert _contents(tmp_path / "results") == earlier


def test_a_folder_in_the_way_puts_the_old_result_back(tmp_path, earlier):
    (tmp_path / "results" / "c").mkdir()
    with pytest.raises(results_files.InputError, match="c is a folder"):
        _write(tmp_path / "results", "new", ("a", "c"), force=True)
    (tmp_path / "results" / "c").rmdir()
    assert _contents(tmp_path / "results") == earlier


def test_a_kill_amid_the_exchange_is_put_right_by_the_next_run(tmp_path, earlier):
    folder = tmp_path / "results"
    backup = folder / ".calipers-old-x"
    backup.mkdir()
    for name in ("run.json", "a", "b"):
        os.rename(folder / name, backup / name)
    (folder / "a").write_text("new")

    def failing() -> None:
        with results_files.staged_folder(folder, force=True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert _contents(folder) == earlier


@pytest.mark.parametrize("further", [[], ["--maps"], ["--stability"]], ids=str)
def test_a_demo_on_a_full_disk_is_a_typed_error_and_can_be_repeated(tmp_path, further):
    """A limit on the size of files stands for the disk: the write fails in the same places."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    call = [*CALL, "demo", "-o", str(tmp_path / "demo"), *further]
    began = time.monotonic()
    done = subprocess.run(call, capture_output=True, check=False, preexec_fn=limit)
    assert time.monotonic() - began < 60
    assert (done.returncode, b"bug" in done.stderr) == (2, False), done.stderr
    assert b"not-writable" in done.stderr or b"disk-full" in done.stderr
    assert list(tmp_path.iterdir()) == []
