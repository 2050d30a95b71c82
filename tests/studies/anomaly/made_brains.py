"""A benchmark made by hand: four algorithms of known order, for tests that train nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calipers.studies.anomaly.archive import (
    VIEWS,
    AlgorithmRecord,
    AnomalyArchive,
    Benchmark,
    ExampleSlice,
)
from calipers.studies.anomaly.brain_training import example_slice
from calipers.studies.anomaly.brains import (
    CENTRE,
    TEMPLATE_SHAPE,
    BrainTemplate,
    VolumeCounts,
    settings_of,
)
from calipers.studies.anomaly.measures import METRICS

NAMES = ("ae", "fpi", "atlas", "slice-pca")


def made_benchmark(name: str = "T1", n_slices: int = 3) -> Benchmark:
    """Values fall from the first algorithm to the last; maps cover the sphere less and less."""
    values = {}
    for k, algorithm in enumerate(NAMES):
        values[algorithm] = dict.fromkeys(METRICS, 0.8 - 0.2 * k)
    records = tuple(
        AlgorithmRecord(
            one, "a score", "network on slices", 1.5, 0.3, 0.5, 0.4 - 0.1 * k, (0.2,) * 5
        )
        for k, one in enumerate(NAMES)
    )
    labels = np.zeros((16, 16), np.uint8)
    labels[4:10, 4:10] = 1
    examples = []
    for z in range(n_slices):
        maps = {}
        for k, algorithm in enumerate(NAMES):
            maps[algorithm] = np.where(labels, np.float32((200 - 50 * k) / 255), np.float32(0))
        image = np.full((16, 16), 0.2, np.float32)
        examples.append(ExampleSlice(0, z, labels, maps, 0.2, image))
    return Benchmark(
        name=name,
        title=f"Brains {name}",
        records=records,
        views=dict.fromkeys(VIEWS, values),
        intervals={one: dict.fromkeys(METRICS, (0.1, 0.9)) for one in NAMES},
        examples=tuple(examples),
        counts=VolumeCounts(4, 2, 4),
        slices=64,
        slices_seen=20,
        thresholds=(0.1, 0.3, 0.5, 0.7, 0.9),
    )


def made_archive() -> AnomalyArchive:
    """Both settings."""
    benchmarks = (made_benchmark(), made_benchmark("MOOD-like"))
    return AnomalyArchive(benchmarks, {"command": "made by hand"})


def made_template() -> BrainTemplate:
    """An ellipsoid with stripes, as large as the brain of the template."""
    axes = np.meshgrid(*map(np.arange, TEMPLATE_SHAPE), indexing="ij", sparse=True)
    halves = (75, 88, 70)
    distance = sum(((axis - c) / half) ** 2 for axis, c, half in zip(axes, CENTRE, halves))
    brain = (np.asarray(distance) < 1).astype(np.float32)
    stripes = (0.6 + 0.2 * np.sin(axes[1] / 9)).astype(np.float32)
    return BrainTemplate(brain * stripes, brain * (1 - stripes), brain, (HASH,))


HASH = {"file": "t1.nii.gz", "bytes": 4, "sha256": "a" * 64}


def archive_of_template(template: BrainTemplate, seed: int = 5) -> AnomalyArchive:
    """The first test volume of both settings; an algorithm's map is the brain itself."""
    benchmarks = []
    for setting in settings_of(template, VolumeCounts(4, 2, 4), seed):
        volume = setting.test_volume(0)
        example = example_slice(0, volume, dict.fromkeys(NAMES, volume.image))
        benchmarks.append(replace(made_benchmark(setting.name), examples=(example,)))
    about = {"command": "made by hand", "seed": seed, "template": [HASH]}
    return AnomalyArchive(tuple(benchmarks), about)
