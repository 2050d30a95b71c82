# SPDX-License-Identifier: Apache-2.0
"""The files of one sample (`SampleFiles`) and of all samples (`Pairing`), and whether they agree.

`calipers.io.volumes.pairing.pair` makes them from `Volume` headers after `check_pair` compared
every map with its labels; `calipers.maps.evaluate` loads them, one sample at a time.

Labels and a map must lie on the same grid. `check_pair` compares shapes, then affines if both have
one, else spacings if both have them, and raises an `InputError` that names the difference and its
likely reason. Nothing is resampled unless the caller asks for it: with ``resize`` shapes may
differ, while the extent in space may not; with ``place`` maps may lie elsewhere, and are put on the
grid of their labels by the affines of both (`calipers.io.volumes.placing`).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from os import PathLike, fspath
from typing import Any, Literal, get_args, overload

import numpy as np

from calipers.arguments import names_methods
from calipers.arrays import F64, Array
from calipers.data.cohort import TUNING, FileIntake, Intake, Quarantined
from calipers.data.maps import Sample
from calipers.engine.leniency import SetAside
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.name_patterns import ClassFolders, class_folders, kinds_of_cases
from calipers.io.volumes.object_scores import PredictedLabels
from calipers.io.volumes.placing import is_on_grid, on_grid
from calipers.io.volumes.values import Meaning, as_labels, as_map, normalisations
from calipers.io.volumes.volume import TOLERANCE, Volume, axis_codes, corner_distance, shape_text

MOST_NAMED = 5  # folders or files in a note
Resize = Literal["nearest", "linear"]
# The letters of the two ends of each anatomical axis: a mirrored axis swaps them.
MIRRORED = {"L": "R", "R": "L", "P": "A", "A": "P", "I": "S", "S": "I"}


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
    # How maps on other grids are put on that of their labels; None: there are none.
    place: str | None = None

    def load(
        self,
        *,
        label_values: Meaning = "binary",
        normalise: str | Mapping[str, str] = "none",
        resize: str | None = None,
        predicted: PredictedLabels | None = None,
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
            paired. Maps on another grid are placed as chosen then.
        predicted
            What predictions mean if they are label volumes; None: they are maps of scores.

        Notes
        -----
        A model without a map gets one of zeros: it found nothing.
        """
        # The headers were checked under the rule of the pairing, so it holds unless the caller has
        # another.
        how = resize or self.resize
        check_resize(how)
        labels = as_labels(self.labels.read(), label_values, file=self.labels.file)
        normalise_of, maps = normalisations(normalise, self.maps), {}
        objects = {}
        for model, volume in self.maps.items():
            if predicted is None:
                maps[model] = self._map(volume, normalise_of[model], how)
                continue
            voxels, file = np.zeros(self.labels.shape, np.uint8), self.name
            if volume is not None:
                voxels, file = self._labels_on_grid(volume, how), volume.file
            maps[model], objects[model] = predicted.of(voxels, model, self.name, file)
        image = None if self.image is None else self.image.read()
        return Sample(self.name, labels, maps, self._spacing(), self.groups, image, objects)

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
        # Scores first: what a placed map does not reach is 0, whatever a logit of 0 would mean.
        scores = as_map(volume.read(), normalise, file=volume.file)
        if self._is_placed(volume):
            return on_grid(scores, volume, self.labels, self.place or "nearest")
        return scores if how is None else resize_map(scores, self.labels.shape, how)

    def _is_placed(self, volume: Volume) -> bool:
        return self.place is not None and not is_on_grid(volume, self.labels)

    def _labels_on_grid(self, volume: Volume, how: str | None) -> Array:
        if not self._is_placed(volume):
            return resize_labels(volume, self.labels.shape, how)
        if self.place != "nearest":
            raise UsageError(
                "label volumes are placed with nearest: values in between mean nothing"
            )
        return on_grid(volume.read(), volume, self.labels, "nearest")

    def files(self) -> tuple[Volume, ...]:
        """Return all volumes: labels, maps, image."""
        image = () if self.image is None else (self.image,)
        return (*self.evaluated_files(), *image)

    def evaluated_files(self) -> tuple[Volume, ...]:
        """Return the volumes of labels and maps."""
        return tuple(v for v in (self.labels, *self.maps.values()) if v is not None)


