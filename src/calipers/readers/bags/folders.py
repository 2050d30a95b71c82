# SPDX-License-Identifier: Apache-2.0
"""Bags from a folder with a file per bag, and from single volumes: all headers are opened, no
values are read.
"""

from __future__ import annotations

from pathlib import Path

from calipers.errors import InputError
from calipers.readers.bags.arrays import open_one
from calipers.readers.bags.model_maps import ModelMaps, located
from calipers.readers.volumes.names import list_samples
from calipers.readers.volumes.opening import open_volume
from calipers.readers.volumes.volume import Role, Volume


def open_folder(folder: Path, model: str, pattern: str | None = None) -> ModelMaps:
    """Return the maps of a folder; a bag is called what its file is called without extension.

    ``pattern`` says where the name stands in the path, such as ``"{name}_map.nii.gz"``.
    """
    found = list_samples(folder, "maps", pattern)
    if not found.files:
        expected = f"files that fit the pattern {pattern!r}"
        here = next((path.name for path in sorted(folder.iterdir()) if path.is_file()), None)
        hint = f"a file here is called {here!r}; the pattern is its name, with {{name}} for the id of the image"
        place = f"model {model!r}"
        raise InputError(
            expected, rule="no-bags", file=str(folder), location=place, hint=hint if here else ""
        )
    maps: dict[str, Volume] = {}
    for bag, path in found.files.items():
        try:
            maps[bag] = open_file(path, "map")
        except InputError as error:
            raise located(error, model, bag) from None
    notes = *found.notes, *(note for volume in maps.values() for note in volume.notes)
    return ModelMaps(model, str(folder), maps, notes=tuple(dict.fromkeys(notes)))


def open_single(path: Path, model: str) -> ModelMaps:
    """Return one file as the only bag: whoever names one volume per model has paired them."""
    volume = open_volume(path)
    return ModelMaps(model, str(path), {"0": volume}, named=False, notes=volume.notes)


def open_file(path: str, role: Role) -> Volume:
    """Return a map or a label mask; arrays may also have one axis: instances in a row."""
    return open_one(Path(path)) if path.lower().endswith(".npy") else open_volume(path, role=role)
