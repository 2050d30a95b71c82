"""Result folders that version 0.1 wrote still open, with the numbers of then, and still verify.

The folders are never written anew. `boxes`: 24 images of 12 patients in 2 centres, 20 boxes, two
models; `maps`: 8 pictures with 6 lesions, preset mood; `masks`: 8 pictures with 7 polygons, preset
polyp-clinical; 100 replicates each. Their pages are left out: nothing needs them.

The numbers below were written down when the folders were made. Shares of objects can be counted in
the tables of the folders: of 20 boxes ours finds 18 with 24 predictions, for instance.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import calipers as cal
from calipers.cli.main import run

FOLDERS = Path(__file__).parent.parent / "fixtures" / "results-0.1"

# folder -> (model, metric, groups): value, low, high, method
STORED = {
    "boxes": {
        ("ours", "AP@0.5", ""): (
            0.9018151815181519,
            0.6917149978688316,
            0.9740923206347664,
            "bootse-t-logit",
        ),
        ("ours", "sensitivity@0.5", ""): (
            18 / 20,
            0.515862251314033,
            0.9791374745399076,
            "clopper-pearson-units",
        ),
        ("ours", "PPV@0.5", ""): (
            18 / 24,
            0.5921688751984974,
            0.8610796067377117,
            "bootse-t-logit",
        ),
        ("theirs", "sensitivity@0.5", ""): (
            11 / 20,
            0.2627653904804614,
            0.8073661397590384,
            "bootse-t-logit",
        ),
        ("theirs", "PPV@0.5", ""): (
            11 / 15,
            0.212008506778868,
            0.8630043377348335,
            "clopper-pearson-units",
        ),
        ("ours", "PPV@0.5", "S"): (
            8 / 12,
            0.4463771517236058,
            0.8322438165571754,
            "bootse-t-logit",
        ),
    },
    "maps": {
        ("ours", "AP/dataset", ""): (
            0.7166239424991319,
            0.7052919718873063,
            0.7276884165531541,
            "bootse-t-logit",
        ),
        ("ours", "Dice", ""): (50 / 61, 50 / 61, 50 / 61, "bootse-t-logit"),
        ("ours", "softIoU", ""): (
            0.3112322142556762,
            0.1796137957080266,
            0.48256619107902715,
            "bootse-t-logit",
        ),
        ("ours", "F1@0.01", ""): (
            2 / 3,
            0.26770022158235185,
            0.916262542698683,
            "bootse-t-logit",
        ),
        ("ours", "AUROC/case", ""): (1.0, None, None, "none"),
    },
    "masks": {
        ("segments", "sensitivity@any-overlap", ""): (
            6 / 7,
            0.42127680295680486,
            0.9963897031380994,
            "clopper-pearson-units",
        ),
        ("segments", "sensitivity@mask-iou:0.5", ""): (
            5 / 7,
            0.29042086373734277,
            0.9633074338239145,
            "clopper-pearson-units",
        ),
        ("segments", "FP/image@mask-iou:0.5", ""): (2 / 8, None, None, "none"),
        ("segments", "AP@mask-iou:0.5", ""): (
            0.665016501650165,
            0.24486321636655167,
            0.9147665858627465,
            "clopper-pearson-units",
        ),
    },
}
# folder -> images, references, patients, rows, models and their predictions
COUNTS = {
    "boxes": (24, 20, 12, 30, {"ours": 24, "theirs": 15}),
    "maps": (8, 6, 8, 9, {"ours": 10}),
    "masks": (8, 7, 8, 36, {"segments": 7}),
}


def bound(value):
    """None where there is no interval, as in the file."""
    return None if math.isnan(value) else value


@pytest.mark.parametrize("folder", STORED)
def test_it_opens_with_the_numbers_of_then(folder):
    evaluation = cal.open_evaluation(FOLDERS / folder)
    for (model, metric, centre), expected in STORED[folder].items():
        groups = {"centre": centre} if centre else {}
        found = evaluation.get(metric, model=model, **groups)
        told = (found.value, *map(bound, (found.low, found.high)), found.method)
        assert told == expected, (model, metric)
    n_images, n_references, n_units, n_rows, models = COUNTS[folder]
    cohort = evaluation.cohort
    assert (cohort.n_images, len(cohort.references), len(evaluation.rows)) == (
        n_images,
        n_references,
        n_rows,
    )
    assert {name: len(cohort.predictions(name)) for name in cohort.models} == models
    rows = evaluation.as_dict()["rows"]
    assert {(row["unit"], row["n_units"]) for row in rows} == {("patient", n_units)}


@pytest.mark.parametrize("folder", STORED)
def test_it_verifies(folder, capsys):
    before = {file.name: file.read_bytes() for file in (FOLDERS / folder).iterdir()}
    assert run(["verify", str(FOLDERS / folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    stored = json.loads(before["run.json"])
    assert (said["reproduced"], said["differences"]) == (True, [])
    assert said["result_hash"] == stored["result_hash"]
    assert said["values"] > 9 * COUNTS[folder][3]
    assert {file.name: file.read_bytes() for file in (FOLDERS / folder).iterdir()} == before
