"""Masks equal pycocotools': areas, boxes, IoU with and without crowds, and the twelve numbers of
segmentations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pycocotools import mask as peer
from pycocotools.cocoeval import COCOeval

import calipers as cal
from calipers.data.masks import Masks
from calipers.matching.criteria import MASK_IOU, PairTable
from coco_peer import SEGMENTATION, Record, assert_the_twelve, cohort_of, of_records
from kernel_routes import native_by_default
from seeds import seeds

# The peer takes most of the time, and `kernels/test_runs.py` and `test_routes.py` hold both routes
# together.
pytestmark = native_by_default

PROTOCOL = f'{SEGMENTATION}[sizes]\nfrom = "mask"\n'


def encoded(masks: list[np.ndarray]) -> list[Any]:
    return peer.encode(np.asfortranarray(np.stack(masks, axis=2).astype(np.uint8)))


def blob(
    random: np.random.Generator, shape: tuple[int, int], near: np.ndarray | None = None
) -> np.ndarray:
    """Return an ellipse with frayed edges, or one like another one but moved by some pixels."""
    if near is not None:
        moved = np.roll(near, random.integers(-4, 5, 2), axis=(0, 1))
        found = moved ^ (random.random(shape) < random.choice([0.0, 0.002, 0.05]))
    else:
        y, x = np.indices(shape)
        centre, radius = (
            random.uniform(0, shape),
            random.choice([4.0, 18.0, 34.0, 80.0], 2) * random.uniform(0.7, 1.3),
        )
        found = ((y - centre[0]) / radius[0]) ** 2 + ((x - centre[1]) / radius[1]) ** 2 <= 1
        found &= random.random(shape) < random.choice([0.7, 1.0])
    found[tuple(random.integers(0, shape))] = True
    return found


@pytest.mark.parametrize("block", seeds(5, default=2))
def test_areas_boxes_and_overlaps_of_a_hundred_random_sets(block: int) -> None:
    """Areas and boxes equal, IoU to the last bit: both divide the same whole numbers."""
    for seed in range(20 * block, 20 * (block + 1)):
        random = np.random.default_rng([20_261, seed])
        shape = tuple(random.integers(1, 90, 2))
        references = [blob(random, shape) for _ in range(random.integers(1, 6))]
        results = [
            blob(random, shape, references[0] if random.random() < 0.5 else None)
            for _ in range(random.integers(1, 8))
        ]
        crowd = random.random(len(references)) < 0.3
        masks = Masks.from_dense(references)
        theirs = encoded(references)
        np.testing.assert_array_equal(masks.voxels, peer.area(theirs))
        low, high = np.split(masks.boxes(), 2, axis=1)
        np.testing.assert_array_equal(
            np.concatenate([low, high - low], axis=1), peer.toBbox(theirs)
        )
        cohort = cal.Cohort.from_arrays(
            [{"masks": references, "labels": [0] * len(references), "crowd": crowd}],
            [{"masks": results, "labels": [0] * len(results), "scores": [1.0] * len(results)}],
            classes=("a",),
        )
        row, column = (grid.reshape(-1) for grid in np.indices((len(references), len(results))))
        pairs = PairTable(cohort, cohort.predictions("model"), row, column)
        ours = np.where(crowd[row], MASK_IOU.crowd(pairs), MASK_IOU.similarity(pairs))
        expected = peer.iou(encoded(results), theirs, crowd.astype(np.uint8).tolist())
        np.testing.assert_array_equal(ours, expected.T.reshape(-1), err_msg=f"seed {seed}")


def random_set(seed: int) -> tuple[list[tuple[int, int]], int, list[Record], list[Record]]:
    """Return (shapes of images, classes, references, results)."""
    random = np.random.default_rng([20_262, seed])
    shapes = [
        tuple(random.integers(20, 200, 2).tolist()) for _ in range(int(random.integers(1, 6)))
    ]
    n_classes = int(random.integers(1, 4))
    references: list[Record] = []
    results: list[Record] = []
    for image, shape in enumerate(shapes):
        here = []
        for _ in range(int(random.integers(0, 6))):
            crowd = int(random.random() < (0.25 if seed % 2 else 0.0))
            label = int(random.integers(0, n_classes))
            here.append(
                {"image": image, "label": label, "mask": blob(random, shape), "crowd": crowd}
            )
        references += here
        for k in random.integers(0, len(here), 2 * len(here)) if here else ():
            label = (
                here[k]["label"] if random.random() < 0.8 else int(random.integers(0, n_classes))
            )
            results.append(
                {"image": image, "label": label, "mask": blob(random, shape, here[k]["mask"])}
            )
        for _ in range(int(random.integers(0, 3))):
            results.append(
                {
                    "image": image,
                    "label": int(random.integers(0, n_classes)),
                    "mask": blob(random, shape),
                }
            )
    for result in results:
        result["score"] = round(float(random.random()), [16, 1][seed % 2])
    return shapes, n_classes, references, [results[k] for k in random.permutation(len(results))]


def pycocotools_of(
    shapes: Any, n_classes: int, references: list[Record], results: list[Record]
) -> COCOeval:
    def record(r: Record) -> Record:
        return {
            "image_id": r["image"] + 1,
            "category_id": r["label"] + 1,
            "segmentation": encoded([r["mask"]])[0],
        }

    dataset = {
        "images": [{"id": k + 1, "height": h, "width": w} for k, (h, w) in enumerate(shapes)],
        "categories": [{"id": k + 1} for k in range(n_classes)],
        "annotations": [
            {
                **record(r),
                "id": k,
                "area": float(r["mask"].sum()),
                "iscrowd": r["crowd"],
                "bbox": [0, 0, 1, 1],
            }
            for k, r in enumerate(references, start=1)
        ],
    }
    return of_records(dataset, [{**record(r), "score": r["score"]} for r in results], "segm")


def calipers_of(
    shapes: Any, n_classes: int, references: list[Record], results: list[Record]
) -> cal.Evaluation:
    shared = {"masks": "mask", "labels": "label"}
    sides = (references, {**shared, "crowd": "crowd"}), (results, {**shared, "scores": "score"})
    cohort = cohort_of(range(len(shapes)), n_classes, *sides)
    return cal.evaluate(cohort, cal.Protocol.from_toml(PROTOCOL), ci=False)


@pytest.mark.parametrize("block", seeds(12, default=5))
def test_the_twelve_numbers_of_segmentations(block: int) -> None:
    """120 random sets, each number to 1e-12."""
    for seed in range(10 * block, 10 * (block + 1)):
        data = random_set(seed)
        assert_the_twelve(calipers_of(*data), pycocotools_of(*data), f"seed {seed}")


def test_the_random_sets_hold_every_trouble() -> None:
    sets = [random_set(seed) for seed in range(120)]
    areas = np.array([r["mask"].sum() for _, _, references, _ in sets for r in references])
    assert all((np.histogram(areas, [0, 32**2, 96**2, 1e9])[0] > 5).tolist()), (
        "small, medium and large ones"
    )
    assert any(r["crowd"] for _, _, references, _ in sets for r in references)
    assert any(not references for _, _, references, _ in sets)
    assert any(not results for _, _, _, results in sets)
    assert np.mean([np.isnan(calipers_of(*data)["AP"].value) for data in sets[:20]]) < 0.5
