# SPDX-License-Identifier: Apache-2.0
"""Which images are shown: where a model errs most, a fair sample, and where models differ."""

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
CUT_BY_SCORE = (
    "by-score",
    "many-to-one",
)  # predictions of lower score never change the fate of higher ones


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of the objects of every image at one score cut; ignored ones are left out."""

    hits: I64  # (n_images,) references that were found
    missed: I64  # (n_images,)
    false_alarms: I64  # (n_images,)
    duplicates: I64  # (n_images,)
    found: Flags  # (n_references,)
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
    returned. It is -inf, all predictions, if there is no hit or nothing to cut: all scores equal. A
    cut of the protocol itself stays.
    """
    view = matches.views[0]
    if view.score_cut > -math.inf:
        return view.score_cut
    fate = matches.prediction_fate[0]
    counted = fate != matching.IGNORED
    score, hit = matches.score[counted], fate[counted] == matching.HIT
    if not hit.any() or (score == score[0]).all():
        return -math.inf
    order = np.argsort(score)[::-1]  # equal scores in any order: they are cut together
    hits = np.cumsum(hit[order])
    n_references = np.count_nonzero(matches.reference_fate[0] != matching.IGNORED)
    value = 2.0 * hits / (np.arange(1, len(hits) + 1) + n_references)
    ranked = score[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    return float(ranked[last[int(np.argmax(value[last]))]])


def matches_at(
    evaluation: Evaluation, model: str, cut: float, matches: Matches | None = None
) -> Matches:
    """Return matches in which leaving out predictions below the cut is exact.

    Where pairs are chosen by score that holds for the matches of the protocol; other assignments
    are made again without those predictions, because one of them may have kept a better scored one
    from its reference.
    """
    matches = shown_matches(evaluation, model) if matches is None else matches
    view = matches.views[0]
    if view.assignment in CUT_BY_SCORE or cut <= view.score_cut or not (matches.score < cut).any():
        return matches
    recipe = MatchRecipe((replace(view, score_cut=cut),))
    made = collect(evaluation.cohort, {model: (model, recipe)})[model]
    assert isinstance(made, Matches)
    return made


def present(matches: Matches, cut: float, rows: slice = slice(None)) -> Flags:
    """Return which predictions exist: at or above the cut, and among the best that the protocol
    lets in.
    """
    view = matches.views[0]
    return np.asarray(
        (matches.score[rows] >= max(cut, view.score_cut)) & (matches.rank[rows] < view.max_dets)
    )


def outcomes(matches: Matches, cut: float) -> Outcomes:
    """Return hits and errors of every image; a reference whose hit lies below the cut counts as
    missed.
    """
    there, said, real = present(matches, cut), matches.prediction_fate[0], matches.reference_fate[0]
    found = np.zeros(len(real), np.bool_)
    found[matches.partner[there & (said == matching.HIT)]] = True
    found &= real == matching.HIT

    def count(image: I64, chosen: Flags) -> I64:
        return np.bincount(image[chosen], minlength=matches.n_images)

    return Outcomes(
        hits=count(matches.reference_image, found),
        missed=count(matches.reference_image, (real != matching.IGNORED) & ~found),
        false_alarms=count(matches.prediction_image, there & (said == matching.FALSE_ALARM)),
        duplicates=count(matches.prediction_image, there & (said == matching.DUPLICATE)),
        found=found,
        reference_image=matches.reference_image,
    )


def worst(of: Outcomes, n: int) -> I64:
    """Return the images with most errors, of equal ones those with more missed, then the earlier;
    none without any.
    """
    order = np.lexsort((-of.missed, -of.errors))[
        : max(n, 0)
    ]  # stable: ties stay in the order of the images
    return order[of.errors[order] > 0]


def sample(n_images: int, n: int, seed: int) -> I64:
    """Return ``n`` different images drawn at random, in the order of the images."""
    key = np.array([seed, SAMPLE_STREAM], np.uint64)
    random = np.random.Generator(np.random.Philox(key=key))
    return np.sort(random.choice(n_images, size=min(max(n, 0), n_images), replace=False))


def disputed(models: Sequence[Outcomes], n: int) -> I64:
    """Return the images on which models differ most, the earlier of equal ones; none on which they
    agree.

    Counted are references that some but not all models found, and the difference between most and
    fewest false alarms.
    """
    if len(models) < 2:
        return np.zeros(0, np.int64)
    votes = np.sum([of.found for of in models], axis=0)
    split = (votes > 0) & (votes < len(models))
    alarms = np.stack([of.false_alarms for of in models])
    amount: I64 = np.bincount(models[0].reference_image[split], minlength=alarms.shape[1]) + np.ptp(
        alarms, axis=0
    )
    order = np.argsort(-amount, kind="stable")[: max(n, 0)]
    return order[amount[order] > 0]
