# SPDX-License-Identifier: Apache-2.0
"""The study of RoDeO: runs data, sweeps, figures, tables and claims in this order.

`STUDY` is what `calipers.studies.framework` loads; `prepare` takes `StudyOptions` and returns the
steps that make a `StudyResult`. Data come from `data`, sweeps from `experiments`, claims from
`claims` and `claims_place`. The paper is Meissen et al., MIDL 2023.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.data.cohort import Cohort
from calipers.io.source import hash_file
from calipers.results.estimate import Estimate
from calipers.show.table import Table
from calipers.studies.framework import (
    Claim,
    Claims,
    Study,
    StudyFigure,
    StudyOptions,
    StudyResult,
    counterparts_table,
)
from calipers.studies.kept_archives import kept_archive
from calipers.studies.open_choices import Scan
from calipers.studies.rodeo import claims, claims_place
from calipers.studies.rodeo.chexnets import (
    FILE,
    ChexnetArchive,
    shipped_networks,
    train_networks,
)
from calipers.studies.rodeo.claims import INVARIANT, RULES, TURN, RodeoRun
from calipers.studies.rodeo.data import (
    StudyData,
    examples,
    examples_table,
    figure_1,
    figure_2,
    figure_6,
    study_data,
)
from calipers.studies.rodeo.experiments import EXPERIMENTS, protocol, sweep_steps
from calipers.studies.rodeo.figures import sweep_figures
from calipers.studies.rodeo.oracle_choices import scan_of, scan_table
from calipers.studies.rodeo.readers import CITATION as VINDR_CITATION
from calipers.studies.rodeo.readers import MISSING, reader_cohorts, reader_table, vindr_table
from calipers.studies.rodeo.tables import (
    TOTAL,
    class_estimates,
    model_table,
    printed_table,
    theory_table,
)
from calipers.studies.steps import Progress, StepSet, StudyStep

# Runs of every oracle with random numbers of their own; five as in the paper.
RUNS, QUICK_RUNS = 5, 2
# Seconds of the intervals of a trained network, and of all readers.
NETWORK_SECONDS, READERS_SECONDS = 0.1, 10.0
TITLE = "How accuracy, average precision and RoDeO respond to deliberate errors"
CITATION = (
    "Meissen F, Müller P, Kaissis G, Rueckert D. Robust detection outcome: a metric for pathology "
    "detection in medical images. MIDL 2023."
)
REFERENCES = (
    "Wang X, et al. ChestX-ray8: hospital-scale chest X-ray database and benchmarks on "
    "weakly-supervised classification and localization of common thorax diseases. CVPR 2017, "
    "2097-2106.",
    "Lin TY, et al. Microsoft COCO: common objects in context. ECCV 2014, 740-755.",
    "Rajpurkar P, et al. CheXNet: radiologist-level pneumonia detection on chest X-rays with deep "
    "learning. arXiv:1711.05225, 2017.",
    "Alpaydin E, Kaynak C. Optical recognition of handwritten digits. UCI Machine Learning "
    "Repository, 1998; as bundled with scikit-learn (BSD-3-Clause): the canvases of digits.",
)
# In the order of the rules, which is that of the paper.
ORDER = list(RULES.statements)
ENTRIES = [
    *claims_place.OPENING.entries,
    *claims_place.NOISE.entries,
    *claims_place.APPENDIX.entries,
    *claims.MAIN.entries,
    *claims.TABLE.entries,
    *claims.DESIGN.entries,
    *claims.RANDOM.entries,
    *claims.APPENDIX.entries,
]
CLAIMS = Claims[RodeoRun](sorted(ENTRIES, key=lambda entry: ORDER.index(entry[0].name)), RULES)

METHODS = (
    "Oracle models know the references and corrupt them by a known amount (appendix A of the "
    "paper); all their boxes have score 1. Every point is the mean of several runs with different "
    "random numbers. The same numbers are used at every strength of a corruption, so that curves "
    "are smooth. A position bias is multiplied by the size of the box: the division that the "
    "paper prints contradicts its own figure.",
    "Average precision: 101 recalls, mean over classes, assignment in order of scores. Equal "
    "scores are one operating point, as appendix E of the paper defines; AP in order breaks ties "
    "by input order instead, as pycocotools does, and is reported where it matters. Accuracy: "
    "true positives, false alarms and misses; the true negatives of a class are the images that "
    "neither have nor predict it; mean over classes; assignment by overlap. RoDeO: the weight of "
    "the class in the pairing is the MCC of class presence over the data set, as in the code of "
    "its authors; no epsilon.",
    "The rules for verdicts are the same for every data set: a score is invariant if its range is "
    f"below {INVARIANT:g}; it declines if it ends lower by more than that and the mean over runs "
    f"never rises by more than {TURN:g} from one grid point to the next; a claim about several "
    "metrics or thresholds holds in part if it holds for some of them. Claims that the "
    f"definitions decide are checked exactly. {RULES.provenance} Where a verdict depends on such "
    "a rule, rely on the numbers next to it.",
    "What the paper leaves open: the half of the images, the order of equal scores, and the "
    "strengths of the corruptions. Sentences about figures 3 to 5 and 7 to 11 are judged again "
    "under every combination (on both halves, in both orders, with every and with every second "
    "strength; a quick run has one half and one grid), by the same rules. The share in which they "
    "hold stands beside the verdict, which is that of the test half, of equal scores as one step, "
    "and of every strength. This scan is younger than the results.",
    "Trained networks (table 1). Two small networks of the kind of CheXNet (class activation maps "
    "of the last layer) learned from labels of whole images: on canvases of ten digits, and on "
    "drawn chests with nodules, masses, effusions and large hearts. Maps become boxes as in the "
    "paper, thresholds 60 and 180 of 255, the best box of each class and image. The ChestX-ray8 "
    "pictures that the paper trains on were not available.",
)
# What the paper has, and where it is on the page.
COUNTERPARTS = (
    ("figure 1 (example images)", "figure 1, on drawn chests, and a table with the printed values"),
    ("figure 2 (offsets)", "figure 2, exact"),
    (
        "figures 3 to 5 (place, shape; missed and repeated boxes)",
        "figures 3 to 5; AP in both orders of equal scores, with the authors' own beside",
    ),
    ("figure 6 (similarities of shapes)", "figure 6, exact"),
    ("figures 7 to 11 (appendix D)", "figures 7 to 11"),
    ("table 1 (a trained CheXNet)", "table 1 as printed, with the means that it implies"),
    ("table 1, trained again", "as table 1, for networks on canvases of digits and drawn chests"),
)


def prepare(options: StudyOptions, progress: Progress) -> StepSet[StudyResult]:
    """Return the steps of all experiments, which make the result with all claims judged."""
    data = study_data(options)
    archive, inputs = _networks(options, progress)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    replicates = 200 if options.quick else 1000
    networks: dict[Hashable, StudyStep] = {}
    for record in archive.networks:
        arguments = (record.cohort(), record.model, options.seed, replicates)
        networks[record.name] = StudyStep("table 1", network_estimates, arguments, NETWORK_SECONDS)
    sets: dict[str, StepSet[Any]] = {"networks": StepSet.of(networks, dict)}
    halves = {"sweeps": data.cohort}
    if not options.quick:
        halves["other sweeps"] = data.other
    for name, half in halves.items():
        sets[name] = sweep_steps(half, runs=runs, seed=options.seed, quick=options.quick)
    vindr = vindr_table()
    if vindr is not None:
        cohorts = reader_cohorts(vindr, quick=options.quick)
        choices = (cohorts, options.seed, options.quick)
        step = StudyStep("readers", readers_estimates, choices, READERS_SECONDS)
        sets["readers"] = StepSet((step,), lambda results: (cohorts, results[0]))
    return StepSet.join(sets, lambda parts: _result(data, options, runs, archive, inputs, parts))


def network_estimates(
    cohort: Cohort, model: str, seed: int, replicates: int
) -> dict[str, dict[str, Estimate]]:
    """Return table 1 of a trained network, with intervals."""
    return class_estimates(cohort, model, seed=seed, replicates=replicates)


def readers_estimates(cohorts: Mapping[str, Cohort], seed: int, quick: bool) -> Table:
    """Return the table of the readers, with intervals."""
    return reader_table(cohorts, seed=seed, quick=quick)


def _result(
    data: StudyData,
    options: StudyOptions,
    runs: int,
    archive: ChexnetArchive,
    inputs: tuple[Mapping[str, Any], ...],
    parts: Mapping[str, Any],
) -> StudyResult:
    """Judge all claims by what the steps returned."""
    model_tables = []
    for k, model in enumerate(data.cohort.models, start=1):
        model_tables.append(model_table(data.cohort, f"table-1-{k}", model))
    trained: dict[str, dict[str, dict[str, float]]] = {}
    for record in archive.networks:
        values = parts["networks"][record.name]
        words = f"of its test set (trained on {record.about}; mean AUC {record.auc:.3f})"
        name = f"table-1-{record.name}"
        model_tables.append(model_table(record.cohort(), name, record.model, words, values))
        for label, own in values.items():
            if label != TOTAL:
                numbers_of = {metric: estimate.value for metric, estimate in own.items()}
                trained.setdefault(record.name, {})[label] = numbers_of
    numbers = RodeoRun(parts["sweeps"], examples(), data.cohort, options.seed, trained)
    other = None
    if "other sweeps" in parts:
        other = replace(numbers, sweeps=parts["other sweeps"], cohort=data.other)
    scan = scan_of(numbers, CLAIMS.entries, other)
    methods: tuple[str, ...] = METHODS
    readers_text = "as table 1, for radiologists of VinDr-CXR against each other"
    has_readers = "readers" in parts
    if not has_readers:
        methods = (*METHODS, MISSING)
        readers_text = "radiologists as predictors: not here, torchxrayvision is not installed"
    else:
        cohorts, table = parts["readers"]
        model_tables.append(table)
        # Class by class without intervals, as the printed table, for one choice of the reference.
        readers = next(iter(cohorts.values()))
        for reader in readers.models:
            name = f"table-1-reader-{reader.lower()}"
            table = model_table(readers, name, reader, "of VinDr-CXR", against=next(iter(cohorts)))
            model_tables.append(table)
    return StudyResult(
        study=STUDY.name,
        title=TITLE,
        citation=CITATION,
        source=data.source,
        seed=options.seed,
        quick=options.quick,
        settings=_settings(numbers, runs, data),
        claims=_with_shares(CLAIMS.judge_all(numbers), scan),
        figures=_figures(numbers),
        appendix=(
            *model_tables,
            scan_table(scan),
            theory_table(numbers),
            printed_table(),
            examples_table(numbers.examples),
            counterparts_table((*COUNTERPARTS, ("table 1, real predictors", readers_text))),
        ),
        methods=methods,
        references=(*REFERENCES, VINDR_CITATION) if has_readers else REFERENCES,
        inputs=(*data.inputs, *inputs),
    )


def _with_shares(judged: Sequence[Claim], scan: Scan) -> tuple[Claim, ...]:
    """Return the claims, those about sweeps with the share of configurations in which they hold."""
    claims = []
    for claim in judged:
        share = scan.share(claim.name) if claim.name in scan.sentences else None
        claims.append(claim if share is None else replace(claim, share=share))
    return tuple(claims)


def _networks(
    options: StudyOptions, progress: Progress
) -> tuple[ChexnetArchive, tuple[Mapping[str, Any], ...]]:
    """Return the networks of a new training, of a folder, or those that ship."""
    if options.train:
        keep = None if options.keep is None else Path(options.keep)
        archive = train_networks(
            seed=options.seed, quick=options.quick, progress=progress, keep=keep
        )
        return archive, ()
    path = shipped_networks()
    if options.keep is not None:
        path = kept_archive(options.keep, FILE, "rodeo")
    archive = ChexnetArchive.read(path)
    facts = {"file": path.name, "bytes": path.stat().st_size, "sha256": hash_file(path)}
    return archive, (facts,)


def _figures(run: RodeoRun) -> tuple[StudyFigure, ...]:
    """Return figures 1 to 11 in the order of the paper, then the side figure."""
    figures = sweep_figures(run)
    for figure in (figure_1(run.examples), figure_2(), figure_6()):
        figures[figure.name] = figure
    names = [f"figure-{k}" for k in range(1, 12)]
    return tuple(figures[name] for name in (*names, "figure-side"))


def _settings(run: RodeoRun, runs: int, data: StudyData) -> Mapping[str, Any]:
    # The grids of this run, which are coarser if it is quick.
    grids: dict[str, Any] = {}
    for experiment in EXPERIMENTS:
        for axis in run.sweeps[experiment.name].axes:
            grids[f"{experiment.name}: {axis.name}"] = list(axis.values)
        if experiment.always:
            grids[f"{experiment.name}: always"] = list(experiment.always)
    return {
        "runs": runs,
        "images in all": data.all_images,
        "images of the test half": data.cohort.n_images,
        "boxes of the test half": len(data.cohort.references),
        "classes": list(data.cohort.classes),
        "invariant: range below": INVARIANT,
        "noise: rise of a mean below": TURN,
        **grids,
        "protocol": protocol().to_toml(),
    }


STUDY = Study(
    name="rodeo",
    title=TITLE,
    citation=CITATION,
    statements=tuple(statement for statement, _ in CLAIMS.entries),
    prepare=prepare,
    takes=frozenset({"data", "predictions", "runs", "train"}),
    rules=("rodeo/claims.toml",),
)
