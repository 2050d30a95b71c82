"""FROC against the twin and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.metrics.ranking import RATES
from cases import KINDS, MODEL, cohort_of, metric_of, values_of
from kernel_routes import native_by_default
from reference import boxes
from reference.matching import Rule, fates
from reference.plain import things
from reference.ranking import entries_of, froc, positives

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rates", [RATES, (1.0,), (0.0,), (0.3, 2.5)])
def test_froc_equals_the_twin(rates: tuple[float, ...], kind: str) -> None:
    for seed in range(4):
        cohort = cohort_of(kind, seed)
        references, predictions = things(cohort, MODEL)

        def similarity(r, p):
            return (boxes.iop if r.crowd else boxes.iou)(r.box, p.box)

        found = fates(
            references, predictions, "by-score", Rule(similarity, lambda s: s >= 0.3, max_dets=100)
        )
        expected = [
            froc(
                entries_of(predictions, found, c),
                positives(references, found, c),
                cohort.n_images,
                rates,
            )
            for c in (None, *range(len(cohort.classes)))
        ]
        metric = metric_of("froc", {"thresholds": 0.3}, rates=list(rates))
        np.testing.assert_allclose(values_of(metric, cohort)[:, 0], expected, rtol=1e-14)


def interpolated(
    entries: list[tuple[float, bool]], n_references: int, n_images: int, rates: tuple[float, ...]
) -> float:
    """The score of MONAI and CAMELYON16 from its definition: thresholds are the distinct scores,
    missed references have the score 0, and numpy draws the lines.
    """
    if not n_references:
        return float("nan")
    hit = np.array([s for s, is_hit in entries if is_hit])
    alarm = np.array([s for s, is_hit in entries if not is_hit])
    points = [(0.0, 0.0)]
    for threshold in sorted({s for s, _ in entries}, reverse=True):
        alarms = (alarm >= threshold).sum() / n_images
        points.append((alarms, (hit >= threshold).sum() / n_references))
    return float(np.mean(np.interp(rates, *zip(*points))))


@pytest.mark.parametrize("kind", ["plain", "tied scores", "ignored", "mostly empty"])
@pytest.mark.parametrize("rates", [RATES, (0.0,), (0.3, 2.5)])
def test_interpolated_froc_equals_its_definition(rates: tuple[float, ...], kind: str) -> None:
    metric = metric_of("froc", {"thresholds": 0.3}, rates=list(rates), interpolation="linear")
    for seed in range(3):
        cohort = cohort_of(kind, seed)
        references, predictions = things(cohort, MODEL)

        def similarity(r, p):
            return (boxes.iop if r.crowd else boxes.iou)(r.box, p.box)

        rule = Rule(similarity, lambda s: s >= 0.3, max_dets=100)
        decided = fates(references, predictions, "by-score", rule)
        expected = []
        for c in (None, *range(len(cohort.classes))):
            entries = entries_of(predictions, decided, c)
            n_positive = positives(references, decided, c)
            expected.append(interpolated(entries, n_positive, cohort.n_images, rates))
        np.testing.assert_allclose(values_of(metric, cohort)[:, 0], expected, rtol=1e-12)


def test_lines_lie_above_steps_and_the_id_says_so() -> None:
    cohort = cohort_of("plain", 3)
    steps, lines = metric_of("froc"), metric_of("froc", interpolation="linear")
    assert (steps.facts.ids, lines.facts.ids) == (("froc@1",), ("froc.linear@1",))
    assert (values_of(lines, cohort) >= values_of(steps, cohort)).all()
    with pytest.raises(UsageError, match="interpolation"):
        metric_of("froc", interpolation="cubic")


def test_four_images_by_hand() -> None:
    """Scores .9 hit, .8 alarm, .7 hit, .6 alarm, .6 hit on four references and four images."""
    place = {True: [0, 0, 10, 10], False: [50, 50, 60, 60]}
    said = [[(0.9, True), (0.8, False)], [(0.7, True), (0.6, False)], [(0.6, True)], []]
    references = [{"boxes": [place[True]], "labels": [0]} for _ in said]
    predictions = [
        {
            "boxes": [place[hit] for _, hit in image],
            "labels": [0] * len(image),
            "scores": [s for s, _ in image],
        }
        for image in said
    ]
    cohort = Cohort.from_arrays(references, {MODEL: predictions}, classes=("a",))
    for rate, expected in (
        (0.0, 1 / 4),
        (0.24, 1 / 4),
        (0.25, 2 / 4),
        (0.49, 2 / 4),
        (0.5, 3 / 4),
        (8.0, 3 / 4),
    ):
        assert values_of(metric_of("froc", rates=[rate]), cohort)[0, 0] == expected
    assert values_of(metric_of("froc"), cohort)[0, 0] == pytest.approx((0.25 + 0.5 + 5 * 0.75) / 7)


def test_a_rate_that_is_reached_exactly_counts() -> None:
    """29 false alarms on 100 images are 0.29 per image, although 0.29 x 100 is a little less than
    29.
    """
    references = [{"boxes": [[0, 0, 10, 10]], "labels": [0]} for _ in range(100)]
    nobody: dict[str, list[object]] = {"boxes": [], "labels": [], "scores": []}
    alarm = {"boxes": [[50, 50, 60, 60]], "labels": [0], "scores": [0.9]}
    hit = {"boxes": [[0, 0, 10, 10]], "labels": [0], "scores": [0.5]}
    cohort = Cohort.from_arrays(
        references, {MODEL: [alarm] * 29 + [hit] + [nobody] * 70}, classes=("a",)
    )
    assert values_of(metric_of("froc", rates=[0.29]), cohort)[0, 0] == 1 / 100
    assert values_of(metric_of("froc", rates=[0.28]), cohort)[0, 0] == 0


@pytest.mark.parametrize("rates", [[], [-1.0], 3, ["a"], [float("nan")]])
def test_rates_are_not_negative_numbers(rates: object) -> None:
    with pytest.raises(UsageError, match="rates"):
        metric_of("froc", rates=rates)
