# SPDX-License-Identifier: Apache-2.0
"""Crossed random intercepts (every reader reads many images, every image has many readers), solved
by statsmodels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.kernels.nested import Fit
from calipers.statistics.nesting import Level

F64 = NDArray[np.float64]


def solve(x: F64, y: F64, levels: Sequence[Level], *, reml: bool) -> Fit | None:
    """Return the optimum of a model with one random intercept per level, none of them inside
    another.
    """
    import warnings

    mixed_lm = _statsmodels()
    n = len(y)
    if not levels:
        from calipers.kernels import nested

        return nested.fit(nested.nest(x, y, []), reml=reml)
    spec = mixed_lm.VCSpec(
        [level.name for level in levels],
        [[list(level.labels)] for level in levels],
        [[_indicators(level)] for level in levels],
    )
    model = mixed_lm.MixedLM(y, x, np.zeros(n), exog_vc=spec)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # "MLE may be on the boundary" appears on good fits too; singular says it
        result = model.fit(reml=reml)
    return Fit(
        relative=np.asarray(result.vcomp, np.float64) / float(result.scale),
        sigma2=float(result.scale),
        beta=np.asarray(result.fe_params, np.float64),
        covariance=np.asarray(result.cov_params())[: x.shape[1], : x.shape[1]],
        deviance=-2.0 * float(result.llf),
        gradient=np.zeros(len(levels)),
        converged=bool(result.converged),
    )


def intercepts(x: F64, y: F64, levels: Sequence[Level], relative: F64) -> list[tuple[F64, F64]]:
    """Return the predicted intercepts of each level and their variance divided by that of the
    residual.
    """
    # Best linear unbiased predictors, with the variances of the fit taken as known.
    tables = [_indicators(level) for level in levels]
    v = np.eye(len(y)) + sum(g * z @ z.T for g, z in zip(relative, tables))
    solution = np.linalg.solve(v, np.column_stack([x, y]))
    beta = np.linalg.solve(x.T @ solution[:, :-1], x.T @ solution[:, -1])
    residual = solution[:, -1] - solution[:, :-1] @ beta
    predictions = []
    for g, z in zip(relative, tables):
        diagonal = (z * np.linalg.solve(v, z)).sum(axis=0)
        predictions.append((g * z.T @ residual, np.maximum(g - g**2 * diagonal, 0.0)))
    return predictions


def _indicators(level: Level) -> F64:
    return np.asarray(level.code[:, None] == np.arange(len(level)), np.float64)


def _statsmodels() -> Any:
    from importlib import import_module

    try:
        return import_module("statsmodels.regression.mixed_linear_model")
    except ImportError:
        raise UsageError(
            "crossed random intercepts need statsmodels: pip install 'calipers[mixed]'; "
            "nested ones do not"
        ) from None
