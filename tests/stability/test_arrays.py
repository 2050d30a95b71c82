"""npy and npz: by position or by id, one bag at a time, nothing unpickled and nothing larger than
it says.
"""

from __future__ import annotations

import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bag_cases import IDS, MODELS, archives, refused, same, values
from calipers.stability.read import read_bags


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_paired_by_position(tmp_path: Path, shape: tuple[int, ...], order: str) -> None:
    maps = values(shape=shape)
    for model, own in zip(MODELS, maps):
        np.save(tmp_path / f"{model}.npy", np.asarray(own, order=order))
    bags = read_bags([tmp_path / f"{model}.npy" for model in MODELS])
    assert same(bags, maps)
    assert bags.ids == ("0", "1", "2", "3")
    assert any("paired by position" in note for note in bags.notes)
    assert bags.positive is None
    assert bags[0].instances is None


@pytest.mark.parametrize("kind", ["<f4", ">f8", "<f2", "u1", "?"])
def test_numbers_of_every_kind_become_doubles(tmp_path: Path, kind: str) -> None:
    maps = (values() > 0.5).astype(kind) if kind in ("u1", "?") else values().astype(kind)
    for model, own in zip(MODELS, maps):
        np.save(tmp_path / f"{model}.npy", own)
    assert same(read_bags([tmp_path / f"{model}.npy" for model in MODELS]), maps.astype(np.float64))


def test_an_array_per_bag_is_paired_by_its_name_whatever_the_order(tmp_path: Path) -> None:
    maps = values()
    files = archives(tmp_path, maps)
    np.savez(files[1], **dict(reversed(list(zip(IDS, maps[1])))))
    bags = read_bags(files)
    assert same(bags, maps)
    assert bags.ids == IDS
    assert any("b are in another order" in note for note in bags.notes)


def test_bags_of_an_archive_may_have_different_shapes(tmp_path: Path) -> None:
    for model in "ab":
        np.savez(tmp_path / f"{model}.npz", large=np.full((4, 5), 0.5), small=np.full(3, 0.25))
    bags = read_bags([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert [bags[i].shape for i in range(2)] == [(4, 5), (3,)]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_maps_and_ids_are_one_array(tmp_path: Path, save) -> None:
    maps = values()
    for k, model in enumerate(MODELS):
        turned = [0, 1, 2, 3] if k != 2 else [3, 1, 0, 2]
        save(tmp_path / f"{model}.npz", maps=maps[k][turned], ids=np.array(IDS)[turned], epoch=3)
    bags = read_bags({model: tmp_path / f"{model}.npz" for model in MODELS})
    assert same(bags, maps)
    assert bags.ids == IDS
    assert any("not read: epoch" in note for note in bags.notes)
    again = [bags[i].values for i in (3, 0, 2, 2, 1, 0)]  # back and forth
    assert all(np.array_equal(found, bags[i].values) for found, i in zip(again, (3, 0, 2, 2, 1, 0)))


def test_threads_may_read_one_packed_array(tmp_path: Path) -> None:
    maps = np.random.default_rng(1).random((2, 60, 5, 5))
    for k in range(2):
        np.savez_compressed(tmp_path / f"{k}.npz", maps=maps[k])
    bags = read_bags([tmp_path / "0.npz", tmp_path / "1.npz"])
    wanted = list(np.random.default_rng(2).permutation(60)) * 2
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: bags[int(i)].values, wanted))
    assert all(np.array_equal(one, maps[:, i].reshape(2, -1)) for one, i in zip(found, wanted))


def test_a_single_array_without_a_name_is_one_of_all_bags(tmp_path: Path) -> None:
    maps = values()
    for model, own in zip(MODELS, maps):
        np.savez(tmp_path / f"{model}.npz", own)
    assert same(read_bags([tmp_path / f"{model}.npz" for model in MODELS]), maps)


