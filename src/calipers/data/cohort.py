# SPDX-License-Identifier: Apache-2.0
"""The cohort: images with groups, references, predictions of one or more models, and the intake.

`calipers.read` and `Cohort.from_arrays` make a `Cohort`, every evaluation takes one. Its `Intake`
is the account of the inputs: per file the records read, used and set aside, hashes and notes. All
tables are frozen; methods return new ones. `span` copies nothing, which is how work is cut into
blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_fields
from calipers.arrays import F64, I64, Column, joined
from calipers.data.group_columns import group_column, is_group_column, joined_group_columns
from calipers.data.masks import check_array
from calipers.data.objects import (
    Objects,
    Predictions,
    References,
    check_span,
    image_indices,
)
from calipers.errors import InputError, UsageError, did_you_mean, several, shown, spelled, word
from calipers.results.document import cohort_html

if TYPE_CHECKING:
    from calipers.data.maps import Maps

# Where every reader is the reference in turn: the readers as a model, and the column that says
# which image the copies of an image are of. See `calipers.io.consensus`.
OTHERS = "other readers"
ORIGINAL = "original image"
MOST_CLASSES = 4096  # more are a column of ids, and each of them has rows of its own
# `Cohort.group` accepts this name in every cohort, so no column may have it.
UNIT = "image"
SAME_SPACING = 1e-3  # relative: 0.703 mm in one file and 0.703125 mm in the other are the same


@names_fields
@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Everything an evaluation needs; the readers have validated it.

    Build one with `calipers.read` or `Cohort.from_arrays`. The display order of models is their
    insertion order.
    """

    images: Images
    classes: tuple[str, ...]
    references: References
    models: Mapping[str, Predictions]
    intake: Intake
    # model -> evidence from its score maps; empty for a cohort of boxes
    maps: Mapping[str, Maps] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_classes(self.classes)
        for name in ("size", "spacing"):
            shape = (self.n_images, self.dimensions)
            check_array("images", name, getattr(self.images, name), np.float64, shape)
        _check_table(self, "references", self.references)
        for name, predictions in self.models.items():
            if not isinstance(predictions, Predictions):
                raise UsageError(f"the model {name!r} has predictions, not {shown(predictions)}")
            _check_table(self, f"predictions of {name!r}", predictions)
        for name, evidence in self.maps.items():
            if not hasattr(evidence, "histograms"):  # `Maps`, which boxes do not load
                raise UsageError(f"the model {name!r} has evidence of maps, not {shown(evidence)}")
            if evidence.n_images != self.n_images:
                raise InputError(
                    f"maps of {self.n_images} images",
                    rule="length",
                    location=f"maps of {name!r}",
                    value=evidence.n_images,
                )

    def __repr__(self) -> str:
        models = ", ".join(f"{name} ({len(table)})" for name, table in self.models.items())
        counts = f"{self.n_images} images, {len(self.references)} references"
        size = f"{counts}, {len(self.classes)} classes"
        return f"<Cohort: {size}; predictions of {models}>" if models else f"<Cohort: {size}>"

    def _repr_html_(self) -> str:
        return cohort_html(self)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.images)

    @property
    def dimensions(self) -> int:
        """2 for pictures, 3 for volumes."""
        return self.references.dimensions

    def predictions(self, model: str) -> Predictions:
        """Return the predictions of one model; an unknown name is an error."""
        # A list or number would raise deep inside of a dictionary lookup.
        if word("the model", model) not in self.models:
            raise UsageError(
                f"no model {model!r} in this cohort; {did_you_mean(model, self.models)}"
            )
        return self.models[model]

    def model_named(self, model: str | None) -> str:
        """Return the name of a model of this cohort; None stands for the only model."""
        if not self.models:
            raise InputError(
                "at least one model",
                rule="no-predictions",
                hint="give predictions to read or from_arrays",
            )
        if model is None:
            if len(self.models) != 1:
                raise UsageError(f"several models: say which, one of {', '.join(self.models)}")
            return next(iter(self.models))
        self.predictions(model)
        return model

    def group(self, name: str) -> Column:
        """Return an image-level column such as ``patient``."""
        return self.images.group(name)

    def take(self, images: NDArray[Any]) -> Cohort:
        """Return the cohort of the images ``images``, in that order.

        Images are chosen by index or by one flag per image.
        """
        rows = image_indices(images, self.n_images)
        models = {name: predictions.take(rows) for name, predictions in self.models.items()}
        maps = {name: evidence.take(rows) for name, evidence in self.maps.items()}
        return replace(
            self,
            images=self.images.take(rows),
            references=self.references.take(rows),
            models=models,
            maps=maps,
        )

    def span(self, start: int, stop: int) -> Cohort:
        """Return the cohort of the images ``start:stop`` without copying: one block of work."""
        models = {name: table.span(start, stop) for name, table in self.models.items()}
        maps = {name: evidence.span(start, stop) for name, evidence in self.maps.items()}
        return replace(
            self,
            images=self.images.span(start, stop),
            references=self.references.span(start, stop),
            models=models,
            maps=maps,
        )

    def with_predictions(self, model: str, predictions: Predictions) -> Cohort:
        """Return the cohort with one more model (or the model replaced)."""
        if not isinstance(predictions, Predictions):
            raise UsageError(
                f"predictions are a table such as cohort.predictions(name) returns, "
                f"not {shown(predictions)}"
            )
        if predictions.n_images != self.n_images:
            raise UsageError(
                f"{model!r} has {predictions.n_images} images, the cohort has {self.n_images}"
            )
        return replace(self, models={**self.models, model: predictions})

    def with_groups(self, groups: Mapping[str, Column]) -> Cohort:
        """Return the cohort with further image-level columns, one entry per image."""
        if not isinstance(groups, Mapping):
            raise UsageError(f"groups are columns by their names, not {shown(groups)}")
        for name, column in groups.items():
            several(f"group {name!r}", column)
            if word("the group", name) == UNIT:
                raise UsageError(f"no group may be called {UNIT!r}: that is the image itself")
            if len(column) != self.n_images:
                raise UsageError(
                    f"group {name!r} has {len(column)} entries, "
                    f"the cohort has {self.n_images} images"
                )
        columns = {}
        for name, column in groups.items():
            columns[name] = group_column(column, "groups", name)
        return replace(self, images=replace(self.images, groups={**self.images.groups, **columns}))

    @classmethod
    def concat(cls, parts: Sequence[Cohort]) -> Cohort:
        """Return the cohort of all images of several cohorts with the same classes and models.

        Group columns and maps that some of the cohorts lack are left out.
        """
        if not several("concat", parts) or not all(isinstance(part, cls) for part in parts):
            raise UsageError(f"concat joins a list of one or more cohorts, not {shown(parts)}")
        first = parts[0]
        for part in parts[1:]:
            _check_same_kind(first, part)
        models = {}
        for name in first.models:
            models[name] = Predictions.concat([part.models[name] for part in parts])
        # Evidence of some of the images would pass for that of all.
        maps = {}
        for name in first.maps:
            if all(name in part.maps for part in parts):
                maps[name] = first.maps[name].concat([part.maps[name] for part in parts])
        return cls(
            images=_concat_images([part.images for part in parts]),
            classes=first.classes,
            references=References.concat([part.references for part in parts]),
            models=models,
            intake=first.intake.merge([part.intake for part in parts[1:]]),
            maps=maps,
        )

    @classmethod
    def from_arrays(
        cls,
        references: Sequence[Mapping[str, Any]],
        predictions: Sequence[Mapping[str, Any]]
        | Mapping[str, Sequence[Mapping[str, Any]]]
        | None = None,
        *,
        classes: Sequence[str],
        box_format: str = "xyxy",
        score_scale: str = "unit",
    ) -> Cohort:
        """Build a cohort from arrays in memory.

        Parameters
        ----------
        references
            One mapping per image: ``boxes`` (n, 4) or (n, 6), ``labels`` (n,) index into
            ``classes``; optional ``image_id``, ``ignore``, ``crowd``, ``area``, ``width``,
            ``height``, ``depth``, ``spacing``, ``patient``, ``centre``; any other scalar is a
            further group column. An ``area`` of NaN is not declared. ``masks`` (n, height, width),
            in 3D (n, depth, height, width), of 0 and 1, or a `calipers.data.masks.Masks`, for
            criteria such as ``mask-iou``; boxes may then be left out. ``points`` (n, d) as x, y[,
            z] are where the objects are; without them that is the centre of a box.
        predictions
            One mapping per image with ``boxes``, ``labels``, ``scores``, and ``masks`` and
            ``points`` as above; or ``{"model": list, ...}``; or None. Paired with the references by
            ``image_id`` if present, else by position.
        classes
            Names of all declared classes, including those that no object has.
        box_format
            One of `calipers.data.objects.BOX_FORMATS`.
        score_scale
            ``"unit"``: scores outside [0, 1] are an error. ``"raw"``: any finite score.

        Examples
        --------
        >>> import calipers as cal
        >>> cohort = cal.Cohort.from_arrays(
        ...     [{"boxes": [[10, 10, 30, 40]], "labels": [0], "patient": "p1"}],
        ...     [{"boxes": [[12, 10, 30, 40]], "labels": [0], "scores": [0.9]}],
        ...     classes=("nodule",),
        ... )
        >>> cohort.n_images, len(cohort.references), list(cohort.models)
        (1, 1, ['model'])
        """
        from calipers.data.from_arrays import cohort_from_arrays

        names = tuple(several("classes", classes))
        return cohort_from_arrays(references, predictions, names, box_format, score_scale)


