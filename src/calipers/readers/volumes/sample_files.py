# SPDX-License-Identifier: Apache-2.0
"""The files of one sample (`SampleFiles`) and of all samples (`Pairing`).

`pairing.pair` makes them after all headers were checked; voxels are read one sample at a time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any, overload

import numpy as np

from calipers.readers.volumes.agreement import check_resize, resize_map
from calipers.readers.volumes.values import Meaning, as_labels, as_map
from calipers.readers.volumes.volume import Array, Volume
from calipers.tables.intake import FileIntake, Intake
from calipers.tables.samples import Sample


@dataclass(frozen=True)
class SampleFiles:
    """One sample on disk; None where a model has no map."""

    name: str
    labels: Volume
    maps: Mapping[str, Volume | None]
    image: Volume | None = None
    groups: Mapping[str, Any] = field(default_factory=dict)
    # How maps that differ in shape are resized; the headers were checked under this rule.
    resize: str | None = None

    def load(
        self,
        *,
        label_values: Meaning = "binary",
        normalise: str = "none",
        resize: str | None = None,
    ) -> Sample:
        """Return the sample with its voxels.

        Parameters
        ----------
        label_values
            The meaning of the label values: see `values.as_labels`.
        normalise
            How scores become numbers in [0, 1]: see `values.as_map`.
        resize
            How maps are resized to the shape of the labels; None: as chosen when the files were
            paired.

        Notes
        -----
        A model without a map gets one of zeros: it found nothing.
        """
        how = resize or self.resize
        check_resize(how)
        labels = as_labels(self.labels.read(), label_values, file=self.labels.file)
        maps = {model: self._map(volume, normalise, how) for model, volume in self.maps.items()}
        image = None if self.image is None else self.image.read()
        return Sample(self.name, labels, maps, self._spacing(), self.groups, image)

    def _spacing(self) -> tuple[float, ...] | None:
        """Return the spacing of the labels, else of the first map on their grid that has one."""
        if self.labels.spacing is not None:
            return self.labels.spacing
        for volume in self.maps.values():
            if volume is None or volume.shape != self.labels.shape:
                continue
            if volume.spacing is not None:
                return volume.spacing
        return None

    def _map(self, volume: Volume | None, normalise: str, how: str | None) -> Array:
        if volume is None:
            return np.zeros(self.labels.shape, np.float32)
        scores = as_map(volume.read(), normalise, file=volume.file)
        return scores if how is None else resize_map(scores, self.labels.shape, how)

    def files(self) -> tuple[Volume, ...]:
        """Return all volumes: labels, maps, image."""
        return tuple(v for v in (self.labels, *self.maps.values(), self.image) if v is not None)


@dataclass(frozen=True)
class Pairing(Sequence[SampleFiles]):
    """All samples in the order of their names, and the notes of pairing their files."""

    samples: tuple[SampleFiles, ...]
    notes: tuple[str, ...] = ()
    tables: tuple[FileIntake, ...] = ()  # tables of groups

    @overload
    def __getitem__(self, index: int) -> SampleFiles: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SampleFiles, ...]: ...
    def __getitem__(self, index: int | slice) -> SampleFiles | tuple[SampleFiles, ...]:
        return self.samples[index]

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(self.samples[0].maps) if self.samples else ()

    def intake(self, number: int, notes: Mapping[str, Sequence[str]]) -> Intake:
        """Return the account of the files: one entry for all references, one for all maps of each
        model.

        ``number`` samples were used; ``notes`` are those of every model. The hash of an entry is
        that of the names and hashes of its files.
        """
        counts = (len(self), number)
        quarantine = {"tuning": len(self) - number} if number < len(self) else {}
        labels = [sample.labels for sample in self.samples]
        files = [_account(labels, "references", counts, quarantine, self.notes)]
        for model in self.models:
            maps = []
            for sample in self.samples:
                volume = sample.maps[model]
                if volume is not None:
                    maps.append(volume)
            role = f"predictions of {model}"
            files.append(_account(maps, role, counts, quarantine, notes[model]))
        return Intake((*files, *self.tables))

    def with_groups(self, table: str | PathLike[str], *, lenient: bool = False) -> Pairing:
        """Return the samples with the columns of a table of groups: patient, centre, any.

        The table has a row per sample: csv, tsv or parquet with a column ``image``, ``image_id``,
        ``id`` or ``file_name`` that holds the names of the samples.
        """
        from calipers.readers.grouping import add_groups
        from calipers.readers.parts import ImageList, Options
        from calipers.readers.reading import read_groups_table
        from calipers.readers.source import open_source

        opened = open_source(fspath(table))
        n = len(self)
        dimensions = self.samples[0].labels.dimensions if self.samples else 2
        size = np.empty((n, dimensions), np.float64)
        spacing = np.full((n, dimensions), np.nan)
        for k, sample in enumerate(self.samples):
            size[k] = sample.labels.size
            if sample.labels.spacing is not None:
                spacing[k] = sample.labels.spacing
        images = ImageList([sample.name for sample in self.samples], size, spacing, {})
        images, intake = add_groups(
            images, read_groups_table(opened), opened, Options(lenient=lenient)
        )
        samples = []
        for k, sample in enumerate(self.samples):
            row = {name: column[k].item() for name, column in images.groups.items()}
            samples.append(_with_row(sample, row, images.spacing[k]))
        notes = (*self.notes, *intake.notes)
        return replace(self, samples=tuple(samples), notes=notes, tables=(*self.tables, intake))


def _account(
    volumes: Sequence[Volume],
    role: str,
    counts: tuple[int, int],
    quarantine: Mapping[str, int],
    notes: Sequence[str],
) -> FileIntake:
    """Return the account of the files of one role; ``counts`` are the samples read and used."""
    names = [volume.file for volume in volumes]
    folder = "<none>"
    if names:
        folder = os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names])
    hashes = "".join(f"{os.path.basename(volume.file)} {volume.sha256}\n" for volume in volumes)
    formats = ", ".join(sorted({volume.format for volume in volumes}))
    return FileIntake(
        file=folder,
        role=role,
        format=formats,
        read=counts[0],
        used=counts[1],
        quarantined=quarantine,
        sha256=hashlib.sha256(hashes.encode("utf-8", "surrogateescape")).hexdigest(),
        bytes=sum(volume.bytes for volume in volumes),
        notes=tuple(notes),
    )


def _with_row(sample: SampleFiles, row: Mapping[str, Any], spacing: Any) -> SampleFiles:
    """Return a sample with its row of groups; the table may add a spacing that the files lack."""
    labels = sample.labels
    if labels.spacing is None and np.isfinite(spacing).all():
        labels = replace(labels, spacing=tuple(float(step) for step in spacing))
    return replace(sample, labels=labels, groups={**sample.groups, **row})