@names_methods
@dataclass(frozen=True)
class Pairing(Sequence[SampleFiles]):
    """All samples in the order of their names, and the notes of pairing their files."""

    samples: tuple[SampleFiles, ...]
    notes: tuple[str, ...] = ()
    tables: tuple[FileIntake, ...] = ()  # tables of groups
    # the choices by which the files were paired and opened, for the record of a run
    reading: Mapping[str, Any] = field(default_factory=dict)

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

    def intake(
        self,
        names: Sequence[str],
        notes: Mapping[str, Sequence[str]],
        aside: Sequence[SetAside] = (),
    ) -> Intake:
        """Return the account of the files: one entry for all references, one for all maps of each
        model.

        The samples ``names`` were used; ``notes`` are those of every model, and ``aside`` are the
        samples that were set aside, every file of which is a record. The hash of an entry is that
        of the names and hashes of its files.
        """
        # Samples that tuned a threshold are not evaluated; the account says where they went.
        used, lost, records = dict.fromkeys(names), {item.name: item for item in aside}, []
        rules = {}
        for sample in self.samples:
            if sample.name not in used:
                rules[sample.name] = TUNING
                if (item := lost.get(sample.name)) is not None:
                    rules[sample.name] = item.rule
                    records += [item.record(volume.file) for volume in sample.evaluated_files()]
        labels = {sample.name: sample.labels for sample in self.samples}
        files = [_account(labels, "references", rules, self.notes)]
        for model in self.models:
            maps = {}
            for sample in self.samples:
                if (volume := sample.maps[model]) is not None:
                    maps[sample.name] = volume
            account = _account(maps, f"predictions of {model}", rules, notes.get(model, ()))
            n_used = len(self.samples) - len(rules)
            files.append(replace(account, assumed_empty=n_used - account.used))
        return Intake((*files, *self.tables), tuple(Quarantined(*record) for record in records))

    def with_groups(self, table: str | PathLike[str], *, lenient: bool = False) -> Pairing:
        """Return the samples with the columns of a table of groups: patient, centre, any.

        The table has a row per sample: csv, tsv or parquet with a column ``image``, ``image_id``,
        ``id`` or ``file_name`` that holds the names of the samples.
        """
        # Tables of groups are rare beside maps: their readers are imported only when one is given.
        from calipers.io.reader import ImageList, Options
        from calipers.io.tables.objects import add_groups
        from calipers.io.tables.table import open_table

        n = len(self)
        dimensions = self.samples[0].labels.dimensions if self.samples else 2
        size = np.empty((n, dimensions), np.float64)
        spacing = np.full((n, dimensions), np.nan)
        for k, sample in enumerate(self.samples):
            size[k] = sample.labels.size
            if sample.labels.spacing is not None:
                spacing[k] = sample.labels.spacing
        # The table of groups is matched by the same code as for boxes, which knows images and not
        # samples.
        images = ImageList([sample.name for sample in self.samples], size, spacing, {})
        images, intake = add_groups(images, open_table(fspath(table)), Options(lenient=lenient))
        samples = []
        for k, sample in enumerate(self.samples):
            row = {name: column[k].item() for name, column in images.groups.items()}
            samples.append(_with_row(sample, row, images.spacing[k]))
        notes = (*self.notes, *intake.notes)
        return replace(self, samples=tuple(samples), notes=notes, tables=(*self.tables, intake))


def _account(
    volume_of: Mapping[str, Volume], role: str, rules: Mapping[str, str], notes: Sequence[str]
) -> FileIntake:
    """Return the account of the files of one role; ``rules`` says why samples were not used."""
    quarantined = Counter(rules[name] for name in volume_of if name in rules)
    volumes = list(volume_of.values())
    # One entry for a thousand files: their common folder, and a hash over names and hashes, so that
    # a renamed or exchanged file changes it.
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
        read=len(volumes),
        used=len(volumes) - quarantined.total(),
        quarantined=dict(quarantined),
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


