"""The twelve COCO numbers equal pycocotools' to 1e-12, and the precision array bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from pycocotools.cocoeval import COCOeval

import calipers as cal
from calipers.metrics.ranking import AveragePrecision
from coco_peer import Record, assert_the_twelve, cohort_of, of_records
from kernel_routes import native_by_default

# The peer takes most of the time, and `test_routes.py` holds every metric to the same bits on both
# routes.
pytestmark = native_by_default

SETS_PER_TEST = 20


def random_set(seed: int) -> tuple[int, int, list[Record], list[Record]]:
    """Return (images, classes, annotations, results): a different mixture of troubles for every
    seed.
    """
    random = np.random.default_rng([20_260, seed])
    n_images, n_classes = int(random.integers(1, 9)), int(random.integers(1, 5))
    decimals = [0, 2, 12][seed % 3]
    score_decimals = [16, 1, 2, 0][seed % 4]
    crowd_share = [0.0, 0.25][seed % 2]
    flooded = seed % 5 == 0  # more than 100 results for one image and class
    references: list[Record] = []
    results: list[Record] = []
    for image in range(1, n_images + 1):
        n = 0 if random.random() < 0.2 else int(random.integers(1, 8))
        corners, sides = _places(n, random, decimals)
        for k in range(n):
            area = sides[k].prod() * (random.uniform(0.3, 1.2) if seed % 2 else 1.0)
            crowd = int(random.random() < crowd_share)
            label = int(
                random.integers(0, max(1, n_classes - seed % 2))
            )  # sometimes a class without references
            box = [*corners[k], *sides[k]]
            references.append(
                {"image": image, "label": label, "box": box, "area": float(area), "crowd": crowd}
            )
        copies = random.integers(0, n, 3 * n) if n else np.zeros(0, int)
        extra = int(random.integers(0, 4)) + (150 if flooded and image == 1 else 0)
        away, extents = _places(extra, random, decimals)
        noise = np.exp(random.uniform(np.log(0.003), np.log(0.4), (len(copies), 1)))
        moved = corners[copies] + noise * sides[copies] * random.normal(size=(len(copies), 2))
        resized = sides[copies] * np.exp(noise * random.normal(size=(len(copies), 2)))
        exact = random.random(len(copies)) < 0.1
        moved[exact], resized[exact] = corners[copies][exact], sides[copies][exact]
        low = np.concatenate([moved, away]).round(decimals)
        extent = np.maximum(np.concatenate([resized, extents]).round(decimals), 10.0**-decimals)
        if random.random() < 0.15:
            continue  # an image without results
        for box in np.concatenate([low, extent], axis=1).tolist():
            label = 0 if flooded else int(random.integers(0, n_classes))
            score = round(float(random.random()), score_decimals)
            results.append({"image": image, "label": label, "box": box, "score": score})
    return n_images, n_classes, references, [results[k] for k in random.permutation(len(results))]


def _places(n: int, random: np.random.Generator, decimals: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, 2) corners and sides; sides around 32 and 96 pixels are common, to sit on the size
    limits.
    """
    sides = random.choice([8.0, 32.0, 50.0, 96.0, 200.0], (n, 2))
    sides = np.where(random.random((n, 1)) < 0.5, sides, sides * random.uniform(0.5, 1.5, (n, 2)))
    return (random.uniform(0, 300, (n, 2))).round(decimals), sides.round(decimals)


def pycocotools_of(
    n_images: int, n_classes: int, references: list[Record], results: list[Record]
) -> COCOeval:
    dataset = {
        "images": [{"id": k + 1} for k in range(n_images)],
        "categories": [{"id": k + 1} for k in range(n_classes)],
        "annotations": [  # ids from 1 on: pycocotools takes 0 for "not matched"
            {
                "id": k,
                "image_id": r["image"],
                "category_id": r["label"] + 1,
                "bbox": list(r["box"]),
                "area": r["area"],
                "iscrowd": r["crowd"],
            }
            for k, r in enumerate(references, start=1)
        ],
    }
    found = [
        {
            "image_id": r["image"],
            "category_id": r["label"] + 1,
            "bbox": list(r["box"]),
            "score": r["score"],
        }
        for r in results
    ]
    return of_records(dataset, found, "bbox")


