# SPDX-License-Identifier: Apache-2.0
"""The data of the study of polyps: an archive of trained detectors, or the user's own centres.

`study_data` returns `PolypData`: one cohort whose models are the ensembles (or the user's models),
the members that they were fused from, and what is known about the frames. Without ``--data`` it is
the archive that ships (`archive`), that of ``--keep DIR``, or with ``--train`` a new one.

With ``--data`` it is a file of references in any format that `calipers.read` knows, with
``--predictions NAME=FILE`` for every model; or a folder with

- ``references.*``: the references, with masks if they have any;
- ``predictions``: a folder with a file per model;
- ``groups.csv``, if the references do not say it themselves: a row per frame with the columns
  ``centre``, ``patient``, ``type``, as far as they are known;
- ``ratings.csv``, if there are any: who found which prediction of the first model useful, as
  ``calipers agreement REFS PREDS RATINGS`` takes it.

The first model is the one that figures 2 to 7 are about, the others are the complementary ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError
from calipers.fusion.fuse import fuse
from calipers.io.read import read
from calipers.io.source import hash_file
from calipers.studies.framework import StudyOptions
from calipers.studies.kept_archives import kept_archive
from calipers.studies.polyps.archive import PolypArchive, open_archive, shipped_archive
from calipers.studies.steps import Progress

RECIPE = "endocv2022"
ARCHIVE = "polyps.npz"
REFERENCES, PREDICTIONS, GROUPS, RATINGS = "references", "predictions", "groups.csv", "ratings.csv"
QUICK_EVERY = 4  # patients of a quick run: every fourth


@dataclass(frozen=True)
class PolypData:
    """References and models, with what is known about the frames."""

    cohort: Cohort
    members: Cohort | None  # the networks before fusion, by "ensemble/member"
    source: str  # one sentence
    is_drawn: bool  # by Calipers, not the user's own
    training: Sequence[Mapping[str, Any]]  # a record per network
    ratings: Path | None
    inputs: tuple[Mapping[str, Any], ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The models; the first is the main one."""
        return tuple(self.cohort.models)

    def has(self, column: str) -> bool:
        """Return whether the frames have a column."""
        return column in self.cohort.images.groups

    @property
    def has_masks(self) -> bool:
        """Whether the references have masks."""
        return self.cohort.references.masks is not None


def study_data(options: StudyOptions, progress: Progress) -> PolypData:
    """Return the data of a run."""
    if options.data is not None:
        if options.train or options.keep:
            raise UsageError(
                "--train and --keep belong to drawn frames: leave them out, or leave out --data"
            )
        return _own_data(Path(options.data), options.predictions)
    if options.predictions:
        raise UsageError("--predictions need --data with the references that they belong to")
    return archive_data(_archive(options, progress), quick=options.quick and not options.train)


def _archive(options: StudyOptions, progress: Progress) -> PolypArchive:
    if options.train:
        from calipers.studies.polyps.detectors import train_detectors

        if options.keep is None:
            raise UsageError(
                "--train needs --keep DIR: training takes ten minutes of a core, and continues "
                "from there if it is stopped"
            )
        folder = Path(options.keep)
        return train_detectors(folder, seed=options.seed, quick=options.quick, progress=progress)
    if options.keep is not None:
        return open_archive(kept_archive(options.keep, ARCHIVE, "polyps"))
    return shipped_archive()


