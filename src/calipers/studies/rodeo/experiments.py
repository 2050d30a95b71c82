# SPDX-License-Identifier: Apache-2.0
"""The corruptions of the study with their grids, and all metrics over them.

`sweep_steps` corrupts the references with oracles at every strength; that makes one `Sweep` per
figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.evaluation.protocol import Protocol
from calipers.sensitivity.sweep import OracleRun, Sweep, oracle_sweep
from calipers.studies.steps import StepSet, StudyStep

Grid = tuple[float, ...]

ACCURACIES = ("accuracy@0.1", "accuracy@0.3", "accuracy@0.5")
PRECISIONS = ("AP@0.1", "AP@0.3", "AP@0.5")
IN_ORDER = ("AP in order@0.1", "AP in order@0.3", "AP in order@0.5")
SUMMARIES = ("RoDeO/harmonic", "RoDeO/arithmetic", "RoDeO/minimum")
# Distance in sides at which RoDeO/loc is one half -> name of the metric.
SCALES = {0.5: "RoDeO scale 0.5/loc", 1.0: "RoDeO scale 1/loc", 2.0: "RoDeO scale 2/loc"}
RODEO = ("RoDeO", "RoDeO/loc", "RoDeO/shape", "RoDeO/cls")
MEAN_AP = "mAP@0.1:0.7"
FALSE_ALARMS = "FP/image@0.5"
NOISE = "position-noise(sigma=0.5)"
RUN_SECONDS = 0.004  # that a run at one strength takes

HEAD = """schema = "calipers.protocol/1"
name = "rodeo-study"
source = "Meissen et al., MIDL 2023, with the metrics that it compares"
[matching]
criterion = "box-iou"
assignment = "by-score"
thresholds = { from = 0.1, to = 0.7, step = 0.1 }
max_dets = inf
ties = "block"
"""


def steps(last: float, step: float, first: float = 0.0) -> Grid:
    """Return first, first + step, ..., last."""
    n = round((last - first) / step)
    # Rounded, so that the third step of 0.1 is 0.3 and not 0.30000000000000004.
    return tuple(round(first + k * step, 10) for k in range(n + 1))


@dataclass(frozen=True, slots=True)
class Experiment:
    """A sweep over the strengths of one or two corruptions."""

    name: str
    over: Mapping[str, Grid]
    quick: Mapping[str, Grid]
    always: tuple[str, ...] = ()  # corruptions applied at every strength


EXPERIMENTS = (
    Experiment(
        "figure-3",
        {"position-noise.sigma": steps(2.0, 0.2), "shape-noise.sigma": steps(1.0, 0.1)},
        {"position-noise.sigma": steps(2.0, 0.4), "shape-noise.sigma": steps(1.0, 0.25)},
    ),
    Experiment(
        "figure-4",
        {"class-underprediction.p": steps(1.0, 0.1)},
        {"class-underprediction.p": steps(1.0, 0.25)},
    ),
    Experiment(
        "figure-5",
        {"box-overprediction.mean": steps(3.0, 0.25)},
        {"box-overprediction.mean": steps(3.0, 0.75)},
    ),
    Experiment(
        "figure-7",
        {
            "random-boxes.size": (*steps(0.3, 0.05, 0.05), *steps(0.8, 0.1, 0.4)),
            "random-boxes.p": steps(1.0, 0.1),
        },
        {"random-boxes.size": (0.1, 0.2, 0.3, 0.5, 0.8), "random-boxes.p": steps(1.0, 0.5)},
    ),
    Experiment(
        "figure-8",
        {"position-bias.bias": steps(2.0, 0.2), "position-noise.sigma": steps(2.0, 0.2)},
        {"position-bias.bias": steps(2.0, 0.4), "position-noise.sigma": steps(2.0, 0.4)},
    ),
    Experiment(
        "figure-9",
        {"size-noise.sigma": steps(1.0, 0.1), "aspect-noise.sigma": steps(1.0, 0.1)},
        {"size-noise.sigma": steps(1.0, 0.25), "aspect-noise.sigma": steps(1.0, 0.25)},
    ),
    Experiment(
        "figure-10",
        {"class-overprediction.p": steps(1.0, 0.1)},
        {"class-overprediction.p": steps(1.0, 0.25)},
        (NOISE,),
    ),
    Experiment(
        "figure-11",
        {"class-confusion.p": steps(1.0, 0.1)},
        {"class-confusion.p": steps(1.0, 0.25)},
        (NOISE,),
    ),
)


def protocol() -> Protocol:
    """Return a protocol with the metrics of the paper.

    AP is also computed with ties broken by input order, as pycocotools does.
    """
    metrics = [
        ("RoDeO", "rodeo", 'part = "total"'),
        ("RoDeO/loc", "rodeo", 'part = "localization"'),
    ]
    metrics += [
        ("RoDeO/shape", "rodeo", 'part = "shape"'),
        ("RoDeO/cls", "rodeo", 'part = "classification"'),
    ]
    metrics += [(MEAN_AP, "average-precision", "")]
    for name, other, threshold in zip(PRECISIONS, IN_ORDER, (0.1, 0.3, 0.5)):
        metrics.append((name, "average-precision", f"thresholds = {threshold}"))
        metrics.append((other, "average-precision", f'thresholds = {threshold}\nties = "coco"'))
    for name, threshold in zip(ACCURACIES, (0.1, 0.3, 0.5)):
        metrics.append((name, "accuracy", f'thresholds = {threshold}\nassignment = "by-overlap"'))
    metrics.append((FALSE_ALARMS, "false-alarms", 'thresholds = 0.5\nassignment = "by-overlap"'))
    metrics += [(name, "rodeo", f'summary = "{name.split("/")[1]}"') for name in SUMMARIES]
    metrics += [
        (name, "rodeo", f'part = "localization"\nscale = {scale}') for scale, name in SCALES.items()
    ]
    blocks = "\n".join(
        f'[[metric]]\nname = "{name}"\nkind = "{kind}"\n{more}' for name, kind, more in metrics
    )
    return Protocol.from_toml(HEAD + blocks)


def sweep_steps(cohort: Cohort, *, runs: int, seed: int, quick: bool) -> StepSet[dict[str, Sweep]]:
    """Return the runs of all sweeps; they make the sweeps, by the name of their figure."""
    plan = protocol()
    names = [metric.name for metric in plan.metrics]
    sets: dict[str, StepSet[Sweep]] = {}
    for experiment in EXPERIMENTS:
        divided = oracle_sweep(
            cohort,
            names,
            experiment.quick if quick else experiment.over,
            protocol=plan,
            runs=runs,
            seed=seed,
            with_=experiment.always,
        )
        what = experiment.name.replace("-", " ")
        steps = []
        # All runs at one strength: workers in other processes receive the references every time.
        for first in range(0, len(divided.items), runs):
            arguments = (divided.oracle, divided.items[first : first + runs])
            steps.append(StudyStep(what, runs_of, arguments, runs * RUN_SECONDS))
        sets[experiment.name] = StepSet(tuple(steps), _flat(divided.compose))
    return StepSet.join(sets, dict)


def runs_of(oracle: OracleRun, items: Sequence[Any]) -> list[F64]:
    """Return what an oracle is worth in some runs."""
    return [oracle(item) for item in items]


def _flat(compose: Callable[[Sequence[F64]], Sweep]) -> Callable[[Sequence[list[F64]]], Sweep]:
    return lambda results: compose([*chain.from_iterable(results)])
