"""COCO masks from files equal pycocotools': the text of run lengths, polygons to the pixel,
and AP of segmentations.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as peer

import calipers as cal
from calipers import registry
from calipers.io.read import read
from calipers.kernels import coco_rle, ragged
from calipers.kernels import shapes as polygons
from cases import DATA
from coco_peer import SEGMENTATION, of_files, twelve
from mask_cases import flat, random_mask, random_ring, rows_from_columns
from seeds import seeds

REAL = DATA / "coco_rle" / "instances_val2014_fakesegm100_results.json"


def characters(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    return ragged.from_counts(np.array(list(map(len, texts)))), np.frombuffer(
        b"".join(texts), np.uint8
    )


def texts_of(runs: Any, size: np.ndarray) -> list[bytes]:
    ends, text = coco_rle.encode_text(*coco_rle.counts_from_rows(*runs, size))
    return [text[a:b].tobytes() for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("block", range(5))
def test_texts_of_a_thousand_random_masks_are_the_same(block: int) -> None:
    """Bytes equal, both ways."""
    random = np.random.default_rng([7, block])
    masks = [random_mask(random, 60) for _ in range(200)]
    size = np.array([mask.shape[::-1] for mask in masks])
    wanted = [peer.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"] for mask in masks]
    found = coco_rle.decode_text(*characters(wanted))
    assert not coco_rle.count_faults(found.offsets, found.counts, size).any()
    runs = rows_from_columns(coco_rle.column_runs(found.offsets, found.counts), size)
    for k, mask in enumerate(masks):
        mine = slice(runs[0][k], runs[0][k + 1])
        assert ragged.spans(runs[1][mine], runs[2][mine]).tolist() == np.flatnonzero(mask).tolist()
    assert texts_of(runs, size) == wanted


@pytest.mark.parametrize("block", seeds(8, default=3))
def test_four_thousand_random_polygons_are_drawn_the_same(block: int) -> None:
    """Every pixel: several rings, slivers, rectangles, self-crossings,
    corners outside and far away.
    """
    random = np.random.default_rng([8, block])
    sizes = [tuple(random.integers(1, 80, 2).tolist()) for _ in range(500)]
    shapes = [
        [random_ring(random, *size) for _ in range(random.choice([1, 1, 1, 2, 3]))]
        for size in sizes
    ]
    size = np.array(sizes)
    runs = rows_from_columns(polygons.column_runs(*flat(shapes), size), size)
    wanted = []
    for shape, (w, h) in zip(shapes, sizes):
        wanted.append(
            peer.merge(peer.frPyObjects([ring.reshape(-1).tolist() for ring in shape], h, w))[
                "counts"
            ]
        )
    assert texts_of(runs, size) == wanted


def blob(
    random: np.random.Generator, shape: tuple[int, int]
) -> tuple[list[list[float]], np.ndarray]:
    """Return the polygons of one or two uneven circles, and their mask."""
    rings = []
    for _ in range(random.choice([1, 1, 2])):
        centre, radius = (
            random.uniform(0.2, 0.8, 2) * shape[::-1],
            random.choice([9.0, 20.0, 55.0, 110.0]),
        )
        turn = np.linspace(0, 2 * np.pi, random.integers(4, 20), endpoint=False)
        reach = radius * random.uniform(0.7, 1.2, len(turn))
        ring = np.stack(
            [centre[0] + reach * np.cos(turn), centre[1] + reach * np.sin(turn)], axis=1
        )
        rings.append(np.clip(ring, 0, shape[::-1]).round(2).reshape(-1).tolist())
    return rings, peer.decode(peer.merge(peer.frPyObjects(rings, *shape)))


def packed(mask: np.ndarray, *, listed: bool = False) -> dict[str, Any]:
    found = peer.encode(np.asfortranarray(mask))
    if listed:
        offsets, text = characters([found["counts"]])
        return {
            "size": found["size"],
            "counts": coco_rle.decode_text(offsets, text).counts.tolist(),
        }
    return {"size": found["size"], "counts": found["counts"].decode()}


def coco_files(folder: Path, seed: int, *, boxes: bool) -> tuple[Path, Path]:
    """References as polygons and run lengths of both kinds, with crowds and declared areas;
    results as run lengths.
    """
    random = np.random.default_rng([9, seed])
    images, annotations, results = [], [], []
    for image in range(1, 9):
        shape = tuple(random.integers(120, 300, 2).tolist())
        images.append({"id": image, "height": shape[0], "width": shape[1]})
        for _ in range(int(random.integers(0, 5))):
            rings, mask = blob(random, shape)
            crowd = int(random.random() < 0.15)
            kind = random.choice(["polygon", "text", "numbers"]) if not crowd else "numbers"
            area, box = float(peer.area(peer.encode(mask))), peer.toBbox(peer.encode(mask)).tolist()
            shared = {"image_id": image, "category_id": int(random.integers(1, 4))}
            segmentation = rings if kind == "polygon" else packed(mask, listed=kind == "numbers")
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    **shared,
                    "bbox": box,
                    "area": area * float(random.choice([1.0, 0.9])),
                    "iscrowd": crowd,
                    "segmentation": segmentation,
                }
            )
            for _ in range(int(random.integers(0, 3))):
                moved = np.roll(mask, random.integers(-9, 10, 2), axis=(0, 1)) ^ (
                    random.random(shape) < 0.002
                )
                score = round(float(random.random()), 2)
                results.append(
                    {**shared, "segmentation": packed(moved.astype(np.uint8)), "score": score}
                )
        for _ in range(int(random.integers(0, 3))):
            mask = blob(random, shape)[1]
            label, score = int(random.integers(1, 4)), round(float(random.random()), 2)
            result = {
                "image_id": image,
                "category_id": label,
                "segmentation": packed(mask),
                "score": score,
            }
            results.append(result)
    if boxes:
        for result in results:
            result["bbox"] = peer.toBbox(result["segmentation"]).tolist()
    categories = [{"id": k, "name": f"class {k}"} for k in (1, 2, 3)]
    document = {"images": images, "annotations": annotations, "categories": categories}
    references, found = folder / "references.json", folder / "results.json"
    references.write_text(json.dumps(document))
    found.write_text(json.dumps(results))
    return references, found


def by_calipers(references: Path, results: Path, protocol: Any) -> np.ndarray:
    return twelve(cal.evaluate(read(references, results), protocol, ci=False).as_dict()["rows"])


@pytest.mark.skipif("mask-iou" not in registry.CRITERIA, reason="needs the criterion mask-iou")
@pytest.mark.parametrize("seed", seeds(36, default=12))
def test_average_precision_from_files(seed: int, tmp_path: Path) -> None:
    """All twelve numbers to 1e-12, of masks and of boxes,
    with and without boxes among the results.
    """
    references, results = coco_files(tmp_path, seed, boxes=seed % 3 == 0)
    protocol = cal.Protocol.from_toml(SEGMENTATION)
    for kind, ours in (("segm", protocol), ("bbox", cal.Protocol.load("coco"))):
        difference = by_calipers(references, results, ours) - of_files(references, results, kind)
        assert np.abs(difference).max() <= 1e-12, (kind, difference)


@pytest.mark.skipif(not REAL.exists(), reason="needs the shared data (CALIPERS_DATA)")
def test_the_published_results_are_read_as_pycocotools_reads_them(tmp_path: Path) -> None:
    results = json.loads(REAL.read_text())
    images = [{"id": image} for image in sorted({result["image_id"] for result in results})]
    categories = [
        {"id": k, "name": str(k)} for k in sorted({result["category_id"] for result in results})
    ]
    references = tmp_path / "references.json"
    references.write_text(
        json.dumps({"images": images, "annotations": [], "categories": categories})
    )
    table = read(references, REAL).models[REAL.stem]
    assert table.masks is not None
    segmentations = [results[place]["segmentation"] for place in table.place.tolist()]
    assert table.masks.voxels.tolist() == [int(peer.area(one)) for one in segmentations]
    corners = np.stack([peer.toBbox(one) for one in segmentations])
    corners[:, 2:] += corners[:, :2]
    assert np.array_equal(table.boxes, corners)
    for k in range(0, len(table), 25):
        assert np.array_equal(table.masks.dense(k), peer.decode(segmentations[k]).astype(bool))
