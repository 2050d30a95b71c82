"""Folders with a file per bag, of every format of volumes, paired by name and compared header by
header.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bag_cases import IDS, MODELS, folders, refused, same, values
from calipers.io.write_volume import write_volume
from calipers.stability.read import read_bags


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".tif", ".nii.gz", ".nii"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_folders_of_every_format(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    maps = values(shape=shape).astype(np.float32)
    bags = read_bags(folders(tmp_path, maps, suffix))
    assert same(bags, maps.astype(np.float64))
    assert bags.ids == IDS


def test_instances_in_a_row(tmp_path: Path) -> None:
    maps = values(shape=(7,))
    assert same(read_bags(folders(tmp_path, maps)), maps)


def test_formats_may_differ_between_models(tmp_path: Path) -> None:
    maps = values().astype(np.float32)
    folders(tmp_path, maps)
    for bag, one in zip(IDS, maps[1]):
        (tmp_path / "b" / f"{bag}.npy").unlink()
        write_volume(tmp_path / "b" / f"{bag}.nii.gz", one, affine=np.diag([2.0, 2.0, 3.0, 1.0]))
    bags = read_bags([tmp_path / model for model in MODELS])
    assert same(bags, maps.astype(np.float64))
    assert any("only one of the two has an orientation" in note for note in bags.notes)


def test_pictures_need_a_normalisation(tmp_path: Path) -> None:
    maps = np.random.default_rng(0).integers(0, 256, (3, 4, 3, 4), dtype=np.uint8)
    places = folders(tmp_path, maps, ".png")
    error = refused(places, read=True)
    assert (error.rule, error.location) == ("score-range", "model 'a', bag 'x1'")
    assert "uint8" in error.hint
    bags = read_bags(places, normalise="uint8")
    assert bags[2].values == pytest.approx(maps[:, 2].reshape(3, -1) / 255, abs=1e-7)


def test_a_pattern_says_where_the_name_stands(tmp_path: Path) -> None:
    for model in "ab":
        (tmp_path / model).mkdir()
        np.save(tmp_path / model / "x1_heat.npy", np.full((2, 2), 0.5))
        np.save(tmp_path / model / "x1_other.npy", np.full((2, 2), 0.5))
    bags = read_bags([tmp_path / "a", tmp_path / "b"], pattern="{name}_heat.npy")
    assert bags.ids == ("x1",)
    assert any("files that do not match the pattern" in note for note in bags.notes)
    assert refused([tmp_path / "a", tmp_path / "b"], pattern="{name}_none.npy").rule == "no-bags"


def test_a_volume_per_model_is_one_bag(tmp_path: Path) -> None:
    for model in "ab":
        write_volume(tmp_path / f"{model}.nii.gz", np.full((2, 3, 4), 0.5, np.float32))
    bags = read_bags([tmp_path / "a.nii.gz", tmp_path / "b.nii.gz"])
    assert (bags.models, bags.ids, bags[0].shape) == (("a", "b"), ("0",), (2, 3, 4))


def test_a_file_that_is_missing_in_one_folder_is_named(tmp_path: Path) -> None:
    places = folders(tmp_path, values())
    (places[1] / "x3.npy").unlink()
    error = refused(places)
    assert (error.rule, error.file, error.location) == (
        "bags-differ",
        str(places[1]),
        "model 'b', bag 'x3'",
    )


def test_maps_in_other_places_are_refused(tmp_path: Path) -> None:
    for model, origin in (("a", 0.0), ("b", 5.0)):
        (tmp_path / model).mkdir()
        affine = np.eye(4)
        affine[0, 3] = origin
        write_volume(tmp_path / model / "x.nii.gz", np.zeros((2, 3, 4), np.float32), affine=affine)
    error = refused([tmp_path / "a", tmp_path / "b"])
    assert (error.rule, error.location) == ("affine", "model 'b', bag 'x'")
    assert error.file == str(tmp_path / "b" / "x.nii.gz")


def test_a_broken_file_is_named_before_any_value_is_read(tmp_path: Path) -> None:
    places = folders(tmp_path, values().astype(np.float32), ".nii")
    (places[2] / "x2.nii").write_bytes((places[2] / "x2.nii").read_bytes()[:360])
    error = refused(places)
    assert (error.rule, error.file) == ("volume-broken", str(places[2] / "x2.nii"))
    assert error.location.startswith("model 'c', bag 'x2'")


def test_another_shape_names_both_files(tmp_path: Path) -> None:
    places = folders(tmp_path, values())
    np.save(places[2] / "x4.npy", np.zeros((3, 5)))
    error = refused(places)
    assert (error.rule, error.location) == ("shape-mismatch", "model 'c', bag 'x4'")
    assert str(places[0] / "x4.npy") in error.expected


def test_folders_without_maps_and_pickles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert refused([tmp_path / "empty"]).rule == "no-volumes"
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04K\x01.")
    assert refused([tmp_path / "model.pkl"]).rule == "pickle"
    assert refused([tmp_path / "none"]).rule == "not-found"
