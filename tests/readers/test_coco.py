"""COCO JSON: what is read, what is refused, and with which rule and place."""

from __future__ import annotations

import copy
import json
import random
import sys

import numpy as np
import pytest

from calipers.errors import InputError, InputProblems
from calipers.readers import jsonchunks, read
from calipers.readers.jsonchunks import Unreadable

REFERENCES = {
    "info": {"year": 2024},
    "images": [
        {"id": 12, "width": 200, "height": 100, "file_name": "b.png", "patient_id": "p2", "center": "C1"},
        {"id": 0, "width": 100, "height": 100, "file_name": "a.png", "patient_id": "p1", "center": "C1"},
        {"id": 3, "width": 100, "height": 100, "file_name": "c.png", "patient_id": "p2", "center": "C2"},
    ],
    "annotations": [
        {"id": 7, "image_id": 12, "category_id": 5, "bbox": [10, 20, 30.5, 40], "area": 1220, "iscrowd": 0},
        {"id": 8, "image_id": 0, "category_id": 2, "bbox": [0, 0, 50, 60], "area": 100.5, "iscrowd": 1},
        {"id": 0, "image_id": 12, "category_id": 2, "bbox": [1, 2, 3, 4], "ignore": 1},
        {"id": 9, "image_id": 0, "category_id": 5, "bbox": [5, 5, 20, 20]},
    ],
    "categories": [{"id": 5, "name": "polyp"}, {"id": 2, "name": "adenoma"}],
}
RESULTS = [
    {"image_id": 12, "category_id": 5, "bbox": [11, 20, 30, 40], "score": 0.9},
    {"image_id": 0, "category_id": 2, "bbox": [1, 0, 50, 60], "score": 0.25},
    {"image_id": 0, "category_id": 2, "bbox": [2, 0, 50, 60], "score": 1},
    {"image_id": 3, "category_id": 5, "bbox": [9, 9, 9, 9], "score": 0},
]


def put(folder, name, content):
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def changed(document, *path, to):
    """Return a copy of a document with one place changed; ``to=KeyError`` removes it."""
    document = copy.deepcopy(document)
    target = document
    for key in path[:-1]:
        target = target[key]
    if to is KeyError:
        del target[path[-1]]
    else:
        target[path[-1]] = to
    return document


def try_references(tmp_path, content, **options):
    return read(put(tmp_path, "refs.json", content), **options)


def try_results(tmp_path, content, references=REFERENCES, **options):
    return read(put(tmp_path, "refs.json", references), put(tmp_path, "dets.json", content), **options)


def test_images_and_classes_are_in_the_order_of_their_ids(tmp_path):
    cohort = try_references(tmp_path, REFERENCES)
    assert cohort.images.ids == ("0", "3", "12")
    assert cohort.classes == ("adenoma", "polyp")
    assert cohort.images.size.tolist() == [[100, 100], [100, 100], [200, 100]]
    assert cohort.references.offsets.tolist() == [0, 2, 2, 4]


def test_objects_keep_boxes_labels_flags_and_declared_areas(tmp_path):
    table = try_references(tmp_path, REFERENCES).references
    assert table.boxes.tolist() == [[0, 0, 50, 60], [5, 5, 25, 25], [10, 20, 40.5, 60], [1, 2, 4, 6]]
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
    document = {"annotations": RESULTS, "categories": [{"id": 5, "name": "adenoma"}, {"id": 2, "name": "polyp"}]}
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
    ("non-finite", "/annotations/1/bbox/0", changed(REFERENCES, *ANN, "bbox", to=[float("nan"), 2, 3, 4])),
    ("non-finite", "/annotations/1/bbox/1", changed(REFERENCES, *ANN, "bbox", to=[1, float("inf"), 3, 4])),
    ("non-finite", "/annotations/1/extra/a/1", changed(REFERENCES, *ANN, "extra", to={"a": [1, float("nan")]})),
    ("neg-size", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=[10, 20, -3, 4])),
    ("zero-area", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=[10, 20, 0, 4])),
    ("outside", "/annotations/1/bbox", changed(REFERENCES, *ANN, "bbox", to=[60, 20, 42, 4])),
    ("crowd-flag", "/annotations/1/iscrowd", changed(REFERENCES, *ANN, "iscrowd", to=2)),
    ("crowd-flag", "/annotations/1/iscrowd", changed(REFERENCES, *ANN, "iscrowd", to="no")),
    ("ignore-flag", "/annotations/1/ignore", changed(REFERENCES, *ANN, "ignore", to=-1)),
    ("neg-size", "/annotations/1/area", changed(REFERENCES, *ANN, "area", to=-1)),
    ("type", "/annotations/1/area", changed(REFERENCES, *ANN, "area", to="big")),
]


