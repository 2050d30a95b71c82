"""Files with a few changes that keep the structure of COCO, judged by a second reader.

What the second reader (`reference.coco_rules`) refuses must be refused; what it reads must be read
with the same boxes, classes and scores: silent acceptance and silent loss are both seen.
"""

from __future__ import annotations

import copy
import json
import random
import re

import pytest

from calipers.errors import InputError
from calipers.io.coco import walk
from calipers.io.read import read
from coco_cases import put
from reference import coco_rules

STRANGE = [
    None, True, False, 0, 1, -1, 2, 1.0, 0.5, 1.5, -0.0, 2**53 + 1, 10**400, 1e308, 5e-324,
    float("nan"), float("inf"), "", " ", "x", "1", "0", "a.png", "bbox", '"score": 1', "}, {",
    "[[{", "\\", "\ud800", "caf\u00e9", "\u80ba\u7ed3\u8282", [], {}, [1], [0, 0, 2, 2],
    [[1, 1, 9, 1, 9, 9]], {"id": 1}, {"a": {"a": 1}}, [None] * 4,
]  # fmt: skip
KEYS = ("id", "image_id", "category_id", "bbox", "score", "area", "iscrowd", "ignore", "name",
        "file_name", "width", "note", "segmentation", "images", "annotations")  # fmt: skip


def sound_references(draw):
    """Return a small document of references; ids are numbers, texts, or both."""
    kind = draw.randrange(3)
    images = []
    for k in range(draw.randrange(1, 5)):
        name = f"i{k}" if kind == 2 or (kind == 1 and k % 2) else 7 * k
        images.append({"id": name, "width": 100, "height": 80, "file_name": f"{'abcd'[k]}.png"})
    categories = [{"id": 3, "name": "polyp"}, {"id": 1, "name": "adenoma"}]
    annotations = []
    for k in range(draw.randrange(3, 9)):
        record = {
            "id": 100 + k,
            "image_id": draw.choice(images)["id"],
            "category_id": draw.choice((1, 3)),
            "bbox": [draw.randrange(50), draw.randrange(30) + 0.5, 1 + draw.randrange(40), 20.25],
        }
        # The first one is plain, so that not every record has a mask.
        for key, value in (
            ("area", 12.5),
            ("iscrowd", draw.choice((0, 1, True))),
            ("ignore", 0),
            ("note", draw.choice(("n", "caf\u00e9, {", 'a "score": 1'))),
            ("segmentation", draw.choice(([], [[1, 1, 9, 1, 9, 9]]))),
        ):
            if k and draw.random() < 0.3:
                record[key] = value
        annotations.append(record)
    draw.shuffle(images)
    return {"images": images, "annotations": annotations, "categories": categories}


def sound_predictions(draw, references):
    """Return a list of results, or a document with its own lists."""
    results = []
    for record in references["annotations"] * 2:
        result = {key: copy.deepcopy(record[key]) for key in ("image_id", "category_id", "bbox")}
        result["score"] = draw.randrange(101) / 100
        if draw.random() < 0.2:
            result["note"] = draw.choice(("n", "\u80ba", "}, {"))
        results.append(result)
    kind = draw.randrange(4)
    if kind < 2:
        return results
    document = {"annotations": results}
    if draw.random() < 0.7:
        document["categories"] = copy.deepcopy(references["categories"])
    if draw.random() < 0.7:
        document["images"] = copy.deepcopy(references["images"])
        if draw.random() < 0.3:
            renumber(document)
    return document


def renumber(document):
    """Give all images of a document of predictions other ids."""
    for image in document["images"]:
        image["id"] = f"other {image['id']}"
    for record in document["annotations"]:
        record["image_id"] = f"other {record['image_id']}"


