# SPDX-License-Identifier: Apache-2.0
"""The format ``dicom-sr``: regions of DICOM structured reports (extra ``dicom``).

A measurement report (DICOM PS3.16, TID 1500) has a group (125007) for every finding: its kind
(121071, Finding), its region on an image (111030, Image Region: SCOORD with points ``column, row``
of one image), and measurements, of which a certainty (111012) or a probability (111047) is the
score. Points are pixels, with the corner of the first pixel at 0, 0 (PS3.3, C.18.6.1.2), so that
the box around them is one of ours. Reports with regions in millimetres (SCOORD3D) are refused.

An image is called by its SOP instance UID, with ``#n`` for frame n of several. Only codes,
coordinates and UIDs are read: a report names patients and readers. pydicom reads the file.
`calipers.io.read` calls `DicomReportReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import hypot
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from calipers.errors import InputError, UsageError
from calipers.io.annotations.annotation_list import (
    AnnotatedImage,
    AnnotationList,
    Box,
    ImageNames,
    RecordPlace,
    is_number,
)
from calipers.io.reader import (
    Key,
    ObjectPart,
    Options,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import InputFile, InputFolder, open_regular, open_source

MARK, MARK_AT = b"DICM", 128
# All classes of structured reports begin like this (DICOM PS3.4, table B.5-1).
REPORTS = b"1.2.840.10008.5.1.4.1.1.88."
HEAD = 2048  # bytes that hold the group of the file, which names the class
SUFFIXES = (".dcm", ".dicom")
INDEX = "DICOMDIR"  # of a medium, which is no report
GROUP, FINDING, REGION = "125007", "121071", "111030"
SCORES = {"111012": "Certainty of Finding", "111047": "Probability of cancer"}
NO_FINDING = "finding"  # class of regions that say no more
MOST_ITEMS = 1_000_000
# Shapes by the box around their points; a circle has its centre and a point on it, an ellipse the
# ends of its two axes.
POLYGONS = ("POLYLINE", "MULTIPOINT")


class DicomReportReader(Reader):
    """Regions of structured reports: a file, or a folder of them.

    Notes
    -----
    Images are those that a report refers to as evidence; one without a region is an image without
    findings. Classes are the meanings of the codes of findings, in alphabetical order.
    """

    name = "dicom-sr"
    inputs = ("folder", "file")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the class of the (first) file."""
        head = bytes(file.data[:HEAD])
        if isinstance(file, InputFolder):
            try:
                head = next((head for _, head in _dicom_files(file)), b"")
            except (InputError, OSError):
                # Some file of a folder of another format, which its reader may not need.
                return None
        if head[MARK_AT : MARK_AT + len(MARK)] != MARK or REPORTS not in head:
            return None
        return Sniffed(self.name, "unknown", "it is a DICOM structured report")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read images and regions."""
        rows = AnnotationList(file, options)
        images: dict[str, int] = {}
        for report in _reports(file, rows):
            for name in report.images:
                images.setdefault(name, len(images))
            for region in report.regions(rows):
                image = images.setdefault(region.image, len(images))
                rows.add(image, region.label, region.box, region.place)
        return rows.references(self.name, [AnnotatedImage(name) for name in images])

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read regions with their scores."""
        rows = AnnotationList(file, options)
        names = ImageNames(index, file.file)
        for report in _reports(file, rows):
            for region in report.regions(rows, scored=True):
                rows.add(
                    names.find(region.image),
                    region.label,
                    region.box,
                    region.place,
                    image_name=region.image,
                    score=region.score,
                )
        labels: dict[Key, int] = {name: k for k, name in enumerate(index.classes)}
        if len(index.classes) == 1:
            labels.setdefault(NO_FINDING, 0)
        return {"": rows.predictions(index, labels)}


class _Region(NamedTuple):
    image: str
    label: str
    box: Box
    place: RecordPlace
    score: float


