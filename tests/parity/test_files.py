"""From file to JSON: `calipers evaluate REFS PREDS --preset coco --json` equals pycocotools on the
same two files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.cli.main import run
from cases import DATA
from coco_peer import of_files, twelve


def by_command(references: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> np.ndarray:
    capsys.readouterr()
    assert (
        run(["evaluate", str(references), str(results), "--preset", "coco", "--json", "--no-ci"])
        == 0
    )
    return twelve(json.loads(capsys.readouterr().out)["rows"])


def coco_files(folder: Path, seed: int) -> tuple[Path, Path]:
    """Files as annotation tools write them: ids in no order, gaps, crowds, declared areas, two
    decimals, extra keys.
    """
    random = np.random.default_rng(seed)
    ids = random.choice(10_000, 12, replace=False).tolist()
    categories = [{"id": int(c), "name": f"class {c}", "supercategory": "x"} for c in (17, 3, 90)]
    images = [
        {"id": i, "width": 640, "height": 480, "file_name": f"{i}.jpg", "license": 1} for i in ids
    ]
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for i in ids:
        for _ in range(int(random.integers(0, 6))):
            w, h = (random.uniform(8, 200, 2)).round(2).tolist()
            x, y = (
                round(float(random.uniform(0, 640 - w)), 2),
                round(float(random.uniform(0, 480 - h)), 2),
            )
            category = int(random.choice([17, 3, 90]))
            annotations.append(
                {
                    "id": 1 + 7 * len(annotations),
                    "image_id": i,
                    "category_id": category,
                    "bbox": [x, y, w, h],
                    "area": round(w * h * float(random.uniform(0.4, 1)), 2),
                    "iscrowd": int(random.random() < 0.15),
                    "segmentation": [[x, y, x + w, y, x + w, y + h]],
                }
            )
            for _ in range(int(random.integers(0, 4))):
                box = (np.array([x, y, w, h]) + random.normal(0, 0.1, 4) * [w, h, w, h]).round(2)
                box[2:] = np.maximum(box[2:], 1.0)
                label = category if random.random() < 0.8 else 3
                score = round(float(random.random()), 3)
                results.append(
                    {"image_id": i, "category_id": label, "bbox": box.tolist(), "score": score}
                )
    random.shuffle(annotations)
    references, found = folder / "references.json", folder / "results.json"
    document = {
        "info": {"year": 2014},
        "licenses": [],
        "images": images,
        "annotations": annotations,
    }
    references.write_text(json.dumps({**document, "categories": categories}))
    found.write_text(json.dumps(results))
    return references, found


@pytest.mark.parametrize("seed", range(12))
def test_coco_files(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references, results = coco_files(tmp_path, seed)
    ours, theirs = by_command(references, results, capsys), of_files(references, results, "bbox")
    assert np.abs(ours - theirs).max() <= 1e-12
    assert (theirs > 0).any()


@pytest.mark.skipif(not (DATA / "formats").is_dir(), reason="the public example data are not here")
def test_public_example_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DATA / "formats" / "toyexample"
    document = json.loads((folder / "gts_coco_format" / "toy_example_coco.JSON").read_text())
    for k, annotation in enumerate(document["annotations"]):
        annotation["id"] = k + 1  # pycocotools takes the id 0 for "not matched"
    references, results = (
        tmp_path / "references.json",
        folder / "dets_coco_format" / "coco_dets.json",
    )
    references.write_text(json.dumps(document))
    found = json.loads(results.read_text())
    listed = found if isinstance(found, list) else found["annotations"]
    kept = tmp_path / "results.json"
    kept.write_text(json.dumps(listed))
    ours, theirs = by_command(references, kept, capsys), of_files(references, kept, "bbox")
    assert np.abs(ours - theirs).max() <= 1e-12
