# SPDX-License-Identifier: Apache-2.0
"""The middle of an evaluation: evidence is collected over blocks of images, rows of estimates
follow.

`evaluate` and `groups` merge the recipes of their metrics with `jobs_of`, collect the evidence with
`collect`, and turn it into rows with `estimated_rows`. Everything that matches calls `collect` too.

Blocks depend on the data, never on the number of workers, and `engine.work.in_order` joins what was
done in the order of the blocks: the result has the same bits on one thread and on many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions, References
from calipers.engine.leniency import STRICT, Leniency, SetAside
from calipers.engine.ordered_map import WorkerDied, in_order, smallest_fatal
from calipers.engine.store import RunPlan
from calipers.errors import InputError, UsageError
from calipers.evaluation.protocol import Protocol
from calipers.matching.assign import MatchRecipe
from calipers.matching.deadly_images import PartialBlock, Salvage, deadly_image
from calipers.matching.matches import JointMatches, Matches, View
from calipers.metrics.base import Evidence, Metric, Recipe
from calipers.results.estimate import Row
from calipers.statistics.estimates import Certainty, estimates, rows_of
from calipers.statistics.estimates import Progress as Progress_
from calipers.statistics.weights import Units, units_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from calipers.engine.store import Store

BLOCK = 16384  # images
AHEAD = 4  # blocks per worker that wait for their turn or are under way
HINT = "the memory of a worker may be too small for its objects"

Progress = Callable[[int, int], None]  # (blocks done, blocks in all)
Job = tuple[str, Recipe[Any]]  # model, recipe
Task = tuple[Any, str, Recipe[Any], tuple[int, int]]  # key, model, recipe, span of images
Block = tuple[Cohort, str, Recipe[Any]]  # the images of a task, its model and its recipe


def spans(n_images: int, block: int | None = None) -> list[tuple[int, int]]:
    """Return the (start, stop) of every block; no images are one empty block."""
    block = BLOCK if block is None else block
    return [(start, min(start + block, n_images)) for start in range(0, max(n_images, 1), block)]


def collect(
    cohort: Cohort,
    jobs: Mapping[Any, Job],
    *,
    workers: int = 1,
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> dict[Any, Evidence]:
    """Collect the evidence of several (model, recipe) jobs over all blocks of a cohort.

    Parameters
    ----------
    jobs
        Any key -> (model, recipe); the result has the same keys.
    workers
        Threads to use when no executor is given; 1 works in this thread.
    store
        Finished blocks are taken from there, and new ones are written to it (`collection_plan`).
    progress
        Called after every block.
    """
    how: dict[str, Any] = {"workers": workers, "executor": executor, "store": store}
    return collect_leniently(cohort, jobs, STRICT, progress=progress, **how)[0]


def collect_leniently(
    cohort: Cohort,
    jobs: Mapping[Any, Job],
    leniency: Leniency,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> tuple[dict[Any, Evidence], dict[int, SetAside]]:
    """Collect evidence as `collect` does; lenient work sets images aside that end their worker.

    Returns the evidence without the images that one of the jobs set aside, and these images by
    their number.
    """
    tasks = _tasks(cohort, jobs)
    joints = {key: _JointEvidence(cohort, model) for key, (model, _) in jobs.items()}
    lost: dict[Any, dict[int, SetAside]] = {key: {} for key in jobs}
    results = _matched(cohort, tasks, leniency, workers, executor, store)
    for n_done, evidence in enumerate(results, start=1):
        key, _, _, (first, end) = tasks[n_done - 1]
        if isinstance(evidence, PartialBlock):
            for item in evidence.aside:
                lost[key][cohort.images.ids.index(item.name, first, end)] = item
            evidence = evidence.evidence
        joints[key].add(evidence)
        del evidence
        if progress is not None:
            progress(n_done, len(tasks))
    aside: dict[int, SetAside] = {}
    for of_job in lost.values():
        aside |= of_job
    leniency.check(list(aside.values()), cohort.n_images, "images")
    evidence_by_key: dict[Any, Evidence] = {}
    for key in jobs:
        evidence_by_key[key] = joints.pop(key).result()
        if len(lost[key]) < len(aside):
            # Another job lost images that this one has.
            images = np.delete(np.arange(cohort.n_images), list(lost[key]))
            rest = np.flatnonzero(~np.isin(images, list(aside)))
            evidence_by_key[key] = evidence_by_key[key].take(rest)
    return evidence_by_key, dict(sorted(aside.items()))


def collect_part(
    cohort: Cohort,
    protocol: Protocol,
    store: Store,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    lenient: bool = False,
    progress: Progress | None = None,
) -> int:
    """Collect the blocks of one part into its store; return their number.

    Blocks from which lenient work set images aside are left there too, for the run that merges all
    parts to judge.
    """
    sized = with_areas(cohort, protocol)
    tasks = _tasks(sized, jobs_of(sized, protocol.compile()))
    first, end = store.span
    results = _matched(sized, tasks, Leniency(lenient, 1.0), workers, executor, store)
    for n_done, _ in enumerate(results, start=1):
        if progress is not None:
            progress(n_done, end - first)
    return end - first


def collection_plan(
    cohort: Cohort, protocol: Protocol, command: Sequence[str] = (), *, lenient: bool = False
) -> RunPlan:
    """Return what decides the evidence of every block, for a store: inputs by their hashes, the
    protocol, and the list of blocks.
    """
    from calipers import __version__

    items = []
    for _, model, recipe, (first, end) in _tasks(cohort, jobs_of(cohort, protocol.compile())):
        items.append(f"{model} {recipe.key[0]} images {first}:{end}")
    inputs = [[file.role, file.sha256, file.used] for file in cohort.intake.files]
    return RunPlan(
        work="evaluate",
        settings={
            "calipers": __version__,
            "numpy": np.__version__,
            "protocol": protocol.as_dict(),
            "inputs": inputs,
            "models": list(cohort.models),
            "classes": list(cohort.classes),
            "images": cohort.n_images,
            # Blocks of lenient runs may lack images that were set aside.
            "lenient": lenient,
        },
        items=items,
        command=command,
    )


def _matched(
    cohort: Cohort,
    tasks: Sequence[Task],
    leniency: Leniency,
    workers: int,
    executor: Executor | None,
    store: Store | None,
) -> Iterator[Any]:
    """Yield the evidence of every task; an image that ends its worker is an error that names it, or
    set aside.
    """

    def rest(death: WorkerDied) -> PartialBlock:
        assert executor is not None, "threads do not die alone"
        (block,) = _blocks(cohort, [tasks[death.item]])
        evidence, aside = Salvage(_work, _halves, _name_of, executor).rest(block, death)
        if not evidence:
            block_cohort, model, recipe = block
            evidence = [recipe.collect(block_cohort.take(np.zeros(0, np.int64)), model)]
        return PartialBlock(_join(evidence), tuple(aside))

    blocks = _blocks(cohort, tasks)
    how: dict[str, Any] = {"workers": workers, "executor": executor, "store": store}
    how["ahead"] = AHEAD * max(1, workers)
    try:
        yield from in_order(_work, blocks, **how, aside=rest if leniency.lenient else None)
    except WorkerDied as error:
        assert executor is not None, "threads do not die alone"
        (block,) = _blocks(cohort, [tasks[error.item]])
        images = smallest_fatal(_work, block, _halves, executor)[0].images.ids
        expected, hint = "images that can be matched", HINT
        if len(images) == 1:
            hint = f"{hint}; --lenient sets it aside"
            raise deadly_image(expected, images[0], error.how, hint) from None
        raise InputError(
            expected,
            rule="worker-died",
            location=f"images {images[0]!r} to {images[-1]!r}, together",
            value=error.how,
            hint=HINT,
        ) from None


def _name_of(task: Block) -> str:
    """Return the id of the one image of a block that cannot be cut."""
    name: str = task[0].images.ids[0]
    return name


def _halves(task: Block) -> list[Block]:
    """Return the two halves of a block of images; nothing for a single image."""
    block, model, recipe = task
    middle = block.n_images // 2
    if not middle:
        return []
    spans_of_halves = ((0, middle), (middle, block.n_images))
    return [(block.span(*span), model, recipe) for span in spans_of_halves]


def _tasks(cohort: Cohort, jobs: Mapping[Any, Job]) -> list[Task]:
    """Return (key, model, recipe, images) of every job on every block."""
    blocks = spans(cohort.n_images)
    tasks = []
    for key, (model, recipe) in jobs.items():
        tasks += [(key, model, recipe, span) for span in blocks]
    return tasks


def _blocks(cohort: Cohort, tasks: Iterable[Task]) -> Iterator[Block]:
    """Yield the block of images, the model and the recipe of every task."""
    for _, model, recipe, span in tasks:
        block = cohort if span == (0, cohort.n_images) else cohort.span(*span)
        yield block, model, recipe


def _work(task: Block) -> Evidence:
    block, model, recipe = task
    evidence: Evidence = recipe.collect(block, model)
    return evidence


def _join(parts: Sequence[Evidence]) -> Evidence:
    return parts[0] if len(parts) == 1 else type(parts[0]).concat(parts)


class _JointEvidence:
    """The evidence of blocks, joined in the end, or, where it is large, as it comes."""

    def __init__(self, cohort: Cohort, model: str) -> None:
        self._parts: list[Evidence] = []
        self._matches = JointMatches(len(cohort.references), len(cohort.models[model]))
        self._is_matches = False

    def add(self, part: Evidence) -> None:
        """Append the evidence of the next block."""
        if isinstance(part, Matches):
            self._is_matches = True
            self._matches.add(part)
        else:
            self._parts.append(part)

    def result(self) -> Evidence:
        """Return the evidence of all blocks."""
        return self._matches.result() if self._is_matches else _join(self._parts)


Key = tuple[str, tuple[Any, ...]]  # model, key of the recipe
EVERY_SIZE = 1e10  # where COCO's "all" sizes end
MOST_RESAMPLED = 250_000_000  # values in all replicates of a model: 2 GB, minutes of one core
MOST_KEPT = 256_000_000  # bytes of replicates at a time; more models go in several rounds


def with_areas(cohort: Cohort, protocol: Protocol) -> Cohort:
    """Return the cohort with the areas that size cuts look at.

    They are declared, or measured on boxes or masks; rescaled if the protocol says so.
    """
    if protocol.size_from == "mask" and cohort.references.masks is None and len(cohort.references):
        raise UsageError(
            "sizes from masks need references with masks; these have boxes: "
            "use from = 'declared' or 'box'"
        )
    if protocol.size_from == "declared" and protocol.rescale_to is None:
        return cohort
    scale = np.ones(cohort.n_images)
    if protocol.rescale_to is not None:
        unknown = np.flatnonzero(np.isnan(cohort.images.size).any(axis=1))
        if len(unknown):
            name = cohort.images.ids[unknown[0]]
            raise UsageError(f"rescale_to needs the size of every image; image {name!r} has none")
        # Areas, so the product of the two scales.
        scale = np.prod(protocol.rescale_to) / np.prod(cohort.images.size[:, :2], axis=1)

    def resized(table: References | Predictions) -> Any:
        area = table.area if protocol.size_from == "declared" else table.extent
        # A predicted box without a mask is a shape of its own.
        if protocol.size_from == "mask" and table.masks is not None:
            area = table.masks.voxels.astype(np.float64)
        return replace(table, area=area * scale[table.image])

    models = {name: resized(predictions) for name, predictions in cohort.models.items()}
    return replace(cohort, references=resized(cohort.references), models=models)


def jobs_of(cohort: Cohort, metrics: Sequence[Metric[Any]]) -> dict[Key, Job]:
    """Merge the recipes of all metrics, so that each evidence is collected once per model."""
    recipes: dict[tuple[Any, ...], Any] = {}
    for metric in metrics:
        key, recipe = metric.recipe.key, metric.recipe
        recipes[key] = recipes[key].merge(recipe) if key in recipes else recipe
    jobs: dict[Key, Job] = {}
    for model in cohort.models:
        for key, recipe in recipes.items():
            jobs[model, key] = (model, recipe)
    return jobs


def evidence_of(
    cohort: Cohort, metrics: Sequence[Metric[Any]], evidence: Mapping[Key, Evidence]
) -> dict[Key, Evidence]:
    """Return the evidence of metrics: what is there already, and the rest collected now."""
    parts: dict[Key, Evidence] = {}
    missing: dict[Key, Job] = {}
    for key, (model, recipe) in jobs_of(cohort, metrics).items():
        table = evidence.get(key)
        views = getattr(table, "views", ())
        if table is not None and set(getattr(recipe, "views", ())) <= set(views):
            parts[key] = table
        else:
            missing[key] = (model, recipe)
    return parts | collect(cohort, missing)


def matches_of(cohort: Cohort, view: View, evidence: Mapping[Key, Evidence], model: str) -> Matches:
    """Return the matches of a model whose first view is the given one, collected now if no metric
    needed just these.
    """
    for (name, _), table in evidence.items():
        if name == model and isinstance(table, Matches) and _same_fates(table.views[0], view):
            return table
    matches = collect(cohort, {model: (model, MatchRecipe((view,)))})[model]
    assert isinstance(matches, Matches)
    return matches


def _same_fates(view: View, other: View) -> bool:
    """Return whether two views decide the same fates, whatever the words for all sizes."""
    is_every_size = view.size[0] <= 0 and view.size[1] >= EVERY_SIZE
    return is_every_size and replace(view, size=other.size) == other


def certainty_of(protocol: Protocol, *, ci: bool) -> Certainty:
    """Return how the protocol states uncertainty; not at all without ``ci``."""
    return Certainty(
        protocol.level, protocol.interval, protocol.replicates if ci else 0, protocol.seed
    )


def units_for(cohort: Cohort, protocol: Protocol) -> Units:
    """Return the units that the protocol resamples in this cohort."""
    return units_of(cohort.images.groups, cohort.n_images, protocol.cluster, protocol.strata)


def estimated_rows(
    cohort: Cohort,
    protocol: Protocol,
    evidence: Mapping[Key, Evidence],
    *,
    ci: bool,
    units: Units | None = None,
    images: NDArray[np.int64] | None = None,
    group: Mapping[str, str] | None = None,
    per_class: bool = True,
    workers: int = 1,
    progress: Progress_ | None = None,
) -> list[Row]:
    """Return the rows of all models on all images, or on those of a group: metrics as in the
    protocol, pooled first. The units are those of the protocol unless they are given; ``workers``
    threads resample them.
    """
    units = units_for(cohort, protocol) if units is None else units
    certainty = certainty_of(protocol, ci=ci)
    if images is not None:
        units = units.take(images)
    rows: list[Row] = []
    for models, some in _rounds(cohort, protocol, certainty):
        owners, cases = [], []
        for model in models:
            tables = {}
            for (name, key), table in evidence.items():
                if name == model:
                    tables[key] = table if images is None else table.take(images)
            cases += [(metric, tables[metric.recipe.key]) for metric in some]
            owners += [model] * len(some)
        results = estimates(cases, units, certainty, progress, workers)
        for model, (metric, _), result in zip(owners, cases, results):
            shown_rows = result if per_class else result[:1]
            rows += _rows(model, metric, shown_rows, cohort.classes, group)
    order = {plan.name: k for k, plan in enumerate(protocol.metrics)}
    place = {model: k for k, model in enumerate(cohort.models)}
    return sorted(rows, key=lambda row: (place[row.model], order[row.metric]))


def _rounds(
    cohort: Cohort, protocol: Protocol, certainty: Certainty
) -> Iterator[tuple[list[str], list[Metric[Any]]]]:
    """Yield models and metrics whose replicates fit into memory together."""
    metrics = protocol.compile()
    names = max(1, sum(len(metric.facts.names) for metric in metrics))
    size = 8 * max(1, certainty.replicates) * (1 + len(cohort.classes))  # of one number
    if size * names > 8 * MOST_RESAMPLED:
        raise InputError(
            f"at most {MOST_RESAMPLED:,} values in all replicates: metrics x classes x replicates",
            rule="too-large",
            field="metric",
            value=f"{names:,} x {1 + len(cohort.classes):,} x {certainty.replicates:,}",
            hint="leave metrics out, take fewer replicates, or use --no-ci (ci=False)",
        )
    step, models = max(1, MOST_KEPT // (size * names)), list(cohort.models)
    if size * names <= MOST_KEPT:
        rounds = [metrics]
    else:  # thousands of classes: the metrics of one model go in several rounds, too
        rounds = protocol.compile_rounds(max(1, MOST_KEPT // size))
    for start in range(0, len(models), step):
        for some in rounds:
            yield models[start : start + step], some


def _rows(
    model: str,
    metric: Metric[Any],
    table: list[Any],
    classes: Sequence[str],
    group: Mapping[str, str] | None,
) -> Iterator[Row]:
    labels, facts = [None, *classes], metric.facts
    ids = [facts.id_of(k) for k in range(len(facts.names))]
    for row, k, estimate in rows_of(table):
        yield Row(model, facts.names[k], ids[k], labels[row], group, estimate)