def calipers_of(
    n_images: int, n_classes: int, references: list[Record], results: list[Record]
) -> cal.Evaluation:
    shared = {"boxes": "box", "labels": "label"}
    sides = (
        (references, {**shared, "area": "area", "crowd": "crowd"}),
        (results, {**shared, "scores": "score"}),
    )
    cohort = cohort_of(range(1, n_images + 1), n_classes, *sides, box_format="xywh")
    return cal.evaluate(cohort, "coco", ci=False)


def assert_parity(seed: int) -> None:
    data = random_set(seed)
    peer, ours = pycocotools_of(*data), calipers_of(*data)
    assert_the_twelve(ours, peer, f"seed {seed}")
    assert_equal_bits(ours, peer, seed)


def assert_equal_bits(ours: cal.Evaluation, peer: COCOeval, seed: int) -> None:
    metric = next(
        metric for metric in ours.protocol.compile() if isinstance(metric, AveragePrecision)
    )
    evidence = ours.evidence["model", metric.recipe.key]
    weights = np.ones((1, evidence.n_images), np.int64)
    for k, name in enumerate(("AP", "APs", "APm", "APl")):
        output = next(output for output in metric.outputs if output.name == name)
        found = metric.precisions(evidence, output, weights)[0]  # (thresholds, classes, recalls)
        theirs = peer.eval["precision"][:, :, :, k, 2].transpose(0, 2, 1)
        defined = theirs[:, :, 0] > -1
        np.testing.assert_array_equal(
            found[defined], theirs[defined], err_msg=f"seed {seed}: {name}"
        )


@pytest.mark.parametrize("block", range(10))
def test_two_hundred_random_sets(block: int) -> None:
    for seed in range(block * SETS_PER_TEST, (block + 1) * SETS_PER_TEST):
        assert_parity(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10, 110))
def test_two_thousand_random_sets(block: int) -> None:
    for seed in range(block * SETS_PER_TEST, (block + 1) * SETS_PER_TEST):
        assert_parity(seed)


def test_the_random_sets_hold_every_trouble() -> None:
    sets = [random_set(seed) for seed in range(200)]
    results = [r for _, _, _, found in sets for r in found]
    per_cell = [
        sum((r["image"], r["label"]) == (1, 0) for r in found)
        for _, _, _, found in sets
        if len(found) > 150
    ]
    assert max(per_cell) > 100
    assert any(r["crowd"] for _, _, references, _ in sets for r in references)
    assert any(
        abs(r["area"] - r["box"][2] * r["box"][3]) > 1
        for _, _, references, _ in sets
        for r in references
    )
    assert any(len({r["label"] for r in references}) < n for _, n, references, _ in sets)
    assert any(not references for _, _, references, _ in sets)
    assert any(not found for _, _, _, found in sets)
    assert len({r["score"] for r in results}) < 0.9 * len(results)
    on_the_limit = [
        r for _, _, references, _ in sets for r in references if r["area"] in (1024.0, 9216.0)
    ]
    assert len(on_the_limit) > 5


@pytest.mark.parametrize("trouble", ["no results", "no references", "nothing but crowds"])
def test_sets_without_one_side(trouble: str) -> None:
    n_images, n_classes, references, results = random_set(3)
    if trouble == "no results":
        results = []
    elif trouble == "no references":
        references = []
    else:
        references = [{**r, "crowd": 1} for r in references]
    data = (n_images, n_classes, references, results)
    assert_the_twelve(calipers_of(*data), pycocotools_of(*data), trouble)
