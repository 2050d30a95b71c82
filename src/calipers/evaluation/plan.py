# SPDX-License-Identifier: Apache-2.0
"""What an evaluation of boxes will take, before it begins: for ``--plan`` of evaluate, sweep,
multiverse and monitor.

`cohort_cost` and `image_cost` run the work on the first images, without replicates and with a few,
and scale its time. That costs a second or so, however large the cohort is; files are read as a
whole before, because nothing else tells how many images and objects they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from calipers.data.cohort import Cohort
from calipers.engine.cost import RunCost, Stopwatch, peak_bytes
from calipers.evaluation.collect import collection_plan
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.protocol import Protocol
from calipers.show.words import count_text

SAMPLE = 16384  # images
WARM = 64  # images of the run that loads modules
TRIALS = (128, 384)  # replicates, in whole blocks; an interval needs 100
# Measured with 10^5 images under coco: evidence, and weights of replicates that wait their turn.
OBJECT_BYTES = 100
IMAGE_BYTES = 800  # for every thread that resamples

# Does the work on the first images with so many replicates; a stopwatch is its progress.
Trial = Callable[[int, int, Stopwatch], Any]
TrialOnCohort = Callable[[Cohort, int, Stopwatch], Any]


def evaluation_cost(cohort: Cohort, protocol: Protocol, *, ci: bool) -> RunCost:
    """Return what `evaluate` takes; groups of images are not included."""

    def trial(images: Cohort, replicates: int, watch: Stopwatch) -> None:
        changed = replace(protocol, replicates=max(replicates, 1))
        evaluate(images, changed, ci=replicates > 0, progress=watch)

    return cohort_cost(
        cohort,
        trial,
        work="evaluate",
        n_blocks=len(collection_plan(cohort, protocol).items),
        replicates=protocol.replicates if ci else 0,
    )


def cohort_cost(
    cohort: Cohort, trial: TrialOnCohort, *, work: str, n_blocks: int, replicates: int
) -> RunCost:
    """Return what the work on a cohort takes, from a trial on its first images."""
    n_objects = len(cohort.references)
    for predictions in cohort.models.values():
        n_objects += len(predictions)
    return image_cost(
        lambda n, number, watch: trial(cohort.span(0, n), number, watch),
        work=work,
        n_images=cohort.n_images,
        n_objects=n_objects,
        n_models=len(cohort.models),
        n_blocks=n_blocks,
        file_bytes=sum(file.bytes for file in cohort.intake.files),
        replicates=replicates,
    )


def image_cost(
    trial: Trial,
    *,
    work: str,
    n_images: int,
    n_objects: int,
    n_models: int,
    n_blocks: int,
    file_bytes: int,
    replicates: int,
) -> RunCost:
    """Return what the work on images takes, from a trial on the first of them."""
    n_sample = min(n_images, SAMPLE)
    # Once for nothing: the first run of all loads modules.
    trial(min(n_sample, WARM), 0, Stopwatch())
    plain = _timed(trial, n_sample, 0)
    alone, shared = plain.seconds - plain.shared, plain.shared
    if replicates:
        # Two numbers of replicates, because the first one also needs preparations.
        few, many = (_timed(trial, n_sample, n) for n in TRIALS)
        slope = max(many.seconds - few.seconds, 0.0) / (TRIALS[1] - TRIALS[0])
        alone += max(few.seconds - plain.seconds - TRIALS[0] * slope, 0.0)
        shared += replicates * slope
    scale = n_images / max(n_sample, 1)
    basis = f"from the first {count_text('image', n_sample)}"
    if n_sample == n_images:
        basis = "from a trial with few replicates" if replicates else "from a trial"
    return RunCost(
        work=work,
        n_items=n_images,
        unit="image",
        n_models=n_models,
        n_blocks=n_blocks,
        file_bytes=file_bytes,
        fixed_bytes=peak_bytes() + n_objects * OBJECT_BYTES,
        job_bytes=n_images * IMAGE_BYTES,
        largest=f"{count_text('image', n_images)} with {count_text('object', n_objects)}",
        basis=f"{basis}; reading, which is done, and the page are not included",
        alone_seconds=alone * scale,
        shared_seconds=shared * scale,
    )


def _timed(trial: Trial, n_images: int, replicates: int) -> Stopwatch:
    watch = Stopwatch()
    trial(n_images, replicates, watch)
    watch.stop()
    return watch
