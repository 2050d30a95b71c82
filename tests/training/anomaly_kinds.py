"""Trained networks against classical scorers, by kind of anomaly: the measurement of the docs.

Everything is decided before: networks and scorers learn from the same normal pictures; for every
kind the best scorer and the best network are chosen on some pictures, and compared once on others.

    python tests/training/anomaly_kinds.py results.json
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

from calipers.studies.anomaly.algorithms import CLASSICAL
from calipers.synthetic.anomalies import KINDS, normal_images, strange_images, write_anomalies

SIDE, N_NORMAL, N_CHOICE, N_TEST, EPOCHS = 48, 120, 20, 40, 15
METHODS = ("ae", "vae", "denoising", "padim", "distillation", "fpi")
SEED, TEST_SEED, REPLICATES = 0, 77, 4000


def network_maps(method, normal, images, epochs=EPOCHS):
    """Train on a folder of normal pictures, as `calipers train` does; return maps of images."""
    import torch

    from calipers.training.anomaly import scores_of
    from calipers.training.datasets.frames import Frames
    from calipers.training.loop import WEIGHTS, load_tensors
    from calipers.training.models import model_named
    from calipers.training.train import train
    from calipers.training.training_plan import TrainingPlan

    plan = TrainingPlan.load(f"anomaly-{method}").changed(side=SIDE, epochs=epochs)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train(str(normal), run, plan, subsets=1, seed=SEED, device="cpu")
        network = model_named("anomaly").network(plan, 1, ())
        network.load_state_dict(load_tensors(run / "subset-1" / WEIGHTS)["network"])
    pixels = np.stack(images)
    n = len(pixels)
    frames = Frames(None, pixels, np.full((n, 2), SIDE), np.ones(n), ())  # type: ignore[arg-type]
    return scores_of(network, frames, np.arange(n), 16, torch.device("cpu"))


def scorer_maps(fit, normal, images):
    """Fit a classical scorer; a picture is a volume of one slice."""
    score = fit([image[None] / np.float32(255) for image in normal], SEED)
    return np.stack([score(image[None] / np.float32(255))[0] for image in images])


def precisions(maps, strange):
    """Return the average precision of the pixels of every picture."""
    values = []
    for own, one in zip(maps, strange):
        values.append(average_precision_score(one.labels.ravel() > 0, own.ravel()))
    return np.array(values)


def compare(table, kinds):
    """Return for every kind: best scorer and best network by the first pictures, on the others."""
    random = np.random.default_rng(0)
    rows = []
    for kind in KINDS:
        own = np.flatnonzero(kinds == kind)
        choice, test = own[:N_CHOICE], own[N_CHOICE:]
        best = {}
        for group in ("classical", "trained"):
            names = [name for name in table if (name in METHODS) == (group == "trained")]
            best[group] = max(names, key=lambda name: table[name][choice].mean())
        draws = random.integers(0, len(test), (REPLICATES, len(test)))
        values = {group: table[name][test] for group, name in best.items()}
        difference = values["trained"] - values["classical"]
        low, high = np.quantile(difference[draws].mean(axis=1), (0.025, 0.975))
        row = {"kind": kind, **best, "n": len(test), "low": float(low), "high": float(high)}
        row |= {f"AP {group}": float(own_values.mean()) for group, own_values in values.items()}
        rows.append(row | {"difference": float(difference.mean())})
    return rows


def main(path):
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        root = write_anomalies(folder, n_normal=N_NORMAL, n_strange=1, seed=SEED, side=SIDE)
        normal = normal_images(N_NORMAL, SEED, side=SIDE)
        strange = strange_images(N_CHOICE + N_TEST, TEST_SEED, side=SIDE)
        images = [one.image for one in strange]
        kinds = np.array([one.kind for one in strange])
        table = {}
        for name, (fit, _) in CLASSICAL.items():
            table[name] = precisions(scorer_maps(fit, normal, images), strange)
            print(name, round(time.process_time() - began), flush=True)
        for method in METHODS:
            maps = network_maps(method, root / "normal", images)
            table[method] = precisions(maps, strange)
            print(method, round(time.process_time() - began), flush=True)
    means = {}
    for name, values in table.items():
        means[name] = {kind: round(float(values[kinds == kind].mean()), 3) for kind in KINDS}
    result = {"rows": compare(table, kinds), "means": means, "seconds": time.process_time() - began}
    Path(path).write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
