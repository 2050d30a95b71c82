# SPDX-License-Identifier: Apache-2.0
"""Rows of the benchmark for run-length masks."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contest import Result, peer_name, take_turns
from benchmarks.rows import row
from benchmarks.voxel_rows import on

SIDE = 512
ROUNDS = 7


def discs(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Return n masks of 512 x 512: discs of 5 to 60 pixels radius with frayed borders, anywhere."""
    random = np.random.default_rng(seed)
    y, x = np.ogrid[:SIDE, :SIDE]
    found = np.zeros((n, SIDE, SIDE), np.bool_)
    for mask in found:
        (cy, cx), radius = random.uniform(0, SIDE, 2), random.uniform(5, 60)
        mask[:] = np.hypot(y - cy, x - cx) + random.uniform(0, 3, (SIDE, SIDE)) <= radius
        mask[int(cy), int(cx)] = True
    return found


def balls(n: int, seed: int, side: int = 256) -> np.ndarray[Any, Any]:
    """Return a label volume of n balls with a radius of 3 to 12 voxels."""
    random = np.random.default_rng(seed)
    volume = np.zeros((side,) * 3, np.uint16)
    for k in range(n):
        centre, radius = random.integers(12, side - 12, 3), int(random.integers(3, 12))
        grid = np.indices((2 * radius + 1,) * 3) - radius
        inside = (grid**2).sum(axis=0) <= radius**2
        volume[tuple(slice(c - radius, c + radius + 1) for c in centre)][inside] = k + 1
    return volume


def grains(share: float, seed: int, side: int = 256) -> np.ndarray[Any, Any]:
    """Return a volume of which every voxel is set with the same chance: as many runs as there can
    be.
    """
    return np.random.default_rng(seed).random((side,) * 3, np.float32) < share


