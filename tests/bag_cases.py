"""Bags of three models on disk, and how files are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.stability.read import FileBags, read_bags

MODELS, IDS, SHAPE = ("a", "b", "c"), ("x1", "x2", "x3", "x4"), (3, 4)


def values(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """(models, bags, ...) in [0, 1]."""
    return np.random.default_rng(seed).random((len(MODELS), len(IDS), *shape))


def folders(place: Path, maps: np.ndarray, suffix: str = ".npy") -> list[Path]:
    """Write a folder per model with a file per bag."""
    from calipers.io.write_volume import write_volume

    for model, own in zip(MODELS, maps):
        (place / model).mkdir(parents=True)
        for bag, one in zip(IDS, own):
            if suffix == ".npy":
                np.save(place / model / f"{bag}.npy", one)
            else:
                write_volume(place / model / f"{bag}{suffix}", one)
    return [place / model for model in MODELS]


def archives(place: Path, maps: np.ndarray, **more: Any) -> list[Path]:
    """Write an npz per model with an array per bag."""
    for model, own in zip(MODELS, maps):
        np.savez_compressed(place / f"{model}.npz", **dict(zip(IDS, own)), **more)
    return [place / f"{model}.npz" for model in MODELS]


def long_rows(maps: np.ndarray) -> list[dict[str, Any]]:
    """A row per model, bag and cell."""
    return [
        {"model": model, "bag": bag, "row": y, "column": x, "value": float(maps[k, i, y, x])}
        for k, model in enumerate(MODELS)
        for i, bag in enumerate(IDS)
        for y in range(maps.shape[2])
        for x in range(maps.shape[3])
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as csv."""
    lines = [
        ",".join(rows[0]),
        *(",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def same(bags: FileBags, maps: np.ndarray) -> bool:
    """Return whether the bags are those that were written, to the last bit."""
    as_written = [
        bag.shape == maps.shape[2:]
        and bag.values.dtype == np.float64
        and np.array_equal(bag.values, maps[:, i].reshape(len(maps), -1))
        for i, bag in enumerate(bags[k] for k in range(len(bags)))
    ]
    return bags.models == MODELS and len(bags) == maps.shape[1] and all(as_written)


def refused(*arguments: Any, read: bool = False, **options: Any) -> InputError:
    """Return the error with which bags are refused: when they are opened, or when they are
    ``read``.
    """
    if not read:
        with pytest.raises(InputError) as caught:
            read_bags(*arguments, **options)
        return caught.value
    bags = read_bags(*arguments, **options)
    with pytest.raises(InputError) as caught:
        [bags[i] for i in range(len(bags))]
    return caught.value