class _Report(NamedTuple):
    """One report: its images, and the items of its groups."""

    file: str
    name: str
    images: list[str]
    groups: list[Any]

    def regions(self, rows: AnnotationList, *, scored: bool = False) -> list[_Region]:
        """Return the regions of all groups; what is none is entered as a problem."""
        from calipers.io.volumes.volume import guarded

        # Elements are decoded when they are asked for, so a broken one is noticed only here.
        with guarded(self.file):
            return list(self._regions(rows, scored))

    def _regions(self, rows: AnnotationList, scored: bool) -> Iterator[_Region]:
        for k, group in enumerate(self.groups):
            label, score = _label(group), _score(group)
            for j, item in enumerate(_items(group)):
                if _code(item) != REGION:
                    continue
                place = RecordPlace(f"{self.name} group {k + 1} region {j + 1}")
                kind = str(item.get("ValueType", ""))
                if kind != "SCOORD":
                    rows.reject(
                        place,
                        "shape-kind",
                        "a region in pixels of an image (SCOORD)",
                        kind,
                        field="ValueType",
                        hint="regions in mm (SCOORD3D) are not read: a report lacks the grid of "
                        "its series; export them per image, or as a segmentation (DICOM SEG)",
                    )
                    continue
                box, image = _box(item), _image(item)
                if box is None or image is None:
                    rows.reject(
                        place,
                        "box-shape",
                        f"points of {', '.join(POLYGONS)}, CIRCLE or ELLIPSE on one image",
                        str(item.get("GraphicType", "")),
                        field="GraphicData",
                    )
                    continue
                if scored and score is None:
                    rows.reject(
                        place,
                        "score-missing",
                        "a score",
                        field="MeasuredValueSequence",
                        hint="measurements that are scores: "
                        + ", ".join(f"{name} ({code}, DCM)" for code, name in SCORES.items()),
                    )
                    continue
                yield _Region(image, label, box, place, 0.0 if score is None else score)


def _dicom_files(file: InputFolder) -> Iterator[tuple[str, bytes]]:
    """Yield the DICOM files of a folder by their names, with their beginnings.

    Archives name them without a suffix, or by an identifier, which ends with a number: such a file
    is one if it has the mark of DICOM.
    """
    for name, path in file.files.items():
        base = PurePosixPath(name).name
        is_named = base.lower().endswith(SUFFIXES)
        suffix = PurePosixPath(base).suffix[1:]
        if not is_named and (base.upper() == INDEX or (suffix and not suffix.isdigit())):
            continue
        with open_regular(Path(path), follow=False) as stream:
            head = stream.read(HEAD)
        if is_named or head[MARK_AT : MARK_AT + len(MARK)] == MARK:
            yield name, head


def _reports(file: InputFile, rows: AnnotationList) -> Iterator[_Report]:
    if not isinstance(file, InputFolder):
        yield _report(file, "")
        return
    for name, _ in _dicom_files(file):
        source = open_source(file.files[name])
        if REPORTS in source.data[:HEAD]:
            rows.further_files.append(name)
            yield _report(source, name)
        else:
            note = "DICOM files that are not reports were not read"
            file.notes.extend([note] if note not in file.notes else [])


def _report(file: InputFile, name: str) -> _Report:
    from io import BytesIO

    try:
        import pydicom
    except ImportError:
        raise UsageError(
            f'{file.file}: DICOM files need pydicom: pip install "calipers[dicom]"'
        ) from None
    from calipers.io.volumes.dicom import silent_logs
    from calipers.io.volumes.dicom_syntax import require_decoder
    from calipers.io.volumes.volume import guarded

    with guarded(file.file), silent_logs():
        stream = BytesIO(file.data[:])
        # Only for the size of a deflated report: reports have no pixels.
        require_decoder(stream, file.file)
        stream.seek(0)
        report = pydicom.dcmread(stream)
        groups: list[Any] = []
        _walk(report, groups, [0], file.file)
        return _Report(file.file, name, _evidence(report), groups)


