"""Tuning: the search by hand, honest folds, a journal that goes on with the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.collect import units_for
from calipers.fusion.recipe import FusionRecipe
from calipers.fusion.result import FusionTuning
from calipers.fusion.search import climb, parameters_of, recipe_at
from calipers.fusion.tune import _folds, tuning_split

PLAN = """
schema = "calipers.recipe/1"
name = "small"
[[step]]
kind = "calibrate"
method = "none"
tune = { method = ["none", "temperature"] }
[[step]]
kind = "weighted-boxes-fusion"
iou_threshold = 0.5
tune = { iou_threshold = [0.3, 0.7], skip_threshold = [0.0, 0.1] }
"""
METRIC = "F1@0.5"  # of the preset overview: quick


def tune(**options: Any) -> FusionTuning:
    settings = {"metric": METRIC, "folds": 3, "rounds": 2, **options}
    return cal.tune_fusion(cal.demo_cohort(), FusionRecipe.from_toml(PLAN), "overview", **settings)


@pytest.fixture(scope="module")
def tuning() -> FusionTuning:
    return tune()


def by_hand(cohort: cal.Cohort, point: tuple[Any, ...]) -> FusionRecipe:
    from calipers.fusion.fuse import fit_calibration

    method, iou, skip = point
    text = PLAN.replace('"none"\ntune', f'"{method}"\ntune')
    text = text.replace("iou_threshold = 0.5", f"iou_threshold = {iou}\nskip_threshold = {skip}")
    lines = [line for line in text.splitlines() if not line.startswith("tune")]
    return fit_calibration(cohort, FusionRecipe.from_toml("\n".join(lines)))


def value(cohort: cal.Cohort, recipe: FusionRecipe) -> float:
    fused = cal.fuse(cohort, recipe, name="x")
    return cal.evaluate(fused, "overview", ci=False)["x", METRIC].value


def search_by_hand(cohort: cal.Cohort, rounds: int) -> tuple[Any, ...]:
    point: tuple[Any, ...] = ("none", 0.5, 0.0)
    ranges = (("none", "temperature"), (0.5, 0.3, 0.7), (0.0, 0.1))
    for _ in range(rounds):
        for k, candidates in enumerate(ranges):
            trials = [(*point[:k], c, *point[k + 1 :]) for c in candidates]
            values = [value(cohort, by_hand(cohort, trial)) for trial in trials]
            best = max(values)
            if best > value(cohort, by_hand(cohort, point)):
                point = trials[values.index(best)]
    return point


def test_the_nested_estimate_is_that_of_doing_it_by_hand(tuning: FusionTuning) -> None:
    demo = cal.demo_cohort()
    fold = _folds(units_for(demo, cal.Protocol.load("overview")), 3, 0)
    assert search_by_hand(demo, 2) == tuple(parameter.choice for parameter in tuning.parameters)
    parts = []
    for k in range(3):
        seen = demo.take(np.flatnonzero(fold != k))
        point = search_by_hand(seen, 2)
        assert point == tuple(parameter.in_folds[k] for parameter in tuning.parameters)
        held_out = demo.take(np.flatnonzero(fold == k))
        parts.append(cal.fuse(held_out, by_hand(seen, point), name="x"))
    together = cal.Cohort.concat(parts)
    expected = cal.evaluate(together, "overview", ci=False)["x", METRIC].value
    assert tuning.held_out.value == expected
    assert tuning.optimistic.value == value(demo, tuning.recipe)
    assert tuning.as_given.value == value(demo, by_hand(demo, ("none", 0.5, 0.0)))


def test_tuning_never_loses_on_its_own_images(tuning: FusionTuning) -> None:
    assert tuning.optimistic.value >= tuning.as_given.value
    assert tuning.gain.estimate.value == tuning.held_out.value - tuning.as_given.value
    assert np.isfinite([tuning.held_out.low, tuning.held_out.high, tuning.gain.p]).all()


def test_folds_are_of_whole_patients() -> None:
    demo = cal.demo_cohort()
    fold = _folds(units_for(demo, cal.Protocol.load("coco")), 5, 0)
    for patient in np.unique(demo.group("patient")):
        assert len(set(fold[demo.group("patient") == patient])) == 1
    sizes = np.bincount([fold[demo.group("patient") == p][0] for p in set(demo.group("patient"))])
    assert sizes.tolist() == [16] * 5
    other = _folds(units_for(demo, cal.Protocol.load("coco")), 5, 1)
    assert (fold != other).any()


def test_the_recipe_is_written_read_and_used(tuning: FusionTuning, tmp_path: Path) -> None:
    recipe = tuning.recipe
    assert recipe.name == "small-tuned"
    assert recipe.provenance["seed"] == 0
    assert recipe.provenance["value_held_out"] == tuning.held_out.value
    assert not any(step.ranges for step in recipe.steps)
    (tmp_path / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    assert FusionRecipe.load(tmp_path / "recipe.toml") == recipe
    assert "small-tuned" in cal.fuse(cal.demo_cohort(), tmp_path / "recipe.toml").models


def test_the_document(tuning: FusionTuning) -> None:
    document = json.loads(tuning.to_json())
    assert document["schema"] == "calipers.tuning/1"
    assert [row["model"] for row in document["rows"]] == [
        "as given",
        "tuned, same images",
        "tuned, held-out folds",
    ]
    assert [table.name for table in tuning.tables()] == ["table-tuning", "table-parameters"]
    title = tuning.figure("tuning").title
    assert "on held-out folds" in title
    assert "chose the parameters" in title


class Kill(Exception):
    """The process ends here."""


@pytest.mark.parametrize("moment", [1, 9, 20])
def test_a_killed_search_goes_on_with_the_same_bits(
    tuning: FusionTuning, tmp_path: Path, moment: int
) -> None:
    journal = tmp_path / "journal.jsonl"

    def kill(name: str, step: int, total: int) -> None:
        assert step <= total
        if step >= moment:
            raise Kill

    with pytest.raises(Kill):
        tune(journal=journal, progress=kill)
    n_before = len(journal.read_text().splitlines())
    with open(journal, "a", encoding="utf-8") as file:
        file.write('{"trial": "[0, ')  # the line that the kill cut off
    again = tune(journal=journal)
    assert again.to_json() == tuning.to_json()
    lines = journal.read_text().splitlines()
    assert len(lines) == 1 + tuning.n_trials >= n_before
    assert all(map(json.loads, lines))


def test_values_of_a_journal_that_were_changed_are_computed_again(
    tuning: FusionTuning, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    tune(journal=journal)
    first, *lines = journal.read_text().splitlines()
    lines[0] = lines[0].replace('"value": 0.', '"value": 9.')
    lines[1] = lines[1].replace('"value": ', '"value": "x", "was": ')
    lines[2:5] = ['{"trial": [1], "value": 1.0}', "[" * 100_000, '{"trial": "a"}']
    journal.write_text("\n".join([first, *lines, ""]))
    assert tune(journal=journal).to_json() == tuning.to_json()


def test_threads_change_neither_the_result_nor_the_journal(
    tuning: FusionTuning, tmp_path: Path
) -> None:
    for jobs in (1, 3):
        assert tune(journal=tmp_path / str(jobs), jobs=jobs).to_json() == tuning.to_json()
    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()


def test_the_journal_of_another_search_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    tune(journal=journal, rounds=1)
    with pytest.raises(cal.InputError, match=r"seed = 1.*resume-mismatch"):
        tune(journal=journal, seed=1)
    journal.write_text("something else")
    with pytest.raises(cal.InputError, match="journal of a search"):
        tune(journal=journal)


def test_a_recipe_without_ranges_gets_sensible_ones() -> None:
    recipe, parameters = parameters_of(FusionRecipe.load("endocv2022"), ["a", "b"])
    assert [step.kind for step in recipe.steps][:2] == ["calibrate", "nms"]
    assert [parameter.name for parameter in parameters] == [
        "calibrate (step 1): method",
        "nms (step 2): iou_threshold",
        "weighted-boxes-fusion (step 3): iou_threshold",
        "weighted-boxes-fusion (step 3): skip_threshold",
        "weighted-boxes-fusion (step 3): confidence",
        "resize (step 4): factor",
        "resize (step 4): score_above",
        "weight of a",
        "weight of b",
    ]
    point = tuple(parameter.start for parameter in parameters)
    assert recipe_at(recipe, parameters, point).weights == {}
    soft = parameters_of(FusionRecipe.load("soft-nms"), ["a"])[1]
    assert "iou_threshold" not in [parameter.option for parameter in soft]


def test_ties_leave_the_recipe_as_it_is_and_lower_can_be_better() -> None:
    _, parameters = parameters_of(FusionRecipe.from_toml(PLAN), ["a"])
    start = tuple(parameter.start for parameter in parameters)
    assert climb(parameters, lambda points: [1.0] * len(points), rounds=3, lower=False) == start
    best = climb(
        parameters, lambda points: [float(point[1]) for point in points], rounds=3, lower=True
    )
    assert best == ("none", 0.3, 0.0)

    def values_of(points: Any) -> list[float]:
        return [np.nan if point[0] == "none" else 0.1 for point in points]

    undefined = climb(parameters, values_of, rounds=1, lower=True)
    assert undefined[0] == "temperature"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tune = { iou = [0.5] }", "unknown-key"),
        ("tune = { iou_threshold = [0.5, 2] }", "of at most 1"),
        ("tune = { iou_threshold = [] }", "not empty"),
    ],
)
def test_bad_ranges_are_refused(text: str, message: str) -> None:
    with pytest.raises(cal.InputError, match=message):
        FusionRecipe.from_toml(
            f'schema = "calipers.recipe/1"\nname = "x"\n[[step]]\nkind = "nms"\n{text}'
        )


def test_splits() -> None:
    demo = cal.demo_cohort()
    units = units_for(demo, cal.Protocol.load("coco"))
    tuning, others = tuning_split(demo, "0.25", units, 0)
    patients = demo.group("patient")
    assert len(set(patients[tuning])) == 20
    assert not set(patients[tuning]) & set(patients[others])
    assert sorted([*tuning, *others]) == list(range(120))
    demo = demo.with_groups({"half": np.array(["x", "y"] * 60)})
    with pytest.raises(cal.InputError, match="patient-overlap"):
        tuning_split(demo, "half=x", units, 0)
    for text, message in (
        ("half=z", "takes none of the images"),
        ("2", "a share between 0 and 1"),
        ("x", "a share between 0 and 1"),
    ):
        with pytest.raises(cal.UsageError, match=message):
            tuning_split(demo, text, units, 0)


def test_what_cannot_be_tuned_is_refused() -> None:
    with pytest.raises(cal.UsageError, match="80 patients"):
        tune(folds=90)
    nothing = {"boxes": np.zeros((0, 4)), "labels": []}
    box = {"boxes": [[0, 0, 1, 1]], "labels": [0], "scores": [0.5]}
    empty = cal.Cohort.from_arrays([nothing] * 4, {"m": [box] * 4}, classes=("a",))
    with pytest.raises(cal.InputError, match="AP50 has a value"):
        cal.tune_fusion(empty, "wbf", metric="AP50", folds=2)
