"""COCO JSON: what is read, what is refused, and with which rule and place."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from calipers.errors import InputError, InputProblems
from coco_cases import REFERENCES, RESULTS, changed, try_references, try_results
from refusals import assert_refused_or_set_aside


def test_images_and_classes_are_in_the_order_of_their_ids(tmp_path):
    cohort = try_references(tmp_path, REFERENCES)
    assert cohort.images.ids == ("0", "3", "12")
    assert cohort.classes == ("adenoma", "polyp")
    assert cohort.images.size.tolist() == [[100, 100], [100, 100], [200, 100]]
    assert cohort.references.offsets.tolist() == [0, 2, 2, 4]


def test_objects_keep_boxes_labels_flags_and_declared_areas(tmp_path):
    table = try_references(tmp_path, REFERENCES).references
    assert table.boxes.tolist() == [
        [0, 0, 50, 60],
        [5, 5, 25, 25],
        [10, 20, 40.5, 60],
        [1, 2, 4, 6],
    ]
    assert table.label.tolist() == [0, 1, 1, 0]
    assert table.area.tolist() == [100.5, 400, 1220, 12]
    assert table.crowd.tolist() == [True, False, False, False]
    assert table.ignore.tolist() == [True, False, False, True]
    assert table.place.tolist() == [1, 3, 0, 2]


def test_scalars_of_images_become_groups_under_our_words(tmp_path):
    cohort = try_references(tmp_path, REFERENCES)
    assert cohort.images.groups["patient"].tolist() == ["p1", "p2", "p2"]
    assert cohort.images.groups["centre"].tolist() == ["C1", "C2", "C1"]
    assert cohort.images.groups["file_name"].tolist() == ["a.png", "c.png", "b.png"]
    assert "column 'patient_id' is read as 'patient'" in cohort.intake.notes


def test_a_scalar_that_not_every_image_has_is_no_group(tmp_path):
    cohort = try_references(tmp_path, changed(REFERENCES, "images", 1, "patient_id", to=KeyError))
    assert "patient" not in cohort.images.groups


def test_results_keep_scores_and_input_order_inside_an_image(tmp_path):
    cohort = try_results(tmp_path, RESULTS)
    table = cohort.models["dets"]
    assert table.score.tolist() == [0.25, 1, 0, 0.9]
    assert table.scored
    assert table.place.tolist() == [1, 2, 3, 0]


def test_empty_results_are_a_model_that_misses_everything(tmp_path):
    cohort = try_results(tmp_path, [])
    assert len(cohort.models["dets"]) == 0
    assert "3 of 3 images without prediction" in cohort.intake.notes


def test_a_scored_document_is_matched_by_the_names_of_its_categories(tmp_path):
    document = {
        "annotations": RESULTS,
        "categories": [{"id": 5, "name": "adenoma"}, {"id": 2, "name": "polyp"}],
    }
    by_name = try_results(tmp_path, document).models["dets"]
    by_number = try_results(tmp_path, RESULTS).models["dets"]
    assert by_name.label.tolist() == (1 - by_number.label).tolist()


def test_the_declared_sizes_may_be_missing(tmp_path):
    document = changed(REFERENCES, "images", 0, "width", to=KeyError)
    assert np.isnan(try_references(tmp_path, document).images.size[2, 0])


def test_three_dimensional_boxes(tmp_path):
    document = {
        "images": [{"id": 1, "width": 9, "height": 9, "depth": 9}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4, 5, 6]}],
        "categories": [{"id": 1, "name": "nodule"}],
    }
    result = [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4, 5, 5], "score": 0.5}]
    cohort = try_results(tmp_path, result, document)
    assert cohort.dimensions == 3
    assert cohort.references.boxes.tolist() == [[1, 2, 3, 5, 7, 9]]
    assert cohort.models["dets"].boxes.shape == (1, 6)


ANN = ("annotations", 1)
BROKEN_REFERENCES = [
    ("id-type", "/annotations/1/image_id", changed(REFERENCES, *ANN, "image_id", to=1.0)),
    ("id-type", "/annotations/1/image_id", changed(REFERENCES, *ANN, "image_id", to="0")),
    ("id-type", "/annotations/1/category_id", changed(REFERENCES, *ANN, "category_id", to=True)),
    ("id-range", "/annotations/1/image_id", changed(REFERENCES, *ANN, "image_id", to=2**53 + 1)),
    ("id-range", "/annotations/1/id", changed(REFERENCES, *ANN, "id", to=10**30)),
    ("dangling", "/annotations/1/image_id", changed(REFERENCES, *ANN, "image_id", to=77)),
    ("dangling", "/annotations/1/category_id", changed(REFERENCES, *ANN, "category_id", to=77)),
    ("missing-key", "/annotations/1/image_id", changed(REFERENCES, *ANN, "image_id", to=KeyError)),
    ("dup-annotation", "/annotations/1/id", changed(REFERENCES, *ANN, "id", to=7)),
    ("box-shape", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=[1, 2, 3])),
    ("box-shape", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=[1, 2, 3, 4, 5])),
    ("box-shape", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=None)),
    ("box-shape", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=KeyError)),
    ("type", "/annotations/1/bbox/2", changed(REFERENCES, *ANN, "bbox", to=[1, 2, "10", 4])),
    ("type", "/annotations/1/bbox/3", changed(REFERENCES, *ANN, "bbox", to=[1, 2, 10, True])),
    ("type", "/annotations/1", changed(REFERENCES, *ANN, to=[1, 2])),
    (
        "non-finite",
        "/annotations/1/bbox/0",
        changed(REFERENCES, *ANN, "bbox", to=[float("nan"), 2, 3, 4]),
    ),
    (
        "non-finite",
        "/annotations/1/bbox/1",
        changed(REFERENCES, *ANN, "bbox", to=[1, float("inf"), 3, 4]),
    ),
    (
        "non-finite",
        "/annotations/1/extra/a/1",
        changed(REFERENCES, *ANN, "extra", to={"a": [1, float("nan")]}),
    ),
    ("neg-size", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=[10, 20, -3, 4])),
    ("zero-area", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=[10, 20, 0, 4])),
    ("crowd-flag", "/annotations/1/iscrowd", changed(REFERENCES, *ANN, "iscrowd", to=2)),
    ("crowd-flag", "/annotations/1/iscrowd", changed(REFERENCES, *ANN, "iscrowd", to="no")),
    ("ignore-flag", "/annotations/1/ignore", changed(REFERENCES, *ANN, "ignore", to=-1)),
    ("area-range", "/annotations/1/area", changed(REFERENCES, *ANN, "area", to=-1)),
    ("non-finite", "/annotations/1/area", changed(REFERENCES, *ANN, "area", to=float("inf"))),
    ("type", "/annotations/1/area", changed(REFERENCES, *ANN, "area", to="big")),
]


@pytest.mark.parametrize(
    ("rule", "place", "document"), BROKEN_REFERENCES, ids=lambda value: str(value)[:40]
)
def test_a_broken_reference_is_refused_or_set_aside(tmp_path, rule, place, document):
    _, cohort = assert_refused_or_set_aside(
        partial(try_references, tmp_path, document), 0, rule, place
    )
    assert cohort.intake.files[0].read == 4
    record = cohort.intake.quarantine[0]
    assert (record.rule, record.location) == (rule, place)
    assert json.dumps(document["annotations"][1]).replace(" ", "") == record.record.replace(" ", "")


@pytest.mark.parametrize(("flag", "value"), [("iscrowd", 7), ("ignore", -1)])
def test_a_broken_flag_is_shown_as_it_stands(tmp_path, flag, value):
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, changed(REFERENCES, *ANN, flag, to=value))
    assert refused.value.value == str(value)


ALWAYS_REFUSED = [
    ("dup-image", "/images/1/id", changed(REFERENCES, "images", 1, "id", to=12)),
    ("dup-image", "/images/1/id", changed(REFERENCES, "images", 1, "id", to="12")),
    ("id-type", "/images/1/id", changed(REFERENCES, "images", 1, "id", to=None)),
    ("id-range", "/images/1/id", changed(REFERENCES, "images", 1, "id", to=-(2**53) - 1)),
    ("missing-key", "/images/1", changed(REFERENCES, "images", 1, "id", to=KeyError)),
    ("image-size", "/images/1/width", changed(REFERENCES, "images", 1, "width", to=-5)),
    ("type", "/images/1/width", changed(REFERENCES, "images", 1, "width", to="5")),
    ("non-finite", "/images/1/width", changed(REFERENCES, "images", 1, "width", to=float("nan"))),
    ("no-images", "/images", changed(REFERENCES, "images", to=[])),
    ("dup-category", "/categories/1/id", changed(REFERENCES, "categories", 1, "id", to=5)),
    (
        "dup-category",
        "/categories/0/name",
        changed(REFERENCES, "categories", 1, "name", to="polyp"),
    ),
    ("type", "/categories/1/name", changed(REFERENCES, "categories", 1, "name", to=3)),
    ("type", "/images", changed(REFERENCES, "images", to={})),
    ("type", "/annotations", changed(REFERENCES, "annotations", to="none")),
    ("wrong-role", "", RESULTS),
    ("wrong-role", "", {}),
    ("wrong-role", "", changed(REFERENCES, "categories", to=KeyError)),
    ("wrong-role", "/annotations", changed(REFERENCES, *ANN, "score", to=0.5)),
]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(
    ("rule", "place", "document"), ALWAYS_REFUSED, ids=lambda value: str(value)[:40]
)
def test_what_changes_the_count_of_images_or_classes_is_never_set_aside(
    tmp_path, rule, place, document, lenient
):
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, document, lenient=lenient)
    assert (refused.value.rule, refused.value.location) == (rule, place)


def test_predictions_given_as_references_are_asked_about(tmp_path):
    predictions = {"annotations": RESULTS, "categories": REFERENCES["categories"]}
    written = json.dumps(predictions)
    for content in (
        predictions,
        written[:-1] + ', "info": {"year": NaN}}',
    ):  # the fast and the careful reader
        with pytest.raises(InputError) as refused:
            try_references(tmp_path, content)
        assert (refused.value.rule, "swapped?" in refused.value.hint) == ("wrong-role", True)
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, changed(REFERENCES, "images", to=KeyError))
    assert (refused.value.rule, refused.value.hint) == ("wrong-role", "")


BROKEN_RESULTS = [
    ("unknown-image", "/1/image_id", changed(RESULTS, 1, "image_id", to=99)),
    ("id-type", "/1/image_id", changed(RESULTS, 1, "image_id", to="0")),
    ("id-range", "/1/image_id", changed(RESULTS, 1, "image_id", to=2**60)),
    ("unknown-category", "/1/category_id", changed(RESULTS, 1, "category_id", to=99)),
    ("score-missing", "/1/score", changed(RESULTS, 1, "score", to=KeyError)),
    ("score-missing", "/1/score", changed(RESULTS, 1, "score", to=None)),
    ("score-range", "/1/score", changed(RESULTS, 1, "score", to=1.5)),
    ("non-finite", "/1/score", changed(RESULTS, 1, "score", to=float("nan"))),
    ("type", "/1/score", changed(RESULTS, 1, "score", to="0.5")),
    ("box-shape", "/1/bbox", changed(RESULTS, 1, "bbox", to=[])),
    ("neg-size", "/1/bbox", changed(RESULTS, 1, "bbox", to=[1, 1, 1, -2])),
    ("type", "/1", changed(RESULTS, 1, to=None)),
]


@pytest.mark.parametrize(
    ("rule", "place", "content"), BROKEN_RESULTS, ids=lambda value: str(value)[:40]
)
def test_a_broken_result_is_refused_or_set_aside(tmp_path, rule, place, content):
    _, cohort = assert_refused_or_set_aside(partial(try_results, tmp_path, content), 1, rule, place)
    assert cohort.intake.files[1].read == 4


def test_several_problems_are_listed_together(tmp_path):
    content = changed(changed(RESULTS, 1, "image_id", to=99), 3, "score", to="x")
    content = changed(content, 0, "score", to=7)
    with pytest.raises(InputProblems) as refused:
        try_results(tmp_path, content)
    assert {problem.rule for problem in refused.value.problems} == {
        "unknown-image",
        "type",
        "score-range",
    }
    account = try_results(tmp_path, content, lenient=True, allow_loss=1).intake.files[1]
    assert account.quarantined == {"unknown-image": 1, "type": 1, "score-range": 1}


def test_a_file_of_which_most_is_broken_is_refused_also_leniently(tmp_path):
    content = RESULTS
    for k in range(1, len(RESULTS)):
        content = changed(content, k, "score", to=7)
    with pytest.raises(InputError, match="mostly-broken") as refused:
        try_results(tmp_path, content, lenient=True)
    assert f"{len(RESULTS) - 1} of {len(RESULTS)} (score-range" in str(refused.value)
    cohort = try_results(tmp_path, content, lenient=True, allow_loss=1)
    assert sum(map(len, cohort.models.values())) == 1
    nothing = changed(content, 0, "score", to=7)
    with pytest.raises(InputError, match="mostly-broken"):
        try_results(tmp_path, nothing, lenient=True, allow_loss=1)


def test_a_prediction_without_area_counts_and_is_noted(tmp_path):
    cohort = try_results(tmp_path, changed(RESULTS, 1, "bbox", to=[1, 1, 1, 0]))
    assert sum(map(len, cohort.models.values())) == len(RESULTS)
    assert "1 of" in (note := cohort.intake.files[1].notes[-1])
    assert "have no area" in note


def test_a_record_with_two_problems_is_set_aside_once(tmp_path):
    content = changed(changed(RESULTS, 1, "bbox", to=["x", "y", 1, 2]), 1, "score", to="x")
    with pytest.raises(InputProblems) as refused:
        try_results(tmp_path, content)
    assert refused.value.total == 3
    assert try_results(tmp_path, content, lenient=True).intake.files[1].quarantined == {"type": 1}


def test_raw_scores_are_allowed_when_asked_for(tmp_path):
    content = changed(RESULTS, 1, "score", to=-3.5)
    assert -3.5 in try_results(tmp_path, content, score_scale="raw").models["dets"].score


def test_ids_are_typed_unless_text_is_asked_for(tmp_path):
    content = [{**result, "image_id": str(result["image_id"])} for result in RESULTS]
    with pytest.raises(InputError, match="ids-as-strings"):
        try_results(tmp_path, content)
    assert len(try_results(tmp_path, content, ids_as_strings=True).models["dets"]) == 4


def test_references_given_as_predictions(tmp_path):
    with pytest.raises(InputError, match="swapped") as refused:
        try_results(tmp_path, REFERENCES)
    assert refused.value.rule == "wrong-role"
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, {"boxes": []})
    assert refused.value.rule == "wrong-role"


def test_no_score_anywhere_is_never_lenient(tmp_path):
    content = [
        {key: value for key, value in result.items() if key != "score"} for result in RESULTS
    ]
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, content, lenient=True)
    assert refused.value.rule == "score-missing"


def test_an_unknown_category_name_gets_a_hint(tmp_path):
    document = {
        "annotations": RESULTS,
        "categories": [{"id": 5, "name": "polypp"}, {"id": 2, "name": "adenoma"}],
    }
    with pytest.raises(InputError, match="did you mean 'polyp'") as refused:
        try_results(tmp_path, document)
    assert refused.value.rule == "unknown-category"


def test_corners_delivered_as_sides_are_never_guessed(tmp_path):
    content = [{**result, "bbox": [60, 60, 90, 90], "image_id": 0} for result in RESULTS]
    for lenient in (False, True):
        with pytest.raises(InputError, match="4 of 4 boxes leave the image") as refused:
            try_results(tmp_path, content, lenient=lenient)
        assert refused.value.rule == "box-format-suspect"
    assert try_results(tmp_path, content, box_format="xywh").models["dets"].boxes[0].tolist() == [
        60,
        60,
        150,
        150,
    ]


def test_strange_class_names_are_data(tmp_path):
    for name in (
        "<script>alert(1)</script>",
        "=cmd()",
        "x" * 10**6,
        "\u202eabc",
        "two\nlines",
        "NA",
        "\x00",
    ):
        document = changed(REFERENCES, "categories", 0, "name", to=name)
        assert try_references(tmp_path, document).classes[1] == name


def test_notes_on_areas_masks_ties_and_places(tmp_path):
    document = changed(REFERENCES, "annotations", 0, "segmentation", to=[[1, 2, 3, 4, 5, 6]])
    document = changed(document, "annotations", 1, "segmentation", to=[])
    content = [{**result, "score": 0.5} for result in RESULTS]
    notes = try_results(
        tmp_path, changed(content, 3, "bbox", to=[99, 99, 9, 9]), document
    ).intake.notes
    said = "masks are used only if every annotation has one, so only boxes are used"
    assert f"masks present in 1 of 4 annotations; {said}" in notes
    assert any(
        "differs from the box area by more than 1 % in 1 annotations" in note for note in notes
    )
    assert any("all 4 scores are equal" in note for note in notes)
    assert any("1 of 4 predictions reach outside" in note for note in notes)


def test_predictions_that_list_only_some_images(tmp_path):
    document = {
        "images": REFERENCES["images"][:2],
        "annotations": RESULTS[:3],
        "categories": REFERENCES["categories"],
    }
    with pytest.raises(
        InputError, match="1 images of the references are not among them"
    ) as refused:
        try_results(tmp_path, document)
    assert refused.value.rule == "subset"
    notes = try_results(tmp_path, document, lenient=True).intake.notes
    assert any("list 2 images, 1 images of the references" in note for note in notes)
    document["images"] = REFERENCES["images"]
    assert len(try_results(tmp_path, document).models["dets"]) == 3


def test_no_category_is_no_cohort(tmp_path):
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, {**REFERENCES, "annotations": [], "categories": []})
    assert refused.value.rule == "no-classes"


def test_a_wrong_role_names_the_keys_that_were_found(tmp_path):
    with pytest.raises(
        InputError, match="a list of records with image_id, category_id, bbox, score"
    ):
        try_references(tmp_path, RESULTS)
    with pytest.raises(InputError, match=r"\['boxes'\]"):
        try_references(tmp_path, {"boxes": []})
