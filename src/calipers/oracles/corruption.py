# SPDX-License-Identifier: Apache-2.0
"""`corrupt`: a model made from the references by one corruption, or by several after each other."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.errors import UsageError, did_you_mean
from calipers.kernels.resampling import check_seed
from calipers.oracles import boxes, classes
from calipers.oracles.drawn import Drawn, as_predictions, drawn_from
from calipers.tables import Cohort

KINDS: Mapping[str, Callable[..., Drawn]] = {
    "position-noise": boxes.position_noise,
    "position-bias": boxes.position_bias,
    "shape-noise": boxes.shape_noise,
    "size-noise": boxes.size_noise,
    "aspect-noise": boxes.aspect_noise,
    "class-underprediction": classes.class_underprediction,
    "class-overprediction": classes.class_overprediction,
    "box-overprediction": boxes.box_overprediction,
    "class-confusion": classes.class_confusion,
    "random-boxes": classes.random_boxes,
}
STREAM = 0x6F7261  # keeps the draws apart from the replicates that share a seed
SHARES = ("p", "size", "share")  # lie in [0, 1]; other numbers are not negative


@dataclass(frozen=True)
class Corruption:
    """One kind with its choices."""

    kind: str
    choices: Mapping[str, float | bool]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={_said(value)}' for name, value in self.choices.items())})"

    @classmethod
    def parse(cls, text: str) -> Corruption:
        """Return the corruption of ``position-noise(sigma=0.5)``."""
        found = re.fullmatch(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", text)
        if found is None:
            raise UsageError(f"a corruption reads like position-noise(sigma=0.5), not {text!r}")
        choices: dict[str, float | bool] = {}
        for part in filter(None, (part.strip() for part in (found[2] or "").split(","))):
            name, sign, value = part.partition("=")
            try:
                choices[name.strip()] = value.strip() == "True" if value.strip() in ("True", "False") else float(value)
            except ValueError:
                sign = ""
            if not sign:
                raise UsageError(f"a corruption reads like position-noise(sigma=0.5), not {text!r}")
        return checked(found[1], choices)


def corrupt(
    cohort: Cohort,
    kind: str | Sequence[str],
    *,
    seed: int = 0,
    name: str | None = None,
    of: str | None = None,
    **choices: float | bool,
) -> Cohort:
    """Return the cohort with one more model: the references, corrupted in a known way.

    Parameters
    ----------
    kind
        One of `calipers.oracles.KINDS`; or several with their choices, which follow each other:
        ``["class-confusion(p=0.3)", "position-noise(sigma=0.5)"]``.
    seed
        Of the random numbers; the same seed gives the same model.
    name
        Of the model; ``kind(parameter=value)`` if left out.
    of
        Corrupt the predictions of this model instead of the references; scores become 1.
    choices
        Those of the kind: ``sigma``, ``bias``, ``p``, ``mean``, ``size``; see `calipers.oracles`.

    Notes
    -----
    Ignored references are left out: an oracle says nothing about them. All scores are 1. Boxes may leave the image.

    Examples
    --------
    >>> import calipers as cal
    >>> cohort = cal.corrupt(cal.demo_cohort(), "position-noise", sigma=0.5)
    >>> list(cohort.models)[-1]
    'position-noise(sigma=0.5)'
    >>> result = cal.rodeo(cohort, "position-noise(sigma=0.5)")
    >>> result.localization < result.shape  # places are wrong, shapes are not
    True
    """
    check_seed(seed)
    steps = [checked(kind, choices)] if isinstance(kind, str) and "(" not in kind else _several(kind, choices)
    name = " + ".join(map(str, steps)) if name is None else name
    if name in cohort.models:
        raise UsageError(f"the cohort has a model {name!r} already: give the new one another name")
    drawn = (
        drawn_from(cohort.references, ~cohort.references.ignore) if of is None else drawn_from(cohort.predictions(of))
    )
    random = np.random.Generator(np.random.Philox(key=np.array([seed, STREAM], np.uint64)))
    for step in steps:
        drawn = KINDS[step.kind](drawn, cohort, random, **step.choices)
    return cohort.with_predictions(name, as_predictions(drawn, cohort.n_images))


def _several(kind: str | Sequence[str], choices: Mapping[str, Any]) -> list[Corruption]:
    if choices:
        raise UsageError("choices stand behind each kind, such as position-noise(sigma=0.5), if there are several")
    texts = [kind] if isinstance(kind, str) else list(kind)
    if not texts:
        raise UsageError(f"at least one corruption: {', '.join(KINDS)}")
    return [Corruption.parse(text) for text in texts]


def checked(kind: str, choices: Mapping[str, float | bool]) -> Corruption:
    """Return a corruption whose kind and choices are known and in range."""
    if kind not in KINDS:
        raise UsageError(f"no corruption {kind!r}; {did_you_mean(kind, KINDS)}")
    known = {p.name: p for p in inspect.signature(KINDS[kind]).parameters.values() if p.kind == p.KEYWORD_ONLY}
    for name, value in choices.items():
        if name not in known:
            raise UsageError(f"{kind} has no {name!r}; {did_you_mean(name, known)}")
        if name == "literal":
            continue
        if isinstance(value, bool) or not math.isfinite(value) or value < 0:
            raise UsageError(f"{kind}: {name} is a number of at least 0, not {value!r}")
        if name in SHARES and value > 1:
            raise UsageError(f"{kind}: {name} lies in [0, 1], got {value!r}")
        if name in ("size", "share") and value == 0:
            raise UsageError(f"{kind}: {name} is above 0")
    missing = [name for name, p in known.items() if p.default is p.empty and name not in choices]
    if missing:
        raise UsageError(f"{kind} needs {', '.join(missing)}")
    return Corruption(kind, dict(choices))


def _said(value: float | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{value:g}"
