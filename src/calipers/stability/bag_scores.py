# SPDX-License-Identifier: Apache-2.0
"""How a map becomes one score of its bag: the names of pooling operators, and what they mean.

`Pooling.of` reads what users write, ``max`` or ``top-k:8``: a name and, for some, a number. The
arithmetic is in `calipers.kernels.pooling`. `calipers.stability.evidence` pools every bag once, by
`STANDARD` and by the operator that the user chose; `calipers.training` reads the same names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calipers.arrays import F64
from calipers.errors import UsageError, did_you_mean, word
from calipers.kernels import pooling as kernels

LARGEST_K = 2**31
# Name -> what the number after the colon is; "" where there is none.
OPERATORS = {"max": "", "mean": "", "noisy-or": "floor", "lse": "r", "top-k": "k"}
STANDARD = ("max", "mean", "noisy-or", "lse")  # these need no number
WRITTEN = "max, mean, noisy-or, noisy-or:0.98, lse, lse:10, top-k:8"


@dataclass(frozen=True, slots=True)
class Pooling:
    """A pooling operator.

    ``floor`` is the smallest factor of a noisy-or; ``r`` is the sharpness of log-sum-exp; ``k``
    counts the highest values of top-k.
    """

    name: str
    floor: float = 0.0
    r: float = 1.0
    k: int = 1

    @classmethod
    def of(cls, text: str) -> Pooling:
        """Read an operator as users write it.

        Examples
        --------
        >>> Pooling.of("lse:10").r, str(Pooling.of("top-k:8"))
        (10.0, 'top-k:8')
        """
        name, colon, number = word("pooling", text).partition(":")
        if name not in OPERATORS:
            raise UsageError(f"no pooling {text!r}; {did_you_mean(name, OPERATORS)}")
        parameter = OPERATORS[name]
        if colon and not parameter:
            raise UsageError(f"pooling {name} takes no number, got {text!r}; known: {WRITTEN}")
        if not colon and name == "top-k":
            raise UsageError("pooling top-k needs the number of instances, such as top-k:8")
        if not colon:
            return cls(name)
        value = _number(text, parameter, number)
        if parameter == "k":
            return cls(name, k=int(value))
        return cls(name, r=value) if parameter == "r" else cls(name, floor=value)

    def __str__(self) -> str:
        """Return the operator as users write it."""
        default = Pooling(self.name)
        if self == default and self.name != "top-k":
            return self.name
        return f"{self.name}:{getattr(self, OPERATORS[self.name]):g}"

    @property
    def words(self) -> str:
        """What is taken of each map, for sentences."""
        if self.name == "top-k":
            return f"mean of the {self.k} highest values"
        if self.name == "lse" and self.r != 1:
            return f"lse (r = {self.r:g})"
        if self.floor:
            return f"noisy-or (factors from {self.floor:g} to 1)"
        return self.name

    def order(self, values: F64) -> F64:
        """Return (K,) scores of the maps (K, N), in the order of the operator's probabilities.

        They are the probabilities themselves, except for noisy-or: it does not stick to 1 here.
        """
        if self.name == "max":
            return kernels.maximum(values)
        if self.name == "mean":
            return kernels.mean(values)
        if self.name == "top-k":
            return kernels.top_mean(values, self.k)
        if self.name == "lse":
            return kernels.log_mean_exp(values, self.r)
        return kernels.noisy_or_order(values, self.floor)


def _number(text: str, parameter: str, number: str) -> float:
    """Return the number of an operator, checked."""
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if parameter == "k":
        if not (value == value // 1 and 1 <= value <= LARGEST_K):
            raise UsageError(f"pooling top-k takes a whole number from 1 on, got {text!r}")
        return value
    if parameter == "r" and not (0 < value < math.inf):
        raise UsageError(f"pooling lse takes a number above 0, got {text!r}")
    if parameter == "floor" and not 0 <= value < 1:
        raise UsageError(f"pooling noisy-or takes a floor from 0 to below 1, got {text!r}")
    return value


def pool_maps(values: F64, poolings: tuple[Pooling, ...]) -> F64:
    """Return (n_poolings, K): every pooling of the maps (K, N)."""
    return np.stack([pooling.order(values) for pooling in poolings])
