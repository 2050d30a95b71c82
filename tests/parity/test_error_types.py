"""Error types equal those of tidecv: gains, specials and counts, of boxes and of masks; and
hotcoco's where it agrees.

Sets are random, with whole coordinates so that overlaps tie and lie on the limits, and with
everything that tidecv treats in a way of its own: ignored regions, images with more than 100
predictions, equal scores, classes that only one side has, empty images. Tolerance: counts are
equal; gains differ by at most 1e-12 (tidecv's are in percent).
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.metrics.error_types import GAINS, KINDS
from kernel_routes import native_by_default
from seeds import seeds
from tide_peer import load_tidecv

# The peer takes most of the time, and `test_routes.py` holds every metric to the same bits on both
# routes.
pytestmark = native_by_default

tidecv = load_tidecv()
mask_tools = pytest.importorskip("pycocotools.mask")

SIDE = 48
SETS_PER_BLOCK = 20
NAMES = {"Cls": "cls", "Loc": "loc", "Both": "both", "Dupe": "dup", "Bkg": "bkg", "Miss": "miss"}
SPECIAL = {"FalsePos": "fp", "FalseNeg": "fn"}
Image = dict[str, Any]


def random_boxes(random: np.random.Generator, n: int) -> np.ndarray:
    low = random.integers(0, SIDE - 8, (n, 2))
    return np.concatenate(
        [low, np.minimum(low + random.integers(4, 24, (n, 2)), SIDE)], axis=1
    ).astype(float)


def moved(random: np.random.Generator, boxes: np.ndarray) -> np.ndarray:
    """Return boxes near the given ones; some are equal to them, some lie on a limit."""
    near = boxes + random.integers(-3, 4, boxes.shape) * (random.random((len(boxes), 1)) < 0.8)
    near = np.clip(near, 0, SIDE)
    low, high = np.minimum(near[:, :2], near[:, 2:] - 1), near[:, 2:]
    return np.concatenate(
        [np.clip(low, 0, SIDE - 1), np.maximum(high, np.clip(low, 0, SIDE - 1) + 1)], axis=1
    )


def random_image(
    random: np.random.Generator, n_classes: int, *, ties: bool, ignored: bool, crowded: bool
) -> Image:
    n = int(random.integers(0, 5))
    boxes = random_boxes(random, n)
    if n > 1 and random.random() < 0.3:
        boxes[1] = boxes[0]  # two references in one place
    labels = random.integers(0, n_classes, n)
    near = np.repeat(np.arange(n), random.integers(0, 4, n)) if n else np.zeros(0, int)
    noise = int(random.integers(90, 130)) if crowded else int(random.integers(0, 4))
    said = np.concatenate([moved(random, boxes[near]), random_boxes(random, noise)])
    right = np.where(
        random.random(len(near)) < 0.75, labels[near], random.integers(0, n_classes, len(near))
    )
    score = random.integers(1, 6, len(said)) / 8 if ties else random.random(len(said))
    return {
        "boxes": boxes,
        "labels": labels,
        "ignore": (random.random(n) < 0.3) if ignored else np.zeros(n, bool),
        "said": said,
        "said_labels": np.concatenate([right, random.integers(0, n_classes, noise)]).astype(int),
        "scores": score,
    }


def random_set(seed: int) -> tuple[list[Image], int]:
    random = np.random.default_rng([2020, seed])
    n_classes = int(random.integers(1, 5))
    ties, ignored = seed % 3 == 0, seed % 2 == 0
    images = [
        random_image(
            random, n_classes, ties=ties, ignored=ignored, crowded=seed % 5 == 0 and k == 1
        )
        for k in range(int(random.integers(3, 12)))
    ]
    images[0] = {
        **images[0],
        "boxes": np.array([[4.0, 4, 20, 20]]),
        "labels": np.array([0]),
        "ignore": np.zeros(1, bool),
    }
    return images, n_classes


def pixels(box: np.ndarray) -> np.ndarray:
    """Return a box as a mask, without a corner of it where it is large, so that masks are not
    boxes.
    """
    x0, y0, x1, y1 = box.astype(int)
    grid = np.zeros((SIDE, SIDE), np.uint8)
    grid[y0:y1, x0:x1] = 1
    if min(x1 - x0, y1 - y0) > 5:
        grid[y0 : y0 + (y1 - y0) // 2, x0 : x0 + (x1 - x0) // 3] = 0
    return grid


def tide_of(images: list[Image], n_classes: int, mode: str, limits: tuple[float, float]) -> Any:
    """Return tidecv's run."""
    references, predictions = tidecv.Data("references"), tidecv.Data("predictions")
    for label in range(n_classes):
        references.add_class(label, f"class {label}")

    def shapes(box: np.ndarray) -> dict[str, Any]:
        x0, y0, x1, y1 = box.tolist()
        mask = mask_tools.encode(np.asfortranarray(pixels(box))) if mode == "mask" else None
        return {"box": [x0, y0, x1 - x0, y1 - y0], "mask": mask}

    for k, image in enumerate(images):
        references.add_image(k, str(k))
        for box, label, ignore in zip(image["boxes"], image["labels"].tolist(), image["ignore"]):
            (references.add_ignore_region if ignore else references.add_ground_truth)(
                k, label, **shapes(box)
            )
        for box, label, score in zip(
            image["said"], image["said_labels"].tolist(), image["scores"].tolist()
        ):
            predictions.add_detection(k, label, score, **shapes(box))
    tide = tidecv.TIDE(
        pos_threshold=limits[1],
        background_threshold=limits[0],
        mode=getattr(tidecv.TIDE, mode.upper()),
    )
    tide.evaluate(references, predictions)
    return tide


