"""Images that end the worker that matches them: strict work names them, lenient work is that of
the other images.

The executor here "loses its worker" whenever a call has one of the deadly images; real processes
that die are in tests/cli/test_deadly.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.cli.main import run
from calipers.engine.leniency import Leniency
from calipers.engine.ordered_map import Part, WorkerDied
from calipers.engine.store import merged, opened
from calipers.evaluation import collect
from calipers.matching.deadly_images import on_survivors
from random_cohorts import random_cohort

PROTOCOL = replace(cal.Protocol.load("overview").only(["F1@0.5", "AP@0.5"]), replicates=100)
DEADLY = ("7", "21", "22")


class Mortal(Executor):
    """Works at once, unless a call has to do with a deadly image of one of the models."""

    def __init__(self, deadly: tuple[str, ...] = DEADLY, models: tuple[str, ...] = ()) -> None:
        self.deadly, self.models = deadly, models
        self.n_deaths = 0

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        cohort, model, _ = args[0]
        is_mortal = not self.models or model in self.models
        if is_mortal and set(self.deadly) & set(cohort.images.ids):
            self.n_deaths += 1
            future.set_exception(WorkerDied("signal 9, SIGKILL"))
        else:
            future.set_result(call(*args, **kwargs))
        return future


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "BLOCK", 8)


@pytest.fixture(scope="module")
def cohort() -> cal.Cohort:
    whole = random_cohort(40, 2, seed=1, models=2)
    # Ids are not the numbers of the images: those would also be right by accident.
    ids = tuple(str(k) for k in range(39, -1, -1))
    return replace(whole, images=replace(whole.images, ids=ids))


def rows_of(evaluation: Any) -> list[dict[str, Any]]:
    return [row.as_dict() for row in evaluation.rows]


def without(cohort: cal.Cohort, deadly: tuple[str, ...] = DEADLY) -> cal.Cohort:
    places = [k for k, name in enumerate(cohort.images.ids) if name not in deadly]
    return cohort.take(np.array(places))


def test_strict_work_names_the_image(cohort: cal.Cohort) -> None:
    with pytest.raises(cal.InputError, match=r"image '22'.*SIGKILL.*worker-died(.|\n)*--lenient"):
        cal.evaluate(cohort, PROTOCOL, executor=Mortal())


@pytest.mark.parametrize("models", [(), ("model-2",)])
def test_lenient_work_is_that_of_the_other_images(
    cohort: cal.Cohort, models: tuple[str, ...]
) -> None:
    """Also those that only one of the models dies of: models are compared on the same images."""
    executor = Mortal(models=models)
    evaluation = cal.evaluate(cohort, PROTOCOL, executor=executor, lenient=True)
    assert executor.n_deaths > len(DEADLY)
    others = without(cohort)
    assert rows_of(evaluation) == rows_of(cal.evaluate(others, PROTOCOL))
    assert evaluation.cohort.images.ids == others.images.ids
    before = {file.role: file for file in cohort.intake.files}
    for file in evaluation.cohort.intake.files:
        lost = before[file.role].used - file.used
        assert file.quarantined.get("worker-died", 0) == lost
        assert file.read == before[file.role].read
    tables = (cohort.references, *cohort.models.values())
    of_others = (others.references, *others.models.values())
    n_lost = sum(map(len, tables)) - sum(map(len, of_others))
    assert n_lost > 0
    assert [record.rule for record in evaluation.cohort.intake.quarantine] == (
        ["worker-died"] * n_lost
    )
    (note,) = [text for text in evaluation.warnings if "set aside (--lenient)" in text]
    assert "3 images were set aside (--lenient): 22 (signal 9, SIGKILL), 21 (" in note


def test_a_saved_lenient_result_verifies(cohort: cal.Cohort, tmp_path: Path) -> None:
    evaluation = cal.evaluate(cohort, PROTOCOL, executor=Mortal(), lenient=True)
    evaluation.save(tmp_path / "result")
    assert run(["verify", str(tmp_path / "result"), "-q"]) == 0
    lines = (tmp_path / "result" / "quarantine.jsonl").read_text().splitlines()
    places = {json.loads(line)["location"] for line in lines}
    assert places <= {f"image '{name}'" for name in DEADLY}


def test_images_that_are_too_much_only_together_are_all_kept(cohort: cal.Cohort) -> None:
    class Small(Mortal):
        def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            ids = args[0][0].images.ids
            self.deadly = ids if len(ids) > 3 else ()
            return super().submit(call, *args, **kwargs)

    evaluation = cal.evaluate(cohort, PROTOCOL, executor=Small(), lenient=True)
    assert rows_of(evaluation) == rows_of(cal.evaluate(cohort, PROTOCOL))
    assert not evaluation.cohort.intake.quarantine


def test_a_block_of_deadly_images_only_is_lost_as_a_whole(cohort: cal.Cohort) -> None:
    deadly = cohort.images.ids[8:16]
    evaluation = cal.evaluate(cohort, PROTOCOL, executor=Mortal(deadly), lenient=True)
    assert rows_of(evaluation) == rows_of(cal.evaluate(without(cohort, deadly), PROTOCOL))


def test_too_many_deadly_images_end_lenient_work_too(cohort: cal.Cohort) -> None:
    how: dict[str, Any] = {"executor": Mortal(), "lenient": True}
    with pytest.raises(cal.InputError, match=r"mostly-broken"):
        cal.evaluate(cohort, PROTOCOL, allow_loss=0.05, **how)
    how["executor"] = Mortal(cohort.images.ids)
    with pytest.raises(cal.InputError, match=r"40 of 40 \(worker-died 40\)"):
        cal.evaluate(cohort, PROTOCOL, allow_loss=1.0, **how)


def test_parts_that_set_images_aside_are_merged_to_the_same(
    cohort: cal.Cohort, tmp_path: Path
) -> None:
    plan = collect.collection_plan(cohort, PROTOCOL, ["evaluate"], lenient=True)
    folders = []
    for k in (1, 2, 3):
        part = Part(k, 3)
        folders.append(tmp_path / f"part{k}")
        with opened(folders[-1], plan, part) as store:
            collect.collect_part(cohort, PROTOCOL, store, executor=Mortal(), lenient=True)
    store, _ = merged(folders)
    evaluation = cal.evaluate(cohort, PROTOCOL, store=store, lenient=True)
    assert rows_of(evaluation) == rows_of(cal.evaluate(without(cohort), PROTOCOL))


def test_a_run_that_goes_on_knows_what_was_set_aside(cohort: cal.Cohort, tmp_path: Path) -> None:
    plan = collect.collection_plan(cohort, PROTOCOL, ["evaluate"], lenient=True)

    class Stopped(Exception):
        pass

    def stop(n_done: int, total: int) -> None:
        if n_done == 4:
            raise Stopped

    how: dict[str, Any] = {"executor": Mortal(), "lenient": True}
    with opened(tmp_path / "blocks", plan) as store, pytest.raises(Stopped):
        cal.evaluate(cohort, PROTOCOL, store=store, progress=stop, **how)
    with opened(tmp_path / "blocks", plan) as store:
        evaluation = cal.evaluate(cohort, PROTOCOL, store=store, **how)
        assert store.n_read > 0
    assert rows_of(evaluation) == rows_of(cal.evaluate(without(cohort), PROTOCOL))


@pytest.mark.parametrize("what", ["multiverse", "sweep", "monitor"])
def test_work_without_blocks_begins_again_without_the_image(cohort: cal.Cohort, what: str) -> None:
    def work(images: cal.Cohort, **how: Any) -> Any:
        if what == "multiverse":
            grid = {"metric": ["F1", "AP"], "criterion": ["box-iou"]}
            result = cal.multiverse(images, grid, **how)
            return [result.values.tolist(), result.n_images]
        if what == "sweep":
            over = {"threshold": [0.3, 0.6]}
            swept = cal.sweep(images, ["F1@0.5"], over, protocol=PROTOCOL, ci=False, **how)
            return [swept.value.tolist(), swept.n_images]
        return cal.scope_scores(images, model="model-1", **how).score.tolist()

    def on_mortal(images: cal.Cohort) -> Any:
        return work(images, executor=Mortal())

    result, rest = on_survivors(on_mortal, cohort, Leniency(lenient=True))
    assert result == work(without(cohort))
    assert rest.images.ids == without(cohort).images.ids
    assert sum(file.quarantined.get("worker-died", 0) for file in rest.intake.files) > 0
    with pytest.raises(cal.InputError, match="worker-died"):
        on_survivors(on_mortal, cohort, Leniency())
    with pytest.raises(cal.InputError, match="mostly-broken"):
        on_survivors(on_mortal, cohort, Leniency(lenient=True, allow_loss=0.05))
