"""The targets: readers and public constructors, each with sound inputs and a judge.

A target takes a damaged input and answers with a result or with a `CalipersError`; anything else,
and anything slow, is a failure that `attack` raises as a `Failure` with the input that shows it.
Where an independent reader exists, a judge compares what was accepted, so that wrong numbers
without a word are seen too: the peer must agree, or refuse the input.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import calipers as cal
from calipers.data.masks import Masks
from calipers.errors import CalipersError
from calipers.evaluation.protocol import Protocol
from calipers.io.volumes.open import open_volume
from calipers.io.write_volume import write_volume
from calipers.results.requirements import Requirements
from calipers.sensitivity.multiverse import load_grid
from fuzz import mutate, peers, tool_peers
from fuzz.mutate import Random
from fuzz.volumes import same_voxels
from random_cohorts import random_cohort
from volume_cases import noise

SLOWEST = 5.0  # CPU seconds of one input

BOXES = """image_id,class,x0,y0,x1,y1,patient,width,height
a,nodule,10,20,30,40,p1,100,100
a,mass,1.5,2.5,13,14,p1,100,100
b,nodule,11,21,31,41,p2,100,100
"""
SCORES = """image_id,class,x0,y0,x1,y1,score
a,nodule,10,20,30,41,0.9
b,mass,1,2,3,4,0.25
b,nodule,11,21,31,41,1
"""
PROTOCOL = """schema = "calipers.protocol/1"
name = "fuzz"
source = "test"
[matching]
criterion = "box-iou"
thresholds = { from = 0.5, to = 0.95, step = 0.05 }
max_dets = 100
ties = "coco"
[sizes]
small = [0, 1024]
[statistics]
cluster = "image"
seed = 3
[[metric]]
name = "AP"
kind = "average-precision"
interpolation = "coco101"
[[metric]]
name = "FROC@1"
kind = "froc"
rates = [1.0]
thresholds = [0.5]
"""
GRID = """schema = "calipers.grid/1"
[grid]
criterion = ["box-iou", "giou"]
threshold = [0.25, 0.5]
[base]
criterion = "box-iou"
"""
REQUIREMENTS = """schema = "calipers.requirements/1"
name = "fuzz"
[[requirement]]
id = "R1"
text = "finds it"
metric = "AP50"
at_least = 0.5
min_units = 20
group = { centre = "*" }
"""
COCO = {
    "images": [
        {"id": 1, "file_name": "a.png", "width": 100, "height": 100},
        {"id": 2, "file_name": "b.png", "width": 100, "height": 100},
    ],
    "categories": [{"id": 1, "name": "nodule"}, {"id": 2, "name": "mass"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 20, 20, 20], "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": 2, "bbox": [1, 2, 13, 14], "area": 182},
    ],
}


class Failure(AssertionError):
    """An input that a target did not answer as it must."""


@dataclass(frozen=True)
class Target:
    """One reader or constructor under attack."""

    name: str
    damage: Callable[[Random], Any]  # a damaged input
    run: Callable[[Any, Path], Any]  # the input and a folder to write into; the result
    # (input, result): raise AssertionError if an independent reader sees something else
    judge: Callable[[Any, Any], None] | None = None


def attack(target: Target, folder: Path, rounds: int, seed: int = 0) -> int:
    """Return how many damaged inputs were accepted; raise at the first failure."""
    # A folder of its own: sound files are written once, and others damage files of the same names.
    folder = folder / target.name
    folder.mkdir(exist_ok=True)
    accepted = 0
    for k in range(rounds):
        given = target.damage(np.random.default_rng([seed, k]))
        accepted += answers(target, given, folder, f"seed {seed}, input {k}")
    return accepted


def answers(target: Target, given: Any, folder: Path, where: str) -> bool:
    """Return whether one input was accepted; raise if it was not answered as it must be."""
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = target.run(given, folder)
    except CalipersError:
        return False
    except Exception as error:
        raise Failure(f"{target.name}, {where}: {described(given)}") from error
    finally:
        seconds = time.process_time() - began
        if seconds > SLOWEST:
            raise Failure(f"{target.name}, {where}: {seconds:.1f} s")
    if target.judge is not None:
        try:
            target.judge(given, result)
        except AssertionError as error:
            raise Failure(f"{target.name}, {where}: {described(given)}") from error
    return True


def described(given: Any) -> str:
    """Return the beginning of an input as text; some objects have none, and a seed finds them."""
    try:
        return f"{given!r:.500}"
    except Exception:
        return "an input that cannot be written"


def _file(folder: Path, name: str, content: bytes) -> str:
    path = f"{folder}/{name}"
    with open(path, "wb") as file:
        file.write(content)
    return path


def _sound(folder: Path, name: str, content: bytes) -> str:
    """Write a file beside the damaged one; it stays for the next input."""
    path = f"{folder}/{name}"
    return path if os.path.exists(path) else _file(folder, name, content)


def tables() -> Iterator[Target]:
    """Delimited text of references, predictions and groups."""

    def damage(text: str) -> Callable[[Random], bytes]:
        def damaged(rng: Random) -> bytes:
            if rng.random() < 0.2:
                return mutate.of_bytes(rng, text.encode())
            return mutate.of_text(rng, text).encode()

        return damaged

    def references(content: bytes, folder: Path) -> Any:
        return cal.read(_file(folder, "references.csv", content))

    def predictions(content: bytes, folder: Path) -> Any:
        sound = _sound(folder, "sound.csv", BOXES.encode())
        return cal.read(sound, {"model": _file(folder, "predictions.csv", content)})

    def groups(content: bytes, folder: Path) -> Any:
        sound = _sound(folder, "sound.csv", BOXES.encode())
        return cal.read(sound, groups=_file(folder, "groups.csv", content))

    columns = "image_id class x0 y0 x1 y1"
    same_boxes = peers.agrees(peers.table(columns))

    def judge(content: bytes, cohort: Any) -> None:
        same_boxes(content, cohort)
        _same_images(content, cohort)

    yield Target("csv references", damage(BOXES), references, judge)
    judge_scores = peers.agrees(peers.table(columns, "score"), model=True)
    yield Target("csv predictions", damage(SCORES), predictions, judge_scores)
    text = "image_id,patient,age\na,p1,7\nb,p2,8\n"
    yield Target("csv groups", damage(text), groups, peers.groups)


def json_rows() -> Iterator[Target]:
    """Rows as JSON objects, in a list or one per line; a damaged file is judged as a table."""
    rows = list(csv.DictReader(io.StringIO(BOXES)))
    scored = list(csv.DictReader(io.StringIO(SCORES)))

    def references(content: bytes, folder: Path) -> Any:
        return cal.read(_file(folder, "rows.json", content))

    def predictions(content: bytes, folder: Path) -> Any:
        sound = _sound(folder, "sound.csv", BOXES.encode())
        return cal.read(sound, {"model": _file(folder, "rows.jsonl", content)})

    lines = "\n".join(map(json.dumps, scored)).encode()
    whole = json.dumps(rows).encode()

    def damage_lines(rng: Random) -> bytes:
        if rng.random() < 0.3:
            return mutate.of_bytes(rng, lines)
        return mutate.of_text(rng, lines.decode()).encode("utf-8", "surrogatepass")

    yield Target("json-rows references", lambda rng: mutate.of_json(rng, whole), references)
    yield Target("json-rows predictions", damage_lines, predictions)


def _same_images(content: bytes, cohort: Any) -> None:
    """Compare images, patients and sizes, if the header is still the old one."""
    try:
        rows = list(peers.cells(content))
        wanted = {}
        for row in rows:
            if row["image_id"]:
                sides = tuple(peers.number(row[side]) for side in ("width", "height"))
                wanted.setdefault(row["image_id"], set()).add((row["patient"], sides))
    except Exception:
        return
    sizes = list(map(tuple, cohort.images.size.tolist()))
    patients = map(str, cohort.images.groups["patient"].tolist())
    entries = zip(cohort.images.ids, patients, sizes)
    assert wanted == {image: {(patient, size)} for image, patient, size in entries}


def settings() -> Iterator[Target]:
    """Protocols, grids and requirements in TOML."""
    loaders: dict[str, tuple[str, Callable[[str], Any], Callable[[Any, Any], None]]] = {
        "protocol": (PROTOCOL, Protocol.load, _same_protocol),
        "grid": (GRID, load_grid, _same_grid),
        "requirements": (REQUIREMENTS, Requirements.load, _same_requirements),
    }
    for name, (text, load, same) in loaders.items():

        def damage(rng: Random, text: str = text) -> bytes:
            if rng.random() < 0.1:
                return mutate.of_bytes(rng, text.encode())
            return mutate.of_text(rng, text).encode()

        def run(content: bytes, folder: Path, load: Callable[[str], Any] = load) -> Any:
            return load(_file(folder, "a.toml", content))

        def judge(content: bytes, read: Any, same: Callable[[Any, Any], None] = same) -> None:
            same(tomllib.loads(content.decode("utf-8-sig")), read)

        yield Target(f"toml {name}", damage, run, judge)


def _same_protocol(document: Any, protocol: Any) -> None:
    """Compare what the document states; what it leaves out has a default."""
    stated = {**document, **document.get("statistics", {})}
    for name in ("name", "source", "seed", "cluster", "level", "replicates"):
        assert stated.get(name, getattr(protocol, name)) == getattr(protocol, name)
    matching = document.get("matching", {})
    own = protocol.matching
    assert matching.get("criterion", own.criterion) == own.criterion
    assert matching.get("max_dets", np.inf) in (own.max_dets, np.inf)
    names = [entry["name"] for entry in document["metric"]]
    assert names == [metric.name for metric in protocol.metrics]


def _same_grid(document: Any, read: Any) -> None:
    # A file without choices means the usual ones.
    assert document.get("grid", read[0]) == dict(read[0])


def _same_requirements(document: Any, requirements: Any) -> None:
    entries = document["requirement"]
    assert len(entries) == len(requirements)
    for entry, requirement in zip(entries, requirements):
        for key, value in entry.items():
            assert getattr(requirement, "label" if key == "class" else key) == value


def documents() -> Iterator[Target]:
    """COCO references and predictions."""
    references = json.dumps(COCO).encode()
    entries: list[dict[str, Any]] = []
    for annotation in COCO["annotations"]:
        names = ("image_id", "category_id", "bbox")
        entries.append({name: annotation[name] for name in names} | {"score": 0.5})
    predictions = json.dumps(entries).encode()

    def read_references(content: bytes, folder: Path) -> Any:
        return cal.read(_file(folder, "references.json", content))

    def read_predictions(content: bytes, folder: Path) -> Any:
        sound = _sound(folder, "sound.json", references)
        return cal.read(sound, {"model": _file(folder, "predictions.json", content)})

    same_boxes = peers.agrees(peers.coco)

    def judge(content: bytes, cohort: Any) -> None:
        document = json.loads(content.decode("utf-8-sig"))
        assert len(cohort.references) == len(document.get("annotations") or ())
        assert {str(image["id"]) for image in document["images"]} == set(cohort.images.ids)
        same_boxes(content, cohort)

    def judge_predictions(content: bytes, cohort: Any) -> None:
        document = json.loads(content.decode("utf-8-sig"))
        entries = document if isinstance(document, list) else document["annotations"]
        assert len(cohort.predictions("model")) == len(entries)
        peers.agrees(peers.coco_results, model=True)(content, cohort)

    yield Target(
        "coco references", lambda rng: mutate.of_json(rng, references), read_references, judge
    )
    yield Target(
        "coco predictions",
        lambda rng: mutate.of_json(rng, predictions),
        read_predictions,
        judge_predictions,
    )


def parquet(folder: Path) -> Iterator[Target]:
    """Parquet files, damaged as bytes and as columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(csv.DictReader(io.StringIO(BOXES)))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    numbers = ("x0", "y0", "x1", "y1", "width", "height")
    columns |= {name: [float(cell) for cell in columns[name]] for name in numbers}

    def damage(rng: Random) -> bytes:
        content = io.BytesIO()
        changed = dict(columns)
        if rng.random() < 0.7:
            changed = mutate.of_document(rng, columns)
        try:
            pq.write_table(pa.table(changed), content)
        except (pa.ArrowException, ValueError, TypeError, AttributeError, OverflowError):
            pq.write_table(pa.table(columns), content)
            return mutate.of_bytes(rng, content.getvalue())
        whole = content.getvalue()
        return mutate.of_bytes(rng, whole) if rng.random() < 0.3 else whole

    def run(content: bytes, folder: Path) -> Any:
        return cal.read(_file(folder, "references.parquet", content))

    def judge(content: bytes, cohort: Any) -> None:
        table = pq.read_table(io.BytesIO(content))
        assert len(cohort.references) == table.num_rows
        if {"image_id", "class", *numbers} <= set(table.column_names):
            wanted = []
            for row in table.to_pylist():
                box = tuple(float(row[name]) for name in numbers[:4])
                wanted.append((str(row["image_id"]), str(row["class"]), box, None))
            peers.compare(peers.rows_of(cohort, cohort.references), wanted)

    yield Target("parquet", damage, run, judge)