def archive_data(archive: PolypArchive, *, quick: bool = False) -> PolypData:
    """Return the ensembles of an archive, fused by the recipe of EndoCV 2022."""
    members = archive.cohort
    # Frames of one patient stand for a sequence in the metrics of challenges that need one.
    members = members.with_groups({"sequence": members.group("patient")})
    if quick:
        members = _every_patient(members, QUICK_EVERY)
    cohort = members
    for name, own in archive.members.items():
        cohort = fuse(cohort, RECIPE, members=own, name=name)
    cohort = replace(cohort, models={name: cohort.models[name] for name in archive.members})
    facts = archive.facts
    n_networks = sum(map(len, archive.members.values()))
    source = (
        f"{cohort.n_images} drawn colonoscopy frames of six centres with the numbers, prevalence "
        f"and polyp sizes of PolypGen, and {n_networks} trained networks in "
        f"{len(archive.members)} ensembles."
    )
    return PolypData(
        cohort=cohort,
        members=members,
        source=source,
        is_drawn=True,
        training=tuple(facts["models"]),
        ratings=None,
        inputs=({"file": ARCHIVE, "bytes": archive.n_bytes, "sha256": archive.sha256},),
        settings={
            "trained by": facts["command"],
            "seed of frames and networks": facts["seed"],
            "scores kept from": facts["lowest score"],
            "boxes kept per frame": facts["most boxes per frame"],
            "fusion": RECIPE,
        },
    )


def _every_patient(cohort: Cohort, step: int) -> Cohort:
    """Return the frames of every so-many-th patient, so that all centres stay."""
    names = cohort.group("patient")
    number = {name: k for k, name in enumerate(dict.fromkeys(names.tolist()))}
    return cohort.take(np.array([number[name] % step == 0 for name in names.tolist()]))


def _own_data(path: Path, predictions: Mapping[str, str]) -> PolypData:
    """Return the user's references and models."""
    references, groups, ratings = path, None, None
    models = dict(predictions)
    if not path.exists():
        raise InputError(
            "a file of references, or a folder with references.json and a folder predictions",
            rule="not-found",
            file=str(path),
        )
    if path.is_dir() and (path / PREDICTIONS).is_dir():
        references = _references_of(path)
        for file in sorted((path / PREDICTIONS).iterdir()):
            if not file.name.startswith("."):
                models.setdefault(file.stem, str(file))
        groups = path / GROUPS if (path / GROUPS).exists() else None
        ratings = path / RATINGS if (path / RATINGS).exists() else None
    if not models:
        raise UsageError(
            f"{path} comes without predictions: give --predictions NAME=FILE, or a folder with "
            f"{REFERENCES}.json and a folder {PREDICTIONS}"
        )
    cohort = read(references, models, groups=groups)
    cohort, notes = _known_columns(cohort)
    if not len(cohort.references):
        raise InputError("at least one reference", rule="no-references", file=str(references))
    files = [references, *map(Path, models.values()), *filter(None, (groups, ratings))]
    inputs = []
    for file in files:
        if file.is_file():
            size = file.stat().st_size
            inputs.append({"file": str(file), "bytes": size, "sha256": hash_file(file)})
    return PolypData(
        cohort=cohort,
        members=None,
        source=f"{cohort.n_images} images of {path}, with predictions of {', '.join(models)}.",
        is_drawn=False,
        training=(),
        ratings=ratings,
        inputs=tuple(inputs),
        settings={"data": str(path), "models": list(models)},
        notes=tuple(notes),
    )


def _references_of(folder: Path) -> Path:
    files = [file for file in sorted(folder.iterdir()) if file.stem == REFERENCES]
    if len(files) != 1:
        raise InputError(
            "one file references.json (or .csv, .parquet)",
            rule="not-found" if not files else "choice",
            file=str(folder),
            value=", ".join(file.name for file in files) or "none",
        )
    return files[0]


def _known_columns(cohort: Cohort) -> tuple[Cohort, list[str]]:
    """Return the cohort with its columns under the names of the study, and what is missing."""
    groups = dict(cohort.images.groups)
    if "centre" not in groups and "center" in groups:
        groups["centre"] = groups.pop("center")
    if "sequence" not in groups and "patient" in groups:
        groups["sequence"] = groups["patient"]
    notes = []
    for name in ("centre", "patient", "type"):
        if name not in groups and name not in cohort.references.facts:
            notes.append(f"the data have no column {name!r}: claims that need it are not tested")
    if cohort.references.masks is None:
        notes.append("the references have no masks: claims about masks and hulls are not tested")
    return replace(cohort, images=replace(cohort.images, groups=groups)), notes
