"""JSON as text: syntax, encodings, repeated keys, depth, pieces, and files broken at random."""

from __future__ import annotations

import json
import random
import sys

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.io.coco import json as jsonchunks
from calipers.io.coco import walk
from calipers.io.coco.json import Unreadable
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
    assert try_results(tmp_path, content, lenient=True).intake.files[1].quarantined == {
        "non-finite": 1
    }


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


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("[" * 100, 100),
        ('["' + "[" * 300 + '"]', 1),
        ('["' + "[" * 300 + '\\\\"]', 1),  # the quote is not escaped: the backslash is
        ('["' + "[" * 300 + '\\""]', 1),
        ('["' + "[" * 300 + '\\\\\\""]', 1),
        ('["' + "]" * 300 + '", ' + "[" * 90, 91),
        ('["' + "{" * 300 + '"' + ', "["' * 300 + "]", 1),
    ],
)
def test_the_depth_of_a_text_leaves_texts_inside_out(text, levels):
    assert walk.depth(text.encode()) == levels


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_are_honoured_and_noted(tmp_path, encoding):
    document = changed(REFERENCES, "categories", 0, "name", to="Rundherd, groß")
    path = put(tmp_path, "refs.json", json.dumps(document, ensure_ascii=False).encode(encoding))
    cohort = read(path)
    assert cohort.classes[1] == "Rundherd, groß"
    assert "byte order mark" in cohort.intake.notes[0]
    assert "refs.json" not in cohort.intake.notes[0]  # who shows a note says of which file


@pytest.mark.parametrize(
    "text", [b'"comment": "\xff"', b'"comment": "\\ud800"', b'"comment": "caf\xe9"']
)
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


@pytest.mark.parametrize("more", [{}, {"note": "a}, {b"}, {"parts": [{"a": 1}, {"a": 2}]}])
def test_pieces_give_the_same_as_one_bite(tmp_path, monkeypatch, more):
    content = many_results(400, **more)
    whole = try_results(tmp_path, content).models["dets"]
    monkeypatch.setattr(walk, "PIECE", 500)
    pieces = try_results(tmp_path, content).models["dets"]
    for name in ("boxes", "score", "label", "place", "offsets"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name))
    lenient = try_results(tmp_path, changed(content, 333, "score", to=2), lenient=True)
    assert (
        json.loads(lenient.intake.quarantine[0].record) == changed(content, 333, "score", to=2)[333]
    )


def test_the_careful_path_gives_the_same_columns(tmp_path, monkeypatch):
    def refuse(*args):
        raise Unreadable

    fast = try_results(tmp_path, RESULTS)
    monkeypatch.setattr(jsonchunks.RecordList, "scan", lambda *_: None)
    monkeypatch.setattr(jsonchunks.RecordList, "decode", refuse)
    careful = try_results(tmp_path, RESULTS)
    assert fast.images.ids == careful.images.ids
    for one, other in (
        (fast.references, careful.references),
        (fast.models["dets"], careful.models["dets"]),
    ):
        for name in ("boxes", "extent", "label", "place", "offsets"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(fast.references.area, careful.references.area)
    assert np.array_equal(fast.references.ignore, careful.references.ignore)
    assert fast.models["dets"].score.tolist() == careful.models["dets"].score.tolist()


STRANGE = [
    None, True, -1, 0, 1.5, "x", "", [], {}, [1, 2], {"id": 1}, float("nan"), float("inf"),
    10**400, 2**60, -0.0, "\ud800", "7", [[]], [None] * 4, "=1", 1e308, -1e308, 5e-324,
]  # fmt: skip


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


# The thousand inputs that every reader meets by default are in `tests/fuzz`; these come on top.
@pytest.mark.parametrize("n", [250, pytest.param(1000, marks=pytest.mark.slow)])
def test_single_corruptions_end_in_success_or_a_typed_error(tmp_path, n):
    draw = random.Random(20240601)
    outcomes = set()
    for k in range(n):
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


@pytest.mark.parametrize("n", [400, pytest.param(1000, marks=pytest.mark.slow)])
def test_byte_flips_end_in_success_or_a_typed_error(tmp_path, n):
    draw = random.Random(7)
    refused = 0
    for k in range(n):
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
            refused += 1
    assert n / 10 < refused < n  # some flips break nothing, such as one inside a number


@pytest.mark.parametrize("n", [80, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("piece", [40, 130])
def test_broken_bytes_between_pieces_end_in_success_or_a_typed_error(
    tmp_path, monkeypatch, piece, n
):
    monkeypatch.setattr(walk, "PIECE", piece)
    draw = random.Random(piece)
    refs = put(tmp_path, "refs.json", REFERENCES)
    refused = 0
    for _ in range(n):
        data = bytearray(json.dumps(many_results(6)).encode())
        data[draw.randrange(len(data))] = draw.choice((*b'{}[],:"\\ ', draw.randrange(256)))
        for lenient in (False, True):
            try:
                read(refs, put(tmp_path, "flip.json", bytes(data)), lenient=lenient)
            except InputError as error:
                str(error).encode("utf-8")
                refused += 1
    assert n / 5 < refused < 2 * n
