"""Masks and points of a saved evaluation: the same bits come back, old folders open, damage is
refused.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calipers as cal
from calipers.io.saved.cohort import STORED
from calipers.io.saved.folder import read_folder
from evaluated import evaluated_demo
from mask_cases import random_mask
from stored import refusal, vouch

CLASSES = ("polyp", "adenoma")


def records(seed: int, dimensions: int, *, scored: bool, masks: bool = True, points: bool = False):
    rng = np.random.default_rng(seed)
    found = []
    for image in range(6):
        n, shape = int(rng.integers(0, 4)) if image else 2, (9, 20, 30)[3 - dimensions :]
        arrays = np.zeros((n, *shape), np.bool_)
        for array in arrays:
            part = random_mask(rng, 9)
            array[..., : part.shape[0], : part.shape[1]] = part
            array.reshape(-1)[rng.integers(array.size)] = True
        corner = rng.uniform(0, 5, (n, dimensions))
        one = {"image_id": f"i{image}", "labels": rng.integers(0, 2, n)}
        one |= (
            {"masks": arrays}
            if masks
            else {"boxes": np.hstack([corner, corner + rng.uniform(1, 9, corner.shape)])}
        )
        one |= {"points": rng.uniform(0, 9, (n, dimensions))} if points else {}
        one |= {"scores": rng.random(n)} if scored else {"width": 30, "height": 20}
        one |= {"depth": 9} if dimensions == 3 and not scored else {}
        found.append(one)
    return found


def cohort_of(dimensions: int, *, points: bool = False) -> cal.Cohort:
    """A model with masks, one with boxes, one that says nothing."""
    shared = {"scored": True, "points": points}
    models = {
        "masks": records(1, dimensions, **shared),
        "boxes": records(2, dimensions, scored=True, masks=False),
        "silent": [{**one, "labels": [], "scores": [], "boxes": []} for one in _bare(dimensions)],
    }
    return cal.Cohort.from_arrays(
        records(0, dimensions, scored=False, points=points), models, classes=CLASSES
    )


def _bare(dimensions: int):
    return [{"image_id": one["image_id"]} for one in records(0, dimensions, scored=False)]


def bits(table) -> list:
    """Everything that is stored of the shapes of a table: types, lengths, bytes."""
    masks = (
        []
        if table.masks is None
        else [getattr(table.masks, field.name) for field in fields(table.masks)]
    )
    points = [] if table.points is None else [table.points]
    return [[(x.dtype, x.shape, x.tobytes()) for x in columns] for columns in (masks, points)]


def protocol(criterion: str) -> cal.Protocol:
    plain = cal.Protocol.load("voc2012")
    return replace(plain, matching=replace(plain.matching, criterion=criterion), replicates=100)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("points", [False, True])
def test_shapes_come_back_bit_by_bit(tmp_path, dimensions, points):
    cohort = cohort_of(dimensions, points=points)
    found = read_folder(
        cal.evaluate(cohort, protocol("mask-iou"), ci=False).save(tmp_path / "out")
    ).cohort
    assert bits(found.references) == bits(cohort.references)
    assert {model: bits(said) for model, said in found.models.items()} == {
        model: bits(said) for model, said in cohort.models.items()
    }


@pytest.mark.parametrize("criterion", ["mask-iou", "point-in-mask", "box-iou"])
def test_an_evaluation_of_masks_is_reproduced(tmp_path, criterion):
    evaluation = cal.evaluate(cohort_of(2), protocol(criterion))
    again = cal.open_evaluation(
        evaluation.save(tmp_path / "out")
    )  # refuses if a single bit differs
    assert json.dumps(again.as_dict()["rows"]) == json.dumps(evaluation.as_dict()["rows"])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    evaluation = cal.evaluate(cohort_of(2, points=True), protocol("mask-iou"), ci=False)
    return evaluation.save(tmp_path_factory.mktemp("made") / "out")


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "out"))


def entry(name, value, row=0):
    def change(table):
        cells = table[name].to_pylist()
        cells[row] = value
        return table.set_column(
            table.column_names.index(name), name, pa.array(cells, table[name].type)
        )

    return change


def metadata(text):
    return lambda table: table.replace_schema_metadata(
        {**table.schema.metadata, STORED.encode(): text}
    )


WRONG = {
    "no mask": (entry("mask_start", None), "type"),
    "a hole": (entry("mask_start", [None]), "type"),
    "no runs": (lambda t: entry("mask_length", [])(entry("mask_start", [])(t)), "mask-runs"),
    "a run less": (entry("mask_length", [1]), "mask-runs"),
    "an empty run": (lambda t: entry("mask_length", [0])(entry("mask_start", [3])(t)), "mask-runs"),
    "outside": (lambda t: entry("mask_length", [1])(entry("mask_start", [600])(t)), "mask-runs"),
    "beyond the row": (
        lambda t: entry("mask_length", [5])(entry("mask_start", [28])(t)),
        "mask-runs",
    ),
    "no order": (
        lambda t: entry("mask_length", [1, 1])(entry("mask_start", [5, 3])(t)),
        "mask-runs",
    ),
    "three sides": (entry("mask_size", [30, 20, 1]), "mask-runs"),
    "another size": (entry("mask_size", [30, 40]), "mask-size"),
    "no size": (entry("mask_size", [0, 0]), "mask-runs"),
    "masks of text": (
        lambda t: t.set_column(t.column_names.index("mask_start"), "mask_start", t["image"]),
        "column-type",
    ),
    "no column": (lambda t: t.drop_columns(["mask_size"]), "missing-column"),
    "a point of NaN": (entry("point_x", float("nan")), "non-finite"),
    "no point": (entry("point_y", None), "type"),
    "metadata that is no JSON": (metadata("["), "missing-key"),
    "metadata of another kind": (metadata('{"references": "masks", "models": {}}'), "missing-key"),
    "metadata without a model": (metadata('{"references": [], "models": {}}'), "missing-key"),
    "shapes that do not exist": (
        metadata('{"references": ["volumes"], "models": {}}'),
        "missing-key",
    ),
    "masks of a model of boxes": (
        metadata('{"references": [], "models": {"masks": [], "boxes": ["masks"], "silent": []}}'),
        "type",
    ),
}


@pytest.mark.parametrize(("change", "rule"), WRONG.values(), ids=WRONG)
def test_shapes_that_vouch_for_themselves_are_not_trusted(folder, change, rule):
    pq.write_table(change(pq.read_table(folder / "objects.parquet")), folder / "objects.parquet")
    vouch(folder)
    error = refusal(folder)
    assert (error.rule, Path(error.file).name) == (rule, "objects.parquet")


def test_references_must_have_the_same_masks_for_every_model(folder):
    table = pq.read_table(folder / "objects.parquet")
    row = table["model"].to_pylist().index("boxes")
    change = entry("mask_start", [0], row)
    pq.write_table(entry("mask_length", [1], row)(change(table)), folder / "objects.parquet")
    vouch(folder)
    assert refusal(folder).rule == "stored-order"


def test_a_folder_of_boxes_has_no_such_columns(tmp_path):
    evaluation = evaluated_demo(protocol("box-iou"), ci=False)
    folder = evaluation.save(tmp_path / "out")
    table = pq.read_table(folder / "objects.parquet")
    assert not [name for name in table.column_names if name.startswith(("mask_", "point_"))]
    assert STORED.encode() not in table.schema.metadata
    assert read_folder(folder).cohort.references.masks is None
