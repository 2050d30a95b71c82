# SPDX-License-Identifier: Apache-2.0
"""`stability`: do models that were trained alike mark the same places? And tables of analyses.

In come maps (arrays, or a source of bags) and optional labels; out goes a `StabilityResult`. Called
by `calipers.stability` and the ``stability`` command, which also counts bags in parts (`bag_plan`,
`collect_bags`). `stability_table` puts several results by key
(data sets, pooling operators, ways of training) into one `StabilityTable` with mean and standard
deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calipers.arguments import names_arguments
from calipers.arrays import F64, Column, Flags
from calipers.data.bags import ArrayBags, Bags, SomeBags
from calipers.data.look_alikes import NARROWER, note_on_names
from calipers.engine.cost import RunCost, Stopwatch, peak_bytes
from calipers.engine.leniency import ALLOWED_LOSS, Leniency, aside_note
from calipers.engine.ordered_map import threads_here
from calipers.engine.store import RunPlan
from calipers.errors import InputError, UsageError, flag, one_of, real, several, shown
from calipers.kernels.resampling import check_seed
from calipers.results.document import Document
from calipers.results.estimate import number
from calipers.show.words import two_decimals
from calipers.stability.bag_scores import STANDARD, Pooling
from calipers.stability.evidence import (
    AHEAD,
    ALL_MODELS,
    BagQuestions,
    StabilityPlan,
    check_jobs,
    check_undefined,
    count_bags,
    gather,
)
from calipers.stability.result import StabilityResult, remarks
from calipers.stability.scores import Cases, localization, stability_rows
from calipers.statistics.estimates import Certainty
from calipers.statistics.intervals import check_level, check_replicates
from calipers.statistics.weights import Units, units_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from calipers.engine.store import Store

Progress = Callable[[int, int], None]

TRIED = 8  # bags that are compared to know how long all of them take
CELL_BYTES = 64  # per instance and model while a bag is compared, beside its values
BAGS_PER_BLOCK = 8  # of a stopped run, at most the block that was under way is done again
SWEEP = tuple(k / 10 for k in range(1, 10))
BAGS = ("positive", "all")

COLUMNS = ("APJ", "Spearman", "AUC", "DICE")
# Over what the standard deviation is taken, as in the published tables.
OVER = {"APJ": "bags", "Spearman": "bags", "AUC": "models", "DICE": "models"}


@names_arguments
def stability(
    maps: Any,
    labels: Any = None,
    threshold: float = 0.5,
    *,
    undefined: Literal["skip", "agree", "one"] = "skip",
    bags: Literal["positive", "all"] = "positive",
    thresholds: Sequence[float] = SWEEP,
    models: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    instances: Any = None,
    groups: Mapping[str, Any] | None = None,
    bag_scores: Any = None,
    pooling: str | None = None,
    cluster: str | Sequence[str] = "auto",
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    ci: bool = True,
    kendall: bool = True,
    jobs: int = 1,
    executor: Executor | None = None,
    store: Store | None = None,
    lenient: bool = False,
    allow_loss: float = ALLOWED_LOSS,
    progress: Progress | None = None,
) -> StabilityResult:
    """Measure how well models that were trained alike mark the same places.

    Parameters
    ----------
    maps
        An array (models, bags, ...instances...), a list with one (models, ...instances...) array
        per bag, ``{"model": maps}``, or any source of bags (`calipers.data.bags.Bags`). A bag is
        an image; its instances are the pixels, voxels or patches that every model gives a value in
        [0, 1].
    labels
        (bags,) 0 or 1: whether there is something to find.
    threshold
        An instance is called positive at or above it (above it if it is 0).
    undefined
        A score of two maps that call everything alike is 0/0. ``skip`` leaves such pairs out and
        counts them; ``agree`` takes 1 if both call everything positive and 0 if both call nothing;
        ``one`` takes 1.
    bags
        ``positive`` uses the bags with something to find, if labels say which; ``all`` uses every
        bag.
    thresholds
        Thresholds of the sweep.
    instances
        The positive instances of the reference, one array per bag or None: for DICE and Jaccard.
    bag_scores
        (models, bags): the score of each model for the whole bag. Without them the maps are pooled.
    pooling
        How the values of a map become the score of its bag, for the bag AUC: ``max`` (default),
        ``mean``, ``noisy-or``, ``lse``, or with a number ``noisy-or:0.98`` (factors of the product
        are rescaled to [0.98, 1]), ``lse:10`` (r = 10), ``top-k:8`` (mean of the 8 highest).
    cluster
        Unit of resampling: ``auto`` (patient if ``groups`` has that column, else image) or a
        column of ``groups``.
    ci, level, replicates, seed
        Settings of the bootstrap intervals; ``ci=False`` computes none.
    kendall
        False leaves out Kendall's tau, the slowest score.
    jobs
        Number of threads; the numbers do not depend on it.
    executor
        Where bags are read and compared instead: `calipers.engine.processes.Processes`, the
        executor of a cluster; ``jobs`` then says how many bags it works on at a time.
    store
        Finished bags are taken from there, and new ones are written to it: `bag_plan`.
    lenient
        Set aside bags that cannot be read, or that crash the worker that reads them (in threads,
        such a bag crashes the program), and name them in a warning. Otherwise the first one is an
        error.
    allow_loss
        Share of the bags that may be set aside.

    Notes
    -----
    The score is computed for every bag and unordered pair of models; the value of a bag is the mean
    over its defined pairs, and the value of the analysis is the mean over bags. Pairs that share a
    model are not independent, so no interval counts pairs: intervals come from resampling bags (or
    patients) with these models, and, in ``leave_one_out``, from leaving out one model at a time.

    Examples
    --------
    >>> import numpy as np, calipers as cal
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.random((30, 64))  # 30 bags of 64 instances; 5 models see them with noise
    >>> maps = np.clip(shared + 0.1 * rng.standard_normal((5, 30, 64)), 0, 1)
    >>> result = cal.stability(maps, replicates=200)
    >>> round(result["APJ"].value, 2), result["APJ"].n_images, result["APJ"].unit
    (0.63, 30, 'image')
    """
    # Everything cheap is checked before a map is read: reading may take an hour.
    check_undefined(undefined)
    _check_certainty(level, replicates, seed, ci)
    check_jobs(jobs)
    check_progress(progress)
    kendall, thresholds = flag("kendall", kendall), several("thresholds", thresholds)
    every_threshold = _thresholds(threshold, thresholds)
    optional = {
        "models": models,
        "ids": ids,
        "groups": groups,
        "instances": instances,
        "bag_scores": bag_scores,
    }
    source = _bags_of(maps, labels, optional)
    operator = _pooling_of(source, pooling)
    questions, notes = _questions(source, every_threshold, bags, operator, kendall)
    leniency = Leniency(lenient, allow_loss)

    def planned(source: Bags, selection: Flags, notes: Sequence[str]) -> StabilityPlan:
        positive = None
        if source.positive is not None:
            positive = np.asarray(source.positive, np.bool_)[selection]
        # Units are those of the selected bags; the bag AUC has units of its own below.
        columns = {name: np.asarray(column)[selection] for name, column in source.groups.items()}
        units = units_of(columns, int(selection.sum()), cluster)
        return StabilityPlan(
            models=tuple(source.models),
            ids=tuple(source.ids[k] for k in np.flatnonzero(selection)),
            n_bags=len(source),
            positive=positive,
            threshold=float(threshold),
            sweep=tuple(dict.fromkeys(float(t) for t in thresholds)),
            undefined=undefined,
            bags=bags,
            kendall=kendall,
            pooling=str(operator),
            units=units,
            certainty=Certainty(
                level=float(level), replicates=int(replicates) if ci else 0, seed=int(seed)
            ),
            notes=(*source.notes, *notes, *_names_of_units(units, columns)),
        )

    plan = planned(source, questions.selection, notes)
    evidence = gather(
        source,
        questions,
        jobs=jobs,
        executor=executor,
        store=store,
        leniency=leniency,
        progress=progress,
    )
    if evidence.aside:
        places = np.delete(np.arange(len(source)), list(evidence.aside))
        source, selection = SomeBags(source, places), questions.selection[places]
        notes = [*notes, aside_note(list(evidence.aside.values()), "image")]
        plan = planned(source, selection, notes)
    columns = {name: np.asarray(column) for name, column in source.groups.items()}
    # The bag AUC needs the negative bags too, so its cases are all bags, not only the selection.
    case_units = units_of(columns, len(source), cluster)
    names = tuple(str(pooling) for pooling in questions.poolings)
    # Replicates are drawn on this machine, whatever the executor is.
    workers = threads_here(jobs, executor)
    rows = stability_rows(evidence.pairs, plan, workers=workers, progress=progress)
    cases = Cases.of(source, names, evidence.pooled_scores, case_units)
    result = StabilityResult(
        plan=plan,
        evidence=evidence.pairs,
        cases=cases,
        stability_rows=tuple(rows),
        localized=localization(evidence.pairs, plan, cases),
        source=source,
    )
    # Remarks are made of the finished result, and kept because they cost a pass over its pairs.
    return replace(result, remarks=tuple(remarks(result)))


def bag_questions(
    source: Bags,
    *,
    threshold: float = 0.5,
    thresholds: Sequence[float] = SWEEP,
    bags: Literal["positive", "all"] = "positive",
    pooling: str | None = None,
    kendall: bool = True,
) -> BagQuestions:
    """Return what `stability` asks of the bags under these settings."""
    every_threshold = _thresholds(threshold, thresholds)
    return _questions(source, every_threshold, bags, _pooling_of(source, pooling), kendall)[0]


def bag_plan(
    source: Any, questions: BagQuestions, command: Sequence[str] = (), *, lenient: bool = False
) -> RunPlan:
    """Return what decides the counts of every bag, for a store; bags are those of files, or of
    predictions on a grid.

    Files are compared by name, size and time of their last change, not by their content: reading
    all of it would take as long as the work itself.
    """
    from calipers import __version__

    if not hasattr(source, "fingerprint"):
        raise UsageError("only bags that are read from files can be stored: use read_bags")
    items = []
    for i in questions.places.tolist():
        uses = f"selected={questions.selection[i]} pooled={questions.pool[i]}"
        items.append(f"{source.fingerprint(i)} {uses}")
    return RunPlan(
        work="stability",
        settings={
            "calipers": __version__,
            "numpy": np.__version__,
            "models": list(source.models),
            "source": source.settings(),
            **questions.document(),
            # Blocks of lenient runs may hold bags that were set aside.
            **({"lenient": True} if lenient else {}),
        },
        items=items,
        size=BAGS_PER_BLOCK,
        command=command,
    )


def stability_cost(source: Any, questions: BagQuestions) -> RunCost:
    """Return what the comparison of bags takes, from a few of them that are spread over all."""
    places = questions.places
    tried = places[np.unique(np.linspace(0, len(places) - 1, TRIED).astype(np.int64))]
    in_trial = np.zeros(len(source), np.bool_)
    in_trial[tried] = True
    some = replace(
        questions, selection=questions.selection & in_trial, pool=questions.pool & in_trial
    )
    # The first bag of all loads modules.
    source[int(tried[0])]
    watch = Stopwatch()
    for _ in count_bags(source, some):
        pass
    watch.stop()
    cells = max(math.prod(source[int(i)].shape) for i in tried)
    return RunCost(
        work="stability",
        n_items=len(places),
        unit="image",
        n_models=len(source.models),
        n_blocks=-(-len(places) // BAGS_PER_BLOCK),
        file_bytes=source.file_bytes(),
        fixed_bytes=peak_bytes(),
        # Maps that are compared, and those that wait to be.
        job_bytes=cells * len(source.models) * (CELL_BYTES + 8 * AHEAD),
        largest=f"the largest of {len(tried)} images has {cells} instances",
        basis=f"from {len(tried)} images; intervals and page are not included",
        shared_seconds=watch.seconds * len(places) / len(tried),
    )


def _names_of_units(units: Units, columns: Mapping[str, Column]) -> list[str]:
    """Return the note on units whose names look alike, if there are any."""
    if units.name not in columns:
        return []
    return note_on_names(units.name, columns[units.name].tolist(), NARROWER)


def check_units(source: Bags, cluster: str | Sequence[str]) -> None:
    """Raise for units that the bags cannot have: a part resamples nothing, but what the merge will
    refuse must not be worked on for hours.
    """
    columns = {name: np.asarray(column) for name, column in source.groups.items()}
    units_of(columns, len(source), cluster)


def collect_bags(
    source: Bags,
    questions: BagQuestions,
    store: Store,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    lenient: bool = False,
    progress: Progress | None = None,
) -> int:
    """Count the bags of one part into its store; return their number.

    Those that are set aside are left there too, for the run that merges all parts to judge.
    """
    first, end = store.span
    how: dict[str, Any] = {"jobs": jobs, "executor": executor, "store": store}
    results = count_bags(source, questions, **how, leniency=Leniency(lenient, 1.0))
    for n_done, _ in enumerate(results, start=1):
        if progress is not None:
            progress(n_done, end - first)
    return end - first


def _questions(
    source: Bags, thresholds: F64, bags: str, operator: Pooling, kendall: bool
) -> tuple[BagQuestions, list[str]]:
    """Return what is asked of the bags, and notes for the reader about their selection."""
    if ALL_MODELS in source.models:
        raise UsageError(
            f"no model may be called {ALL_MODELS!r}: results use that name for all models together"
        )
    selection, notes = _select_bags(source, bags)
    # The standard ones too: maps are read once, and `localization` may ask for another one later.
    poolings = {name: Pooling.of(name) for name in STANDARD} | {str(operator): operator}
    questions = BagQuestions(
        thresholds=thresholds,
        selection=selection,
        pool=_bags_to_pool(source),
        poolings=tuple(poolings.values()),
        kendall=kendall,
    )
    return questions, notes


def check_progress(progress: Any) -> None:
    """Raise unless ``progress`` is None or a function."""
    if progress is not None and not callable(progress):
        raise UsageError(
            f"progress must be a function of (steps done, steps in total), got {shown(progress)}"
        )


def _check_certainty(level: float, replicates: int, seed: int, ci: bool) -> None:
    check_seed(seed)
    check_level(level)
    if flag("ci", ci):
        check_replicates(replicates)


def _thresholds(threshold: float, sweep: Sequence[float]) -> F64:
    """Return all thresholds in ascending order, each once."""
    numbers = []
    for value in (threshold, *sweep):
        number = real("a threshold", value)
        if not 0 <= number <= 1:
            raise UsageError(f"a threshold lies in [0, 1], as the values of maps do; got {value!r}")
        numbers.append(number)
    return np.unique(numbers)


def _bags_of(maps: Any, labels: Any, optional: Mapping[str, Any]) -> Bags:
    """Return the bags: a source unchanged, arrays after checking them."""
    # A source is recognised by what it offers: users write their own.
    attributes = ("models", "ids", "bag_scores")
    if isinstance(maps, Mapping) or not all(hasattr(maps, name) for name in attributes):
        return ArrayBags.of(maps, labels, **optional)
    for name, value in {"labels": labels, **optional}.items():
        if value is not None:
            raise UsageError(
                f"a source of bags already has its {name}: set it in the source, or pass arrays"
            )
    source: Bags = maps
    return source


def _select_bags(source: Bags, bags: str) -> tuple[Flags, list[str]]:
    """Return which bags are analysed, and notes for the reader about that selection."""
    one_of("choice of bags", bags, BAGS)
    every = np.ones(len(source), np.bool_)
    if bags == "all":
        return every, []
    if source.positive is None:
        return every, ["there are no labels that mark positive bags: all bags are used"]
    positive = np.asarray(source.positive, np.bool_)
    if not positive.any():
        hint = "pass bags='all' to analyse negative bags"
        raise InputError(
            "at least one positive bag", rule="no-bags", field="labels", value="all 0", hint=hint
        )
    n_negative = int((~positive).sum())
    notes = []
    if n_negative:
        notes.append(
            f"{n_negative} of {len(source)} images are negative and left out of the stability "
            "scores"
        )
    return positive, notes


def _pooling_of(source: Bags, pooling: str | None) -> Pooling:
    """Return the operator for the bag AUC; one that would have no effect is refused."""
    if pooling is None:
        return Pooling("max")
    operator = Pooling.of(pooling)
    if source.bag_scores is not None:
        raise UsageError(
            "the bags have scores of their own, so that no map is pooled: leave out the pooling, "
            "or these scores"
        )
    if source.positive is None:
        raise UsageError("pooling is for the bag AUC, which needs labels: give them too")
    return operator


def _bags_to_pool(source: Bags) -> Flags:
    """Return the bags whose maps must be pooled for the bag AUC.

    These are all bags if there are positive and negative ones and no bag scores, else none.
    """
    labels = source.positive
    needed = source.bag_scores is None and labels is not None and len(np.unique(labels)) == 2
    return np.full(len(source), needed)


@dataclass(frozen=True, slots=True)
class Cell:
    """Mean and standard deviation (ddof 0) of a measure, over what, and how many of them."""

    metric: str
    mean: float
    sd: float
    over: str  # "bags" or "models"
    n: int

    def __str__(self) -> str:
        return (
            "-"
            if self.mean != self.mean
            else f"{two_decimals(self.mean)} ± {two_decimals(self.sd)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the cell for JSON."""
        return {"mean": number(self.mean), "sd": number(self.sd), "over": self.over, "n": self.n}


