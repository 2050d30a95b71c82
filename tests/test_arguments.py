# SPDX-License-Identifier: Apache-2.0
"""Public functions name the argument that is not what they take."""

from __future__ import annotations

import inspect
import json
import random
import tracemalloc
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import calipers as cal
from calipers.arguments import fits, in_words, names_arguments, own_scalar, wrong_argument
from calipers.errors import CalipersError, UsageError
from evaluated import evaluated_demo
from fuzz.targets import REQUIREMENTS

ODD: list[Any] = [
    None, b"x", -1, 10**30, float("nan"), 1j, True, [], {}, {"a": None}, [None], object(),
    np.zeros((2, 2, 2, 2)), np.array([None, "a"], object), np.array(1 + 2j), [[1, 2], [3]],
    range(3), int, "\0", "a" * 5000, "",
]  # fmt: skip


class PathOfBytes:
    """A path to Python, but none that Calipers takes."""

    def __fspath__(self) -> bytes:
        return b"r.csv"


class Nameless:
    """An object that cannot describe itself."""

    def __repr__(self) -> str:
        raise RuntimeError


def public_functions() -> list[str]:
    names = []
    for name in cal.__all__:
        value = getattr(cal, name)
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        if callable(value) and not is_error:
            names.append(name)
    return names


@pytest.mark.parametrize("name", public_functions())
def test_odd_arguments_end_in_errors_of_ours(name):
    function = getattr(cal, name)
    choice = random.Random(name)
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    required = [one.name for one in named if one.default is one.empty]
    for trial in range(12 if required else 0):
        options = {one: choice.choice(ODD) for one in required}
        # One more at a time, so that most calls do not stop at the first argument.
        if trial % 2:
            options[choice.choice(named).name] = choice.choice(ODD)
        assert problem_of(function, options) is None, options


def public_methods():
    """Methods of what the functions return and take, and those that make it."""
    evaluation = evaluated_demo("overview")
    requirements = cal.Requirements.from_toml(REQUIREMENTS)
    methods = {}
    for one in (evaluation, evaluation.protocol, evaluation.cohort, requirements):
        for name in dir(type(one)):
            method = getattr(one, name) if name[0] != "_" else None
            if inspect.ismethod(method):
                methods[f"{type(one).__name__}.{name}"] = method
    return methods


def test_odd_arguments_of_methods_end_in_errors_of_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write where they are told to
    methods = public_methods()
    assert len(methods) > 30
    for name, method in methods.items():
        choice = random.Random(name)
        parameters = inspect.signature(method).parameters.values()
        named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        required = [one.name for one in named if one.default is one.empty]
        for _ in range(3 if named else 0):
            options = {one: choice.choice(ODD) for one in required}
            options[choice.choice(named).name] = choice.choice(ODD)
            assert problem_of(method, options) is None, (name, options)


def problem_of(function, options):
    """Return the error that is none of ours, if the call ends in one."""
    try:
        function(**options)
    except CalipersError:
        return None
    except Exception as error:
        return error
    return None


def test_the_argument_is_named_with_what_it_takes():
    with pytest.raises(UsageError, match=r"fuse: cohort is a Cohort, not \[None\]"):
        cal.fuse([None])
    with pytest.raises(UsageError, match=r"Cohort: images is an Images, not 3"):
        cal.Cohort(3, (), None, {}, None)
    with pytest.raises(UsageError, match="path is the path of a file, not 0"):
        cal.sniff(0)
    with pytest.raises(UsageError, match=r"images is a path or .*, not <.*PathOfBytes"):
        cal.read_maps(".", ".", images=PathOfBytes())
    with pytest.raises(UsageError, match="unexpected keyword argument 'colour'"):
        cal.demo_cohort(colour=1)
    with pytest.raises(UsageError, match="a seed is a whole number"):
        cal.demo_cohort(-1)


def test_faults_of_our_own_and_of_callbacks_stay_as_they_are():
    @names_arguments
    def broken(n: int) -> int:
        raise ValueError("ours")

    with pytest.raises(ValueError, match=r"^ours$"):
        broken(3)
    with pytest.raises(UsageError, match="broken: n is a whole number, not 'x'"):
        broken("x")


@pytest.mark.parametrize(
    ("value", "hint", "answer"),
    [
        (1, int, True),
        (np.int64(1), int, True),
        (True, int, False),
        (1, float, True),
        (1.0, int, False),
        (None, int | None, True),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        ("ab", Sequence[str], False),
        (["a"], Sequence[str], True),
        (["a", 1], Sequence[str], False),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ((1, 2), tuple[int, ...], True),
        ({"a": 1}, Mapping[str, int], True),
        ({1: 1}, Mapping[str, int], False),
        (len, Callable[..., Any], True),
        (3, Callable[..., Any], False),
        (object(), Any, True),
        (deque(["a"]), Sequence[str], True),
        (deque(["a", 1]), Sequence[str], False),
        (Path("a"), Path | str, True),
        (PathOfBytes(), str | PathLike[str], False),
    ],
)
def test_values_fit_their_annotations(value, hint, answer):
    assert fits(value, hint) is answer


