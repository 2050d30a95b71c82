# SPDX-License-Identifier: Apache-2.0
"""Checks of bags in memory; errors name the model, the bag and the place of the first fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import several, shown
from calipers.errors import InputError, UsageError
from calipers.tables.bags import F64, Column, Flags

FEWEST_MODELS = 2
ANOTHER = "stability compares models that were trained alike: give the maps of a second model"
PROBABILITIES = "give probabilities, such as the sigmoid of logits, or binary maps"


def refuse(expected: str, rule: str, location: str, value: object, hint: str = "") -> InputError:
    """Return the error for a broken rule of bags."""
    return InputError(expected, rule=rule, location=location, value=value, hint=hint)


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
    if np.ma.is_masked(values):
        hint = "fill them, or leave these images out"
        raise refuse("values for all entries", "type", where, "an array with masked entries", hint)
    try:
        return np.asarray(values)
    except ValueError:
        raise refuse("an array", "shape-mismatch", where, "rows of different lengths") from None


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
    number = len(maps[0])
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
        array = entries(column, f"groups[{name!r}]")
        if array.shape != (n_bags,):
            raise refuse(
                f"{n_bags} entries, one per bag", "labels-differ", f"groups[{name!r}]", array.shape
            )
        columns[str(name)] = array
    return columns
