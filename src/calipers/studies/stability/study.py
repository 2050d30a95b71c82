# SPDX-License-Identifier: Apache-2.0
"""The study of stability: counted scores, trained networks or given maps, figures, tables, claims.

`STUDY` is what `calipers.studies.framework` loads; `prepare` takes `StudyOptions` and returns the
steps that make a `StudyResult`. The numbers of a run are a `StabilityRun` of `experiments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calipers.show.words import percent_text
from calipers.stability.analyse import SWEEP
from calipers.studies.framework import Claims, Study, StudyOptions, StudyResult
from calipers.studies.stability import claims, claims_maps, claims_networks
from calipers.studies.stability.data import RULES
from calipers.studies.stability.experiments import (
    PAIR,
    QUICK_REPLICATES,
    REPLICATES,
    StabilityRun,
    prepare_all,
)
from calipers.studies.stability.figures import study_figures
from calipers.studies.stability.networks import KNOWN, SHARES
from calipers.studies.stability.tables import study_tables
from calipers.studies.steps import Progress, StepSet

TITLE = "Do repeated trainings find the same places? What stability scores show"
CITATION = (
    "Romanova R, van Schoren J, Cheplygina V. Localization stability of weakly supervised deep "
    "neural networks."
)
REFERENCES = (
    "Cheplygina V, Sørensen L, Tax DMJ, de Bruijne M, Loog M. Label stability in multiple "
    "instance learning. MICCAI 2015, 539-546.",
    "Feinstein AR, Cicchetti DV. High agreement but low kappa: I. The problems of two paradoxes. "
    "Journal of Clinical Epidemiology 1990, 43, 543-549.",
    "Kuncheva LI. A stability index for feature selection. Artificial Intelligence and "
    "Applications 2007, 390-395.",
    "Li Z, et al. Thoracic disease identification and localization with limited supervision. CVPR "
    "2018.",
    "LeCun Y, Cortes C, Burges CJC. The MNIST database (CC BY-SA 3.0). Xiao H, Rasul K, Vollgraf "
    "R. Fashion-MNIST (MIT), arXiv:1708.07747, 2017. Alpaydin E, Kaynak C. Optical recognition of "
    "handwritten digits, as bundled with scikit-learn (BSD-3-Clause). Of these no picture is "
    "shown.",
)
# In the order of the paper.
CLAIMS = Claims[StabilityRun](
    [
        *claims.CLAIMS.entries,
        *claims_maps.CHOICE.entries,
        *claims_maps.BAGS.entries,
        *claims_networks.BAG_LEVEL.entries,
        *claims_networks.OPERATORS.entries,
        *claims_maps.DISCUSSION.entries,
        *claims_networks.ALWAYS.entries,
        *claims_networks.CLAIMS.entries,
    ]
)

DATA_WORDS = (
    "Data. digits and clothes: 3 to 5 characters of MNIST (or of scikit-learn's digits) and of "
    "Fashion-MNIST on noise, a bag is positive if one is a 0, or an ankle boot; test bags show "
    "characters that no training bag shows. chests: drawn radiographs, positive with a mass; "
    "nodules and effusions occur in both kinds. Three in ten chests are of low quality: small, "
    "faint and noisy, which leaves most of the square to padding. Every positive test bag has a "
    "box."
)
METHODS = (
    "Maps are stored with 8 bits of the logit. Calls at 0.5 are exact; the archive states how much "
    "other scores change.",
    "Scores. Scores are computed per bag and unordered pair of models; the score of a bag is the "
    "mean over its defined pairs, that of a cell the mean over positive bags. Instances are "
    "positive at 0.5 or more. A pair whose maps call all instances alike is undefined; it is "
    "skipped and counted. Spearman is the correlation of midranks, and Kendall's tau is tau-b "
    "unless stated otherwise; negative values are kept. Intervals resample bags.",
    "Counting. Limits and monotonicity are checked exactly on every 2x2 table of up to 24 "
    "instances (12 in a quick run). A move changes one instance; a score is monotone under a move "
    "if it falls in no table.",
    "Verdicts. Claims that definitions decide are checked exactly. Claims about networks are "
    "judged by the networks of this run, or by given maps; the same rule applied to the printed "
    "table VII stands beside it. Claims about X-Ray, MURA and Pascal VOC by name are judged by "
    "the printed numbers only. One simulated pair of families shows that stable models can be "
    "wrong. " + RULES.provenance.strip(),
    "Not repeated. Figures 1, 3 and 4 are drawings of annotations, of the architecture and of the "
    "comparison of five models; they show no result. Table VIII lists the settings of the paper's "
    "networks, which are plans of calipers train (xray-cardiomegaly-noisy-or and others). "
    "Five-fold cross-validation (tables V and VII) would take five times as many networks; "
    "five subsets stand for it.",
)


def prepare(options: StudyOptions, progress: Progress) -> StepSet[StudyResult]:
    """Return the steps of the run, which make the result with all claims judged."""
    numbers = prepare_all(options, progress)
    return StepSet(numbers.steps, lambda results: _result(options, numbers.compose(results)))


def _result(options: StudyOptions, numbers: StabilityRun) -> StudyResult:
    """Judge all claims by the numbers of a run."""
    warnings: tuple[str, ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()
    if numbers.maps is not None:
        warnings, inputs = numbers.maps.notes, numbers.maps.inputs
    elif numbers.archive is not None:
        inputs = (numbers.archive.source,)
    return StudyResult(
        study=STUDY.name,
        title=TITLE,
        citation=CITATION,
        source=_source(numbers),
        seed=options.seed,
        quick=options.quick,
        settings=_settings(numbers, quick=options.quick),
        claims=CLAIMS.judge_all(numbers),
        figures=study_figures(numbers),
        appendix=study_tables(numbers),
        methods=(*_network_methods(numbers), *METHODS),
        references=REFERENCES,
        warnings=warnings,
        inputs=inputs,
    )


def _network_methods(run: StabilityRun) -> tuple[str, ...]:
    """Return paragraphs about the networks and their data; given maps speak for themselves."""
    if run.archive is None:
        return ()
    size = run.archive.record["settings"]
    n_instances = f"{size['grid']} x {size['grid']}"
    networks = (
        "Networks. Three convolutions (two with stride 2), a convolution 3x3 and one 1x1 turn a "
        f"picture of {size['side']} x {size['side']} pixels into {n_instances} instances; a "
        "pooling operator makes them the probability of the bag; the loss is the cross-entropy of "
        f"bag labels. Adam, one-cycle schedule, {size['epochs']} epochs, {size['n_train']} bags, "
        f"half of them positive; {size['subsets']} trainings on random subsets of 95 % with "
        f"different first weights, all tested on the same {size['n_test']} bags. With known "
        f"instances, those of {percent_text(SHARES[KNOWN])} of the positive training bags are "
        "known and count five times. Size and plan were chosen on networks of another seed, so "
        "that all networks are trained in minutes. They are much smaller than those of the paper, "
        "and start from random weights: orders and signs may be compared with the paper, numbers "
        "may not."
    )
    return networks, DATA_WORDS


def _source(run: StabilityRun) -> str:
    if run.archive is None:
        return (
            f"Maps of {len(run.cells)} pairs of data set and pooling operator were given; claims "
            "about networks are judged by them."
        )
    record = run.archive.record
    sets = ", ".join(run.archive.bags)
    n = len(record["models"])
    return (
        f"{n} networks were trained (seed {record['settings']['seed']}, PyTorch "
        f"{record['torch']}, {record['cpu_seconds'] / 60:.0f} minutes on one core): {sets}; "
        f"{len(run.cells)} pairs of setting and pooling operator, "
        f"{record['settings']['subsets']} models each."
    )


def _settings(run: StabilityRun, *, quick: bool) -> Mapping[str, Any]:
    training: dict[str, Any] = {}
    if run.archive is not None:
        record = run.archive.record
        for name, value in record["settings"].items():
            training[f"networks: {name}"] = value
        training["networks: trained by"] = " ".join(record["command"])
        training["networks: source"] = record["source"]
        training["networks: hash of the characters"] = record["inputs"]
        training["networks: PyTorch"] = record["torch"]
        rounding = record["quantisation"]
        training["maps: levels of the logit"] = rounding["levels"]
        for unit in ("bag", "cell"):
            for score, change in rounding[f"largest_change_of_a_{unit}"].items():
                training[f"maps: largest change of {score} of a {unit} by rounding"] = change
    return {
        "largest N of the tables counted": run.counting.most,
        "tables counted": len(run.counting.tables),
        "simulated pair": list(PAIR),
        "threshold": 0.5,
        "thresholds of the sweep": list(SWEEP),
        "replicates": QUICK_REPLICATES if quick else REPLICATES,
        "log-sum-exp: r": [one.r for one in run.soft],
        **training,
    }


STUDY = Study(
    name="stability",
    title=TITLE,
    citation=CITATION,
    statements=tuple(statement for statement, _ in CLAIMS.entries),
    prepare=prepare,
    takes=frozenset({"data", "train"}),
    rules=("stability/claims.toml",),
)
