"""The entry point: help, version, unknown words, and what each way of failing leaves behind."""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import subprocess
import sys

import click
import pytest

import calipers as cal
from calipers.cli.main import VERBS
from calipers.cli.options import SECTIONS
from calipers.show.terminal import one_line, printable
from seeds import in_turn

ERROR_KEYS = ["schema", "calipers", "error"]
PROBLEM_KEYS = ["rule", "file", "location", "field", "expected", "value", "hint"]


def shell(*argv: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the real command in a process of its own."""
    call = [sys.executable, "-c", "from calipers.cli.main import main; main()", *argv]
    return subprocess.run(call, capture_output=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_verb(calipers, flag):
    said = calipers(flag)
    assert (said.code, said.err) == (0, "")
    assert all(f"  {verb} " in said.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(calipers, verb):
    said = calipers(verb, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: calipers {verb} [OPTIONS]")
    assert "--json" in said.out


def test_help_lists_every_option_once_in_its_section(calipers):
    options = set()
    for verb, (target, _) in VERBS.items():
        module, _, name = target.partition(":")
        params = getattr(importlib.import_module(module), name).params
        lists = calipers(verb, "--help").out.partition("\nOptions:\n")[2]
        shown = re.findall(r"^  (-[^\s,]+)", lists, re.MULTILINE)
        own = [param.opts[0] for param in params if param.param_type_name == "option"]
        assert sorted(shown) == sorted([*own, "-h"]), verb
        options |= {param.name for param in params}
    in_sections = [name for names in SECTIONS.values() for name in names]
    assert len(set(in_sections)) == len(in_sections)
    assert set(in_sections) <= options | {"help"}
    assert "\nReading files:\n" in calipers("evaluate", "--help").out
    assert "Output:" not in calipers("check", "--help").out  # few options are one list


def test_help_is_a_word_too(calipers):
    assert calipers("help").out == calipers("--help").out
    assert calipers("help", "evaluate").out == calipers("evaluate", "--help").out


def test_version_names_the_kernels(calipers):
    said = calipers("--version")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"calipers {cal.__version__} (kernels: ")


def test_without_a_verb_the_help_goes_to_stderr(calipers):
    said = calipers()
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("Usage: calipers")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["evalute"], "did you mean 'evaluate'?"),
        (["evaluate"], "Missing argument 'REFS'"),
        (["evaluate", "refs.json"], "Missing argument 'PREDS...'"),
        (["evaluate", "refs.json", "a.json", "--presett", "coco"], "--preset"),
        (["evaluate", "refs.json", "a.json", "--jobs", "0"], "'--jobs'"),
        (["maps", "refs.json", "a.json", "--jobs", str(2**62)], "'--jobs'"),
        (["evaluate", "refs.json", "a.json", "--seed", "-1"], "'--seed'"),
        (["inspect", "refs.json", "--fail-on", "panic"], "'--fail-on'"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_words_are_usage_errors(calipers, argv, words):
    said = calipers(*argv)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert "--help" in said.err


def test_usage_errors_are_json_too(calipers):
    said = calipers("evaluate", "--json")
    assert (said.code, said.err) == (2, "")
    assert list(said.json) == ERROR_KEYS
    assert said.json["schema"] == "calipers.error/1"
    assert said.json["calipers"] == cal.__version__
    assert {"kind": "usage", "exit": 2}.items() <= said.json["error"].items()


def test_input_errors_are_json_with_place_and_hint(calipers, files):
    said = calipers("evaluate", files.path("nowhere.json"), files.ours, "--json")
    assert (said.code, said.err) == (2, "")
    error = said.json["error"]
    assert list(error) == ["kind", "message", "exit", "total", "problems"]
    assert (error["kind"], error["exit"], error["total"]) == ("not-found", 2, 1)
    assert list(error["problems"][0]) == PROBLEM_KEYS
    assert error["problems"][0]["file"] == files.path("nowhere.json")


def fails(error: BaseException):
    """Return something to call in place of a reader, which raises."""

    def call(*args, **kwargs):
        raise error

    return call


def test_a_bug_says_what_to_paste(calipers, files, monkeypatch):
    monkeypatch.setattr("calipers.io.read.read", fails(ZeroDivisionError("the moon")))
    said = calipers("evaluate", files.references, files.ours)
    assert (said.code, said.out) == (3, "")
    assert "This is a bug in Calipers" in said.err
    assert f"calipers {cal.__version__}, Python " in said.err
    assert f"command: calipers evaluate {files.references}" in said.err
    assert said.err.rstrip().endswith("ZeroDivisionError: the moon")


def test_a_bug_is_json_too(calipers, files, monkeypatch):
    monkeypatch.setattr("calipers.io.read.read", fails(ZeroDivisionError("the moon")))
    said = calipers("evaluate", files.references, files.ours, "--json")
    assert (said.code, said.err) == (3, "")
    assert {"kind": "bug", "exit": 3}.items() <= said.json["error"].items()
    assert "the moon" in said.json["error"]["message"]


def test_a_file_that_went_away_is_no_bug(calipers, files, monkeypatch):
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", "gone.csv")
    monkeypatch.setattr("calipers.io.read.read", fails(error))
    said = calipers("evaluate", files.references, files.ours)
    assert (said.code, said.out) == (2, "")
    assert "gone.csv: No such file or directory [not-readable]" in said.err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libarrow.so: failed to map segment from shared object"),
    ],
    ids=repr,
)
def test_too_little_memory_is_no_bug(calipers, files, monkeypatch, error):
    monkeypatch.setattr("calipers.io.read.read", fails(error))
    said = calipers("evaluate", files.references, files.ours)
    assert (said.code, said.out) == (2, "")
    assert "not enough memory for these inputs [memory]" in said.err
    assert "hint: give fewer images" in said.err


def test_an_input_that_cannot_be_followed_is_told_by_its_reader(calipers, files, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name in ("\0", tmp_path / "loop"):
        said = calipers("fuse", files.references, name, files.ours, "-o", tmp_path / "fused.json")
        assert said.code == 2, said.err
        assert "not-readable" in said.err


@pytest.mark.parametrize("length", [255, 5000])
def test_the_name_of_a_model_may_be_longer_than_that_of_a_file(calipers, files, length):
    said = calipers("evaluate", files.references, f"{'m' * length}={files.ours}", "--no-ci", "-q")
    assert said.code == 0, said.err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interruption_says_how_to_go_on(calipers, files, monkeypatch, error):
    monkeypatch.setattr("calipers.io.read.read", fails(error))
    said = calipers("evaluate", files.references, files.ours, "-o", files.folder.parent / "out put")
    assert (said.code, said.out) == (130, "")
    assert (
        f"calipers evaluate {files.references} {files.ours} -o '{files.folder.parent}/out put'"
        in said.err
    )
    assert not (files.folder.parent / "out put").exists()


def test_an_interruption_is_json_too(calipers, files, monkeypatch):
    monkeypatch.setattr("calipers.io.read.read", fails(KeyboardInterrupt()))
    said = calipers("evaluate", files.references, files.ours, "--json")
    assert said.code == 130
    assert {"kind": "interrupted", "exit": 130}.items() <= said.json["error"].items()


def test_another_name_of_a_verb_leads_to_it(calipers):
    said = calipers("rank", "results")
    assert (said.code, "calipers compare ranks models" in said.err) == (2, True)
    assert "train" not in said.err


def test_many_problems_are_listed_with_one_hint(calipers, files):
    said = calipers("evaluate", files.references, files.ours, "--box-format", "xyxy")
    assert said.code == 2
    assert said.err.startswith("error: 3 problems; nothing was evaluated.\n")
    assert said.err.count("/annotations/") == 3
    assert said.err.count("hint: ") == 1
    assert "--lenient" in said.err


def test_many_problems_are_counted_and_a_hundred_are_in_json(calipers, files):
    records = [{"image_id": 1, "category_id": 1, "bbox": [1, 1, -1, 1], "score": 0.5}] * 130
    broken = files.write("broken.json", records)
    said = calipers("evaluate", files.references, broken, "--json")
    error = said.json["error"]
    assert (error["kind"], error["total"], len(error["problems"])) == ("neg-size", 130, 100)
    text = calipers("evaluate", files.references, broken).err
    assert "\n  130 times: expected sides that are not negative [neg-size]\n" in text
    assert "... and 125 more" in text
    lines = text.splitlines()
    assert len([line for line in lines if "broken.json, /" in line]) == 5
    # the hint first, then examples
    assert [line.partition(":")[0].strip() for line in lines[1:3]] == [
        "130 times",
        "hint",
    ]


def test_every_kind_of_problem_has_its_hint_and_five_examples(calipers, files):
    record = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5], "score": 0.5}
    several = [{**record, "image_id": 99}] * 7 + [{**record, "bbox": [1, 1, -1, 1]}, record]
    broken = files.write("broken.json", several)
    lines = calipers("evaluate", files.references, broken).err.splitlines()
    assert lines[0] == "error: 8 problems; nothing was evaluated."
    assert "  7 times: expected an image of the references [unknown-image]" in lines
    assert "  once: expected sides that are not negative [neg-size]" in lines
    assert "    ... and 2 more" in lines
    assert "--lenient" in lines[-1]


def test_no_option_is_proposed_that_does_not_help(calipers, files, tmp_path):
    from PIL import Image

    for name in ("a.jpg", "b.jpg"):
        Image.new("L", (8, 8)).save(tmp_path / name)
    text = calipers("evaluate", tmp_path, files.ours).err
    assert "2 times: expected labels without compression losses [lossy]" in text
    assert "--lenient" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 肺", "plain é 肺"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("a\tb\rc", "a\\tb\\rc"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert printable(text) == shown
    assert one_line(text) == shown


def test_only_our_own_texts_may_have_lines():
    assert printable("a\nb") == "a\nb"
    assert one_line("a\nb") == "a\\nb"


def test_process_exit_code_and_streams(files):
    done = shell("evaluate", files.references, files.ours, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["schema"] == "calipers.evaluation/1"
    done = shell("evaluate", files.references, files.path("nowhere.json"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: ")


def test_only_the_program_searches_for_cycles_less_often():
    script = (
        "import gc; limits = []; note = lambda: limits.append(gc.get_threshold()); note();"
        "import calipers, calipers.cli.main as cli; calipers.evaluate; note();"
        "cli.main = note; from calipers.__main__ import main; main(); print(limits)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    fresh, library, program = json.loads(out.replace(b"(", b"[").replace(b")", b"]"))
    assert library == fresh
    assert program == [200_000, *fresh[1:]]


def test_a_terminal_without_unicode_gets_escapes_not_a_crash(files):
    document = json.loads((files.folder / "references.json").read_text())
    document["categories"][0]["name"] = "Knötchen 肺"
    files.write("references.json", document)
    for argv in (["evaluate", files.references, files.ours], ["inspect", files.references]):
        done = shell(*argv, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
        assert b"Kn\\xf6tchen \\u80ba" in done.stdout or "Knötchen 肺".encode() in done.stdout


def test_a_reader_that_leaves_early_is_no_error(files):
    call = (
        f"{sys.executable} -c 'from calipers.cli.main import main; main()' inspect "
        f"{files.references} | head -c 1"
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", call], capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr


def test_a_reader_that_leaves_is_no_failure(files):
    call = [
        sys.executable,
        "-c",
        "from calipers.cli.main import main; main()",
        "evaluate",
        files.references,
        files.ours,
    ]
    for further in ([], ["--json"]):
        read_end, write_end = os.pipe()
        os.close(read_end)
        ended = subprocess.run(
            [*call, *further, "-q"], stdout=write_end, stderr=subprocess.PIPE, check=False
        )
        os.close(write_end)
        assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("verb", "kind"), in_turn(["evaluate", "inspect"], ["text", "json"], default=1)
)
def test_a_full_disk_behind_stdout_is_no_bug(files, verb, kind):
    further = ["--json"] if kind == "json" else []
    call = [
        sys.executable,
        "-c",
        "from calipers.cli.main import main; main()",
        verb,
        files.references,
        files.ours,
        "-q",
    ]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([*call, *further], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (
        2,
        b"error: stdout: no space left to write the result [disk-full]\n",
    )


def test_help_without_a_verb_is_the_help(calipers):
    assert calipers().err == calipers("--help").out
