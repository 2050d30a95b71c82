"""What RoDeO says about oracles, where it can be worked out on paper.

One box per image, so that the matching is certain; then every number has a closed form. Where a
mean is random, it has to lie within four of its standard errors, which are known too.
"""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from oracle_cases import one_box_each, said

MANY = 20_000
LN2 = np.log(2.0)
DIMENSIONS = pytest.mark.parametrize("dimensions", [2, 3])


@DIMENSIONS
@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 2.0])
def test_localization_under_position_noise(sigma: float, dimensions: int) -> None:
    """E[2^-d^2] = (1 + 2 ln2 s^2)^(-dimensions / 2), and E[4^-d^2] likewise with 4 ln2."""
    cohort = one_box_each(MANY, dimensions=dimensions)
    found = cal.rodeo(cal.corrupt(cohort, "position-noise", sigma=sigma))
    mean, square = ((1 + 2 * k * LN2 * sigma**2) ** (-dimensions / 2) for k in (1, 2))
    assert abs(found.localization - mean) < 4 * np.sqrt((square - mean**2) / MANY)
    assert (found.shape, found.classification) == (
        pytest.approx(1, abs=1e-9),
        pytest.approx(1, abs=1e-12),
    )


@DIMENSIONS
@pytest.mark.parametrize("bias", [0.0, 0.3, 1.0, 1.7])
def test_localization_under_position_bias(bias: float, dimensions: int) -> None:
    found = cal.rodeo(
        cal.corrupt(one_box_each(500, dimensions=dimensions), "position-bias", bias=bias)
    )
    assert found.localization == pytest.approx(2.0 ** -(bias**2), abs=1e-9)
    assert (found.shape, found.classification) == (
        pytest.approx(1, abs=1e-9),
        pytest.approx(1, abs=1e-12),
    )


@DIMENSIONS
@pytest.mark.parametrize("kind", ["shape-noise", "size-noise", "aspect-noise"])
def test_shape_moves_nothing_else(kind: str, dimensions: int) -> None:
    cohort = one_box_each(2000, dimensions=dimensions)
    shapes = []
    for sigma in (0.1, 0.4, 1.0):
        found = cal.rodeo(cal.corrupt(cohort, kind, sigma=sigma))
        assert (found.localization, found.classification) == (
            pytest.approx(1, abs=1e-9),
            pytest.approx(1, abs=1e-12),
        )
        shapes.append(found.shape)
    assert 1 > shapes[0] > shapes[1] > shapes[2] > 0


def test_size_noise_has_a_closed_form() -> None:
    """Boxes about one centre, a factor f: IoU = f^-d or f^d, E = 2 exp(k^2 / 2) Phi(-k) with k = d
    sigma.
    """
    from scipy.stats import norm

    for dimensions in (2, 3):
        k = dimensions * 0.3
        mean, square = (2 * np.exp((m * k) ** 2 / 2) * norm.cdf(-m * k) for m in (1, 2))
        found = cal.rodeo(
            cal.corrupt(one_box_each(MANY, dimensions=dimensions), "size-noise", sigma=0.3)
        )
        assert abs(found.shape - mean) < 4 * np.sqrt((square - mean**2) / MANY)


@pytest.mark.parametrize("mean", [0.0, 0.5, 1.0, 3.0])
def test_copies_cost_a_hyperbola_not_an_exponential(mean: float) -> None:
    cohort = cal.corrupt(one_box_each(MANY), "box-overprediction", mean=mean, name="copies")
    found, copies = cal.rodeo(cohort), len(said(cohort)) / MANY - 1
    assert found.shape == pytest.approx(
        1 / (1 + copies), abs=1e-9
    )  # exactly, of the copies that were drawn
    assert found.classification == pytest.approx(1 / (1 + copies), abs=1e-9)
    assert abs(copies - mean) <= 4 * np.sqrt(mean * (1 + mean) / MANY)
    # Of several copies the nearest is matched, so the place is better than that of a single one.
    assert found.localization >= found.shape / (1 + 2 * LN2 * 0.25) * 0.99


@pytest.mark.parametrize("p", [0.0, 0.2, 0.7, 1.0])
def test_confusion_moves_the_class_only(p: float) -> None:
    """Accuracy 1 - p + (1 - (1 - p)^C) / C, and cls = (C acc - 1) / (C - 1), at least 0."""
    found = cal.rodeo(cal.corrupt(one_box_each(MANY), "class-confusion", p=p))
    assert (found.localization, found.shape) == (
        pytest.approx(1, abs=1e-12),
        pytest.approx(1, abs=1e-12),
    )
    accuracy = 1 - p + (1 - (1 - p) ** 4) / 4
    error = 4 / 3 * np.sqrt(accuracy * (1 - accuracy) / MANY)
    assert abs(found.classification - max(0, (4 * accuracy - 1) / 3)) <= 4 * error + 1e-12


@pytest.mark.parametrize("p", [0.2, 0.6])
def test_missing_classes_cost_all_parts_alike(p: float) -> None:
    cohort = cal.corrupt(one_box_each(MANY), "class-underprediction", p=p, noise=0.0)
    found, kept = cal.rodeo(cohort), len(said(cohort)) / MANY
    for part in (found.localization, found.shape, found.classification, found.total):
        assert part == pytest.approx(kept, abs=1e-9)
    assert abs(kept - (1 - p)) < 4 * np.sqrt(p * (1 - p) / MANY)


def test_further_classes_cost_all_parts_alike() -> None:
    cohort = cal.corrupt(one_box_each(MANY), "class-overprediction", p=0.25)
    found, said_per_image = cal.rodeo(cohort), len(said(cohort)) / MANY
    assert abs(said_per_image - (1 + 3 * 0.25)) < 4 * np.sqrt(3 * 0.25 * 0.75 / MANY)
    for part in (found.localization, found.shape, found.classification):
        assert part == pytest.approx(
            1 / said_per_image, abs=0.02
        )  # an added box rarely lies better than the right one


def test_random_boxes_know_classes_but_not_places() -> None:
    found = cal.rodeo(cal.corrupt(one_box_each(2000), "random-boxes", size=0.2))
    assert found.classification == pytest.approx(1, abs=1e-12)
    assert found.localization < 0.3
    assert found.total < 0.6
