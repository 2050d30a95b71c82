"""Cohorts: choosing, joining and extending never changes what is known about an image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

import calipers as cal
from calipers.data.cohort import Cohort
from calipers.data.objects import empty_predictions
from calipers.errors import InputError, UsageError
from evaluated import evaluated_demo
from random_cohorts import random_cohort


def assert_same(a: Cohort, b: Cohort) -> None:
    assert a.images.ids == b.images.ids
    np.testing.assert_array_equal(a.images.size, b.images.size)
    for name in a.images.groups:
        np.testing.assert_array_equal(a.images.groups[name], b.images.groups[name])
    pairs = [(a.references, b.references), *((a.models[name], b.models[name]) for name in a.models)]
    for left, right in pairs:
        for column in fields(left):
            if column.name not in ("facts", "scored"):
                np.testing.assert_array_equal(
                    getattr(left, column.name), getattr(right, column.name)
                )


@pytest.fixture
def cohort() -> Cohort:
    return random_cohort(10, 3, seed=1, models=2, crowd_share=0.2)


def test_take_by_index_flag_and_from_the_end(cohort: Cohort) -> None:
    flags = np.arange(10) % 3 == 0
    assert_same(cohort.take(flags), cohort.take([0, 3, 6, 9]))
    assert_same(cohort.take([-1, 0]), cohort.take([9, 0]))
    assert cohort.take([7, 2, 7]).images.ids == ("image-7", "image-2", "image-7")
    assert cohort.take([]).n_images == 0


@pytest.mark.parametrize(
    "images", [[10], [-11], [0.5], np.ones(9, bool), np.ones((2, 5), bool), ["a"]]
)
def test_take_refuses_what_is_not_there(cohort: Cohort, images) -> None:
    with pytest.raises(UsageError):
        cohort.take(images)


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (3, 7), (5, 5), (9, 10)])
def test_span_is_take_without_copies(cohort: Cohort, start: int, stop: int) -> None:
    span = cohort.span(start, stop)
    assert_same(span, cohort.take(np.arange(start, stop)))
    if len(span.references):
        assert np.shares_memory(span.references.boxes, cohort.references.boxes)


def test_parts_join_to_the_whole(cohort: Cohort) -> None:
    whole = Cohort.concat([cohort.span(0, 4), cohort.span(4, 4), cohort.span(4, 10)])
    assert_same(whole, cohort)
    assert len(whole.intake.files) == 3 * len(cohort.intake.files)


def test_no_group_hides_behind_the_image_itself(cohort: Cohort) -> None:
    assert cohort.group("image").tolist() == list(range(10))
    with pytest.raises(UsageError, match="no group may be called 'image'"):
        cohort.with_groups({"image": np.arange(10)})


def test_concat_keeps_only_shared_groups(cohort: Cohort) -> None:
    more = cohort.span(0, 4).with_groups({"scanner": ["a", "b", "a", "b"]})
    assert list(Cohort.concat([more, cohort.span(4, 10)]).images.groups) == ["patient", "centre"]


def test_concat_refuses_what_does_not_fit(cohort: Cohort) -> None:
    for other, words in (
        (random_cohort(3, 2, seed=1, models=2), "classes"),
        (random_cohort(3, 3, seed=1, models=1), "models"),
        (random_cohort(3, 3, seed=1, models=2, dimensions=3), "2D and 3D"),
        (cohort, "'image-0' is in more than one"),
    ):
        with pytest.raises(UsageError, match=words):
            Cohort.concat([cohort, other])


def test_with_predictions_adds_or_replaces_a_model(cohort: Cohort) -> None:
    silent = empty_predictions(10)
    assert list(cohort.with_predictions("new", silent).models) == ["model-1", "model-2", "new"]
    replaced = cohort.with_predictions("model-1", silent)
    assert list(replaced.models) == ["model-1", "model-2"]
    assert len(replaced.predictions("model-1")) == 0
    assert len(cohort.predictions("model-1")) > 0
    with pytest.raises(UsageError, match="9 images"):
        cohort.with_predictions("new", empty_predictions(9))


def test_with_groups_adds_columns_that_can_be_taken(cohort: Cohort) -> None:
    wider = cohort.with_groups({"scanner": list("abcdefghij")})
    assert wider.take([2, 5]).group("scanner").tolist() == ["c", "f"]
    assert "scanner" not in cohort.images.groups
    with pytest.raises(UsageError, match="3 entries"):
        cohort.with_groups({"scanner": list("abc")})


def test_names_are_looked_up_with_help(cohort: Cohort) -> None:
    assert cohort.group("image").tolist() == list(range(10))
    with pytest.raises(UsageError, match="did you mean 'patient'"):
        cohort.group("patients")
    with pytest.raises(UsageError, match="did you mean 'model-"):
        cohort.predictions("model_1")


def test_keep_removes_objects_and_not_images(cohort: Cohort) -> None:
    references = cohort.references
    kept = references.keep(references.label == 1)
    assert kept.n_images == references.n_images
    assert (kept.label == 1).all()
    np.testing.assert_array_equal(kept.image, references.image[references.label == 1])


@pytest.mark.parametrize("dimensions", [2, 3])
def test_dimensions(dimensions: int) -> None:
    cohort = random_cohort(3, 2, seed=1, dimensions=dimensions)
    assert cohort.dimensions == cohort.predictions("model-1").dimensions == dimensions
    assert cohort.take([]).dimensions == dimensions


def test_a_cohort_prints_as_one_line_and_shows_a_table() -> None:
    import calipers as cal

    cohort = cal.demo_cohort()
    assert repr(cohort) == (
        "<Cohort: 120 images, 189 references, 4 classes; predictions of mislabels (191), "
        "overpredicts (751), misses-small (104)>"
    )
    assert repr(cohort.take(np.arange(3))).startswith("<Cohort: 3 images")
    html = cohort._repr_html_()
    assert "predictions of overpredicts" in html
    assert "751" in html
    assert "120 images; groups: " in html


def test_center_and_centre_are_one_word() -> None:
    import calipers as cal

    box = {"boxes": [[0, 0, 1, 1]], "labels": [0]}
    references = [{**box, "center": name} for name in "AABB"]
    predictions = [{**box, "scores": [0.5]} for _ in references]
    american = cal.Cohort.from_arrays(references, predictions, classes=("a",))
    assert american.group("centre").tolist() == list("AABB")
    rows = cal.evaluate(american, "overview", by="centre", ci=False).rows
    assert {row.group["center"] for row in rows if row.group} == {"A", "B"}
    british = evaluated_demo("overview", by=["center", "centre"], ci=False)
    assert [grouping.by for grouping in british.groupings] == ["centre"]
    north = british.get("AP@0.5", model="mislabels", center="North")
    assert north == british.get("AP@0.5", model="mislabels", centre="North")


def test_a_comparison_becomes_a_frame() -> None:

    evaluation = evaluated_demo("overview", ci=False)
    frame = evaluation.compare(metrics=["F1@0.5"], replicates=100).to_frame()
    assert list(frame["metric"]) == ["F1@0.5"] * 3
    assert {"model_a", "model_b", "difference", "low", "high", "p_adjusted"} <= set(frame.columns)


def test_methods_of_tables_name_what_is_wrong_with_a_choice() -> None:
    cohort = random_cohort(4, 2, seed=1)
    table = cohort.references
    # A shorter list of flags would drop the objects behind its end without a word.
    calls: dict[str, Callable[[], object]] = {
        "one flag per object": lambda: table.keep(np.ones(len(table) - 1, np.bool_)),
        "images from 0 to 4": lambda: table.span(0, 5),
        "span: start is": lambda: table.span("a", 2),  # type: ignore[arg-type]
        "parts is a list of tables": lambda: type(table).concat(["a"]),  # type: ignore[list-item]
        "whole numbers or flags": lambda: cohort.images.take(np.array([0.5])),
    }
    for words, call in calls.items():
        with pytest.raises(UsageError, match=words):
            call()


def test_a_cohort_is_made_of_parts_that_fit_each_other() -> None:
    cohort = random_cohort(6, 2, seed=1)
    images, table = cohort.images, cohort.predictions("model-1")
    flat = np.full((6, 3), np.nan)
    for change, message in (
        ({"classes": ["a", "b"]}, "classes are a tuple of names"),
        ({"classes": ("a", 1)}, "classes are a tuple of names"),
        ({"classes": ("a", "a")}, "two classes are called 'a'"),
        ({"models": {"m": cohort.references}}, "the model 'm' has predictions"),
        ({"maps": {"m": table}}, "the model 'm' has evidence of maps"),
        ({"images": replace(images, size=flat)}, r"images \(size\): expected the shape \(6, 2\)"),
        ({"images": replace(images, spacing=flat)}, r"images \(spacing\): expected the shape"),
    ):
        with pytest.raises(cal.CalipersError, match=message):
            replace(cohort, **change)


def test_columns_with_masked_entries_are_refused() -> None:
    """What lies below a mask is no data, and masked arrays lack methods of others."""
    table = random_cohort(6, 2, seed=1).predictions("model-1")
    for name in ("label", "score", "boxes", "offsets"):
        with pytest.raises(cal.InputError, match="got 'a masked array'"):
            replace(table, **{name: np.ma.masked_array(getattr(table, name))})


def test_ids_that_are_taken_for_classes_are_refused() -> None:
    names = tuple(f"c{k}" for k in range(4097))
    with pytest.raises(InputError, match="at most 4,096 classes"):
        Cohort.from_arrays([{"boxes": [[0, 0, 1, 1]], "labels": [0]}], classes=names)
    Cohort.from_arrays([{"boxes": [[0, 0, 1, 1]], "labels": [0]}], classes=names[:-1])
