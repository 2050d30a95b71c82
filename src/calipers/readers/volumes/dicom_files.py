# SPDX-License-Identifier: Apache-2.0
"""Read the headers of DICOM files with pydicom (extra ``dicom``).

Only the elements that describe pixels are read, nothing is logged, and files that cannot be decoded
are refused. A header names patients: nothing of it is kept, logged or quoted but numbers that
describe pixels.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from calipers.errors import InputError, UsageError
from calipers.readers.source import open_regular
from calipers.readers.volumes.volume import Request

DEFLATED = "1.2.840.10008.1.2.1.99"
# The last numbers of the UIDs of transfer syntaxes that may be lossy (DICOM PS3.6, table A-1).
LOSSY = ("4.50", "4.51", "4.81", "4.91", "4.93", "4.112", "4.203")
ELEMENTS = (
    "SOPClassUID",
    "SeriesInstanceUID",
    "Rows",
    "Columns",
    "NumberOfFrames",
    "SamplesPerPixel",
    "BitsAllocated",
    "PixelRepresentation",
    "PhotometricInterpretation",
    "RescaleSlope",
    "RescaleIntercept",
    "PixelSpacing",
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "SpacingBetweenSlices",
    "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
)


@contextmanager
def silent_logs(*names: str) -> Iterator[None]:
    """Keep pydicom, and the loggers ``names``, from logging: their warnings quote elements."""
    loggers = [logging.getLogger(name) for name in ("pydicom", *names)]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)  # a level also holds for the loggers below it
    try:
        yield
    finally:
        for logger, level in zip(loggers, before):
            logger.setLevel(level)


def syntax_of(file: BinaryIO) -> tuple[Any, bool, str]:
    """Return the transfer syntax of a file, whether its pixels can be decoded here, and its name in
    words.

    A deflated file could unpack to any size and counts as one that cannot be decoded. The name of a
    registered syntax is a word of the standard; any other text is the file's own and is not quoted.
    """
    from pydicom.filereader import read_dataset, read_preamble
    from pydicom.pixels import get_decoder

    read_preamble(file, False)
    meta = read_dataset(file, False, True, stop_when=lambda tag, vr, length: tag.group != 2)
    syntax = meta.TransferSyntaxUID
    file.seek(0)
    try:
        ready = syntax != DEFLATED and get_decoder(syntax).is_available
    except NotImplementedError:
        ready = False
    name = "unknown"
    if syntax.is_transfer_syntax and syntax.name != syntax:
        name = syntax.name
    return syntax, ready, name


def header_of(request: Request) -> tuple[Any, bool]:
    """Return the elements of a file that describe its pixels, and whether these are compressed."""
    try:
        import pydicom
    except ImportError:
        raise UsageError(
            f'{request.file}: DICOM files need pydicom: pip install "calipers[dicom]"'
        ) from None
    with open_regular(request.path, follow=True) as file, silent_logs():
        syntax, ready, name = syntax_of(file)
        if not ready:
            hint = (
                "convert it to an uncompressed transfer syntax, "
                "or install a decoder (pip install pylibjpeg[all])"
            )
            expected = "a transfer syntax with a decoder"
            raise InputError(
                expected, rule="volume-codec", file=request.file, value=name, hint=hint
            )
        if request.role == "labels" and str(syntax).endswith(LOSSY):
            hint = "save labels without losses"
            raise InputError(
                "labels without losses", rule="lossy", file=request.file, value=name, hint=hint
            )
        header = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=list(ELEMENTS))
    return header, bool(syntax.is_compressed)


def numbers_of(element: Any, count: int) -> tuple[float, ...] | None:
    """Return the ``count`` finite numbers of an element; None if it is absent or has others."""
    if element is None or isinstance(element, str):
        return None
    values = [element] if isinstance(element, int | float) else list(element)
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return None
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        return None
    return numbers
