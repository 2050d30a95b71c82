# SPDX-License-Identifier: Apache-2.0
"""Choose the images to show: where a model errs most, a random sample, and where models differ.

`Matches` of an evaluation come in; indices of images and score cuts go out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.assignment import MatchRecipe
from calipers.engine import collect
from calipers.evaluation import Evaluation
from calipers.kernels import matching
from calipers.matches import Matches
from calipers.saving import shown_matches

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

SAMPLE_STREAM = 0x70696373  # keeps the sample apart from the replicates that share its seed
# Assignments in which predictions of lower score never change the fate of higher ones.
CUT_BY_SCORE = ("by-score", "many-to-one")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The fates of the objects of every image at one score cut; ignored ones are left out."""

    hits: I64  # (n_images,) references that were found
    missed: I64  # (n_images,)
    false_alarms: I64  # (n_images,)
    duplicates: I64  # (n_images,)
    is_hit: Flags  # (n_references,)
    reference_image: I64  # (n_references,)

    @property
    def errors(self) -> I64:
        """(n_images,) missed, false alarms and duplicates together."""
        return self.missed + self.false_alarms + self.duplicates


def operating_point(matches: Matches) -> float:
    """Return the score cut of the best F1 over all counted objects, under the first view.

    Notes
    -----
    F1 is twice the hits over predictions plus references. Of several best cuts the highest is
    returned. The cut is -inf, which keeps all predictions, if there is no hit or if all scores are
    equal. A cut of the protocol itself is returned unchanged.
    """
    view = matches.views[0]
    if view.score_cut > -math.inf:
        return view.score_cut
    fate = matches.prediction_fate[0]
    is_scored = fate != matching.IGNORED
    score, hit = matches.score[is_scored], fate[is_scored] == matching.HIT
    if not hit.any() or (score == score[0]).all():
        return -math.inf
    order = np.argsort(score)[::-1]  # equal scores in any order: they are cut together
    hits = np.cumsum(hit[order])
    n_references = np.count_nonzero(matches.reference_fate[0] != matching.IGNORED)
    value = 2.0 * hits / (np.arange(1, len(hits) + 1) + n_references)
    descending = score[order]
    last = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))
    return float(descending[last[int(np.argmax(value[last]))]])


def matches_at(
    evaluation: Evaluation, model: str, cut: float, matches: Matches | None = None
) -> Matches:
    """Return matches in which leaving out predictions below the cut is exact.

    Where pairs are chosen by score, this holds for the matches of the protocol. Other assignments
    are computed again without those predictions, because one of them may have taken the reference
    of a prediction with a higher score.
    """
    matches = shown_matches(evaluation, model) if matches is None else matches
    view = matches.views[0]
    if view.assignment in CUT_BY_SCORE or cut <= view.score_cut or not (matches.score < cut).any():
        return matches
    recipe = MatchRecipe((replace(view, score_cut=cut),))
    result = collect(evaluation.cohort, {model: (model, recipe)})[model]
    assert isinstance(result, Matches)
    return result


def remaining_predictions(matches: Matches, cut: float, rows: slice = slice(None)) -> Flags:
    """Return which predictions remain: at or above the cut, and among the best that the protocol
    admits.
    """
    view = matches.views[0]
    return np.asarray(
        (matches.score[rows] >= max(cut, view.score_cut)) & (matches.rank[rows] < view.max_dets)
    )


def outcomes(matches: Matches, cut: float) -> Outcomes:
    """Return hits and errors of every image; a reference whose hit lies below the cut counts as
    missed.
    """
    in_play = remaining_predictions(matches, cut)
    prediction_fate, reference_fate = matches.prediction_fate[0], matches.reference_fate[0]
    is_hit = np.zeros(len(reference_fate), np.bool_)
    is_hit[matches.partner[in_play & (prediction_fate == matching.HIT)]] = True
    is_hit &= reference_fate == matching.HIT
    is_missed = (reference_fate != matching.IGNORED) & ~is_hit
    is_false_alarm = in_play & (prediction_fate == matching.FALSE_ALARM)
    is_duplicate = in_play & (prediction_fate == matching.DUPLICATE)

    def count(image: I64, flags: Flags) -> I64:
        return np.bincount(image[flags], minlength=matches.n_images)

    return Outcomes(
        hits=count(matches.reference_image, is_hit),
        missed=count(matches.reference_image, is_missed),
        false_alarms=count(matches.prediction_image, is_false_alarm),
        duplicates=count(matches.prediction_image, is_duplicate),
        is_hit=is_hit,
        reference_image=matches.reference_image,
    )


def worst(of: Outcomes, n: int) -> I64:
    """Return at most ``n`` images, those with most errors first.

    Ties go to the image with more missed references, then to the earlier one. Images without errors
    are left out.
    """
    # lexsort is stable: ties stay in the order of the images.
    order = np.lexsort((-of.missed, -of.errors))[: max(n, 0)]
    return order[of.errors[order] > 0]


def sample(n_images: int, n: int, seed: int) -> I64:
    """Return ``n`` different images drawn at random, in the order of the images."""
    key = np.array([seed, SAMPLE_STREAM], np.uint64)
    random = np.random.Generator(np.random.Philox(key=key))
    return np.sort(random.choice(n_images, size=min(max(n, 0), n_images), replace=False))


def disputed(models: Sequence[Outcomes], n: int) -> I64:
    """Return at most ``n`` images on which models differ most; ties go to the earlier image.

    The difference is the number of references that some but not all models found, plus the
    difference between the most and the fewest false alarms. Images without any are left out.
    """
    if len(models) < 2:
        return np.zeros(0, np.int64)
    votes = np.sum([of.is_hit for of in models], axis=0)
    is_disputed = (votes > 0) & (votes < len(models))
    alarms = np.stack([of.false_alarms for of in models])
    amount: I64 = np.bincount(models[0].reference_image[is_disputed], minlength=alarms.shape[1])
    amount = amount + np.ptp(alarms, axis=0)
    order = np.argsort(-amount, kind="stable")[: max(n, 0)]
    return order[amount[order] > 0]
