# SPDX-License-Identifier: Apache-2.0
"""The experiments of the study of stability, and the numbers that a run gives.

`prepare_all` gives the steps that analyse the maps of trained networks: those of the archive that
ships, of a run that was kept, of networks trained now, or maps that the user brings. Claims,
figures and tables read the `StabilityRun`. Networks are grouped by setting, which is a data set
with or without known instances, and pooling operator.

Counting gives all values that scores of two binary maps can take: every 2x2 table (n00, n01, n10,
n11) of up to N instances is built, where n10 counts the instances that only the first model calls
positive. The moves of one instance between cells, and the lines of figure 9 (appendix C), are here
too. So are rank correlations of maps that are zero almost everywhere, where the choice of the
variant (tau-a or tau-b, with or without midranks) matters more than the model does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from calipers.agreement.raters import agreement_scores
from calipers.arrays import F64
from calipers.data.bags import Bags
from calipers.kernels import ranks as pairwise
from calipers.stability import bag_scores as pooling
from calipers.stability.analyse import stability
from calipers.stability.result import StabilityResult
from calipers.stability.score_diagnostics import correlation
from calipers.studies.framework import StudyOptions
from calipers.studies.stability.archive import (
    ARCHIVE,
    BagSet,
    NetworkArchive,
    read_archive,
    setting_name,
    shipped_archive,
    write_archive,
)
from calipers.studies.stability.data import NOR, TABLE_VII, NetworkMaps, read_maps
from calipers.studies.stability.networks import (
    CHESTS,
    DIGITS,
    QUICK,
    NetworkSettings,
    train_networks,
)
from calipers.studies.steps import Progress, StepSet, StudyStep
from calipers.synthetic.bags import demo_bags
from calipers.synthetic.demo import stream

MOST, QUICK_MOST = 24, 12  # instances of the largest tables
SCORES = ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ")
ROUNDING = 1e-12
# What can happen to one instance: (n00, n01, n10, n11) after, less before.
MOVES: Mapping[str, tuple[int, int, int, int]] = {
    "an instance that both call is added": (0, 0, 0, 1),
    "an instance that neither calls is added": (1, 0, 0, 0),
    "only one called it, now both do": (0, 0, -1, 1),
    "neither called it, now both do": (-1, 0, 0, 1),
    "only one called it, now neither does": (1, 0, -1, 0),
}
ADDED, ADDED_NEGATIVE, JOINED, TURNED, DROPPED = MOVES
START, STEP, STEPS = 50, 5, 10
# Figure 9: what one step of 5 instances does to (n00, n01, n10, n11).
LINES: Mapping[str, tuple[int, int, int, int]] = {
    "blue": (0, 0, -1, 1),
    "green": (-1, 0, 0, 1),
    "black dotted": (0, -1, 1, 0),
    "red dotted": (-1, 0, 1, 0),
}

SIDE = 16
CUT = 0.5  # cells below this show nothing
SLIGHT = 0.2  # of the range is noise that every model has of its own

Key = tuple[str, str]  # setting, operator
REPLICATES, QUICK_REPLICATES = 1000, 200
HARDNESS = (0.1, 1.0, 10.0, 100.0)  # r of LSE
# The one simulated pair: the same lesions and bag scores, all models right or all equally wrong.
PAIR = ("stable-good", "stable-wrong")
PAIR_BAGS, QUICK_PAIR_BAGS = 80, 30


def tables_of(n: int) -> F64:
    """Return (T, 4): every (n00, n01, n10, n11) with the sum n."""
    # n00, n01 and n10 run over all values; n11 is what remains of n.
    grid = np.stack(np.meshgrid(*[np.arange(n + 1)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    cells = grid[grid.sum(axis=1) <= n]
    return np.column_stack([cells, n - cells.sum(axis=1)]).astype(np.float64)


def score_values(tables: F64, name: str) -> F64:
    """Return (T,): a score of every table."""
    return np.atleast_1d(np.asarray(agreement_scores(*tables.T)[name], np.float64))


@dataclass(frozen=True)
class Extreme:
    """The lowest or highest value of a score for one N, and every table that has it."""

    value: float
    tables: F64  # (m, 4)


@dataclass(frozen=True, slots=True)
class MoveEffect:
    """The effect of a move on a score, over all tables in which the move is possible and the score
    is defined before and after it.
    """

    n: int
    rises: int
    stays: int
    falls: int
    worst: float  # the largest fall
    example: tuple[int, int, int, int]  # the table before it

    @property
    def monotone(self) -> bool:
        """Whether the score never falls."""
        return self.falls == 0


@dataclass(frozen=True)
class Counting:
    """All 2x2 tables of 1 to ``most`` instances."""

    most: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of instances."""
        return tuple(range(1, self.most + 1))

    @cached_property
    def by_size(self) -> dict[int, F64]:
        """N -> (T, 4): the tables of N instances."""
        return {n: tables_of(n) for n in self.sizes}

    @cached_property
    def tables(self) -> F64:
        """(T, 4): the tables of all sizes."""
        return np.concatenate(list(self.by_size.values()))

    def value(self, name: str) -> F64:
        """Return a score of all tables."""
        return score_values(self.tables, name)

    def extreme(self, name: str, n: int, *, low: bool) -> Extreme:
        """Return the lowest or the highest value among tables of ``n`` instances."""
        values = score_values(self.by_size[n], name)
        if np.isnan(values).all():
            return Extreme(float("nan"), np.empty((0, 4)))
        end = float(np.nanmin(values) if low else np.nanmax(values))
        with np.errstate(invalid="ignore"):
            return Extreme(end, self.by_size[n][np.abs(values - end) < ROUNDING])

    def move_effect(self, name: str, move: str) -> MoveEffect:
        """Return the effect of a move on a score."""
        step = np.array(MOVES[move], np.float64)
        before = self.tables[(self.tables + step >= 0).all(axis=1)]
        change = score_values(before + step, name) - score_values(before, name)
        defined = ~np.isnan(change)
        before, change = before[defined], change[defined]
        worst = int(np.argmin(change)) if len(change) else 0
        rises, falls = int((change > ROUNDING).sum()), int((change < -ROUNDING).sum())
        n00, n01, n10, n11 = (int(count) for count in before[worst])
        stays = len(change) - rises - falls
        return MoveEffect(
            len(change), rises, stays, falls, max(0.0, -float(change[worst])), (n00, n01, n10, n11)
        )