def volumes(folder: Path) -> Iterator[Target]:
    """Every format of volumes and pictures, damaged as bytes."""
    for suffix in (".npy", ".npz", ".png", ".tif", ".nii", ".nii.gz", ".nrrd", ".mha", ".dcm"):
        whole = _sound_volume(folder / f"sound{suffix}", suffix)
        if whole is None:
            continue

        def damage(rng: Random, whole: bytes = whole, suffix: str = suffix) -> bytes:
            if suffix in mutate.HEADERS and rng.random() < 0.6:
                return mutate.HEADERS[suffix](rng, whole)
            return mutate.of_bytes(rng, whole)

        def run(content: bytes, folder: Path, suffix: str = suffix) -> Any:
            volume = open_volume(_file(folder, f"a{suffix}", content))
            return volume, volume.read()

        def judge(content: bytes, read: Any, suffix: str = suffix) -> None:
            same_voxels(suffix, content, *read)

        yield Target(f"volume {suffix}", damage, run, judge)


def _sound_volume(path: Path, suffix: str) -> bytes | None:
    """Return the bytes of a small volume; None if its writer is not installed."""
    shape = (9, 11) if suffix == ".png" else (3, 9, 11)
    array = noise(shape, np.uint8)
    try:
        if suffix == ".dcm":
            from pictures.test_dicom import written

            written(path, noise((9, 11), np.uint16))
        elif suffix in (".nrrd", ".mha"):
            import SimpleITK as sitk

            sitk.WriteImage(sitk.GetImageFromArray(array), str(path))
        else:
            write_volume(path, array)
    except ImportError:
        return None
    return path.read_bytes()


