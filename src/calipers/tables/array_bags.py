# SPDX-License-Identifier: Apache-2.0
"""Bags that are held in memory, made of arrays and checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.tables.bag_checks import (
    check_bag,
    check_models,
    checked_flags,
    checked_groups,
    checked_ids,
    checked_instances,
    checked_scores,
    numbers,
    refuse,
)
from calipers.tables.bags import F64, Bag, Column, Flags

Maps = tuple[NDArray[Any], ...]  # one (n_models, ...instances...) array per bag


@dataclass(frozen=True)
class ArrayBags:
    """Bags in memory; `ArrayBags.of` makes and checks them.

    Examples
    --------
    >>> import numpy as np
    >>> maps = {"a": [[0.1, 0.9], [0.2, 0.8, 0.7]], "b": [[0.3, 0.6], [0.1, 0.9, 0.2]]}
    >>> bags = ArrayBags.of(maps, labels=[0, 1])
    >>> len(bags), bags.models, bags[1].values.shape, bags.positive.tolist()
    (2, ('a', 'b'), (2, 3), [False, True])
    """

    models: tuple[str, ...]
    ids: tuple[str, ...]
    maps: Maps
    groups: Mapping[str, Column] = field(default_factory=dict)
    positive: Flags | None = None  # (n_bags,)
    bag_scores: F64 | None = None  # (n_models, n_bags)
    instances: tuple[Flags | None, ...] = ()  # flat, one entry per bag; empty: no bag is annotated
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        maps: Any,
        labels: Any = None,
        *,
        models: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        groups: Mapping[str, Any] | None = None,
        instances: Any = None,
        bag_scores: Any = None,
    ) -> ArrayBags:
        """Return checked bags.

        Parameters
        ----------
        maps
            An array (models, bags, ...instances...); a list with one (models, ...instances...)
            array per bag; or ``{"model": maps}``, where ``maps`` is an array (bags,
            ...instances...), a list with one map per bag, or ``{"bag": map}``. Maps without bag ids
            are paired by their place.
        labels
            (bags,) 0 or 1: whether there is something to find.
        groups
            ``{"patient": column, ...}``, one entry per bag.
        instances
            What is positive in the reference: one array of 0 and 1 per bag, of the shape of its
            maps, None where a bag is not annotated.
        bag_scores
            (models, bags): what each model says of the whole bag.
        """
        names, arrays, own_ids = _gather(maps)
        names = check_models(names, models, arrays)
        bag_ids = checked_ids(ids if ids is not None else own_ids, len(arrays))
        for bag_id, values in zip(bag_ids, arrays):
            check_bag(values, bag_id, names)
        shapes = [values.shape[1:] for values in arrays]
        flat = checked_instances(instances, bag_ids, shapes)
        notes = []
        positive = checked_flags(labels, bag_ids, flat)
        if positive is None and flat and all(marked is not None for marked in flat):
            positive = np.array([bool(marked is not None and marked.any()) for marked in flat])
            notes.append(
                "no bag labels were given: a bag counts as positive if one of its instances is"
            )
        return cls(
            models=names,
            ids=bag_ids,
            maps=arrays,
            groups=checked_groups(groups, len(arrays)),
            positive=positive,
            bag_scores=checked_scores(bag_scores, names, bag_ids),
            instances=flat,
            notes=tuple(notes),
        )

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.maps)

    def __getitem__(self, i: int) -> Bag:
        """Return one bag."""
        values = self.maps[i]
        flat = np.ascontiguousarray(values.reshape(len(values), -1), np.float64)
        return Bag(
            self.ids[i],
            flat,
            tuple(values.shape[1:]),
            self.instances[i] if self.instances else None,
        )


def _gather(maps: Any) -> tuple[tuple[str, ...] | None, Maps, tuple[str, ...] | None]:
    """Return the names of the models or None, one array per bag, and the bag ids or None."""
    if isinstance(maps, Mapping):
        return _by_model(maps)
    if isinstance(maps, list | tuple):
        return None, tuple(numbers(bag, f"maps[{i}]") for i, bag in enumerate(maps)), None
    array = numbers(maps, "maps")
    if array.ndim < 3:
        hint = (
            "give an array (models, bags, instances), "
            "or a list with one (models, instances) array per bag"
        )
        raise refuse(
            "three or more axes: models, bags, instances",
            "shape-mismatch",
            "maps",
            array.shape,
            hint,
        )
    return None, tuple(array[:, i] for i in range(array.shape[1])), None


def _by_model(maps: Mapping[Any, Any]) -> tuple[tuple[str, ...], Maps, tuple[str, ...] | None]:
    """Return the bags of ``{"model": maps}``.

    Bags are paired by their ids if all models have some, else by their place.
    """
    names = tuple(str(name) for name in maps)
    ids_of_models: list[tuple[str, ...]] = []
    columns: list[list[NDArray[Any]]] = []
    for name, model_maps in zip(names, maps.values()):
        if isinstance(model_maps, Mapping):
            ids_of_models.append(tuple(str(key) for key in model_maps))
            model_maps = list(model_maps.values())
        bags = enumerate(_bag_list(model_maps, name))
        columns.append([numbers(bag, f"model {name!r}, bag {i}") for i, bag in bags])
    if ids_of_models and len(ids_of_models) < len(names):
        raise refuse(
            "bag ids for all models or for none", "bags-differ", f"models {', '.join(names)}", None
        )
    ids = ids_of_models[0] if ids_of_models else None
    for name, keys in zip(names[1:], ids_of_models[1:]):
        _same_ids(names[0], ids_of_models[0], name, keys)
    for name, column in zip(names[1:], columns[1:]):
        _same_bags(names[0], columns[0], name, column, ids)
    return names, tuple(np.stack(bag) for bag in zip(*columns)), ids


def _bag_list(model_maps: Any, name: str) -> Any:
    if isinstance(model_maps, list | tuple):
        return model_maps
    array = numbers(model_maps, f"model {name!r}")
    if array.ndim < 2:
        raise refuse(
            "two or more axes: bags, instances", "shape-mismatch", f"model {name!r}", array.shape
        )
    return array


def _same_ids(first: str, expected: tuple[str, ...], name: str, keys: tuple[str, ...]) -> None:
    """Raise if two models have different bags, or the same bags in another order."""
    if keys == expected:
        return
    here, there = set(expected), set(keys)
    missing = [key for key in expected if key not in there]
    extra = [key for key in keys if key not in here]
    if missing or extra:
        difference = f"no bag {missing[0]!r}"
        if not missing:
            difference = f"a bag {extra[0]!r} that {first!r} does not have"
        hint = "give every model the same bags"
        raise refuse(f"the bags of {first!r}", "bags-differ", f"model {name!r}", difference, hint)
    at = next(i for i, (a, b) in enumerate(zip(expected, keys)) if a != b)
    place = f"model {name!r}, bag {at}"
    hint = "give the bags of all models in one order"
    raise refuse(f"bag {expected[at]!r} as in {first!r}", "bags-differ", place, keys[at], hint)


def _same_bags(
    first: str,
    expected: list[NDArray[Any]],
    name: str,
    column: list[NDArray[Any]],
    ids: tuple[str, ...] | None,
) -> None:
    """Raise if two models have different numbers of bags, or maps of different shapes."""
    if len(column) != len(expected):
        hint = "give every model the same bags in one order"
        raise refuse(
            f"{len(expected)} bags as {first!r} has",
            "bags-differ",
            f"model {name!r}",
            len(column),
            hint,
        )
    for i, (a, b) in enumerate(zip(expected, column)):
        if a.shape != b.shape:
            place = f"model {name!r}, bag {ids[i] if ids else i}"
            hint = "maps are not resized: bring all models to one grid"
            raise refuse(
                f"the shape {a.shape} that {first!r} has", "shape-mismatch", place, b.shape, hint
            )
