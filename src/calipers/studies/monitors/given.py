# SPDX-License-Identifier: Apache-2.0
"""Trials on the user's data: references (LARD's list or any other), predictions, and OOD labels."""

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
    """The trials of all models, and the source of their data."""

    trials: tuple[Trial, ...]
    source: str
    warnings: tuple[str, ...]
    inputs: tuple[Mapping[str, Any], ...]


def read_trials(options: StudyOptions, replicates: int) -> TrialSet:
    """Read the data and return a trial per model."""
    assert options.data is not None
    if not options.predictions:
        raise UsageError("the scope of a model needs its predictions: add --predictions NAME=FILE")
    cohort = read(options.data, dict(options.predictions))
    if cohort.n_images < FEWEST:
        raise InputError(
            f"{FEWEST} images", rule="too-few-images", file=str(options.data), value=cohort.n_images
        )
    ood = ood_labels(cohort, options.ood)
    cluster = unit_of(cohort)
    fit, tuning = split_images(cohort, ood, cluster, stream(options.seed, "monitors splits"))
    # Few units can leave a split empty.
    if not fit.any() or not tuning.any() or (fit | tuning).all():
        raise InputError(
            "images to fit on, to tune on and to test",
            rule="too-few-images",
            file=str(options.data),
        )
    pictures = _pictures(cohort, Path(options.data).parent)
    kinds = np.full(cohort.n_images, "all") if ood is None else np.where(ood, "OOD", "ID")
    trials = []
    for model in cohort.models:
        alarms = baselines(cohort, model, fit, pictures)
        trials.append(
            trial(
                model,
                (cohort, model),
                alarms,
                (fit, tuning),
                (ood, kinds, None),
                (replicates, options.seed),
                cluster,
            )
        )
    inputs = []
    for file in cohort.intake.files:
        inputs.append({"file": file.file, "bytes": file.bytes, "sha256": file.sha256})
    source = _source(options, cohort, ood, cluster)
    return TrialSet(tuple(trials), source, _warnings(ood, pictures), tuple(inputs))


def ood_labels(cohort: Cohort, option: str | None) -> Flags | None:
    """Return which images are OOD.

    Parameters
    ----------
    option
        ``COLUMN``: true where the column says so (1, true, yes, ood); ``COLUMN=a,b``: true where it
        is one of these values, such as ``airport=LFPO,KSEA``; None: the column ``ood`` if there is
        one.
    """
    groups = cohort.images.groups
    if option is None and COLUMN not in groups:
        return None
    name, separator, values = (option or COLUMN).partition("=")
    if name not in groups:
        raise UsageError(f"--ood: the images have no column {name!r}; {did_you_mean(name, groups)}")
    column = np.array([str(value).strip() for value in groups[name].tolist()])
    if separator:
        ood_values = [value.strip() for value in values.split(",")]
        missing_values = [value for value in ood_values if value not in column]
        if missing_values:
            raise UsageError(
                f"--ood: no image has {name} = {missing_values[0]!r}; "
                f"{did_you_mean(missing_values[0], sorted({*column}))}"
            )
        return np.isin(column, ood_values)
    lower = np.char.lower(column)
    strange = np.flatnonzero(~np.isin(lower, YES + NO))
    if len(strange):
        where = f"image {cohort.images.ids[strange[0]]!r}"
        hint = f"or list the values that are OOD: --ood {name}=a,b"
        value = str(column[strange[0]])
        file = cohort.intake.files[0].file if cohort.intake.files else ""
        place = {"file": file, "location": where, "field": name, "value": value}
        raise InputError("true or false, 1 or 0", rule="flag", hint=hint, **place)
    return np.isin(lower, YES)


def unit_of(cohort: Cohort) -> str:
    """Return the unit of resampling: patients if known, airports if there are enough of them, else
    images.
    """
    groups = cohort.images.groups
    if "patient" in groups:
        return "patient"
    airports = set(groups.get("airport", np.zeros(0)).tolist())
    return "airport" if len(airports) >= FEWEST_AIRPORTS else "image"


def _pictures(cohort: Cohort, folder: Path) -> Path | None:
    """Return the folder of the list if it also has the pictures, and not too many of them."""
    if cohort.n_images > MOST_PICTURES:
        return None
    if not all((folder / name).is_file() for name in cohort.images.ids):
        return None
    return folder


def _source(options: StudyOptions, cohort: Cohort, ood: Flags | None, cluster: str) -> str:
    labels = "no OOD labels"
    if ood is not None:
        labels = f"{int(ood.sum())} images OOD by {options.ood or COLUMN}"
    names = ", ".join(cohort.models)
    return (
        f"{cohort.n_images} images of {Path(str(options.data)).name}, predictions of {names}, "
        f"{labels}; intervals resample by {cluster}."
    )


def _warnings(ood: Flags | None, pictures: Path | None) -> tuple[str, ...]:
    warnings = []
    if ood is None:
        warnings.append(
            "no OOD labels: mark the images that are out of distribution with --ood COLUMN or "
            "--ood airport=LFPO,KSEA"
        )
    if pictures is None:
        warnings.append(
            f"no pictures beside the list, or more than {MOST_PICTURES}: monitors that look at "
            "them are left out"
        )
    return tuple(warnings)