def check_pair(
    reference: Volume, prediction: Volume, *, resize: str | None = None
) -> tuple[str, ...]:
    """Raise unless a prediction lies on the grid of its reference; return notes.

    Parameters
    ----------
    resize
        ``"nearest"`` or ``"linear"``: shapes may differ, the extent in space may not.

    Notes
    -----
    Affines agree if no corner of the two volumes is more than 1e-3 mm from its counterpart. If one
    of the two has no affine, the spacings are compared in the same way. A volume without either is
    assumed to lie on the grid of the other, and a note says so.
    """
    check_resize(resize)
    if len(reference.shape) != len(prediction.shape) or (
        reference.shape != prediction.shape and resize is None
    ):
        raise _shapes_differ(reference, prediction)
    # An affine says more than a spacing, so it alone decides where both have one.
    if reference.affine is not None and prediction.affine is not None:
        _check_affines(reference, prediction, reference.affine, prediction.affine)
        return ()
    if reference.spacing is not None and prediction.spacing is not None:
        _check_spacings(reference, prediction)
    if (reference.affine is None) != (prediction.affine is None):
        lacks = "the map" if prediction.affine is None else "the reference"
        return (f"{lacks} has no orientation and is assumed to lie on the grid of the other",)
    return ()


def are_of_one_image(folders: ClassFolders, volumes: Mapping[str, Volume]) -> bool | None:
    """Return whether the files of a case in several folders lie on one grid, as the classes of one
    image do; None if that tells nothing, because all pictures have the same size.
    """
    shapes: set[tuple[int, ...]] = set()
    is_spatial = False
    for case in set().union(*folders.cases.values()):
        names = [files[case] for files in folders.cases.values() if case in files]
        grids = [volumes[name] for name in names if name in volumes]
        try:
            for other in grids[1:]:
                check_pair(grids[0], other)
        except InputError:
            return False
        shapes.update(grid.shape for grid in grids)
        is_spatial |= any(grid.dimensions > 2 for grid in grids)
    return True if is_spatial or len(shapes) > 1 or any(folders.suffixes.values()) else None


def case_notes(volumes: Mapping[str, Volume]) -> list[str]:
    """Return notes on volumes of one case that are read as images of their own."""
    kinds = kinds_of_cases(volumes)
    if kinds:
        return [
            f"every case has several files ({_listed(kinds)}), and each is read as an image of its "
            "own: --reference-pattern and --pattern choose one kind of file"
        ]
    folders = class_folders(volumes)
    if folders is None or are_of_one_image(folders, volumes) is False:
        return []
    names = list(folders.cases)
    pattern = f"{folders.above}{names[0]}/{{name}}{folders.suffixes[names[0]]}"
    return [
        f"the folders {_listed(names)} have files of the same cases, and all are read as images of "
        "one class: if the folders are classes, evaluate one after the other, with "
        f"--reference-pattern and --pattern, such as '{pattern}'"
    ]


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def check_resize(resize: str | None) -> None:
    """Raise for an unknown way of resizing."""
    if resize is not None and resize not in get_args(Resize):
        raise UsageError(f"no way of resizing {resize!r}; {did_you_mean(resize, get_args(Resize))}")


def resize_map(array: Array, shape: tuple[int, ...], how: str) -> Array:
    """Return a map with another shape over the same extent.

    The voxels fill the extent, not their centres. ``"nearest"`` takes the voxel in which a new
    centre lies, ``"linear"`` interpolates between centres; beyond the outermost centres the values
    are those of the outermost voxels.
    """
    check_resize(how)
    if array.shape == shape:
        return array
    from scipy import ndimage

    # `grid_mode` maps the extents of the voxels onto each other; without it the centres of the
    # outermost voxels would be, which shifts the map by half a voxel.
    zoom = [new / old for new, old in zip(shape, array.shape)]
    values = array
    if array.dtype not in (np.float32, np.float64):
        values = array.astype(np.float32)
    order = 0 if how == "nearest" else 1
    result = ndimage.zoom(values, zoom, order=order, mode="nearest", grid_mode=True)
    # A check: zoom rounds a shape of its own, which has to be this one.
    return np.asarray(result).reshape(shape)


def resize_labels(volume: Volume, shape: tuple[int, ...], how: str | None) -> Array:
    """Return the voxels of a label volume with another shape over the same extent."""
    voxels = volume.read()
    if how is None or voxels.shape == shape:
        return voxels
    if how != "nearest":
        raise UsageError("label volumes are resized with nearest: values in between mean nothing")
    # Floats hold whole numbers exactly up to 2^53, which is more than any label.
    return resize_map(voxels.astype(np.float64), shape, how)


