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
