# SPDX-License-Identifier: Apache-2.0
"""Open bags from a folder with a file per bag, or from a single volume.

All headers are read, but no values.
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
    """Return the maps of a folder; the id of a bag is the name of its file without extension.

    ``pattern`` is the path with ``{name}`` in place of the id, such as ``"{name}_map.nii.gz"``.
    """
    listing = list_samples(folder, "maps", pattern)
    if not listing.files:
        names = [path.name for path in sorted(folder.iterdir()) if path.is_file()]
        hint = ""
        if names:
            hint = (
                f"a file here is called {names[0]!r}; the pattern is its name, "
                "with {name} for the id of the image"
            )
        raise InputError(
            f"files that match the pattern {pattern!r}",
            rule="no-bags",
            file=str(folder),
            location=f"model {model!r}",
            hint=hint,
        )
    maps: dict[str, Volume] = {}
    for bag, path in listing.files.items():
        try:
            maps[bag] = open_file(path, "map")
        except InputError as error:
            raise located(error, model, bag) from None
    notes = list(listing.notes)
    for volume in maps.values():
        notes += volume.notes
    return ModelMaps(model, str(folder), maps, notes=tuple(dict.fromkeys(notes)))


def open_single(path: Path, model: str) -> ModelMaps:
    """Return one file as the only bag: the user has paired the models by giving a file of each."""
    volume = open_volume(path)
    return ModelMaps(model, str(path), {"0": volume}, named=False, notes=volume.notes)


def open_file(path: str, role: Role) -> Volume:
    """Return a map or a label mask; arrays may also have one axis: instances in a row."""
    return open_one(Path(path)) if path.lower().endswith(".npy") else open_volume(path, role=role)
