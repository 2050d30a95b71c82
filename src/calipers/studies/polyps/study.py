# SPDX-License-Identifier: Apache-2.0
"""The study of polyp detection: data, experiments, figures, tables and claims, in this order.

`STUDY` is what `calipers.studies.framework` loads; `prepare` takes `StudyOptions` and returns the
steps that make a `StudyResult`. Data come from `data`, numbers from `experiments` and `people`,
verdicts from `claims` by the rules in ``claims.toml``. The paper is Tran et al., IJCARS 2023."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calipers.studies.framework import Study, StudyOptions, StudyResult
from calipers.studies.polyps.claims import CLAIMS, RULES, scan_steps
from calipers.studies.polyps.data import PolypData, study_data
from calipers.studies.polyps.experiments import PolypRun, best_cut, experiment_steps
from calipers.studies.polyps.figures import study_figures
from calipers.studies.polyps.people import people_steps
from calipers.studies.polyps.sizes import SOURCE
from calipers.studies.polyps.tables import study_tables
from calipers.studies.steps import Progress, StepSet

TITLE = "Where the performance of polyp detection varies: centres, sizes, criteria, thresholds"
CITATION = (
    "Tran TN, Adler TJ, Yamlahi A, et al. Sources of performance variability in deep "
    "learning-based polyp detection. International Journal of Computer Assisted Radiology and "
    "Surgery 18, 2023, 1311-1322."
)
REFERENCES = (
    "Ali S, et al. A multi-centre polyp detection and segmentation dataset for generalisability "
    "assessment (PolypGen). Scientific Data 10, 2023, 75.",
    "Yamlahi A, et al. Heterogeneous model ensemble for polyp detection and tracking in "
    "colonoscopy. EndoCV@ISBI 2022.",
    "Solovyev R, Wang W, Gabruseva T. Weighted boxes fusion. Image and Vision Computing 107, 2021.",
    "Armato SG, et al. The Lung Image Database Consortium (LIDC) and Image Database Resource "
    "Initiative (IDRI). Medical Physics 38, 2011, 915-931.",
    "SIIM-ACR pneumothorax segmentation challenge, 2019: outlines on radiographs of ChestX-ray8.",
    "Tan M, Pang R, Le QV. EfficientDet. CVPR 2020. Wang CY, Bochkovskiy A, Liao HYM. YOLOv7. "
    "CVPR 2023. (The complementary methods of the paper, for which other networks stand here.)",
)
DRAWN = (
    "Frames are drawn: a tube of mucosa with folds, vessels, reflections and debris, and polyps as "
    "lit hills. Real are the number of frames per centre and their prevalence (table 2 of the "
    f"paper), and the sizes, aspects and fill of polyps and their number per frame: {SOURCE}. "
    "Drawn at random are the look of a centre (tint, light, blur, noise, texture), places, "
    "patients (five frames each), colour contrast and type. Looks of all centres and training "
    "sequences come from one distribution: how much centres differ is chance, not design. A flat "
    "polyp is a lower hill (0.3 instead of 1 of its half side), and that is the only difference "
    "of the types.",
    "Networks are trained on 46 drawn sequences and, for two members, on two further sets, which "
    "share no frame, patient or look with the six centres. Three ensembles: six members by the "
    "recipe of EndoCV 2022 on frames of 96 pixels, and two of four members on frames of 64 and of "
    "48 pixels, in place of EfficientDet and YOLOv7. The detector is the compact one of Calipers. "
    "Values can therefore not be compared with those of the paper; trends can. The ensemble of 48 "
    "pixels took the place of a wider network that was too slow to train, after the first two "
    "ensembles had been evaluated.",
)
METHODS = (
    "AP: 101 recalls, at most 100 predictions per frame, assignment by score. Counting metrics "
    "need a lowest score that counts, which the paper does not state: it is the one at which F1 at "
    "box IoU 0.5 is highest on all frames, for every model. Claims about counts are scanned over "
    "six cuts and two summaries. Intervals: bootstrap t over patients.",
    "Mixed model: best box IoU of every reference, 0 if missed, on size and type, with random "
    "intercepts for centre, patient and frame (REML); beside it the overlap of hits and the "
    "probability of a hit, because a linear model of IoU mixes the two.",
    "Verdicts follow rules; the file with its hash is stated above. {provenance}",
)


def prepare(options: StudyOptions, progress: Progress) -> StepSet[StudyResult]:
    """Return the steps of all experiments, which make the result with all claims judged."""
    data = study_data(options, progress)
    numbers = polyp_steps(data, seed=options.seed, quick=options.quick)
    return StepSet(numbers.steps, lambda results: _result(options, data, numbers.compose(results)))


def polyp_steps(data: PolypData, *, seed: int, quick: bool) -> StepSet[PolypRun]:
    """Return the steps of experiments, real shapes and readers, and of the scan."""
    limit = RULES.limit("non-convex")
    sets: dict[str, StepSet[Any]] = {
        "people": people_steps(quick=quick, seed=seed, limit=limit),
        "experiments": experiment_steps(data, seed=seed, quick=quick, limit=limit),
    }
    if data.has_masks:
        sets["scan"] = scan_steps(data, best_cut(data.cohort, data.models[0]))
    return StepSet.join(
        sets,
        lambda parts: replace(parts["experiments"], people=parts["people"], scan=parts.get("scan")),
    )


def _result(options: StudyOptions, data: PolypData, numbers: PolypRun) -> StudyResult:
    """Judge all claims by the numbers of a run."""
    people = numbers.people
    methods = [text.format(provenance=RULES.provenance) for text in METHODS]
    warnings = [*data.notes, *(f"Not installed, so left out: {note}." for note in people.notes)]
    return StudyResult(
        study=STUDY.name,
        title=TITLE,
        citation=CITATION,
        source=data.source,
        seed=options.seed,
        quick=options.quick,
        settings=_settings(numbers, data),
        claims=CLAIMS.judge_all(numbers),
        figures=study_figures(numbers),
        appendix=study_tables(numbers),
        methods=(*(DRAWN if data.is_drawn else ()), *methods),
        references=REFERENCES,
        warnings=tuple(warnings),
        inputs=data.inputs,
    )


def _settings(run: PolypRun, data: PolypData) -> Mapping[str, Any]:
    cuts = [f"{model} {cut:.4f}" for model, cut in run.cuts.items()]
    return {
        **data.settings,
        "images": data.cohort.n_images,
        "references": len(data.cohort.references),
        "centres": list(run.centre_names),
        "score cuts": cuts,
        "thresholds": list(run.thresholds),
        **{f"limit: {name}": value for name, value in RULES.limits.items()},
    }


STUDY = Study(
    name="polyps",
    title=TITLE,
    citation=CITATION,
    statements=tuple(statement for statement, _ in CLAIMS.entries),
    prepare=prepare,
    takes=frozenset({"data", "predictions", "train"}),
    rules=("polyps/claims.toml",),
)
