"""The memory of a whole command on a large file of results: `docs/explanation/scale.md`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

IMAGES, EACH = 40_000, 50  # two million predictions
# Of a prediction: 56 bytes of the cohort, 8 of its matching, 4 of its order by score, and what
# blocks and sorting take for a moment; partners and overlaps of all of them would be 12 more, ends
# of operating points 4, places of 64 bits 4, and keys of one class that are sorted at once 32.
BYTES = 96
# Its own peak and that before the files were read, in kB.
COMMAND = """
import resource, sys
from calipers.cli.main import run
import calipers.evaluation.evaluate, calipers.io.read, scipy.special, pyarrow
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
code = run(["evaluate", *sys.argv[1:], "--no-ci", "--json", "--quiet"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted in other units elsewhere")
def test_evaluating_takes_little_beside_the_boxes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = [{"id": k, "width": 640, "height": 480} for k in range(1, IMAGES + 1)]
    box = '"category_id":{},"bbox":[{:.2f},{:.2f},{:.2f},{:.2f}]'
    references = []
    for k in range(IMAGES):
        references.append(
            {"id": k + 1, "image_id": k + 1, "category_id": 1, "bbox": [9, 9, 50, 60], "area": 3e3}
        )
    categories = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    document = {"images": images, "annotations": references, "categories": categories}
    (tmp_path / "references.json").write_text(json.dumps(document))
    with (tmp_path / "model.json").open("w") as stream:
        stream.write("[")
        for image in range(1, IMAGES + 1):
            corners, scores = rng.uniform(1, 90, (EACH, 4)), rng.random(EACH)
            lines = []
            for k in range(EACH):
                words = box.format(1 + k % 2, *corners[k])
                lines.append(f'{{"image_id":{image},{words},"score":{scores[k]:.6f}}}')
            stream.write(",\n".join(lines) + (",\n" if image < IMAGES else "]"))
    command = [sys.executable, "-c", COMMAND, tmp_path / "references.json", tmp_path / "model.json"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    n_bytes = 1024 * int(said.stderr.split()[-1])
    assert n_bytes < BYTES * IMAGES * EACH + 60_000_000, f"{n_bytes / 1e6:.0f} MB"