def saved_folder(folder: Path) -> Iterator[Target]:
    """The documents of a saved evaluation."""
    cohort = random_cohort(4, 2, seed=1)
    place = folder / "saved"
    cal.evaluate(cohort, "coco", ci=False).save(place)
    rows = cal.open_evaluation(place).as_dict()["rows"]
    judges = {"evaluation.json": tool_peers.saved_rows, "run.json": tool_peers.sound_rows(rows)}
    for name, judge in judges.items():
        whole = (place / name).read_bytes()

        def damage(rng: Random, whole: bytes = whole) -> bytes:
            return mutate.of_json(rng, whole)

        def run(content: bytes, folder: Path, name: str = name, whole: bytes = whole) -> Any:
            (place / name).write_bytes(content)
            try:
                return cal.open_evaluation(place)
            finally:
                (place / name).write_bytes(whole)

        yield Target(f"saved {name}", damage, run, judge)


def blocks(folder: Path) -> Iterator[Target]:
    """The plan and the items of a folder of finished blocks; what passes has the same items."""
    from calipers.engine.ordered_map import Part
    from calipers.engine.store import ITEMS, PLAN, RunPlan, merged, opened

    place = folder / "blocks"
    plan = RunPlan("maps", {"alpha": 0.5, "files": ["a", "b"]}, ["x", "y", "z"], 2, ("calipers",))
    with opened(place, plan, Part(1, 1)):
        pass
    whole = {name: (place / name).read_bytes() for name in (PLAN, ITEMS)}

    def damage(rng: Random) -> tuple[str, bytes]:
        if rng.random() < 0.8:
            return PLAN, mutate.of_json(rng, whole[PLAN])
        return ITEMS, mutate.of_text(rng, whole[ITEMS].decode()).encode()

    def run(case: tuple[str, bytes], folder: Path) -> Any:
        name, content = case
        (place / name).write_bytes(content)
        try:
            return merged([place])[0].plan
        finally:
            (place / name).write_bytes(whole[name])

    def judge(case: tuple[str, bytes], read: Any) -> None:
        # Damage to the settings, to the command or to the name of the work is for the verb to see.
        assert (list(read.items), read.size >= 1) == (list(plan.items), True)

    yield Target("blocks", damage, run, judge)


