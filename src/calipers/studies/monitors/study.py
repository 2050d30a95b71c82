# SPDX-License-Identifier: Apache-2.0
"""The study of monitors: runs definitions, trials, sweeps, figures, tables and claims.

`STUDY` is what `calipers.studies.framework` loads; `prepare` takes `StudyOptions` and returns the
steps that make a `StudyResult`. Trials are those of detectors that were trained: results that ship
with Calipers, or of a training of one's own (``--train``, ``--keep``); or they are made on the
user's data (`read_trials`): references (LARD's list or any other), predictions, and OOD labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import Flags
from calipers.data.cohort import Cohort
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.read import read
from calipers.io.source import hash_file
from calipers.studies.framework import Claims, Study, StudyOptions, StudyResult
from calipers.studies.kept_archives import kept_archive
from calipers.studies.monitors import claims
from calipers.studies.monitors.archive import FILE, MonitorArchive, shipped
from calipers.studies.monitors.experiments import (
    HEADLINE,
    MOST,
    NUMBERS_OF_CLASSES,
    RAISED_CUT,
    REPLICATES,
    RULES,
    TAU,
    MonitorsRun,
    TauCurves,
    TrialData,
    TrialNumbers,
    baselines,
    crowds,
    definitions,
    model_numbers,
    network_numbers,
    split_images,
)
from calipers.studies.monitors.figures import figures, sweep_figures
from calipers.studies.monitors.scene_pictures import scenes_figure
from calipers.studies.monitors.tables import tables
from calipers.studies.steps import Progress, StepSet, StudyStep
from calipers.synthetic.demo import stream

FEWEST = 40  # images
FEWEST_AIRPORTS = 10  # from here on airports are resampled, not images
MOST_PICTURES = 3000  # beyond that, pictures are not read
# Words of users for both kinds of images, beside those of every table.
YES, NO = ("1", "true", "yes", "ood"), ("0", "false", "no", "id")
COLUMN = "ood"

BOOTSTRAP, QUICK_BOOTSTRAP = 2000, 400
CROWDED = 1000
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
    "Alpaydin E, Kaynak C. Optical recognition of handwritten digits. UCI Machine Learning "
    "Repository, 1998; as bundled with scikit-learn (BSD-3-Clause): canvases and pictures.",
    "LeCun Y, Cortes C, Burges CJC. The MNIST database (CC BY-SA 3.0). Xiao H, Rasul K, Vollgraf "
    "R. Fashion-MNIST (MIT), arXiv:1708.07747, 2017: canvases, of which no picture is shown.",
)
# In the order of the rules, which is that of the paper.
ORDER = list(RULES.statements)
CLAIMS = Claims[MonitorsRun](
    sorted(claims.CLAIMS.entries, key=lambda entry: ORDER.index(entry[0].name)), RULES
)

METHODS = (
    "Score of an image. Predictions and references of a class are matched one-to-one, the largest "
    "overlap first, at an IoU of 0.5. F1 of a class is 2 TP / (Nd + Nx), and 1 if the class is "
    "neither present nor predicted. The score s is the mean over the classes that are present or "
    "predicted; where stated, over all declared classes. An image is unsafe, that is out of the "
    f"model's scope, if s < tau. Unless stated otherwise tau = {TAU:g}; it is also swept.",
    "Detectors. Compact one-stage detectors (three levels of features, focal and complete-IoU "
    "loss, dropout of 0.1 in the heads) were trained on canvases of 64 x 64 pixels with 3 to 6 "
    "digits on noise, two per data set from different random weights. Test canvases show digits "
    "that no training canvas shows. The lowest score that counts is chosen on validation canvases. "
    "No shifted picture was used for training or for any choice.",
    "Shifts. Fog, blur, noise, loss of contrast, and new backgrounds, each in three strengths, "
    "change the picture. Foreign objects (clothes among digits, or drawn shapes), one to three of "
    "them, have no class: a prediction on one is a false alarm. Some pictures have both. What is "
    "out of distribution is defined in three ways: the picture is, an object is, or either "
    f"(the definition that both paradigms are compared by, {HEADLINE!r}). Every strength counts as "
    "OOD, however weak.",
    "Monitors. On outputs: max-sigmoid, energy and entropy of the objects that the detector sees "
    "(peaks from a score of 0.1 on), and max-score, mean-score, score-entropy and count of its "
    "predictions, box-likelihood of their boxes. On features: mahalanobis and knn of objects, "
    "picture-mahalanobis and picture-knn of the mean features of the picture, dropout. On the "
    "picture: image-mahalanobis and image-knn of simple features. Those that learn were fitted on "
    "the same training pictures. An alarm of an image is the mean over its objects.",
    "Given data. 3 of 10 images that are not OOD are for fitting baselines, a quarter of the "
    "others for choosing thresholds, and the rest for testing; units are never divided. The unit "
    "is the patient if known, the airport if there are 10 or more, else the image.",
    "Statistics. AUROC counts ties half; FPR95 is the smallest attainable; risk and coverage "
    "treat equal alarms as one step. Intervals resample the units (95 %), with the same weights "
    "for all monitors and all kinds of labels. They are about other images, not about other "
    "trainings: the second detector of every data set shows how much those matter. Thresholds "
    "reject at most 5 % of the safe tuning images (a quarter of the test images). Intervals of "
    "many monitors are not corrected for their number.",
    f"Rules. {RULES.provenance} The hash of the rules is part of the result.",
)


def prepare(options: StudyOptions, progress: Progress) -> StepSet[StudyResult]:
    """Return a step per trial, which make the result with all claims judged."""
    is_given = bool(options.predictions or options.ood)
    if options.data is None and is_given:
        raise UsageError("--predictions and --ood belong to a data set: give it with --data")
    if options.train and is_given:
        raise UsageError("--train makes its own predictions: leave out --predictions and --ood")
    replicates = QUICK_BOOTSTRAP if options.quick else BOOTSTRAP
    trial_set = _trials(options, replicates, progress)
    return StepSet(
        trial_set.steps,
        lambda numbers: _result(options, trial_set, replicates, numbers),
    )


def _result(
    options: StudyOptions,
    trial_set: TrialSet,
    replicates: int,
    trial_numbers: Sequence[TrialNumbers],
) -> StudyResult:
    """Judge all claims by what the steps returned."""
    trials = tuple(own.trial for own in trial_numbers)
    taus: list[TauCurves] = []
    for own in trial_numbers:
        taus += own.taus
    numbers = MonitorsRun(
        definitions(),
        crowds(CROWDED, options.seed),
        trials,
        tuple(taus),
        tuple(own.proxy for own in trial_numbers if own.proxy is not None),
        tuple(own.areas for own in trial_numbers if own.areas is not None),
        trial_set.archive.detectors if trial_set.archive is not None else (),
    )
    scenes = scenes_figure(trial_set.archive)
    shown_figures = [*figures(numbers), *sweep_figures(numbers)]
    if scenes is not None:
        shown_figures.insert(0, scenes)
    return StudyResult(
        study=STUDY.name,
        title=TITLE,
        citation=CITATION,
        source=trial_set.source,
        seed=options.seed,
        quick=options.quick,
        settings=_settings(numbers, replicates, trial_set.archive),
        claims=CLAIMS.judge_all(numbers, "run"),
        figures=tuple(shown_figures),
        appendix=tuple(tables(numbers)),
        methods=METHODS,
        references=REFERENCES,
        warnings=trial_set.warnings,
        inputs=trial_set.inputs,
    )


def _trials(options: StudyOptions, replicates: int, progress: Progress) -> TrialSet:
    """Return the trials of the user's data, or of trained detectors."""
    if options.data is not None and not options.train:
        return read_trials(options, replicates)
    archive, inputs = _archive(options, progress)
    detectors = archive.detectors
    steps = []
    for record in detectors:
        others = [one for one in detectors if one.data == record.data and one is not record]
        other = others[0] if others else None
        arguments = (record, other, replicates, options.seed)
        steps.append(StudyStep(f"detector {record.name}", network_numbers, arguments, 4.8))
    words = []
    for data in dict.fromkeys(one.data for one in detectors):
        own = [one for one in detectors if one.data == data]
        words.append(
            f"{len(own)} detectors trained on {data}, tested on {len(own[0])} others, shifted or "
            f"not (foreign objects: {own[0].foreign})"
        )
    source = f"{'; '.join(words)}. Made by: {archive.about['command']}."
    return TrialSet(tuple(steps), source, (), inputs, archive)


