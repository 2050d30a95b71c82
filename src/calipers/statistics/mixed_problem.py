# SPDX-License-Identifier: Apache-2.0
"""The numbers of a mixed model: response, design and levels of groups, in the order that the kernel
wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import nested
from calipers.statistics.design import Design
from calipers.statistics.nesting import Level

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class MixedProblem:
    """Response, design and groups of a mixed model; tests and bootstraps solve variants of it."""

    y: F64  # (n,)
    design: Design
    levels: tuple[Level, ...]  # outermost first
    crossed: bool
    rows: I64  # (n,) which row of the table stands here

    @classmethod
    def of(cls, y: F64, design: Design, levels: Sequence[Level], *, crossed: bool) -> MixedProblem:
        """Return the problem with its rows sorted by group."""
        # The innermost code counts within the outer groups, so that sorting by it sorts by all.
        order = np.arange(len(y))
        if levels and not crossed:
            order = np.argsort(levels[-1].code, kind="stable")
        sorted_levels = tuple(level.rows(order) for level in levels)
        return cls(
            y[order], replace(design, matrix=design.matrix[order]), sorted_levels, crossed, order
        )

    @property
    def x(self) -> F64:
        """The (n, p) design matrix."""
        return self.design.matrix

    def tree(self, times: F64 | None = None) -> nested.Nest:
        """Return the sums that the nested kernel works on."""
        return nested.nest(self.x, self.y, [level.code for level in reversed(self.levels)], times)

    def solve(
        self, *, reml: bool, start: F64 | None = None, times: F64 | None = None
    ) -> nested.Fit | None:
        """Return the optimum, with the levels outermost first; None where the design has no full
        rank.
        """
        if self.crossed:
            from calipers.statistics.crossed import solve

            return solve(self.x, self.y, self.levels, reml=reml)
        inward = None if start is None else start[::-1]
        fit = nested.fit(self.tree(times), reml=reml, start=inward)
        if fit is None:
            return None
        return fit._replace(relative=fit.relative[::-1], gradient=fit.gradient[::-1])

    def intercepts(self, relative: F64) -> list[tuple[F64, F64]]:
        """Return the predicted intercepts of each level and their variance divided by that of the
        residual.
        """
        if self.crossed:
            from calipers.statistics.crossed import intercepts

            return intercepts(self.x, self.y, self.levels, relative)
        return nested.intercepts(self.tree(), relative[::-1])[::-1]

    def without_term(self, term: str) -> MixedProblem:
        """Return the problem without the columns of a term."""
        columns = [k for k, effect in enumerate(self.design.effects) if effect.term != term]
        effects = tuple(self.design.effects[k] for k in columns)
        return replace(
            self, design=replace(self.design, matrix=self.x[:, columns], effects=effects)
        )

    def without_level(self, name: str) -> MixedProblem:
        """Return the problem without one random intercept; the order of the rows still fits."""
        return replace(self, levels=tuple(level for level in self.levels if level.name != name))

    def restored(self, values: F64) -> F64:
        """Return values of the sorted rows in the order of the table."""
        back = np.empty_like(values)
        back[self.rows] = values
        return back
