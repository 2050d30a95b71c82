"""Documents of predictions and references: whose image is meant, flags, broken pieces, bombs."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from calipers.errors import InputError, UsageError
from calipers.io.coco import walk
from calipers.io.read import read
from coco_cases import (
    REFERENCES,
    RESULTS,
    changed,
    many_results,
    put,
    try_references,
    try_results,
)

DOCUMENT = {
    "images": REFERENCES["images"],
    "annotations": RESULTS,
    "categories": REFERENCES["categories"],
}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("name", ["images", "categories"])
@pytest.mark.parametrize("value", [{}, {"5": "polyp"}, None, "polyp", 5, True])
def test_the_lists_of_a_document_of_predictions_are_lists(tmp_path, name, value, lenient):
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, {**DOCUMENT, name: value}, lenient=lenient)
    assert (refused.value.rule, refused.value.location) == ("type", f"/{name}")


@pytest.mark.parametrize(
    ("rule", "place", "images"),
    [
        ("missing-key", "/images/1", changed(REFERENCES["images"], 1, to=7)),
        ("missing-key", "/images/1", changed(REFERENCES["images"], 1, "id", to=KeyError)),
        ("id-type", "/images/1/id", changed(REFERENCES["images"], 1, "id", to=[0])),
        ("id-type", "/images/1/id", changed(REFERENCES["images"], 1, "id", to={"a": 1})),
        ("dup-image", "/images/1/id", changed(REFERENCES["images"], 1, "id", to=12)),
        ("missing-id", "/images/1/id", changed(REFERENCES["images"], 1, "id", to=" ")),
    ],
)
def test_malformed_images_of_predictions_are_typed_errors(tmp_path, rule, place, images):
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, {**DOCUMENT, "images": images})
    assert (refused.value.rule, refused.value.location) == (rule, place)


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_blank_ids_are_no_ids(tmp_path, blank):
    for where in (("images", 1, "id"), ("categories", 1, "id")):
        with pytest.raises(InputError) as refused:
            try_references(tmp_path, changed(REFERENCES, *where, to=blank))
        assert refused.value.rule == "missing-id"
    for field in ("image_id", "id"):
        document = changed(REFERENCES, "annotations", 1, field, to=blank)
        with pytest.raises(InputError) as refused:
            try_references(tmp_path, document)
        assert (refused.value.rule, refused.value.location) == (
            "missing-id",
            f"/annotations/1/{field}",
        )


@pytest.mark.parametrize("key", ["patient_id", "id", "note", "center"])
@pytest.mark.parametrize("spelling", ["{}", "\\u{:04x}"])
def test_repeated_keys_of_images_are_refused(tmp_path, key, spelling):
    first, rest = key[0], key[1:]
    name = spelling.format(first if spelling == "{}" else ord(first)) + rest
    text = json.dumps(changed(REFERENCES, "images", 1, "note", to={"a": 1}))
    text = text.replace('"id": 0, "width"', f'"id": 0, "{name}": 3, "width"', 1)
    if key == "note":
        text = text.replace('{"a": 1}', '{"a": 1, "a": 2}')
    for lenient in (False, True):
        with pytest.raises(InputError) as refused:
            try_references(tmp_path, text, lenient=lenient)
        assert refused.value.rule == "dup-key"
        assert refused.value.location.startswith("/images/1/")


def test_one_id_with_two_file_names_is_an_error(tmp_path):
    document = changed(DOCUMENT, "images", 0, "file_name", to="other.png")
    for lenient in (False, True):
        with pytest.raises(InputError, match=r"'b\.png'") as refused:
            try_results(tmp_path, document, lenient=lenient)
        assert (refused.value.rule, refused.value.location) == ("image-name", "/images/0/file_name")
    in_a_folder = changed(DOCUMENT, "images", 0, "file_name", to="val\\b.png")
    assert len(try_results(tmp_path, in_a_folder).models["dets"]) == 4


def test_ids_that_are_exchanged_between_slices_of_two_patients_are_an_error(tmp_path):
    """``P1/001.png`` and ``P2/001.png`` have one name behind their folders, and are two images."""
    places = {image["id"]: f"P{k}/001.png" for k, image in enumerate(REFERENCES["images"])}
    images = [{**image, "file_name": places[image["id"]]} for image in REFERENCES["images"]]
    refs = put(tmp_path, "slices.json", {**REFERENCES, "images": images})
    sound = put(tmp_path, "sound.json", {**DOCUMENT, "images": images})
    assert len(read(refs, sound).models["sound"]) == 4
    exchanged = [dict(image) for image in images]
    exchanged[0]["file_name"], exchanged[1]["file_name"] = places[0], places[12]
    with pytest.raises(InputError) as refused:
        read(refs, put(tmp_path, "exchanged.json", {**DOCUMENT, "images": exchanged}))
    assert {problem.rule for problem in refused.value.problems} == {"image-name"}


def test_other_ids_with_the_same_file_names_are_joined_by_name(tmp_path):
    ids = {12: 1012, 0: "zero", 3: 1003}
    images = [{**image, "id": ids[image["id"]]} for image in REFERENCES["images"]]
    results = [{**result, "image_id": ids[result["image_id"]]} for result in RESULTS]
    cohort = try_results(tmp_path, {**DOCUMENT, "images": images, "annotations": results})
    assert np.array_equal(
        cohort.models["dets"].boxes, try_results(tmp_path, RESULTS).models["dets"].boxes
    )
    assert any("3 images are joined by file_name" in note for note in cohort.intake.notes)
    # Folders before a name say where a copy lies, but train/1 is not val/1.
    longer = [{**image, "file_name": f"val/{image['file_name']}"} for image in images]
    cohort = try_results(tmp_path, {**DOCUMENT, "images": longer, "annotations": results})
    assert any("3 images are joined by file_name" in note for note in cohort.intake.notes)
    in_folders = {**REFERENCES, "images": [dict(image) for image in REFERENCES["images"]]}
    for image in in_folders["images"]:
        image["file_name"] = f"train/{image['file_name']}"
    refs = put(tmp_path, "in_folders.json", in_folders)
    other = {**DOCUMENT, "images": longer, "annotations": results}
    with pytest.raises(InputError):
        read(refs, put(tmp_path, "others.json", other))
    # Two images of one name cannot be told apart.
    images[0]["file_name"] = images[1]["file_name"]
    with pytest.raises(InputError) as refused:
        try_results(tmp_path, {**DOCUMENT, "images": images, "annotations": results})
    assert refused.value.rule == "subset"


def test_a_file_name_of_two_images_names_neither(tmp_path):
    references = changed(REFERENCES, "images", 1, "file_name", to="b.png")
    refs = put(tmp_path, "refs.json", references)
    table = "file_name,class,x0,y0,x1,y1,score\nb.png,polyp,1,1,9,9,0.5\n"
    with pytest.raises(InputError, match=r"'b.png'") as refused:
        read(refs, put(tmp_path, "dets.csv", table))
    assert refused.value.rule == "dup-file-name"
    table = table.replace("b.png", "c.png")
    assert read(refs, put(tmp_path, "dets.csv", table)).models["dets"].offsets.tolist() == [
        0, 0, 1, 1,
    ]  # fmt: skip


def test_flags_may_be_true_or_false(tmp_path):
    words = changed(REFERENCES, "annotations", 1, "iscrowd", to=True)
    words = changed(words, "annotations", 0, "iscrowd", to=False)
    words = changed(words, "annotations", 2, "ignore", to=True)
    tables = [try_references(tmp_path, document).references for document in (REFERENCES, words)]
    assert tables[0].crowd.tolist() == tables[1].crowd.tolist()
    assert tables[0].ignore.tolist() == tables[1].ignore.tolist()


def test_ignore_is_obeyed_and_noted_or_overwritten_as_pycocotools_does(tmp_path):
    obeyed = try_references(tmp_path, REFERENCES)
    assert obeyed.references.ignore.tolist() == [True, False, False, True]
    assert any('"ignore": 1 of 1 annotations is obeyed' in note for note in obeyed.intake.notes)
    parity = try_references(tmp_path, REFERENCES, coco_ignore=False)
    assert parity.references.ignore.tolist() == [True, False, False, False]
    assert any("is not obeyed, as in pycocotools" in note for note in parity.intake.notes)
    silent = try_references(tmp_path, changed(REFERENCES, "annotations", 2, "ignore", to=0))
    assert not any("ignore" in note for note in silent.intake.notes)
    with pytest.raises(UsageError, match="coco_ignore"):
        try_references(tmp_path, REFERENCES, coco_ignore="off")


BROKEN = [
    ('"score": NaN', "non-finite"),
    ('"score": "high"', "type"),
    ('"score": 0.5, "score": 0.5', "dup-key"),
    ('"score": 0.5, "note": "\\ud800"', "encoding"),
]


@pytest.mark.parametrize(("text", "rule"), BROKEN)
@pytest.mark.parametrize("as_document", [False, True])
def test_one_broken_record_leaves_the_other_pieces_to_the_fast_roads(
    tmp_path, monkeypatch, text, rule, as_document
):
    monkeypatch.setattr(walk, "PIECE", 2000)
    n_values = 0
    value = walk.Walker.value

    def counting(walker):
        nonlocal n_values
        n_values += 1
        return value(walker)

    monkeypatch.setattr(walk.Walker, "value", counting)
    results = many_results(1000)
    results[613]["score"] = 77
    lines = json.dumps(results)
    if as_document:
        lines = json.dumps({**DOCUMENT, "annotations": results})
    lines = lines.replace('"score": 77', text)
    cohort = try_results(tmp_path, lines, lenient=True)
    table = cohort.models["dets"]
    assert cohort.intake.files[1].quarantined == {rule: 1}
    prefix = "/annotations" if as_document else ""
    assert cohort.intake.quarantine[0].location.startswith(f"{prefix}/613")
    assert n_values < 120  # of a thousand
    sound = try_results(tmp_path, many_results(1000)).models["dets"]
    others = sound.place != 613
    for name in ("boxes", "score", "place"):
        assert np.array_equal(getattr(sound, name)[others], getattr(table, name))


def test_the_texts_of_records_are_those_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(walk, "PIECE", 500)
    results = many_results(60)
    for k in (3, 29, 41, 58):
        results[k]["score"] = 7
        results[k]["note"] = f"größer {k}"
    results[30]["bbox"] = [1, 2, "3", 4]
    text = json.dumps(results, ensure_ascii=False)
    cohort = try_results(tmp_path, text.encode(), lenient=True)
    records = {record.location: json.loads(record.record) for record in cohort.intake.quarantine}
    assert records == {
        "/30/bbox/2": results[30],
        **{f"/{k}/score": results[k] for k in (3, 29, 41, 58)},
    }


def peak_of(code):
    """Return seconds and megabytes that a program needs above the start of Python and imports."""
    program = (
        "import resource, sys, time\n"
        "from calipers.io.read import read\nfrom calipers.errors import InputError\n"
        "from calipers.io.coco import document\n"
        "start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"try:\n    {code}\n    print('read')\n"
        "except InputError as error:\n    print(error.rule)\n"
        "print(time.process_time() - start)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)\n"
    )
    lines = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    return lines[0], float(lines[1]), float(lines[2])


@pytest.mark.parametrize(
    "note",
    [
        "\\u4e2d" * 200_000,
        "\\\\" * 600_000,
        '\\u4e2d, {\\"' * 100_000,
        ", {" * 400_000 + "\\u4e2d",
    ],
    ids=["escapes", "backslashes", "quotes", "commas"],
)
def test_escapes_in_a_long_text_cost_what_the_text_costs(tmp_path, note):
    text = json.dumps(REFERENCES).replace('"iscrowd": 1', f'"iscrowd": 1, "note": "{note}"')
    path = put(tmp_path, "refs.json", text)
    outcome, seconds, megabytes = peak_of(f"read({str(path)!r})")
    assert outcome == "read"
    assert seconds < 1
    assert megabytes < 200


def test_an_honest_file_with_escaped_notes_is_read_quickly(tmp_path):
    note = "\u80ba\u7ed3\u8282" * 12
    results = [{**result, "note": note} for result in many_results(12_000)]
    began = time.process_time()
    try_results(tmp_path, results)
    assert time.process_time() - began < 3


def test_zigzag_polygons_cost_little_or_are_refused(tmp_path):
    width, height = 10_000, 10_000
    zigzag = []
    for k in range(1600):
        zigzag += [0 if k % 2 else width, k * height / 1600]
    document = {
        "images": [{"id": 1, "width": width, "height": height}],
        "annotations": [
            {
                "id": k,
                "image_id": 1,
                "category_id": 1,
                "bbox": [0, 0, 9, 9],
                "segmentation": [zigzag],
            }
            for k in range(4)
        ],
        "categories": [{"id": 1, "name": "a"}],
    }
    path = put(tmp_path, "refs.json", document)
    outcome, seconds, megabytes = peak_of(f"read({str(path)!r})")
    assert outcome == "too-large"
    assert seconds < 1
    assert megabytes < 200


@pytest.mark.parametrize(
    ("size", "side"), [((50, 50), "width"), ((100, 50), "height"), ((100, 100.5), "height")]
)
@pytest.mark.parametrize("lenient", [False, True])
def test_predictions_on_resized_images_are_refused(tmp_path, size, side, lenient):
    """Their boxes have another scale; they were evaluated as they stood."""
    image = {"id": 1, "file_name": "a.png", "width": 100, "height": 100}
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40]}
    document = {"images": [image], "categories": [{"id": 1, "name": "n"}]}
    references, predictions = tmp_path / "r.json", tmp_path / "p.json"
    references.write_text(json.dumps({**document, "annotations": [{**box, "id": 1}]}))
    # No size, or one that is none, states nothing.
    for width, height in ((100, 100), (None, 100), (0, 100), ("100", 100)):
        own = [{**image, "width": width, "height": height}]
        scored = {**document, "images": own, "annotations": [{**box, "score": 0.5}]}
        predictions.write_text(json.dumps(scored))
        assert len(read(references, predictions).models["p"]) == 1
    scored["images"] = [{**image, "width": size[0], "height": size[1]}]
    predictions.write_text(json.dumps(scored))
    with pytest.raises(InputError) as refused:
        read(references, predictions, lenient=lenient)
    problem = getattr(refused.value, "problems", (refused.value,))[0]
    assert (problem.rule, problem.location) == ("size-conflict", f"/images/0/{side}")
