# SPDX-License-Identifier: Apache-2.0
"""Rows for voxels: exact ranking, memory, histograms, and overlap of regions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import other_environment, workloads
from benchmarks.contest import Result, peak_memory, peer_name, take_turns
from benchmarks.rows import ONE_THREAD, row

VOXELS = 20_000_000
ROUNDS = 3  # the peers take some twenty seconds each


def on(route: str, run: Callable[[], Any]) -> Callable[[], Any]:
    """Return a contestant on one route."""
    from calipers.kernels.route import forced

    def contestant() -> Any:
        with forced(route):
            return run()

    return contestant


def same(found: Any, expected: Any, tolerance: float) -> None:
    """Make sure that both compute the same before anything is measured."""
    if not np.allclose(found, expected, rtol=0, atol=tolerance):
        raise AssertionError(f"{found} and {expected} differ")


@row("voxels")
def ranking() -> Iterator[Result]:
    """AUROC and AP of 20 M voxels together, from a map and a mask, against scikit-learn and
    torchmetrics.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    from calipers.kernels import voxel_ranking

    scores, positive = workloads.voxels(VOXELS)

    def ours() -> tuple[float, float]:
        found = voxel_ranking.ranking_figures(voxel_ranking.sides(scores, positive))
        return float(found.auroc[0]), float(found.ap[0])

    def peer() -> tuple[float, float]:
        return float(roc_auc_score(positive, scores)), float(
            average_precision_score(positive, scores)
        )

    contestants: dict[str, Callable[[], Any]] = {
        "native": on("native", ours),
        "numpy": on("numpy", ours),
        "peer": peer,
    }
    what = "voxel AUROC + AP, 20 M voxels"
    with ExitStack() as stack:
        if other_environment.interpreter():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            np.savez(folder / "set.npz", scores_0=scores, labels_0=positive.astype(np.int64))
            contestants["torch"] = stack.enter_context(
                other_environment.Peer("ranking", folder / "set.npz")
            )
            same(contestants["torch"]()[0], ours(), 1e-3)
        else:
            print(f"voxels: torchmetrics is skipped, {other_environment.HOW}")
        same(peer(), ours(), 1e-12)
        times = take_turns(contestants, ROUNDS)
    name = peer_name("scikit-learn")
    yield Result("voxels", what, "native", name, times["peer"], times["native"], "s", 40.0, ROUNDS)
    yield Result("voxels", what, "NumPy", name, times["peer"], times["numpy"], "s", 20.0, ROUNDS)
    if "torch" in times:
        name = other_environment.version("torchmetrics")
        yield Result(
            "voxels", what, "native", name, times["torch"], times["native"], "s", 25.0, ROUNDS
        )


@row("memory-voxels")
def memory() -> Iterator[Result]:
    """Peak memory of the same with 200 M voxels, the map and the mask included."""
    code = (
        "from benchmarks import workloads\nfrom calipers.kernels import voxel_ranking\n"
        "scores, positive = workloads.voxels(200_000_000)\n"
        "voxel_ranking.ranked(voxel_ranking.sides(scores, positive))\n"
    )
    for route, native in (("native", "1"), ("NumPy", "0")):
        used = peak_memory(code, **ONE_THREAD, CALIPERS_NATIVE=native)
        what = "peak, voxel AUROC + AP, 200 M voxels"
        yield Result("memory-voxels", what, route, "limit of 3 GB", 3072.0, used, "MB", 1.0, 1)


@row("histogram")
def histogram() -> Iterator[Result]:
    """The histogram of one volume of 256^3 voxels, which is what remains of it for the data set."""
    from calipers.kernels import voxels

    scores, positive = workloads.voxels(256**3)
    times = take_turns({"native": on("native", lambda: voxels.histogram(scores, positive))}, 7)
    what = "histogram of 256^3 voxels"
    yield Result("histogram", what, "native", "limit of 0.1 s", 0.1, times["native"], "s", 1.0, 7)


@row("aupro")
def aupro() -> Iterator[Result]:
    """AUPRO of 100 maps of 256 x 256 pixels, from components that are there, against anomalib."""
    from calipers.kernels.voxel_ranking import aupro

    scores, components = workloads.regions(100)
    what, rounds = "AUPRO, 100 maps of 256^2", 5
    if not other_environment.interpreter():
        print(f"aupro: anomalib is skipped, {other_environment.HOW}")
        return

    def ours() -> float:
        return aupro(list(scores), list(components))

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "set.npz")
        np.savez(file, scores_0=scores, labels_0=workloads.unique_regions(components))
        with other_environment.Peer("aupro", file) as peer:
            same(peer()[0], ours(), 1e-4)
            times = take_turns({"native": on("native", ours), "peer": peer}, rounds)
    name = other_environment.version("anomalib")
    yield Result("aupro", what, "NumPy", name, times["peer"], times["native"], "s", 15.0, rounds)
