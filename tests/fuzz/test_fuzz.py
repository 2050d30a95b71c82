"""Every reader and constructor answers damaged inputs with a result or a typed error, never slowly.

A thousand inputs a reader here, ten thousand in `make test-slow`, without end in `make fuzz`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers import registry
from calipers.errors import UsageError
from calipers.evaluation.protocol import Protocol
from calipers.results.requirements import Requirements
from calipers.sensitivity.multiverse import load_grid
from fuzz import targets
from fuzz.targets import Failure, Target, all_targets, attack

NAMES = (
    "csv references",
    "csv predictions",
    "csv groups",
    "toml protocol",
    "toml grid",
    "toml requirements",
    "coco references",
    "coco predictions",
    "parquet",
    "json-rows references",
    "json-rows predictions",
    "volume .npy",
    "volume .npz",
    "volume .png",
    "volume .tif",
    "volume .nii",
    "volume .nii.gz",
    "volume .nrrd",
    "volume .mha",
    "volume .dcm",
    "saved evaluation.json",
    "saved run.json",
    "blocks",
    "tables",
    "masks",
    "from_arrays",
    "voc",
    "cvat",
    "labelme",
    "labelme masks",
    "label-studio",
    "label-studio masks",
    "voc results",
    "text-boxes",
    "yolo",
    "yolo names",
    "yolo predictions",
    "vindr",
    "vindr submission",
    "rsna",
    "rsna submission",
    "openimages",
    "openimages submission",
    "luna16",
    "luna16 excluded",
    "luna16 scans",
    "luna16 candidates",
    "deeplesion",
    "node21",
    "nodules",
    "jobs",
    "siim",
    "nih",
    "lard",
    "label-volumes",
    "label-volumes .nii",
    "label-volumes .mha",
    "label-volumes .nrrd",
    "dicom-sr",
    "readers",
    "ultralytics",
    "torchvision",
    "detectron2",
    "nndetection",
    "nndetection boxes",
    "scores of labels",
    "dataset.json",
    "polypgen",
    "lidc",
)
# Targets of readers whose name says what they read.
OF_READERS = {"grand-challenge": "jobs", "voc-results": "voc results"}
OF_VOLUMES = {"nifti": ".nii", "metaimage": ".mha", "dicom": ".dcm", "picture": ".png"}
# Sound documents of a saved evaluation take long to read, and most of these are sound.
FEWER = {
    "nndetection": 20,
    "nndetection boxes": 20,
    "scores of labels": 20,
    "dataset.json": 20,
    "lidc": 5,
    # Four extensions of one reader share its thousand inputs.
    "label-volumes": 4,
    "label-volumes .nii": 4,
    "label-volumes .mha": 4,
    "label-volumes .nrrd": 4,
    "labelme masks": 4,
    "label-studio masks": 4,
    "ultralytics": 10,
    "torchvision": 10,
    "detectron2": 10,
    "saved run.json": 10,
    "saved evaluation.json": 4,
    # Two extensions of one reader share its thousand inputs.
    "volume .nii": 2,
    "volume .nii.gz": 2,
    "volume .png": 2,
    "volume .tif": 2,
}
# The files of one of these readers share its thousand inputs; so do the three kinds of settings.
SHARED = (
    "csv",
    "json-rows",
    "toml",
    "coco",
    "voc",
    "yolo",
    "vindr",
    "rsna",
    "openimages",
    "luna16",
)


@pytest.fixture(scope="module")
def by_name(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    folder = tmp_path_factory.mktemp("fuzz")
    return {target.name: target for target in all_targets(folder)}


def test_every_reader_is_under_attack(by_name: dict[str, Target]) -> None:
    """A new reader gets a target here; see CONTRIBUTING."""
    first_words = {name.split()[0] for name in NAMES}
    readers = {OF_READERS.get(name, name).split()[0] for name in registry.FORMATS}
    assert readers <= first_words
    volumes = {f"volume {OF_VOLUMES.get(name, '.' + name)}" for name in registry.VOLUMES}
    assert volumes <= set(NAMES)
    assert set(NAMES) == set(by_name)


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_inputs(tmp_path: Path, by_name: dict[str, Target], name: str) -> None:
    reader = name.split()[0]
    targets_of_reader = [other for other in NAMES if other.split()[0] == reader]
    share = len(targets_of_reader) if reader in SHARED else FEWER.get(name, 1)
    rounds = 1000 // share
    accepted = attack(by_name[name], tmp_path, rounds)
    assert accepted < rounds


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ten_thousand_inputs(tmp_path: Path, by_name: dict[str, Target], name: str) -> None:
    assert attack(by_name[name], tmp_path, 10_000, seed=1) < 10_000


def test_the_inputs_are_sound_before_they_are_damaged(tmp_path: Path) -> None:
    """Otherwise every input would be refused at the first check."""
    assert len(Protocol.from_toml(targets.PROTOCOL).metrics) == 2
    assert len(Requirements.from_toml(targets.REQUIREMENTS)) == 1
    (tmp_path / "grid.toml").write_text(targets.GRID)
    assert load_grid(tmp_path / "grid.toml")[0]["threshold"] == [0.25, 0.5]
    (tmp_path / "references.csv").write_text(targets.BOXES)
    (tmp_path / "predictions.csv").write_text(targets.SCORES)
    cohort = cal.read(tmp_path / "references.csv", {"m": tmp_path / "predictions.csv"})
    assert (len(cohort.references), len(cohort.predictions("m"))) == (3, 3)


def test_the_harness_sees_failures(tmp_path: Path) -> None:
    def crash(given: object, folder: Path) -> object:
        raise KeyError(given)

    def refuse(given: object, folder: Path) -> object:
        raise UsageError("no")

    def disagree(given: object, result: object) -> None:
        raise AssertionError

    def number(rng: np.random.Generator) -> int:
        return int(rng.integers(9))

    with pytest.raises(Failure, match="seed 0, input 0"):
        attack(Target("crash", number, crash), tmp_path, 1)
    with pytest.raises(Failure, match="seed 0, input 0"):
        attack(Target("wrong", number, lambda given, folder: given, disagree), tmp_path, 1)
    assert attack(Target("refused", number, refuse), tmp_path, 3) == 0
    assert attack(Target("fine", number, lambda given, folder: given), tmp_path, 3) == 3