def cohort_of(images: list[Image], n_classes: int, *, masks: bool) -> cal.Cohort:
    def shapes(boxes: np.ndarray) -> dict[str, Any]:
        found = {"boxes": boxes.reshape(-1, 4)}
        if masks:
            found["masks"] = np.array([pixels(box) for box in boxes], bool).reshape(-1, SIDE, SIDE)
        return found

    references = [
        {
            **shapes(i["boxes"]),
            "labels": i["labels"],
            "ignore": i["ignore"],
            "width": SIDE,
            "height": SIDE,
        }
        for i in images
    ]
    predictions = [
        {**shapes(i["said"]), "labels": i["said_labels"], "scores": i["scores"]} for i in images
    ]
    return cal.Cohort.from_arrays(
        references, predictions, classes=[f"class {k}" for k in range(n_classes)]
    )


def protocol_of(criterion: str, limits: tuple[float, float]) -> cal.Protocol:
    lines = [
        'schema = "calipers.protocol/1"',
        'name = "t"',
        'source = "t"',
        "[matching]",
        'ties = "coco"',
    ]
    lines += [f'criterion = "{criterion}"', f"thresholds = {limits[1]}"]
    for name in [*(f"dAP/{gain}" for gain in GAINS[:8]), *(f"errors/{kind}" for kind in KINDS)]:
        lines += [
            "[[metric]]",
            f'name = "{name}"',
            'kind = "error-types"',
            f"background = {limits[0]}",
        ]
    lines += ["[[metric]]", 'name = "AP"', 'kind = "tide-average-precision"']
    lines += [f"background = {limits[0]}"]
    return cal.Protocol.from_toml("\n".join(lines))


def assert_equals_tidecv(seed: int, mode: str, limits: tuple[float, float] = (0.1, 0.5)) -> None:
    images, n_classes = random_set(seed)
    tide = tide_of(images, n_classes, mode, limits)
    (run,) = tide.runs.values()
    errors = tide.get_all_errors()
    (main,), (special,) = (list(errors[part].values()) for part in ("main", "special"))
    criterion = "box-iou" if mode == "box" else "mask-iou"
    cohort = cohort_of(images, n_classes, masks=mode == "mask")
    found = cal.evaluate(cohort, protocol_of(criterion, limits), ci=False)
    assert found["AP"].value == pytest.approx(run.ap / 100, abs=1e-12), seed
    for kind, count in run.count_errors().items():
        assert found[f"errors/{NAMES[kind.short_name]}"].value == count, (seed, kind.short_name)
    for theirs, ours in NAMES.items():
        assert found[f"dAP/{ours}"].value == pytest.approx(main[theirs] / 100, abs=1e-12), (
            seed,
            ours,
        )
    for (
        theirs,
        ours,
    ) in (
        SPECIAL.items()
    ):  # a gain below 0, which only the order of equal scores can make, is 0 here
        assert found[f"dAP/{ours}"].value == pytest.approx(
            max(special[theirs], 0.0) / 100, abs=1e-12
        ), (seed, ours)


@pytest.mark.parametrize("block", seeds(8, default=4))
def test_boxes_equal_tidecv(block: int) -> None:
    for seed in range(SETS_PER_BLOCK * block, SETS_PER_BLOCK * (block + 1)):
        assert_equals_tidecv(seed, "box")