def test_annotations_in_words():
    assert in_words(int | None) == "a whole number or None"
    assert in_words(str | Path | None) == "a path or None"
    assert in_words(Literal["a", "b"]) == "'a' or 'b'"
    assert in_words(Sequence[str] | Mapping[str, int]) == "a list of entries or a mapping"


def test_classes_that_only_type_checkers_know_are_known_by_name():
    def function(store: Unheard | None) -> None: ...  # noqa: F821

    assert wrong_argument(function, (3,), {}) == "store is a Unheard or None, not 3"
    assert wrong_argument(function, (None,), {}) is None
    assert wrong_argument(function, (type("Unheard", (), {})(),), {}) is None


def test_numbers_that_no_float_holds_and_durations_are_refused() -> None:
    cohort = cal.demo_cohort()
    with pytest.raises(cal.UsageError, match="a number is too large"):
        cal.average_precision(cohort, 10**400, model="mislabels")
    with pytest.raises(cal.UsageError, match="seed is a whole number"):
        cal.demo_cohort(seed=np.timedelta64(1))


def test_values_that_cannot_be_written_do_not_break_the_message() -> None:
    cohort = cal.demo_cohort()
    with pytest.raises(UsageError, match="cohort is a Cohort, not <Nameless>"):
        cal.fuse(Nameless())
    with pytest.raises(UsageError, match="not <int>"):
        cal.sniff(10**5000)
    # Where the function itself would write the number.
    with pytest.raises(UsageError, match="a number is too large"):
        cal.demo_cohort(seed=10**5000)
    with pytest.raises(UsageError, match="a number is too large"):
        cohort.references.span(0, 10**5000)
    with pytest.raises(cal.InputError, match=r"known: \('a', 1\), x"):
        cal.mixed_model({("a", 1): [2], "x": [1]}, "zzz ~ x", ["x"])


