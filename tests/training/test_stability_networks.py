"""Networks of the study of stability: trained in seconds, continued, archived, shown again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from calipers.errors import InputError, UsageError
from calipers.studies.framework import run_study
from calipers.studies.stability import experiments
from calipers.studies.stability.archive import ARCHIVE, read_archive, write_archive
from calipers.studies.stability.data import MAX, NOR
from calipers.studies.stability.networks import (
    CHESTS,
    CLOTHES,
    DIGITS,
    KNOWN,
    QUICK,
    UNKNOWN,
    NetworkSettings,
    chest_images,
    model_path,
    train_networks,
)

SMALL = NetworkSettings(
    data_sets=(DIGITS,),
    operators=(NOR, MAX),
    supervisions=(UNKNOWN, KNOWN),
    subsets=2,
    n_train=40,
    n_test=24,
    epochs=1,
)


def silent(what: str, step: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("networks")
    train_networks(SMALL, place, None, silent)
    return place


def test_every_model_has_its_maps_and_a_killed_run_goes_on_to_the_same_bits(folder) -> None:
    paths = sorted(folder.glob("digits-*-[12].npz"))
    assert len(paths) == 2 * 2 * 2
    path = model_path(folder, DIGITS, KNOWN, MAX, 1)
    before = np.load(path)["maps"]
    others = {other: other.stat().st_mtime_ns for other in paths if other != path}
    path.unlink()
    train_networks(SMALL, folder, None, silent)
    assert np.array_equal(np.load(path)["maps"], before)
    assert {other: other.stat().st_mtime_ns for other in others} == others


def test_subsets_and_known_instances_give_other_networks(folder) -> None:
    maps = []
    for supervision in (UNKNOWN, KNOWN):
        for k in range(2):
            maps.append(np.load(model_path(folder, DIGITS, supervision, NOR, k))["maps"])
    assert maps[0].shape == (24, 12, 12)
    for a in range(4):
        for b in range(a):
            assert not np.array_equal(maps[a], maps[b])


def test_the_archive_is_shown_again_without_training(folder, tmp_path) -> None:
    path = write_archive(folder, tmp_path / ARCHIVE, ["calipers"])
    archive = read_archive(tmp_path)
    assert set(archive.maps) == set(SMALL.cells())
    assert archive.record["quantisation"]["largest_change_of_a_bag"]["APJ"] == 0
    exact = np.load(model_path(folder, DIGITS, UNKNOWN, NOR, 0))
    positive = archive.bags[DIGITS].positive
    calls = archive.maps[DIGITS, UNKNOWN, NOR][0] >= 0.5
    assert np.array_equal(calls, exact["maps"][positive] >= 0.5)
    result = run_study("stability", keep=path.parent, quick=True)
    assert "8 networks were trained" in result.source
    table = next(table for table in result.appendix if table.name == "table-7-known")
    assert [row[0] for row in table.rows] == [f"{DIGITS}, {NOR}", f"{DIGITS}, {MAX}"]


def test_a_cell_that_is_incomplete_is_left_out_and_named(folder, tmp_path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    model_path(tmp_path, DIGITS, KNOWN, MAX, 0).unlink()
    write_archive(tmp_path, tmp_path / ARCHIVE)
    archive = read_archive(tmp_path)
    assert archive.record["incomplete"] == [[DIGITS, KNOWN, MAX]]
    assert (DIGITS, KNOWN, MAX) not in archive.maps


def test_the_options_of_the_study_reach_the_networks(monkeypatch, tmp_path) -> None:
    small = replace(QUICK, operators=(NOR,), subsets=2, n_train=40, n_test=24, epochs=1)
    monkeypatch.setattr(experiments, "QUICK", small)
    result = run_study("stability", train=True, quick=True, keep=tmp_path / "kept", seed=5)
    record = json.loads((tmp_path / "kept" / "run.json").read_text())
    assert record["settings"]["seed"] == 5
    assert result.settings["networks: seed"] == 5
    again = run_study("stability", quick=True, keep=tmp_path / "kept", seed=5)
    assert [claim.as_dict() for claim in again.claims] == [c.as_dict() for c in result.claims]


def test_another_run_in_the_same_folder_is_refused(folder) -> None:
    with pytest.raises(InputError, match="another seed"):
        train_networks(replace(SMALL, seed=9), folder, None, silent)


def test_data_that_are_not_there_are_named_with_what_to_bring(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"clothes.*--data FOLDER.*Fashion-MNIST, MIT"):
        train_networks(replace(SMALL, data_sets=(CLOTHES,)), tmp_path / "a", None, silent)
    with pytest.raises(InputError, match="mnist"):
        train_networks(SMALL, tmp_path / "b", tmp_path / "nowhere", silent)


def test_chests_are_positive_by_half_and_some_are_small() -> None:
    settings = replace(SMALL, data_sets=(CHESTS,), n_train=30, n_test=10)
    images = chest_images(settings)
    assert images.positive.sum() == 20
    assert images.test.sum() == 10
    sizes = np.array([images.picture(i).shape for i in range(40)])
    small = sizes.max(axis=1) < 0.8 * settings.side
    assert 4 <= small.sum() <= 22
    for i in range(40):
        own = images.boxes[i]
        assert len(own) == int(images.positive[i])
        if len(own):
            height, width = sizes[i]
            assert (own[0] >= 0).all()
            assert own[0, 2] <= width
            assert own[0, 3] <= height
