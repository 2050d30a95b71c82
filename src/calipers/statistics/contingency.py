# SPDX-License-Identifier: Apache-2.0
"""Every score of agreement between two binary calls, from the four counts: `agreement_scores`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.arguments import shown
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.contingency import SCORES

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class AgreementScores:
    """The scores of one 2x2 table, or of an array of tables, by name; NaN where a score is 0/0.

    Examples
    --------
    >>> scores = agreement_scores(n00=40, n01=10, n10=10, n11=40)
    >>> round(scores["AJ"], 4), round(scores["APJ"], 4)
    (0.6, 0.4286)
    """

    n00: F64
    n01: F64
    n10: F64
    n11: F64

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all scores."""
        return tuple(SCORES)

    def __getitem__(self, name: str) -> Any:
        """Return a float for one table, an array for several."""
        if name not in SCORES:
            raise UsageError(f"no score {name!r}; {did_you_mean(name, SCORES)}")
        value = SCORES[name](self.n11, self.n10, self.n01, self.n00)
        return float(value) if np.ndim(value) == 0 else value

    def as_dict(self) -> Mapping[str, Any]:
        """Return all scores by name."""
        return {name: self[name] for name in SCORES}


def agreement_scores(
    n00: ArrayLike, n01: ArrayLike, n10: ArrayLike, n11: ArrayLike
) -> AgreementScores:
    """Return every score of agreement between two parties that call N things positive or negative.

    Parameters
    ----------
    n00, n01, n10, n11
        Things that neither calls positive, only the second, only the first, both. Numbers, or
        arrays of one shape.

    Notes
    -----
    With ``n1* = n11 + n10``, ``n*1 = n11 + n01`` and ``E = n1* n*1 / N``:

    - ``PJ`` (``Jaccard``) n11/(n11+n10+n01); ``PO`` n11/(min(n10,n01)+n11); ``APO``
      (n11-E)/(min(n1*,n*1)-E); ``HAPJ`` is PJ less max(n1*+n*1-N, 0) in both parts; ``APJ``
      (n11-E)/(n11+n10+n01-E).
    - ``AJ`` (``kappa``) Cohen's kappa, ``Scott-pi``, ``alpha`` (Krippendorff, two raters), ``AC1``
      (Gwet), ``PABAK`` 2po-1, ``MCC``. ``APJ = AJ / (2 - AJ)``, so over single tables they rank
      alike.
    - ``TAR`` (``po``, ``accuracy``) (n11+n00)/N; ``PAR`` (``positive-agreement``)
      2n11/(2n11+n10+n01); ``NAR`` (``negative-agreement``) alike; ``PAR-NAR``; ``positive_share``
      n11/N; ``prevalence-index`` (n11-n00)/N; ``bias-index`` (n10-n01)/N; ``n0*-n1*`` and
      ``n*0-n*1``.
    - With the first as decision and the second as reference: ``sensitivity``, ``specificity``,
      ``PPV``, ``NPV``, ``balanced-accuracy``.

    If both call everything alike, kappa, pi, alpha, MCC, APJ and HAPJ are 0/0 and NaN; po and AC1
    are 1.

    Examples
    --------
    >>> import calipers as cal
    >>> scores = cal.agreement_scores(n00=20, n01=35, n10=5, n11=40)
    >>> [round(scores[name], 4) for name in ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ")]
    [0.5, 0.8889, 0.5556, 0.3333, 0.1351, 0.2381]
    >>> cal.agreement_scores(n00=100, n01=0, n10=0, n11=0)["AJ"]
    nan
    """
    cells = {"n00": n00, "n01": n01, "n10": n10, "n11": n11}
    try:
        arrays = {name: np.asarray(count) for name, count in cells.items()}
    except ValueError:
        raise UsageError(f"counts are numbers, got {shown(cells)}") from None
    if any(count.dtype.kind not in "iuf" for count in arrays.values()):
        raise UsageError(f"counts are numbers, got {shown(cells)}")
    counts = {name: count.astype(np.float64) for name, count in arrays.items()}
    if len({count.shape for count in counts.values()}) > 1:
        shapes = ", ".join(f"{name} {count.shape}" for name, count in counts.items())
        raise UsageError(f"the four counts have one shape, got {shapes}")
    for name, count in counts.items():
        invalid = np.extract(~((count >= 0) & (count <= 2.0**53)), count)
        if len(invalid):
            raise UsageError(
                f"counts are finite and not negative, and at most 2^53; {name} has {invalid[0]:g}"
            )
    return AgreementScores(**counts)
