"""The command line under attack: every verb with sound files and combinations of its options.

`damage` takes a sound command of a verb, adds options of that verb with values of their kind or of
none, and sometimes exchanges, repeats or drops words. A command ends with exit code 0, 1 or 2; 3
would be a fault of Calipers. With ``--json`` there is one JSON document on stdout, or nothing.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import calipers as cal
from bag_cases import folders, values
from calipers.cli.main import run
from calipers.io.write_volume import write_volume
from fuzz.mutate import Random
from fuzz.targets import PROTOCOL, REQUIREMENTS, Target

# These train networks, repeat whole experiments, or evaluate what has its own tests.
LEFT_OUT = ("train", "predict", "study", "demo")
EXPECTED = (0, 1, 2)
ENGINES = ("help", "engine", "scheduler")  # of other processes
WORDS = (
    "", " ", "-", "--", "0", "1", "-1", "2", "1.5", "nan", "inf", "1e999", "x", "a=b", "=", "a=",
    "AP50", "coco", "patient", "model", "../x", "\ud800", "ä", "\x1b[0m", ",", "a,a", "*", "{name}",
    "no such file", ".", "/dev/null", "/proc/self/mem", "all", "class=nodule", "site=A", "m",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "1.5", "nan", "inf", "1e-320", "x", "", "0x1", "1_0")
# Options whose values say how much work is done.
AMOUNTS = {"jobs": ("1",), "replicates": ("100", "200", "0", "-1"), "runs": ("1", "2", "0")}
SOUND = "sound"  # the folder of sound files, below the folder in which commands run


def sound_commands(folder: Path) -> dict[str, list[str]]:
    """Write sound files and return a command of every verb."""
    place = folder / SOUND
    place.mkdir()
    cohort = cal.demo_cohort().take(np.arange(16))
    cal.write(cohort, place / "refs.json")
    for model in list(cohort.models)[:2]:
        cal.write(cohort, place / f"{model}.json", what=model)
    models = [f"{SOUND}/{model}.json" for model in list(cohort.models)[:2]]
    for side in ("labels", "maps"):
        (place / side).mkdir()
        for k in range(3):
            array = np.zeros((6, 7), np.uint8 if side == "labels" else np.float32)
            array[1 + k : 4, 2:5] = 1
            write_volume(place / side / f"{k}.npy", array)
    bags = [str(path.relative_to(folder)) for path in folders(place / "bags", values())]
    (place / "protocol.toml").write_text(PROTOCOL)
    rng = np.random.default_rng(0)
    images = cohort.images.ids
    alarms = [f"{image},{rng.random():.3f},{rng.random():.3f}" for image in images]
    (place / "alarms.csv").write_text("\n".join(["image,entropy,scope", *alarms]) + "\n")
    rows = [f"i{k},{k % 6},{rng.normal():.3f},{rng.normal():.3f}" for k in range(30)]
    (place / "frame.csv").write_text("\n".join(["image,g,x,y", *rows]) + "\n")
    rows = [f"i{k},{rater},{k % 5 + 1},0.{k}" for k in range(12) for rater in "ab"]
    (place / "ratings.csv").write_text("\n".join(["item,rater,rating,IoU", *rows]) + "\n")
    requirements = REQUIREMENTS.replace('group = { centre = "*" }\n', "")
    (place / "requirements.toml").write_text(requirements)
    cal.evaluate(cohort, "coco", ci=False).save(place / "saved")
    refs = f"{SOUND}/refs.json"
    return {
        "inspect": [refs, *models],
        "doctor": [refs, models[0]],
        "evaluate": [refs, *models, "--no-ci"],
        "maps": [f"{SOUND}/labels", f"{SOUND}/maps", "--no-ci"],
        "compare": [refs, *models, "--replicates", "200"],
        "multiverse": [refs, *models],
        "stability": [*bags],
        "monitor": [refs, models[0], "--alarm", f"{SOUND}/alarms.csv", "--tau", "0.5"],
        "agreement": [f"{SOUND}/ratings.csv", "--useful", "4,5"],
        "mixed": [f"{SOUND}/frame.csv", "--formula", "y ~ x", "--groups", "g"],
        "sweep": [refs, *models, "--metric", "AP@0.5", "--over", "threshold=0.25,0.5", "--no-ci"],
        "corrupt": [refs, "--kind", "position-noise(sigma=1)", "-o", "oracle.json", "--force"],
        "fuse": [refs, *models, "-o", "fused.json", "--force"],
        "check": [f"{SOUND}/saved", f"{SOUND}/requirements.toml"],
        "report": [f"{SOUND}/saved", "--force"],
        "verify": [f"{SOUND}/saved"],
        "merge": ["part-1", "part-2"],
        "boxes": [f"{SOUND}/maps", "--classes", "a", "-o", "boxes.csv", "--force"],
        "convert": [refs, "converted.csv", "--force"],
    }


def changed_command(
    rng: Random, verb: str, words: list[str], options: Any, files: Any
) -> list[str]:
    """Return a command with options of its verb, and sometimes with other words."""
    command = list(words)
    for _ in range(int(rng.integers(0, 4))):
        option = options[int(rng.integers(len(options)))]
        name = str(rng.choice(option.opts + option.secondary_opts))
        command.append(name)
        if not getattr(option, "is_flag", False):
            command.append(value_of(option, rng, files))
    if rng.random() < 0.3:
        at = int(rng.integers(len(command)))
        kind = rng.integers(0, 4)
        if kind == 0:
            command[at] = str(rng.choice([*files, *WORDS]))
        elif kind == 1:
            command.insert(at, command[int(rng.integers(len(command)))])
        elif kind == 2:
            del command[at]
        else:
            command.append("--json")
    return [verb, *command]


def value_of(option: Any, rng: Random, files: Any) -> str:
    """Return a value of an option: mostly of its kind."""
    choices: Any = [*WORDS, *files]
    if option.name in AMOUNTS:
        choices = AMOUNTS[option.name]
    elif isinstance(option.type, click.Choice) and rng.random() < 0.9:
        choices = option.type.choices
    elif isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        choices = NUMBERS
    return str(choices[int(rng.integers(len(choices)))])


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def verbs(folder: Path) -> Iterator[Target]:
    """The command line as one target: each input is a command."""
    from calipers.cli.main import cli

    commands = sound_commands(folder)
    context = click.Context(cli)
    names = [name for name in cli.list_commands(context) if name not in LEFT_OUT]
    options = {}
    for name in names:
        command = cli.get_command(context, name)
        assert command is not None
        parameters = [one for one in command.params if isinstance(one, click.Option)]
        options[name] = [one for one in parameters if one.name not in ENGINES]
    files = sorted(str(path.relative_to(folder)) for path in (folder / SOUND).rglob("*"))

    def damage(rng: Random) -> list[str]:
        verb = names[int(rng.integers(len(names)))]
        return changed_command(rng, verb, commands[verb], options[verb], files)

    def answer(words: list[str], place: Path) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        silent = contextlib.ExitStack()
        with silent:
            silent.enter_context(contextlib.chdir(folder))
            silent.enter_context(contextlib.redirect_stdout(out))
            silent.enter_context(contextlib.redirect_stderr(err))
            code = run(words)
        return code, out.getvalue(), err.getvalue()

    def judge(words: list[str], said: tuple[int, str, str]) -> None:
        code, out, err = said
        assert code in EXPECTED, f"exit {code}: {err}"
        assert "Traceback" not in err, err
        command = cli.get_command(context, words[0])
        if "--json" in words and out and command is not None:
            # Behind an option that takes a value it is that value.
            with contextlib.suppress(click.UsageError):
                parsed, _, _ = command.make_parser(context).parse_args(words[1:])
                assert not parsed.get("as_json") or is_json(out), out

    yield Target("verbs", damage, answer, judge)
