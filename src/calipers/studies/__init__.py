# SPDX-License-Identifier: Apache-2.0
"""Studies: published experiments that run from end to end, and say of every claim whether it held."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from calipers.errors import UsageError, did_you_mean
from calipers.studies.framework import Progress, Study, StudyOptions, StudyResult

__all__ = ["STUDIES", "StudyResult", "load_study", "run_study"]

# name -> (where it is, what it asks in one line); a study is imported when it is run.
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
    progress: Progress = lambda what, done, total: None,
) -> StudyResult:
    """Run a published experiment and judge the claims of its paper.

    Parameters
    ----------
    name
        One of `STUDIES`.
    data
        A file or folder of the study's own data; data that Calipers makes if left out.
    predictions
        Files of models for the table of given predictions, by name.
    ranking
        A file in which people rank the algorithms of a benchmark: columns ``algorithm`` and
        ``rank``.
    ood
        Which images of ``data`` are out of distribution: a column of flags, or
        ``column=value,value``.
    runs
        With other random numbers each; as in the paper if left out.
    seed
        The same seed gives the same figures, to the last bit.
    quick
        Coarser grids and less data: to try it out, not to cite.
    progress
        Called with (what is being done, units done, units in all).
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
