# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run; claims, figures and tables read them.

`run_all` counts tables, analyses simulated families and, if a folder is passed, maps of networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calipers.stability import StabilityResult, stability
from calipers.stability.correlation import correlation
from calipers.studies.framework import Progress, StudyOptions
from calipers.studies.stability import families
from calipers.studies.stability.counting import MOST, QUICK_MOST, Counting
from calipers.studies.stability.families import Fold
from calipers.studies.stability.given import NetworkMaps, read_maps
from calipers.studies.stability.printed import TABLE_VII
from calipers.studies.stability.ties import (
    RankShifts,
    SoftMaximum,
    Ties,
    rank_shifts,
    soft_maximum,
    ties,
)
from calipers.synthetic.bags import FAMILIES, demo_bags
from calipers.tables.bags import Bags

F64 = NDArray[np.float64]
Key = tuple[str, str]  # data set, operator

BAGS, QUICK_BAGS = 80, 30  # positive bags of a family; as many negative ones
REPLICATES, QUICK_REPLICATES = 1000, 200
HARDNESS = (0.1, 1.0, 10.0, 100.0)  # r of LSE
IDENTICAL, SCATTERED = "identical", "scattered"


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
class StabilityRun:
    """The numbers of a run."""

    counting: Counting
    ties: Ties
    rank_shifts: RankShifts
    soft: tuple[SoftMaximum, ...]
    # stable-good, stable-wrong, unstable, identical, scattered
    families: Mapping[str, StabilityResult]
    cells: Mapping[
        Key, StabilityResult
    ]  # simulated families like those of the paper, or given maps
    bags: Mapping[Key, Bags]  # of the cells
    folds: Mapping[Key, tuple[Fold, ...]]  # of simulated families
    maps: NetworkMaps | None

    @property
    def has_maps(self) -> bool:
        """Whether the cells are maps that the user passed, not simulated ones."""
        return self.maps is not None

    @property
    def cells_text(self) -> str:
        """The kind of the cells, for sentences."""
        return "the given maps" if self.has_maps else "the simulated families"

    @cached_property
    def networks(self) -> dict[Key, Network]:
        """Trained networks: those of the given maps, or those that the paper prints."""
        if self.has_maps:
            return {key: _network(cell) for key, cell in self.cells.items()}
        networks = {}
        for key, row in TABLE_VII.items():
            networks[key] = Network(row.apj[0], row.spearman[0], row.auc[0], row.dice[0])
        return networks

    @property
    def networks_text(self) -> str:
        """The source of `networks`, for the start of a sentence."""
        return "In the given maps" if self.has_maps else "In the printed table VII"

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data sets of the networks."""
        return tuple(dict.fromkeys(data for data, _ in self.networks))

    def column(self, name: str, data: str | None = None) -> dict[Key, float]:
        """Return one score of all networks that have it, of one data set or of all."""
        values = {}
        for key, network in self.networks.items():
            value = getattr(network, name)
            if data in (None, key[0]) and not np.isnan(value):
                values[key] = value
        return values


def _network(cell: StabilityResult) -> Network:
    auc = dice = np.nan
    if cell.localized.has("AUC"):
        auc = cell.localized.mean("AUC")
    if cell.localized.has("DICE"):
        dice = cell.localized.mean("DICE")
    return Network(cell["APJ"].value, cell["Spearman"].value, auc, dice)


def run_all(options: StudyOptions, progress: Progress) -> StabilityRun:
    """Compute all numbers: scores, families, and the cells of table VII."""
    n, replicates = (QUICK_BAGS, QUICK_REPLICATES) if options.quick else (BAGS, REPLICATES)
    maps = None if options.data is None else read_maps(options.data)
    # Given maps replace the simulated cells, not the families.
    keys = list(maps.bags) if maps is not None else families.cells()
    total, seed = len(FAMILIES) + 2 + len(keys), options.seed
    kinds: dict[str, StabilityResult] = {}
    for k, name in enumerate((*FAMILIES, IDENTICAL, SCATTERED)):
        progress(f"family {name}", k, total)
        kinds[name] = stability(_family(name, n, seed), replicates=replicates, seed=seed)
    sources: dict[Key, Bags] = {}
    cells: dict[Key, StabilityResult] = {}
    for k, key in enumerate(keys, start=len(kinds)):
        progress(", ".join(key), k, total)
        sources[key] = maps.bags[key] if maps is not None else families.simulate_bags(*key, n, seed)
        cells[key] = stability(sources[key], replicates=replicates, seed=seed)
    progress("scores", total, total)
    folds: dict[Key, tuple[Fold, ...]] = {}
    if maps is None:
        for key in keys:
            folds[key] = families.folds(*key, n, seed)
    return StabilityRun(
        counting=Counting(QUICK_MOST if options.quick else MOST),
        ties=ties(seed),
        rank_shifts=rank_shifts(),
        soft=tuple(soft_maximum(r, seed) for r in HARDNESS),
        families=kinds,
        cells=cells,
        bags=sources,
        folds=folds,
        maps=maps,
    )


def _family(name: str, n: int, seed: int) -> Bags:
    """Return n positive bags, and as many negative ones if the family has them."""
    if name == SCATTERED:
        return families.scattered_bags(n, seed)
    if name == IDENTICAL:
        return families.identical_bags(families.simulate_bags(*families.cells()[0], n, seed))
    return demo_bags(name, 2 * n, seed=seed)


def column_correlation(one: F64, other: F64, method: str = "pearson") -> float:
    """Return the correlation of two columns over the rows in which both are defined."""
    return correlation(np.asarray(one, np.float64), np.asarray(other, np.float64), method)


def values_text(values: Mapping[str, float], digits: int = 2) -> str:
    """Return "X-Ray 0.42, MURA 0.29"."""
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())
