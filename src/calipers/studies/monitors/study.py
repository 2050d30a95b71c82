# SPDX-License-Identifier: Apache-2.0
"""The study of monitors: runs definitions, trials, sweeps, figures, tables and claims.

`STUDY` is what `calipers.studies.framework` loads; `run` takes `StudyOptions` and returns a
`StudyResult`. Trials are simulated, or made on the user's data (`read_trials`): references (LARD's
list or any other), predictions, and OOD labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import Flags
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.read import read
from calipers.studies.framework import Claims, Progress, Study, StudyOptions, StudyResult
from calipers.studies.monitors import claims
from calipers.studies.monitors.data import ShiftedCohort, endoscopy_cohort, runway_cohort
from calipers.studies.monitors.experiments import (
    MOST,
    NUMBERS_OF_CLASSES,
    RAISED_CUT,
    REPLICATES,
    TAU,
    MonitorsRun,
    Trial,
    baselines,
    crowds,
    definitions,
    evaluate_trial,
    share_sweeps,
    simulate_trial,
    split_images,
    tau_curves,
)
from calipers.studies.monitors.figures import figures, sweep_figures
from calipers.studies.monitors.tables import tables
from calipers.synthetic.demo import stream

FEWEST = 40  # images
FEWEST_AIRPORTS = 10  # from here on airports are resampled, not images
MOST_PICTURES = 3000  # beyond that, pictures are not read
# Words of users for both kinds of images, beside those of every table.
YES, NO = ("1", "true", "yes", "ood"), ("0", "false", "no", "id")
COLUMN = "ood"

IMAGES, QUICK_IMAGES = 1000, 240  # of every made cohort
BOOTSTRAP, QUICK_BOOTSTRAP = 2000, 400
CROWDED = 1000
MAKERS: Mapping[str, Callable[[int, int], ShiftedCohort]] = {
    "runways": runway_cohort,
    "endoscopy": endoscopy_cohort,
}
STEPS = 5
TITLE = "Runtime monitors of detectors: does finding foreign images find failures?"
CITATION = "OOD and OMS evaluation paradigms for object detection. Technical note, February 2025."
REFERENCES = (
    "Guérin J, Delmas K, Ferreira RS, Guiochet J. Out-of-distribution detection is not all you "
    "need. AAAI 2023.",
    "Ducoffe M, et al. LARD - Landing Approach Runway Detection - dataset for vision based "
    "landing. 2023.",
    "Bolya D, Foley S, Hays J, Hoffman J. TIDE: a general toolbox for identifying object "
    "detection errors. ECCV 2020.",
    "Geifman Y, Uziel G, El-Yaniv R. Bias-reduced uncertainty estimation for deep neural "
    "classifiers. ICLR 2019.",
)
# In the order of the paper; what follows from it for the use of monitors at the end.
CLAIMS = Claims[MonitorsRun](
    [
        *claims.PARADIGMS.entries,
        *claims.OPENING.entries,
        *claims.SCOPE.entries,
        *claims.SCORE.entries,
        *claims.USE.entries,
    ]
)

METHODS = (
    "Score of an image. Predictions and references of a class are matched one-to-one, the largest "
    "overlap first, at an IoU of 0.5. F1 of a class is 2 TP / (Nd + Nx), and 1 if the class is "
    "neither present nor predicted. The score s is the mean over the classes that are present or "
    "predicted; where stated, over all declared classes. An image is unsafe, that is out of the "
    f"model's scope, if s < tau. Unless stated otherwise tau = {TAU:g}; it is also swept.",
    "Simulated data. Usual images are in distribution. Some shifts are harmless (another sky, "
    "another lamp), some harm the detector (fog, blur, night), some add a strange object that it "
    "takes for one of its classes (a taxiway, a new class). Far runways and flat lesions are in "
    "distribution and hard. shift-detector lies 3 standard deviations higher on OOD images, "
    "failure-predictor 2 where the detector fails, and random is uninformative. A detector that "
    "fails finds nothing, or something with a low score, which favours monitors that use scores. "
    "The other monitors are the baselines of Calipers: they see the predictions, or simple "
    "features of the pictures, and are fitted on usual images that are used for nothing else.",
    "Given data. 3 of 10 images that are not OOD are for fitting baselines, a quarter of the "
    "others for choosing thresholds, and the rest for testing; units are never divided. The unit "
    "is the patient if known, the airport if there are 10 or more, else the image.",
    "Statistics. AUROC counts ties half; FPR95 is the smallest attainable; risk and coverage "
    "treat equal alarms as one step. Intervals resample the units, with the same weights for all "
    "monitors and both kinds of labels. Thresholds reject at most 5 % of the safe tuning images. "
    "Results on simulated data show that something can happen, not how often it does.",
    "The rules for verdicts were not registered beforehand. After a first run two were changed: "
    "whether images out of distribution are worse is judged by the interval of the difference, "
    "not by overlapping intervals; and where the order of two monitors turns is judged by "
    "intervals, not by a fixed distance from the closed form, with more images than before.",
)


def run(options: StudyOptions, progress: Progress) -> StudyResult:
    """Run all experiments and judge all claims."""
    if options.data is None and (options.predictions or options.ood):
        raise UsageError("--predictions and --ood belong to a data set: give it with --data")
    replicates = QUICK_BOOTSTRAP if options.quick else BOOTSTRAP
    trial_set = _trials(options, replicates, progress)
    progress("tau", 3, STEPS)
    taus = []
    for trial in trial_set.trials:
        taus += tau_curves(trial, min(replicates, REPLICATES))
    progress("harmless shifts", 4, STEPS)
    # The user's data have the shifts they have.
    shares = share_sweeps(options.seed, quick=options.quick) if options.data is None else ()
    numbers = MonitorsRun(
        definitions(), crowds(CROWDED, options.seed), trial_set.trials, tuple(taus), shares
    )
    result = StudyResult(
        study=STUDY.name,
        title=TITLE,
        citation=CITATION,
        source=trial_set.source,
        seed=options.seed,
        quick=options.quick,
        settings=_settings(numbers, replicates),
        # Failures of the simulated detectors were planted.
        claims=CLAIMS.judge_all(numbers, "made" if options.data is None else "run"),
        figures=(*figures(numbers), *sweep_figures(numbers)),
        appendix=tuple(tables(numbers)),
        methods=METHODS,
        references=REFERENCES,
        warnings=trial_set.warnings,
        inputs=trial_set.inputs,
    )
    progress("claims", 5, STEPS)
    return result


def _trials(options: StudyOptions, replicates: int, progress: Progress) -> TrialSet:
    """Return the trials of the user's data, or of simulated runways and endoscopy frames."""
    if options.data is not None:
        progress("data", 1, STEPS)
        return read_trials(options, replicates)
    n = QUICK_IMAGES if options.quick else IMAGES
    trials = []
    for k, (name, maker) in enumerate(MAKERS.items(), start=1):
        progress(name, k, STEPS)
        trials.append(simulate_trial(name, maker(n, options.seed), replicates, options.seed))
    source = (
        f"Simulated by Calipers: {n} landing approaches with one runway each, and {n} endoscopy "
        "frames with one to three objects of four classes, with a simulated detector whose "
        "failures are planted."
    )
    return TrialSet(tuple(trials), source, (), ())