def test_plain_arguments_are_refused_before_the_call() -> None:
    calls = []

    @names_arguments
    def function(
        n: int = 0,
        share: float | None = None,
        *,
        how: Literal["a", "b"] = "a",
        progress: Callable[[int, int], None] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        calls.append(n)

    for options in ({"n": "1"}, {"n": True}, {"share": "x"}, {"how": 1}, {"progress": len}):
        with pytest.raises(UsageError, match=f"function: {next(iter(options))} is "):
            function(**options)
    with pytest.raises(UsageError, match="progress is a function or None, not <class 'int'>"):
        function(progress=int)
    assert not calls
    # What is no plain argument is for the function to see; words and arrays are, too.
    for options in ({"names": 3}, {"how": "c"}, {"n": np.array(3)}, {"share": np.float32(1)}):
        function(**options)
    function(1, 2, progress=lambda done, n: None)
    function(progress=print)
    assert len(calls) == 6


def test_types_that_fitted_once_are_remembered_without_letting_others_in() -> None:
    @names_arguments
    def function(n: int, progress: Callable[[int], None] | None = None) -> int:
        return n

    for _ in range(2):
        assert function(3) == 3
        for wrong in ("3", 3.0, None):
            with pytest.raises(UsageError, match="n is a whole number"):
                function(wrong)
        function(1, lambda done: None)
        with pytest.raises(UsageError, match="progress is a function"):
            function(1, lambda done, n: None)


def test_constructors_refuse_objects_of_other_classes() -> None:
    with pytest.raises(UsageError, match=r"Row: estimate is an Estimate, not 0\.5"):
        cal.Row("m", "AP", "ap", None, None, 0.5)
    with pytest.raises(UsageError, match="Evaluation: protocol is a Protocol, not 'coco'"):
        cal.Evaluation("coco", cal.demo_cohort(), (), {}, False)


def test_rows_of_a_table_are_whole_numbers_of_rows() -> None:
    table = cal.demo_cohort().predictions("mislabels")
    slices = slice("a"), slice(None, None, 0)
    for rows in (np.zeros(2), np.array([10**6]), np.array([2**63], np.uint64), *slices):
        with pytest.raises(UsageError, match="rows is a"):
            table.rows(rows, table.offsets)


def test_options_that_are_handed_on_are_named() -> None:
    with pytest.raises(UsageError, match="read_maps: there is no option colour"):
        cal.read_maps("a", "b", colour=1)


def test_a_bag_is_asked_for_by_its_number() -> None:
    maps, labels = np.random.default_rng(0).random((2, 3, 4, 4)), np.array([1, 0, 1])
    result = cal.stability(maps, labels, ci=False)
    assert result.bag(1) is not None
    assert result.bag(-1).id == result.bag(1).id
    with pytest.raises(UsageError, match="one of 2 bags, from 0, not 2"):
        result.bag(2)


def test_numbers_of_numpy_are_settings_that_can_be_saved(tmp_path: Path) -> None:
    demo = cal.demo_cohort()
    plain = cal.evaluate(demo, "coco", seed=1, ci=False)
    found = cal.evaluate(demo, "coco", seed=np.int64(1), ci=np.False_, jobs=np.uint8(1))
    assert found.to_json() == plain.to_json()
    found.save(tmp_path / "run")
    assert cal.open_evaluation(tmp_path / "run", differences=np.str_("refuse")).protocol.seed == 1
    columns = {"y": np.arange(20.0) % 7, "g": list("abcde") * 4}
    level = np.float32(0.75)
    fit = cal.mixed_model(columns, "y ~ 1", ["g"], level=level, crossed=np.False_)
    assert json.dumps(fit.as_dict()) == json.dumps(
        cal.mixed_model(columns, "y ~ 1", ["g"], level=0.75).as_dict()
    )
    assert type(replace(plain.protocol, seed=np.int8(3)).seed) is int
    assert own_scalar(np.datetime64("2020")) == np.datetime64("2020")
    array = np.array(1)
    assert own_scalar(array) is array


def test_protocols_made_in_python_obey_the_rules_of_files():
    demo, plain = cal.demo_cohort(), cal.Protocol.load("coco")
    wrong = [
        {"ties": "q"},
        {"thresholds": (0.9, 0.5)},
        {"thresholds": (2.0,)},
        {"score_cut": float("nan")},
        {"interval": "exact"},
        {"rescale_to": (-1.0, 0.0)},
        {"sizes": {"all": (5.0, 1.0)}},
        {"headline": ("XX",)},
        {"metrics": 3},
        {"maps": "anomaly"},
        {"headline": pytest},
        {"metrics": (3,)},
        {"metrics": ("AP",)},
        {"metrics": (replace(plain.metrics[0], name="F1@0.5"),)},
        {"metrics": (replace(plain.metrics[0], kind="x"),)},
        {"metrics": (replace(plain.metrics[0], options={"x": 1}),)},
        {"metrics": (replace(plain.metrics[0], options=3),)},
    ]
    for options in wrong:
        with pytest.raises(CalipersError):
            cal.evaluate(demo, replace(plain, **options), ci=False)
    for options in [
        {"max_dets": 0},
        {"duplicates": "zz"},
        {"threshold": float("nan")},
        {"strict": "no"},
        {"within_class": None},
        {"max_dets": np.array(3)},
        {"size": "all"},
    ]:
        with pytest.raises(CalipersError):
            cal.evaluate(demo, replace(plain, matching=replace(plain.matching, **options)))
    mine = replace(plain, thresholds=(0.3,), level=np.float64(0.9))
    assert cal.evaluate(demo, mine, ci=False).protocol == mine


def test_tables_and_frames_that_are_none_are_refused():
    cohort = cal.demo_cohort()
    parts = {"images": ("ids", "groups"), "references": ("facts", "masks", "label", "points")}
    for part, names in parts.items():
        for name in names:
            for value in (3, "a", np.array(1), {1: 2}, [[1], [2, 3]]):
                with pytest.raises(CalipersError):
                    replace(getattr(cohort, part), **{name: value})
    with pytest.raises(CalipersError):
        replace(cohort, intake=np.array(1))
    for value in (np.zeros(3), {"a": 1}, [[1], [2, 3]], object()):
        with pytest.raises(CalipersError):
            cal.multiverse(cohort, base={"metric": value})
    for value in (3, (), [True], np.array(1), None, "all"):
        with pytest.raises(CalipersError):
            cal.corrupt_maps([np.zeros((3, 3), int)], "shrink", fraction=0.1, labels=value)


def test_masked_entries_and_rows_of_lists_are_no_values():
    masked = np.ma.array(np.arange(20.0), mask=[1] + [0] * 19)
    columns = {"rating": [0, 1] * 10, "iou": np.arange(20.0) / 20, "g": list("abcde") * 4}
    for value in (masked, [[1, 2], [3]] * 10, [[1, 2]] * 20):
        with pytest.raises(cal.InputError):
            cal.mixed_model({**columns, "iou": value}, "iou ~ 1", ["g"])
        with pytest.raises(cal.InputError):
            cal.agreement({**columns, "iou": value}, criteria="iou", replicates=100)
    with pytest.raises(cal.InputError, match="dup-column"):
        cal.agreement({**columns, 1: columns["iou"], "1": columns["iou"]}, criteria="1")
    demo, flags = cal.demo_cohort(), np.ma.array([True] * 120, mask=[1] + [0] * 119)
    with pytest.raises(UsageError, match="masked"):
        demo.take(flags)
    with pytest.raises(UsageError, match="masked"):
        cal.average_precision(demo, np.ma.array([0.5, 0.6], mask=[1, 0]), model="misses-small")
    with pytest.raises(UsageError, match="masked"):
        list(cal.corrupt_maps([np.ma.array([[0, 1]], mask=[[0, 1]])], "shrink", fraction=0.1))


def test_ratings_may_have_the_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"rating": [0, 1] * 10, "iou": np.arange(20.0) / 20})
    frame["rating"] = pandas.array([pandas.NA, *frame["rating"][1:]], dtype="Int64")
    with pytest.raises(cal.InputError, match="rating-missing"):
        cal.agreement(frame, criteria="iou", replicates=100)
    lenient = cal.agreement(frame, criteria="iou", replicates=100, lenient=True)
    plain = cal.agreement(frame[1:].astype({"rating": int}), criteria="iou", replicates=100)
    assert lenient.to_frame().equals(plain.to_frame())