def constructors() -> Iterator[Target]:
    """Tables of objects, cohorts and masks from damaged arrays; what passes is evaluated."""
    cohort = random_cohort(6, 3, seed=1, crowd_share=0.1)
    presets = ("coco", "rodeo", "luna16", "tide")

    def damaged(rng: Random, table: Any) -> dict[str, Any]:
        names = [
            column.name
            for column in fields(table)
            if isinstance(getattr(table, column.name), np.ndarray)
        ]
        name = names[int(rng.integers(len(names)))]
        return {name: mutate.of_array(rng, getattr(table, name))}

    def tables_of(rng: Random) -> tuple[str, Any, str]:
        part = ("predictions", "references", "images", "concat", "take")[int(rng.integers(5))]
        preset = presets[int(rng.integers(len(presets)))]
        if part == "take":
            return part, mutate.of_array(rng, np.arange(cohort.n_images)), preset
        table: Any = cohort.references if part == "references" else cohort.predictions("model-1")
        if part == "images":
            table = cohort.images
        return part, damaged(rng, table), preset

    def build(case: tuple[str, Any, str], folder: Path) -> Any:
        part, change, preset = case
        predictions = cohort.predictions("model-1")
        if part == "take":
            made = cohort.take(change)
        elif part == "references":
            made = replace(cohort, references=replace(cohort.references, **change))
        elif part == "images":
            made = replace(cohort, images=replace(cohort.images, **change))
        elif part == "concat":
            joint = type(predictions).concat([predictions, replace(predictions, **change)])
            made = replace(cohort, models={"model-1": joint})
        else:
            made = cohort.with_predictions("other", replace(predictions, **change))
        return cal.evaluate(made, preset, ci=False)

    def masks_of(rng: Random) -> dict[str, Any]:
        return damaged(rng, Masks.from_dense(np.ones((2, 4, 5), np.bool_)))

    def from_masks(change: dict[str, Any], folder: Path) -> Any:
        masks = replace(Masks.from_dense(np.ones((2, 4, 5), np.bool_)), **change)
        record = {"masks": masks, "labels": [0, 0], "width": 5, "height": 4}
        made = cal.Cohort.from_arrays([record], [record | {"scores": [0.5, 1]}], classes=["a"])
        return cal.evaluate(made, "coco", ci=False)

    yield Target("tables", tables_of, build)
    yield Target("masks", masks_of, from_masks)