def _archive(
    options: StudyOptions, progress: Progress
) -> tuple[MonitorArchive, tuple[Mapping[str, Any], ...]]:
    """Return the detectors of a new training, of a folder, or those that ship."""
    if options.train:
        from calipers.studies.monitors.training import train_detectors

        keep = None if options.keep is None else Path(options.keep)
        sources = [None] if options.data is None else [None, str(options.data)]
        archive = train_detectors(
            sources, seed=options.seed, quick=options.quick, progress=progress, keep=keep
        )
        return archive, ()
    path = shipped()
    if options.keep is not None:
        path = kept_archive(options.keep, FILE, "monitors")
    archive = MonitorArchive.read(path)
    facts = {"file": path.name, "bytes": path.stat().st_size, "sha256": hash_file(path)}
    return archive, (facts,)


def _settings(
    run: MonitorsRun, replicates: int, archive: MonitorArchive | None
) -> Mapping[str, Any]:
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
        "score cut of another model, where one is given": RAISED_CUT,
        **({} if archive is None else {"training": dict(archive.about)}),
        "winner differs: share of replicates": claims.SURE,
        "good on ID images: unsafe below": claims.GOOD,
    }


@dataclass(frozen=True)
class TrialSet:
    """A step for the trial of every model, and the source of their data."""

    steps: tuple[StudyStep, ...]
    source: str
    warnings: tuple[str, ...]
    inputs: tuple[Mapping[str, Any], ...]
    archive: MonitorArchive | None = None  # of detectors that were trained


def read_trials(options: StudyOptions, replicates: int) -> TrialSet:
    """Read the data and return a step per model."""
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
    steps = []
    for model in cohort.models:
        data = TrialData(
            name=model,
            cohort=cohort,
            model=model,
            alarms=baselines(cohort, model, fit, pictures),
            fit=fit,
            tuning=tuning,
            ood=ood,
            kinds=kinds,
            cluster=cluster,
        )
        arguments = (data, replicates, options.seed)
        steps.append(StudyStep(f"model {model}", model_numbers, arguments, 4.8))
    inputs = []
    for file in cohort.intake.files:
        inputs.append({"file": file.file, "bytes": file.bytes, "sha256": file.sha256})
    source = _source(options, cohort, ood, cluster)
    return TrialSet(tuple(steps), source, _warnings(ood, pictures), tuple(inputs))


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
    prepare=prepare,
    takes=frozenset({"data", "predictions", "ood", "train"}),
    rules=("monitors/claims.toml",),
)
