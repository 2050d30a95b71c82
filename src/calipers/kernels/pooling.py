# SPDX-License-Identifier: Apache-2.0
"""Pooling: from the probabilities of the instances of a bag to the probability of the whole bag.

In come arrays (..., N) of probabilities, out go arrays (...,). `calipers.stability.evidence` scores
bags with these functions; `calipers.training.pooling` has the same operators for networks, with
gradients, and is tested against these.

- `maximum`, `mean`, `top_mean` (the mean of the k highest, Zhu et al. 2017).
- `log_mean_exp`, LSE-r: (1/r) log mean exp(r p). It goes to the maximum only as r grows; on
  probabilities it is within r/8 of the mean, so that r = 1 is near the mean.
- `noisy_or`: 1 - prod(1 - p), the probability that at least one of independent instances is
  positive. With a ``floor`` f, every factor is rescaled to [f, 1], as in the network of Li et al.
  (2018), f = 0.98: without it, products over hundreds of instances are 0 or 1 in practice.

Of images whose positive ``instances`` S are known, the same operators ask for all instances at once
(``known_...``): the probability that those in S are positive and the others are not. `agreeing`
gives p in S and 1 - p elsewhere. (Equation 23 of the stability paper lost this "1 -".)
"""

from __future__ import annotations

import numpy as np

from calipers.arrays import F64, Flags


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
    """Return the probability that every instance is what it is known to be: p in ``instances``, 1 - p
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
