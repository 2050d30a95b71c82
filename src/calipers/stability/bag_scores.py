# SPDX-License-Identifier: Apache-2.0
"""How a map becomes one score of its bag: pooling operators, and the names that users write.

The functions take arrays (..., N) of the probabilities of instances and return arrays (...,).

- `maximum`, `mean`, `top_mean` (the mean of the k highest, Zhu et al. 2017).
- `log_mean_exp`, LSE-r: (1/r) log mean exp(r p). It goes to the maximum only as r grows; on
  probabilities it is within r/8 of the mean, so that r = 1 is near the mean.
- `noisy_or`: 1 - prod(1 - p), the probability that at least one of independent instances is
  positive. With a ``floor`` f, every factor is rescaled to [f, 1], as in the network of Li et al.
  (2018), f = 0.98: without it, products over hundreds of instances are 0 or 1 in practice.

Of images whose positive ``instances`` S are known, the same operators ask for all instances at once
(``known_...``): the probability that those in S are positive and the others are not. `agreeing`
gives p in S and 1 - p elsewhere. (Equation 23 of the stability paper lost this "1 -".)

`Pooling.of` reads what users write, ``max`` or ``top-k:8``: a name and, for some, a number.
`calipers.stability.evidence` pools every bag once, by `STANDARD` and by the operator that the user
chose. `calipers.training` reads the same names, and has the same operators with gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calipers.arrays import F64, Flags
from calipers.errors import UsageError, did_you_mean, word

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
            return maximum(values)
        if self.name == "mean":
            return mean(values)
        if self.name == "top-k":
            return top_mean(values, self.k)
        if self.name == "lse":
            return log_mean_exp(values, self.r)
        return noisy_or_order(values, self.floor)


def _number(text: str, parameter: str, number: str) -> float:
    """Return the number of an operator, checked."""
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if parameter == "k":
        if not (value == value // 1 and 1 <= value <= LARGEST_K):
            raise UsageError(f"pooling top-k takes a whole number of at least 1, got {text!r}")
        return value
    if parameter == "r" and not (0 < value < math.inf):
        raise UsageError(f"pooling lse takes a number above 0, got {text!r}")
    if parameter == "floor" and not 0 <= value < 1:
        raise UsageError(f"pooling noisy-or takes a floor from 0 to below 1, got {text!r}")
    return value


def pool_maps(values: F64, poolings: tuple[Pooling, ...]) -> F64:
    """Return (n_poolings, K): every pooling of the maps (K, N)."""
    return np.stack([pooling.order(values) for pooling in poolings])


def maximum(values: F64) -> F64:
    """Return the highest value."""
    return np.asarray(values.max(axis=-1))


def mean(values: F64) -> F64:
    """Return the mean value."""
    return np.asarray(values.mean(axis=-1))


def top_mean(values: F64, k: int) -> F64:
    """Return the mean of the k highest values, of all if there are no more than k."""
    k = min(k, values.shape[-1])
    return np.asarray(np.partition(values, -k, axis=-1)[..., -k:].mean(axis=-1))


def log_mean_exp(values: F64, r: float) -> F64:
    """Return (1/r) log mean exp(r p) for r > 0."""
    # Exponents are at most 0, so that nothing overflows however large r is.
    highest = values.max(axis=-1, keepdims=True)
    total = np.exp(r * (values - highest)).mean(axis=-1)
    return np.asarray(highest[..., 0] + np.log(total) / r)


def noisy_or(values: F64, floor: float) -> F64:
    """Return 1 - prod(1 - p), every factor rescaled to [floor, 1]."""
    return np.asarray(-np.expm1(-noisy_or_order(values, floor)))


def noisy_or_order(values: F64, floor: float) -> F64:
    """Return -log(1 - noisy-or): the same order of bags, but not stuck at 1 where many instances
    are nearly certain. Infinite if an instance is certain and the floor is 0.
    """
    # floor + (1 - floor) (1 - p) = 1 - (1 - floor) p
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log1p(-(1 - floor) * values).sum(axis=-1))


def agreeing(values: F64, instances: Flags) -> F64:
    """Return the probability that an instance is what it is known to be: p in ``instances``, 1 - p
    elsewhere.
    """
    return np.where(instances, values, 1 - values)


def known_maximum(values: F64, instances: Flags) -> F64:
    """Return the highest value of the known instances."""
    return np.asarray(np.where(instances, values, -np.inf).max(axis=-1))


def known_mean(values: F64, instances: Flags) -> F64:
    """Return (sum of p over S + sum of 1 - p elsewhere) / N."""
    return mean(agreeing(values, instances))


def known_top_mean(values: F64, instances: Flags, k: int) -> F64:
    """Return the mean of the k highest values of the known instances, of all these if there are
    no more than k.
    """
    ordered = -np.sort(-np.where(instances, values, -np.inf), axis=-1)
    n = np.minimum(instances.sum(axis=-1, keepdims=True), k)
    highest = np.arange(values.shape[-1]) < n
    return np.asarray(np.where(highest, ordered, 0.0).sum(axis=-1) / n[..., 0])


def known_log_mean_exp(values: F64, instances: Flags, r: float) -> F64:
    """Return (1/r) log of the mean of exp(r p) over S and exp(r (1 - p)) elsewhere."""
    return log_mean_exp(agreeing(values, instances), r)


def known_noisy_or(values: F64, instances: Flags, floor: float) -> F64:
    """Return the product of p over S and of 1 - p elsewhere, every factor rescaled to
    [floor, 1].
    """
    factors = floor + (1 - floor) * agreeing(values, instances)
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.log(factors).sum(axis=-1)))