def moved(labels: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Return a label volume like another one: every object is some voxels away, and its number is
    another one.
    """
    from scipy import ndimage

    random = np.random.default_rng(seed)
    found = np.zeros_like(labels)
    for value, box in enumerate(ndimage.find_objects(labels), start=1):
        if box is not None:
            corner = [side.start for side in box] + random.integers(-2, 3, 3)
            place = np.argwhere(labels[box] == value) + corner
            found[tuple(np.clip(place, 0, np.array(labels.shape) - 1).T)] = 1 + (value * 7) % 1009
    return found


@row("rle-iou")
def rle_iou() -> Iterator[Result]:
    """IoU of 1,000 predicted with 100 reference masks of one image, from run lengths that are
    there.

    Both find the boxes of the masks anew; the peer also unpacks its strings, the only form in which
    it keeps masks.
    """
    from pycocotools import mask as peer

    import calipers
    from calipers.matching import criteria

    arrays = discs(1000, 1), discs(100, 2)
    theirs = [
        peer.encode(np.asfortranarray(array.transpose(1, 2, 0).astype(np.uint8)))
        for array in arrays
    ]
    predictions, references = (
        {"masks": array, "labels": [0] * len(array), "scores": [1.0] * len(array)}
        for array in arrays
    )
    cohort = calipers.Cohort.from_arrays([references], [predictions], classes=("a",))
    model = cohort.predictions("model")

    def ours() -> Any:
        for masks in (cohort.references.masks, model.masks):
            masks._known.clear()
        return criteria.MASK_IOU.fused(cohort, model, 1)  # type: ignore[misc]

    _, _, found = ours()
    expected = peer.iou(*theirs, [0] * 100)
    if not np.array_equal(np.sort(found), np.sort(expected[expected > 0])):
        raise AssertionError("the two IoU differ")
    times = take_turns(on_both(ours) | {"peer": lambda: peer.iou(*theirs, [0] * 100)}, ROUNDS)
    yield from results(
        "rle-iou", "IoU of 1,000 x 100 masks, 512^2", "pycocotools", times, (2.0, 0.3)
    )


@row("rle-components")
def rle_components() -> Iterator[Result]:
    """Connected components of a volume of 256^3 voxels, from the array to run-length masks: of
    objects and of noise.
    """
    from scipy import ndimage

    from calipers.data.masks import Masks

    structure = np.ones((3, 3, 3))
    for what, volume, bars in (
        ("objects", balls(200, 1) > 0, (5.0, 3.0)),
        ("10 % noise", grains(0.1, 1), (2.0,)),
    ):
        if len(Masks.from_components(volume)) != ndimage.label(volume, structure)[1]:
            raise AssertionError("the numbers of components differ")
        contestants = on_both(lambda volume=volume: Masks.from_components(volume))
        if len(bars) == 1:  # NumPy has no chance on noise
            del contestants["NumPy"]
        times = take_turns(
            contestants | {"peer": lambda volume=volume: ndimage.label(volume, structure)}, ROUNDS
        )
        yield from results(
            "rle-components", f"components, 256^3, 26 neighbours, {what}", "scipy", times, bars
        )


@row("rle-overlaps")
def rle_overlaps() -> Iterator[Result]:
    """The common voxels of all objects of two label volumes of 256^3 voxels, from the arrays."""
    from calipers.kernels import runs
    from calipers.kernels import runs as run_algebra

    one, other = balls(200, 1), balls(200, 2)
    n = 1 + int(other.max())

    def ours() -> Any:
        return run_algebra.intersections(runs.of_labels(one), runs.of_labels(other))

    def peer() -> Any:
        both = (one > 0) & (other > 0)  # counting all voxels takes five times as long
        return np.bincount(one[both].astype(np.int64) * n + other[both])

    a, b, voxels = ours()
    expected = peer()
    if not (
        np.array_equal(a.astype(np.int64) * n + b, np.flatnonzero(expected))
        and voxels.sum() == expected.sum()
    ):
        raise AssertionError("the two tables differ")
    times = take_turns(on_both(ours) | {"peer": peer}, ROUNDS)
    yield from results(
        "rle-overlaps", "overlaps of two label volumes, 256^3", "numpy", times, (1.0, 0.5)
    )


@row("coco-masks")
def coco_masks() -> Iterator[Result]:
    """COCO files with 2,000 images and 16,000 masks as compressed run lengths, to the twelve
    numbers of mask AP, by processor time.
    """
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    import calipers as cal

    folder = tempfile.TemporaryDirectory(prefix="calipers-bench-")
    paths = mask_files(Path(folder.name), n_images=2000, per_image=4)
    text = resources.files("calipers").joinpath("presets/coco.toml").read_text()
    protocol = cal.Protocol.from_toml(text.replace('"box-iou"', '"mask-iou"'))

    def ours() -> list[float]:
        evaluation = cal.evaluate(cal.read(*paths), protocol, ci=False)
        return [row.estimate.value for row in evaluation.rows if row.label is None]

    def peer() -> list[float]:
        with contextlib.redirect_stdout(io.StringIO()):
            references = COCO(str(paths[0]))
            evaluation = COCOeval(references, references.loadRes(str(paths[1])), "segm")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return [float(value) for value in evaluation.stats]

    # pycocotools has -1 where there is nothing to average, and we have NaN.
    if not np.allclose(np.nan_to_num(ours(), nan=-1.0), peer(), rtol=0, atol=1e-12):
        raise AssertionError(f"{ours()} and {peer()} differ")
    times = take_turns(on_both(ours) | {"peer": peer}, 3, time.process_time)
    what = "files with 16,000 masks to 12 COCO numbers"
    yield from results("coco-masks", what, "pycocotools", times, (4.0, 1.5))
    folder.cleanup()


def mask_files(folder: Path, n_images: int, per_image: int) -> tuple[Path, Path]:
    """Write references and results with frayed ellipses as compressed run lengths."""
    from pycocotools import mask as peer

    rng, height, width = np.random.default_rng(0), 480, 640
    y, x = np.ogrid[:height, :width]

    def drawn(centre: Any, radii: Any) -> dict[str, Any]:
        inside = ((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2
        mask = inside + 0.15 * rng.random((height, 1)) <= 1
        mask[int(centre[0]), int(centre[1])] = True
        code = peer.encode(np.asfortranarray(mask.astype(np.uint8)))
        return {"size": [height, width], "counts": code["counts"].decode()}

    annotations: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    for image in range(1, n_images + 1):
        for k in range(per_image):
            centre, radii = rng.uniform((50, 50), (430, 590)), rng.uniform(8, 40, 2)
            shape = drawn(centre, radii)
            common = {"image_id": image, "category_id": 1 + k % 3}
            box, area = peer.toBbox(shape).tolist(), float(peer.area(shape))
            annotation = {"id": len(annotations) + 1, "bbox": box, "area": area, "iscrowd": 0}
            annotations.append({**common, **annotation, "segmentation": shape})
            moved_shape = drawn(centre + rng.normal(0, 3, 2), radii)
            score = float(np.float32(rng.random()))
            predictions.append({**common, "segmentation": moved_shape, "score": score})
    images = [{"id": k + 1, "width": width, "height": height} for k in range(n_images)]
    categories = [{"id": k, "name": f"class {k}"} for k in (1, 2, 3)]
    document = {"images": images, "annotations": annotations, "categories": categories}
    paths = folder / "references.json", folder / "results.json"
    for path, content in zip(paths, (document, predictions)):
        path.write_text(json.dumps(content))
    return paths


PARTS = ("PQ", "SQ", "RQ")
PANOPTIC = """
schema = "calipers.protocol/1"
name = "panoptic"
source = "Kirillov et al."
[matching]
criterion = "mask-iou"
assignment = "by-overlap"
thresholds = 0.5
max_dets = inf
""" + "".join(
    f'[[metric]]\nname = "{part}"\nkind = "panoptic-quality"\npart = "{part}"\n' for part in PARTS
)


@row("instances")
def instances() -> Iterator[Result]:
    """Two label volumes of 256^3 voxels to PQ, SQ and RQ: instances, matches, sums."""
    import calipers as cal
    from calipers.data.masks import Masks

    panoptica = quiet_panoptica()
    if panoptica is None:
        print("instances: panoptica is skipped, `make test` installs it")
        return
    references = balls(200, 1)
    predictions = moved(references, 2)
    protocol = cal.Protocol.from_toml(PANOPTIC)
    evaluator = panoptica.Panoptica_Evaluator(
        expected_input=panoptica.InputType.UNMATCHED_INSTANCE,
        instance_matcher=panoptica.NaiveThresholdMatching(
            matching_metric=panoptica.Metric.IOU, matching_threshold=0.5
        ),
        instance_metrics=[panoptica.Metric.IOU],
        global_metrics=[],
        verbose=False,
    )

    def ours() -> list[float]:
        sides = [Masks.from_labels(labels) for labels in (references, predictions)]
        one, other = ({"masks": masks, "labels": [0] * len(masks)} for masks in sides)
        cohort = cal.Cohort.from_arrays(
            [one], [{**other, "scores": [1.0] * len(sides[1])}], classes=("object",)
        )
        found = cal.evaluate(cohort, protocol, ci=False)
        return [found[part].value for part in PARTS]

    def peer() -> list[float]:
        found = evaluator.evaluate(predictions, references, verbose=False)["ungrouped"]
        return [found.pq, found.sq, found.rq]

    if not np.allclose(ours(), peer(), rtol=0, atol=1e-12):
        raise AssertionError(f"{ours()} and {peer()} differ")
    times = take_turns(on_both(ours) | {"peer": peer}, ROUNDS)
    yield from results(
        "instances", "two label volumes, 256^3, to PQ, SQ, RQ", "panoptica", times, (15.0, 8.0)
    )


def quiet_panoptica() -> Any:
    """Return the peer without its greetings; None if it is not installed."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            panoptica = importlib.import_module("panoptica")
    except ImportError:
        return None
    panoptica.disable_citation_reminder()
    return panoptica


def on_both(run: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """Return the contestants of both routes."""
    return {"native": on("native", run), "NumPy": on("numpy", run)}


def results(
    name: str, what: str, peer: str, times: dict[str, float], bars: tuple[float, ...]
) -> Iterator[Result]:
    """Yield a line for every route; bars are those of the native and the NumPy one."""
    for route, bar in zip(("native", "NumPy"), bars):
        yield Result(
            name, what, route, peer_name(peer), times["peer"], times[route], "s", bar, ROUNDS
        )
