# SPDX-License-Identifier: Apache-2.0
"""Trials on given data: LARD's list or any other references, predictions of models, OOD labels if
they are said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers import read
from calipers.studies.framework import StudyOptions
from calipers.studies.monitors.trials import Trial, baselines, split_images, trial
from calipers.synthetic.anatomy import stream
from calipers.tables import Cohort

Flags = NDArray[np.bool_]

FEWEST = 40  # images
FEWEST_AIRPORTS = 10  # from here on airports are resampled, not images
MOST_PICTURES = 3000  # beyond that, pictures are not read
YES, NO = ("1", "true", "yes", "ood"), ("0", "false", "no", "id")
COLUMN = "ood"


@dataclass(frozen=True)
class TrialSet:
    """The trials of all models, and where their data come from."""

    trials: tuple[Trial, ...]
    source: str
    warnings: tuple[str, ...]
    inputs: tuple[Mapping[str, Any], ...]


def read_trials(options: StudyOptions, replicates: int) -> TrialSet:
    """Read the data and return a trial per model."""
    assert options.data is not None
    if not options.predictions:
        raise UsageError(
            "a scope is that of a model: give its predictions too, --predictions NAME=FILE"
        )
    cohort = read(options.data, dict(options.predictions))
    if cohort.n_images < FEWEST:
        raise InputError(
            f"{FEWEST} images", rule="too-few-images", file=str(options.data), value=cohort.n_images
        )
    ood = ood_labels(cohort, options.ood)
    cluster = unit_of(cohort)
    fit, tuning = split_images(cohort, ood, cluster, stream(options.seed, "monitors splits"))
    if not fit.any() or not tuning.any() or (fit | tuning).all():
        raise InputError(
            "images to fit on, to tune on and to test",
            rule="too-few-images",
            file=str(options.data),
        )
    pictures = _pictures(cohort, Path(options.data).parent)
    kinds = np.full(cohort.n_images, "all") if ood is None else np.where(ood, "OOD", "ID")
    trials = [
        trial(
            model,
            (cohort, model),
            baselines(cohort, model, fit, pictures),
            (fit, tuning),
            (ood, kinds, None),
            (replicates, options.seed),
            cluster,
        )
        for model in cohort.models
    ]
    inputs = tuple(
        {"file": f.file, "bytes": f.bytes, "sha256": f.sha256} for f in cohort.intake.files
    )
    return TrialSet(
        tuple(trials), _source(options, cohort, ood, cluster), _warnings(ood, pictures), inputs
    )


def ood_labels(cohort: Cohort, said: str | None) -> Flags | None:
    """Return which images are OOD.

    Parameters
    ----------
    said
        ``COLUMN``: true where the column says so (1, true, yes, ood); ``COLUMN=a,b``: true where it
        is one of these values, such as ``airport=LFPO,KSEA``; None: the column ``ood`` if there is
        one.
    """
    groups = cohort.images.groups
    if said is None and COLUMN not in groups:
        return None
    name, listed, values = (said or COLUMN).partition("=")
    if name not in groups:
        raise UsageError(f"--ood: the images have no column {name!r}; {did_you_mean(name, groups)}")
    column = np.array([str(value).strip() for value in groups[name].tolist()])
    if listed:
        wanted = [value.strip() for value in values.split(",")]
        absent = [value for value in wanted if value not in column]
        if absent:
            raise UsageError(
                f"--ood: no image has {name} = {absent[0]!r}; "
                f"{did_you_mean(absent[0], sorted({*column}))}"
            )
        return np.isin(column, wanted)
    lower = np.char.lower(column)
    strange = np.flatnonzero(~np.isin(lower, YES + NO))
    if len(strange):
        where, hint = (
            f"image {cohort.images.ids[strange[0]]!r}",
            f"or say which values are OOD: --ood {name}=a,b",
        )
        value = str(column[strange[0]])
        file = cohort.intake.files[0].file if cohort.intake.files else ""
        place = {"file": file, "location": where, "field": name, "value": value}
        raise InputError("true or false, 1 or 0", rule="flag", hint=hint, **place)
    return np.isin(lower, YES)


def unit_of(cohort: Cohort) -> str:
    """Return what is resampled: patients if known, airports if there are enough of them, else
    images.
    """
    groups = cohort.images.groups
    if "patient" in groups:
        return "patient"
    return (
        "airport"
        if len({*groups.get("airport", np.zeros(0)).tolist()}) >= FEWEST_AIRPORTS
        else "image"
    )


def _pictures(cohort: Cohort, folder: Path) -> Path | None:
    """Return the folder of the list if it has the pictures too, and not too many of them."""
    known = cohort.n_images <= MOST_PICTURES and all(
        (folder / name).is_file() for name in cohort.images.ids
    )
    return folder if known else None


def _source(options: StudyOptions, cohort: Cohort, ood: Flags | None, cluster: str) -> str:
    labels = (
        "no OOD labels"
        if ood is None
        else f"{int(ood.sum())} images OOD by {options.ood or COLUMN}"
    )
    names = ", ".join(cohort.models)
    return (
        f"{cohort.n_images} images of {Path(str(options.data)).name}, predictions of {names}, "
        f"{labels}; intervals resample by {cluster}."
    )


def _warnings(ood: Flags | None, pictures: Path | None) -> tuple[str, ...]:
    said = []
    if ood is None:
        said.append(
            "no OOD labels: say which images are out of distribution, --ood COLUMN or --ood "
            "airport=LFPO,KSEA"
        )
    if pictures is None:
        said.append(
            f"no pictures beside the list, or more than {MOST_PICTURES}: monitors that look at "
            "them are left out"
        )
    return tuple(said)
