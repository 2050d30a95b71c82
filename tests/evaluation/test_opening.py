"""A saved evaluation comes back from its folder alone, bit by bit; what does not come out the same
is named.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.objects import Predictions
from calipers.evaluation.saved import open_folder
from cases import cohort_of
from evaluated import evaluated_demo
from preset_lists import BOX_PRESETS
from stored import edit, refusal

BOX = {"boxes": [[1.0, 2.0, 30.1, 40.2]], "labels": [0]}
FAST = replace(cal.Protocol.load("overview"), replicates=100)
# Where groups and settings have to come back, two metrics say as much as all.
FEW = FAST.only(["AP@0.5", "sensitivity@0.5"])


@pytest.fixture(autouse=True)
def _quick_page(monkeypatch, request):
    """Pages take longer than all the rest, and only one test looks at them."""
    if "pages" not in request.fixturenames:
        monkeypatch.setattr(
            cal.Evaluation, "report", lambda self, path, **options: path.write_text("page")
        )


@pytest.fixture
def pages():
    """Let pages be made."""


def same_bits(a: Any, b: Any) -> bool:
    """Arrays of one kind with the same bytes; texts may be held in cells of another width."""
    if a.dtype.kind in "UO":
        return a.tolist() == b.tolist() and b.dtype.kind in "UO"
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def assert_same_objects(a: Any, b: Any) -> None:
    for field in fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if field.name == "facts":
            assert list(one) == list(other)
            assert all(same_bits(one[name], other[name]) for name in one)
        elif field.name == "scored" or one is None:
            assert one is other
        elif field.name == "masks":
            assert all(
                same_bits(getattr(one, part.name), getattr(other, part.name))
                for part in fields(one)
            )
        else:
            assert same_bits(one, other), field.name


def assert_same(a: cal.Evaluation, b: cal.Evaluation) -> None:
    """Two evaluations are one: cohort, protocol, every estimate, groups, warnings, document and
    page.
    """
    assert a.protocol == b.protocol
    assert (a.cohort.classes, a.models, a.ci) == (b.cohort.classes, b.models, b.ci)
    assert a.cohort.images.ids == b.cohort.images.ids
    assert same_bits(a.cohort.images.size, b.cohort.images.size)
    assert same_bits(a.cohort.images.spacing, b.cohort.images.spacing)
    assert list(a.cohort.images.groups) == list(b.cohort.images.groups)
    for name, column in a.cohort.images.groups.items():
        assert same_bits(column, b.cohort.images.groups[name]), name
    assert_same_objects(a.cohort.references, b.cohort.references)
    for model in a.models:
        assert_same_objects(a.cohort.models[model], b.cohort.models[model])
    assert a.cohort.intake == b.cohort.intake
    assert [repr(row) for row in a.rows] == [
        repr(row) for row in b.rows
    ]  # the digits of repr are the bits
    assert repr(a.groups) == repr(b.groups)
    assert a.warnings == b.warnings
    assert a.to_json() == b.to_json()


def returns(evaluation: cal.Evaluation, place: Path) -> cal.Evaluation:
    """Save, open, and check that nothing changed."""
    folder = evaluation.save(place / "saved")
    again = cal.open_evaluation(folder)
    assert_same(evaluation, again)
    return again


def arrays(n: int = 6, **further: Any) -> list[dict[str, Any]]:
    return [
        {**BOX, "width": 99, "height": 99, **{key: value[k] for key, value in further.items()}}
        for k in range(n)
    ]


def said(n: int = 6, **changes: Any) -> list[dict[str, Any]]:
    return [{**BOX, "scores": [0.1 + k / 10], **changes} for k in range(n)]


@pytest.mark.parametrize("preset", BOX_PRESETS)
def test_the_demo_comes_back(preset, tmp_path):
    evaluation = evaluated_demo(replace(cal.Protocol.load(preset), replicates=100))
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


@pytest.mark.parametrize(
    "kind",
    [
        "crowds",
        "ignored",
        "declared areas",
        "tied scores",
        "mostly empty",
        "volumes",
        "volumes on a grid",
    ],
)
def test_awkward_cohorts_come_back(kind, tmp_path):
    evaluation = cal.evaluate(cohort_of(kind, seed=3, n_images=30, models=2), FAST, seed=7)
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


@pytest.mark.parametrize(
    "by",
    [
        # Each part of the last one alone, at the price of an evaluation and a reopening.
        pytest.param(("centre",), marks=pytest.mark.slow),
        pytest.param(("size",), marks=pytest.mark.slow),
        ("centre,size", "class"),
        ("visits=1:2", "size=400:2500", "centre,class"),
    ],
)
def test_groups_come_back(by, tmp_path):
    cohort = cal.demo_cohort()
    visits = np.arange(cohort.n_images) % 4
    evaluation = cal.evaluate(cohort.with_groups({"visits": visits}), FEW, by=by)
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": "image"},
        {"cluster": ("centre", "patient")},
        {"strata": "centre"},
        {"interval": "percentile", "level": 0.9},
        {"interval": "bca"},
        {"replicates": 0},
        {"size_from": "box", "rescale_to": (100.0, 100.0)},
        {"seed": 2**63},
    ],
)
def test_ways_of_being_sure_come_back(changes, tmp_path):
    evaluation = evaluated_demo(replace(FEW, **changes))
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


def test_an_evaluation_without_intervals_comes_back(tmp_path):
    assert not returns(evaluated_demo(FAST, ci=False, by="centre"), tmp_path).ci


NAMES = [
    '"quoted", comma',
    "=1+1",
    "Ünïcödé 肺 🫁",
    "",
    "a\nb\tc",
    "'; DROP TABLE",
    " ",
    "x" * 5000,
]


def test_names_come_back_to_the_letter(tmp_path):
    n = len(NAMES)
    records = [
        {**record, "labels": [k], "image_id": f"{k}{NAMES[k]}"}
        for k, record in enumerate(
            arrays(n, patient=NAMES, model=NAMES, group_model=NAMES, image_=NAMES)
        )
    ]
    found = [
        {**record, "labels": [k], "image_id": f"{k}{NAMES[k]}"} for k, record in enumerate(said(n))
    ]
    found = [{**record, "scores": [0.5]} for record in found]
    cohort = cal.Cohort.from_arrays(
        records, dict.fromkeys(NAMES, found), classes=[f"c{name}" for name in NAMES]
    )
    again = returns(cal.evaluate(cohort, replace(FEW, cluster="image"), by=["patient"]), tmp_path)
    assert again.models == tuple(NAMES)
    assert "" in {row.group["patient"] for row in again.rows if row.group}


@pytest.mark.parametrize(
    "column",
    [
        np.arange(6, dtype=np.int8),
        np.arange(6, dtype=np.uint64) + 2**63,
        np.array([0.1, np.nan, -0.0, 1e300, 5e-324, 2.0]),
        np.array([0.1, 2, 3, 4, 5, 6], np.float32),
        np.array([True, False] * 3),
        np.array(["10", "9", "", "é", "A", "a"]),
        np.array(["10", "9", "B", "é", "A", "a"]),
        np.arange(6, dtype=">i4"),
    ],
    ids=lambda column: column.dtype.str,
)
def test_columns_keep_their_kind_and_with_it_the_order_of_units(column, tmp_path):
    cohort = cal.Cohort.from_arrays(arrays(), said(), classes=("a",)).with_groups({"unit": column})
    missing = (column != column) | (
        column == ""
    )  # images without a unit: it cannot be what is drawn
    evaluation = cal.evaluate(
        cohort, replace(FAST, cluster="image" if missing.any() else "unit"), by="unit"
    )
    folder = evaluation.save(tmp_path / "out")
    again = cal.open_evaluation(folder)
    assert [repr(row) for row in again.rows] == [repr(row) for row in evaluation.rows]
    held = again.cohort.group("unit")
    assert held.dtype == column.dtype.newbyteorder("=") or column.dtype.kind == "U"
    assert held.tolist().__repr__() == column.tolist().__repr__()


def test_facts_come_back_also_where_two_tables_mean_different_things(tmp_path):
    cohort = cal.Cohort.from_arrays(arrays(), {"a": said(), "b": said()}, classes=("a", "never"))
    facts = {
        "rating": np.array([0.1, 1e300, -0.0, 3.0, 4.0, 5.0]),
        "type": np.array(list("abcdef")),
    }
    cohort = replace(
        cohort,
        references=replace(cohort.references, facts=facts),
        models={
            "a": replace(
                cohort.models["a"],
                facts={"rating": np.array(list("ghijkl")), "flag": np.arange(6) > 2},
            ),
            "b": replace(cohort.models["b"], facts={"flag": np.arange(6)}),
        },
    )
    evaluation = cal.evaluate(cohort, FAST)
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


def test_a_model_that_says_nothing_and_one_without_scores_come_back(tmp_path):
    nothing = [{"boxes": np.zeros((0, 4)), "labels": [], "scores": []}] * 6
    cohort = cal.Cohort.from_arrays(
        arrays(), {"silent": nothing, "plain": said()}, classes=("a", "b")
    )
    plain = replace(cohort.models["plain"], score=np.ones(6), scored=False)
    again = returns(cal.evaluate(cohort.with_predictions("plain", plain), FAST), tmp_path)
    assert [p.scored for p in again.cohort.models.values()] == [True, False]
    assert any("no scores; all count as 1" in warning for warning in again.warnings)


def test_a_cohort_without_any_object_comes_back(tmp_path):
    nothing = {"boxes": np.zeros((0, 4)), "labels": []}
    cohort = cal.Cohort.from_arrays([nothing] * 3, [{**nothing, "scores": []}] * 3, classes=("a",))
    evaluation = cal.evaluate(cohort, FAST)
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


def test_raw_scores_come_back(tmp_path):
    found = [{**BOX, "scores": [score]} for score in (-3.5, 1e6, 0.0, -0.0, 5e-324, 7.25)]
    cohort = cal.Cohort.from_arrays(arrays(), found, classes=("a",), score_scale="raw")
    evaluation = cal.evaluate(cohort, FAST)
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


def test_areas_from_sides_as_delivered_come_back(tmp_path):
    """`(x + w) - x` is not `w`: the area of the box has to be stored, not computed from the
    corners.
    """
    boxes = [{"boxes": [[1000.1 + k, 0.7, 32.3, 31.7]], "labels": [0]} for k in range(6)]
    found = [{**record, "scores": [0.5]} for record in boxes]
    cohort = cal.Cohort.from_arrays(boxes, found, classes=("a",), box_format="xywh")
    corners = cohort.references.boxes
    assert ((corners[:, 2:] - corners[:, :2]).prod(axis=1) != cohort.references.extent).any()
    evaluation = cal.evaluate(
        cohort, replace(cal.Protocol.load("coco"), replicates=100, size_from="box")
    )
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()


@pytest.fixture
def files(tmp_path):
    """References and predictions on disk, some records broken."""
    images = [{"id": k, "width": 90, "height": 90, "patient": f"p{k}"} for k in (1, 2, 3, "x")]
    objects = [
        {"id": k, "image_id": i, "category_id": 1, "bbox": [5, 5, 9, 9]}
        for k, i in enumerate((1, 2, "x"))
    ]
    objects.append({"id": 9, "image_id": 3, "category_id": 1, "bbox": [5, 5, 0, 9]})
    references = {"images": images, "categories": [{"id": 1, "name": "n"}], "annotations": objects}
    found = [
        {"image_id": i, "category_id": 1, "bbox": [5, 5, 9, 8], "score": s}
        for i, s in ((1, 0.5), ("x", 0.2))
    ]
    found.append({"image_id": 2, "category_id": 1, "bbox": [5, 5, 9, 8], "score": 7})
    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / "refs.json").write_text(json.dumps(references))
    (folder / "ours.json").write_text(json.dumps(found))
    return folder


def test_what_was_set_aside_comes_back_and_the_inputs_may_be_gone(files, tmp_path):
    cohort = cal.read(files / "refs.json", files / "ours.json", lenient=True)
    assert cohort.intake.quarantined == 2
    evaluation = cal.evaluate(cohort, FAST)
    folder = evaluation.save(tmp_path / "saved")
    shutil.rmtree(files)
    again = cal.open_evaluation(folder)
    assert_same(evaluation, again)
    assert [record.rule for record in again.cohort.intake.quarantine] == [
        "zero-area",
        "score-range",
    ]
    assert sum("set aside" in warning for warning in again.warnings) == 2


@pytest.mark.usefixtures("pages")
def test_the_page_is_the_same_to_the_byte(tmp_path):
    folder = evaluated_demo(FEW, by="centre").save(tmp_path / "saved")
    again = cal.open_evaluation(folder)
    assert (
        again.report(tmp_path / "page.html").read_bytes() == (folder / "report.html").read_bytes()
    )


def test_what_was_opened_can_be_saved_compared_and_opened_again(tmp_path):
    first = evaluated_demo(FAST)
    second = cal.open_evaluation(first.save(tmp_path / "a"))
    third = cal.open_evaluation(second.save(tmp_path / "b"))
    assert_same(first, third)
    assert repr(third.compare("mislabels", "overpredicts")) == repr(
        first.compare("mislabels", "overpredicts")
    )
    for name in ("evaluation.json", "objects.parquet", "images.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    evaluation = evaluated_demo(FEW, by="centre")
    return evaluation.save(tmp_path_factory.mktemp("made") / "out")


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "out"))


def test_a_number_that_does_not_come_out_is_named(folder):
    def change(document):
        document["rows"][7]["value"] = 0.125

    now = json.loads((folder / "evaluation.json").read_text())["rows"][7]
    edit(folder, change)
    error = refusal(folder)
    assert (error.rule, error.location, error.value) == (
        "not-reproduced",
        "/rows/7/value",
        repr(now["value"]),
    )
    assert "0.125" in error.expected
    assert f"{now['model']}, {now['metric']}" in error.expected
    assert f"calipers {cal.__version__}, numpy {np.__version__}" in error.hint


def test_the_last_bit_counts_and_so_does_the_sign_of_zero(folder):
    def change(document):
        row = document["rows"][0]
        row["high"] = float(np.nextafter(row["high"], 1))
        document["statistics"]["beside"][3]["percentile"][0] += 1e-16

    edit(folder, change)
    opened = open_folder(folder)
    assert [one.place for one in opened.changed] == [
        "/rows/0/high",
        "/statistics/beside/3/percentile",
    ]


def test_differences_can_be_a_warning_that_stays_with_the_numbers(folder):
    edit(folder, lambda document: document["rows"][0].update(value=0.5))
    with pytest.warns(
        UserWarning, match="1 of .* stored values differ; the first is /rows/0/value"
    ):
        evaluation = cal.open_evaluation(folder, differences="warn")
    assert evaluation.rows[0].estimate.value != 0.5
    assert any("stored values differ" in warning for warning in evaluation.warnings)
    with pytest.raises(cal.UsageError, match="'refuse' or 'warn'"):
        cal.open_evaluation(folder, differences="ignore")  # type: ignore[arg-type]


def test_rows_that_are_gone_are_noticed(folder):
    edit(folder, lambda document: document["rows"].pop())
    assert refusal(folder).location == "/rows"


def test_the_page_can_change_without_harm(folder):
    (folder / "report.html").unlink()
    assert cal.open_evaluation(folder).models


@pytest.mark.slow
def test_a_large_folder_opens_in_reasonable_time(tmp_path):
    from random_cohorts import random_cohort

    cohort = random_cohort(5000, 10, seed=1, objects=14.0)
    assert isinstance(cohort.models["model-1"], Predictions)
    evaluation = cal.evaluate(cohort, "coco", ci=False)
    evaluation = evaluation
    assert returns(evaluation, tmp_path).to_json() == evaluation.to_json()