@names_fields
@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images of a cohort and every column that describes an image."""

    ids: tuple[str, ...]
    size: F64  # (n, 2|3) pixels as width, height[, depth]; NaN = unknown
    spacing: F64  # (n, 2|3) mm per pixel; NaN = unknown
    groups: Mapping[str, Column]  # patient, centre, any image-level column

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in ("size", "spacing"):
            check_array("images", name, getattr(self, name), np.float64, (n, None))
        # Lists and arrays of objects hold anything. Parts of a cohort are made of its own columns.
        if not all(is_group_column(column) for column in self.groups.values()):
            columns = {}
            for name, column in self.groups.items():
                columns[name] = group_column(column, "images", name)
            object.__setattr__(self, "groups", columns)
        for name, column in self.groups.items():
            if np.ndim(column) != 1 or len(column) != n:
                raise InputError(
                    f"{n} entries, one per image",
                    rule="length",
                    location="images",
                    field=name,
                    value=np.shape(column),
                )

    def __len__(self) -> int:
        return len(self.ids)

    def group(self, name: str) -> Column:
        """Return a column such as ``patient``; ``image`` numbers the images."""
        if word("the group", name) == UNIT:
            return np.arange(len(self))
        name = spelled(name, self.groups)
        if name not in self.groups:
            raise UsageError(
                f"no group column {name!r}; {did_you_mean(name, [UNIT, *self.groups])}"
            )
        return self.groups[name]

    def take(self, images: I64) -> Images:
        """Return the images ``images``, in that order."""
        images = image_indices(images, len(self))
        groups = {name: column[images] for name, column in self.groups.items()}
        ids = tuple(self.ids[i] for i in images.tolist())
        return Images(ids, self.size[images], self.spacing[images], groups)

    def span(self, start: int, stop: int) -> Images:
        """Return the images ``start:stop`` without copying the columns."""
        check_span(start, stop, len(self))
        part = slice(start, stop)
        groups = {name: column[part] for name, column in self.groups.items()}
        return Images(self.ids[part], self.size[part], self.spacing[part], groups)


TUNING = "tuning"  # why a sample is not evaluated that chose a threshold


@names_fields
@dataclass(frozen=True, slots=True)
class Intake:
    """The accounts of all inputs of a cohort."""

    files: tuple[FileIntake, ...] = ()
    quarantine: tuple[Quarantined, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the readers, in file order."""
        return tuple(note for file in self.files for note in file.notes)

    @property
    def quarantined(self) -> int:
        """How many records were set aside, over all files."""
        total = 0
        for file in self.files:
            total += sum(file.quarantined.values())
        return total

    @property
    def n_broken(self) -> int:
        """How many records `quarantine` names: samples that chose a threshold are set aside, but
        nothing is wrong with them.
        """
        return self.quarantined - sum(file.quarantined.get(TUNING, 0) for file in self.files)

    def with_reading(self, choices: Mapping[str, Any]) -> Intake:
        """Return the accounts with the choices by which references and models were read; a choice
        by model is that of its own file.
        """
        files = []
        for file in self.files:
            own_choices = dict(choices)
            for name, value in choices.items():
                if isinstance(value, Mapping):
                    own_choices[name] = value.get(file.role.removeprefix("predictions of "))
            is_object_file = file.role.startswith(("references", "predictions of "))
            files.append(replace(file, reading=own_choices if is_object_file else {}))
        return replace(self, files=tuple(files))

    def merge(self, others: Sequence[Intake]) -> Intake:
        """Return the account of this cohort and others together."""
        files = list(self.files)
        quarantine = list(self.quarantine)
        for other in others:
            files += other.files
            quarantine += other.quarantine
        return Intake(tuple(files), tuple(quarantine))


