"""DICOM series and segmentations, written on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pictures.test_dicom import written
from volume_cases import noise

pydicom = pytest.importorskip("pydicom")

AXIAL = [1, 0, 0, 0, 1, 0]
SERIES = "1.2.3.4.5"


def series(
    place: Path, volume: np.ndarray, *, gap: float = 2.5, order: Any = None, **changes: Any
) -> Path:
    """Write a volume [z, y, x] as slices whose names are not in the order of their positions."""
    place.mkdir()
    for k, plane in enumerate(volume):
        elements = {
            "ImagePositionPatient": [-10.0, -20.0, 30.0 + gap * k],
            "ImageOrientationPatient": AXIAL,
            "PixelSpacing": [0.7, 0.5],
            "SeriesInstanceUID": SERIES,
        }
        elements |= changes.get(f"slice{k}", {})
        as_tomography(written(place / f"{(k * 7) % len(volume)}.dcm", plane, **elements))
    return place


def as_tomography(path: Path) -> None:
    """Give a file the class of computed tomography: other programs look at positions of such files
    only.
    """
    one = pydicom.dcmread(path)
    one.file_meta.MediaStorageSOPClassUID = one.SOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    one.SOPInstanceUID, one.Modality = one.file_meta.MediaStorageSOPInstanceUID, "CT"
    one.save_as(path)


def segmentation(
    path: Path,
    masks: np.ndarray,
    place: Path,
    *,
    fractional: bool = False,
    omit_empty_frames: bool = False,
    labels: tuple[str, ...] = ("part 1", "part 2"),
) -> Path:
    """Write masks [z, y, x, segment] over the slices of a series."""
    highdicom = pytest.importorskip("highdicom")
    from pydicom.sr.codedict import codes

    slices = [pydicom.dcmread(file) for file in place.iterdir()]
    slices.sort(key=lambda one: one.ImagePositionPatient[2])
    for one in slices:
        one.StudyInstanceUID, one.FrameOfReferenceUID, one.PatientBirthDate, one.PatientSex = (
            "1.2.9",
            "1.2.8",
            "",
            "",
        )
        one.AccessionNumber, one.StudyID, one.StudyDate, one.StudyTime = "", "", "", ""
        one.ReferringPhysicianName, one.SliceThickness = "", 2.5
    described = [
        highdicom.seg.SegmentDescription(
            segment_number=k + 1,
            segment_label=labels[k],
            segmented_property_category=codes.SCT.Tissue,
            segmented_property_type=codes.SCT.Tissue,
            algorithm_type="MANUAL",
        )
        for k in range(masks.shape[-1])
    ]
    highdicom.seg.Segmentation(
        source_images=slices,
        pixel_array=masks,
        segmentation_type="FRACTIONAL" if fractional else "BINARY",
        segment_descriptions=described,
        series_instance_uid="1.2.7",
        series_number=1,
        sop_instance_uid="1.2.6",
        instance_number=1,
        manufacturer="x",
        manufacturer_model_name="x",
        software_versions="1",
        device_serial_number="1",
        omit_empty_frames=omit_empty_frames,
    ).save_as(path)
    return path


def masks(*, overlapping: bool = False) -> np.ndarray:
    found = np.zeros((5, 4, 6, 2), np.uint8)
    found[1:3, 1:3, 1:4, 0] = 1
    found[2 if overlapping else 3, 2, 2:5, 1] = 1
    return found


def report_images(folder: Path) -> list[Any]:
    """Return the images of a series that a report can refer to."""
    place = series(folder / "ct", noise((3, 32, 40), np.uint16))
    slices = [pydicom.dcmread(file) for file in sorted(place.iterdir())]
    for k, one in enumerate(slices):
        one.StudyInstanceUID, one.FrameOfReferenceUID = "1.2.9", "1.2.8"
        one.SOPInstanceUID = one.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{k + 1}"
        for name in ("PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID"):
            setattr(one, name, "")
        one.StudyDate, one.StudyTime, one.ReferringPhysicianName = "", "", ""
    return slices


def report(
    path: Path, images: list[Any], regions: list[Any], *, percent: float | None = None
) -> Path:
    """Write a measurement report: regions are (image, kind of graphic, points)."""
    import highdicom
    from highdicom import sr
    from pydicom.sr.codedict import codes

    groups = []
    for k, (image, graphic, points) in enumerate(regions):
        source = sr.SourceImageForRegion(images[image].SOPClassUID, images[image].SOPInstanceUID)
        measurements = None
        if percent is not None:
            certainty = sr.CodedConcept("111012", "DCM", "Certainty of Finding")
            measurements = [sr.Measurement(certainty, percent - k, codes.UCUM.Percent)]
        groups.append(
            sr.PlanarROIMeasurementsAndQualitativeEvaluations(
                sr.TrackingIdentifier(highdicom.UID(), f"finding {k}"),
                referenced_region=sr.ImageRegion(graphic, np.array(points, float), source),
                finding_type=sr.CodedConcept("27925004", "SCT", "Nodule"),
                measurements=measurements,
            )
        )
    observer = sr.ObserverContext(
        codes.DCM.Person, sr.PersonObserverIdentifyingAttributes(name="Doe^John")
    )
    content = sr.MeasurementReport(
        sr.ObservationContext(observer_person_context=observer),
        codes.LN.CTUnspecifiedBodyRegion,
        groups,
    )
    sr.Comprehensive3DSR(
        images, content[0], "1.2.5", 1, highdicom.UID(), 1, "x", record_evidence=True
    ).save_as(path)
    return path
