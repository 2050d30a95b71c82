# SPDX-License-Identifier: Apache-2.0
"""The rows of the benchmark. A new one is one function with `@row`; it yields results."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.contest import (
    Result,
    children_time,
    peak_memory,
    peer_name,
    seconds_of,
    take_turns,
)

Row = Callable[[], Iterator[Result]]
ROWS: dict[str, Row] = {}
ONE_THREAD = {
    "CALIPERS_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

# A command finds its modules compiled to bytecode, as it does once it is installed: the first
# round, which does not count, leaves it behind.
COMMAND = {**ONE_THREAD, "PYTHONDONTWRITEBYTECODE": ""}


def row(name: str) -> Callable[[Row], Row]:
    """Register a row under a name for ``make bench ONLY=name``."""

    def register(function: Row) -> Row:
        ROWS[name] = function
        return function

    return register


@row("ap-a")
def ap_a() -> Iterator[Result]:
    """All 12 COCO numbers on natural-image-like data."""
    return average_precision("a", native_bar=4.0)


@row("ap-b")
def ap_b() -> Iterator[Result]:
    """The same on medical-like data."""
    return average_precision("b", native_bar=5.0)


@row("ap-c")
def ap_c() -> Iterator[Result]:
    """The same on 200,000 images."""
    return average_precision("c", native_bar=5.0)


def average_precision(kind: str, native_bar: float) -> Iterator[Result]:
    """Compare both routes with hotcoco, and the NumPy route with faster-coco-eval,
    from data in memory.
    """
    data, (references, results) = workloads.make(kind), coco_files(kind)
    cohort = workloads.to_cohort(data)
    times = take_turns(
        {
            "native": lambda: ours(cohort, "coco", "native"),
            "hotcoco": hotcoco(references, results),
            "numpy": lambda: ours(cohort, "coco", "numpy"),
        },
        rounds=5 if kind == "c" else 7,
    )
    what = f"12 COCO numbers, {kind}"
    peer, n = peer_name("hotcoco"), 5 if kind == "c" else 7
    yield Result(
        f"ap-{kind}", what, "native", peer, times["hotcoco"], times["native"], "s", native_bar, n
    )
    yield Result(f"ap-{kind}", what, "NumPy", peer, times["hotcoco"], times["numpy"], "s", 0.6, n)
    if kind == "b":
        slow = take_turns(
            {"numpy": lambda: ours(cohort, "coco", "numpy"), "peer": faster(references, results)}, 5
        )
        peer = peer_name("faster-coco-eval")
        yield Result(f"ap-{kind}", what, "NumPy", peer, slow["peer"], slow["numpy"], "s", 10.0, 5)


@row("memory-c")
def memory_c() -> Iterator[Result]:
    """Peak memory of the 12 numbers on 200,000 images,
    less what the data alone needs with the interpreter.
    """
    base = "from benchmarks import workloads\nd = workloads.make('c')\n"
    made = base + "c = workloads.to_cohort(d)\ndel d\n"
    run = made + "import calipers\ncalipers.evaluate(c, 'coco', ci=False)\n"
    ours_mb = peak_memory(run, **ONE_THREAD)
    references, results = coco_files("c")
    peer = (
        "import hotcoco, io, contextlib\n"
        f"G = hotcoco.COCO({str(references)!r}); D = G.load_res({str(results)!r})\n"
        "E = hotcoco.COCOeval(G, D, 'bbox')\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    E.evaluate(); E.accumulate(); E.summarize()\n"
    )
    yield Result(
        "memory-c",
        "peak, 12 COCO numbers, c",
        "native",
        peer_name("hotcoco"),
        peak_memory(peer, **ONE_THREAD),
        ours_mb,
        "MB",
        1.0,
        1,
    )
    yield Result(
        "memory-c",
        "peak, 12 COCO numbers, c",
        "native",
        "limit of 350 MB",
        350.0,
        ours_mb,
        "MB",
        1.0,
        1,
    )


@row("rodeo")
def rodeo() -> Iterator[Result]:
    """RoDeO on 10,000 images against the authors' package, and 100,000 images in memory."""
    data = workloads.make("b")
    cohort = workloads.to_cohort(data)
    times = take_turns(
        {"native": lambda: rodeo_of(cohort, "native"), "numpy": lambda: rodeo_of(cohort, "numpy")},
        7,
    )
    peer = take_turns({"peer": rodeometric(data)}, 3)["peer"]
    name, what = peer_name("rodeometric"), "RoDeO, 10,000 images"
    yield Result("rodeo", what, "native", name, peer, times["native"], "s", 500.0, 7)
    yield Result("rodeo", what, "NumPy", name, peer, times["numpy"], "s", 100.0, 7)
    code = (
        "from benchmarks import workloads\nimport calipers\n"
        "c = workloads.to_cohort(workloads.make('b100k'))\n"
    )
    used = peak_memory(code + "calipers.rodeo(c)\n", **ONE_THREAD)
    yield Result(
        "rodeo",
        "peak, RoDeO, 100,000 images",
        "native",
        "limit of 300 MB",
        300.0,
        used,
        "MB",
        1.0,
        1,
    )


