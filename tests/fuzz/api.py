"""The public surface under attack from Python: functions, and methods of everything they return.

`surface` starts from the public names and a sound call of each, and goes on to the methods of the
objects that come back, and of what those return. `attack` replaces arguments of the sound calls by
what people hand in by mistake, and what nobody should. A call answers with a result or with a
`CalipersError`; everything else is a `Failure`, which names the call.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import fractions
import inspect
import io
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

import calipers as cal
from bag_cases import values
from calipers.errors import CalipersError
from calipers.io.write_volume import write_volume
from fuzz.mutate import Random
from fuzz.targets import BOXES, PROTOCOL, REQUIREMENTS, SCORES, SLOWEST, Failure, Target, described
from map_cases import random_samples
from random_cohorts import random_cohort

DEPTH = 3  # returned by what was returned
# What results hold to compute with; nobody else calls it, and the code trusts it.
INNER = tuple(f"calipers.{name}." for name in ("kernels", "matching", "metrics", "statistics"))
# Methods by which Calipers makes results of its own arrays.
MAKERS = ("UndefinedPairs.of",)
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, -0.5, 0.5, 1.0, 10**30, 10**400, 1e308, 5e-324, 1j,
    float("nan"), float("inf"), b"x", "", " ", "a", "1", "nan", "coco", "\0", "a" * 5000,
    "\ud800", "../..", "ä\u202e\x1b[0m", [], (), {}, set(), [None], [[1, 2], [3]], [1.5, "a"],
    ["a", "a"], [True, False], {"a": None}, {1: 2}, {"a": {"b": []}}, object(), int, len, print,
    np, Ellipsis, slice(3), slice("a"), slice(None, None, 0), range(3), memoryview(b"ab"),
    iter("ab"), deque([1]), 10**5000,
    decimal.Decimal(1), fractions.Fraction(1, 2), datetime.date(2020, 1, 1),
    PurePosixPath("a"), Path("no such file"),
    np.float64(2), np.int8(-3), np.bool_(True), np.timedelta64(1), np.datetime64("2020"),
    np.str_("a"), np.array(3), np.array(1 + 2j), np.array([]), np.zeros(6), np.arange(6),
    np.full(6, np.nan), np.ones(6, bool), np.array([2.0, 0.0, 1.0]), np.array([9, -9]),
    np.zeros((2, 2, 2, 2)), np.zeros((6, 0)), np.array(["a", "b"]), np.array([None, "a"], object),
    np.array([2**63], np.uint64), np.ma.masked_array([1.0, 2.0], [True, False]),
)  # fmt: skip


@dataclass(frozen=True)
class Entrance:
    """One public function or method, with what it needs at least."""

    name: str
    function: Callable[..., Any]
    sound: Mapping[str, Any]
    parameters: tuple[str, ...]


def sound_arguments(folder: Path) -> dict[str, Any]:
    """Return what sound calls take: by the name of an argument, or by function and argument."""
    from calipers.results.requirements import Requirements

    cohort = random_cohort(6, 2, seed=1, models=2)
    samples = random_samples(1, 3, dimensions=2)
    boxes = [np.array([[0.1, 0.1, 0.5, 0.5]]), np.array([[0.1, 0.1, 0.5, 0.6]])]
    bags = values()
    for side in ("references", "maps"):
        (folder / side).mkdir()
        for k in range(2):
            array = np.zeros((6, 7), np.uint8)
            array[1 + k : 4, 2:5] = 1
            write_volume(folder / side / f"{k}.npy", array)
    (folder / "r.csv").write_text(BOXES)
    (folder / "p.csv").write_text(SCORES)
    (folder / "protocol.toml").write_text(PROTOCOL)
    (folder / "requirements.toml").write_text(REQUIREMENTS)
    saved = folder / "saved"
    cal.evaluate(cohort, "coco", ci=False).save(saved)
    rng = np.random.default_rng(0)
    ratings = [
        {"item": f"i{k}", "rater": rater, "rating": int(rng.integers(1, 6)), "x": float(k)}
        for k in range(12)
        for rater in "ab"
    ]
    frame = {
        "y": rng.normal(size=24).tolist(),
        "x": rng.normal(size=24).tolist(),
        "g": [f"g{k % 8}" for k in range(24)],
    }
    scope = cal.Protocol.load("coco")
    return {
        "cohort": cohort,
        "samples": samples,
        "protocol": "coco",
        "evaluate_maps.protocol": "anomaly",
        "kind": "shift",
        "maps": bags,
        "boxes_from_heatmaps.maps": [rng.random((2, 8, 8))],
        "classes": ["a", "b"],
        "scope_scores.classes": "declared",
        "boxes": boxes,
        "scores": [np.array([0.5]), np.array([0.25])],
        "labels": [np.array([0]), np.array([0])],
        "metrics": "AP50",
        "over": {"threshold": [0.25, 0.5]},
        "frame": frame,
        "formula": "y ~ x",
        "groups": ["g"],
        "ratings": ratings,
        "references": folder / "r.csv",
        "read_maps.references": folder / "references",
        "predictions": folder / "maps",
        "path": folder / "r.csv",
        "write.path": folder / "written.csv",
        "report.path": folder / "page.html",
        "folder": saved,
        "save.folder": folder / "again",
        "alarm_scores": rng.random(6),
        "scope": rng.random(6),
        "tau": 0.5,
        "prediction": rng.random((6, 7)),
        "soft_instance_iou.labels": (rng.random((6, 7)) > 0.5).astype(np.int64),
        "n00": [3],
        "n01": [1],
        "n10": [2],
        "n11": [4],
        "model": "model-1",
        "images": np.arange(3),
        "start": 0,
        "stop": 3,
        "rows": slice(0, 0),
        "offsets": np.zeros(7, np.int64),
        "mask": slice(None),
        "metric": "AP50",
        "text": PROTOCOL,
        "Requirements.from_toml.text": REQUIREMENTS,
        "Requirements.load.path": folder / "requirements.toml",
        "Protocol.load.path": folder / "protocol.toml",
        "name": "AP50",
        "group.name": "patient",
        "names": ["AP50"],
        "requirements": Requirements.from_toml(REQUIREMENTS),
        "parts": [cohort],
        "column": "patient",
        "document": scope.as_dict(),
        "a": "model-1",
        "b": "model-2",
        "Cohort.model": "mislabels",
        "Cohort.from_arrays.references": [{"boxes": [[1, 2, 3, 4]], "labels": [0]}],
        "Cohort.with_groups.groups": {"site": ["a"] * len(cal.demo_cohort().images)},
        "Cohort.with_predictions.predictions": cal.demo_cohort().predictions("mislabels"),
        "References.parts": [cohort.references],
        "Predictions.parts": [cohort.predictions("model-1")],
        "References.mask": np.ones(len(cohort.references), np.bool_),
        "Predictions.mask": np.ones(len(cohort.predictions("model-1")), np.bool_),
        "Evaluation.get.model": "model-1",
        "most": 2,
        "evaluate_monitor.tau": 0.5,
        "MonitorEvaluation.metric": "AUROC",
        "MonitorEvaluation.a": "monitor",
        "MonitorEvaluation.b": "monitor",
        "stored": scope.as_dict(),
        "StabilityResult.name": "PJ",
        "StabilityResult.metric": "PJ",
        "bag.i": 0,
        "Localization.metric": "DICE",
        "Evaluation.summary.over": "class",
        "one": "a",
        "other": "b",
        "others": (),
        "choices": {},
        "table": folder / "r.csv",
        "Limit.value": 0.5,
        "i": 0,
    }


def surface(folder: Path) -> list[Entrance]:
    """Return all public functions and the methods of what they return."""
    arguments = sound_arguments(folder)
    entrances: dict[str, Entrance] = {}
    waiting: list[tuple[Any, int]] = []
    for name in cal.__all__:
        value = getattr(cal, name)
        if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception)):
            entrance = _entrance(name, name, value, arguments)
            entrances[name] = entrance
            waiting.append((answer_of(entrance), 1))
    cohort = arguments["cohort"]
    for value in (cohort, cohort.images, cohort.references, cohort.predictions("model-1")):
        waiting.append((value, 1))
    for value in (arguments["requirements"], cal.Protocol.load("coco")):
        waiting.append((value, 1))
    seen: set[type] = set()
    while waiting:
        value, depth = waiting.pop(0)
        if isinstance(value, list | tuple) and len(value):
            value = value[0]
        kind = type(value)
        is_ours = kind.__module__.startswith("calipers.") and not kind.__module__.startswith(INNER)
        if not is_ours or kind in seen or depth > DEPTH:
            continue
        seen.add(kind)
        for name, method in _methods(value):
            entrance = _entrance(f"{kind.__name__}.{name}", name, method, arguments)
            entrances[entrance.name] = entrance
            waiting.append((answer_of(entrance), depth + 1))
        for name in vars(kind):
            if name[0] != "_":
                with contextlib.suppress(Exception):
                    waiting.append((getattr(value, name), depth + 1))
    return list(entrances.values())


def _methods(value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(type(value)):
        if name[0] != "_" and f"{type(value).__name__}.{name}" not in MAKERS:
            member = inspect.getattr_static(type(value), name)
            function = getattr(member, "__func__", member)
            is_ours = getattr(function, "__module__", "").startswith("calipers.")
            if inspect.isfunction(function) and is_ours:
                yield name, getattr(value, name)


def _entrance(
    full_name: str, name: str, function: Callable[..., Any], arguments: Mapping[str, Any]
) -> Entrance:
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    sound = {}
    for one in named:
        keys = [f"{full_name}.{one.name}"]
        if one.default is one.empty:
            keys += [f"{name}.{one.name}", f"{full_name.split('.')[0]}.{one.name}", one.name]
        known = [arguments[key] for key in keys if key in arguments]
        if known or one.default is one.empty:
            sound[one.name] = known[0] if known else None
    return Entrance(full_name, function, sound, tuple(one.name for one in named))


def answer_of(entrance: Entrance) -> Any:
    """Return what a sound call returns; None if what is known here is not enough for one."""
    try:
        return called(entrance, {})
    except Exception:
        return None


def called(entrance: Entrance, options: Mapping[str, Any]) -> Any:
    """Call an entrance in silence."""
    silent = contextlib.redirect_stdout(io.StringIO())
    with warnings.catch_warnings(), silent, np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return entrance.function(**{**entrance.sound, **options})


def changed_arguments(entrance: Entrance, rng: Random) -> dict[str, Any]:
    """Return odd values for one or two arguments, sometimes for all that are needed."""
    chosen: list[str] = []
    if rng.random() < 0.1:
        chosen += entrance.sound
    if entrance.parameters:
        n = min(len(entrance.parameters), int(rng.integers(1, 3)))
        chosen += rng.choice(entrance.parameters, n, replace=False).tolist()
    options = {name: ODD[int(rng.integers(len(ODD)))] for name in chosen}
    if "." not in entrance.name and rng.random() < 0.02:
        options["no_such_argument"] = 1
    return options


def attack(entrance: Entrance, rounds: int, seed: int = 0) -> int:
    """Return how many odd calls were answered with a result; raise at the first failure."""
    accepted = 0
    for k in range(rounds):
        options = changed_arguments(entrance, np.random.default_rng([seed, k]))
        where = f"{entrance.name}, seed {seed}, call {k}: {described(options)}"
        began = time.process_time()
        try:
            called(entrance, options)
            accepted += 1
        except CalipersError as error:
            if not str(error):
                raise Failure(f"{where}: an error without words") from error
        except Exception as error:
            raise Failure(where) from error
        if time.process_time() - began > SLOWEST:
            raise Failure(f"{where}: {time.process_time() - began:.1f} s")
    return accepted


def calls(folder: Path) -> Iterator[Target]:
    """The public surface as one target of `make fuzz`: each input is an odd call of an entrance."""
    place = folder / "surface"
    place.mkdir()
    entrances = surface(place)

    def damage(rng: Random) -> tuple[Entrance, dict[str, Any]]:
        entrance = entrances[int(rng.integers(len(entrances)))]
        return entrance, changed_arguments(entrance, rng)

    def run(case: tuple[Entrance, dict[str, Any]], folder: Path) -> Any:
        with contextlib.chdir(folder):  # some write where they are told to
            return called(*case)

    yield Target("api", damage, run)
