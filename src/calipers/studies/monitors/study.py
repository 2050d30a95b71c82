# SPDX-License-Identifier: Apache-2.0
"""Runs the study: definitions, trials, sweeps, figures, tables and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calipers.errors import UsageError
from calipers.studies.framework import Progress, Study, StudyOptions, StudyResult
from calipers.studies.judging import Claims
from calipers.studies.monitors import claims_definitions, claims_paradigms, claims_use
from calipers.studies.monitors.crowds import crowds
from calipers.studies.monitors.definitions import MOST, NUMBERS_OF_CLASSES, definitions
from calipers.studies.monitors.figures import figures
from calipers.studies.monitors.figures_sweeps import sweep_figures
from calipers.studies.monitors.found import MonitorsRun
from calipers.studies.monitors.given import TrialSet, read_trials
from calipers.studies.monitors.sweeps import REPLICATES, share_sweeps, tau_curves
from calipers.studies.monitors.tables import tables
from calipers.studies.monitors.trials import RAISED_CUT, TAU, simulate_trial
from calipers.synthetic.endoscopy import endoscopy_cohort
from calipers.synthetic.runways import runway_cohort
from calipers.synthetic.shifts import ShiftedCohort

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
        *claims_paradigms.PARADIGMS.entries,
        *claims_definitions.OPENING.entries,
        *claims_use.SCOPE.entries,
        *claims_definitions.SCORE.entries,
        *claims_use.USE.entries,
    ]
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
        claims=CLAIMS.judge_all(numbers),
        figures=(*figures(numbers), *sweep_figures(numbers)),
        tables=tuple(tables(numbers)),
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
        "winner differs: share of replicates": claims_paradigms.SURE,
        "good on ID images: unsafe below": claims_paradigms.GOOD,
    }


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
STUDY = Study(
    name="monitors",
    title=TITLE,
    citation=CITATION,
    statements=tuple(statement for statement, _ in CLAIMS.entries),
    run=run,
    takes=frozenset({"data", "predictions", "ood"}),
)