@dataclass(frozen=True, repr=False, eq=False)
class StabilityTable(Document):
    """Analyses by key: stability as mean and SD over bags, bag AUC and DICE as mean and SD over
    models.

    ``figure()`` shows stability against bag AUC, ``figure("DICE")`` against DICE, a point per key
    with standard deviations; ``score="Spearman"`` instead of APJ.
    """

    SCHEMA = "calipers.stability-table/1"
    FIGURES = "calipers.stability.figures:TABLE_FIGURES"

    keys: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[Cell, ...], ...]  # as keys by COLUMNS

    def __getitem__(self, place: tuple[tuple[str, ...] | str, str]) -> Cell:
        """Return a cell: ``table[("X-Ray", "NOR"), "APJ"]``."""
        key, metric = place
        row = (key,) if isinstance(key, str) else tuple(key)
        if row not in self.keys or metric not in COLUMNS:
            raise UsageError(
                f"no cell {place!r}; rows: {list(self.keys)}, columns: {', '.join(COLUMNS)}"
            )
        return self.cells[self.keys.index(row)][COLUMNS.index(metric)]

    def __str__(self) -> str:
        lines = [[*([""] * len(self.keys[0])), *COLUMNS]]
        for key, row in zip(self.keys, self.cells):
            lines.append([*key, *map(str, row)])
        widths = [max(map(len, column)) for column in zip(*lines)]
        padded = []
        for line in lines:
            words = [word.ljust(width) for word, width in zip(line, widths)]
            padded.append("  ".join(words).rstrip())
        return "\n".join(padded)

    def _content(self) -> dict[str, Any]:
        rows = []
        for key, row in zip(self.keys, self.cells):
            cells = {cell.metric: cell.as_dict() for cell in row}
            rows.append({"key": list(key), **cells})
        return {"columns": list(COLUMNS), "sd_ddof": 0, "rows": rows}

    def _records(self) -> list[dict[str, Any]]:
        """Return a row per key and measure."""
        rows = []
        for key, cells in zip(self.keys, self.cells):
            name = " / ".join(key)
            for cell in cells:
                rows.append({"key": name, "metric": cell.metric, **cell.as_dict()})
        return rows