@row("bootstrap-a")
def bootstrap_a() -> Iterator[Result]:
    """Replicates of the 12 numbers of two models, natural-image-like; the peer is slow,
    so fewer of them.
    """
    return bootstrap("a", replicates=500, rounds=2)


@row("bootstrap-b")
def bootstrap_b() -> Iterator[Result]:
    """The same on medical-like data."""
    return bootstrap("b", replicates=1000, rounds=5)


def bootstrap(kind: str, replicates: int, rounds: int) -> Iterator[Result]:
    """Compare the bootstrap of two models' 12 numbers with hotcoco's,
    both from matches that are there.
    """
    import hotcoco

    from calipers.evaluation.evaluate import evaluate
    from calipers.statistics.estimates import Certainty
    from calipers.statistics.estimates import replicates as drawn
    from calipers.statistics.weights import Units

    data = workloads.make(kind)
    rng = np.random.default_rng(1)
    noisy = {
        **data,
        "dt_score": np.clip(
            data["dt_score"] + rng.normal(0, 0.1, len(data["dt_score"])), 0.001, 0.999
        ),
    }
    evaluations = [
        evaluate(workloads.to_cohort(entry), "coco", ci=False) for entry in (data, noisy)
    ]
    units = Units.of("image", None, evaluations[0].cohort.n_images)

    def ours_of(route: str) -> Any:
        from calipers.kernels.route import forced

        # Copies know nothing yet: what is worked out once for all replicates is part of the time.
        cases = []
        for ev in evaluations:
            fresh = {key[1]: replace(evidence) for key, evidence in ev.evidence.items()}  # type: ignore[type-var]
            cases += [(metric, fresh[metric.recipe.key]) for metric in ev.protocol.compile()]
        with forced(route):
            return drawn(cases, units, Certainty(replicates=replicates))

    with contextlib.redirect_stdout(io.StringIO()):
        peers = [_evaluated(hotcoco, entry) for entry in (data, noisy)]
    times = take_turns(
        {
            "native": lambda: ours_of("native"),
            "hotcoco": lambda: hotcoco.compare(*peers, n_bootstrap=replicates),
        },
        rounds,
    )
    what = f"{replicates} replicates of 12 numbers, 2 models, {kind}"
    peer = peer_name("hotcoco")
    yield Result(
        f"bootstrap-{kind}",
        what,
        "native",
        peer,
        times["hotcoco"],
        times["native"],
        "s",
        40.0,
        rounds,
    )