def places(value, path=()):
    """Yield the paths of everything inside a value."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed(draw, document):
    """Change one thing: a value, a key, a record."""
    path = draw.choice(list(places(document)))
    target = document
    for key in path[:-1]:
        target = target[key]
    kind = draw.randrange(6)
    if kind == 0:
        del target[path[-1]]
    elif kind == 1 and isinstance(target, list):
        target.insert(path[-1], copy.deepcopy(draw.choice([*STRANGE, *target])))
    elif kind == 2 and isinstance(target, dict):
        target[draw.choice(KEYS)] = copy.deepcopy(draw.choice(STRANGE))
    elif kind == 3 and isinstance(target, dict):
        target[path[-1]] = target[draw.choice(list(target))]
    elif kind == 4 and isinstance(target[path[-1]], int | float):
        target[path[-1]] = draw.choice((str, float, int))(target[path[-1]])
    else:
        target[path[-1]] = copy.deepcopy(draw.choice(STRANGE))


def written(draw, document):
    """Return the document as text, with repeated keys, odd spaces or a cut now and then."""
    separators = draw.choice(((", ", ": "), (",", ":"), (" ,\n", " : ")))
    text = json.dumps(document, ensure_ascii=draw.random() < 0.5, separators=separators)
    if draw.random() < 0.15:
        members = list(re.finditer(r'"(\w+)"\s*:\s*', text))
        member = draw.choice(members)
        name = member[1]
        if draw.random() < 0.3:
            name = f"\\u{ord(name[0]):04x}{name[1:]}"
        at = member.start()
        text = f'{text[:at]}"{name}": {json.dumps(draw.choice(STRANGE[:12]))}, {text[at:]}'
    if draw.random() < 0.05:
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(("", ",", "]", "}", '"', "\\", text[at + 1 :]))
    return text


def rows_of(table, cohort):
    """Return ``(image, class, corners, score)`` by the number of the record."""
    rows = {}
    for k, image in enumerate(cohort.images.ids):
        for row in range(table.offsets[k], table.offsets[k + 1]):
            score = float(table.score[row]) if hasattr(table, "score") else None
            name = cohort.classes[table.label[row]]
            rows[int(table.place[row])] = (image, name, tuple(table.boxes[row].tolist()), score)
    return rows


def judge(verdict, account, rows, *, lenient):
    """Compare what was read with the verdict."""
    assert verdict.readable
    n = len(verdict.sound)
    assert (account.read, account.used) == (n, len(rows))
    assert account.read == account.used + sum(account.quarantined.values())
    for number, sound in enumerate(verdict.sound):
        if sound:
            assert rows[number] == verdict.rows[number]
        if sound is False:
            assert lenient
            assert number not in rows


def is_clean(verdict):
    return verdict.readable and all(verdict.sound)


def fuzz(tmp_path, monkeypatch, seed, n):
    """Try n files; return how many were read in strict reading."""
    draw = random.Random(seed)
    n_read = 0
    piece = walk.PIECE
    for k in range(n):
        # Half of the files are cut into many pieces.
        monkeypatch.setattr(walk, "PIECE", draw.choice((piece, 60, 250)))
        documents = [sound_references(draw)]
        documents.append(sound_predictions(draw, documents[0]))
        target = k % 2
        for _ in range(draw.choice((0, 1, 1, 1, 2))):
            changed(draw, documents[target])
        texts = [json.dumps(document) for document in documents]
        texts[target] = written(draw, documents[target])
        refs = coco_rules.references(texts[0])
        preds = coco_rules.predictions(texts[1], refs) if refs.readable else None
        # Lone surrogates are written as they are: bytes that are no UTF-8.
        paths = []
        for name, text in zip(("refs.json", "dets.json"), texts):
            paths.append(put(tmp_path, name, text.encode("utf-8", "surrogatepass")))
        for lenient in (False, True):
            try:
                cohort = read(paths[0], {"m": paths[1]}, lenient=lenient)
            except InputError as error:
                str(error).encode("utf-8")
                clean = is_clean(refs) and preds is not None and is_clean(preds)
                if clean and not coco_rules.misses_images(texts[1], refs):
                    raise AssertionError(f"seed {seed}, input {k}: {texts[target]}") from error
                continue
            n_read += not lenient
            with_place = f"seed {seed}, input {k}: {texts[target]}"
            assert preds is not None, with_place
            try:
                files = cohort.intake.files
                judge(refs, files[0], rows_of(cohort.references, cohort), lenient=lenient)
                judge(preds, files[1], rows_of(cohort.models["m"], cohort), lenient=lenient)
            except (AssertionError, KeyError) as error:
                raise AssertionError(with_place) from error
    return n_read


# The thousand inputs that every reader meets by default are in `tests/fuzz`; these come on top.
def test_changed_files_are_read_as_a_second_reader_reads_them(tmp_path, monkeypatch):
    n_read = fuzz(tmp_path, monkeypatch, 20261117, 300)
    assert 60 < n_read < 240


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_changed_files(tmp_path, monkeypatch, seed):
    assert fuzz(tmp_path, monkeypatch, seed, 1000) > 100
