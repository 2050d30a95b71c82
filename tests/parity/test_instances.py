"""Panoptic quality equals panoptica's, and lesion matching, AP, AUROC and score equal those of
picai_eval.

Volumes are made of boxes with whole corners that never touch each other, so that a component is a
box and its mask IoU is the box IoU; where masks are at hand the same volumes are compared as masks,
and balls beside them. Tolerance: 1e-12 for panoptica. picai_eval adds 1e-8 to both parts of an
overlap, which moves no match here and is in no number that is compared but the overlap itself:
1e-12 for AP, AUROC and score, 1e-7 for overlaps.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

import numpy as np
import pytest

import calipers as cal
from calipers.kernels.assignment import HIT
from calipers.matching.assign import match
from kernel_routes import native_by_default
from seeds import seeds

# The peer takes most of the time, and `test_routes.py` holds every metric to the same bits on both
# routes.
pytestmark = native_by_default

with contextlib.redirect_stdout(io.StringIO()):  # they greet
    panoptica = pytest.importorskip("panoptica")
    picai_eval = pytest.importorskip("picai_eval.eval")

SHAPE = (12, 20, 24)
SETS = 120


@dataclass(frozen=True)
class Case:
    """One volume: label maps of references and candidates, and a score for each candidate."""

    references: np.ndarray  # 0 = background, k = object k
    candidates: np.ndarray
    scores: list[float]

    @property
    def detections(self) -> np.ndarray:
        """The map that picai_eval reads: every voxel of a candidate has its score."""
        return np.array([0.0, *self.scores], np.float32)[self.candidates]


def case(random: np.random.Generator, *, sick: bool, levels: int) -> Case:
    """Return a volume with some references, candidates near them and candidates elsewhere."""
    references, candidates = np.zeros(SHAPE, np.int32), np.zeros(SHAPE, np.int32)
    for _ in range(int(random.integers(1, 5)) if sick else 0):
        _place(references, _box(random), random)
    for label in range(1, references.max() + 1):
        corners = [(ix.min(), ix.max() + 1) for ix in np.nonzero(references == label)]
        if random.random() < 0.5:  # a lesion in two pieces that do not touch
            axis = int(np.argmax([b - a for a, b in corners]))
            (low, high), cut = corners[axis], int(random.integers(*corners[axis]))
            for piece in ((low, cut), (cut + 1, high)):
                part = [piece if k == axis else side for k, side in enumerate(corners)]
                _place(candidates, part, random)
        for _ in range(int(random.integers(0, 4))):  # several on one: duplicates
            moved = [
                sorted((a + random.integers(-2, 3), b + random.integers(-2, 3))) for a, b in corners
            ]
            _place(candidates, moved, random)
    for _ in range(int(random.integers(0, 3))):
        _place(candidates, _box(random), random)
    n = int(candidates.max())
    # Scores that float32 holds exactly, with ties: picai_eval reads float32.
    scores = (random.integers(1, levels + 1, n) / 64).tolist()
    return Case(references, candidates, scores)


def _box(random: np.random.Generator) -> list[list[int]]:
    low = [int(random.integers(0, size - 3)) for size in SHAPE]
    return [[a, min(size, a + int(random.integers(2, 9)))] for a, size in zip(low, SHAPE)]


def _place(labels: np.ndarray, corners: list[list[int]], random: np.random.Generator) -> None:
    """Write a box into the label map, unless it would touch another or be empty."""
    clipped = [(max(0, a), min(size, b)) for (a, b), size in zip(corners, SHAPE)]
    if any(b <= a for a, b in clipped):
        return
    around = tuple(slice(max(0, a - 1), b + 1) for a, b in clipped)
    if not labels[around].any():
        labels[tuple(slice(a, b) for a, b in clipped)] = labels.max() + 1


def boxes_of(labels: np.ndarray) -> np.ndarray:
    """Return (n, 6) x0 y0 z0 x1 y1 z1 of an array z, y, x."""
    found = []
    for label in range(1, labels.max() + 1):
        z, y, x = np.nonzero(labels == label)
        found.append([x.min(), y.min(), z.min(), x.max() + 1, y.max() + 1, z.max() + 1])
    return np.array(found, float).reshape(-1, 6)


def cohort_of(cases: list[Case], *, masks: bool = False) -> cal.Cohort:
    def side(labels: np.ndarray) -> dict[str, object]:
        n = int(labels.max())
        shapes = {"masks": labels == np.arange(1, n + 1)[:, None, None, None]} if masks else {}
        return {"boxes": boxes_of(labels), "labels": np.zeros(n, int), **shapes}

    size = {"width": SHAPE[2], "height": SHAPE[1], "depth": SHAPE[0]} if masks else {}
    references = [{**side(c.references), **size} for c in cases]
    predictions = [{**side(c.candidates), "scores": np.array(c.scores)} for c in cases]
    return cal.Cohort.from_arrays(references, predictions, classes=["lesion"])


def random_cases(seed: int) -> list[Case]:
    random = np.random.default_rng([61, seed])
    n = int(random.integers(2, 7))
    return [
        case(random, sick=k == 0 or (k > 1 and random.random() < 0.6), levels=[64, 5][seed % 2])
        for k in range(n)
    ]


def picai_of(cases: list[Case]) -> object:
    maps, labels = (
        [c.detections for c in cases],
        [(c.references > 0).astype(np.int32) for c in cases],
    )
    return picai_eval.evaluate(y_det=maps, y_true=labels, num_parallel_calls=1)


def assert_equals_picai(cases: list[Case], protocol: cal.Protocol, *, masks: bool) -> None:
    cohort, peer = cohort_of(cases, masks=masks), picai_of(cases)
    found = cal.evaluate(cohort, protocol, ci=False)
    assert found["AP@0.1"].value == pytest.approx(peer.AP, abs=1e-12)
    assert found["AUROC/case"].value == pytest.approx(peer.auroc, abs=1e-12)
    assert found["score"].value == pytest.approx(peer.score, abs=1e-12)
    assert found["FROC@1"].value == pytest.approx(sensitivity_at(peer, 1.0), abs=1e-12)
    if masks:
        samples = [(one.detections, (one.references > 0).astype(np.uint8)) for one in cases]
        of_maps = cal.evaluate_maps(samples, protocol, ci=False)
        for name in ("AP@0.1", "AUROC/case", "score", "FROC@1"):
            assert of_maps[name].value == pytest.approx(found[name].value, abs=1e-12)
    view = protocol.matching
    matches = match(cohort, "model", [view])
    hit = matches.prediction_fate[0] == HIT
    for image in range(len(cases)):
        here = hit & (matches.prediction_image == image)
        ours = sorted(zip(matches.score[here].tolist(), matches.similarity[here].tolist()))
        theirs = sorted((s, o) for lesion, s, o in peer.lesion_results[image] if lesion and s > 0)
        np.testing.assert_allclose(
            np.array(ours).reshape(-1, 2), np.array(theirs).reshape(-1, 2), rtol=0, atol=1e-7
        )


def sensitivity_at(peer: object, rate: float) -> float:
    """Return the best sensitivity at a rate; its own method ends the curve before the last
    operating point.
    """
    results = [entry for of_case in peer.lesion_results.values() for entry in of_case]
    n_lesions, best = sum(lesion for lesion, _, _ in results), 0.0
    for cut in {score for _, score, _ in results if score > 0}:
        alarms = sum(not lesion for lesion, score, _ in results if score >= cut)
        if alarms / len(peer.lesion_results) <= rate:
            best = max(
                best, sum(lesion for lesion, score, _ in results if score >= cut) / n_lesions
            )
    return best


@pytest.mark.parametrize("block", seeds(6, default=3))
def test_lesions_cases_and_score_equal_picai_eval_on_boxes(block: int) -> None:
    protocol = cal.Protocol.from_toml(on_boxes())
    for seed in range(block, SETS, 6):
        assert_equals_picai(random_cases(seed), protocol, masks=False)


def on_boxes() -> str:
    """Return the preset with the criterion for boxes."""
    from importlib import resources

    text = resources.files("calipers").joinpath("presets", "picai.toml").read_text(encoding="utf-8")
    return text.replace('criterion = "mask-iou"', 'criterion = "box-iou"').replace(
        '"picai"', '"picai on boxes"'
    )


def test_the_sets_have_further_candidates_with_the_highest_score_of_their_case() -> None:
    protocol = cal.Protocol.from_toml(on_boxes())
    n_cases = 0
    for seed in range(SETS):
        matches = match(cohort_of(random_cases(seed)), "model", [protocol.matching])
        for image in range(matches.n_images):
            here = matches.prediction_image == image
            forgiven = here & matches.forgiven[0]
            if forgiven.any():
                n_cases += matches.score[forgiven].max() > matches.score[here & ~forgiven].max()
    assert n_cases > 20


def test_the_preset_equals_picai_eval_on_masks() -> None:
    for seed in range(40):
        assert_equals_picai(random_cases(seed), cal.Protocol.load("picai"), masks=True)


def balls(random: np.random.Generator) -> Case:
    """Return a volume with balls: an inner one, its shifted candidate, a candidate elsewhere."""
    z, y, x = np.indices(SHAPE)

    def ball(centre: list[float], radius: float) -> np.ndarray:
        return (z - centre[0]) ** 2 + (y - centre[1]) ** 2 + (x - centre[2]) ** 2 <= radius**2

    references, candidates = np.zeros(SHAPE, np.int32), np.zeros(SHAPE, np.int32)
    centre = [6.0, 7.0, 7.0]
    references[ball(centre, random.uniform(2.0, 4.0))] = 1
    candidates[ball([c + random.uniform(-3, 3) for c in centre], random.uniform(1.5, 4.0))] = 1
    candidates[ball([6.0, 14.0, 19.0], 2.5)] = 2
    return Case(references, candidates, (random.integers(1, 65, 2) / 64).tolist())


def test_the_preset_equals_picai_eval_on_balls() -> None:
    random = np.random.default_rng(62)
    for _ in range(40):
        well = case(random, sick=False, levels=64)
        assert_equals_picai(
            [balls(random), balls(random), well], cal.Protocol.load("picai"), masks=True
        )


def test_a_further_candidate_on_a_lesion_does_not_count() -> None:
    """Two candidates on one lesion: the larger overlap is the hit,
    the other neither hit nor false alarm.
    """
    references, candidates = np.zeros(SHAPE, np.int32), np.zeros(SHAPE, np.int32)
    references[2:8, 2:10, 2:10] = 1
    candidates[2:8, 2:10, 2:7], candidates[2:8, 2:10, 8:10] = 1, 2
    sick, nobody = Case(references, candidates, [0.25, 0.75]), np.zeros(SHAPE, np.int32)
    well = Case(nobody, nobody, [])
    found = cal.evaluate(cohort_of([sick, well]), cal.Protocol.from_toml(on_boxes()), ci=False)
    assert [found[name].value for name in ("AP@0.1", "AUROC/case", "score")] == pytest.approx(
        [1.0] * 3, abs=1e-12
    )
    assert picai_of([sick, well]).score == 1.0


def panoptic_of(case: Case, threshold: float) -> tuple[float, float, float]:
    matcher = panoptica.NaiveThresholdMatching(
        matching_metric=panoptica.Metric.IOU, matching_threshold=threshold
    )
    evaluator = panoptica.Panoptica_Evaluator(
        expected_input=panoptica.InputType.UNMATCHED_INSTANCE,
        instance_matcher=matcher,
        instance_metrics=[panoptica.Metric.IOU],
        global_metrics=[],
        verbose=False,
    )
    arrays = case.candidates.astype(np.uint8), case.references.astype(np.uint8)
    found = evaluator.evaluate(*arrays, verbose=False)["ungrouped"]
    return found.pq, found.sq, found.rq


def panoptic_protocol(threshold: float, criterion: str) -> cal.Protocol:
    head = 'schema = "calipers.protocol/1"\nname = "panoptic"\nsource = "Kirillov et al."\n'
    matching = (
        f'[matching]\ncriterion = "{criterion}"\nassignment = "by-overlap"\n'
        f"thresholds = {threshold}\n"
    )
    metrics = [
        f'[[metric]]\nname = "{p}"\nkind = "panoptic-quality"\npart = "{p}"\n'
        for p in ("PQ", "SQ", "RQ")
    ]
    return cal.Protocol.from_toml(head + matching + "".join(metrics))


def assert_equals_panoptica(case: Case, threshold: float, criterion: str) -> None:
    found = cal.evaluate(
        cohort_of([case], masks=criterion != "box-iou"),
        panoptic_protocol(threshold, criterion),
        ci=False,
    )
    ours, theirs = [found[part].value for part in ("PQ", "SQ", "RQ")], panoptic_of(case, threshold)
    if np.isnan(ours[1]) and not np.isnan(
        ours[2]
    ):  # without a hit SQ is undefined; panoptica says 0
        assert (ours[0], theirs[1]) == (0.0, 0.0)
        ours[1] = 0.0
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_panoptic_quality_equals_panoptica_on_boxes(threshold: float) -> None:
    random = np.random.default_rng(63)
    panoptica.disable_citation_reminder()
    for _ in range(SETS // 2):
        assert_equals_panoptica(
            case(random, sick=random.random() < 0.9, levels=64), threshold, "box-iou"
        )


def test_panoptic_quality_equals_panoptica_on_balls() -> None:
    random = np.random.default_rng(64)
    panoptica.disable_citation_reminder()
    for _ in range(40):
        assert_equals_panoptica(balls(random), 0.3, "mask-iou")