@pytest.mark.parametrize(("rule", "place", "document"), BROKEN_REFERENCES, ids=lambda value: str(value)[:40])
def test_a_broken_reference_is_refused_or_set_aside(tmp_path, rule, place, document):
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, document)
    assert (refused.value.rule, refused.value.location) == (rule, place)
    cohort = try_references(tmp_path, document, lenient=True)
    account = cohort.intake.files[0]
    assert account.quarantined == {rule: 1}
    assert (account.read, account.used) == (4, 3)
    record = cohort.intake.quarantine[0]
    assert (record.rule, record.location) == (rule, place)
    assert json.dumps(document["annotations"][1]).replace(" ", "") == record.record.replace(" ", "")


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
    ("dup-category", "/categories/0/name", changed(REFERENCES, "categories", 1, "name", to="polyp")),
    ("type", "/categories/1/name", changed(REFERENCES, "categories", 1, "name", to=3)),
    ("type", "/images", changed(REFERENCES, "images", to={})),
    ("type", "/annotations", changed(REFERENCES, "annotations", to="none")),
    ("wrong-role", "", RESULTS),
    ("wrong-role", "", {}),
    ("wrong-role", "", changed(REFERENCES, "categories", to=KeyError)),
    ("wrong-role", "/annotations", changed(REFERENCES, *ANN, "score", to=0.5)),
]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(("rule", "place", "document"), ALWAYS_REFUSED, ids=lambda value: str(value)[:40])
def test_what_changes_the_count_of_images_or_classes_is_never_set_aside(tmp_path, rule, place, document, lenient):
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, document, lenient=lenient)
    assert (refused.value.rule, refused.value.location) == (rule, place)


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
    ("zero-area", "/1/bbox", changed(RESULTS, 1, "bbox", to=[1, 1, 1, 0])),
    ("neg-size", "/1/bbox", changed(RESULTS, 1, "bbox", to=[1, 1, 1, -2])),
    ("type", "/1", changed(RESULTS, 1, to=None)),
]


@pytest.mark.parametrize(("rule", "place", "content"), BROKEN_RESULTS, ids=lambda value: str(value)[:40])
def test_a_broken_result_is_refused_or_set_aside(tmp_path, rule, place, content):
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, content)
    assert (refused.value.rule, refused.value.location) == (rule, place)
    account = try_results(tmp_path, content, lenient=True).intake.files[1]
    assert account.quarantined == {rule: 1}
    assert (account.read, account.used) == (4, 3)


def test_several_problems_are_listed_together(tmp_path):
    content = changed(changed(RESULTS, 1, "image_id", to=99), 3, "score", to="x")
    content = changed(content, 0, "score", to=7)
    with pytest.raises(InputProblems) as refused:
        try_results(tmp_path, content)
    assert {problem.rule for problem in refused.value.problems} == {"unknown-image", "type", "score-range"}
    account = try_results(tmp_path, content, lenient=True).intake.files[1]
    assert account.quarantined == {"unknown-image": 1, "type": 1, "score-range": 1}


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
    content = [{key: value for key, value in result.items() if key != "score"} for result in RESULTS]
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, content, lenient=True)
    assert refused.value.rule == "score-missing"


def test_an_unknown_category_name_gets_a_hint(tmp_path):
    document = {"annotations": RESULTS, "categories": [{"id": 5, "name": "polypp"}, {"id": 2, "name": "adenoma"}]}
    with pytest.raises(InputError, match="did you mean 'polyp'") as refused:
        try_results(tmp_path, document)
    assert refused.value.rule == "unknown-category"


def test_corners_delivered_as_sides_are_never_guessed(tmp_path):
    content = [{**result, "bbox": [60, 60, 90, 90], "image_id": 0} for result in RESULTS]
    for lenient in (False, True):
        with pytest.raises(InputError, match="4 of 4 boxes leave the image") as refused:
            try_results(tmp_path, content, lenient=lenient)
        assert refused.value.rule == "box-format-suspect"
    assert try_results(tmp_path, content, box_format="xywh").models["dets"].boxes[0].tolist() == [60, 60, 150, 150]


