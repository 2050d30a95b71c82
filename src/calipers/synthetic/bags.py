# SPDX-License-Identifier: Apache-2.0
"""Synthetic families of models: the same images under several trainings that may agree.

`demo_bags` returns a source of bags (`DemoBags`) that `calipers.stability` reads, `write_bags`
writes it as the folders that `calipers stability` reads. Lesions, patients and scores of whole bags
are the same in all families; only where the maps point differs. Every number comes from a random
stream named after what it is for, so that bag ``i`` does not depend on the others.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.arrays import F64, Column, Flags
from calipers.data.bags import Bag
from calipers.errors import UsageError, did_you_mean
from calipers.io.tables.table import delimited
from calipers.results.files import write_atomically
from calipers.synthetic.demo import stream
from calipers.synthetic.volumes import disc

# What the trainings of a family share: the lesion, one wrong place, or nothing.
FAMILIES = ("stable-good", "stable-wrong", "unstable")
CELL = 32  # pixels of the image for each instance of its map, along every axis
VISITS = 2  # bags per patient
CENTRES = ("North", "Harbour", "Valley")
RADIUS = (0.12, 0.22)  # of the lesion, as a share of the shortest side of the map
ATTEMPTS = 200  # places that are tried for a disc apart from the lesion
JITTER = 0.1  # deviation of the places of models that agree, in radii
SEPARATION = 2.0  # between the scores of positive and negative bags, in their deviations
Write = Callable[[Path, NDArray[Any], Sequence[float] | None], None]


def demo_bags(
    kind: str = "stable-good",
    n_bags: int = 40,
    n_models: int = 5,
    shape: Sequence[int] = (16, 16),
    seed: int = 0,
    *,
    noise: float = 0.5,
    sharpness: float = 6.0,
    share_positive: float = 0.5,
) -> DemoBags:
    """Return the maps of a family of models, trained alike, on the same images.

    Parameters
    ----------
    kind
        ``"stable-good"``: all models mark the lesion. ``"stable-wrong"``: all mark the same place,
        and it is not the lesion. ``"unstable"``: every model marks a place of its own.
    shape
        Of a map: one, two or three axes, ``[z, ]y, x``.
    noise
        Standard deviation of normal noise on the logit of every instance, drawn for every model.
    sharpness
        Logit at the centre of what a model marks; it falls to 0 at the rim, and goes on falling
        outside.
    share_positive
        Of the patients that have a lesion; in the others no model marks anything.

    Notes
    -----
    The same seed gives the same lesions, patients and scores of bags in all families, so they
    differ in where the maps point and in nothing else: scores of whole bags are equally good.

    Examples
    --------
    >>> from calipers.synthetic.bags import demo_bags
    >>> bags = demo_bags("unstable", n_bags=4, n_models=3)
    >>> bags.models, bags[1].values.shape, int(bags.positive.sum())
    (('run-1', 'run-2', 'run-3'), (3, 256), 2)
    """
    if kind not in FAMILIES:
        raise UsageError(f"no family {kind!r} of models; {did_you_mean(kind, FAMILIES)}")
    if n_bags < 1 or n_models < 1 or len(shape) not in (1, 2, 3) or min(shape) < 2:
        raise UsageError(
            "demo_bags makes at least 1 bag of at least 1 model, "
            "with 1 to 3 axes of at least 2 instances"
        )
    if noise < 0 or sharpness <= 0 or not 0 <= share_positive <= 1:
        raise UsageError(
            "noise is not negative, sharpness above 0, and the share of positive bags in [0, 1]"
        )
    sides = tuple(int(n) for n in shape)
    return DemoBags(
        kind, n_bags, n_models, sides, seed, float(noise), float(sharpness), float(share_positive)
    )


@dataclass(frozen=True)
class DemoBags:
    """Bags that are drawn when they are asked for; `demo_bags` makes it.

    It is a source of bags (`calipers.data.bags.Bags`). Bag ``i`` depends on the seed and on ``i``
    alone.
    """

    kind: str
    n_bags: int
    n_models: int
    shape: tuple[int, ...]
    seed: int
    noise: float
    sharpness: float
    share_positive: float
    notes: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The trainings."""
        return tuple(f"run-{k + 1}" for k in range(self.n_models))

    @property
    def ids(self) -> tuple[str, ...]:
        """The bags."""
        return tuple(f"B{i + 1:03d}" for i in range(self.n_bags))

    @cached_property
    def positive(self) -> Flags:
        """(n_bags,) patients with a lesion are spread evenly; all bags of a patient are alike."""
        patient = np.arange(self.n_bags) // VISITS
        return np.asarray(
            np.floor((patient + 1) * self.share_positive) > np.floor(patient * self.share_positive)
        )

    @cached_property
    def groups(self) -> dict[str, Column]:
        """Patients with two bags each, from three centres."""
        patients = [i // VISITS for i in range(self.n_bags)]
        return {
            "patient": np.array([f"P{k + 1:03d}" for k in patients]),
            "centre": np.array([CENTRES[k % len(CENTRES)] for k in patients]),
        }

    @cached_property
    def bag_scores(self) -> F64:
        """(n_models, n_bags) in (0, 1): equally good in all families, wherever their maps point."""
        # Drawn bag by bag from streams that do not know the family, so all families get the same.
        draws = np.stack(
            [self._stream(i, "score").standard_normal(self.n_models) for i in range(self.n_bags)],
            axis=1,
        )
        return np.asarray(_sigmoid(draws + SEPARATION * (self.positive - 0.5)))

    @property
    def boxes(self) -> dict[str, F64]:
        """Bag -> (n, 4) box around its lesion in pixels of its image; (0, 4) if it has none.

        Only maps of two axes have boxes.
        """
        if len(self.shape) != 2:
            return {}
        return {bag: self._boxes(i) for i, bag in enumerate(self.ids)}

    @property
    def sizes(self) -> dict[str, tuple[float, float]]:
        """Bag -> width and height of its image."""
        size = float(self.shape[-1] * CELL), float(self.shape[0] * CELL)
        return dict.fromkeys(self.ids, size) if len(self.shape) == 2 else {}

    def __len__(self) -> int:
        """Return the number of bags."""
        return self.n_bags

    def __getitem__(self, i: int) -> Bag:
        """Draw one bag."""
        # Negative indices and IndexError as for a list.
        i = range(self.n_bags)[i]
        centre, radius = self._lesion(i)
        values = np.stack([self._map(i, k, centre, radius).ravel() for k in range(self.n_models)])
        inside = np.zeros(self.shape, np.bool_)
        if self.positive[i]:
            inside = self._inside(centre, radius)
        return Bag(self.ids[i], values, self.shape, inside.ravel())

    def lesion(self, i: int) -> tuple[tuple[float, ...], float] | None:
        """Return centre (in instances, the last axis first) and radius of the lesion of a bag; None
        if it has none.
        """
        centre, radius = self._lesion(range(self.n_bags)[i])
        return (tuple(centre.tolist()), radius) if self.positive[i] else None

    def _stream(self, i: int, *names: str) -> Generator:
        return stream(self.seed, "bags", str(i), *names)

    @property
    def _sides(self) -> F64:
        return np.array(self.shape[::-1], np.float64)

    def _lesion(self, i: int) -> tuple[F64, float]:
        random = self._stream(i, "lesion")
        radius = max(0.75, float(random.uniform(*RADIUS)) * min(self.shape))
        return self._place(random, radius), radius

    def _place(self, random: Generator, radius: float) -> F64:
        """Return the centre of a disc that lies inside the map, if it can."""
        # In a map smaller than the disc the centre stays in the middle.
        edge = np.minimum(radius, self._sides / 2)
        return np.asarray(random.uniform(edge, self._sides - edge))

    def _elsewhere(self, random: Generator, lesion: F64, radius: float) -> F64:
        """Return a place whose disc does not meet the lesion, else the farthest of those tried."""
        places = [self._place(random, radius) for _ in range(ATTEMPTS)]
        distances = [math.dist(place, lesion) for place in places]
        for place, distance in zip(places, distances):
            if distance > 2 * radius + 1:
                return place
        return places[int(np.argmax(distances))]

    def _map(self, i: int, k: int, lesion: F64, radius: float) -> F64:
        """Return the map of model ``k`` on bag ``i``."""
        random = self._stream(i, "model", str(k))
        if self.kind == "unstable":
            place = self._place(random, radius)
        else:
            shared = lesion
            # The decoy has a stream of its own: all models of the family see the same one.
            if self.kind == "stable-wrong":
                shared = self._elsewhere(self._stream(i, "decoy"), lesion, radius)
            place = shared + JITTER * radius * random.standard_normal(len(self.shape))
        inside = (
            # A negative bag is as low everywhere as the place one radius beyond a rim.
            1.0 - self._distance(place) / radius if self.positive[i] else np.full(self.shape, -1.0)
        )
        return _sigmoid(self.sharpness * inside + self.noise * random.standard_normal(self.shape))

    def _distance(self, centre: F64) -> F64:
        """Return how far the centre of every instance is from a place."""
        axes = [np.arange(n) + 0.5 - middle for n, middle in zip(self.shape, centre[::-1])]
        return np.asarray(
            np.sqrt(sum(axis**2 for axis in np.meshgrid(*axes, indexing="ij", sparse=True)))
        )

    def _inside(self, centre: F64, radius: float) -> Flags:
        if len(self.shape) == 1:
            return self._distance(centre) <= radius
        return disc(self.shape, centre.tolist(), radius)

    def _boxes(self, i: int) -> F64:
        centre, radius = self._lesion(i)
        if not self.positive[i]:
            return np.empty((0, 4))
        corners = np.concatenate(
            [np.maximum(centre - radius, 0), np.minimum(centre + radius, self._sides)]
        )
        return corners[None] * CELL


def write_bags(folder: Path | str, bags: DemoBags, write: Write | None = None) -> int:
    """Write a folder per model with a file per bag, the folder ``masks``, ``labels.csv`` and
    ``scores.csv``.

    Parameters
    ----------
    write
        Called with the path without suffix, the array and None; None writes npz files that hold
        ``arr``.

    Returns
    -------
    n
        How many bags were written. ``labels.csv`` has a row for each: label, patient, centre, and,
        for maps of two axes, the box of its lesion and the size of its image; ``scores.csv`` has a
        column per model.
    """
    root, write = Path(folder), write or _write_npz
    for part in ("masks", *bags.models):
        (root / part).mkdir(parents=True, exist_ok=True)
    for i in range(len(bags)):
        bag = bags[i]
        for model, values in zip(bags.models, bag.values):
            write(root / model / bag.id, values.reshape(bag.shape).astype(np.float32), None)
        inside = np.zeros(bag.shape, np.uint8)
        if bag.instances is not None:
            inside = bag.instances.reshape(bag.shape).astype(np.uint8)
        write(root / "masks" / bag.id, inside, None)
    columns: dict[str, list[Any]] = {
        "bag": list(bags.ids),
        "label": bags.positive.astype(int).tolist(),
    }
    columns |= {name: column.tolist() for name, column in bags.groups.items()}
    write_atomically(root / "labels.csv", delimited({**columns, **_box_columns(bags)}))
    scores = {model: row.tolist() for model, row in zip(bags.models, bags.bag_scores)}
    write_atomically(root / "scores.csv", delimited({"bag": list(bags.ids), **scores}))
    return len(bags)


def _box_columns(bags: DemoBags) -> dict[str, list[Any]]:
    """Return the first box of every bag, with empty cells where there is none, and sizes."""
    columns: dict[str, list[Any]] = {}
    for boxes in bags.boxes.values():
        corners = boxes[0].tolist() if len(boxes) else [None] * 4
        for name, value in zip(("x0", "y0", "x1", "y1"), corners):
            columns.setdefault(name, []).append(value)
    if columns:
        widths, heights = zip(*bags.sizes.values())
        columns |= {"width": list(widths), "height": list(heights)}
    return columns


def _write_npz(path: Path, array: NDArray[Any], spacing: Sequence[float] | None) -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, arr=array)
    write_atomically(path.with_name(path.name + ".npz"), packed.getvalue())


def _sigmoid(logits: F64) -> F64:
    # Only negative exponents: exp never overflows.
    small = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1 / (1 + small), small / (1 + small)))