def lines(name: str = "APJ") -> dict[str, F64]:
    """Return the lines of figure 9: a score after 0, 1, ..., 10 steps."""
    steps = STEP * np.arange(STEPS + 1, dtype=np.float64)[:, None]
    return {
        line: score_values(START + steps * np.array(change, np.float64), name)
        for line, change in LINES.items()
    }


def last_step(line: str) -> tuple[int, int, int, int]:
    """Return (n00, n01, n10, n11) at the end of a line of figure 9."""
    n00, n01, n10, n11 = (START + STEP * STEPS * change for change in LINES[line])
    return n00, n01, n10, n11


@dataclass(frozen=True)
class Ties:
    """One pair of maps under every variant of rank correlation, without and with ties."""

    zeros: float  # share of cells that are 0 in both
    # "with ties" / "without ties" -> 1 - 6 sum d^2 / (N (N^2 - 1)), with midranks
    formula: dict[str, float]
    spearman: dict[str, float]
    tau_a: dict[str, float]
    tau_b: dict[str, float]


def ties(seed: int) -> Ties:
    """Return the variants for two maps, a spot on a background: unchanged, and with all faint cells
    set to 0.
    """
    random = stream(seed, "ties")
    across = np.arange(SIDE) - (SIDE - 1) / 2
    away = np.hypot(across[:, None], across[None]).ravel()
    # Two models see the same spot, each with noise of its own.
    maps = (1 - SLIGHT) * np.exp(-((away / 4.0) ** 2)) + SLIGHT * random.random((2, SIDE * SIDE))
    kinds = {"without ties": maps, "with ties": np.where(maps >= CUT, maps, 0.0)}
    formula, spearman, tau_a, tau_b = {}, {}, {}, {}
    for name, values in kinds.items():
        formula[name] = printed_spearman(values)
        spearman[name] = float(pairwise.spearman(values)[0])
        of_b, of_a = pairwise.kendall(values)
        tau_a[name], tau_b[name] = float(of_a[0]), float(of_b[0])
    zeros = float((kinds["with ties"] == 0).all(axis=0).mean())
    return Ties(zeros, formula, spearman, tau_a, tau_b)


def printed_spearman(values: F64) -> float:
    """Return 1 - 6 sum d^2 / (N (N^2 - 1)) of two maps, as table I prints it; d are differences of
    midranks.
    """
    n = values.shape[1]
    difference = np.diff(pairwise.midranks(values), axis=0)[0]
    return float(1 - 6 * (difference**2).sum() / (n * (n**2 - 1)))


@dataclass(frozen=True, slots=True)
class RankShifts:
    """Rank correlations under exchanged ranks, and with a map that is half of the other."""

    few_large: tuple[
        float, float
    ]  # Spearman, tau-b: one cell in 16 changes places with one far away
    many_small: tuple[float, float]  # all cells change places near by; as much displacement in all
    halved: tuple[float, float]  # the second map is half of the first


