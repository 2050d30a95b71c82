# SPDX-License-Identifier: Apache-2.0
"""The experiments of Robust Detection Outcome (Meissen et al., MIDL 2023)."""

from __future__ import annotations

from calipers.plots.figures import Axis, Curves, Line
from calipers.studies.framework import Progress, Statement, Study, StudyFigure, StudyOptions, StudyResult
from calipers.studies.rodeo.data import study_data
from calipers.studies.rodeo.sweeps import ACCURACIES, run_all

CITATION = (
    "Meissen F, Müller P, Kaissis G, Rueckert D. Robust detection outcome: a metric for pathology detection in medical "
    "images. MIDL 2023."
)
STATEMENTS = (
    Statement("accuracy-rises", "Accuracy at IoU 0.5 rises as more boxes are missed.", "section 5, figure 4"),
)


def run(options: StudyOptions, progress: Progress) -> StudyResult:
    """Run the study."""
    data = study_data(options)
    runs = options.runs or (2 if options.quick else 5)
    found = run_all(data.cohort, runs=runs, seed=options.seed, quick=options.quick, progress=progress)["figure-4"]
    x = found.axes[0].values
    import numpy as np

    lines = tuple(
        Line(name, np.array(x, float), *(t[0] for t in (found.line(name),)), slot=k)
        for k, name in enumerate(ACCURACIES)
    )
    figure = StudyFigure("figure-4", "Accuracy rises", "", (Curves("accuracy", Axis("p"), Axis("accuracy"), lines),))
    value = found.line("accuracy@0.5")[0]
    claim = STUDY.claim("accuracy-rises", bool(value[-1] > value[0]), f"{value[0]:.3f} to {value[-1]:.3f}")
    return StudyResult(
        "rodeo", STUDY.title, CITATION, data.source, options.seed, options.quick, {"runs": runs}, (claim,), (figure,)
    )


STUDY = Study(
    "rodeo",
    "What metrics see: AP, accuracy and RoDeO under errors made on purpose",
    CITATION,
    STATEMENTS,
    run,
    frozenset({"data", "predictions", "runs"}),
)
