"""Regions of DICOM structured reports, written by highdicom."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.io.read import sniff
from dicom_cases import report, report_images

pydicom = pytest.importorskip("pydicom")
highdicom = pytest.importorskip("highdicom")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list:
    return report_images(tmp_path_factory.mktemp("sr"))


SQUARE = [[4, 6], [14, 6], [14, 16], [4, 16], [4, 6]]


def test_regions_are_boxes_on_their_images(tmp_path, images) -> None:
    circle = [[20, 10], [20, 14]]
    path = report(tmp_path / "r.dcm", images, [(0, "POLYLINE", SQUARE), (1, "CIRCLE", circle)])
    assert sniff(path).format == "dicom-sr"
    cohort = cal.read(path)
    assert cohort.images.ids[0] == "1.2.3.1"
    assert cohort.classes == ("Nodule",)
    by_image = dict(zip(cohort.references.image.tolist(), cohort.references.boxes.tolist()))
    ids = cohort.images.ids
    assert by_image[ids.index("1.2.3.1")] == [4, 6, 14, 16]
    assert by_image[ids.index("1.2.3.2")] == [16, 6, 24, 14]


def test_a_turned_ellipse_has_the_box_around_it(tmp_path, images) -> None:
    # Half axes of 4 and 2 pixels about (20, 15), turned by 30 degrees: first the ends of one axis.
    angle = np.deg2rad(30)
    axes = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    ends = [4 * axes[0], -4 * axes[0], 2 * axes[1], -2 * axes[1]]
    points = [[20 + x, 15 + y] for x, y in ends]
    cohort = cal.read(report(tmp_path / "r.dcm", images, [(0, "ELLIPSE", points)]))
    t = np.linspace(0, 2 * np.pi, 100_000)
    outline = np.outer(np.cos(t), 4 * axes[0]) + np.outer(np.sin(t), 2 * axes[1]) + (20, 15)
    box = [*outline.min(axis=0), *outline.max(axis=0)]
    assert cohort.references.boxes[0] == pytest.approx(box, abs=1e-6)


def test_a_folder_of_reports_with_scores(tmp_path, images) -> None:
    (tmp_path / "refs").mkdir()
    report(tmp_path / "refs" / "a.dcm", images[:1], [(0, "POLYLINE", SQUARE)])
    report(tmp_path / "refs" / "b.dcm", images[1:], [(0, "POLYLINE", SQUARE)])
    model = report(tmp_path / "m.dcm", images, [(0, "POLYLINE", SQUARE)] * 2, percent=90)
    cohort = cal.read(tmp_path / "refs", model)
    assert len(cohort.references) == 2
    assert cohort.predictions("m").score.tolist() == pytest.approx([0.9, 0.89])
    evaluation = cal.evaluate(cohort, "overview", ci=False)
    assert float(evaluation["sensitivity@0.5"]) == 0.5


def test_files_of_an_archive_have_no_suffix(tmp_path, images) -> None:
    place = tmp_path / "refs"
    (place / "CT1").mkdir(parents=True)
    report(place / "CT1" / "IM0001", images[:1], [(0, "POLYLINE", SQUARE)])
    report(place / "1.2.840.10008.77", images[1:], [(0, "POLYLINE", SQUARE)])
    (place / "README").write_text("how they were made " * 20)
    (place / "DICOMDIR").write_bytes(bytes(128) + b"DICM")
    cohort = cal.read(place)
    assert (len(cohort.references), cohort.n_images) == (2, len(images))


def test_predictions_without_a_certainty_are_refused(tmp_path, images) -> None:
    path = report(tmp_path / "r.dcm", images, [(0, "POLYLINE", SQUARE)])
    with pytest.raises(InputError, match="111012") as error:
        cal.read(path, {"m": path})
    assert error.value.rule == "score-missing"


def test_lines_and_points_have_no_extent(tmp_path, images) -> None:
    path = report(tmp_path / "r.dcm", images, [(0, "POINT", [[4, 5]]), (1, "POLYLINE", SQUARE)])
    with pytest.raises(InputError) as error:
        cal.read(path)
    assert error.value.rule == "box-shape"
    assert cal.read(path, lenient=True).intake.quarantined == 1


def test_no_name_of_a_person_is_kept(tmp_path, images) -> None:
    path = report(tmp_path / "r.dcm", images, [(0, "POLYLINE", SQUARE)], percent=50)
    cohort = cal.read(path, {"m": path})
    assert "Doe" not in repr(cohort)


def test_an_item_with_two_names_is_refused(tmp_path, images) -> None:
    """Which of them is meant decides whether a group is read at all."""
    path = report(tmp_path / "r.dcm", images, [(0, "POLYLINE", SQUARE)])
    content = pydicom.dcmread(path)
    waiting = [content]
    for item in waiting:  # which grows
        waiting += item.get("ContentSequence") or ()
        names = item.get("ConceptNameCodeSequence")
        if names and names[0].CodeValue == "125007":
            other = pydicom.Dataset()
            other.CodeValue, other.CodingSchemeDesignator, other.CodeMeaning = "1", "DCM", "x"
            names.insert(0, other)
    content.save_as(path)
    with pytest.raises(InputError) as error:
        cal.read(path)
    assert error.value.rule == "volume-broken"


def test_a_broken_report_is_refused(tmp_path, images) -> None:
    whole = report(tmp_path / "r.dcm", images, [(0, "POLYLINE", SQUARE)]).read_bytes()
    rng = np.random.default_rng(0)
    messages = []
    for k in range(60):
        bytes_of_file = bytearray(whole)
        place = int(rng.integers(400, len(whole)))
        bytes_of_file[place] = int(rng.integers(256))
        if k % 3 == 0:
            bytes_of_file = bytes_of_file[:place]
        path = tmp_path / "broken.dcm"
        path.write_bytes(bytes(bytes_of_file))
        try:
            cal.read(path)
        except InputError as error:
            messages.append(str(error))
    assert messages
    assert not [message for message in messages if "Doe" in message]
