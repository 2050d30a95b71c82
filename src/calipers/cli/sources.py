# SPDX-License-Identifier: Apache-2.0
"""What `compare` and `multiverse` work on: files of boxes, folders of volumes, saved results.

REFS and PREDS are files that `calipers.read` reads; or folders with a label volume per sample and
predicted labels or score maps; or the folders that ``evaluate -o`` and ``maps -o`` wrote, which
have references and predictions inside. `source_of` tells which, and `ModelSource.cohort` reads
them: predicted labels as ``calipers evaluate`` does, unless the protocol has metrics on voxels, and
score maps as ``calipers maps`` does. Several saved folders are joined if they hold the same
references.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calipers.cli.options import named_files, reading_arguments
from calipers.errors import InputError, UsageError

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort
    from calipers.evaluation.protocol import Protocol
    from calipers.io.saved.folder import StoredFolder
    from calipers.io.source import Progress

MOST_NAMES = 1000  # of a folder: enough to see what is in it
MOST_OPENED = 10  # files of a folder, to see what their values are
# Options of reading that maps of scores have, too.
OF_MAPS = (
    "groups",
    "labels",
    "pattern",
    "reference_pattern",
    "missing_volumes",
    "segment",
    "place",
)
SCORES_HINT = (
    "this verb does not normalise scores: calipers maps REFS PREDS... --normalise NAME -o FOLDER "
    "does, and takes all models; give FOLDER here"
)
ANNOTATIONS = (".txt", ".xml", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class ModelSource:
    """Where references and predictions are, and the protocol that suits them."""

    kind: Literal["boxes", "labels", "maps", "saved"]
    references: str
    files: Mapping[str, str]  # of the models, or the saved folders
    stored: tuple[StoredFolder, ...] = ()

    @property
    def protocol(self) -> Protocol | str:
        """The protocol that is used unless another is chosen: that of a saved result is its own."""
        if self.kind == "saved":
            from calipers.evaluation.protocol import Protocol

            first = self.stored[0]
            return Protocol.from_dict(first.document["protocol"], file=first.file)
        return "anomaly" if self.kind == "maps" else "coco"

    @property
    def inputs(self) -> tuple[str, ...]:
        """All paths, which no output may replace."""
        paths = self.files.values()
        return tuple(paths) if self.kind == "saved" else (self.references, *paths)

    def cohort(self, protocol: Protocol, options: dict[str, Any]) -> Cohort:
        """Return the cohort with all models, of which there have to be two or more."""
        if self.kind == "saved":
            _refuse_options(options, (), "saved results, which are not read again")
            cohort = _joined(self.files, self.stored)
        elif self.kind == "maps" or (self.kind == "labels" and _is_on_voxels(protocol)):
            from calipers.io.volumes.pairing import read_maps
            from calipers.maps.evaluate import evaluate_maps

            _refuse_options(options, OF_MAPS, "folders of score maps")
            samples = read_maps(
                self.references,
                self.files,
                groups=options["groups"],
                pattern=options["pattern"],
                reference_pattern=options["reference_pattern"],
                missing=options["missing_volumes"],
                segment=options["segment"],
                place=options["place"],
            )
            labels = "binary" if options["labels"] == "classes" else options["labels"]
            try:
                cohort = evaluate_maps(samples, protocol, labels=labels, ci=False).cohort
            except InputError as error:
                raise error.with_hint("score-range", SCORES_HINT) from None
        else:
            from calipers.io.read import read

            reading = reading_arguments(options, each_reader=True)
            cohort = read(self.references, self.files, **reading)
        if len(cohort.models) < 2:
            raise _too_few(len(cohort.models))
        return cohort


def source_of(
    references: str,
    predictions: Sequence[str],
    readers: str | None = None,
    progress: Progress | None = None,
) -> ModelSource:
    """Return what the arguments of a verb are; predictions of one model can be compared with
    ``readers`` only, if each of them is the reference in turn. ``progress`` is called while saved
    results are read.
    """
    folders = named_files((references, *predictions))
    saved = [path for path in folders.values() if is_saved(path)]
    if len(saved) == len(folders):
        from calipers.io.saved.folder import read_folder

        stored = tuple(read_folder(Path(path), progress) for path in folders.values())
        return ModelSource("saved", references, folders, stored)
    if saved:
        raise UsageError(
            f"{saved[0]} is a saved result, which has references and predictions inside: give "
            "saved results only, or none"
        )
    files = named_files(predictions)
    if len(files) < (1 if readers == "each" else 2):
        raise _too_few(len(files))
    both = [references, *files.values()]
    if all(holds_volumes(path) for path in both):
        is_labelled = all(_holds_labels(path) for path in files.values())
        return ModelSource("labels" if is_labelled else "maps", references, files)
    return ModelSource("boxes", references, files)


def _holds_labels(path: str) -> bool:
    """Return whether the first files of a folder hold labels, not scores."""
    from calipers.doctor.volumes.volume_folders import file_facts
    from calipers.io.volumes.open import open_volume
    from calipers.io.volumes.pairing import list_samples

    for file in list(list_samples(Path(path), "predictions").files.values())[:MOST_OPENED]:
        try:
            volume = open_volume(file)
            facts = file_facts(volume, volume.read())
        except InputError:
            # Several channels, for one. Whoever reads the file says what is wrong with it.
            return False
        # A file without any finding tells nothing.
        if facts.high > 0:
            return facts.labelled
    return True


def _is_on_voxels(protocol: Protocol) -> bool:
    """Return whether a protocol has metrics that only maps have."""
    from calipers.metrics.maps import MapMetric

    return any(isinstance(metric, MapMetric) for metric in protocol.compile())


def _refuse_options(options: dict[str, Any], understood: Sequence[str], inputs: str) -> None:
    """Raise for options of reading that mean nothing for these inputs, instead of ignoring them."""
    from calipers.doctor.remedies import DEFAULTS

    arguments = reading_arguments(options, each_reader=True)
    for name, default in {"groups": None, **DEFAULTS}.items():
        if name not in understood and arguments[name] != default:
            raise UsageError(f"--{name.replace('_', '-')} is not for {inputs}")


def is_saved(path: str) -> bool:
    """Return whether a folder was written by ``calipers evaluate -o`` or ``calipers maps -o``."""
    from calipers.io.saved.folder import EVALUATION, RUN

    return all(os.path.isfile(os.path.join(path, name)) for name in (EVALUATION, RUN))


def holds_volumes(path: str) -> bool:
    """Return whether a folder holds volumes or pictures, and no annotations."""
    from calipers.io.volumes.open import stem_of

    if not os.path.isdir(path):
        return False
    names = sorted(os.listdir(path))[:MOST_NAMES]
    if any(name.lower().endswith(ANNOTATIONS) for name in names):
        return False
    return any(stem_of(name) for name in names)


def _too_few(number: int) -> UsageError:
    models = "only one model" if number else "no predictions"
    return UsageError(
        f"there is {models} here: models are compared with each other, so give the predictions of "
        "two or more models, or a saved result that has them; use calipers evaluate for one"
    )


def _joined(folders: Mapping[str, str], stored: Sequence[StoredFolder]) -> Cohort:
    """Return one cohort with the models of all saved results, whose references have to agree."""
    first = stored[0].cohort
    if len(stored) == 1:
        return first
    models: dict[str, Any] = {}
    for (folder, path), result in zip(folders.items(), stored):
        cohort = result.cohort
        if not _same_references(first, cohort):
            raise InputError(
                f"the images and references of {stored[0].file}",
                rule="other-references",
                file=path,
                hint="results are compared on the same references: evaluate both against one file",
            )
        if cohort.maps:
            raise UsageError(
                f"{path} is a result on maps: give all models to one calipers maps -o, and compare "
                "that folder"
            )
        for model, predictions in cohort.models.items():
            # A folder with one model is named by it, or by the folder if that name is taken.
            name = folder if len(cohort.models) == 1 and model in models else model
            if name in models:
                raise UsageError(
                    f"two models are called {name!r}; evaluate them under different names"
                )
            models[name] = predictions
    return replace(first, models=models)


def _same_references(a: Cohort, b: Cohort) -> bool:
    if a.images.ids != b.images.ids or a.classes != b.classes:
        return False
    pairs = (
        (a.references.boxes, b.references.boxes),
        (a.references.label, b.references.label),
        (a.references.offsets, b.references.offsets),
        (a.references.ignore, b.references.ignore),
    )
    return all(np.array_equal(one, other) for one, other in pairs)
