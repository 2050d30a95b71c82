# SPDX-License-Identifier: Apache-2.0
"""Bags: images on which several models, trained alike, score the same instances.

`Bags` is what `calipers.stability` reads, one bag at a time; readers of folders implement it, and
`ArrayBags` holds bags in memory, made of arrays and checked once. The checks raise errors that name
the model, the bag and the place of the first fault; readers use them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_methods
from calipers.arrays import F64, UNEQUAL, Column, Flags, host_array
from calipers.data.group_columns import group_column
from calipers.errors import InputError, UsageError, several, shown

# Stability is agreement: there is none of one model.
FEWEST_MODELS = 2
# Hints of errors.
ANOTHER = "stability compares models that were trained alike: give the maps of a second model"
PROBABILITIES = "give probabilities, such as the sigmoid of logits, or binary maps"

Maps = tuple[NDArray[Any], ...]  # one (n_models, ...instances...) array per bag


@dataclass(frozen=True, slots=True, eq=False)
class Bag:
    """One image under all models."""

    id: str
    values: F64  # (n_models, n_instances), in [0, 1]
    shape: tuple[int, ...]  # of the map: (n,), (rows, columns) or (slices, rows, columns)
    # (n_instances,) which are positive in the reference; None: not annotated
    instances: Flags | None = None


class Bags(Protocol):
    """A source of bags, read one at a time: a folder of volumes need not fit into memory."""

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, at least two."""
        ...

    @property
    def ids(self) -> tuple[str, ...]:
        """One name per bag."""
        ...

    @property
    def groups(self) -> Mapping[str, Column]:
        """Columns such as patient or centre, one entry per bag."""
        ...

    @property
    def positive(self) -> Flags | None:
        """(n_bags,) which bags have something to find; None if there are no labels."""
        ...

    @property
    def bag_scores(self) -> F64 | None:
        """(n_models, n_bags) the score of every model for the whole bag; None if not given."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """How the input was interpreted and what was left out, in words."""
        ...

    def __len__(self) -> int:
        """Return the number of bags."""
        ...

    def __getitem__(self, i: int) -> Bag:
        """Return one bag; it may be read from disk now."""
        ...


@names_methods
@dataclass(frozen=True, eq=False)
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
            # Only if every bag is annotated: one without annotation could be either.
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
        # Made on demand: float64 of one bag at a time, whatever the type of the maps.
        return Bag(
            self.ids[i],
            flat,
            tuple(values.shape[1:]),
            self.instances[i] if self.instances else None,
        )

    def alone(self, i: int) -> ArrayBags:
        """Return bag i as the only one, for a worker that gets nothing else."""
        instances = self.instances[i : i + 1]
        return ArrayBags(
            self.models, self.ids[i : i + 1], self.maps[i : i + 1], instances=instances
        )


@names_methods
@dataclass(frozen=True, eq=False)
class SomeBags:
    """Some bags of a source, in its order; whatever else the source has is passed on."""

    source: Any  # Bags
    places: NDArray[np.int64]

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the source."""
        return tuple(self.source.models)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of these bags."""
        return tuple(self.source.ids[i] for i in self.places.tolist())

    @property
    def groups(self) -> Mapping[str, Column]:
        """The columns of these bags."""
        columns = self.source.groups.items()
        return {name: np.asarray(column)[self.places] for name, column in columns}

    @property
    def positive(self) -> Flags | None:
        """Which of these bags have something to find."""
        positive = self.source.positive
        return None if positive is None else np.asarray(positive, np.bool_)[self.places]

    @property
    def bag_scores(self) -> F64 | None:
        """The scores of these bags."""
        scores = self.source.bag_scores
        return None if scores is None else np.asarray(scores, np.float64)[:, self.places]

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the source."""
        return tuple(self.source.notes)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: int) -> Bag:
        bag: Bag = self.source[int(self.places[i])]
        return bag

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copies and pickles ask before there is a source
            raise AttributeError(name)
        return getattr(self.source, name)


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
        if missing:
            difference = f"no bag {missing[0]!r}"
        else:
            difference = f"a bag {extra[0]!r} that {first!r} does not have"
        hint = "give every model the same bags"
        raise refuse(f"the bags of {first!r}", "bags-differ", f"model {name!r}", difference, hint)
    # The same bags in another order are refused too: scores and labels come by place.
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


