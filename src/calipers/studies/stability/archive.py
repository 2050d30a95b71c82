# SPDX-License-Identifier: Apache-2.0
"""The archive of a run of networks: all maps in one small file that needs no PyTorch.

`write_archive` makes it of the folder that `calipers.studies.stability.networks` trained into, and
`read_archive` reads it. One archive ships with Calipers, so that the study rests on trained
networks wherever it is run; ``--keep`` shows that of another run.

Maps of the positive test bags are stored with 8 bits, in equal steps of the logit between -12 and
12 (`quantise`). A step ends at 0, so that calls at a threshold of 0.5 are those of the network,
exactly; other thresholds and ranks change a little. How much is measured when the archive is
written, against the maps with all their digits, and is part of it. Of the negative bags only the
log odds of the whole bag are stored: the AUC needs nothing else.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from calipers.agreement.raters import agreement_scores
from calipers.arrays import F32, F64, U8, Flags
from calipers.data.bags import ArrayBags
from calipers.errors import InputError
from calipers.io.source import require_file
from calipers.kernels import ranks as pairwise
from calipers.results.files import write_atomically
from calipers.studies.kept_archives import archive_arrays, kept_archive
from calipers.studies.stability.networks import (
    KNOWN,
    bags_path,
    model_path,
    read_record,
)

ARCHIVE = "networks.npz"
ARCHIVE_SCHEMA = "calipers.stability-archive/1"
CLIP, LEVELS = 12.0, 256  # of the logit
THRESHOLD = 0.5
POOR = 0.65  # a picture that fills less of the square is small, and of low quality

CellKey = tuple[str, str, str]  # data set, supervision, operator


@dataclass(frozen=True)
class BagSet:
    """The bags of a data set on which all its networks were tested."""

    ids: tuple[str, ...]  # of the positive bags
    instances: Flags  # (positive bags, grid, grid) what is to be found
    inside: Flags  # (positive bags, grid, grid) the picture, without padding
    positive: Flags  # (all bags,)

    @property
    def poor(self) -> Flags:
        """(positive bags,) pictures of low quality, which leave much of the square to padding."""
        return np.asarray(self.inside.mean(axis=(1, 2)) < POOR)


@dataclass(frozen=True)
class NetworkArchive:
    """The maps of a run of networks."""

    record: Mapping[str, Any]
    bags: Mapping[str, BagSet]  # by data set
    maps: Mapping[CellKey, F32]  # (models, positive bags, grid, grid) probabilities
    odds: Mapping[CellKey, F32]  # (models, all bags) log odds of whole bags
    source: Mapping[str, Any]  # file, bytes, sha256

    def array_bags(self, key: CellKey) -> ArrayBags:
        """Return the positive bags of a cell for `calipers.stability`."""
        bags, maps = self.bags[key[0]], self.maps[key]
        return ArrayBags.of(
            maps.astype(np.float64),
            np.ones(len(bags.ids), np.int64),
            models=[f"subset-{k + 1}" for k in range(len(maps))],
            ids=list(bags.ids),
            instances=bags.instances,
        )

    def areas(self, key: CellKey) -> F64:
        """Return (models,): the bag AUC of every network of a cell."""
        positive = self.bags[key[0]].positive
        return np.array([bag_area(odds, positive) for odds in self.odds[key]])


def setting_name(data: str, supervision: str) -> str:
    """Return how a data set with or without known instances is called in tables."""
    return f"{data}, known instances" if supervision == KNOWN else data


def bag_area(odds: F32 | F64, positive: Flags) -> float:
    """Return the area under the ROC curve of whole bags; ties count half."""
    n, ranks = int(positive.sum()), pairwise.midranks(np.asarray(odds, np.float64)[None])[0]
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(odds) - n)))


def quantise(maps: F32) -> U8:
    """Return probabilities as bytes: equal steps of the logit."""
    p = np.clip(maps.astype(np.float64), 1e-12, 1 - 1e-12)
    steps = np.floor(np.log(p / (1 - p)) / (2 * CLIP) * LEVELS) + LEVELS // 2
    return np.asarray(np.clip(steps, 0, LEVELS - 1), np.uint8)


def dequantise(levels: U8) -> F32:
    """Return the probability in the middle of every step."""
    logits = (levels.astype(np.float64) + 0.5 - LEVELS // 2) / LEVELS * 2 * CLIP
    return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


def write_archive(folder: Path, path: Path, command: Sequence[str] = ()) -> Path:
    """Write the archive of a folder of trained networks; cells that are incomplete stay out.

    Parameters
    ----------
    command
        What made the folder, for the record.
    """
    record = read_record(folder)
    settings = record["settings"]
    arrays: dict[str, Any] = {}
    hashes: dict[str, str] = {}
    incomplete, changes, seconds = [], [], 0.0
    bags: dict[str, dict[str, Any]] = {}
    for key in _cells(settings):
        data, supervision, operator = key
        paths = []
        for k in range(settings["subsets"]):
            paths.append(model_path(folder, data, supervision, operator, k))
        if not all(file.exists() for file in paths):
            incomplete.append(list(key))
            continue
        if data not in bags:
            bags[data] = _load(bags_path(folder, data))
            arrays |= _bag_arrays(data, bags[data])
        models = [_load(file) for file in paths]
        for file, model in zip(paths, models):
            hashes[file.name] = _digest(model)
            seconds += float(model["seconds"])
        maps = np.stack([model["maps"] for model in models])[:, bags[data]["positive"]]
        levels = quantise(maps)
        changes.append(_change(maps, dequantise(levels)))
        arrays["/".join((*key, "maps"))] = levels
        odds = np.stack([model["odds"] for model in models])
        arrays["/".join((*key, "odds"))] = odds.astype(np.float32)
    if not hashes:
        hint = "train into it first: calipers study stability --train --keep DIR"
        raise InputError("maps of trained networks", rule="no-bags", file=str(folder), hint=hint)
    change = np.max(changes, axis=0)
    document = {
        **record,
        "schema": ARCHIVE_SCHEMA,
        "command": list(command),
        "cpu_seconds": round(seconds, 1),
        "models": hashes,
        "incomplete": incomplete,
        "quantisation": {
            "levels": LEVELS,
            "logits": [-CLIP, CLIP],
            "largest_change_of_a_bag": {"APJ": change[0], "Spearman": change[1]},
            "largest_change_of_a_cell": {"APJ": change[2], "Spearman": change[3]},
        },
    }
    arrays["record"] = np.array(json.dumps(document))
    sink = io.BytesIO()
    np.savez_compressed(sink, **arrays)
    write_atomically(path, sink.getvalue())
    return path


def _cells(settings: Mapping[str, Any]) -> list[CellKey]:
    cells = []
    for supervision in settings["supervisions"]:
        for data in settings["data_sets"]:
            cells += [(data, supervision, operator) for operator in settings["operators"]]
    return cells


def _load(path: Path) -> dict[str, Any]:
    with np.load(require_file(path), allow_pickle=False) as content:
        return {name: content[name] for name in content.files}


def _bag_arrays(data: str, bags: Mapping[str, Any]) -> dict[str, Any]:
    positive = bags["positive"]
    return {
        f"{data}/ids": bags["ids"][positive],
        f"{data}/positive": positive,
        f"{data}/instances": bags["instances"][positive],
        f"{data}/inside": bags["inside"][positive],
    }


def _digest(model: Mapping[str, Any]) -> str:
    """Return the hash of all digits of the maps and log odds of a model."""
    content = model["maps"].astype("<f4").tobytes() + model["odds"].astype("<f8").tobytes()
    return hashlib.sha256(content).hexdigest()


def _change(exact: F32, rounded: F32) -> tuple[float, float, float, float]:
    """Return how much rounding changes APJ and Spearman: of a bag at most, and of the mean."""
    result = []
    for before, after in zip(_bag_scores(exact), _bag_scores(rounded)):
        # Rounding moves no call at 0.5, so the same bags have a score.
        defined = np.isfinite(before) & np.isfinite(after)
        change = np.abs(before - after)[defined]
        mean = abs(before[defined].mean() - after[defined].mean()) if defined.any() else 0.0
        result.append((float(change.max(initial=0.0)), float(mean)))
    (apj, apj_mean), (spearman, spearman_mean) = result
    return apj, spearman, apj_mean, spearman_mean


def _bag_scores(maps: F32) -> F64:
    """Return (2, bags): APJ and Spearman, each the mean over pairs; NaN where none is defined."""
    n_models, n_bags = maps.shape[:2]
    flat = maps.astype(np.float64).reshape(n_models, n_bags, -1)
    calls = flat >= THRESHOLD
    first, second = np.triu_indices(n_models, 1)
    scores = np.full((2, n_bags), np.nan)
    for bag in range(n_bags):
        a, b = calls[first, bag], calls[second, bag]
        counts = ((~a & ~b), (~a & b), (a & ~b), (a & b))
        sums = [part.sum(axis=1) for part in counts]
        pairs = np.atleast_1d(np.asarray(agreement_scores(*sums)["APJ"], np.float64))
        if np.isfinite(pairs).any():
            scores[0, bag] = np.nanmean(pairs)
        ranks = pairwise.spearman(flat[:, bag])
        if np.isfinite(ranks).any():
            scores[1, bag] = np.nanmean(ranks)
    return scores


def shipped_archive() -> NetworkArchive:
    """Return the archive that ships with Calipers."""
    content = resources.files("calipers.studies.stability").joinpath(ARCHIVE).read_bytes()
    return _archive(content, ARCHIVE)


def read_archive(path: Path) -> NetworkArchive:
    """Return the archive of a file, or of a folder that holds one."""
    file = path if path.is_file() else kept_archive(path, ARCHIVE, "stability")
    return _archive(file.read_bytes(), str(file))


def _archive(content: bytes, name: str) -> NetworkArchive:
    what, hint = "an archive of networks", "calipers study stability --train --keep DIR writes one"
    with archive_arrays(content, name, what, hint) as values:
        record = json.loads(str(values.pop("record")))
        if record["schema"] != ARCHIVE_SCHEMA:
            raise InputError(
                f"the schema {ARCHIVE_SCHEMA}",
                rule="npz-format",
                file=name,
                value=record["schema"],
                hint="it was written by another version: train again with --train --keep",
            )
        bags: dict[str, BagSet] = {}
        maps: dict[CellKey, F32] = {}
        odds: dict[CellKey, F32] = {}
        for data, supervision, operator in _cells(record["settings"]):
            key = (data, supervision, operator)
            if "/".join((*key, "maps")) not in values:
                continue
            maps[key] = dequantise(values["/".join((*key, "maps"))])
            odds[key] = values["/".join((*key, "odds"))]
            if data not in bags:
                columns = ("instances", "inside", "positive")
                own = {column: values[f"{data}/{column}"] for column in columns}
                bags[data] = BagSet(tuple(map(str, values[f"{data}/ids"])), **own)
    digest = hashlib.sha256(content).hexdigest()
    source = {"file": name, "bytes": len(content), "sha256": digest}
    return NetworkArchive(record, bags, maps, odds, source)