def _settings(run: MonitorsRun, replicates: int) -> Mapping[str, Any]:
    per_trial: dict[str, Any] = {}
    for trial in run.trials:
        n_ood = None if trial.ood is None else int(trial.ood.sum())
        counts = [trial.evaluation.n_images, int(trial.unsafe.sum()), n_ood]
        per_trial[f"{trial.name}: images for testing, unsafe, OOD"] = counts
    return {
        "tau": TAU,
        "IoU of a hit": 0.5,
        "replicates": replicates,
        "replicates of the sweeps": REPLICATES,
        **per_trial,
        **{f"{trial.name}: monitors": list(trial.evaluation.monitors) for trial in run.trials},
        "counts tried up to": MOST,
        "numbers of classes": list(NUMBERS_OF_CLASSES),
        "images with close references": run.crowds.images,
        "score cut of the other model": RAISED_CUT,
        "winner differs: share of replicates": claims.SURE,
        "good on ID images: unsafe below": claims.GOOD,
    }


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
    # Whole units: two images of an airport or patient are too alike to be in two splits.
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
            evaluate_trial(
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


STUDY = Study(
    name="monitors",
    title=TITLE,
    citation=CITATION,
    statements=tuple(statement for statement, _ in CLAIMS.entries),
    run=run,
    takes=frozenset({"data", "predictions", "ood"}),
    rules=("monitors/claims.py",),
)
