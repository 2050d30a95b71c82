"""A small cohort on disk whose numbers can be worked out by hand,
and the command line called in-process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from calipers.cli.main import run


@dataclass(frozen=True)
class Said:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, which has to be exactly one JSON object on one line."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1
        document = json.loads(
            self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON")
        )
        assert isinstance(document, dict)
        return document


@pytest.fixture
def calipers(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Call the command line in this process."""

    def call(*argv: object) -> Said:
        capsys.readouterr()
        code = run([str(word) for word in argv])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


@dataclass(frozen=True)
class Files:
    """Paths of the small cohort: four images of two patients; one model hits 4 of 5,
    the other 1.
    """

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def references(self) -> str:
        return self.path("references.json")

    @property
    def ours(self) -> str:
        return self.path("ours.json")

    @property
    def theirs(self) -> str:
        return self.path("theirs.json")

    @property
    def groups(self) -> str:
        return self.path("images.csv")

    def write(self, name: str, document: Any) -> str:
        text = document if isinstance(document, str) else json.dumps(document)
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.path(name)


def coco(
    annotations: list[tuple[int, int, list[float]]], classes: tuple[str, ...] = ("nodule", "mass")
) -> Any:
    """References as COCO: (image, class, x y w h)."""
    return {
        "images": [
            {"id": k, "width": 100, "height": 100, "file_name": f"{k}.png"} for k in (1, 2, 3, 4)
        ],
        "categories": [{"id": k, "name": name} for k, name in enumerate(classes, start=1)],
        "annotations": [
            {
                "id": k,
                "image_id": image,
                "category_id": label,
                "bbox": box,
                "area": box[2] * box[3],
                "iscrowd": 0,
            }
            for k, (image, label, box) in enumerate(annotations, start=1)
        ],
    }


def results(records: list[tuple[int, int, list[float], float]]) -> Any:
    """Predictions as a COCO list: (image, class, x y w h, score)."""
    return [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in records
    ]


PLACES = [
    (1, 1, [10, 10, 20, 20]),
    (1, 2, [50, 50, 30, 30]),
    (2, 1, [5, 5, 10, 10]),
    (3, 2, [40, 40, 20, 20]),
    (3, 1, [70, 70, 10, 10]),
]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Write the small cohort into a folder of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    made = Files(folder)
    made.write("references.json", coco(PLACES))
    found = [(image, label, box, 0.9 - 0.1 * k) for k, (image, label, box) in enumerate(PLACES[:4])]
    made.write("ours.json", results([*found, (4, 1, [1, 1, 5, 5], 0.3)]))
    made.write("theirs.json", results([(1, 1, [10, 10, 20, 20], 0.8), (2, 2, [5, 5, 10, 10], 0.7)]))
    made.write("images.csv", "image,patient,centre\n1,A,N\n2,A,N\n3,B,S\n4,B,S\n")
    return made