def _shapes_differ(reference: Volume, prediction: Volume) -> InputError:
    # The reference stands with the value: volumes with the same fault are counted as one kind.
    shapes = f"{shape_text(prediction.shape)} instead of {shape_text(reference.shape)}"
    return InputError(
        "the shape of its reference",
        rule="shape-mismatch",
        file=prediction.file,
        value=f"{shapes} ({reference.file})",
        hint=_shape_hint(reference.shape, prediction.shape),
    )


def _shape_hint(reference: tuple[int, ...], prediction: tuple[int, ...]) -> str:
    """Return the likely reason why an array ``[z, ]y, x`` has another shape."""
    long_axes = [n for n in prediction if n != 1]
    expected_long_axes = [n for n in reference if n != 1]
    if len(prediction) != len(reference) and long_axes == expected_long_axes:
        return "there is an axis of length one too many or too few: drop or add it before saving"
    if len(prediction) == len(reference) and prediction in permutations(reference):
        return "the axes look transposed: arrays are [z, y, x], with the x axis last"
    if len(prediction) == len(reference) + 1:
        if prediction[1:] == reference:
            return f"{prediction[0]} channels first? Save the one with the scores"
        if prediction[:-1] == reference:
            return f"{prediction[-1]} channels last? Save the one with the scores"
    if {len(prediction), len(reference)} == {2, 3}:
        return "one has two axes and the other has three"
    if len(prediction) != len(reference):
        return "one has more axes than the other: channels? Save the one with the scores"
    return (
        "to resample maps of the same extent to the shape of the labels: --resize nearest or "
        "linear (resize=)"
    )


def _check_affines(
    reference: Volume, prediction: Volume, reference_affine: F64, prediction_affine: F64
) -> None:
    distance = corner_distance(reference_affine, prediction_affine, reference.size, prediction.size)
    if distance <= TOLERANCE:
        return
    codes = (
        axis_codes(reference_affine, reference.dimensions),
        axis_codes(prediction_affine, prediction.dimensions),
    )
    raise InputError(
        f"the place of its reference, axes {codes[0]}",
        rule="affine",
        file=prediction.file,
        value=f"axes {codes[1]}, corners up to {distance:.3g} mm apart ({reference.file})",
        hint=_affine_hint(reference_affine, prediction_affine, codes),
    )


def _affine_hint(reference: F64, prediction: F64, codes: tuple[str, str]) -> str:
    # Mirrored and permuted axes are named first: they are the usual mistakes, and the gravest.
    if codes[0] != codes[1]:
        remedy = "save the prediction with the affine and voxel order of its image"
        if all(a == b or MIRRORED[a] == b for a, b in zip(*codes)):
            axes = [axis for axis, a, b in zip("xyz", *codes) if MIRRORED[a] == b]
            return f"mirrored along {', '.join(axes)}: {remedy}"
        return f"axes are permuted: {remedy}"
    steps = np.linalg.norm(reference[:3, :3], axis=0), np.linalg.norm(prediction[:3, :3], axis=0)
    if not np.allclose(*steps, rtol=1e-5):
        return f"spacings differ: {_in_mm(steps[0])} and {_in_mm(steps[1])} mm"
    if np.allclose(reference[:3, :3], prediction[:3, :3], rtol=0, atol=1e-6):
        return "only the origins differ: was the prediction cropped, or saved without its affine?"
    return "save the prediction with the affine of its image, or resample it there first"


def _in_mm(steps: F64) -> str:
    return " x ".join(f"{step:.6g}" for step in steps)


def _check_spacings(reference: Volume, prediction: Volume) -> None:
    reference_spacing, prediction_spacing = reference.spacing or (), prediction.spacing or ()
    distance = math.dist(
        [n * step for n, step in zip(reference.size, reference_spacing)],
        [n * step for n, step in zip(prediction.size, prediction_spacing)],
    )
    if distance > TOLERANCE:
        raise InputError(
            f"the extent of its reference, spacing {_in_mm(np.array(reference_spacing))} mm",
            rule="spacing",
            file=prediction.file,
            value=f"spacing {_in_mm(np.array(prediction_spacing))} mm ({reference.file})",
            hint="save the prediction with the spacing of its image",
        )
