# SPDX-License-Identifier: Apache-2.0
"""Pictures as a page embeds them: encoded text and notes. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Encoded:
    """A picture as text that a page can hold."""

    data: str  # data:image/webp;base64,...
    width: int  # of what is encoded
    height: int
    bytes: int  # length of the text, which is ASCII


@dataclass(frozen=True, slots=True)
class Slices:
    """The pictures of the samples that a page shows: slices of images, and of the maps of every
    model.

    They are stored with a saved evaluation, because the volumes may be gone when its page is
    written again.
    """

    # `calipers.pictures.gathering.Wanted` names them
    pictures: Mapping[str, Encoded] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