def arrays() -> Iterator[Target]:
    """`Cohort.from_arrays` with damaged records."""
    record = {"boxes": [[1, 2, 3, 4], [5, 6, 9, 9]], "labels": [0, 1], "image_id": "a"}
    sound = {
        "references": [
            {**record, "ignore": [0, 1], "area": [4.0, 9.0], "width": 10, "height": 10},
            {"boxes": [], "labels": [], "image_id": "b", "patient": "p"},
        ],
        "predictions": {"m": [{**record, "scores": [0.5, 0.25]}]},
        "classes": ["x", "y"],
        "box_format": "xyxy",
        "score_scale": "unit",
    }

    def run(keywords: Any, folder: Path) -> Any:
        if not isinstance(keywords, dict) or not keywords.keys() <= sound.keys():
            return None
        full = {"references": sound["references"], "classes": sound["classes"]} | keywords
        return cal.Cohort.from_arrays(**full)

    yield Target("from_arrays", lambda rng: mutate.of_document(rng, sound), run)


def all_targets(folder: Path) -> list[Target]:
    """Return every target; some need a folder for their sound files."""
    from fuzz.annotations import annotations
    from fuzz.dumps import dumps
    from fuzz.lists import lists

    return [
        *tables(),
        *settings(),
        *documents(),
        *parquet(folder),
        *json_rows(),
        *volumes(folder),
        *saved_folder(folder),
        *blocks(folder),
        *constructors(),
        *arrays(),
        *annotations(folder),
        *lists(folder),
        *dumps(folder),
    ]
