"""What is left of maps, saved and read back: the same bits, or an error that names the file."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calipers as cal
from calipers.data.maps import BINS, Histograms, Maps
from calipers.errors import InputError
from calipers.io.saved.folder import read_folder
from calipers.io.saved.maps import ABOUT, MAP_FILES, read_maps, save_maps
from calipers.kernels import ragged
from evaluated import evaluated_demo
from stored import vouch


def made_up(seed: int, n_images: int = 5, shift: int = 3, exact=None) -> Maps:
    """Maps with empty images, bins of one and of many scores, and sums that are not finite numbers
    everywhere.
    """
    rng = np.random.default_rng(seed)
    size = BINS >> shift
    counts = rng.integers(0, 30, n_images)
    counts[0] = 0
    bins = [np.sort(rng.choice(size, count, replace=False)) for count in counts]
    which = np.concatenate(bins).astype(np.int32)
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    filled = np.union1d(which, [7])  # a bin that only an image had that is gone
    lowest[filled] = (filled + rng.random(len(filled))) / size
    highest[filled] = lowest[filled] + rng.choice([0.0, 1e-9], len(filled))
    histograms = Histograms(
        offsets=ragged.from_counts(counts),
        bin=which,
        positives=rng.integers(0, 9, len(which)),
        negatives=rng.integers(0, 1 << 40, len(which)),
        overlap=rng.random(len(which)),
        lowest=lowest,
        highest=highest,
        shift=shift,
    )
    sums = {
        key: np.stack([rng.random(n_images), rng.integers(0, 5, n_images)], axis=1)
        for key in ("b", "a", "ü")
    }
    sums["a"][-1, 0] = np.nan
    return Maps(sums, rng.integers(0, 4, n_images), rng.integers(0, 4, n_images), histograms, exact)


def same(a: Maps, b: Maps) -> None:
    for field in fields(Histograms):
        one, other = (np.asarray(getattr(maps.histograms, field.name)) for maps in (a, b))
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), field.name
    assert list(a.sums) == list(b.sums)
    assert all(a.sums[key].tobytes() == b.sums[key].tobytes() for key in a.sums)
    assert (a.references.tolist(), a.predictions.tolist()) == (
        b.references.tolist(),
        b.predictions.tolist(),
    )
    assert json.dumps(a.exact) == json.dumps(b.exact)


MAPS = {
    "second": made_up(1, exact={"auroc": 0.1 + 0.2, "ap": float("nan"), "x": float("inf")}),
    "first": made_up(2, shift=0),
    "coarse": made_up(3, shift=16 - 4, n_images=2),
    "nothing": replace(made_up(4, n_images=1), sums={}, exact={}),
}


def test_maps_come_back_bit_by_bit(tmp_path):
    save_maps(tmp_path, MAPS)
    found = read_maps(tmp_path)
    assert list(found) == list(MAPS)
    for model, maps in MAPS.items():
        same(maps, found[model])


def test_no_maps_write_no_files(tmp_path):
    save_maps(tmp_path, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MAP_FILES)
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "foreign"])
def test_damaged_files_are_named(tmp_path, name, damage):
    save_maps(tmp_path, MAPS)
    file = tmp_path / name
    data = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(
            {"cut": data[: len(data) // 2], "empty": b"", "foreign": b"[1, 2]"}[damage]
        )
    with pytest.raises(InputError) as refused:
        read_maps(tmp_path)
    assert name in refused.value.file


def entry(name, value, row=0):
    def change(table):
        cells = table[name].to_pylist()
        cells[row] = value
        return table.set_column(
            table.column_names.index(name), name, pa.array(cells, table[name].type)
        )

    return change


def about(change):
    def changed(table):
        told = json.loads(table.schema.metadata[ABOUT.encode()])
        change(told)
        return table.replace_schema_metadata({ABOUT: json.dumps(told)})

    return changed


WRONG = [
    ("maps.parquet", entry("model", "other"), "stored-order"),
    ("maps.parquet", entry("bin", 1 << 20, 3), "range"),
    ("maps.parquet", entry("bin", 0, 1), "range"),
    ("maps.parquet", entry("image", 99), "unknown-image"),
    ("maps.parquet", entry("image", None), "type"),
    ("maps.parquet", entry("positives", -1), "range"),
    ("maps.parquet", entry("overlap", float("nan")), "non-finite"),
    ("maps.parquet", lambda table: table.slice(1), "record-count"),
    ("maps.parquet", lambda table: table.take([1, 0, *range(2, len(table))]), "stored-order"),
    ("maps.parquet", lambda table: table.replace_schema_metadata(None), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(shift=17)), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(shift=4)), "stored-order"),
    ("maps.parquet", about(lambda told: told[0].update(images=-1)), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(images=True)), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(exact={"a": "x"})), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(exact=[1])), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(keys=["a", "a"])), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(keys=[["a"]])), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].update(model=3)), "missing-key"),
    ("maps.parquet", about(lambda told: told[0].pop("bins")), "missing-key"),
    ("maps.parquet", about(lambda told: told.__setitem__(0, 3)), "missing-key"),
    ("map_bins.parquet", entry("bin", 5, 1), "stored-order"),
    ("map_bins.parquet", entry("highest", -1.0), "range"),
    ("map_bins.parquet", entry("lowest", float("inf")), "non-finite"),
    ("map_images.parquet", entry("image", 3), "stored-order"),
    ("map_images.parquet", entry("references", -3), "range"),
    ("map_images.parquet", lambda table: pa.concat_tables([table, table]), "record-count"),
    ("map_sums.parquet", entry("key", "c"), "stored-order"),
    ("map_sums.parquet", entry("image", 3), "stored-order"),
    ("map_sums.parquet", entry("sum", float("inf")), "non-finite"),
    ("map_sums.parquet", lambda table: table.drop_columns(["count"]), "missing-column"),
]


@pytest.mark.parametrize(("name", "change", "rule"), WRONG)
def test_tables_are_not_trusted(tmp_path, name, change, rule):
    save_maps(tmp_path, {"one": MAPS["second"]})
    pq.write_table(change(pq.read_table(tmp_path / name)), tmp_path / name)
    with pytest.raises(InputError) as refused:
        read_maps(tmp_path)
    assert refused.value.rule == rule


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of an evaluation whose cohort has maps of one of its models."""
    cohort = cal.demo_cohort()
    maps = {"mislabels": made_up(5, n_images=cohort.n_images, exact={"auroc": 0.25})}
    evaluation = cal.evaluate(replace(cohort, maps=maps), "voc2012", ci=False)
    return evaluation.save(tmp_path_factory.mktemp("made") / "out"), maps


def test_an_evaluation_keeps_its_maps(made):
    folder, maps = made
    found = read_folder(Path(folder)).cohort.maps
    assert list(found) == ["mislabels"]
    same(maps["mislabels"], found["mislabels"])
    assert set(MAP_FILES) <= set(json.loads((folder / "run.json").read_text())["files"])


def test_the_record_of_the_run_vouches_for_maps(made, tmp_path):
    folder = Path(shutil.copytree(made[0], tmp_path / "out"))
    save_maps(folder, {"mislabels": made_up(6, n_images=120)})
    with pytest.raises(InputError) as refused:
        read_folder(folder)
    assert refused.value.rule == "file-hash"
    save_maps(folder, {"mislabels": made_up(6, n_images=7)})
    vouch(folder)
    with pytest.raises(InputError) as refused:
        read_folder(folder)
    assert refused.value.rule == "record-count"


def test_a_folder_without_maps_opens_as_before(tmp_path):
    evaluation = evaluated_demo("voc2012", ci=False)
    assert read_folder(evaluation.save(tmp_path / "out")).cohort.maps == {}
    assert not any((tmp_path / "out" / name).exists() for name in MAP_FILES)
