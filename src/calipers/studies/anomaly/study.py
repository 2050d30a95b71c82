# SPDX-License-Identifier: Apache-2.0
"""The study of anomaly maps: runs controlled experiments, benchmark, figures, tables and claims.

`STUDY` is what `calipers.studies.framework` loads; `prepare` takes `StudyOptions` and returns the
steps that make a `StudyResult`. The numbers of a run are an `AnomalyRun` of `experiments`. The
benchmark is that of the archive that ships with Calipers, or of a training of one's own
(``--train``, ``--keep``). Archives have no brains: those behind the maps of figures 10 and 11 come
from an installed nilearn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.errors import CalipersError
from calipers.io.source import hash_file
from calipers.studies.anomaly import claims
from calipers.studies.anomaly.algorithms import RARE, USUAL
from calipers.studies.anomaly.archive import (
    FILE,
    AnomalyArchive,
    Benchmark,
    shipped_brains,
    with_brains,
)
from calipers.studies.anomaly.brains import (
    CONTRAST,
    INSTALL,
    NOTICE,
    RADII,
    SIDE,
    VOXEL,
    installed_folder,
    read_template,
)
from calipers.studies.anomaly.controlled import (
    AXES,
    BASE,
    CROWDS,
    EXACT,
    FAINT,
    MOVES,
    RULES,
    STEEP,
    ControlledExperiments,
    controlled_steps,
    grid,
)
from calipers.studies.anomaly.data import SETTINGS
from calipers.studies.anomaly.experiments import AnomalyRun, HumanRanking, read_ranking
from calipers.studies.anomaly.figures import benchmark_figures, controlled_figures
from calipers.studies.anomaly.measures import ALPHA, METRICS, protocol
from calipers.studies.anomaly.tables import study_tables
from calipers.studies.framework import Claims, Study, StudyOptions, StudyResult
from calipers.studies.kept_archives import kept_archive
from calipers.studies.steps import Progress, StepSet

TITLE = "How metrics of anomaly maps respond to controlled errors, and a benchmark"
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
    "Defard T, Setkov A, Loesch A, Audigier R. PaDiM: a patch distribution modeling framework for "
    "anomaly detection and localization. ICPR workshops 2021.",
    "Roth K, et al. Towards total recall in industrial anomaly detection. CVPR 2022.",
    "Kascenas A, Pugeault N, O'Neil AQ. Denoising autoencoders for unsupervised anomaly detection "
    "in brain MRI. MIDL 2022.",
    "Deng H, Li X. Anomaly detection via reverse distillation from one-class embedding. CVPR 2022.",
    "Tan J, Hou B, Batten J, Qiu H, Kainz B. Detecting outliers with foreign patch interpolation. "
    "arXiv:2011.04197, 2020.",
    "Fonov V, et al. Unbiased average age-appropriate atlases for pediatric studies. NeuroImage "
    "2011, 54, 313-327.",
)

METHODS = (
    "Controlled experiments. Samples contain discs (2D) or spheres (3D) at random places that do "
    "not touch. Maps are 1 where something is found and 0 elsewhere, so that all thresholds are "
    "equivalent. (a) Two large objects are found at "
    f"{BASE:g} of their radius; small objects are added to the references and found, and the large "
    "ones lose as many of their outermost voxels. In a second reading the references have two "
    "large and four small objects throughout. (b) Four equal objects, found with another radius. "
    f"(c) False objects of the same size in addition, with a score of 1 or of {FAINT:g}. (d) "
    "Missed objects, in every sample or in new samples. (e) One of four objects is missed, and "
    "samples without objects are added. (a) to (c) are also run on soft maps in 2D, whose scores "
    f"are 1 / (1 + (distance / radius)^{STEEP}). What the paper leaves open is scanned: the share "
    "of designs in which a sentence holds stands beside its verdict, which is that of the design "
    "above.",
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
    "Benchmark. The MNI152 template (T1; grey and white matter, from which the T2-like contrast "
    f"is made), sampled at {VOXEL:g} mm to {SIDE} x {SIDE} x {SIDE} voxels, is deformed at random "
    "into brains: rotation, scaling and shift, a smooth displacement, contrast, bias field and "
    "noise. The brains are of one template, so they differ less than people do. Every second test "
    "brain has one large and four small spheres (radii "
    f"{RADII[0]:g} and {RADII[1]:g} voxels), each of one grey value that differs from what was "
    f"there by {CONTRAST[0]:g} to {CONTRAST[1]:g} of the full range. Algorithms are trained on "
    "normal brains only, networks once each, on one thread of a processor for minutes: they stand "
    "for their kinds, not for the best that such networks can do. Maps are calibrated to [0, 1]: "
    "odds are a power of the raw score, such that one in 1000 voxels of further normal brains "
    "reaches 0.5 and one in 100 reaches 0.01. This does not change the ranks of voxels.",
    "Settings. T1 stands for the paper's Cam-CAN experiment: ten algorithms where the paper has "
    "seven. MOOD-like stands for its second one: brains of another contrast, and the kinds of "
    "algorithms that entered that challenge, on slices and on whole volumes. The data and the "
    "entries of the challenge itself are not public in a form that could be run here.",
    f"Rules. {RULES.provenance} The hash of the rules is part of the result. A metric moves if it "
    f"changes by more than {MOVES:g}.",
    NOTICE,
)
# In the order of the rules, which is that of the paper.
ORDER = list(RULES.statements)
CLAIMS = Claims[AnomalyRun](
    sorted(claims.CLAIMS.entries, key=lambda entry: ORDER.index(entry[0].name)), RULES
)


def prepare(options: StudyOptions, progress: Progress) -> StepSet[StudyResult]:
    """Return the steps of all experiments, which make the result with all claims judged."""
    archive, inputs = _archive(options, progress)
    ranking = None
    if options.ranking is not None:
        ranking = read_ranking(options.ranking, archive.benchmarks[0].algorithms)
        inputs = (*inputs, ranking.entry)
    controlled = controlled_steps(options.seed, quick=options.quick)
    return StepSet(
        controlled.steps,
        lambda results: _result(options, archive, inputs, ranking, controlled.compose(results)),
    )


def _result(
    options: StudyOptions,
    archive: AnomalyArchive,
    inputs: tuple[Mapping[str, Any], ...],
    ranking: HumanRanking | None,
    controlled: ControlledExperiments,
) -> StudyResult:
    """Judge all claims by what the steps returned."""
    benchmarks, no_brains, warnings = with_first_brains(archive)
    numbers = AnomalyRun(controlled, benchmarks, ranking, options.seed, no_brains)
    return StudyResult(
        study=STUDY.name,
        title=TITLE,
        citation=CITATION,
        source=_source(numbers, archive),
        seed=options.seed,
        quick=options.quick,
        settings=_settings(numbers, archive, quick=options.quick),
        claims=CLAIMS.judge_all(numbers),
        figures=(*controlled_figures(numbers), *benchmark_figures(numbers)),
        appendix=study_tables(numbers),
        methods=METHODS,
        references=REFERENCES,
        inputs=inputs,
        warnings=warnings,
    )


def with_first_brains(
    archive: AnomalyArchive,
) -> tuple[tuple[Benchmark, ...], str, tuple[str, ...]]:
    """Return the benchmarks with the brains that figures show, or why they show none.

    Without nilearn the figures say so; an installed one that does not fit is a warning too.
    """
    benchmarks = archive.benchmarks
    if all(bench.examples[0].image is not None for bench in benchmarks):
        return benchmarks, "", ()
    hidden = "The brains behind the maps are not shown"
    if installed_folder() is None:
        reason = f"{hidden}: they are made from the MNI152 template of nilearn ({INSTALL})."
        return benchmarks, reason, ()
    try:
        template = read_template()
        pictured = [with_brains(one, archive.about, template, n=1) for one in benchmarks]
    except CalipersError as error:
        reason = f"{hidden}: {error}"
        return benchmarks, reason, (reason,)
    return tuple(pictured), "", ()


def _archive(
    options: StudyOptions, progress: Progress
) -> tuple[AnomalyArchive, tuple[Mapping[str, Any], ...]]:
    """Return the benchmark of a new training, of a folder, or the one that ships."""
    if options.train:
        from calipers.studies.anomaly.brain_training import train_benchmarks

        keep = None if options.keep is None else Path(options.keep)
        archive = train_benchmarks(
            seed=options.seed, quick=options.quick, progress=progress, keep=keep
        )
        return archive, ()
    return open_brains(options.keep)


def open_brains(
    keep: str | Path | None = None,
) -> tuple[AnomalyArchive, tuple[Mapping[str, Any], ...]]:
    """Return the archive of a folder, or the one that ships, and the entry of its file."""
    path = shipped_brains() if keep is None else kept_archive(keep, FILE, "anomaly")
    archive = AnomalyArchive.read(path)
    facts = {"file": path.name, "bytes": path.stat().st_size, "sha256": hash_file(path)}
    return archive, (facts,)


def _source(run: AnomalyRun, archive: AnomalyArchive) -> str:
    n = run.ranked.counts
    networks = sum(
        record.kind != "without a network" for bench in run.benchmarks for record in bench.records
    )
    return (
        f"Controlled experiments: {run.controlled.samples} samples of discs (2D) and of spheres "
        f"(3D) each. Benchmark: {networks} networks trained on {n.training} normal brains of each "
        f"of two settings (the MNI152 template, deformed at random), scores calibrated on "
        f"{n.calibration}, and {n.test} test brains, half of them with spheres. Made by: "
        f"{archive.about['command']}. The paper used brains of Cam-CAN and MOOD."
    )


def _settings(run: AnomalyRun, archive: AnomalyArchive, *, quick: bool) -> Mapping[str, Any]:
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
        **{f"benchmark {one.name}: algorithms": list(one.algorithms) for one in run.benchmarks},
        "training": dict(archive.about),
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
    statements=tuple(statement for statement, _ in CLAIMS.entries),
    prepare=prepare,
    takes=frozenset({"ranking", "train"}),
    rules=("anomaly/claims.toml",),
)
