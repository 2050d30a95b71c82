# SPDX-License-Identifier: Apache-2.0
"""Labels of the images on which an alarm is wanted (positive): those out of the model's scope at a
tau (OMS), or those out of distribution (OOD).

*Headlines* are the labels whose results are stated: OMS at the single tau of the caller, and OOD.
The other labels belong to the sweep over tau.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import finite
from calipers.errors import InputError, UsageError
from calipers.monitors.scope_result import Scope

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

OMS, OOD = "oms", "ood"
PARADIGMS = (OMS, OOD)


@dataclass(frozen=True)
class Labelling:
    """One definition of the images on which an alarm is wanted."""

    paradigm: str
    positive: Flags  # (n,) an alarm is wanted
    tau: float | None = None
    swept: bool = False  # part of the sweep, not a headline

    @property
    def group(self) -> dict[str, str]:
        """The group of its rows."""
        group = {"paradigm": self.paradigm}
        if self.swept:
            group["tau"] = tau_text(self.tau)
        return group

    def take(self, images: Flags) -> Labelling:
        """Return the labels of some images."""
        return Labelling(self.paradigm, self.positive[images], self.tau, self.swept)


def labellings_of(
    scope: Scope, tau: float | Sequence[float] | None, ood: Flags | None
) -> list[Labelling]:
    """Return the headlines, then the sweep, rising in tau.

    A single tau is a headline, and every tau that makes a difference is swept beside it. Several
    are swept and none is a headline. Without a tau a scope of 0 and 1 needs none, and other scopes
    are swept.
    """
    one, several = _taus(scope, tau)
    labels = []
    if one is not None:
        labels.append(Labelling(OMS, scope.unsafe(one), one))
    if ood is not None:
        labels.append(Labelling(OOD, ood))
    labels += [Labelling(OMS, scope.unsafe(value), value, swept=True) for value in several]
    if not labels:
        raise InputError(
            "scores that differ, or a tau, or OOD labels",
            rule="constant-scope",
            value=f"s = {scope.score[0]:g} on all {len(scope)} images",
            hint="if all scores are equal, no tau separates safe from unsafe images: "
            "give tau=..., or ood=...",
        )
    return labels


def tau_text(tau: float | None) -> str:
    """Return a tau as the text of a group: all digits, no trailing .0."""
    return repr(float(tau if tau is not None else np.nan)).removesuffix(".0")


def _taus(scope: Scope, tau: float | Sequence[float] | None) -> tuple[float | None, list[float]]:
    """Return the tau of the headline, if there is one, and those of the sweep."""
    if tau is None:  # every tau in (0, 1] gives the same labels of a scope of 0 and 1
        return (1.0, []) if scope.binary else (None, scope.taus().tolist())
    taus = [finite("tau", value) for value in np.ravel(np.asarray(tau, object)).tolist()]
    if not taus:
        raise UsageError("no tau: give one, several, or leave it out for a sweep")
    if len(taus) > 1:
        return None, sorted(set(taus))
    return taus[0], [] if scope.binary else scope.taus().tolist()
