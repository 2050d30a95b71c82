# SPDX-License-Identifier: Apache-2.0
"""The whole flow on one page: a cohort and a protocol in, an evaluation out.

- The protocol names the metrics (`Protocol.compile`).
- Metrics that share an evidence share its collection (`jobs_of`), which runs over blocks of images
  (`collect`).
- Every metric is a function of its evidence and of one weight per image: weights 1 give the point
  estimate, random weights of the units its interval, weights 0 and 1 a group of images
  (`estimated_rows`, `grouped`).
- Warnings tell a reader what limits the numbers (`findings.warnings_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calipers.engine import collect
from calipers.engine.blocks import Progress
from calipers.errors import InputError, UsageError
from calipers.estimation import estimated_rows, jobs_of, with_areas
from calipers.evaluation import Evaluation
from calipers.grouping import check_groupings, grouped
from calipers.protocol import Protocol
from calipers.tables import Cohort


def evaluate(
    cohort: Cohort,
    protocol: str | Path | Protocol = "coco",
    *,
    seed: int | None = None,
    ci: bool = True,
    by: str | Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate all models of a cohort under a protocol.

    Parameters
    ----------
    cohort
        From `calipers.read` or `Cohort.from_arrays`, with at least one model.
    protocol
        A preset name, the path of a TOML file, or a `Protocol`.
    seed
        Replaces the seed of the protocol.
    ci
        State intervals: by default bootstrap t intervals over patients if the cohort knows them,
        else over images; see ``[statistics]`` of the protocol. Without it estimates say
        ``not_requested``.
    by
        Further rows per group: ``"centre"``, ``"centre,size"``, ``"age=40:60"``; several groupings
        as a list.
    jobs
        Threads for the per-image work; the result does not depend on it.
    progress
        Called with (blocks done, blocks in all).

    Examples
    --------
    >>> import calipers as cal
    >>> ev = cal.evaluate(cal.demo_cohort(), "rodeo")
    >>> print(ev["mislabels", "RoDeO/loc"])
    0.958 [0.919, 0.978], n = 120 images, 189 references
    """
    if not isinstance(cohort, Cohort):
        raise UsageError(
            f"evaluate takes a cohort, not {type(cohort).__name__}: "
            "make one with read or Cohort.from_arrays"
        )
    protocol = Protocol.load(protocol)
    if seed is not None:
        protocol = replace(protocol, seed=seed)
    by = [by] if isinstance(by, str) else by
    # Everything that can be refused is refused before the long work begins.
    _check(cohort)
    check_groupings(cohort, by)
    sized = with_areas(cohort, protocol)
    evidence = collect(sized, jobs_of(sized, protocol.compile()), workers=jobs, progress=progress)
    rows = estimated_rows(sized, protocol, evidence, ci=ci, progress=progress)
    evaluation = Evaluation(protocol, cohort, tuple(rows), evidence, ci)
    return grouped(evaluation, by, progress)


def _check(cohort: Cohort) -> None:
    if not cohort.models:
        raise InputError(
            "at least one model",
            rule="no-predictions",
            hint="give predictions to read or from_arrays",
        )
    if cohort.n_images == 0:
        raise InputError("at least one image", rule="no-images")
