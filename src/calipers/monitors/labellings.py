# SPDX-License-Identifier: Apache-2.0
"""On which images an alarm is wanted: those out of the model's scope at a tau (OMS), those out of
distribution (OOD).

Labels that are stated as the result are *headlines*: OMS at the one tau that was given, and OOD.
The others are those of the sweep over tau.
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
    """One way of saying where an alarm is right."""

    paradigm: str
    wanted: Flags  # (n,)
    tau: float | None = None
    swept: bool = False  # part of the sweep, not a headline

    @property
    def group(self) -> dict[str, str]:
        """The group of its rows."""
        return {"paradigm": self.paradigm, **({"tau": tau_text(self.tau)} if self.swept else {})}

    def take(self, images: Flags) -> Labelling:
        """Return the labels of some images."""
        return Labelling(self.paradigm, self.wanted[images], self.tau, self.swept)


def labellings_of(
    scope: Scope, tau: float | Sequence[float] | None, ood: Flags | None
) -> list[Labelling]:
    """Return the headlines, then the sweep, rising in tau.

    A single tau is a headline, and every tau that makes a difference is swept beside it. Several
    are swept and none is a headline. Without a tau a scope of 0 and 1 needs none, and other scopes
    are swept.
    """
    one, several = _taus(scope, tau)
    found = []
    if one is not None:
        found.append(Labelling(OMS, scope.unsafe(one), one))
    if ood is not None:
        found.append(Labelling(OOD, ood))
    found += [Labelling(OMS, scope.unsafe(value), value, swept=True) for value in several]
    if not found:
        raise InputError(
            "scores that differ, or a tau, or OOD labels",
            rule="constant-scope",
            value=f"s = {scope.score[0]:g} on all {len(scope)} images",
            hint="with one score everywhere no tau parts safe from unsafe images: give tau=..., or ood=...",
        )
    return found


def tau_text(tau: float | None) -> str:
    """Return a tau as the text of a group: all digits, no trailing .0."""
    return repr(float(tau if tau is not None else np.nan)).removesuffix(".0")


def _taus(scope: Scope, tau: float | Sequence[float] | None) -> tuple[float | None, list[float]]:
    """Return the tau of the headline, if there is one, and those of the sweep."""
    if tau is None:
        return (1.0, []) if scope.binary else (None, scope.taus().tolist())
    given = [finite("tau", value) for value in np.ravel(np.asarray(tau, object)).tolist()]
    if not given:
        raise UsageError("no tau: give one, several, or leave it out for a sweep")
    if len(given) > 1:
        return None, sorted(set(given))
    return given[0], [] if scope.binary else scope.taus().tolist()