def check_models(
    names_of_maps: tuple[str, ...] | None,
    names_of_user: Sequence[str] | None,
    maps: Sequence[NDArray[Any]],
) -> tuple[str, ...]:
    """Return the names of the models, after checking that every bag has a map of each."""
    names = names_of_maps
    if names_of_user is not None:
        names_of_user = several("models", names_of_user)
        if names is None:
            names = tuple(str(name) for name in names_of_user)
        elif tuple(names_of_user) != names:
            expected = f"the models of the maps, {', '.join(names)}"
            raise refuse(expected, "bags-differ", "models", names_of_user)
    if names_of_maps is not None and len(names_of_maps) < FEWEST_MODELS:
        raise refuse("two or more models", "one-model", "maps", len(names_of_maps), ANOTHER)
    if len(maps) == 0:
        raise refuse("at least one bag", "no-bags", "maps", None)
    # The first bag has the number of models; one that is no array of them is named below.
    number = len(maps[0]) if maps[0].ndim else 0
    for i, values in enumerate(maps):
        if values.ndim < 2:
            raise refuse("an array (models, instances)", "shape-mismatch", f"bag {i}", values.shape)
        if len(values) != number:
            raise refuse(f"{number} models as in bag 0", "bags-differ", f"bag {i}", len(values))
    if number < FEWEST_MODELS:
        raise refuse("two or more models", "one-model", "maps", number, ANOTHER)
    if not names:
        names = tuple(f"model {k + 1}" for k in range(number))
    if len(names) != number or len(set(names)) != number:
        raise refuse(f"{number} different names of models", "bags-differ", "models", list(names))
    return names


def check_bag(values: NDArray[Any], bag_id: str, models: tuple[str, ...]) -> None:
    """Raise unless the maps (n_models, ...) of a bag hold instances with values in [0, 1]."""
    if values.size == 0:
        raise refuse(
            "at least one instance",
            "no-bags",
            f"bag {bag_id!r}",
            values.shape[1:],
            "leave empty bags out",
        )
    # Two passes for the good case; the place of a fault is looked for only if there is one.
    low, high = values.min(), values.max()
    if low >= 0 and high <= 1:  # false for NaN
        return
    finite = np.isfinite(values)
    wrong = ~finite if not finite.all() else (values < 0) | (values > 1)
    first = np.unravel_index(int(np.argmax(wrong)), values.shape)
    place = ", ".join(str(int(at)) for at in first[1:])
    where = f"model {models[int(first[0])]!r}, bag {bag_id!r}, instance ({place})"
    value, n = values[first].item(), int(wrong.sum())
    if not finite.all():
        raise refuse(
            "finite numbers", "non-finite", where, value, f"{n} of {values.size} values of this bag"
        )
    raise refuse("values in [0, 1]", "score-range", where, value, PROBABILITIES)


def checked_ids(ids_of_user: Sequence[Any] | None, n_bags: int) -> tuple[str, ...]:
    """Return one id per bag: as given, else its number."""
    if ids_of_user is None:
        return tuple(str(i) for i in range(n_bags))
    ids = tuple(str(entry) for entry in several("ids", ids_of_user))
    if len(ids) != n_bags:
        raise refuse(f"{n_bags} ids, one per bag", "bags-differ", "ids", len(ids))
    earlier_ids: set[str] = set()
    for i, entry in enumerate(ids):
        if entry in earlier_ids:
            raise refuse("every id once", "bags-differ", f"ids[{i}]", entry)
        earlier_ids.add(entry)
    return ids


def checked_flags(
    values: Any, ids: tuple[str, ...], instances: tuple[Flags | None, ...]
) -> Flags | None:
    """Return which bags are positive; None if nobody said."""
    if values is None:
        return None
    labels = numbers(values, "labels")
    if labels.shape != (len(ids),):
        raise refuse(f"{len(ids)} labels, one per bag", "labels-differ", "labels", labels.shape)
    odd = (labels != 0) & (labels != 1)
    if odd.any():
        i = int(np.argmax(odd))
        raise refuse(
            "a label of 0 or 1", "labels-differ", f"labels[{i}], bag {ids[i]!r}", labels[i].item()
        )
    positive = labels.astype(np.bool_)
    # A contradiction, and mostly two files in the wrong order.
    for i, marked in enumerate(instances):
        if marked is not None and marked.any() and not positive[i]:
            hint = "a bag with a positive instance is positive"
            message = f"{int(marked.sum())} positive instances in a bag that is labelled 0"
            raise refuse(
                "labels that fit the instances", "labels-differ", f"bag {ids[i]!r}", message, hint
            )
    return positive


