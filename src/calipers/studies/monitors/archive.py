# SPDX-License-Identifier: Apache-2.0
"""What trained detectors and their monitors gave, kept so that it can be judged without PyTorch.

An archive is one npz file: for every detector the references and predictions on the test pictures,
the alarms of all monitors, and what was done to every picture; and a member ``about`` with the
command, the seeds, the versions and the hashes that belong to it. No pixels are kept.
`calipers.studies.monitors.training` makes one, and `shipped` opens the one that comes with
Calipers.

Numbers are rounded before anything is computed from them, so that a run that trains and a run that
reads its archive agree: boxes to 1/8 pixel, scores to 16 bits, alarms to 32 bits.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort
from calipers.io.source import require_file
from calipers.results.files import write_atomically
from calipers.studies.kept_archives import archive_arrays
from calipers.studies.monitors.scenes import DEFINITIONS

ARCHIVE_SCHEMA = "calipers.monitor-archive/1"
FILE = "archive.npz"
STEPS = 8  # per pixel of a box
MODEL = "detector"


@dataclass(frozen=True)
class DetectorRecord:
    """One trained detector on the test pictures, with the alarms of its monitors."""

    name: str  # "digits-1"
    data: str  # what it was trained on
    foreign: str  # the objects that no class is declared for
    seed: int
    score_cut: float  # chosen on validation pictures
    average_precision: float  # AP50 on usual test pictures
    classes: tuple[str, ...]
    side: int
    n_training: int
    shift: tuple[str, ...]
    strength: I64  # (n,)
    ood: Mapping[str, Flags]  # definition -> (n,)
    references: tuple[I64, F64, I64]  # image, boxes, labels
    predictions: tuple[I64, F64, I64, F64]  # image, boxes, labels, scores
    alarms: Mapping[str, F64]

    def __len__(self) -> int:
        return len(self.shift)

    def cohort(self, pictures: Sequence[int] | None = None) -> Cohort:
        """Return references and predictions of the test pictures, or of some of them."""
        image, boxes, labels = self.references
        predicted_image, predicted_boxes, predicted_labels, scores = self.predictions
        references, predictions = [], []
        for k in range(len(self)) if pictures is None else pictures:
            name = f"scene-{k:05d}"
            own = slice(*np.searchsorted(image, [k, k + 1]).tolist())
            entry: dict[str, Any] = {"image_id": name}
            entry |= {"boxes": boxes[own], "labels": labels[own]}
            entry |= {"width": self.side, "height": self.side, "shift": self.shift[k]}
            references.append(entry)
            own = slice(*np.searchsorted(predicted_image, [k, k + 1]).tolist())
            entry = {"image_id": name, "boxes": predicted_boxes[own]}
            entry |= {"labels": predicted_labels[own], "scores": scores[own]}
            predictions.append(entry)
        return Cohort.from_arrays(references, {MODEL: predictions}, classes=self.classes)


@dataclass(frozen=True)
class MonitorArchive:
    """All detectors of a run."""

    detectors: tuple[DetectorRecord, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path | str) -> None:
        """Write the archive; the same archive gives the same bytes."""
        arrays: dict[str, Any] = {}
        records = []
        for d, one in enumerate(self.detectors):
            kinds = sorted(set(one.shift))
            image, boxes, labels = one.references
            predicted_image, predicted_boxes, predicted_labels, scores = one.predictions
            own: dict[str, Any] = {
                "shift": np.array([kinds.index(name) for name in one.shift], np.uint8),
                "strength": one.strength.astype(np.uint8),
                "ood": np.packbits(np.stack([one.ood[name] for name in DEFINITIONS]), axis=1),
                "reference-image": image.astype(np.uint16),
                "reference-boxes": np.round(boxes * STEPS).astype(np.uint16),
                "reference-labels": labels.astype(np.uint8),
                "image": predicted_image.astype(np.uint16),
                "boxes": np.round(predicted_boxes * STEPS).astype(np.uint16),
                "labels": predicted_labels.astype(np.uint8),
                "scores": scores.astype(np.float16),
                "alarms": np.stack(list(one.alarms.values())).astype(np.float32),
            }
            arrays |= {f"{d}-{name}": values for name, values in own.items()}
            records.append(
                {
                    "name": one.name,
                    "data": one.data,
                    "foreign": one.foreign,
                    "seed": one.seed,
                    "score_cut": one.score_cut,
                    "average_precision": one.average_precision,
                    "classes": list(one.classes),
                    "side": one.side,
                    "n_training": one.n_training,
                    "shifts": kinds,
                    "monitors": list(one.alarms),
                }
            )
        document = {"schema": ARCHIVE_SCHEMA, "about": dict(self.about), "detectors": records}
        text = json.dumps(document, indent=1, allow_nan=False).encode()
        sink = io.BytesIO()
        np.savez_compressed(sink, about=np.frombuffer(text, np.uint8), **arrays)
        write_atomically(Path(path), sink.getvalue())

    @classmethod
    def read(cls, path: Path | str) -> MonitorArchive:
        """Read an archive."""
        what = "an archive of the study of monitors"
        hint = "make one: calipers study monitors --train --keep DIR"
        require_file(path)
        with archive_arrays(Path(path), str(path), what, hint) as content:
            document = json.loads(bytes(content["about"]))
            if document["schema"] != ARCHIVE_SCHEMA:
                raise ValueError("another schema")
            detectors = []
            for d, facts in enumerate(document["detectors"]):
                members = [name for name in content if name.startswith(f"{d}-")]
                arrays = {name.partition("-")[2]: content[name] for name in members}
                detectors.append(_detector(facts, arrays))
            return cls(tuple(detectors), dict(document["about"]))


def _detector(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> DetectorRecord:
    kinds = facts["shifts"]
    n = len(arrays["shift"])
    flags = np.unpackbits(arrays["ood"], axis=1, count=n).astype(np.bool_)
    alarms = arrays["alarms"].astype(np.float64)
    return DetectorRecord(
        name=facts["name"],
        data=facts["data"],
        foreign=facts["foreign"],
        seed=facts["seed"],
        score_cut=facts["score_cut"],
        average_precision=facts["average_precision"],
        classes=tuple(facts["classes"]),
        side=facts["side"],
        n_training=facts["n_training"],
        shift=tuple(kinds[k] for k in arrays["shift"].tolist()),
        strength=arrays["strength"].astype(np.int64),
        ood=dict(zip(DEFINITIONS, flags)),
        references=(
            arrays["reference-image"].astype(np.int64),
            arrays["reference-boxes"].astype(np.float64) / STEPS,
            arrays["reference-labels"].astype(np.int64),
        ),
        predictions=(
            arrays["image"].astype(np.int64),
            arrays["boxes"].astype(np.float64) / STEPS,
            arrays["labels"].astype(np.int64),
            arrays["scores"].astype(np.float64),
        ),
        alarms=dict(zip(facts["monitors"], alarms)),
    )


def rows_of(tables: Sequence[F64]) -> tuple[I64, F64]:
    """Return arrays of images, one below the other, and the image of every row."""
    image = np.repeat(np.arange(len(tables)), [len(own) for own in tables])
    return image, np.concatenate(tables)


def shipped() -> Path:
    """Return the archive that comes with Calipers."""
    folder = resources.files("calipers").joinpath("studies", "monitors", FILE)
    return Path(str(folder))