@pytest.mark.parametrize("block", seeds(6, default=3))
def test_masks_equal_tidecv(block: int) -> None:
    for seed in range(1000 + SETS_PER_BLOCK * block, 1000 + SETS_PER_BLOCK * (block + 1)):
        assert_equals_tidecv(seed, "mask")


def test_other_limits_equal_tidecv() -> None:
    for seed in range(2000, 2030):
        assert_equals_tidecv(seed, "box", (0.25, 0.75))


def test_the_sets_have_every_kind_of_mistake_and_every_trouble() -> None:
    sets = [random_set(seed) for seed in range(40)]
    runs = [next(iter(tide_of(*made, "box", (0.1, 0.5)).runs.values())) for made in sets]
    for kind in runs[0].count_errors():
        assert sum(run.count_errors()[kind] for run in runs) >= 20, kind
    images = [image for made, _ in sets for image in made]
    assert any(len(image["said"]) > 100 for image in images)
    assert any(image["ignore"].any() for image in images)
    assert any(not len(image["boxes"]) and len(image["said"]) for image in images)
    assert any(len(np.unique(image["scores"])) < len(image["scores"]) for image in images)


def test_hotcoco_agrees_where_definitions_do(tmp_path: Path) -> None:
    """Without ignored regions, ties, full images or classes without references, whose AP it leaves
    out of the mean.

    Counts are equal. Its recalls are COCO's, which differ in their last bits from tidecv's: where a
    recall is met exactly, one precision of 101 is another one, so gains are only near each other.
    """
    hotcoco = pytest.importorskip("hotcoco")
    compared = 0
    for seed in range(1, 60):
        images, n_classes = random_set(seed)
        random = np.random.default_rng(seed)
        for image in images:
            image["ignore"] = np.zeros(len(image["boxes"]), bool)
            image["scores"] = (
                random.permutation(1 + np.arange(len(image["said"]))) / 256 + random.random() / 1024
            )
            image["boxes"] = (
                image["boxes"] + np.arange(len(image["boxes"]))[:, None] / 64
            )  # none like another
        labels = np.concatenate([image["labels"] for image in images])
        if len(np.unique(labels)) < n_classes or any(len(image["said"]) > 100 for image in images):
            continue
        theirs = _hotcoco(hotcoco, images, n_classes, tmp_path)
        found = cal.evaluate(cohort_of(images, n_classes, masks=False), "tide", ci=False)
        for name, ours in NAMES.items():
            assert found[f"errors/{ours}"].value == theirs["counts"].get(name, 0), (seed, ours)
        for name, ours in {**NAMES, "FP": "fp", "FN": "fn"}.items():
            assert found[f"dAP/{ours}"].value == pytest.approx(
                theirs["delta_ap"][name], abs=0.02
            ), (seed, ours)
        compared += 1
    assert compared >= 20


def _hotcoco(hotcoco: Any, images: list[Image], n_classes: int, folder: Path) -> dict[str, Any]:
    def entry(k: int, box: np.ndarray, label: int) -> dict[str, Any]:
        x0, y0, x1, y1 = box.tolist()
        return {"image_id": k + 1, "category_id": label + 1, "bbox": [x0, y0, x1 - x0, y1 - y0]}

    every = [
        entry(k, *pair)
        for k, i in enumerate(images)
        for pair in zip(i["boxes"], i["labels"].tolist())
    ]
    annotations = [
        {**one, "id": k + 1, "iscrowd": 0, "area": one["bbox"][2] * one["bbox"][3]}
        for k, one in enumerate(every)
    ]
    results = [
        {**entry(k, box, label), "score": score}
        for k, i in enumerate(images)
        for box, label, score in zip(i["said"], i["said_labels"].tolist(), i["scores"].tolist())
    ]
    document = {
        "images": [
            {"id": k + 1, "width": SIDE, "height": SIDE, "file_name": f"{k}"}
            for k in range(len(images))
        ],
        "categories": [{"id": k + 1, "name": f"class {k}"} for k in range(n_classes)],
        "annotations": annotations,
    }
    paths = folder / "references.json", folder / "results.json"
    for path, made in zip(paths, (document, results)):
        path.write_text(json.dumps(made))
    with contextlib.redirect_stdout(io.StringIO()):
        references = hotcoco.COCO(str(paths[0]))
        run = hotcoco.COCOeval(references, references.load_res(str(paths[1])), "bbox")
        run.evaluate()
    return run.tide_errors()