def stability_table(results: Mapping[str | Sequence[str], StabilityResult]) -> StabilityTable:
    """Return several analyses as one table.

    Parameters
    ----------
    results
        By a name, or by a tuple of names such as ``("X-Ray", "NOR")``: data set and pooling
        operator.

    Examples
    --------
    >>> import numpy as np, calipers as cal
    >>> maps = np.random.default_rng(0).random((3, 8, 16))
    >>> table = stability_table({("made up", "max"): cal.stability(maps, ci=False)})
    >>> print(table[("made up", "max"), "DICE"], table[("made up", "max"), "APJ"].n)
    - 8
    """
    keys = tuple(_table_key(key) for key in results)
    if len(set(map(len, keys))) != 1:
        raise UsageError("a table needs at least one result, and keys of one length")
    cells = []
    for result in results.values():
        cells.append(tuple(_table_cell(result, name) for name in COLUMNS))
    return StabilityTable(keys, tuple(cells))


def _table_key(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(map(str, key))


def _table_cell(result: StabilityResult, name: str) -> Cell:
    if OVER[name] == "bags":
        n_defined = int((~np.isnan(result.per_bag(name))).sum())
        return Cell(name, result[name].value, result.sd(name), "bags", n_defined)
    localized = result.localized
    # Without a reference or labels the cell is empty.
    if not localized.has(name):
        return Cell(name, float("nan"), float("nan"), "models", 0)
    return Cell(name, localized.mean(name), localized.sd(name), "models", len(result.models))