@pytest.mark.parametrize("packed", [False, True])
def test_memory_is_that_of_one_bag(tmp_path: Path, packed: bool) -> None:
    maps = np.random.default_rng(0).random(
        (200, 100, 100), np.float32
    )  # 8 MB a model, 80 kB a bag in doubles
    for k in range(3):
        if packed:
            np.savez_compressed(tmp_path / f"{k}.npz", maps=maps)
        else:
            np.save(tmp_path / f"{k}.npy", maps)
    files = [tmp_path / f"{k}{'.npz' if packed else '.npy'}" for k in range(3)]
    tracemalloc.start()
    bags = read_bags(files)
    total = sum(float(bags[i].values.sum()) for i in range(len(bags)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == pytest.approx(3 * float(maps.sum(dtype=np.float64)), rel=1e-6)
    assert peak < 3_000_000


def test_one_model_is_refused(tmp_path: Path) -> None:
    error = refused([archives(tmp_path, values())[0]])
    assert error.rule == "one-model"
    assert error.file == str(tmp_path / "a.npz")


def test_another_number_of_bags_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", values()[0])
    np.save(tmp_path / "b.npy", values()[1][:3])
    error = refused([tmp_path / "a.npy", tmp_path / "b.npy"])
    assert (error.rule, error.file, error.location) == (
        "bags-differ",
        str(tmp_path / "b.npy"),
        "model 'b'",
    )
    assert "4 bags" in error.expected
    assert "3 bags" in error.value


def test_a_bag_that_one_model_lacks_is_named(tmp_path: Path) -> None:
    files = archives(tmp_path, values())
    np.savez(files[2], x1=values()[0, 0], x3=values()[0, 2], y9=values()[0, 3], x4=values()[0, 3])
    error = refused(files)
    assert (error.rule, error.file) == ("bags-differ", str(files[2]))
    assert error.location == "model 'c', bag 'x2'"
    assert "'y9'" in error.hint


def test_a_bag_that_only_a_later_model_has_is_named(tmp_path: Path) -> None:
    files = archives(tmp_path, values())
    np.savez(files[1], **dict(zip(IDS, values()[1])), extra=values()[1, 0])
    assert refused(files).location == "model 'b', bag 'extra'"


def test_ids_beside_positions_are_refused(tmp_path: Path) -> None:
    files = archives(tmp_path, values())
    np.save(tmp_path / "p.npy", values()[0])
    for pair in ([files[0], tmp_path / "p.npy"], [tmp_path / "p.npy", files[0]]):
        error = refused(pair)
        assert (error.rule, error.file) == ("bags-differ", str(tmp_path / "p.npy"))


def test_another_shape_is_refused_with_model_and_bag(tmp_path: Path) -> None:
    files = archives(tmp_path, values())
    np.savez(files[1], **{**dict(zip(IDS, values()[1])), "x3": np.zeros((4, 3))})
    error = refused(files)
    assert (error.rule, error.file, error.location) == (
        "shape-mismatch",
        str(files[1]),
        "model 'b', bag 'x3'",
    )
    assert "3 x 4" in error.expected
    assert "4 x 3" in error.value


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [(np.nan, "non-finite"), (np.inf, "non-finite"), (1.5, "score-range"), (-0.1, "score-range")],
)
def test_values_are_checked_when_a_bag_is_read(tmp_path: Path, wrong: float, rule: str) -> None:
    maps = values()
    maps[1, 2, 1, 3] = wrong
    files = archives(tmp_path, maps)
    bags = read_bags(files)  # headers are in order
    assert bags[0].id == "x1"
    error = refused(files, read=True)
    assert (error.rule, error.file) == (rule, str(files[1]))
    assert error.location.startswith("model 'b', bag 'x3'")
    if rule == "non-finite":
        assert error.location.endswith("[1, 3]")


def test_pictures_of_whole_numbers_need_a_normalisation(tmp_path: Path) -> None:
    for model in "ab":
        np.savez(tmp_path / f"{model}.npz", x=np.array([[0, 255]], np.uint8))
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    assert "uint8" in refused(files, read=True).hint
    assert read_bags(files, normalise="uint8")[0].values.tolist() == [[0.0, 1.0]] * 2


def test_two_maps_of_one_id_are_refused(tmp_path: Path) -> None:
    for model in "ab":
        np.savez(tmp_path / f"{model}.npz", maps=values()[0], ids=np.array(["x", "y", "x", "z"]))
    error = refused([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert (error.rule, error.value) == ("dup-bag", "'x'")


@pytest.mark.parametrize(
    ("ids", "rule"),
    [
        (np.array(["x", "y"]), "bags-differ"),
        (np.array([["x", "y", "z", "w"]]), "id-type"),
        (np.array([0.5, 1.5, 2.5, 3.5]), "id-type"),
        (np.array(["x", 1, None, 2], object), "id-type"),
    ],
)
def test_ids_that_are_none_are_refused(tmp_path: Path, ids: np.ndarray, rule: str) -> None:
    np.savez(tmp_path / "a.npz", maps=values()[0], ids=ids)
    error = refused([tmp_path / "a.npz", tmp_path / "a.npz"])
    assert (error.rule, error.field) == (rule, "ids")


@pytest.mark.parametrize(
    ("array", "rule"),
    [
        (np.zeros(4), "volume-shape"),
        (np.zeros((2, 2, 2, 2, 2)), "volume-shape"),
        (np.zeros((0, 3)), "no-bags"),
        (np.zeros((3, 0)), "volume-shape"),
        (np.array(["a", "b"]).reshape(1, 2), "volume-dtype"),
        (np.zeros((2, 2), complex), "volume-dtype"),
        (np.array([[None, 1]], object), "pickle"),
    ],
)
def test_arrays_that_are_no_maps_are_refused(tmp_path: Path, array: np.ndarray, rule: str) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    assert refused([tmp_path / "a.npy", tmp_path / "a.npy"]).rule == rule
    np.savez(tmp_path / "a.npz", maps=array)
    assert refused([tmp_path / "a.npz", tmp_path / "a.npz"]).rule == rule


def test_files_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", values()[0])
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "b.npy").write_bytes(whole[:-8])
    error = refused([tmp_path / "a.npy", tmp_path / "b.npy"])
    assert (error.rule, error.file) == ("volume-broken", str(tmp_path / "b.npy"))
    np.savez_compressed(tmp_path / "c.npz", maps=values()[0])
    (tmp_path / "d.npz").write_bytes((tmp_path / "c.npz").read_bytes()[:-30])
    assert refused([tmp_path / "c.npz", tmp_path / "d.npz"]).rule == "volume-broken"


def test_damage_inside_an_archive_is_found_when_it_is_read(tmp_path: Path) -> None:
    maps = values(shape=(100, 100))[0]
    np.savez(tmp_path / "a.npz", maps=maps)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    at = data.find(maps[3].tobytes()[-16:])
    data[at + 4] ^= 1  # a small change of the number, which only the checksum sees
    (tmp_path / "b.npz").write_bytes(bytes(data))
    error = refused([tmp_path / "a.npz", tmp_path / "b.npz"], read=True)
    assert (error.rule, error.file) == ("volume-broken", str(tmp_path / "b.npz"))
    assert error.location.startswith("model 'b', bag '3'")


def test_archives_that_unpack_like_bombs_are_refused(tmp_path: Path) -> None:
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (20000, 30000, 30000), }".ljust(117)
        + b"\n"
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("maps.npy", header + bytes(1 << 20))
    error = refused([tmp_path / "a.npz", tmp_path / "a.npz"])
    assert error.rule in ("too-large", "volume-broken")


def test_missing_files_and_models_of_one_name(tmp_path: Path) -> None:
    assert refused([tmp_path / "none.npz"]).rule == "not-found"
    (tmp_path / "one").mkdir()
    np.save(tmp_path / "m.npy", values()[0])
    np.save(tmp_path / "one" / "m.npy", values()[1])
    with pytest.raises(ValueError, match="two models are called 'm'; name them: first="):
        read_bags([tmp_path / "m.npy", tmp_path / "one" / "m.npy"])
    assert read_bags(
        {"first": tmp_path / "m.npy", "second": tmp_path / "one" / "m.npy"}
    ).models == ("first", "second")
