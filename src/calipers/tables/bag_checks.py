# SPDX-License-Identifier: Apache-2.0
"""What bags must be: checks that name the model, the bag and the place of the first difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import several, shown
from calipers.errors import InputError, UsageError
from calipers.tables.bags import F64, Column, Flags

FEWEST_MODELS = 2
ANOTHER = "stability compares models that were trained alike: give the maps of another one"
PROBABILITIES = "give probabilities, such as the sigmoid of logits, or binary maps"


def refuse(expected: str, rule: str, location: str, value: object, hint: str = "") -> InputError:
    """Return the error for a broken rule of bags."""
    return InputError(expected, rule=rule, location=location, value=value, hint=hint)


def numbers(given: Any, where: str) -> NDArray[Any]:
    """Return an array of real numbers or flags; whole numbers and flags stay what they are."""
    array = entries(given, where)
    if not (array.dtype == np.bool_ or np.issubdtype(array.dtype, np.number)) or np.iscomplexobj(
        array
    ):
        raise refuse("numbers", "type", where, array.dtype.name if array.dtype != object else given)
    return array


def entries(given: Any, where: str) -> NDArray[Any]:
    """Return an array of anything; entries that are marked as unknown (masked) are refused, not
    read as numbers.
    """
    if np.ma.is_masked(given):
        hint = "fill them, or leave these images out"
        raise refuse("values for all entries", "type", where, "an array with masked entries", hint)
    try:
        return np.asarray(given)
    except ValueError:
        raise refuse("an array", "shape-mismatch", where, "rows of different lengths") from None


def check_models(
    own: tuple[str, ...] | None, given: Sequence[str] | None, maps: Sequence[NDArray[Any]]
) -> tuple[str, ...]:
    """Return the names of the models, after a look at how many maps every bag has."""
    given = None if given is None else several("models", given)
    if own is not None and given is not None and tuple(given) != own:
        raise refuse(f"the models of the maps, {', '.join(own)}", "bags-differ", "models", given)
    if own is not None and len(own) < FEWEST_MODELS:
        raise refuse("two or more models", "one-model", "maps", len(own), ANOTHER)
    if len(maps) == 0:
        raise refuse("at least one bag", "no-bags", "maps", None)
    for i, values in enumerate(maps):
        if values.ndim < 2:
            raise refuse("an array (models, instances)", "shape-mismatch", f"bag {i}", values.shape)
        if len(values) != len(maps[0]):
            raise refuse(
                f"{len(maps[0])} models as in bag 0", "bags-differ", f"bag {i}", len(values)
            )
    number = len(maps[0])
    if number < FEWEST_MODELS:
        raise refuse("two or more models", "one-model", "maps", number, ANOTHER)
    names = own or (tuple(str(name) for name in given) if given is not None else None)
    names = names or tuple(f"model {k + 1}" for k in range(number))
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


def checked_ids(given: Sequence[Any] | None, n_bags: int) -> tuple[str, ...]:
    """Return one id per bag: as given, else its number."""
    if given is None:
        return tuple(str(i) for i in range(n_bags))
    ids = tuple(str(entry) for entry in several("ids", given))
    if len(ids) != n_bags:
        raise refuse(f"{n_bags} ids, one per bag", "bags-differ", "ids", len(ids))
    seen: set[str] = set()
    for i, entry in enumerate(ids):
        if entry in seen:
            raise refuse("every id once", "bags-differ", f"ids[{i}]", entry)
        seen.add(entry)
    return ids


def checked_flags(
    given: Any, ids: tuple[str, ...], instances: tuple[Flags | None, ...]
) -> Flags | None:
    """Return which bags are positive; None if nobody said."""
    if given is None:
        return None
    labels = numbers(given, "labels")
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
            told = f"{int(marked.sum())} positive instances in a bag that is labelled 0"
            raise refuse(
                "labels that fit the instances", "labels-differ", f"bag {ids[i]!r}", told, hint
            )
    return positive


def checked_instances(
    given: Any, ids: tuple[str, ...], shapes: Sequence[tuple[int, ...]]
) -> tuple[Flags | None, ...]:
    """Return the flat reference of every bag, None where there is none; nothing if no bag has one."""
    if given is None:
        return ()
    if isinstance(given, Mapping):
        known = set(ids)
        unknown = [key for key in given if str(key) not in known]
        if unknown:
            raise refuse("ids of bags", "labels-differ", "instances", unknown[0])
        by_id = {str(key): value for key, value in given.items()}
        given = [by_id.get(entry) for entry in ids]
    given = several("instances", given)
    if len(given) != len(ids):
        raise refuse(f"{len(ids)} entries, one per bag", "labels-differ", "instances", len(given))
    return tuple(_reference(one, ids[i], shapes[i]) for i, one in enumerate(given))


def _reference(given: Any, bag_id: str, shape: tuple[int, ...]) -> Flags | None:
    if given is None:
        return None
    array = numbers(given, f"instances of bag {bag_id!r}")
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


def checked_scores(given: Any, models: tuple[str, ...], ids: tuple[str, ...]) -> F64 | None:
    """Return (n_models, n_bags) finite scores; None if nobody gave any."""
    if given is None:
        return None
    scores = numbers(given, "bag_scores")
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


def checked_groups(given: Mapping[str, Any] | None, n_bags: int) -> dict[str, Column]:
    """Return the columns of the bags."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(
            f"groups takes columns by name, such as {{'patient': [...]}}, not {shown(given)}"
        )
    found = {}
    for name, column in (given or {}).items():
        array = entries(column, f"groups[{name!r}]")
        if array.shape != (n_bags,):
            raise refuse(
                f"{n_bags} entries, one per bag", "labels-differ", f"groups[{name!r}]", array.shape
            )
        found[str(name)] = array
    return found
