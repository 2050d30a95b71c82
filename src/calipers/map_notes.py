# SPDX-License-Identifier: Apache-2.0
"""What a reader of numbers on maps must know: what was left out, what has no value, and how exact the values are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from calipers.engine.sample_cohort import Gathered
from calipers.engine.samples import Examined
from calipers.kernels import voxel_histograms
from calipers.metrics.map_settings import AXES, MapSettings
from calipers.metrics.measures import Measure
from calipers.metrics.pooling import Tables

UNITS = {"sample": "samples", "slice": "slices", "batch": "batches"}
EXACT = 1e-12  # bounds that are no further apart are one value


def notes_of_model(
    model: str, gathered: Gathered, settings: MapSettings, threshold: float | None, *, streamed: bool
) -> tuple[str, ...]:
    """Say what was decided on the maps of a model, and what is lost if their voxels were only counted."""
    found = []
    if threshold is not None:
        where = f" on {settings.tuning}" if settings.tuning else ""
        told = f"objects of {model} are voxels with a score of at least {threshold:.6g}"
        if not np.isfinite(threshold):
            told = f"{model} has no objects: no score above 0 can be its threshold"
        found.append(f"{told} ({settings.threshold}{where})")
    small = sum(objects.small for objects in gathered.objects)
    if small:
        found.append(f"{small} predicted objects of {model} of fewer than {settings.least} voxels were left out")
    if gathered.constant:
        number = f"{gathered.constant} of {len(gathered.objects)}"
        found.append(f"{number} maps of {model} are constant: all their voxels are tied")
    if streamed:
        found += _bounds(model, gathered)
    return tuple(found)


def _bounds(model: str, gathered: Gathered) -> Iterator[str]:
    """Yield between which values AP and AUROC of the data set lie, if the order of some voxels is unknown."""
    held = gathered.histograms
    tables = Tables(held)
    n = len(held.offsets) - 1
    counted = tables.pooled(np.ones((1, n), np.int64), np.zeros(n, np.int64))
    bounds = voxel_histograms.bounds(counted.positives[0], counted.negatives[0], tables.inexact)
    told = [
        f"{name} in [{low:.6g}, {high:.6g}]"
        for name, (low, high) in (("AP", bounds.ap), ("AUROC", bounds.auroc))
        if high - low > EXACT
    ]
    if told:
        width = len(held.lowest)
        yield f"the voxels of {model} are too many to be ranked one by one; {width:,} bins give {' and '.join(told)}"


def notes_of_references(
    names: Mapping[str, Measure], gathered: Gathered, samples: Sequence[Examined], settings: MapSettings
) -> tuple[str, ...]:
    """Say how many samples, slices and batches have no value; ``names`` are those of the metrics.

    That depends on the references alone, so any model will do.
    """
    missing: dict[tuple[str, int], list[str]] = {}
    totals = {level: _total(level, samples, settings) for level in UNITS}
    for name, measure in names.items():
        if measure.level in ("sample", "slice") and measure.quantity != "softIoU":
            valued = int(sum(sums[measure.key][1] for sums in gathered.sums))
        elif measure.level == "batch":
            valued = _batches(samples, settings.batch)
        else:
            continue
        if valued < totals[measure.level]:
            missing.setdefault((measure.level, totals[measure.level] - valued), []).append(name)
    return tuple(
        f"{', '.join(found)}: {number} of {totals[level]} {UNITS[level]} have no value and are left out of the mean, "
        f"because they hold {'only voxels of one kind' if _ranks(found, names) else 'nothing to find'}"
        for (level, number), found in missing.items()
    )


def _ranks(found: Sequence[str], names: Mapping[str, Measure]) -> bool:
    return all(names[name].quantity in ("AUROC", "AUPRO") for name in found)


def _total(level: str, samples: Sequence[Examined], settings: MapSettings) -> int:
    if level == "sample":
        return len(samples)
    if level == "batch":
        return -(-len(samples) // settings.batch)
    axis = AXES.index(settings.slices)
    return sum(int(sample.size[axis]) if len(sample.size) == 3 else 1 for sample in samples)


def _batches(samples: Sequence[Examined], batch: int) -> int:
    """Return how many batches have a value."""
    starts = range(0, len(samples), batch)
    return sum(any(len(sample.references) for sample in samples[k : k + batch]) for k in starts)
