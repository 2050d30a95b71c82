# SPDX-License-Identifier: Apache-2.0
"""Measure whether models that were trained alike mark the same places: `stability`.

In come maps (arrays, or a source of bags) and optional labels; out goes a `StabilityResult`.
Called by `calipers.stability` and the ``stability`` command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import flag, one_of, real, several, shown
from calipers.errors import InputError, UsageError
from calipers.kernels.resampling import check_seed
from calipers.stability.cases import Cases
from calipers.stability.collecting import check_jobs, gather
from calipers.stability.localization import localization
from calipers.stability.pairs import check_undefined
from calipers.stability.plan import ALL_MODELS, StabilityPlan
from calipers.stability.remarks import remarks
from calipers.stability.result import StabilityResult
from calipers.stability.rows import stability_rows
from calipers.statistics.estimates import Certainty
from calipers.statistics.intervals import check_level, check_replicates
from calipers.statistics.weights import units_of
from calipers.tables.array_bags import ArrayBags
from calipers.tables.bags import Bags

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Progress = Callable[[int, int], None]

SWEEP = tuple(k / 10 for k in range(1, 10))
BAGS = ("positive", "all")


def stability(
    maps: Any,
    labels: Any = None,
    threshold: float = 0.5,
    *,
    undefined: Literal["skip", "agree", "one"] = "skip",
    bags: Literal["positive", "all"] = "positive",
    thresholds: Sequence[float] = SWEEP,
    models: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    instances: Any = None,
    groups: Mapping[str, Any] | None = None,
    bag_scores: Any = None,
    cluster: str | Sequence[str] = "auto",
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    ci: bool = True,
    kendall: bool = True,
    jobs: int = 1,
    progress: Progress | None = None,
) -> StabilityResult:
    """Measure how far models that were trained alike mark the same places.

    Parameters
    ----------
    maps
        An array (models, bags, ...instances...), a list with one (models, ...instances...) array
        per bag, ``{"model": maps}``, or any source of bags (`calipers.tables.bags.Bags`). A bag is
        an image; its instances are the pixels, voxels or patches that every model gives a value in
        [0, 1].
    labels
        (bags,) 0 or 1: whether there is something to find.
    threshold
        An instance is called positive at or above it (above it if it is 0).
    undefined
        A score of two maps that call everything alike is 0/0. ``skip`` leaves such pairs out and
        counts them; ``agree`` takes 1 if both call everything positive and 0 if both call nothing;
        ``one`` takes 1.
    bags
        ``positive`` uses the bags with something to find, if labels say which; ``all`` uses every
        bag.
    thresholds
        Thresholds of the sweep.
    instances
        The positive instances of the reference, one array per bag or None: for DICE and Jaccard.
    bag_scores
        (models, bags): the score of each model for the whole bag. Without them the maps are pooled.
    cluster
        Unit of resampling: ``auto`` (patient if ``groups`` has that column, else image) or a
        column of ``groups``.
    ci, level, replicates, seed
        Settings of the bootstrap intervals; ``ci=False`` computes none.
    kendall
        False leaves out Kendall's tau, the slowest score.
    jobs
        Number of threads; the numbers do not depend on it.

    Notes
    -----
    The score is computed for every bag and unordered pair of models; the value of a bag is the mean
    over its defined pairs, and the value of the analysis is the mean over bags. Pairs that share a
    model are not independent, so no interval counts pairs: intervals come from resampling bags (or
    patients) with these models, and, in ``leave_one_out``, from leaving out one model at a time.

    Examples
    --------
    >>> import numpy as np, calipers as cal
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.random((30, 64))  # 30 bags of 64 instances; 5 models see them with noise
    >>> maps = np.clip(shared + 0.1 * rng.standard_normal((5, 30, 64)), 0, 1)
    >>> result = cal.stability(maps, replicates=200)
    >>> round(result["APJ"].value, 2), result["APJ"].n_images, result["APJ"].unit
    (0.63, 30, 'image')
    """
    check_undefined(undefined)
    _check_certainty(level, replicates, seed, ci)
    check_jobs(jobs)
    check_progress(progress)
    kendall, thresholds = flag("kendall", kendall), several("thresholds", thresholds)
    every_threshold = _thresholds(threshold, thresholds)
    optional = {
        "models": models,
        "ids": ids,
        "groups": groups,
        "instances": instances,
        "bag_scores": bag_scores,
    }
    source = _source(maps, labels, optional)
    if ALL_MODELS in source.models:
        raise UsageError(
            f"no model may be called {ALL_MODELS!r}: results use that name for all models together"
        )
    selection, notes = _select_bags(source, bags)
    positive = None
    if source.positive is not None:
        positive = np.asarray(source.positive, np.bool_)[selection]
    columns = {name: np.asarray(column) for name, column in source.groups.items()}
    selected_columns = {name: column[selection] for name, column in columns.items()}
    plan = StabilityPlan(
        models=tuple(source.models),
        ids=tuple(source.ids[k] for k in np.flatnonzero(selection)),
        n_bags=len(source),
        positive=positive,
        threshold=float(threshold),
        sweep=tuple(dict.fromkeys(float(t) for t in thresholds)),
        undefined=undefined,
        bags=bags,
        kendall=kendall,
        units=units_of(selected_columns, int(selection.sum()), cluster),
        certainty=Certainty(
            level=float(level), replicates=int(replicates) if ci else 0, seed=int(seed)
        ),
        notes=(*source.notes, *notes),
    )
    pool = _bags_to_pool(source)
    evidence = gather(
        source, every_threshold, selection, pool, kendall=kendall, jobs=jobs, progress=progress
    )
    # The bag AUC needs the negative bags too, so its cases are all bags, not only the selection.
    cases = Cases.of(source, evidence.pooled_scores, units_of(columns, len(source), cluster))
    result = StabilityResult(
        plan=plan,
        evidence=evidence.pairs,
        cases=cases,
        stability_rows=tuple(stability_rows(evidence.pairs, plan)),
        localized=localization(evidence.pairs, plan, cases),
        source=source,
    )
    return replace(result, remarks=tuple(remarks(result)))


def check_progress(progress: Any) -> None:
    """Raise unless ``progress`` is None or a function."""
    if progress is not None and not callable(progress):
        raise UsageError(
            f"progress must be a function of (steps done, steps in all), got {shown(progress)}"
        )


def _check_certainty(level: float, replicates: int, seed: int, ci: bool) -> None:
    check_seed(seed)
    check_level(level)
    if flag("ci", ci):
        check_replicates(replicates)


def _thresholds(threshold: float, sweep: Sequence[float]) -> F64:
    """Return all thresholds in ascending order, each once."""
    numbers = []
    for value in (threshold, *sweep):
        number = real("a threshold", value)
        if not 0 <= number <= 1:
            raise UsageError(f"a threshold lies in [0, 1], as the values of maps do; got {value!r}")
        numbers.append(number)
    return np.unique(numbers)


def _source(maps: Any, labels: Any, optional: Mapping[str, Any]) -> Bags:
    """Return the bags: a source unchanged, arrays after checking them."""
    attributes = ("models", "ids", "bag_scores")
    if isinstance(maps, Mapping) or not all(hasattr(maps, name) for name in attributes):
        return ArrayBags.of(maps, labels, **optional)
    for name, value in {"labels": labels, **optional}.items():
        if value is not None:
            raise UsageError(
                f"a source of bags already has its {name}: set it in the source, or pass arrays"
            )
    source: Bags = maps
    return source


def _select_bags(source: Bags, bags: str) -> tuple[Flags, list[str]]:
    """Return which bags are analysed, and notes for the reader about that selection."""
    one_of("choice of bags", bags, BAGS)
    every = np.ones(len(source), np.bool_)
    if bags == "all":
        return every, []
    if source.positive is None:
        return every, ["there are no labels that mark positive bags: all bags are used"]
    positive = np.asarray(source.positive, np.bool_)
    if not positive.any():
        hint = "pass bags='all' to analyse negative bags"
        raise InputError(
            "at least one positive bag", rule="no-bags", field="labels", value="all 0", hint=hint
        )
    n_negative = int((~positive).sum())
    notes = []
    if n_negative:
        notes.append(
            f"{n_negative} of {len(source)} bags are negative and left out of the stability scores"
        )
    return positive, notes


def _bags_to_pool(source: Bags) -> Flags:
    """Return the bags whose maps must be pooled for the bag AUC.

    These are all bags if there are positive and negative ones and no bag scores, else none.
    """
    labels = source.positive
    needed = source.bag_scores is None and labels is not None and len(np.unique(labels)) == 2
    return np.full(len(source), needed)