def _evaluated(hotcoco: Any, data: workloads.Workload) -> Any:
    """Return hotcoco's matches of a workload."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("references.json", "results.json")]
        for path, document in zip(paths, workloads.to_coco(data)):
            path.write_text(json.dumps(document))
        references = hotcoco.COCO(str(paths[0]))
        found = hotcoco.COCOeval(references, references.load_res(str(paths[1])), "bbox")
    found.evaluate()
    return found


@row("mixed")
def mixed() -> Iterator[Result]:
    """IoU of 1,400 polyps by size and type, with three nested random intercepts,
    against statsmodels.
    """
    import warnings

    import pandas as pd
    import statsmodels.api as sm

    import calipers

    table, groups = pd.DataFrame(workloads.polyps()), ["centre", "patient", "image"]
    nested = {name: f"0 + C({name})" for name in groups[1:]}

    def ours() -> Any:
        return calipers.mixed_model(table, "iou ~ size + type", groups)

    def peer() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sm.MixedLM.from_formula(
                "iou ~ size + type", table, groups="centre", vc_formula=nested, re_formula="1"
            )
            return model.fit()

    if abs(ours().deviance + 2 * peer().llf) > 1e-5:
        raise AssertionError("the two deviances differ")
    times = take_turns({"ours": ours, "peer": peer}, 3)
    what, name = "mixed model, 1,400 rows, 3 levels", peer_name("statsmodels")
    yield Result("mixed", what, "NumPy", name, times["peer"], times["ours"], "s", 15.0, 3)


@row("startup")
def startup() -> Iterator[Result]:
    """What `import calipers` adds to `import numpy`, and `calipers --help`."""
    python = sys.executable
    times = take_turns(
        {
            "numpy": lambda: seconds_of([python, "-c", "import numpy"]),
            "both": lambda: seconds_of([python, "-c", "import numpy, calipers"]),
            "help": lambda: seconds_of([str(Path(python).with_name("calipers")), "--help"]),
        },
        9,
    )
    added = max(times["both"] - times["numpy"], 1e-4)
    yield Result(
        "startup", "import calipers, beyond numpy", "-", "limit of 60 ms", 0.060, added, "s", 1.0, 9
    )
    yield Result(
        "startup", "calipers --help", "-", "limit of 0.3 s", 0.3, times["help"], "s", 1.0, 9
    )


@row("command")
def command() -> Iterator[Result]:
    """The whole command on COCO files of workload a, from process start to JSON."""
    references, results = (str(path) for path in coco_files("a"))
    binaries = Path(sys.executable).parent
    calipers = [
        str(binaries / "calipers"),
        "evaluate",
        references,
        results,
        "--preset",
        "coco",
        "--no-ci",
        "--json",
    ]
    peer = [str(binaries / "coco"), "eval", "--json", "--gt", references, "--dt", results]
    times = take_turns(
        {
            "ours": lambda: seconds_of(calipers, **COMMAND),
            "peer": lambda: seconds_of(peer, **COMMAND),
        },
        5,
    )
    yield Result(
        "command",
        "whole command, a",
        "native",
        f"{peer_name('hotcoco')} CLI",
        times["peer"],
        times["ours"],
        "s",
        1.0,
        5,
    )


@row("files-a")
def files_a() -> Iterator[Result]:
    """From COCO files to the twelve numbers in the library, natural-image-like."""
    return files("a")


@row("files-b")
def files_b() -> Iterator[Result]:
    """The same on medical-like data."""
    return files("b")


def files(kind: str) -> Iterator[Result]:
    """Compare reading and evaluating two files with hotcoco's library, by processor time."""
    from calipers.evaluation.evaluate import evaluate
    from calipers.io.read import read

    references, results = coco_files(kind)

    def ours_of() -> None:
        evaluate(read(references, results), "coco", ci=False)

    def peer() -> None:
        hotcoco(references, results)()

    times = take_turns({"ours": ours_of, "peer": peer}, 7, clock=time.process_time)
    name, what = peer_name("hotcoco"), f"files to 12 COCO numbers, {kind}"
    yield Result(f"files-{kind}", what, "native", name, times["peer"], times["ours"], "s", 1.2, 7)


@row("command-b")
def command_b() -> Iterator[Result]:
    """The whole command with intervals on COCO files of workload b;
    at most 3 times the one without.
    """
    return command_again("command-b", "with intervals", [], bar=1 / 3)


@row("command-report-b")
def command_report_b() -> Iterator[Result]:
    """The whole command with folder and page; at most 3.5 times the one without intervals."""
    folder = str(Path(_folder().name) / "result")
    return command_again("command-report-b", "with page", ["-o", folder, "--force"], bar=1 / 3.5)


