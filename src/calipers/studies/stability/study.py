# SPDX-License-Identifier: Apache-2.0
"""The study of stability: runs counted scores, families or given maps, figures, tables and claims.

`STUDY` is what `calipers.studies.framework` loads; `run` takes `StudyOptions` and returns a
`StudyResult`. The numbers of a run are a `StabilityRun` of `experiments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calipers.stability.analyse import SWEEP
from calipers.studies.framework import Claims, Progress, Study, StudyOptions, StudyResult
from calipers.studies.stability import claims, claims_maps, claims_networks, data
from calipers.studies.stability.experiments import (
    QUICK_REPLICATES,
    REPLICATES,
    StabilityRun,
    run_all,
)
from calipers.studies.stability.figures import study_figures
from calipers.studies.stability.tables import study_tables
from calipers.synthetic.bags import FAMILIES

TITLE = "Do repeated trainings find the same places? What stability scores see"
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

METHODS = (
    "Scores. Scores are computed per bag and unordered pair of models; the score of a bag is the "
    "mean over its defined pairs, that of a family the mean over bags. Instances are positive at "
    "0.5 or more. A pair whose maps call all instances alike is undefined; it is skipped and "
    "counted. Spearman is the correlation of midranks, and Kendall's tau is tau-b unless stated "
    "otherwise; negative values are kept. Intervals resample bags.",
    "Counting. Limits and monotonicity are checked exactly on every 2x2 table of up to 24 "
    "instances (12 in a quick run). A move changes one instance; a score is monotone under a move "
    "if it falls in no table.",
    "Families. stable-good, stable-wrong and unstable are those of "
    "calipers.synthetic.bags.demo_bags: "
    "the same lesions, the same bag scores, and different places. The families like X-Ray, MURA "
    "and Pascal VOC have one recipe per pooling operator: the size of the marked area, an error "
    "of place that all models share and one of their own, the darkness of the background, shared "
    "and own texture, and a bag AUC. The recipes were chosen by hand with tables VI and VII in "
    "view. They show what scores make of such maps. They are no evidence of what networks do.",
    "Verdicts. Claims that definitions decide are checked exactly. Claims about networks, data "
    "sets and operators are judged by given maps, or by the numbers that the paper prints: do its "
    "sentences follow from its tables, which have two decimals and come from one set of five "
    "models each? Claims that something can happen are judged by families in which it does or "
    "does not. Claims about bags of networks without printed numbers are not tested without maps. "
    f"Rules: interchangeable is a correlation of at least {claims_maps.SAME:g}, linear one of at "
    f"least {claims_maps.LINEAR:g}, no relationship one of at most {claims_networks.NONE:g}; "
    f"similar and invariant are differences of at most {claims_networks.SIMILAR:g}; a jump is a "
    f"change of more than {claims_maps.JUMP:g}. The rules were not registered beforehand, and the "
    "printed numbers were known. After a first run two things were changed: the family scattered "
    "was added, because few simulated bags were well localized but unstable; and the claim about "
    "thresholds is judged family by family, because some families do decline.",
)


def run(options: StudyOptions, progress: Progress) -> StudyResult:
    """Run everything and judge all claims."""
    numbers = run_all(options, progress)
    warnings: tuple[str, ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()
    if numbers.maps is not None:
        warnings, inputs = numbers.maps.notes, numbers.maps.inputs
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
        methods=METHODS,
        references=REFERENCES,
        warnings=warnings,
        inputs=inputs,
    )


def _source(run: StabilityRun) -> str:
    n = next(iter(run.cells.values())).n_used
    if run.has_maps:
        return (
            f"Maps of {len(run.cells)} pairs of data set and pooling operator were given; claims "
            "about networks are judged by them."
        )
    return (
        f"No network was trained: maps are simulated, {n} positive bags and as many negative ones "
        f"for each of {len(run.cells)} pairs of data set and pooling operator, under five models. "
        "Claims about trained networks are judged by the numbers that the paper prints, or not at "
        "all."
    )


def _settings(run: StabilityRun, *, quick: bool) -> Mapping[str, Any]:
    recipes: dict[str, Any] = {}
    if not run.has_maps:
        # The recipes are part of the result, because they decide what the families look like.
        fields = ("size", "wrong", "own", "floor", "shared", "noise", "auc", "hard")
        recipes["recipe"] = list(fields)
        for key in run.cells:
            recipe = data.recipe_of(*key)
            recipes[", ".join(key)] = [getattr(recipe, name) for name in fields]
    return {
        "largest N of the tables counted": run.counting.most,
        "tables counted": len(run.counting.tables),
        "families": list(FAMILIES),
        "bags of every family": run.families["unstable"].n_bags,
        "threshold": 0.5,
        "thresholds of the sweep": list(SWEEP),
        "replicates": QUICK_REPLICATES if quick else REPLICATES,
        "log-sum-exp: r": [one.r for one in run.soft],
        **recipes,
    }


STUDY = Study(
    name="stability",
    title=TITLE,
    citation=CITATION,
    statements=tuple(statement for statement, _ in CLAIMS.entries),
    run=run,
    takes=frozenset({"data"}),
    rules=("stability/claims.py", "stability/claims_maps.py", "stability/claims_networks.py"),
)
