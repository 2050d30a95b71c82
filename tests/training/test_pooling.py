"""Pooling of networks: equal to the operators of stability, stable in float32, right gradients."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.stability import bag_scores
from training.needs import NEEDS_TORCH

torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
from calipers.training.pooling import BagPooling, log_of_rest  # noqa: E402

FREE = {
    "max": bag_scores.maximum,
    "mean": bag_scores.mean,
    "top-k:5": lambda p: bag_scores.top_mean(p, 5),
    "lse": lambda p: bag_scores.log_mean_exp(p, 1.0),
    "lse:0.1": lambda p: bag_scores.log_mean_exp(p, 0.1),
    "lse:40": lambda p: bag_scores.log_mean_exp(p, 40.0),
    "noisy-or": lambda p: bag_scores.noisy_or(p, 0.0),
    "noisy-or:0.98": lambda p: bag_scores.noisy_or(p, 0.98),
}
KNOWN = {
    "max": bag_scores.known_maximum,
    "mean": bag_scores.known_mean,
    "top-k:5": lambda p, s: bag_scores.known_top_mean(p, s, 5),
    "lse": lambda p, s: bag_scores.known_log_mean_exp(p, s, 1.0),
    "lse:0.1": lambda p, s: bag_scores.known_log_mean_exp(p, s, 0.1),
    "lse:40": lambda p, s: bag_scores.known_log_mean_exp(p, s, 40.0),
    "noisy-or": lambda p, s: bag_scores.known_noisy_or(p, s, 0.0),
    "noisy-or:0.98": lambda p, s: bag_scores.known_noisy_or(p, s, 0.98),
}
ALL = (*FREE, "region:3", "attention")
CHANNELS = 4


def made(pooling, dtype=torch.float64):
    torch.manual_seed(0)
    return BagPooling(pooling, CHANNELS).to(dtype)


def inputs(dtype=torch.float64, n=6, side=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = torch.tensor(rng.normal(-1, 2, (n, side, side)), dtype=dtype)
    features = torch.tensor(rng.normal(0, 1, (n, CHANNELS, side, side)), dtype=dtype)
    instances = torch.tensor(rng.random((n, side, side)) < 0.3)
    instances[:, 0, 0] = True
    return logits, features, instances


@pytest.mark.parametrize("pooling", FREE)
def test_equal_to_the_operators_of_stability(pooling):
    logits, _, instances = inputs()
    p = torch.sigmoid(logits).flatten(1).numpy()
    bags = made(pooling)(logits)
    np.testing.assert_allclose(bags.positive.exp(), FREE[pooling](p), rtol=1e-10)
    np.testing.assert_allclose(bags.negative.exp(), 1 - FREE[pooling](p), rtol=1e-9)
    annotated = torch.tensor([True, False, True, False, True, True])
    mixed = made(pooling)(logits, None, instances, annotated)
    known = KNOWN[pooling](p, instances.flatten(1).numpy())
    expected = np.where(annotated, known, FREE[pooling](p))
    np.testing.assert_allclose(mixed.positive.exp(), expected, rtol=1e-10)
    np.testing.assert_allclose(mixed.negative.exp(), 1 - expected, rtol=1e-8)


def test_256_certain_patches():
    bags = made("noisy-or:0.98")(torch.full((1, 16, 16), 100.0, dtype=torch.float64))
    assert bags.positive.exp().item() == pytest.approx(0.9943261823, abs=1e-10)


def test_region_by_hand():
    p = torch.full((1, 4, 4), 0.1, dtype=torch.float64)
    p[0, 1:3, 2:4] = torch.tensor([[0.9, 0.7], [0.8, 0.6]])
    bags = made("region:2")(torch.logit(p))
    assert bags.positive.exp().item() == pytest.approx(0.75)
    instances = torch.zeros(1, 4, 4, dtype=torch.bool)
    instances[0, 0, 0] = instances[0, 1, 2] = True
    known = made("region:2")(torch.logit(p), None, instances, torch.tensor([True]))
    assert known.positive.exp().item() == pytest.approx(0.5)


def test_attention_is_a_mean_under_learned_weights():
    logits, features, instances = inputs()
    pooling = made("attention")
    p = torch.sigmoid(logits).flatten(1)
    weights = pooling.attention(features.flatten(2).transpose(1, 2))[..., 0].softmax(dim=1)
    bags = pooling(logits, features)
    np.testing.assert_allclose(
        bags.positive.exp().detach(), (weights * p).sum(dim=1).detach(), rtol=1e-10
    )
    shares = weights * instances.flatten(1)
    shares = shares / shares.sum(dim=1, keepdim=True)
    known = pooling(logits, features, instances, torch.ones(6, dtype=torch.bool))
    np.testing.assert_allclose(
        known.positive.exp().detach(), (shares * p).sum(dim=1).detach(), rtol=1e-10
    )


@pytest.mark.parametrize("pooling", ALL)
def test_gradients_are_those_of_finite_differences(pooling):
    logits, features, instances = inputs(n=3)
    layer = made(pooling)
    annotated = torch.tensor([True, False, True])
    labels = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)

    def loss(z, h):
        return layer(z, h, instances, annotated).loss(labels).sum()

    logits.requires_grad_()
    features.requires_grad_(pooling == "attention")
    assert torch.autograd.gradcheck(loss, (logits, features))


@pytest.mark.parametrize("pooling", ALL)
@pytest.mark.parametrize("level", [-60.0, -5.0, 0.0, 5.0, 60.0])
def test_4096_instances_in_float32(pooling, level):
    torch.manual_seed(1)
    layer = made(pooling, torch.float32)
    z = (torch.randn(4, 64, 64) * 0.1 + level).requires_grad_()
    features = torch.randn(4, CHANNELS, 64, 64)
    instances = torch.rand(4, 64, 64) < 0.1
    annotated = torch.tensor([True, True, False, False])
    bags = layer(z, features, instances, annotated)
    exact = made(pooling)(z.detach().double(), features.double(), instances, annotated)
    for value, truth in zip(bags, exact):
        assert torch.isfinite(value).all()
        # Below TINY only the order of magnitude is kept.
        np.testing.assert_allclose(
            value.detach().clamp(min=-60), truth.detach().clamp(min=-60), rtol=2e-3, atol=1e-4
        )
    bags.loss(torch.tensor([1.0, 1.0, 1.0, 0.0])).sum().backward()
    assert torch.isfinite(z.grad).all()
    # A certain wrong answer still says in which direction to go; rescaled factors are flat there.
    if level == 60 and pooling != "noisy-or:0.98":
        assert (z.grad[3] > 0).any()


def test_log_of_rest_keeps_its_digits():
    x = torch.tensor([-1e-6, -0.1, -0.7, -5.0, -50.0])
    exact = torch.log1p(-torch.exp(x.double()))
    np.testing.assert_allclose(log_of_rest(x), exact, rtol=2e-6)


@pytest.mark.parametrize("text", ["maxi", "region", "region:0", "attention:3", "top-k"])
def test_names_that_do_not_exist(text):
    with pytest.raises(cal.UsageError, match="pooling"):
        BagPooling(text, 4)
