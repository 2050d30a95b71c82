# SPDX-License-Identifier: Apache-2.0
"""A stability analysis as a JSON document and as a table of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calipers.results import Estimate
from calipers.results.estimate import number
from calipers.stability.scores import CALLED

if TYPE_CHECKING:
    from calipers.stability.result import StabilityResult

SCHEMA = "calipers.stability/1"
HEADLINE = (
    "called-by-all",
    "called-by-some",
    "APJ",
    "AJ",
    "PAR",
    "NAR",
    "TAR",
    "AC1",
    "Pearson",
    "Spearman",
)


def as_dict(result: StabilityResult) -> dict[str, Any]:
    """Return the document; null for undefined."""
    from calipers import __version__

    # leaving out a model and components of variance need scores of pairs
    of_pairs = [name for name in result.names if name not in CALLED]
    return {
        "schema": SCHEMA,
        "calipers": __version__,
        "settings": result.plan.settings(),
        "models": list(result.models),
        "bags": _bags(result),
        "rows": [row.as_dict() for row in result.rows],
        "sd": {name: number(result.sd(name)) for name in result.names},
        "sd_ddof": 0,
        "undefined": [result.undefined(name).as_dict() for name in result.names],
        "leave_one_out": [result.leave_one_out(name).as_dict() for name in of_pairs],
        "components": [result.components(name).as_dict() for name in of_pairs],
        "correlation": [result.correlation(method).as_dict() for method in ("spearman", "pearson")],
        "called": result.called().as_dict(),
        "kappa_paradox": result.paradox().as_dict(),
        "localization": _localization(result),
        "sentences": result.sentences(),
        "flags": list(result.flags),
        "warnings": list(result.warnings),
    }


def _bags(result: StabilityResult) -> dict[str, Any]:
    positive = result.plan.positive
    return {
        "bags": result.n_bags,
        "used": result.n_used,
        "positive": None if positive is None else int(positive.sum()),
        "annotated": int((result.evidence.truth >= 0).sum()),
        "instances": int(result.evidence.n.sum()),
    }


def _localization(result: StabilityResult) -> dict[str, Any]:
    localized = result.localized
    names = [name for name in ("DICE", "Jaccard", "accuracy", "AUC") if localized.has(name)]
    over_models = {
        name: {"mean": number(localized.mean(name)), "sd": number(localized.sd(name))}
        for name in names
    }
    return {
        "bags": len(localized.ids),
        "least_jaccard": localized.least_jaccard,
        "bag_scores": localized.pooling,
        "over_models": over_models,
        "missing": dict(localized.missing),
    }


def as_text(result: StabilityResult) -> str:
    """Return the sentences, a table of the main scores, and the warnings."""
    head = (
        f"{'score':18}{'mean':>7}  {'interval':18}{'SD':>6}  {'other trainings':18}undefined pairs"
    )
    lines = [*result.sentences(), "", head]
    lines += [_line(result, name) for name in HEADLINE]
    return "\n".join([*lines, "", *result.warnings])


def _line(result: StabilityResult, name: str) -> str:
    estimate, missing = result[name], result.undefined(name)
    other = ""
    pairs = ""
    if name not in CALLED:  # these are shares over all models: there are no pairs to leave out
        jackknife = result.leave_one_out(name)
        other = _range(jackknife.low, jackknife.high)
        pairs = f"{missing.pairs} of {missing.of_pairs}"
    value, sd = _three_decimals(estimate.value), _three_decimals(result.sd(name))
    return f"{name:18}{value:>7}  {_interval(estimate):18}{sd:>6}  {other:18}{pairs}".rstrip()


def _three_decimals(value: float) -> str:
    return f"{value:.3f}" if value == value else "-"


def _interval(estimate: Estimate) -> str:
    mark = "*" if estimate.method == "clopper-pearson-units" else ""
    return _range(estimate.low, estimate.high) + mark


def _range(low: float, high: float) -> str:
    return f"[{low:.3f}, {high:.3f}]" if low == low else "-"
