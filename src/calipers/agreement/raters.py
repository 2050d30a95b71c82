# SPDX-License-Identifier: Apache-2.0
"""Agreement among several raters who may each have rated only some of the items.

A `Panel` of items by raters comes in, a row per coefficient goes out (`rater_agreement`, called by
`agreement`). `agreement_scores` gives every score of agreement between two binary calls from their
four counts. With ``r_ik`` ratings of item i in category k, ``r_i`` of them in all, and weights
``w_kl`` for partial agreement (1 on the diagonal):

- ``po``: mean over items with two ratings or more of the share of agreeing pairs, ``sum_k r_ik
  (sum_l w_kl r_il - 1) / (r_i (r_i - 1))``.
- ``Fleiss``, ``Conger``, ``AC1``/``AC2``: ``(po - pe) / (1 - pe)``. With ``p_k`` the mean over
  items of ``r_ik / r_i``: Fleiss has ``pe = sum w_kl p_k p_l``; Gwet ``pe = sum w_kl / (q (q - 1))
  * sum p_k (1 - p_k)``; Conger takes the mean of ``sum w_kl p_gk p_hl`` over pairs of different
  raters g and h with their own margins, which for two is Cohen.
- ``alpha`` (Krippendorff): ``1 - Do / De`` from the coincidences in items with two ratings or more,
  with squared distances: 1 (nominal), between mid-ranks (ordinal), between values (interval).

Weights are 0/1 on a nominal scale, Gwet's ordinal weights on an ordinal one, quadratic on an
interval scale; the coefficient of Gwet is called AC1 without and AC2 with partial agreement.

References: Fleiss 1971; Conger 1980; Gwet, Handbook of Inter-Rater Reliability, 2014; Krippendorff,
Content Analysis, 2004.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.agreement.estimates import Resampling, rating_estimates
from calipers.agreement.read import Scale
from calipers.arguments import names_arguments
from calipers.arrays import F64, I64, host_array
from calipers.errors import UsageError, did_you_mean, shown
from calipers.kernels.agreement import SCORES
from calipers.results.estimate import Row
from calipers.statistics.support import Support


@dataclass(frozen=True)
class Panel:
    """Ratings as a table of items by raters.

    ``codes`` is (n_items, n_raters) with the category of each rating, -1 where there is none. If
    raters are not ``named``, columns are no raters: only the number of ratings per category means
    something.
    """

    codes: I64
    values: F64  # (q,) of the categories; their rank if they are no numbers
    scale: Scale
    named: bool = True

    @property
    def n_categories(self) -> int:
        """The number of categories."""
        return len(self.values)

    @property
    def counts(self) -> F64:
        """(n_items, q) ratings of every item in every category."""
        return np.asarray(
            (self.codes[:, :, None] == np.arange(self.n_categories)).sum(axis=1), np.float64
        )

    @property
    def has_pair(self) -> NDArray[np.bool_]:
        """(n_items,) whether two ratings can be compared."""
        return np.asarray((self.codes >= 0).sum(axis=1) >= 2)


def rater_agreement(panel: Panel, how: Resampling, model: str) -> tuple[list[Row], set[str]]:
    """Return a row per coefficient, and the flags of their intervals.

    Parameters
    ----------
    how
        Its units are those of the items: a unit is drawn with all its items and all their ratings.
    """
    point = coefficients(panel, np.ones((1, len(panel.codes)), np.int64))
    blocks = [coefficients(panel, block) for block in how.blocks()]
    has_pair = panel.has_pair
    # An item with one rating has nothing to agree with.
    counts = (int(has_pair.sum()), 0, int((panel.codes[has_pair] >= 0).sum()))
    n_paired = int(how.units_with(has_pair[:, None])[0])
    support = Support(how.units.number, n_paired, n_paired)
    group = {
        "raters": str(panel.codes.shape[1]) if panel.named else "not named",
        "scale": panel.scale,
    }
    rows, flags = [], set[str]()
    for name, value in point.items():
        replicates = np.concatenate([block[name] for block in blocks])[:, None]
        bounds = (0.0, 1.0) if name == "po" else (-1.0, 1.0)
        row_estimates, new_flags = rating_estimates(
            value, replicates, how, [counts], support=[support], bounds=bounds
        )
        rows.append(Row(model, name, f"raters.{name.lower()}@1", None, group, row_estimates[0]))
        flags |= new_flags
    return rows, flags


def coefficients(panel: Panel, weights: NDArray[Any]) -> dict[str, F64]:
    """Return every coefficient for (R, n_items) weights, NaN where chance agreement is 1."""
    w = weights.astype(np.float64)
    counts, partial = panel.counts, partial_agreement(panel.scale, panel.values)
    po, share = _observed(counts, partial, w), _shares(counts, w)
    gwet = "AC1" if panel.scale == "nominal" else "AC2"
    values = {
        "po": po,
        "alpha": krippendorff(counts, panel.scale, panel.values, w),
        "Fleiss": _beyond_chance(po, np.einsum("rk,kl,rl->r", share, partial, share)),
        gwet: _beyond_chance(po, _gwet_chance(share, partial)),
    }
    if panel.named:
        values["Conger"] = _beyond_chance(po, _conger_chance(panel, partial, w))
    return values


def partial_agreement(scale: Scale, values: F64) -> F64:
    """Return (q, q) how much two categories agree: 1 on the diagonal."""
    q = len(values)
    if scale == "nominal" or q < 2:
        return np.eye(q)
    if scale == "interval":
        return np.asarray(1 - (values[:, None] - values) ** 2 / (values.max() - values.min()) ** 2)
    steps = np.abs(np.arange(q)[:, None] - np.arange(q))
    return np.asarray(1 - steps * (steps + 1) / (q * (q - 1)))


def krippendorff(counts: F64, scale: Scale, values: F64, w: F64) -> F64:
    """Return Krippendorff's alpha under (R, n_items) weights."""
    total, q = counts.sum(axis=1), counts.shape[1]
    # Ordered pairs of ratings of one item, without those of a rating with itself.
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(q)
    has_pair = total >= 2
    each = np.where(has_pair[:, None, None], pairs, 0.0) / np.maximum(total - 1, 1)[:, None, None]
    coincidences = (w @ each.reshape(len(counts), -1)).reshape(-1, q, q)
    margins = coincidences.sum(axis=2)
    if scale == "nominal":
        distance = np.broadcast_to(1 - np.eye(q), coincidences.shape)
    else:
        # The ordinal distance of two categories, the ratings between them, is the distance of their
        # mid-ranks.
        at = np.broadcast_to(values, margins.shape)
        if scale == "ordinal":
            at = margins.cumsum(axis=1) - margins / 2
        distance = (at[:, :, None] - at[:, None, :]) ** 2
    observed = (coincidences * distance).sum(axis=(1, 2))
    expected = (margins[:, :, None] * margins[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - observed * (margins.sum(axis=1) - 1) / expected)


def _observed(counts: F64, partial: F64, w: F64) -> F64:
    total = counts.sum(axis=1)
    has_pair = total >= 2
    agreeing = (counts * (counts @ partial - 1)).sum(axis=1)
    each = np.where(has_pair, agreeing, 0.0) / np.maximum(total * (total - 1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((w @ each) / (w @ has_pair.astype(np.float64)))


def _shares(counts: F64, w: F64) -> F64:
    """Return (R, q) the mean over rated items of the share of each category."""
    total = counts.sum(axis=1)
    rated = (total > 0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((w @ (counts / np.maximum(total, 1)[:, None])) / (w @ rated)[:, None])


def _gwet_chance(share: F64, partial: F64) -> F64:
    q = len(partial)
    # A single category leaves nothing to chance, and the formula would divide by 0.
    if q < 2:
        return np.zeros(len(share))
    return np.asarray(partial.sum() / (q * (q - 1)) * (share * (1 - share)).sum(axis=1))


def _conger_chance(panel: Panel, partial: F64, w: F64) -> F64:
    raters = panel.codes.shape[1]
    votes = panel.codes[:, :, None] == np.arange(panel.n_categories)
    calls = (w @ votes.reshape(len(votes), -1).astype(np.float64)).reshape(len(w), raters, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = calls / calls.sum(axis=2, keepdims=True)
        mean = margin.sum(axis=1)
        # All pairs of raters less each rater with itself.
        pairs = np.einsum("rk,kl,rl->r", mean, partial, mean) - np.einsum(
            "rgk,kl,rgl->r", margin, partial, margin
        )
        return np.asarray(pairs / (raters * (raters - 1)))


def _beyond_chance(po: F64, pe: F64) -> F64:
    """Return (po - pe) / (1 - pe); NaN where agreement is certain by chance."""
    certain = pe >= 1 - 1e-12  # shares are rounded sums: 1 - pe is not exactly 0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(certain, np.nan, (po - pe) / (1 - pe))


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


@names_arguments
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
        arrays = {name: host_array(count) for name, count in cells.items()}
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
