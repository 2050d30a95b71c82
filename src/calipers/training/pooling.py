# SPDX-License-Identifier: Apache-2.0
"""Pooling with gradients: from the logits of instances to the probability of their bag.

`BagPooling` is the last layer of the networks of `calipers.training.mil`. The operators are those
of `calipers.stability.bag_scores`, where their definitions stand, and two more that need what a
network has: ``region:3``, the highest mean over squares of 3 x 3 instances, and ``attention``, a
mean whose weights the network learns (Ilse et al. 2018, on the probabilities of instances, so that
the map keeps its meaning).

In come logits, out go the logarithms of P and of 1 - P (`LogProbability`): a loss needs nothing
else, and neither is lost in float32. Sums of logarithms take the place of products, so that 4,096
certain instances leave a gradient. Where instances are known (``annotated`` bags), P is the
probability that all of them are what they are known to be.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, logsigmoid

from calipers.errors import UsageError, did_you_mean
from calipers.stability.bag_scores import OPERATORS, Pooling

TINY = 1e-30  # far below any probability that matters, far above the smallest float32
SHARP = 10.0  # from here on exp(-r) is lost beside 1 in float32
LOG_HALF = -0.6931471805599453
ATTENTION_SIZE = 64  # hidden units of the attention
EXTRA = {"region": "side", "attention": ""}


class LogProbability(NamedTuple):
    """(B,) logarithms of P and of 1 - P."""

    positive: Tensor
    negative: Tensor

    def loss(self, labels: Tensor) -> Tensor:
        """Return (B,) the binary cross-entropy with labels of 0 and 1."""
        return -(labels * self.positive + (1 - labels) * self.negative)

    def where(self, choice: Tensor, other: LogProbability) -> LogProbability:
        """Return these for the bags of ``choice`` and the other ones elsewhere."""
        return LogProbability(
            torch.where(choice, self.positive, other.positive),
            torch.where(choice, self.negative, other.negative),
        )


class BagPooling(nn.Module):
    """A pooling operator by its name; ``channels`` are those of the features, for attention."""

    def __init__(self, text: str, channels: int = 0) -> None:
        super().__init__()
        self.text = text
        name, _, number = text.partition(":")
        self.side = _region_side(text, number) if name == "region" else 0
        self.attention = _attention(channels) if text == "attention" else None
        if not self.side and self.attention is None:
            if name not in OPERATORS:
                raise UsageError(f"no pooling {text!r}; {did_you_mean(text, [*OPERATORS, *EXTRA])}")
            self.operator = Pooling.of(text)

    def forward(
        self,
        logits: Tensor,
        features: Tensor | None = None,
        instances: Tensor | None = None,
        annotated: Tensor | None = None,
    ) -> LogProbability:
        """Pool a batch.

        Parameters
        ----------
        logits
            (B, rows, columns).
        features
            (B, channels, rows, columns), for attention.
        instances
            (B, rows, columns) flags of positive instances; read for annotated bags, which have
            one at least.
        annotated
            (B,) flags.
        """
        weights = self._weights(features)
        bags = self._pool(logits, weights)
        if instances is None or annotated is None or not bool(annotated.any()):
            return bags
        # Bags without annotation get flags too, so that no NaN comes back as a gradient.
        flags = (instances | ~annotated[:, None, None]).flatten(1)
        return self._pool_known(logits.flatten(1), flags, weights).where(annotated, bags)

    def _weights(self, features: Tensor | None) -> Tensor | None:
        """Return (B, N) logits of the attention."""
        if self.attention is None:
            return None
        assert features is not None
        # Instances are the last axis but one, so that the layers see one instance at a time.
        gate: Tensor = self.attention(features.flatten(2).transpose(1, 2))
        return gate[..., 0]

    def _pool(self, logits: Tensor, weights: Tensor | None) -> LogProbability:
        z = logits.flatten(1)
        if self.side:
            return _best_region(logits, self.side)
        if weights is not None:
            return _weighted(z, weights)
        name = self.operator.name
        if name == "max":
            highest = z.max(dim=1).values
            return LogProbability(logsigmoid(highest), logsigmoid(-highest))
        if name == "mean":
            return _mean(z)
        if name == "top-k":
            return _mean(z.topk(min(self.operator.k, z.shape[1]), dim=1).values)
        if name == "lse":
            return _soft_maximum(z, self.operator.r)
        negative = _log_factors(-z, self.operator.floor).sum(dim=1)
        return LogProbability(log_of_rest(negative), negative)

    def _pool_known(self, z: Tensor, instances: Tensor, weights: Tensor | None) -> LogProbability:
        if weights is not None:
            return _weighted(z, weights.masked_fill(~instances, -torch.inf))
        if self.side:  # the region is known
            return _weighted(z, torch.zeros_like(z).masked_fill(~instances, -torch.inf))
        name = self.operator.name
        if name == "max":
            highest = z.masked_fill(~instances, -torch.inf).max(dim=1).values
            return LogProbability(logsigmoid(highest), logsigmoid(-highest))
        if name == "top-k":
            return _known_top(z, instances, self.operator.k)
        agreeing = torch.where(instances, z, -z)
        if name == "mean":
            return _mean(agreeing)
        if name == "lse":
            return _soft_maximum(agreeing, self.operator.r)
        positive = _log_factors(agreeing, self.operator.floor).sum(dim=1)
        return LogProbability(positive, log_of_rest(positive))


def _region_side(text: str, number: str) -> int:
    if not number.isdigit() or not 1 <= int(number) <= 64:
        raise UsageError(f"pooling region needs the side of the region, region:3, got {text!r}")
    return int(number)


def _attention(channels: int) -> nn.Module:
    """Return the two layers that give an instance its weight."""
    return nn.Sequential(
        nn.Linear(channels, ATTENTION_SIZE), nn.Tanh(), nn.Linear(ATTENTION_SIZE, 1)
    )


def log_of_rest(logarithm: Tensor) -> Tensor:
    """Return log(1 - exp(x)) of x <= 0."""
    x = logarithm.clamp(max=-TINY)
    # Each form is exact where the other one loses digits. Both see safe values everywhere: a NaN
    # of the form that is not used would still reach the gradient.
    near = torch.log(-torch.expm1(x.clamp(min=LOG_HALF)))
    far = torch.log1p(-torch.exp(x.clamp(max=LOG_HALF)))
    return torch.where(x > LOG_HALF, near, far)


def _log_factors(z: Tensor, floor: float) -> Tensor:
    """Return log(floor + (1 - floor) sigmoid(z))."""
    if not floor:
        return logsigmoid(z)
    # 1 - (1 - floor) sigmoid(-z)
    return torch.log1p(-(1 - floor) * torch.sigmoid(-z))


def _mean(z: Tensor) -> LogProbability:
    return _weighted(z, torch.zeros_like(z))


def _weighted(z: Tensor, weights: Tensor) -> LogProbability:
    """Return the mean of the probabilities under the weights softmax(weights)."""
    shares = torch.log_softmax(weights, dim=1)
    positive = torch.logsumexp(shares + logsigmoid(z), dim=1)
    return LogProbability(positive, torch.logsumexp(shares + logsigmoid(-z), dim=1))


def _known_top(z: Tensor, instances: Tensor, k: int) -> LogProbability:
    """Return the mean of the k highest probabilities of the known instances."""
    order = z.masked_fill(~instances, -torch.inf).argsort(dim=1, descending=True)
    places = torch.arange(z.shape[1], device=z.device)
    n = instances.sum(dim=1, keepdim=True).clamp(max=k)
    weights = torch.zeros_like(z).masked_fill(places >= n, -torch.inf)
    return _weighted(z.gather(1, order), weights)


def _soft_maximum(z: Tensor, r: float) -> LogProbability:
    """Return (1/r) log mean exp(r p)."""
    p, q = torch.sigmoid(z), torch.sigmoid(-z)
    if r <= SHARP:
        # Small p in the first and small 1 - p in the second keep their digits.
        value = torch.log1p(torch.expm1(r * p).mean(dim=1)) / r
        rest = -torch.log1p(torch.expm1(-r * q).mean(dim=1)) / r
    else:
        best = p.argmax(dim=1, keepdim=True)
        highest, lowest = p.gather(1, best), q.gather(1, best)
        below = torch.exp(r * (p - highest)).mean(dim=1).log() / r  # <= 0
        value, rest = highest[:, 0] + below, lowest[:, 0] - below
    return LogProbability(value.clamp(min=TINY).log(), rest.clamp(min=TINY).log())


def _best_region(logits: Tensor, side: int) -> LogProbability:
    """Return the mean of the square of instances that has the highest one."""
    squares = min(side, *logits.shape[1:])
    p = avg_pool2d(torch.sigmoid(logits)[:, None], squares, stride=1).flatten(1)
    q = avg_pool2d(torch.sigmoid(-logits)[:, None], squares, stride=1).flatten(1)
    best = p.argmax(dim=1, keepdim=True)
    positive, negative = p.gather(1, best)[:, 0], q.gather(1, best)[:, 0]
    return LogProbability(positive.clamp(min=TINY).log(), negative.clamp(min=TINY).log())