def checked_instances(
    entries_of_bags: Any, ids: tuple[str, ...], shapes: Sequence[tuple[int, ...]]
) -> tuple[Flags | None, ...]:
    """Return the flat reference or None of every bag; an empty tuple if no bag has one."""
    if entries_of_bags is None:
        return ()
    # By id the order does not matter, and bags may be left out: they are not annotated.
    if isinstance(entries_of_bags, Mapping):
        bag_ids = set(ids)
        unknown = [key for key in entries_of_bags if str(key) not in bag_ids]
        if unknown:
            raise refuse("ids of bags", "labels-differ", "instances", unknown[0])
        by_id = {str(key): value for key, value in entries_of_bags.items()}
        entries_of_bags = [by_id.get(entry) for entry in ids]
    entries_of_bags = several("instances", entries_of_bags)
    if len(entries_of_bags) != len(ids):
        raise refuse(
            f"{len(ids)} entries, one per bag", "labels-differ", "instances", len(entries_of_bags)
        )
    return tuple(_reference(entry, ids[i], shapes[i]) for i, entry in enumerate(entries_of_bags))


def _reference(values: Any, bag_id: str, shape: tuple[int, ...]) -> Flags | None:
    if values is None:
        return None
    array = numbers(values, f"instances of bag {bag_id!r}")
    if array.shape != shape:
        raise refuse(
            f"the shape {shape} of its maps",
            "shape-mismatch",
            f"instances of bag {bag_id!r}",
            array.shape,
        )
    if not ((array == 0) | (array == 1)).all():
        raise refuse(
            "0 or 1",
            "labels-differ",
            f"instances of bag {bag_id!r}",
            np.unique(array)[:10].tolist(),
        )
    return np.asarray(array, np.bool_).reshape(-1)


def checked_scores(values: Any, models: tuple[str, ...], ids: tuple[str, ...]) -> F64 | None:
    """Return (n_models, n_bags) finite scores; None if nobody gave any."""
    if values is None:
        return None
    scores = numbers(values, "bag_scores")
    if scores.shape != (len(models), len(ids)):
        raise refuse(
            f"an array {(len(models), len(ids))} (models, bags)",
            "bags-differ",
            "bag_scores",
            scores.shape,
        )
    wrong = ~np.isfinite(scores)
    if wrong.any():
        k, i = (int(at) for at in np.argwhere(wrong)[0])
        where = f"bag_scores, model {models[k]!r}, bag {ids[i]!r}"
        raise refuse("finite numbers", "non-finite", where, scores[k, i].item())
    return scores.astype(np.float64)


def checked_groups(groups: Mapping[str, Any] | None, n_bags: int) -> dict[str, Column]:
    """Return the columns of the bags."""
    if groups is not None and not isinstance(groups, Mapping):
        raise UsageError(
            f"groups takes columns by name, such as {{'patient': [...]}}, not {shown(groups)}"
        )
    columns = {}
    for name, column in (groups or {}).items():
        array = group_column(column, "groups", str(name))
        if array.shape != (n_bags,):
            raise refuse(
                f"{n_bags} entries, one per bag", "labels-differ", f"groups[{name!r}]", array.shape
            )
        columns[str(name)] = array
    return columns


def numbers(values: Any, where: str) -> NDArray[Any]:
    """Return an array of real numbers or flags; whole numbers and flags keep their type."""
    array = entries(values, where)
    is_number = array.dtype == np.bool_ or np.issubdtype(array.dtype, np.number)
    if not is_number or np.iscomplexobj(array):
        raise refuse(
            "numbers", "type", where, values if array.dtype == object else array.dtype.name
        )
    return array


def entries(values: Any, where: str) -> NDArray[Any]:
    """Return an array of anything; entries that are marked as unknown (masked) are refused, not
    read as numbers.
    """
    # NumPy would read what lies below a mask as if it were data.
    if np.ma.is_masked(values):
        hint = "fill them, or leave these images out"
        raise refuse("values for all entries", "type", where, "an array with masked entries", hint)
    try:
        return host_array(values, flags=True)
    except ValueError as error:
        reason = str(error)
        if reason == UNEQUAL:
            raise refuse("an array", "shape-mismatch", where, reason) from None
        raise refuse("an array of numbers", "type", where, reason) from None


def refuse(expected: str, rule: str, location: str, value: object, hint: str = "") -> InputError:
    """Return the error for a broken rule of bags."""
    return InputError(expected, rule=rule, location=location, value=value, hint=hint)
