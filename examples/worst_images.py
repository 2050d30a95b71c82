# SPDX-License-Identifier: Apache-2.0
"""Where to look first: the images with most missed findings and false alarms, from a saved
evaluation.

Run it with: python examples/worst_images.py
"""

import csv
import tempfile
from pathlib import Path

import calipers as cal


def main() -> None:
    """Save an evaluation of the demo, read its table of images, print the worst five of a model."""
    evaluation = cal.evaluate(cal.demo_cohort(), "overview")
    with tempfile.TemporaryDirectory() as folder:
        saved = evaluation.save(Path(folder) / "results")
        with (saved / "images.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["model"] == "misses-small"]
    rows.sort(key=lambda row: int(row["missed"]) + int(row["false_alarms"]), reverse=True)
    for row in rows[:5]:
        print(
            f"{row['image']}  missed {row['missed']}  false alarms {row['false_alarms']}  centre "
            f"{row['centre']}"
        )


if __name__ == "__main__":
    main()
