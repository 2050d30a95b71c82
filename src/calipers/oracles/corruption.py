# SPDX-License-Identifier: Apache-2.0
"""`corrupt`: a model made from the references by one corruption, or by several after each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from calipers.errors import UsageError
from calipers.kernels.resampling import check_seed
from calipers.oracles import boxes, classes
from calipers.oracles.described import Choice, several
from calipers.oracles.drawn import CentredBoxes, as_predictions, boxes_from
from calipers.tables import Cohort

KINDS: Mapping[str, Callable[..., CentredBoxes]] = {
    "position-noise": boxes.position_noise,
    "position-bias": boxes.position_bias,
    "shape-noise": boxes.shape_noise,
    "size-noise": boxes.size_noise,
    "aspect-noise": boxes.aspect_noise,
    "class-underprediction": classes.class_underprediction,
    "class-overprediction": classes.class_overprediction,
    "box-overprediction": boxes.box_overprediction,
    "class-confusion": classes.class_confusion,
    "random-boxes": classes.random_boxes,
}
STREAM = 0x6F7261  # keeps the draws apart from the replicates that share a seed


def corrupt(
    cohort: Cohort,
    kind: str | Sequence[str],
    *,
    seed: int = 0,
    name: str | None = None,
    of: str | None = None,
    **choices: Choice,
) -> Cohort:
    """Return the cohort with one more model: the references, corrupted in a known way.

    Parameters
    ----------
    kind
        One of `calipers.oracles.KINDS`; or several with their choices, which follow each other:
        ``["class-confusion(p=0.3)", "position-noise(sigma=0.5)"]``.
    seed
        Of the random numbers; the same seed gives the same model.
    name
        Of the model; ``kind(parameter=value)`` if left out.
    of
        Corrupt the predictions of this model instead of the references; scores become 1.
    choices
        Those of the kind: ``sigma``, ``bias``, ``p``, ``mean``, ``size``; see `calipers.oracles`.

    Notes
    -----
    Ignored references are left out: an oracle says nothing about them. All scores are 1. Boxes may
    leave the image. A cohort without references gets a model without predictions, unless the
    corruption adds some.

    Examples
    --------
    >>> import calipers as cal
    >>> cohort = cal.corrupt(cal.demo_cohort(), "position-noise", sigma=0.5)
    >>> list(cohort.models)[-1]
    'position-noise(sigma=0.5)'
    >>> result = cal.rodeo(cohort, "position-noise(sigma=0.5)")
    >>> result.localization < result.shape  # places are wrong, shapes are not
    True
    """
    check_seed(seed)
    steps = several(kind, choices, KINDS)
    name = " + ".join(map(str, steps)) if name is None else name
    if name in cohort.models:
        raise UsageError(f"the cohort already has a model {name!r}: give the new one another name")
    if of is None:
        model_boxes = boxes_from(cohort.references, ~cohort.references.ignore)
    else:
        model_boxes = boxes_from(cohort.predictions(of))
    random = np.random.Generator(np.random.Philox(key=np.array([seed, STREAM], np.uint64)))
    for step in steps:
        model_boxes = KINDS[step.kind](model_boxes, cohort, random, **step.choices)
    return cohort.with_predictions(name, as_predictions(model_boxes, cohort.n_images))
