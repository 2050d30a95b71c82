"""A small COCO data set and the ways to break it."""

from __future__ import annotations

import copy
import json

from calipers.io.read import read

REFERENCES = {
    "info": {"year": 2024},
    "images": [
        {
            "id": 12,
            "width": 200,
            "height": 100,
            "file_name": "b.png",
            "patient_id": "p2",
            "center": "C1",
        },
        {
            "id": 0,
            "width": 100,
            "height": 100,
            "file_name": "a.png",
            "patient_id": "p1",
            "center": "C1",
        },
        {
            "id": 3,
            "width": 100,
            "height": 100,
            "file_name": "c.png",
            "patient_id": "p2",
            "center": "C2",
        },
    ],
    "annotations": [
        {
            "id": 7,
            "image_id": 12,
            "category_id": 5,
            "bbox": [10, 20, 30.5, 40],
            "area": 1220,
            "iscrowd": 0,
        },
        {
            "id": 8,
            "image_id": 0,
            "category_id": 2,
            "bbox": [0, 0, 50, 60],
            "area": 100.5,
            "iscrowd": 1,
        },
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
    return read(
        put(tmp_path, "refs.json", references), put(tmp_path, "dets.json", content), **options
    )


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
