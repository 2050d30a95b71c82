# SPDX-License-Identifier: Apache-2.0
"""The study of anomaly maps: runs controlled experiments, benchmark, figures, tables and claims.

`STUDY` is what `calipers.studies.framework` loads; `run` takes `StudyOptions` and returns a
`StudyResult`. The numbers of a run are an `AnomalyRun` of `experiments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calipers.studies.anomaly import claims
from calipers.studies.anomaly.algorithms import ALGORITHMS, RARE, USUAL
from calipers.studies.anomaly.data import CONTRAST, RADII, SETTINGS, SIDE
from calipers.studies.anomaly.experiments import (
    ALPHA,
    AXES,
    CROWDS,
    EXACT,
    METRICS,
    MOVES,
    AnomalyRun,
    grid,
    protocol,
    read_ranking,
    run_benchmark,
    run_controlled,
)
from calipers.studies.anomaly.figures import benchmark_figures, controlled_figures
from calipers.studies.anomaly.tables import study_tables
from calipers.studies.framework import Progress, Study, StudyOptions, StudyResult

TITLE = "What metrics of anomaly maps see: controlled errors, and a benchmark"
CITATION = (
    "Zimmerer D, Maier-Hein K. Revisiting anomaly localization metrics. Under review for MIDL 2024."
)
REFERENCES = (
    "Zimmerer D, et al. MOOD 2020: a public benchmark for out-of-distribution detection and "
    "localization on medical images. IEEE Transactions on Medical Imaging 2022.",
    "Lagogiannis I, Meissen F, Kaissis G, Rueckert D. Unsupervised pathology detection: a deep "
    "dive into the state of the art. IEEE Transactions on Medical Imaging 2023.",
    "Bergmann P, et al. The MVTec anomaly detection dataset. International Journal of Computer "
    "Vision 2021.",
    "Liu FT, Ting KM, Zhou ZH. Isolation forest. ICDM 2008, 413-422.",
    "Defard T, Setkov A, Loesch A, Audigier R. PaDiM: a patch distribution modeling framework for "
    "anomaly detection and localization. ICPR workshops 2021.",
    "Roth K, et al. Towards total recall in industrial anomaly detection. CVPR 2022.",
)
CONTROLLED = 0.4  # approximate share of the running time that the controlled experiments take
STEPS = 1000

METHODS = (
    "Controlled experiments. Samples contain discs (2D) or spheres (3D) at random places that do "
    "not touch. Maps are 1 where something is found and 0 elsewhere, so that all thresholds are "
    "equivalent. (a) Two large and four small objects: small ones are found one after the other, "
    "and the large ones lose exactly as many of their outermost voxels. (b) Four equal objects, "
    "found with another radius. (c) False objects of the same size in addition. (d) Missed "
    "objects, in every sample or in new samples. (e) One of four objects is missed, and samples "
    "without objects are added.",
    "Metrics. softIoU: per object, on the object and the background, (sum p y + e) / (a sum p + "
    "(1 - a) sum y + e) with a = 0.5 and e = 0.00001, mean over objects, then over samples; a "
    "sample without objects has e / (a sum p + e). softIoU/jaccard: TP / (TP + 2 a FP + 2 (1 - a) "
    f"FN). softIoU/lenient: a = {ALPHA:g}. AP and AUROC: over the voxels of the data set, of a "
    "sample or of a slice (across z), mean over the samples or slices with a positive voxel; "
    "equal scores are one operating point. AUPRO up to 30 % false positive voxels. Dice: the best "
    "over thresholds, and at the threshold with at most 5 % false positive voxels. Objects are "
    "connected components (corner neighbours included); predicted objects consist of voxels with "
    "a score of 0.5 or more and are assigned by overlap. F1 is computed per sample, and is 1 "
    "without objects and predictions; centre: the weighted centre of a predicted object lies in "
    "the hull of a reference. IoU/instance: mean over references of the IoU with their partner, 0 "
    "if missed.",
    "Benchmark. Schematic chests of 48 x 48 x 48 voxels differ in build, position and texture. "
    "Every second test volume has one large and four small spheres inside the body, each of one "
    "grey value that differs from what was there. Algorithms are trained on normal volumes only. "
    "Maps are calibrated to [0, 1]: odds are a power of the raw score, such that one in 1000 "
    "voxels of further normal volumes reaches 0.5 and one in 100 reaches 0.01. This does not "
    "change the ranks of voxels.",
    f"The rules for verdicts are fixed: a metric moves if it changes by more than {MOVES:g}; a "
    "claim about several metrics, or about 2D and 3D, holds in part if it holds for some of them.",
)


def run(options: StudyOptions, progress: Progress) -> StudyResult:
    """Run all experiments and judge all claims."""
    runnable = [algorithm.name for algorithm in ALGORITHMS if algorithm.available]
    ranking = read_ranking(options.ranking, runnable) if options.ranking is not None else None
    controlled = run_controlled(
        options.seed, quick=options.quick, progress=_part(progress, 0.0, CONTROLLED)
    )
    benchmark = run_benchmark(
        options.seed, quick=options.quick, progress=_part(progress, CONTROLLED, 1.0)
    )
    numbers = AnomalyRun(controlled, benchmark, ranking, options.seed)
    return StudyResult(
        study=STUDY.name,
        title=TITLE,
        citation=CITATION,
        source=_source(numbers),
        seed=options.seed,
        quick=options.quick,
        settings=_settings(numbers, quick=options.quick),
        claims=claims.CLAIMS.judge_all(numbers),
        figures=(*controlled_figures(numbers), *benchmark_figures(numbers)),
        appendix=study_tables(numbers),
        methods=METHODS,
        references=REFERENCES,
        warnings=benchmark.skip_notes,
        inputs=() if ranking is None else (ranking.entry,),
    )


def _part(progress: Progress, low: float, high: float) -> Progress:
    """Return a progress function that fills the part from ``low`` to ``high`` of the whole."""

    def count(what: str, step: int, total: int) -> None:
        progress(what, round(STEPS * (low + (high - low) * step / total)), STEPS)

    return count


def _source(run: AnomalyRun) -> str:
    n = run.benchmark.numbers
    return (
        f"All data are simulated by Calipers: {run.controlled.samples} samples of discs (2D) and "
        f"of spheres (3D) per experiment; for the benchmark {n.training} normal volumes to train "
        f"on, {n.calibration} to calibrate scores on, and {n.test} test volumes, half of them "
        "with spheres. The paper used brain volumes of Cam-CAN and MOOD."
    )


def _settings(run: AnomalyRun, *, quick: bool) -> Mapping[str, Any]:
    n = run.benchmark.numbers
    sizes = {}
    for one in SETTINGS:
        key = f"{one.name}: grid, radii large, small, equal"
        sizes[key] = [*one.shape, one.large, one.small, one.equal]
    return {
        "samples per experiment": run.controlled.samples,
        **sizes,
        **{f"({name}): {words}": list(grid(name, quick=quick)) for name, words in AXES.items()},
        "true objects of the figure beside (c)": list(CROWDS),
        "benchmark: voxels per axis": SIDE,
        "benchmark: radii of the spheres": list(RADII),
        "benchmark: contrast of the spheres": list(CONTRAST),
        "benchmark: volumes for training, calibration, test": [n.training, n.calibration, n.test],
        "benchmark: algorithms": list(run.benchmark.algorithms),
        "scores of 0.01 and 0.5: quantiles of normal voxels": [USUAL, RARE],
        "no change: below": MOVES,
        "rounding: below": EXACT,
        "metrics": list(METRICS),
        "protocol": protocol().to_toml(),
    }


STUDY = Study(
    name="anomaly",
    title=TITLE,
    citation=CITATION,
    statements=tuple(statement for statement, _ in claims.CLAIMS.entries),
    run=run,
    takes=frozenset({"ranking"}),
    rules=("anomaly/claims.py",),
)
