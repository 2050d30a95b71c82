# SPDX-License-Identifier: Apache-2.0
"""Studies: published experiments, run from end to end, with a verdict on every claim of the paper.

`run_study` is what the command ``calipers study`` and Python users call. A name and options come
in, a `StudyResult` goes out; `calipers.studies.writing.write_study` writes it into a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from calipers.errors import UsageError, did_you_mean
from calipers.studies.framework import Progress, Study, StudyOptions, StudyResult

__all__ = ["STUDIES", "StudyResult", "load_study", "run_study"]

# name -> (module and variable, the question in one line). A study is imported only when it is run,
# because some need optional packages.
STUDIES: Mapping[str, tuple[str, str]] = {
    "rodeo": (
        "calipers.studies.rodeo:STUDY",
        "what AP, accuracy and RoDeO see of errors made on purpose (MIDL 2023)",
    ),
    "anomaly": (
        "calipers.studies.anomaly:STUDY",
        "what metrics of anomaly maps see, and a benchmark (2024)",
    ),
    "stability": (
        "calipers.studies.stability:STUDY",
        "do repeated trainings find the same places; what scores see of it",
    ),
    "monitors": (
        "calipers.studies.monitors:STUDY",
        "whether OOD labels rank runtime monitors as failures do (2025)",
    ),
}


def load_study(name: str) -> Study:
    """Return a study by its name."""
    if name not in STUDIES:
        raise UsageError(f"no study {name!r}; {did_you_mean(name, STUDIES)}")
    module, _, variable = STUDIES[name][0].partition(":")
    study: Study = getattr(import_module(module), variable)
    return study


def run_study(
    name: str,
    *,
    data: str | Path | None = None,
    predictions: Mapping[str, str] | None = None,
    ranking: str | Path | None = None,
    ood: str | None = None,
    runs: int | None = None,
    seed: int = 0,
    quick: bool = False,
    progress: Progress = lambda what, step, total: None,
) -> StudyResult:
    """Run a published experiment and judge the claims of its paper.

    Parameters
    ----------
    name
        One of `STUDIES`.
    data
        File or folder with data for the study; Calipers simulates data if this is left out.
    predictions
        Prediction files by model name, for the table of your own models.
    ranking
        File with a ranking of the algorithms by people: columns ``algorithm`` and ``rank``.
    ood
        Which images of ``data`` are out of distribution: a column of flags, or
        ``column=value,value``.
    runs
        Number of runs, each with its own random numbers; that of the paper if left out.
    seed
        Seed of all random numbers. The same seed gives bit-identical results.
    quick
        Use coarse grids and little data. For trying the study out, not for citing.
    progress
        Called with (description of the step, steps finished, steps in total).
    """
    study = load_study(name)
    options = StudyOptions(
        data=data,
        predictions=predictions or {},
        ranking=ranking,
        ood=ood,
        runs=runs,
        seed=seed,
        quick=quick,
    )
    study.check(options)
    return study.run(options, progress)
