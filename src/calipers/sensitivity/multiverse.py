# SPDX-License-Identifier: Apache-2.0
"""The multiverse: all models under every defensible configuration, and what their order hangs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.estimation import units_for
from calipers.evaluate import evaluate
from calipers.evaluation import Evaluation
from calipers.kernels.resampling import check_seed
from calipers.protocol import Protocol
from calipers.sensitivity.configurations import (
    PREPARED,
    USUAL,
    Configurations,
    Grid,
    Value,
    configurations,
    default_grid,
    plan_of,
    sizes_of,
)
from calipers.sensitivity.grids import load_grid
from calipers.sensitivity.multiverse_result import Flip, Multiverse
from calipers.sensitivity.robustness import Robustness, replicated, robustness
from calipers.tables import Cohort

__all__ = ["Flip", "Multiverse", "multiverse"]

F64 = NDArray[np.float64]
Progress = Callable[[int, int], None]

MOST_REPLICATES = 10_000
DIGITS = 12  # of values behind the point: what differs in the last bits only is a tie


def multiverse(
    cohort: Cohort,
    grid: Grid | str | Path | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    replicates: int = 0,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Multiverse:
    """Evaluate all models under a grid of configurations.

    Parameters
    ----------
    cohort
        With two models or more.
    grid
        Choice -> its values, or the path of a TOML file; if left out, what suits the cohort
        (`calipers.sensitivity.configurations.default_grid`). A grid that names some choices keeps
        the default values of the others; a choice with one value is fixed.
    base
        The configuration that is taken as given: some choices, the first values of the grid for all
        others, a threshold of 0.5 where there is one.
    replicates
        Bootstrap replicates over patients if the cohort knows them, else over images, for intervals
        of the shares of configurations won and of Kendall's W; 0 for none.
    seed
        Of the replicates.
    jobs
        Threads; the result does not depend on it.
    progress
        Called with (blocks done, blocks in all), first of the matching, then of the replicates.

    Notes
    -----
    Values are compared within a configuration only, so metrics of different scales may stand side
    by side. A configuration in which a model has no value is left out and counted. Combinations
    that cannot differ are one configuration. Values are rounded to 12 decimals, so that bits at the
    end decide no order.

    Examples
    --------
    >>> import calipers as cal
    >>> found = cal.multiverse(cal.demo_cohort())
    >>> len(found.each), found.winner
    (479, 'overpredicts')
    """
    check_seed(seed)
    if len(cohort.models) < 2:
        raise UsageError("a multiverse compares models: give two or more")
    if not 0 <= replicates <= MOST_REPLICATES:
        raise UsageError(f"replicates are a number from 0 to {MOST_REPLICATES:,}, got {replicates}")
    own, base = _given(grid, base)
    whole = {**default_grid(cohort), **own}
    found = configurations(whole, n_classes=len(cohort.classes))
    _check_base(whole, base)
    parts = list(_parts(cohort, found, whole, jobs, progress))
    values = _gathered([(part.rows, part.values()) for part in parts]).round(DIGITS)
    known = np.asarray(~np.isnan(values).any(axis=1))
    if not known.any():
        raise UsageError("no configuration has a value for every model")
    each = tuple(one for one, fine in zip(found.each, known) if fine)
    result = Multiverse(
        models=tuple(cohort.models),
        choices=found.choices,
        each=each,
        values=values[known],
        base=_base(each, whole, base),
        n_possible=found.n_possible,
        n_undefined=int((~known).sum()),
        n_images=cohort.n_images,
        n_references=int((~cohort.references.ignore).sum()),
    )
    return replace(result, robustness=_robust(result, parts, known, replicates, seed, progress))


def _given(
    grid: Grid | str | Path | None, base: Mapping[str, Any] | None
) -> tuple[dict[str, Sequence[Value]], dict[str, Any]]:
    """Return the grid as lists and the base; a base that is given replaces that of a file."""
    if grid is None:
        return {}, dict(base or {})
    if isinstance(grid, str | Path):
        of_file, own_base = load_grid(grid)
        return dict(of_file), own_base if base is None else dict(base)
    listed: dict[str, Any] = dict(grid)
    return {
        name: getattr(values, "tolist", lambda v=values: v)() for name, values in listed.items()
    }, dict(base or {})


@dataclass(frozen=True)
class _Part:
    """The configurations that see the same predictions, evaluated together."""

    rows: list[int]  # of the configurations
    names: list[str]  # of their metrics
    evaluation: Evaluation

    def values(self) -> F64:
        """Return (configurations, models) pooled values."""
        pooled = {
            (row.metric, row.model): row.estimate.value
            for row in self.evaluation.rows
            if row.label is None
        }
        return np.array(
            [[pooled[name, model] for model in self.evaluation.models] for name in self.names]
        )


def _parts(
    cohort: Cohort, found: Configurations, grid: Grid, jobs: int, progress: Progress | None
) -> Iterator[_Part]:
    """Yield one evaluation for all configurations of the same predictions, so that what they share
    is computed once.
    """
    together: dict[tuple[tuple[str, Value], ...], list[int]] = {}
    for k, one in enumerate(found.each):
        together.setdefault(
            tuple((name, one[name]) for name in PREPARED if name in one), []
        ).append(k)
    plain = Protocol.load("overview")
    for choices, rows in together.items():
        prepared = cohort
        for name, value in choices:
            prepared = PREPARED[name](prepared, value)
        names = [f"configuration {k}" for k in rows]
        plans = tuple(plan_of(found.each[k], name) for k, name in zip(rows, names))
        protocol = replace(
            plain, metrics=plans, headline=(names[0],), name="multiverse", sizes=sizes_of(grid)
        )
        evaluation = evaluate(prepared, protocol, ci=False, jobs=jobs, progress=progress)
        yield _Part(rows, names, evaluation)


def _gathered(parts: Sequence[tuple[list[int], F64]]) -> F64:
    """Return the tables of all parts, (..., configurations, models), in the order of the
    configurations.
    """
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return np.asarray(np.concatenate([values for _, values in parts], axis=-2)[..., order, :])


def _robust(
    result: Multiverse,
    parts: Sequence[_Part],
    known: NDArray[Any],
    replicates: int,
    seed: int,
    progress: Progress | None,
) -> Robustness | None:
    """Return the intervals of a multiverse; None if they are not wanted, or if there are too few
    units.
    """
    if not replicates:
        return None
    drawn = []
    for part in parts:
        values = replicated(part.evaluation, part.names, replicates, seed, progress)
        if values is None:
            return None
        drawn.append((part.rows, values))
    units = units_for(parts[0].evaluation.cohort, parts[0].evaluation.protocol)
    best, second = (result.models.index(model) for model in result.best_two)
    values = _gathered(drawn)[:, known].round(DIGITS)
    return robustness(values, (best, second), seed=seed, unit=units.name, n_units=units.number)


def _check_base(grid: Grid, wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if name not in grid:
            raise UsageError(
                f"the base has {name!r}, which is no choice of the grid; {did_you_mean(name, grid)}"
            )
        if value not in grid[name]:
            known = ", ".join(map(str, grid[name]))
            raise UsageError(f"the base has {name} = {value!r}, which is not in the grid: {known}")


def _base(each: Sequence[Mapping[str, Any]], grid: Grid, wanted: Mapping[str, Any]) -> int:
    """Return the configuration with all choices as wanted, and first values elsewhere."""
    plain = {name: values[0] for name, values in grid.items()}
    if USUAL in grid.get("threshold", ()):
        plain["threshold"] = USUAL
    plain |= wanted
    fitting = [
        k
        for k, one in enumerate(each)
        if all(one.get(name) == value for name, value in wanted.items())
    ]
    if not fitting:
        said = ", ".join(f"{name} = {value}" for name, value in wanted.items())
        raise UsageError(
            f"no configuration has {said}: one of these has no effect beside the others, or a model has no value there"
        )
    return max(
        fitting, key=lambda k: sum(each[k].get(name) == value for name, value in plain.items())
    )