def dup_key(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    "new",
    [
        '"score": 0.9, "score": 0.1',
        '"score": 0.9, "\\u0073core": 0.1',
        '"score": 0.9, "x": {"a": 1, "a": 2}, "bbox": [1, 2, 3, 4]',
    ],
)
def test_repeated_keys_in_a_record(tmp_path, new):
    text = dup_key(json.dumps(RESULTS), '"score": 0.9', new)
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, text)
    assert refused.value.rule == "dup-key"
    assert refused.value.location.startswith("/0/")
    assert try_results(tmp_path, text, lenient=True).intake.files[1].quarantined == {"dup-key": 1}


@pytest.mark.parametrize("lenient", [False, True])
def test_repeated_keys_at_the_top_are_never_lenient(tmp_path, lenient):
    text = json.dumps(REFERENCES)[:-1] + ', "annotations": []}'
    with pytest.raises(InputError) as refused:
        try_references(tmp_path, text, lenient=lenient)
    assert (refused.value.rule, refused.value.location) == ("dup-key", "/annotations")


def test_a_key_as_a_text_value_is_no_repetition(tmp_path):
    content = changed(RESULTS, 0, "comment", to="bbox")
    content = changed(content, 1, "comment", to='the "score" was \\ low')
    assert len(try_results(tmp_path, content).models["dets"]) == 4


def test_every_truncation_is_a_syntax_error(tmp_path):
    text = json.dumps(REFERENCES)
    for length in range(1, len(text), 7):
        for lenient in (False, True):
            with pytest.raises(InputError) as refused:
                try_references(tmp_path, text[:length], lenient=lenient)
            assert refused.value.rule == "json-syntax"
            assert refused.value.location.startswith("byte ")


def test_a_syntax_error_names_the_byte_and_the_last_whole_record(tmp_path):
    text = json.dumps(RESULTS)
    broken = text[:-2] + "]"
    with pytest.raises(InputError, match="the last whole record is /2") as refused:
        try_results(tmp_path, broken)
    assert refused.value.location == f"byte {len(broken) - 1}"
    with pytest.raises(InputError, match="after the end"):
        try_results(tmp_path, text + " x")


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN", "-Infinity", "1" * 5000, "1" * 400])
def test_numbers_beyond_all_bounds(tmp_path, text):
    content = json.dumps(RESULTS).replace("0.25", text)
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, content)
    assert (refused.value.rule, refused.value.location) == ("non-finite", "/1/score")
    assert try_results(tmp_path, content, lenient=True).intake.files[1].quarantined == {"non-finite": 1}


def test_an_id_of_5000_digits(tmp_path):
    content = json.dumps(RESULTS).replace('"image_id": 12', '"image_id": ' + "1" * 5000)
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, content)
    assert refused.value.rule == "id-range"


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("levels", [70, 100_000])
def test_deep_nesting(tmp_path, levels, lenient):
    limit = sys.getrecursionlimit()
    nested = "[" * levels + "]" * levels
    for content in ("[" * levels, nested, json.dumps(RESULTS)[:-2] + f', "x": {nested}}}]'):
        with pytest.raises(InputError) as refused:
            try_results(tmp_path, content, lenient=lenient)
        assert refused.value.rule == "depth"
    assert sys.getrecursionlimit() == limit


def test_brackets_in_texts_are_not_depth(tmp_path):
    content = changed(RESULTS, 1, "comment", to="[" * 200)
    assert len(try_results(tmp_path, content).models["dets"]) == 4


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_are_honoured_and_noted(tmp_path, encoding):
    document = changed(REFERENCES, "categories", 0, "name", to="Rundherd, groß")
    path = put(tmp_path, "refs.json", json.dumps(document, ensure_ascii=False).encode(encoding))
    cohort = read(path)
    assert cohort.classes[1] == "Rundherd, groß"
    assert "byte order mark" in cohort.intake.notes[0]


@pytest.mark.parametrize("text", [b'"comment": "\xff"', b'"comment": "\\ud800"', b'"comment": "caf\xe9"'])
def test_broken_text_in_a_record(tmp_path, text):
    content = json.dumps(RESULTS).encode().replace(b'"score": 0.25', b'"score": 0.25, ' + text)
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, content)
    assert (refused.value.rule, refused.value.location) == ("encoding", "/1")
    cohort = try_results(tmp_path, content, lenient=True)
    assert cohort.intake.files[1].quarantined == {"encoding": 1}
    cohort.intake.quarantine[0].record.encode("utf-8")


def test_nul_in_a_text(tmp_path):
    content = json.dumps(RESULTS).replace('"score": 0.25', '"score": 0.25, "x": "\0"')
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, content)
    assert refused.value.rule == "encoding"


