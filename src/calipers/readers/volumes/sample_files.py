# SPDX-License-Identifier: Apache-2.0
"""The files of one sample, and all samples of a study: headers checked, voxels read one sample at a
time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any, overload

import numpy as np

from calipers.readers.volumes.agreement import check_resize, resized
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
    # how maps were allowed to differ in shape when the headers were checked
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
            What the values of the labels mean: see `values.as_labels`.
        normalise
            How scores become numbers in [0, 1]: see `values.as_map`.
        resize
            How maps come to the shape of the labels; None: as it was said when the files were
            paired.

        Notes
        -----
        A model without a map gets one of zeros: it found nothing.
        """
        how = resize or self.resize
        check_resize(how)
        labels = as_labels(self.labels.read(), label_values, file=self.labels.file)
        maps = {model: self._map(volume, normalise, how) for model, volume in self.maps.items()}
        spacing = next(
            (v.spacing for v in (self.labels, *self._known()) if v.spacing is not None), None
        )
        image = None if self.image is None else self.image.read()
        return Sample(self.name, labels, maps, spacing, self.groups, image)

    def _known(self) -> Iterator[Volume]:
        """Yield the maps whose grid is that of the labels."""
        yield from (v for v in self.maps.values() if v is not None and v.shape == self.labels.shape)

    def _map(self, volume: Volume | None, normalise: str, how: str | None) -> Array:
        if volume is None:
            return np.zeros(self.labels.shape, np.float32)
        scores = as_map(volume.read(), normalise, file=volume.file)
        return scores if how is None else resized(scores, self.labels.shape, how)

    def files(self) -> tuple[Volume, ...]:
        """Return all volumes: labels, maps, image."""
        return tuple(v for v in (self.labels, *self.maps.values(), self.image) if v is not None)


@dataclass(frozen=True)
class Pairing(Sequence[SampleFiles]):
    """All samples, in the order of their names, and what was noted when their files were paired."""

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
        """Return the account of the files: one entry for all references, one for all maps of a
        model.

        ``number`` samples were used; ``notes`` are those of every model. The hash of an entry is
        that of the hashes of its files, by name.
        """
        sides: dict[str, list[Volume]] = {"references": [sample.labels for sample in self.samples]}
        for model in self.models:
            found = (sample.maps[model] for sample in self.samples)
            sides[f"predictions of {model}"] = [volume for volume in found if volume is not None]
        told = {
            "references": self.notes,
            **{f"predictions of {model}": tuple(notes[model]) for model in self.models},
        }
        left_out = {"tuning": len(self) - number} if number < len(self) else {}
        files = [
            _account(volumes, role, (len(self), number), left_out, told[role])
            for role, volumes in sides.items()
        ]
        return Intake((*files, *self.tables))

    def with_groups(self, table: str | PathLike[str], *, lenient: bool = False) -> Pairing:
        """Return the samples with the columns of a table that has a row per sample: patient,
        centre, any.

        The table is read as that of images is: csv, tsv or parquet with a column ``image``,
        ``image_id``, ``id`` or ``file_name`` that holds the names of the samples.
        """
        from calipers.readers.grouping import add_groups
        from calipers.readers.parts import ImageList, Options
        from calipers.readers.reading import read_groups_table
        from calipers.readers.source import open_source

        opened = open_source(fspath(table))
        n, d = len(self), self.samples[0].labels.dimensions if self.samples else 2
        size = np.array([s.labels.size for s in self.samples], np.float64).reshape(n, d)
        spacing = np.array(
            [s.labels.spacing or (np.nan,) * d for s in self.samples], np.float64
        ).reshape(n, d)
        images = ImageList([s.name for s in self.samples], size, spacing, {})
        images, intake = add_groups(
            images, read_groups_table(opened), opened, Options(lenient=lenient)
        )
        rows = [
            {name: column[k].item() for name, column in images.groups.items()} for k in range(n)
        ]
        samples = tuple(
            _grouped(s, row, images.spacing[k])
            for k, (s, row) in enumerate(zip(self.samples, rows))
        )
        return replace(
            self, samples=samples, notes=(*self.notes, *intake.notes), tables=(*self.tables, intake)
        )


def _account(
    volumes: Sequence[Volume],
    role: str,
    counts: tuple[int, int],
    left_out: Mapping[str, int],
    notes: Sequence[str],
) -> FileIntake:
    """Return the account of the files of one role."""
    names = [volume.file for volume in volumes]
    folder = (
        os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names])
        if names
        else "<none>"
    )
    hashes = "".join(f"{os.path.basename(volume.file)} {volume.sha256}\n" for volume in volumes)
    formats = ", ".join(sorted({volume.format for volume in volumes}))
    return FileIntake(
        file=folder,
        role=role,
        format=formats,
        read=counts[0],
        used=counts[1],
        quarantined=left_out,
        sha256=hashlib.sha256(hashes.encode("utf-8", "surrogateescape")).hexdigest(),
        bytes=sum(volume.bytes for volume in volumes),
        notes=tuple(notes),
    )


def _grouped(sample: SampleFiles, row: Mapping[str, Any], spacing: Any) -> SampleFiles:
    """Return a sample with its groups; a spacing that its files lack may come from the table."""
    labels = sample.labels
    if labels.spacing is None and np.isfinite(spacing).all():
        labels = replace(labels, spacing=tuple(float(step) for step in spacing))
    return replace(sample, labels=labels, groups={**sample.groups, **row})
