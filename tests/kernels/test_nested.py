"""The nested kernel against the dense twin, and its search against itself from other places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from calipers.kernels import mixed
from reference import mixed as twin
from seeds import looped, looped_seeds

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    x: F64
    y: F64
    levels: list[I64]  # innermost first

    @property
    def tree(self) -> mixed.Nest:
        return mixed.nest(self.x, self.y, self.levels)


def case(seed: int, depth: int | None = None, n: int = 40) -> Case:
    """Random rows in random nested groups; some groups have no effect at all."""
    random = np.random.default_rng([20_261, seed])
    depth = int(random.integers(1, 5)) if depth is None else depth
    codes: list[I64] = []
    for _ in range(depth):
        own = random.integers(0, random.integers(2, 5), n)
        outer = codes[-1] if codes else np.zeros(n, np.int64)
        codes.append(np.unique(outer * 10 + own, return_inverse=True)[1])
    order = np.argsort(codes[-1], kind="stable") if codes else np.arange(n)
    codes = [code[order] for code in codes]
    x = np.column_stack([np.ones(n), random.normal(100.0, 5.0, n), random.random(n) < 0.4])
    y = x @ [1.0, 0.02, -0.3] + 0.5 * random.standard_normal(n)
    for code in codes:
        y = y + random.choice([0.0, 0.3, 2.0]) * random.standard_normal(code.max() + 1)[code]
    return Case(x, y, codes[::-1])


@pytest.mark.parametrize("reml", [True, False])
@looped("seed", range(12))
def test_deviance_equals_the_dense_twin(seed: int, reml: bool) -> None:
    made = case(seed)
    tree = made.tree
    for relative in np.random.default_rng(seed).choice(
        [0.0, 1e-3, 0.7, 40.0], (5, len(made.levels))
    ):
        v = twin.covariance([code.tolist() for code in made.levels], relative.tolist())
        point = mixed.climb(tree, relative)
        assert point is not None
        for sigma2 in (None, 0.3):
            expected = twin.deviance(made.x, made.y, v, sigma2, reml=reml)
            assert mixed.deviance(tree, point, sigma2, reml=reml) == pytest.approx(
                expected, rel=1e-9
            )
        found = mixed.at_optimum(tree, relative, reml=reml, converged=True)
        assert found is not None
        beta, spread, rss = twin.solved(made.x, made.y, v)
        sigma2 = rss / (len(made.y) - made.x.shape[1] if reml else len(made.y))
        np.testing.assert_allclose(found.beta, beta, rtol=1e-7)
        np.testing.assert_allclose(found.covariance, sigma2 * spread, rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_predicted_intercepts_equal_the_dense_twin(seed: int) -> None:
    made = case(seed)
    relative = np.linspace(0.2, 1.5, len(made.levels))
    v = twin.covariance([code.tolist() for code in made.levels], relative.tolist())
    for code, g, (value, variance) in zip(
        made.levels, relative, mixed.intercepts(made.tree, relative)
    ):
        np.testing.assert_allclose(
            value, twin.intercepts(made.x, made.y, v, code.tolist(), g), atol=1e-9
        )
        z = (code[:, None] == np.arange(code.max() + 1)).astype(float)
        np.testing.assert_allclose(
            variance, g - g**2 * np.diag(z.T @ np.linalg.inv(v) @ z), atol=1e-9
        )


@pytest.mark.parametrize("reml", [True, False])
@pytest.mark.parametrize("sigma2", [None, 0.8])
def test_gradient_is_the_derivative(reml: bool, sigma2: float | None) -> None:
    tree = case(3, depth=3).tree
    at = np.array([0.3, 0.2, 0.6])

    def value(relative: F64) -> float:
        point = mixed.climb(tree, relative)
        assert point is not None
        return mixed.deviance(tree, point, sigma2, reml=reml)

    point = mixed.climb(tree, at)
    assert point is not None
    numeric = [(value(at + h) - value(at - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(
        mixed.gradient(tree, point, sigma2, reml=reml), numeric, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("reml", [True, False])
@looped_seeds(25, default=10)
def test_no_other_start_finds_a_lower_deviance(seed: int, reml: bool) -> None:
    tree = case(seed, n=70).tree
    found = mixed.fit(tree, reml=reml)
    assert found is not None
    assert found.converged
    random = np.random.default_rng(seed)
    for start in random.choice([0.02, 0.3, 1.0, 3.0, 30.0], (6, tree.levels)):
        other = mixed.fit(tree, reml=reml, start=start)
        assert other is not None
        assert found.deviance <= other.deviance + 1e-7


@looped("seed", range(15))
def test_the_optimum_satisfies_its_conditions(seed: int) -> None:
    """The derivative vanishes where a variance is positive,
    and points outwards where it is zero.
    """
    found = mixed.fit(case(seed, n=60).tree, reml=True)
    assert found is not None
    inside = found.relative > 0
    np.testing.assert_allclose((found.gradient * found.relative)[inside], 0.0, atol=1e-4)
    assert (found.gradient[~inside] > -1e-6).all()


def test_both_kinds_of_ends_occur() -> None:
    ends = [mixed.fit(case(seed, n=60).tree, reml=True).relative for seed in range(15)]  # type: ignore[union-attr]
    flat = np.concatenate(ends)
    assert (flat == 0).sum() >= 5
    assert (flat > 0).sum() >= 5


def test_without_levels_it_is_least_squares() -> None:
    made = case(1, depth=0)
    found = mixed.fit(made.tree, reml=True)
    assert found is not None
    beta, rss, _, _ = np.linalg.lstsq(made.x, made.y, rcond=None)
    np.testing.assert_allclose(found.beta, beta, rtol=1e-8)
    assert found.sigma2 == pytest.approx(float(rss[0]) / (len(made.y) - 3))


def test_a_weight_of_two_is_the_group_twice() -> None:
    made = case(5, depth=3)
    outer = made.levels[-1]
    times = np.random.default_rng(0).integers(0, 3, outer.max() + 1)
    rows = np.concatenate(
        [np.flatnonzero(outer == g) for g, k in enumerate(times) for _ in range(k)]
    )
    copy = np.concatenate(
        [
            np.full((outer == g).sum(), i)
            for i, g in enumerate(np.repeat(np.arange(len(times)), times))
        ]
    )
    levels = [np.unique(copy * 1000 + code[rows], return_inverse=True)[1] for code in made.levels]
    literal = mixed.fit(mixed.nest(made.x[rows], made.y[rows], levels), reml=True)
    weighted = mixed.fit(mixed.nest(made.x, made.y, made.levels, times), reml=True)
    assert literal is not None
    assert weighted is not None
    assert weighted.deviance == pytest.approx(literal.deviance, abs=1e-6)
    np.testing.assert_allclose(weighted.beta, literal.beta, rtol=1e-5)
    np.testing.assert_allclose(weighted.covariance, literal.covariance, rtol=1e-4)


def test_a_replicate_without_full_rank_has_no_fit() -> None:
    level = np.repeat([0, 1, 2], 4)
    x = np.column_stack([np.ones(12), level == 1])
    tree = mixed.nest(x, np.arange(12.0), [level], np.array([2, 0, 1]))
    assert mixed.fit(tree, reml=True) is None


@pytest.mark.parametrize("which", [0, 1, 2])
def test_profile_bounds_lie_where_the_dense_twin_says(which: int) -> None:
    """At a bound, the twin's deviance, minimised over all other variances,
    is `rise` above the minimum.
    """
    from scipy.optimize import minimize

    made, rise = case(8, depth=2, n=60), 3.841459
    tree = made.tree
    best = mixed.fit(tree, reml=False)
    assert best is not None
    codes = [code.tolist() for code in made.levels]

    def value(free: F64, held: float) -> float:
        variances = np.insert(np.exp(free), which, held**2)  # innermost, outer, residual
        v = twin.covariance(codes, (variances[:2] / variances[2]).tolist())
        return twin.deviance(made.x, made.y, v, float(variances[2]), reml=False)

    start = np.delete(np.log(np.maximum(np.append(best.relative, 1.0) * best.sigma2, 1e-3)), which)
    bounds = mixed.interval(tree, best, which, rise, reml=False)
    assert bounds[0] <= np.sqrt(np.append(best.relative, 1.0)[which] * best.sigma2) < bounds[1]
    for bound in bounds:
        if bound > 0:
            lowest = minimize(
                value,
                start,
                args=(bound,),
                method="Nelder-Mead",
                options={"xatol": 1e-5, "fatol": 1e-8},
            )
            assert lowest.fun == pytest.approx(best.deviance + rise, abs=2e-3)


@looped("seed", range(10))
def test_search_and_crossing_on_known_functions(seed: int) -> None:
    from calipers.kernels.mixed import crossing, minimise

    random = np.random.default_rng(seed)
    m = random.standard_normal((3, 3))
    curvature, centre = m @ m.T + np.eye(3), random.standard_normal(3)

    def bowl(at: F64) -> tuple[float, F64]:
        away = at - centre
        return float(away @ curvature @ away), 2.0 * curvature @ away

    nowhere, everywhere = np.full(3, -np.inf), np.full(3, np.inf)
    at, value, done = minimise(bowl, np.zeros(3), nowhere, everywhere, 1e-12)
    assert done
    np.testing.assert_allclose(at, centre, atol=1e-5)
    assert value == pytest.approx(0.0, abs=1e-9)
    at, _, done = minimise(bowl, np.ones(3), np.zeros(3), everywhere, 1e-12)
    slope = bowl(at)[1]
    assert done
    assert (at >= 0).all()
    assert (slope[at == 0] >= 0).all()
    np.testing.assert_allclose(slope[at > 0], 0.0, atol=1e-4)
    root = float(random.uniform(0.1, 5))
    assert crossing(lambda z: z**3 - root**3, 0.0, 9.0, 1e-10) == pytest.approx(root)
    assert crossing(lambda z: root - z, 9.0, 0.0, 1e-10) == pytest.approx(root)