def test_strange_class_names_are_data(tmp_path):
    for name in ("<script>alert(1)</script>", "=cmd()", "x" * 10**6, "\u202eabc", "two\nlines", "NA", "\x00"):
        document = changed(REFERENCES, "categories", 0, "name", to=name)
        assert try_references(tmp_path, document).classes[1] == name


def test_notes_on_areas_masks_ties_and_places(tmp_path):
    document = changed(REFERENCES, "annotations", 0, "segmentation", to=[[1, 2, 3, 4, 5, 6]])
    document = changed(document, "annotations", 1, "segmentation", to=[])
    content = [{**result, "score": 0.5} for result in RESULTS]
    notes = try_results(tmp_path, changed(content, 3, "bbox", to=[99, 99, 9, 9]), document).intake.notes
    assert "masks present in 1 annotations, only boxes are used" in notes
    assert any("differs from the box area by more than 1 % in 1 annotations" in note for note in notes)
    assert any("all 4 scores are equal" in note for note in notes)
    assert any("1 of 4 predictions reach outside" in note for note in notes)


def many_results(n, **more):
    return [
        {
            "image_id": (0, 3, 12)[k % 3],
            "category_id": 5,
            "bbox": [k % 50, 1, 2 + k / 7, 3],
            "score": (k % 97) / 97,
            **more,
        }
        for k in range(n)
    ]


@pytest.mark.parametrize("more", [{}, {"note": "a}, {b"}, {"parts": [{"a": 1}, {"a": 2}]}])
def test_pieces_give_the_same_as_one_bite(tmp_path, monkeypatch, more):
    content = many_results(400, **more)
    whole = try_results(tmp_path, content).models["dets"]
    monkeypatch.setattr(jsonchunks, "PIECE", 500)
    pieces = try_results(tmp_path, content).models["dets"]
    for name in ("boxes", "score", "label", "place", "offsets"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name))
    lenient = try_results(tmp_path, changed(content, 333, "score", to=2), lenient=True)
    assert json.loads(lenient.intake.quarantine[0].record) == changed(content, 333, "score", to=2)[333]


def test_the_careful_path_gives_the_same_columns(tmp_path, monkeypatch):
    def refuse(*args):
        raise Unreadable

    fast = try_results(tmp_path, RESULTS)
    monkeypatch.setattr(jsonchunks, "outline", refuse)
    careful = try_results(tmp_path, RESULTS)
    assert fast.images.ids == careful.images.ids
    for one, other in ((fast.references, careful.references), (fast.models["dets"], careful.models["dets"])):
        for name in ("boxes", "extent", "label", "place", "offsets"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(fast.references.area, careful.references.area)
    assert np.array_equal(fast.references.ignore, careful.references.ignore)
    assert fast.models["dets"].score.tolist() == careful.models["dets"].score.tolist()


STRANGE = [
    None, True, -1, 0, 1.5, "x", "", [], {}, [1, 2], {"id": 1}, float("nan"), float("inf"), 10**400, 2**60, -0.0,
    "\ud800", "7", [[]], [None] * 4, "=1", 1e308, -1e308, 5e-324,
]  # fmt: skip


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def test_a_thousand_single_corruptions_end_in_success_or_a_typed_error(tmp_path):
    draw = random.Random(20240601)
    outcomes = set()
    for k in range(1000):
        swap = k % 2
        document = RESULTS if swap else REFERENCES
        path = draw.choice([path for path in places(document) if path])
        to = draw.choice([*STRANGE, KeyError])
        text = json.dumps(changed(document, *path, to=to))
        for lenient in (False, True):
            try:
                if swap:
                    cohort = try_results(tmp_path, text, lenient=lenient)
                else:
                    cohort = try_results(tmp_path, RESULTS, json.loads(text), lenient=lenient)
                assert np.isfinite(cohort.references.boxes).all()
                assert np.isfinite(cohort.models["dets"].score).all()
                outcomes.add("read")
            except InputError as error:
                str(error).encode("utf-8")
                outcomes.add(error.rule)
    assert len(outcomes) > 12


def test_a_thousand_byte_flips_end_in_success_or_a_typed_error(tmp_path):
    draw = random.Random(7)
    for k in range(1000):
        document = RESULTS if k % 2 else REFERENCES
        data = bytearray(json.dumps(document).encode())
        for _ in range(draw.choice((1, 1, 3))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path = put(tmp_path, "flip.json", bytes(data))
        lenient = bool(k % 3)
        try:
            if k % 2:
                read(put(tmp_path, "refs.json", REFERENCES), path, lenient=lenient)
            else:
                read(path, lenient=lenient)
        except InputError as error:
            str(error).encode("utf-8")
