# SPDX-License-Identifier: Apache-2.0
"""Train the detectors of the study of monitors, and note what they and their monitors do.

`train_detectors` trains two detectors per data set on canvases of digits, from different random
weights and on the same pictures, so that each is "another model" for the other. Each then sees all
test pictures of `calipers.studies.monitors.scenes` once. Monitors on outputs, on features
(`calipers.training.monitors`) and on the picture (`calipers.monitors.baselines`) are fitted on the
same training pictures, which are in distribution. The score from which on predictions count is
chosen on validation pictures, which are in distribution too. Nothing here sees a shifted picture
before the end.

Needs PyTorch (extra ``train``).
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from calipers import __version__
from calipers.arrays import F64, I64
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.monitors.baselines import baseline, picture_features
from calipers.monitors.scope import scope_scores
from calipers.results.files import sha256_of
from calipers.studies.monitors.archive import (
    FILE,
    MODEL,
    STEPS,
    DetectorRecord,
    MonitorArchive,
    rows_of,
)
from calipers.studies.monitors.scenes import (
    DEFINITIONS,
    FULL,
    QUICK,
    USUAL,
    SceneCounts,
    SceneSet,
    open_scenes,
)
from calipers.studies.steps import Progress
from calipers.training.datasets.canvases import ComposedCanvas
from calipers.training.datasets.frames import Frames
from calipers.training.datasets.training_images import TrainingImages

DETECTORS = 2  # per data set
VALIDATION = 0.1  # of the training pictures, for the score cut alone
PLAN, DROPOUT = "canvases-detector", 0.1
LOWEST = 0.2  # predictions with a lower score are not kept
CUTS = np.arange(LOWEST, 0.95, 0.05)
# Monitors of Calipers that need no network; `count` and the others are fitted.
BASELINES = (
    "max-score",
    "mean-score",
    "count",
    "score-entropy",
    "box-likelihood",
    "image-mahalanobis",
    "image-knn",
)


def train_detectors(
    sources: Sequence[str | None],
    *,
    seed: int,
    quick: bool,
    progress: Progress,
    keep: Path | None = None,
) -> MonitorArchive:
    """Train on every source (None: the digits of scikit-learn), and return what came out.

    With ``keep``, every detector is written into that folder when it is done, and one that is there
    already, from the same command, is not trained again.
    """
    if find_spec("torch") is None:
        raise UsageError("--train needs PyTorch: pip install 'calipers[train]'")
    counts = QUICK if quick else FULL
    about = _about(sources, counts, seed, quick)
    detectors: list[DetectorRecord] = []
    total = DETECTORS * len(sources)
    for source in sources:
        scenes = open_scenes(source, counts, seed)
        frames = _training_frames(scenes)
        tests = _frames([scenes.drawing(k) for k in range(len(scenes))], scenes.ids, scenes)
        for number in range(DETECTORS):
            name = f"{scenes.name}-{number + 1}"
            progress(f"training {name}", len(detectors), total)
            one = _kept(keep, name, about)
            if one is None:
                one = _detector(scenes, frames, tests, counts, number)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    MonitorArchive((one,), about).write(keep / f"{name}.npz")
            detectors.append(one)
    archive = MonitorArchive(tuple(detectors), about)
    if keep is not None:
        archive.write(keep / FILE)
    return archive


def _kept(keep: Path | None, name: str, about: dict[str, Any]) -> DetectorRecord | None:
    """Return a detector that an earlier run has trained, if its settings were the same."""
    if keep is None or not (keep / f"{name}.npz").exists():
        return None
    archive = MonitorArchive.read(keep / f"{name}.npz")
    return archive.detectors[0] if archive.about == about else None


def _about(
    sources: Sequence[str | None], counts: SceneCounts, seed: int, quick: bool
) -> dict[str, Any]:
    import torch

    words = ["calipers study monitors --train"]
    words += [f"--data {Path(source).name}" for source in sources if source is not None]
    words += [f"--seed {seed}"] if seed else []
    words += ["--quick"] if quick else []
    return {
        "command": " ".join(words),
        "seed": seed,
        "quick": quick,
        "counts": {name: getattr(counts, name) for name in SceneCounts.__slots__},
        "calipers": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def _training_frames(scenes: SceneSet) -> Frames:
    n = scenes.canvases.settings.n_train
    drawings = [scenes.canvases.drawing(i) for i in range(n)]
    return _frames(drawings, scenes.canvases.ids[:n], scenes)


def _frames(drawings: Sequence[ComposedCanvas], ids: Sequence[str], scenes: SceneSet) -> Frames:
    classes = scenes.canvases.classes
    findings = np.zeros((len(drawings), len(classes)), np.bool_)
    for i, drawing in enumerate(drawings):
        findings[i, drawing.labels] = True
    images = TrainingImages(
        name=scenes.name,
        ids=tuple(ids),
        classes=classes,
        findings=findings,
        boxes=tuple(drawing.boxes for drawing in drawings),
        box_labels=tuple(drawing.labels for drawing in drawings),
        patients=tuple(ids),
        picture=lambda i: drawings[i].pixels,
    )
    side = scenes.canvases.settings.side
    sizes = np.full((len(drawings), 2), float(side))
    pixels = np.stack([drawing.pixels for drawing in drawings])
    return Frames(images, pixels, sizes, np.ones(len(drawings)), ())


def _detector(
    scenes: SceneSet, frames: Frames, tests: Frames, counts: SceneCounts, number: int
) -> DetectorRecord:
    import torch

    from calipers.training.detector import (
        DetectorNetwork,
        DetectorTask,
        ap_of,
        boxes_of,
        cohort_of,
    )
    from calipers.training.loop import fit, reproducible
    from calipers.training.monitors import MOST_FIT, MonitorFit, alarms_of, inspect_images
    from calipers.training.training_plan import TrainingPlan

    plan = TrainingPlan.load(PLAN).changed(epochs=counts.epochs, dropout=DROPOUT)
    device = torch.device("cpu")
    n = len(frames)
    rows = np.arange(round((1 - VALIDATION) * n))
    validation, every = np.arange(len(rows), n), np.arange(len(tests))
    seed = 1000 * scenes.seed + number
    with reproducible(1), tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(seed)
        network = DetectorNetwork(plan, 1, len(frames.images.classes))
        task = DetectorTask(network, frames, rows, np.zeros(0, np.int64), plan, device)
        fit(task, plan, rows, Path(folder), identity="study", seed=seed)
        boxes = boxes_of(network, frames, validation, plan.batch, device)
        cut = _score_cut(cohort_of(frames, validation, {MODEL: boxes}))
        usual = np.flatnonzero([name == USUAL for name in scenes.shift])
        precision = ap_of(network, tests, usual, plan.batch, device)
        usual_rows = rows[:MOST_FIT]
        fitted = MonitorFit.of(inspect_images(network, frames, usual_rows, plan.batch, device))
        alarms = alarms_of(inspect_images(network, tests, every, plan.batch, device), fitted)
        predictions = boxes_of(network, tests, every, plan.batch, device)
        usual_boxes = boxes_of(network, frames, usual_rows, plan.batch, device)
    assert precision is not None
    cohort = cohort_of(tests, every, {MODEL: predictions})
    fit_cohort = cohort_of(frames, usual_rows, {MODEL: usual_boxes})
    alarms |= _baselines(cohort, fit_cohort, cut, tests.pixels, frames.pixels[usual_rows])
    return DetectorRecord(
        name=f"{scenes.name}-{number + 1}",
        data=f"{scenes.canvases.settings.n_train} canvases of {scenes.name}",
        foreign=scenes.foreign_name,
        seed=seed,
        score_cut=cut,
        average_precision=round(precision, 4),
        classes=frames.images.classes,
        side=scenes.canvases.settings.side,
        n_training=len(rows),
        shift=scenes.shift,
        strength=scenes.strength,
        ood={name: scenes.ood(name) for name in DEFINITIONS},
        references=_references(tests),
        predictions=_predictions(predictions),
        alarms={name: own.astype(np.float32).astype(np.float64) for name, own in alarms.items()},
    )


def _score_cut(cohort: Cohort) -> float:
    """Return the cut with the best mean score s on validation pictures; of equal ones the lowest.

    Pictures out of distribution have no part in it, as they would have none in practice.
    """
    means = []
    for cut in CUTS.tolist():
        scope = scope_scores(cohort, model=MODEL, classes="present", score_cut=cut)
        means.append(float(scope.score.mean()))
    return round(float(CUTS[int(np.argmax(means))]), 2)


def _baselines(
    cohort: Cohort, fit: Cohort, cut: float, pictures: Any, fit_pictures: Any
) -> dict[str, F64]:
    features = picture_features(cohort, list(pictures))
    fit_features = picture_features(fit, list(fit_pictures))
    alarms = {}
    for name in BASELINES:
        images = {"images": features, "fit_pictures": fit_features}
        options: dict[str, Any] = images if name.startswith("image-") else {"score_cut": cut}
        if name in ("count", "box-likelihood", "image-mahalanobis", "image-knn"):
            options["fit"] = fit
        alarms[name] = baseline(name, cohort, MODEL, **options)
    return alarms


def _references(tests: Frames) -> tuple[I64, F64, I64]:
    image, boxes = rows_of([np.asarray(own) for own in tests.images.boxes])
    return image, np.round(boxes * STEPS) / STEPS, np.concatenate(tests.images.box_labels)


def _predictions(predictions: Sequence[Any]) -> tuple[I64, F64, I64, F64]:
    image, boxes = rows_of([own.boxes for own in predictions])
    labels = np.concatenate([own.labels for own in predictions])
    scores = np.concatenate([own.scores for own in predictions])
    rounded = np.round(boxes * STEPS) / STEPS
    # Rounding may leave a sliver without area.
    good = (scores >= LOWEST) & (rounded[:, 2:] > rounded[:, :2]).all(axis=1)
    image, rounded, labels = image[good], rounded[good], labels[good]
    return image, rounded, labels, scores[good].astype(np.float16).astype(np.float64)


def archive_hash(archive: MonitorArchive) -> str:
    """Return the hash of what the detectors gave, without versions and machines."""
    parts: list[Any] = []
    for one in archive.detectors:
        arrays = [*one.references, *one.predictions, *one.alarms.values()]
        parts.append([one.name, [values.tolist() for values in arrays]])
    return sha256_of(parts)