@dataclass(frozen=True, slots=True)
class FileIntake:
    """The account of one input: ``read == used + sum(quarantined)`` always holds."""

    file: str
    role: str  # references | predictions of a model | groups
    format: str
    read: int
    used: int
    quarantined: Mapping[str, int] = field(default_factory=dict)  # rule -> records
    sha256: str = ""
    bytes: int = 0
    notes: tuple[str, ...] = ()
    # samples without a map of the model, which count as empty; None where no file can be missing
    assumed_empty: int | None = None
    # the choices by which it was read, defaults included, such as the box format; plain JSON values
    reading: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A bug of a reader, never a fault of the input: no record may be lost without a word.
        if self.read != self.used + sum(self.quarantined.values()):
            raise AssertionError(
                f"{self.file}: {self.read} records read, {self.used} used: the counts do not add up"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the account for JSON output."""
        assumed = {} if self.assumed_empty is None else {"assumed_empty": self.assumed_empty}
        return {
            "file": self.file,
            "role": self.role,
            "format": self.format,
            "sha256": self.sha256,
            "bytes": self.bytes,
            "read": self.read,
            "used": self.used,
            **assumed,
            "quarantined": dict(self.quarantined),
            "notes": list(self.notes),
            **({"reading": dict(self.reading)} if self.reading else {}),
        }


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One record that was set aside in lenient mode."""

    file: str
    location: str
    rule: str
    record: str  # the original text, at most 2 kB


def _check_classes(classes: Any) -> None:
    """Raise unless the classes are different texts."""
    if not isinstance(classes, tuple) or not all(isinstance(name, str) for name in classes):
        raise UsageError(f"classes are a tuple of names, not {shown(classes)}")
    if len(classes) > MOST_CLASSES:
        raise InputError(
            f"at most {MOST_CLASSES:,} classes",
            rule="too-large",
            field="classes",
            value=len(classes),
            hint="every class has its own rows, so the limit is fixed: leave out those that no "
            "object has, merge some, or evaluate the files in parts of fewer classes",
        )
    if len(set(classes)) < len(classes):
        # Found only when needed: this is asked for every block of images.
        repeated = Counter(classes).most_common(1)[0][0]
        raise UsageError(f"two classes are called {repeated!r}")


def _check_table(cohort: Cohort, where: str, objects: Objects) -> None:
    """Raise unless a table of objects fits the images and the classes of the cohort."""
    n_classes = len(cohort.classes)
    if objects.n_images != cohort.n_images:
        raise InputError(
            f"objects of {cohort.n_images} images",
            rule="length",
            location=where,
            value=objects.n_images,
        )
    if objects.dimensions != cohort.dimensions:
        raise InputError(
            f"{cohort.dimensions}D objects, as the references are",
            rule="box-shape",
            location=where,
            value=f"{objects.dimensions}D objects",
        )
    # The table itself has seen to it that no label is negative.
    highest = int(objects.label.max(initial=0))
    if len(objects) and highest >= n_classes:
        raise InputError(
            f"labels from 0 to {n_classes - 1}, an index into the {n_classes} classes",
            rule="label-range",
            location=where,
            field="label",
            value=highest,
            hint="the table was made for other classes: give every table the classes of the cohort",
        )


def _check_same_kind(first: Cohort, other: Cohort) -> None:
    """Raise unless two cohorts have the same classes, models and dimensions."""
    if other.classes != first.classes:
        raise UsageError(f"cohorts differ in their classes: {first.classes} and {other.classes}")
    if list(other.models) != list(first.models):
        raise UsageError(
            f"cohorts differ in their models: {list(first.models)} and {list(other.models)}"
        )
    if other.dimensions != first.dimensions:
        raise UsageError("2D and 3D cohorts cannot be joined")


def _concat_images(parts: Sequence[Images]) -> Images:
    """Return the images of several cohorts, with the group columns that all of them have."""
    ids: list[str] = []
    for part in parts:
        ids += part.ids
    if len(set(ids)) < len(ids):
        # Found only when needed: cohorts may have a million images.
        repeated = Counter(ids).most_common(1)[0][0]
        raise UsageError(f"image {repeated!r} is in more than one cohort")
    groups = {}
    for name in parts[0].groups:
        if all(name in part.groups for part in parts):
            columns = [part.groups[name] for part in parts]
            groups[name] = joined_group_columns(columns, name)
    return Images(
        ids=tuple(ids),
        size=joined(parts, "size"),
        spacing=joined(parts, "spacing"),
        groups=groups,
    )
