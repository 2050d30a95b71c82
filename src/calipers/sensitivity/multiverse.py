# SPDX-License-Identifier: Apache-2.0
"""The multiverse: evaluate all models under every defensible configuration.

In comes a cohort and a grid of choices (`configurations`); out comes a `Multiverse`, which knows
the ranks of the models under every configuration and which choices move them. ``calipers
multiverse`` and `calipers.multiverse` call this. The idea is the multiverse analysis of Steegen et
al. (2016): report all reasonable analyses instead of one.
"""

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
from calipers.sensitivity.robustness import Robustness, replicate_values, robustness
from calipers.tables import Cohort

__all__ = ["Flip", "Multiverse", "multiverse"]

F64 = NDArray[np.float64]
Progress = Callable[[int, int], None]

MOST_REPLICATES = 10_000
DIGITS = 12  # decimals of values: models that differ only in the last bits are tied


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
        Choice -> its values, or the path of a TOML file. By default the grid that suits the cohort
        (`calipers.sensitivity.configurations.default_grid`). Choices that the grid does not name
        keep their default values; a choice with one value is fixed.
    base
        The configuration that the others are compared with: the values of some choices. All other
        choices have the first value of the grid, or 0.5 for the threshold if the grid has it.
    replicates
        Number of bootstrap samples of patients (of images if patients are unknown), for intervals
        of the shares of configurations won and of Kendall's W; 0 for no intervals.
    seed
        Seed of the bootstrap.
    jobs
        Number of threads; the result does not depend on it.
    progress
        Called with (blocks done, blocks in total), first while matching, then while resampling.

    Notes
    -----
    Values are compared only within a configuration, so the grid may mix metrics of different
    scales. Configurations in which a model has no value are left out and counted. Combinations that
    cannot differ are one configuration. Values are rounded to 12 decimals, so that rounding errors
    do not decide a rank.

    Examples
    --------
    >>> import calipers as cal
    >>> result = cal.multiverse(cal.demo_cohort())
    >>> len(result.each), result.winner
    (479, 'overpredicts')
    """
    check_seed(seed)
    if len(cohort.models) < 2:
        raise UsageError("a multiverse compares models: give predictions of two or more")
    if not 0 <= replicates <= MOST_REPLICATES:
        raise UsageError(
            f"replicates must be a number from 0 to {MOST_REPLICATES:,}, got {replicates}"
        )
    choices, base = _read_grid(grid, base)
    full_grid = {**default_grid(cohort), **choices}
    grid_points = configurations(full_grid, n_classes=len(cohort.classes))
    _check_base(full_grid, base)
    parts = list(_parts(cohort, grid_points, full_grid, jobs, progress))
    values = _gather([(part.rows, part.values()) for part in parts]).round(DIGITS)
    # A rank needs the values of all models, so a configuration counts only if all have one.
    complete = np.asarray(~np.isnan(values).any(axis=1))
    if not complete.any():
        raise UsageError("no configuration has a value for every model")
    each = tuple(one for one, defined in zip(grid_points.each, complete) if defined)
    result = Multiverse(
        models=tuple(cohort.models),
        choices=grid_points.choices,
        each=each,
        values=values[complete],
        base=_base(each, full_grid, base),
        n_possible=grid_points.n_possible,
        n_undefined=int((~complete).sum()),
        n_images=cohort.n_images,
        n_references=int((~cohort.references.ignore).sum()),
    )
    return replace(
        result, robustness=_robustness(result, parts, complete, replicates, seed, progress)
    )


def _read_grid(
    grid: Grid | str | Path | None, base: Mapping[str, Any] | None
) -> tuple[dict[str, Sequence[Value]], dict[str, Any]]:
    """Return the grid as lists, and the base; a base argument replaces that of a file."""
    if grid is None:
        return {}, dict(base or {})
    if isinstance(grid, str | Path):
        choices, file_base = load_grid(grid)
        if base is None:
            return dict(choices), file_base
        return dict(choices), dict(base)
    lists: dict[str, Sequence[Value]] = {}
    for name, values in grid.items():
        tolist = getattr(values, "tolist", None)  # arrays and series of any library have it
        lists[name] = values if tolist is None else tolist()
    return lists, dict(base or {})


@dataclass(frozen=True)
class _Part:
    """The configurations that see the same predictions, evaluated together."""

    rows: list[int]  # indices of the configurations
    names: list[str]  # of their metrics
    evaluation: Evaluation

    def values(self) -> F64:
        """Return (configurations, models) pooled values."""
        pooled = {
            (row.metric, row.model): row.estimate.value
            for row in self.evaluation.rows
            if row.label is None
        }
        models = self.evaluation.models
        values = [pooled[name, model] for name in self.names for model in models]
        return np.array(values).reshape(len(self.names), len(models))


def _parts(
    cohort: Cohort, grid_points: Configurations, grid: Grid, jobs: int, progress: Progress | None
) -> Iterator[_Part]:
    """Yield one evaluation per set of predictions, with all configurations that see them.

    Configurations that share their predictions also share geometry and matching, so evaluating
    them together computes both once.
    """
    rows_of: dict[tuple[tuple[str, Value], ...], list[int]] = {}
    for k, one in enumerate(grid_points.each):
        preparation = tuple((name, one[name]) for name in PREPARED if name in one)
        rows_of.setdefault(preparation, []).append(k)
    plain = Protocol.load("overview")
    for preparation, rows in rows_of.items():
        changed_cohort = cohort
        for name, value in preparation:
            changed_cohort = PREPARED[name](changed_cohort, value)
        names = [f"configuration {k}" for k in rows]
        plans = tuple(plan_of(grid_points.each[k], name) for k, name in zip(rows, names))
        protocol = replace(
            plain, metrics=plans, headline=(names[0],), name="multiverse", sizes=sizes_of(grid)
        )
        evaluation = evaluate(changed_cohort, protocol, ci=False, jobs=jobs, progress=progress)
        yield _Part(rows, names, evaluation)


def _gather(parts: Sequence[tuple[list[int], F64]]) -> F64:
    """Return (..., configurations, models) of all parts, in the order of the configurations."""
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return np.asarray(np.concatenate([values for _, values in parts], axis=-2)[..., order, :])


def _robustness(
    result: Multiverse,
    parts: Sequence[_Part],
    complete: NDArray[Any],
    replicates: int,
    seed: int,
    progress: Progress | None,
) -> Robustness | None:
    """Return the intervals of a multiverse; None without replicates, or with too few units."""
    if not replicates:
        return None
    tables = []
    for part in parts:
        values = replicate_values(part.evaluation, part.names, replicates, seed, progress)
        if values is None:
            return None
        tables.append((part.rows, values))
    units = units_for(parts[0].evaluation.cohort, parts[0].evaluation.protocol)
    best, second = (result.models.index(model) for model in result.best_two)
    values = _gather(tables)[:, complete].round(DIGITS)
    return robustness(values, (best, second), seed=seed, unit=units.name, n_units=units.number)


def _check_base(grid: Grid, base: Mapping[str, Any]) -> None:
    for name, value in base.items():
        if name not in grid:
            raise UsageError(
                f"the base has {name!r}, which is no choice of the grid; {did_you_mean(name, grid)}"
            )
        if value not in grid[name]:
            values = ", ".join(map(str, grid[name]))
            raise UsageError(f"the base has {name} = {value!r}, which is not in the grid: {values}")


def _base(each: Sequence[Mapping[str, Any]], grid: Grid, base: Mapping[str, Any]) -> int:
    """Return which configuration agrees with the base, and best with the defaults elsewhere."""
    defaults = {name: values[0] for name, values in grid.items()}
    if USUAL in grid.get("threshold", ()):
        defaults["threshold"] = USUAL
    defaults |= base
    candidates = [k for k, one in enumerate(each) if _n_equal(one, base) == len(base)]
    if not candidates:
        choices = ", ".join(f"{name} = {value}" for name, value in base.items())
        raise UsageError(
            f"no configuration has {choices}: one of these has no effect beside the others, "
            "or a model has no value there"
        )
    return max(candidates, key=lambda k: _n_equal(each[k], defaults))


def _n_equal(configuration: Mapping[str, Any], choices: Mapping[str, Any]) -> int:
    """Return how many of the choices a configuration makes."""
    return sum(configuration.get(name) == value for name, value in choices.items())