def command_again(name: str, what: str, options: list[str], bar: float) -> Iterator[Result]:
    """Compare a command with the same one without intervals, by processor time."""
    files = [str(path) for path in coco_files("b")]
    start = [str(Path(sys.executable).with_name("calipers")), "evaluate", *files]
    times = take_turns(
        {
            "plain": lambda: seconds_of([*start, "--no-ci"], **COMMAND),
            "more": lambda: seconds_of([*start, *options], **COMMAND),
        },
        5,
        clock=children_time,
    )
    peer = "itself, no intervals"
    yield Result(name, f"{what}, b", "native", peer, times["plain"], times["more"], "s", bar, 5)


@row("growth")
def growth() -> Iterator[Result]:
    """Processor time per image from 10,000 to 1,000,000 images; the ratio is small / large,
    at least 1 / 1.3 (NumPy: 1 / 2).
    """
    small, large = (workloads.to_cohort(workloads.make(kind)) for kind in ("b", "b1M"))
    cpu = time.process_time  # seconds of a run that lasts are not those of a short one otherwise
    for route, bar in (("native", 1 / 1.3), ("NumPy", 0.5)):
        few = (
            take_turns({"x": lambda route=route: ours(small, "coco", route.lower())}, 7, cpu)["x"]
            / small.n_images
        )
        many = (
            take_turns({"x": lambda route=route: ours(large, "coco", route.lower())}, 2, cpu)["x"]
            / large.n_images
        )
        what = "per image and 1000: 10 k, then 1 M images"
        yield Result("growth", what, route, "itself", few * 1000, many * 1000, "s", bar, 2)


def ours(cohort: Any, protocol: str, route: str) -> Any:
    """Evaluate on one route, without intervals."""
    from calipers.evaluation.evaluate import evaluate
    from calipers.kernels.route import forced

    with forced(route):
        return evaluate(cohort, protocol, ci=False)


def rodeo_of(cohort: Any, route: str) -> Any:
    """Return RoDeO on one route."""
    import calipers
    from calipers.kernels.route import forced

    with forced(route):
        return calipers.rodeo(cohort)


def hotcoco(references: Path, results: Path) -> Callable[[], object]:
    """Return hotcoco's evaluation of files that it has already read."""
    from hotcoco import COCO, COCOeval

    truth = COCO(str(references))
    found = truth.load_res(str(results))

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = COCOeval(truth, found, "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()

    return run


def faster(references: Path, results: Path) -> Callable[[], object]:
    """Return faster-coco-eval's evaluation of files that it has already read."""
    from faster_coco_eval import COCO, COCOeval_faster

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(references))
        found = truth.loadRes(str(results))

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = COCOeval_faster(truth, found, "bbox", print_function=lambda *_: None)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()

    return run


def rodeometric(data: workloads.Workload) -> Callable[[], object]:
    """Return the authors' RoDeO; its one crash (a float without ``clip``) is mended from
    outside.
    """
    import rodeo.rodeo as package
    from sklearn.metrics import matthews_corrcoef

    package.matthews_corrcoef = lambda *given: np.float64(matthews_corrcoef(*given))
    sides = []
    for side in ("dt", "gt"):
        table = np.concatenate([data[f"{side}_box"], data[f"{side}_cls"][:, None]], axis=1)
        cuts = np.cumsum(np.bincount(data[f"{side}_img"], minlength=data["n_img"]))[:-1]
        sides.append(np.split(table, cuts))

    def run() -> object:
        metric = package.RoDeO([str(c) for c in range(data["n_cls"])])
        metric.add(*sides)
        return metric.compute()

    return run


@cache
def _folder() -> Any:
    return tempfile.TemporaryDirectory(prefix="calipers-bench-")


@cache
def coco_files(kind: str) -> tuple[Path, Path]:
    """Write a workload as COCO files, once, and return where they are."""
    folder = Path(_folder().name)
    documents = workloads.to_coco(workloads.make(kind))
    paths = folder / f"{kind}_references.json", folder / f"{kind}_results.json"
    for path, document in zip(paths, documents):
        path.write_text(json.dumps(document))
    return paths
