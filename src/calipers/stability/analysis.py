# SPDX-License-Identifier: Apache-2.0
"""Do models that were trained alike find the same places? `stability`."""

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
from calipers.stability.plan import ALL_MODELS, Plan
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
    """Measure how far models that were trained alike find the same places.

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
        ``positive`` looks at bags with something to find, if labels say which; ``all`` at every
        bag.
    thresholds
        Of the sweep.
    instances
        What is positive in the reference, one array per bag or None: for DICE and Jaccard.
    bag_scores
        (models, bags): what each model says of the whole bag. Without them the maps are pooled.
    cluster
        What the interval speaks for: ``auto`` (patient if ``groups`` know it, else image) or a
        column of ``groups``.
    ci, level, replicates, seed
        Of the intervals.
    kendall
        False leaves out Kendall's tau, which costs most.
    jobs
        Threads; numbers do not depend on them.

    Notes
    -----
    Per bag and unordered pair of models the score is computed; a bag has the mean over its defined
    pairs; the value is the mean over bags. Pairs that share a model are not independent, so
    intervals never count pairs: they come from resampling bags (or patients) with these models,
    and, in ``leave_one_out``, from leaving out one model at a time.

    Examples
    --------
    >>> import numpy as np, calipers as cal
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.random((30, 64))
    # 5 models, 30 bags, 64 instances
    >>> maps = np.clip(shared + 0.1 * rng.standard_normal((5, 30, 64)), 0, 1)
    >>> found = cal.stability(maps, replicates=200)
    >>> round(found["APJ"].value, 2), found["APJ"].n_images, found["APJ"].unit
    (0.63, 30, 'image')
    """
    check_undefined(undefined)
    _check_certainty(level, replicates, seed, ci)
    check_jobs(jobs)
    check_progress(progress)
    kendall, thresholds = flag("kendall", kendall), several("thresholds", thresholds)
    looked = _thresholds(threshold, thresholds)
    given = {
        "models": models,
        "ids": ids,
        "groups": groups,
        "instances": instances,
        "bag_scores": bag_scores,
    }
    source = _source(maps, {"labels": labels, **given})
    if ALL_MODELS in source.models:
        raise UsageError(
            f"no model may be called {ALL_MODELS!r}: that is the name of all of them together"
        )
    chosen, notes = _chosen(source, bags)
    columns = {name: np.asarray(column) for name, column in source.groups.items()}
    plan = Plan(
        models=tuple(source.models),
        ids=tuple(entry for entry, used in zip(source.ids, chosen) if used),
        n_bags=len(source),
        positive=None if source.positive is None else np.asarray(source.positive, np.bool_)[chosen],
        threshold=float(threshold),
        sweep=tuple(dict.fromkeys(float(t) for t in thresholds)),
        undefined=undefined,
        bags=bags,
        kendall=kendall,
        units=units_of(
            {name: column[chosen] for name, column in columns.items()}, int(chosen.sum()), cluster
        ),
        certainty=Certainty(
            level=float(level), replicates=int(replicates) if ci else 0, seed=int(seed)
        ),
        notes=(*source.notes, *notes),
    )
    found = gather(
        source, looked, chosen, _pooled(source), kendall=kendall, jobs=jobs, progress=progress
    )
    cases = Cases.of(source, found.pooled, units_of(columns, len(source), cluster))
    result = StabilityResult(
        plan=plan,
        evidence=found.pairs,
        cases=cases,
        stability_rows=tuple(stability_rows(found.pairs, plan)),
        localized=localization(found.pairs, plan, cases),
        source=source,
    )
    return replace(result, remarks=tuple(remarks(result)))


def check_progress(progress: Any) -> None:
    """Raise for what cannot be called."""
    if progress is not None and not callable(progress):
        raise UsageError(f"progress is a function of (done, of how many), not {shown(progress)}")


def _check_certainty(level: float, replicates: int, seed: int, ci: bool) -> None:
    check_seed(seed)
    check_level(level)
    if flag("ci", ci):
        check_replicates(replicates)


def _thresholds(threshold: float, sweep: Sequence[float]) -> F64:
    """Return all thresholds in ascending order, each once."""
    found = []
    for value in (threshold, *sweep):
        number = real("a threshold", value)
        if not 0 <= number <= 1:
            raise UsageError(f"a threshold lies in [0, 1], as the values of maps do; got {value!r}")
        found.append(number)
    return np.unique(found)


def _source(maps: Any, given: Mapping[str, Any]) -> Bags:
    """Return the bags: a source as it is, arrays checked."""
    if not isinstance(maps, Mapping) and all(
        hasattr(maps, name) for name in ("models", "ids", "bag_scores")
    ):
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise UsageError(
                f"a source of bags knows its own {extra[0]}: give it there, or give arrays"
            )
        source: Bags = maps
        return source
    labels, options = (
        given["labels"],
        {name: value for name, value in given.items() if name != "labels"},
    )
    return ArrayBags.of(maps, labels, **options)


def _chosen(source: Bags, bags: str) -> tuple[Flags, list[str]]:
    """Return which bags are looked at, and what must be said about it."""
    one_of("choice of bags", bags, BAGS)
    every = np.ones(len(source), np.bool_)
    if bags == "all":
        return every, []
    if source.positive is None:
        return every, ["no labels say which bags are positive: all bags are used"]
    positive = np.asarray(source.positive, np.bool_)
    if not positive.any():
        hint = "give bags='all' to look at negative bags"
        raise InputError(
            "at least one positive bag", rule="no-bags", field="labels", value="all 0", hint=hint
        )
    left = int((~positive).sum())
    return positive, [
        f"{left} of {len(source)} bags are negative and left out of the stability scores"
    ] if left else []


def _pooled(source: Bags) -> Flags:
    """Return which bags must be read to say something of whole bags: all, if there are two kinds
    and no scores.
    """
    labels = source.positive
    wanted = source.bag_scores is None and labels is not None and len(np.unique(labels)) == 2
    return np.full(len(source), wanted)
