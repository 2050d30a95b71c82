# SPDX-License-Identifier: Apache-2.0
"""How the pixels of a DICOM file are packed: its transfer syntax, and whether it can be read here.

`calipers.io.volumes.dicom` asks before it decodes anything: a file without a decoder is refused by
the name of its syntax, and a deflated file only if it unpacks to no more than is read.
"""

from __future__ import annotations

import zlib
from typing import Any, BinaryIO

from calipers.errors import InputError
from calipers.io.volumes.volume import DEFAULT, STEP, check_packed

# The transfer syntax Deflated Explicit VR Little Endian packs the header together with the pixels.
DEFLATED = "1.2.840.10008.1.2.1.99"


def transfer_syntax(file: BinaryIO) -> Any:
    """Return the transfer syntax; the file is left where its data set begins."""
    from pydicom.filereader import read_dataset, read_preamble

    # Only the group of the file meta information is parsed (group 2), which is never packed.
    read_preamble(file, False)
    meta = read_dataset(file, False, True, stop_when=lambda tag, vr, length: tag.group != 2)
    return meta.TransferSyntaxUID


def require_better_decoder(file: BinaryIO, name: str) -> None:
    """Raise if pixels that could not be decoded are of a kind that a missing decoder may read.

    Pillow decodes some JPEG files of a transfer syntax and not others, such as those of 12 bits.
    """
    from pydicom.pixels import get_decoder

    syntax, _, words = syntax_of(file, name)
    if not syntax.is_compressed or not get_decoder(syntax).missing_dependencies:
        return
    hint = (
        "a JPEG decoder is missing: pip install pylibjpeg[all]; if it still fails with it, the "
        "file is damaged"
    )
    raise InputError(
        "pixels that a decoder here can read",
        rule="volume-codec",
        file=name,
        value=words,
        hint=hint,
    )


def require_decoder(file: BinaryIO, name: str) -> tuple[Any, str]:
    """Return the transfer syntax of a file and its name in words, or raise if its pixels cannot be
    decoded here.
    """
    syntax, ready, words = syntax_of(file, name)
    if not ready:
        hint = (
            "convert it to an uncompressed transfer syntax, "
            "or install a decoder (pip install pylibjpeg[all])"
        )
        expected = "a transfer syntax with a decoder"
        raise InputError(expected, rule="volume-codec", file=name, value=words, hint=hint)
    return syntax, words


def syntax_of(file: BinaryIO, name: str) -> tuple[Any, bool, str]:
    """Return the transfer syntax of a file, whether its pixels can be decoded here, and its name in
    words.

    The name of a registered syntax is a word of the standard; any other text is the file's own and
    is not quoted.
    """
    from pydicom.pixels import get_decoder

    syntax = transfer_syntax(file)
    if syntax == DEFLATED:
        _check_deflated(file, name)
    file.seek(0)
    try:
        ready = get_decoder(syntax).is_available
    except NotImplementedError:
        ready = False
    words = "unknown"
    if syntax.is_transfer_syntax and syntax.name != syntax:
        words = syntax.name
    return syntax, ready, words


def _check_deflated(file: BinaryIO, name: str) -> None:
    """Raise if a deflated file unpacks to more than is read; pydicom unpacks it at once.

    The stream begins at the present place of the file and has no header (RFC 1951).
    """
    decoder, unpacked, packed = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0
    while not decoder.eof:
        piece = decoder.unconsumed_tail
        if not piece:
            piece = file.read(STEP)
            packed += len(piece)
        if not piece:
            break
        unpacked += len(decoder.decompress(piece, STEP))
        if unpacked > DEFAULT.spared:
            check_packed(unpacked, packed, name, DEFAULT)
        if unpacked > DEFAULT.bytes:
            raise InputError(f"at most {DEFAULT.bytes:,} bytes", rule="too-large", file=name)
