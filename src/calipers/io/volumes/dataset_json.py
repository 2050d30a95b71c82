# SPDX-License-Identifier: Apache-2.0
"""The ``dataset.json`` of nnU-Net and nnDetection: names of classes by their numbers.

nnU-Net 2 writes ``"labels": {"background": 0, "tumour": 1}``, version 1 and nnDetection write
``"labels": {"0": "background", "1": "tumour"}``. The file lies in the folder of the volumes or in
one of the two above it (``Dataset001_X/dataset.json`` beside ``labelsTr``; nnDetection has
``Task001_X/dataset.json`` and ``Task001_X/raw_splitted/labelsTr``). `read_names` finds and reads
it, for the classes of label volumes (`calipers.io.volumes.labels`) and the channels of maps
(`channel_number`, for `calipers.io.volumes.pairing`). `label_folders` finds the labels of a whole
data set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.source import InputFile, open_source

FILE = "dataset.json"
LABEL_FOLDERS = ("labelsTr", "labelsTs")
SPLITTED = "raw_splitted"  # of nnDetection, between the data set and its folders
MOST_BYTES = 1 << 26  # a list of all training cases may be long


@dataclass(frozen=True)
class DatasetNames:
    """The names of classes by number, and the file that has them."""

    file: InputFile
    names: dict[int, str]

    @property
    def note(self) -> str:
        """Where the names come from."""
        return f"names of classes come from {self.file.file}, sha256 {self.file.sha256}"


def read_names(folder: Path) -> DatasetNames | None:
    """Return the names of a folder of volumes; None if no ``dataset.json`` names any."""
    place = folder if folder.is_dir() else folder.parent
    # Folders above are looked up by their real place: ".." of a link leads elsewhere.
    above = place.resolve().parent
    for home in (place, above, above.parent):
        path = home / FILE
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            return _read(path)
    return None


def label_folders(place: Path) -> list[Path]:
    """Return the folders of labels in a data set of nnU-Net or nnDetection; none of any other
    folder.
    """
    if not (place / FILE).is_file():
        return []
    homes = (place, place / SPLITTED)
    folders = [home / name for home in homes for name in LABEL_FOLDERS]
    return [folder for folder in folders if folder.is_dir()]


def labels_of(place: Path, role: str) -> Path:
    """Return the only folder of labels in a data set of nnU-Net, and any other folder as it is.

    Raises
    ------
    InputError
        The data set has labels for training and for testing.
    """
    folders = label_folders(place)
    if len(folders) > 1:
        raise InputError(
            f"one folder of {role}",
            rule="not-a-file",
            file=str(place),
            value=f"a data set with {' and '.join(folder.name for folder in folders)}",
            hint=f"give the one that was predicted, such as {folders[-1]}",
        )
    return folders[0] if folders else place


def _read(path: Path) -> DatasetNames | None:
    from calipers.io.coco.walk import read_value

    file = open_source(path)
    document = read_value(file)
    labels = document.get("labels") if isinstance(document, dict) else None
    if not isinstance(labels, dict):
        return None
    names: dict[int, str] = {}
    for key, value in labels.items():
        number, name = _entry(key, value)
        # Regions of nnU-Net are several numbers under one name: they overlap, and are no classes.
        if number is None:
            continue
        if number in names or name in names.values():
            raise InputError(
                "every number and every name once",
                rule="dup-category",
                file=str(path),
                field="labels",
                value=name,
            )
        names[number] = name
    return DatasetNames(file, names) if names else None


def _entry(key: str, value: Any) -> tuple[int | None, str]:
    if isinstance(value, str):
        return (int(key), value) if key.isascii() and key.isdigit() else (None, value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return (value if is_number else None), key


def channel_number(channel: str, folders: Iterable[Path]) -> tuple[int, list[str]]:
    """Return the number of a channel, given as text: a number, or the name of its class."""
    if channel.isascii() and channel.isdigit():
        return int(channel), []
    names: dict[str, int] = {}
    for folder in folders:
        dataset = read_names(folder)
        if dataset is None:
            continue
        for number, name in dataset.names.items():
            names.setdefault(name, number)
        if channel in names:
            note = f"channel {channel!r} is number {names[channel]}, by {dataset.file.file}"
            return names[channel], [note]
    if not names:
        raise UsageError(
            f"no channel {channel!r}: there is no {FILE} with names, so give a number from 0"
        )
    raise UsageError(f"no channel {channel!r}; {did_you_mean(channel, names)}")