def rank_shifts(n: int = 256) -> RankShifts:
    """Return few large and many small exchanges with the same sum of rank differences, and a halved
    map.

    Neighbours in many small exchanges are 8 ranks apart (n / 2 exchanges), those of few large ones
    n / 2 ranks apart (8 exchanges): the sum of |d| is 8 n in both.
    """
    ranks = np.arange(n, dtype=np.float64)
    small = ranks.reshape(-1, 2, 8)[:, ::-1].ravel()
    large, cells = ranks.copy(), np.arange(0, n // 2, 16)
    large[cells], large[cells + n // 2] = cells + n // 2, cells

    def both(other: F64) -> tuple[float, float]:
        pair = np.stack([ranks, other]) / n
        return float(pairwise.spearman(pair)[0]), float(pairwise.kendall(pair)[0][0])

    return RankShifts(both(large), both(small), both(ranks / 2))


@dataclass(frozen=True, slots=True)
class SoftMaximum:
    """The largest distance of LSE-r from the mean and its mean distance from the maximum, over
    simulated maps.
    """

    r: float
    from_mean: float
    from_max: float


def soft_maximum(r: float, seed: int, n: int = 400) -> SoftMaximum:
    """Return the distances of LSE-r, (1/r) log mean exp(r p), over maps with few, some and many
    high values.
    """
    random = stream(seed, "pooling")
    first, second = random.uniform(0.1, 3.0, (2, n, 1))
    maps = random.beta(first, second, (n, 256))
    soft = pooling.log_mean_exp(maps, r)
    from_mean, from_max = np.abs(soft - pooling.mean(maps)), np.abs(soft - pooling.maximum(maps))
    return SoftMaximum(r, float(from_mean.max()), float(from_max.mean()))


@dataclass(frozen=True, slots=True)
class Network:
    """Scores of the networks of one data set and operator, printed by the paper or computed from
    maps; NaN where a score is missing.
    """

    apj: float
    spearman: float
    auc: float
    dice: float


@dataclass(frozen=True)
class NetworkTable:
    """Scores of networks by setting and operator: those of table VII, of a run or as printed."""

    rows: Mapping[Key, Network]
    text: str  # for the start of a sentence: "In this run"

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings, in order."""
        return tuple(dict.fromkeys(setting for setting, _ in self.rows))

    def column(self, name: str, setting: str | None = None) -> dict[Key, float]:
        """Return one score of all networks that have it, of one setting or of all."""
        values = {}
        for key, network in self.rows.items():
            value = getattr(network, name)
            if setting in (None, key[0]) and not np.isnan(value):
                values[key] = value
        return values


@dataclass(frozen=True)
class StabilityRun:
    """The numbers of a run."""

    counting: Counting
    ties: Ties
    rank_shifts: RankShifts
    soft: tuple[SoftMaximum, ...]
    families: Mapping[str, StabilityResult]  # of `PAIR`
    cells: Mapping[Key, StabilityResult]
    bags: Mapping[Key, Bags]  # of the cells
    areas: Mapping[Key, F64]  # (models,) bag AUC; no entry without labels of two kinds
    archive: NetworkArchive | None  # of our networks
    maps: NetworkMaps | None  # that the user brings

    @property
    def has_maps(self) -> bool:
        """Whether the cells are maps that the user brings, not those of our networks."""
        return self.maps is not None

    @property
    def cells_text(self) -> str:
        """The kind of the cells, for sentences."""
        return "the given maps" if self.has_maps else "the trained networks"

    @cached_property
    def networks(self) -> NetworkTable:
        """The networks of this run."""
        rows = {}
        for key, cell in self.cells.items():
            auc = dice = np.nan
            if key in self.areas:
                auc = float(np.mean(self.areas[key]))
            if cell.localized.has("DICE"):
                dice = cell.localized.mean("DICE")
            rows[key] = Network(cell["APJ"].value, cell["Spearman"].value, auc, dice)
        return NetworkTable(rows, "In the given maps" if self.has_maps else "In this run")

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings, in order."""
        return tuple(dict.fromkeys(setting for setting, _ in self.cells))

    def first_key(self, setting: str) -> Key:
        """Return NOR of a setting, the operator of the paper's baseline, or its first one."""
        if (setting, NOR) in self.cells:
            return setting, NOR
        return next(key for key in self.cells if key[0] == setting)

    def bag_set(self, setting: str) -> BagSet | None:
        """Return what is known about the test bags of a setting of our networks."""
        if self.archive is None:
            return None
        return self.archive.bags[setting.partition(",")[0]]


def printed_networks() -> NetworkTable:
    """Return the networks of the printed table VII."""
    rows = {}
    for key, row in TABLE_VII.items():
        rows[key] = Network(row.apj[0], row.spearman[0], row.auc[0], row.dice[0])
    return NetworkTable(rows, "In the printed table VII")


def prepare_all(options: StudyOptions, progress: Progress) -> StepSet[StabilityRun]:
    """Return a step for both simulated families and for every cell of table VII; they make the run,
    with all other numbers.
    """
    replicates = QUICK_REPLICATES if options.quick else REPLICATES
    n, seed = QUICK_PAIR_BAGS if options.quick else PAIR_BAGS, options.seed
    maps = archive = None
    if options.data is not None and not options.train:
        maps = read_maps(options.data)
        sources: dict[Key, Bags] = dict(maps.bags)
    else:
        archive = _archive(options, progress)
        sources = _trained_bags(archive)
    families: dict[Hashable, StudyStep] = {}
    for name in PAIR:
        families[name] = StudyStep("families", family, (name, 2 * n, replicates, seed), 0.4)
    cells: dict[Hashable, StudyStep] = {}
    for key, bags in sources.items():
        arguments = (bags, replicates, seed)
        cells[key] = StudyStep(key[0], bag_scores, arguments, 0.0005 * len(bags))

    def compose(parts: Mapping[str, Any]) -> StabilityRun:
        return StabilityRun(
            counting=Counting(QUICK_MOST if options.quick else MOST),
            ties=ties(seed),
            rank_shifts=rank_shifts(),
            soft=tuple(soft_maximum(r, seed) for r in HARDNESS),
            families=parts["families"],
            cells=parts["cells"],
            bags=sources,
            areas=_areas(parts["cells"], archive),
            archive=archive,
            maps=maps,
        )

    sets = {"families": StepSet.of(families, dict), "cells": StepSet.of(cells, dict)}
    return StepSet.join(sets, compose)


def family(name: str, n: int, replicates: int, seed: int) -> StabilityResult:
    """Return the scores of a simulated family of trainings."""
    return bag_scores(demo_bags(name, n, seed=seed), replicates, seed)


def bag_scores(bags: Bags, replicates: int, seed: int) -> StabilityResult:
    """Return the scores of trainings on bags."""
    return stability(bags, replicates=replicates, seed=seed)


def _archive(options: StudyOptions, progress: Progress) -> NetworkArchive:
    """Return the maps of networks: trained now, kept from an earlier run, or those that ship."""
    if not options.train:
        return shipped_archive() if options.keep is None else read_archive(Path(options.keep))
    settings = replace(QUICK if options.quick else NetworkSettings(), seed=options.seed)
    if options.data is None and not options.quick:
        # Without idx files there are the digits of scikit-learn, and chests, which are drawn.
        settings = replace(settings, data_sets=(DIGITS, CHESTS))
    command = ["calipers", "study", "stability", "--train", "--seed", str(options.seed)]
    if options.data is not None:
        command += ["--data", "IDX"]
    if options.quick:
        command.append("--quick")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary if options.keep is None else options.keep)
        train_networks(settings, folder, options.data, progress)
        write_archive(folder, folder / ARCHIVE, command)
        return read_archive(folder)


def _trained_bags(archive: NetworkArchive) -> dict[Key, Bags]:
    sources: dict[Key, Bags] = {}
    for data, supervision, operator in archive.maps:
        key = (setting_name(data, supervision), operator)
        sources[key] = archive.array_bags((data, supervision, operator))
    return sources


def _areas(cells: Mapping[Key, StabilityResult], archive: NetworkArchive | None) -> dict[Key, F64]:
    """Return the bag AUC of the models of every cell that has one."""
    areas: dict[Key, F64] = {}
    if archive is not None:
        for data, supervision, operator in archive.maps:
            key = (setting_name(data, supervision), operator)
            areas[key] = archive.areas((data, supervision, operator))
        return areas
    for key, cell in cells.items():
        if cell.localized.has("AUC"):
            areas[key] = cell.localized.of_models("AUC")
    return areas


def column_correlation(one: F64, other: F64, method: str = "pearson") -> float:
    """Return the correlation of two columns over the rows in which both are defined."""
    return correlation(np.asarray(one, np.float64), np.asarray(other, np.float64), method)


def mean_and_sd(values: F64) -> tuple[float, float]:
    """Return mean and standard deviation (ddof 0) of what is defined; NaN if nothing is."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return float("nan"), float("nan")
    return float(defined.mean()), float(defined.std())


def values_text(values: Mapping[str, float], digits: int = 2) -> str:
    """Return "X-Ray 0.42, MURA 0.29"."""
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())