def _walk(item: Any, groups: list[Any], count: list[int], file: str) -> None:
    """Collect the measurement groups below an item, in the order of the report."""
    for child in _items(item):
        count[0] += 1
        if count[0] > MOST_ITEMS:
            raise InputError(f"at most {MOST_ITEMS:,} items", rule="too-large", file=file)
        if _code(child) == GROUP:
            groups.append(child)
        else:
            _walk(child, groups, count, file)


def _items(item: Any) -> list[Any]:
    return list(item.get("ContentSequence") or ())


def _code(item: Any, sequence: str = "ConceptNameCodeSequence") -> str:
    codes = {str(concept.get("CodeValue", "")) for concept in item.get(sequence) or ()}
    if len(codes) > 1:  # the standard has one; the others would be dropped without a word
        raise ValueError(sequence)
    return next(iter(codes), "")


def _label(group: Any) -> str:
    for item in _items(group):
        if _code(item) == FINDING:
            concept = next(iter(item.get("ConceptCodeSequence") or ()), None)
            if concept is not None:
                return str(concept.get("CodeMeaning", "")) or NO_FINDING
    return NO_FINDING


def _score(group: Any) -> float | None:
    """Return the first measurement that is a certainty, as a fraction; None if there is none."""
    for item in _items(group):
        if _code(item) not in SCORES:
            continue
        measured = next(iter(item.get("MeasuredValueSequence") or ()), None)
        value = None if measured is None else measured.get("NumericValue")
        if value is None:
            continue
        number = float(value)
        is_percent = _code(measured, "MeasurementUnitsCodeSequence") == "%"
        return number / 100.0 if is_percent else number
    return None


def _box(item: Any) -> Box | None:
    """Return the box around the points of a region."""
    kind, data = str(item.get("GraphicType", "")), item.get("GraphicData")
    points = [float(number) for number in data or ()]
    if len(points) < 4 or len(points) % 2 or not all(map(is_number, points)):
        return None
    xs, ys = points[0::2], points[1::2]
    if kind == "CIRCLE" and len(points) == 4:
        radius = ((xs[1] - xs[0]) ** 2 + (ys[1] - ys[0]) ** 2) ** 0.5
        return xs[0] - radius, ys[0] - radius, xs[0] + radius, ys[0] + radius
    if kind == "ELLIPSE" and len(points) == 8:
        # Half of each axis; the box around a turned ellipse is wider than the one around its ends.
        x, y = (xs[0] + xs[1]) / 2, (ys[0] + ys[1]) / 2
        width = hypot(xs[1] - xs[0], xs[3] - xs[2]) / 2
        height = hypot(ys[1] - ys[0], ys[3] - ys[2]) / 2
        return x - width, y - height, x + width, y + height
    if kind not in POLYGONS:
        return None
    return min(xs), min(ys), max(xs), max(ys)


def _image(item: Any) -> str | None:
    """Return the name of the image that a region lies on."""
    references: list[Any] = []
    for child in _items(item):
        references += child.get("ReferencedSOPSequence") or ()
    names = _image_names(references[0]) if len(references) == 1 else []
    return names[0] if len(names) == 1 else None


def _image_names(reference: Any) -> list[str]:
    """Return the names of the images that a reference is to: several if it lists frames."""
    name = str(reference.get("ReferencedSOPInstanceUID", ""))
    frames = reference.get("ReferencedFrameNumber")
    if frames is None:
        return [name]
    numbers = [frames] if isinstance(frames, int | str) else list(frames)
    return [f"{name}#{int(number)}" for number in numbers] or [name]


def _evidence(report: Any) -> list[str]:
    """Return the images that a report is based on."""
    names = []
    for study in report.get("CurrentRequestedProcedureEvidenceSequence") or ():
        for series in study.get("ReferencedSeriesSequence") or ():
            for reference in series.get("ReferencedSOPSequence") or ():
                names += _image_names(reference)
    return names