def test_the_name_of_a_journal_may_be_too_long():
    with pytest.raises(cal.InputError):
        cal.tune_fusion(cal.demo_cohort(), "nms", folds=2, rounds=1, journal="x" * 5000)


def test_maps_without_end_are_refused_at_the_first_without_a_name():
    maps = repeat(np.eye(4)[None])
    with pytest.raises(cal.InputError, match="image-count"):
        cal.boxes_from_heatmaps(maps, classes=["a"], image_ids=["a", "b"])


def test_a_column_of_ids_as_a_category_is_refused_before_the_design_is_made():
    n = 4000
    columns = {"y": np.arange(n) % 7, "k": [f"k{i}" for i in range(n // 2)] * 2}
    columns = {**columns, "j": columns["k"][::-1], "g": [f"g{i % 20}" for i in range(n)]}
    tracemalloc.start()
    with pytest.raises(cal.InputError, match="too-large"):
        cal.mixed_model(columns, "y ~ k:j", ["g"])
    with pytest.raises(cal.InputError, match="too-large"):
        cal.mixed_model({**columns, "k": [f"k{i}" for i in range(n)]}, "y ~ k + j", ["g"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


@pytest.mark.parametrize("area", [(10, 5), (5, 5), (float("nan"), 9), (-1, 9), (), (1, 2, 3)])
def test_a_range_of_areas_ascends(area):
    with pytest.raises(cal.UsageError, match="smallest, largest"):
        cal.average_precision(cal.demo_cohort(), model="misses-small", area=area)


class Speechless:
    """An object that cannot describe itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Wordless:
    """An object that describes itself by a number."""

    def __repr__(self) -> str:
        return 5  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [Speechless, Wordless])
@pytest.mark.parametrize("key", ["boxes", "labels", "ignore", "patient", "width", "masks", "area"])
def test_objects_that_cannot_be_written_into_a_message_are_refused(key: str, kind: type) -> None:
    image = {"boxes": [[0, 0, 9, 9]], "labels": [0], key: [kind()]}
    with pytest.raises(CalipersError):
        cal.Cohort.from_arrays([image], classes=("a",))
    with pytest.raises(CalipersError):
        cal.demo_cohort(kind())
    with pytest.raises(CalipersError):
        cal.stability(kind(), [kind()])


@pytest.mark.parametrize(
    "masked",
    [
        np.ma.masked,
        [np.ma.masked],
        np.ma.array(0.5, mask=True),
        np.ma.array([0.1, 0.2], mask=[True, False]),
    ],
)
def test_masked_entries_are_no_values_of_any_argument(masked: object) -> None:
    scores = np.linspace(0, 1, 20)
    for call, name in (
        (lambda: cal.evaluate_monitor(scores, scores, tau=masked), "tau"),
        (lambda: cal.evaluate_monitor(scores, scores, level=masked), "level"),
        (lambda: cal.boxes_from_heatmaps(np.zeros((1, 1, 8, 8)), size=masked), "size"),
        (lambda: cal.nms(np.zeros((2, 4)), masked), "scores"),
    ):
        with pytest.raises(UsageError, match=f"{name} has masked entries"):
            call()


def test_a_mask_is_looked_for_in_every_call() -> None:
    def scores(mask: bool) -> object:
        count = np.ma.array([1.0, 2.0], mask=[mask, False])
        return cal.agreement_scores(count, count, count, count)

    scores(False)
    with pytest.raises(UsageError, match="n00 has masked entries"):
        scores(True)
