# SPDX-License-Identifier: Apache-2.0
"""The archive of trained detectors: what they predicted on which references, in one small file.

`write_archive` packs a cohort into an ``.npz``: references with masks as run lengths, types,
centres and patients; boxes of every member in 1/16 of a pixel and scores in 1/65535. Rounding
happens before anything is evaluated, so that a study of the archive and one of the training that
wrote it give the same numbers. `open_archive` reads one, `shipped_archive` the one of Calipers; no
network is needed for that, nor PyTorch.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.data.masks import Masks
from calipers.results.files import write_atomically
from calipers.studies.kept_archives import archive_arrays

SCHEMA = "calipers.polyps/1"
STEP = 16  # of a pixel
TOP = 65535  # score 1
COLUMNS = ("centre", "patient", "type")


@dataclass(frozen=True)
class PolypArchive:
    """Predictions of trained detectors with their references."""

    cohort: Cohort  # one model per member: "ensemble/fold-1-light"
    facts: Mapping[str, Any]  # command, seed, models, environment
    file: str
    n_bytes: int
    sha256: str

    @property
    def members(self) -> dict[str, list[str]]:
        """Members by the ensemble that they belong to."""
        result: dict[str, list[str]] = {}
        for name in self.cohort.models:
            result.setdefault(name.split("/")[0], []).append(name)
        return result


def write_archive(
    path: Path, cohort: Cohort, facts: Mapping[str, Any], *, lowest: float, most: int
) -> PolypArchive:
    """Pack references and predictions: of every frame the best boxes, from a score on."""
    references = cohort.references
    masks = references.masks
    assert masks is not None
    arrays: dict[str, Any] = {
        "ids": np.array([name.removesuffix(".png") for name in cohort.images.ids], "S"),
        "size": cohort.images.size.astype(np.uint16),
        "offsets": references.offsets.astype(np.uint16),
        "mask_offsets": masks.offsets.astype(np.uint32),
        "mask_start": masks.start.astype(np.uint16),
        "mask_length": masks.length.astype(np.uint8),
    }
    for name in COLUMNS:
        arrays[name] = np.array([str(cell) for cell in cohort.group(name).tolist()], "S")
    for k, table in enumerate(cohort.models.values()):
        places = np.round(np.clip(table.boxes * STEP, 0, TOP)).astype(np.uint16)
        # What leaves the picture, or is thinner than a step, has no area here.
        has_area = np.asarray((places[:, 2:] > places[:, :2]).all(axis=1))
        best = np.zeros(len(table), np.bool_)
        for i in range(cohort.n_images):
            rows = np.arange(table.offsets[i], table.offsets[i + 1])
            order = rows[np.argsort(-table.score[rows], kind="stable")][:most]
            best[order] = (table.score[order] >= lowest) & has_area[order]
        arrays[f"{k}_offsets"] = table.keep(best).offsets.astype(np.uint32)
        arrays[f"{k}_boxes"] = places[best]
        arrays[f"{k}_scores"] = np.round(table.score[best] * TOP).astype(np.uint16)
    text = json.dumps({"schema": SCHEMA, "members": list(cohort.models), **facts})
    arrays["facts"] = np.frombuffer(text.encode(), np.uint8)
    write_atomically(path, _packed(arrays))
    return open_archive(path)


def _packed(arrays: Mapping[str, Any]) -> bytes:
    """Return the arrays as .npz, with equal bytes for equal content: no dates."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue(), zipfile.ZIP_DEFLATED)
    return sink.getvalue()


def shipped_archive() -> PolypArchive:
    """Return the archive of the full training that ships with Calipers."""
    file = resources.files("calipers").joinpath("studies", "polyps", "polyps.npz")
    with resources.as_file(file) as path:
        return open_archive(path)


def open_archive(path: Path) -> PolypArchive:
    """Read an archive."""
    from hashlib import sha256

    what, hint = "an archive of the study of polyps", "calipers study polyps --train --keep DIR"
    with archive_arrays(path, str(path), what, f"make one with: {hint}") as arrays:
        content = path.read_bytes()
        facts = json.loads(arrays["facts"].tobytes())
        cohort = _cohort(arrays, facts["members"])
    return PolypArchive(cohort, facts, str(path), len(content), sha256(content).hexdigest())


def _texts(cells: Any) -> list[str]:
    return [cell.decode() for cell in cells]


def _cohort(arrays: Mapping[str, Any], members: list[str]) -> Cohort:
    ids = _texts(arrays["ids"])
    columns = {name: _texts(arrays[name]) for name in COLUMNS}
    offsets = arrays["offsets"].astype(np.int64)
    sizes = arrays["size"].astype(np.int64)
    owner = np.repeat(np.arange(len(ids)), np.diff(offsets))
    masks = Masks(
        arrays["mask_offsets"].astype(np.int64),
        arrays["mask_start"].astype(np.int64),
        arrays["mask_length"].astype(np.int64),
        sizes[owner],
    )
    boxes = masks.boxes()
    references = []
    for i, name in enumerate(ids):
        rows = slice(int(offsets[i]), int(offsets[i + 1]))
        record: dict[str, Any] = {
            "image_id": name,
            "boxes": boxes[rows],
            "labels": np.zeros(rows.stop - rows.start, np.int64),
            "width": int(sizes[i, 0]),
            "height": int(sizes[i, 1]),
        }
        for column, cells in columns.items():
            record[column] = cells[i]
        if rows.stop > rows.start:
            record["masks"] = masks[rows]
        references.append(record)
    models = {}
    for k, member in enumerate(members):
        own = arrays[f"{k}_offsets"].astype(np.int64)
        places: F64 = arrays[f"{k}_boxes"].astype(np.float64) / STEP
        scores: F64 = arrays[f"{k}_scores"].astype(np.float64) / TOP
        entries = []
        for i, name in enumerate(ids):
            rows = slice(int(own[i]), int(own[i + 1]))
            labels = np.zeros(rows.stop - rows.start, np.int64)
            entries.append(
                {
                    "image_id": name,
                    "boxes": places[rows],
                    "scores": scores[rows],
                    "labels": labels,
                }
            )
        models[member] = entries
    return Cohort.from_arrays(references, models, classes=("polyp",))
