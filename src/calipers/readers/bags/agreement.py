# SPDX-License-Identifier: Apache-2.0
"""Check that all models have the same bags, with maps of the same shape in the same place.

`reading.read_bags` calls `check_models` with the maps of all models; the error names the first
difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from calipers.errors import InputError, UsageError
from calipers.readers.bags.model_maps import ModelMaps, located
from calipers.readers.volumes.agreement import check_pair
from calipers.readers.volumes.limits import shape_text

SHOWN = 3


def check_models(sources: Sequence[ModelMaps]) -> tuple[tuple[str, ...], list[str]]:
    """Return the ids of the bags in the order of the first model, and notes; raise at the first
    difference.
    """
    names = [source.model for source in sources]
    twice = next((k for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        first = sources[names.index(names[twice])].source
        raise UsageError(
            f"two models are called {names[twice]!r}; name them: "
            f"first={first} second={sources[twice].source}"
        )
    if len(sources) < 2:
        raise _too_few(sources)
    reference = sources[0]
    notes: list[str] = []
    for source in sources[1:]:
        _check_bags(reference, source)
        notes += _check_maps(reference, source)
        if source.named and list(source.maps) != list(reference.maps):
            notes.append(
                f"the bags of {source.model} are in another order than those of "
                f"{reference.model}; they are paired by their ids"
            )
    if not reference.named and len(reference.maps) > 1:
        notes.append("the maps have no ids: bags are paired by position and are called 0, 1, ...")
    return tuple(reference.maps), notes


def _too_few(sources: Sequence[ModelMaps]) -> InputError:
    """Return the error for a single model, or none."""
    file = "<none>"
    hint = (
        "stability is agreement between models: give the maps of two or more, "
        "or a table with a column model"
    )
    if sources:
        file = sources[0].source
        folders = sorted({bag.split("/")[0] for bag in sources[0].maps if "/" in bag})
        # The user may have passed the folder that contains the folders of the models.
        if len(folders) > 1:
            root = file.rstrip("/")
            hint += (
                "; if its folders are the models, name each: "
                f"{root}/{folders[0]} {root}/{folders[1]} ..."
            )
    return InputError(
        "at least two models",
        rule="one-model",
        file=file,
        value=f"{len(sources)} of them",
        hint=hint,
    )


def _check_bags(reference: ModelMaps, other: ModelMaps) -> None:
    """Raise unless both have the same bags."""
    if reference.named != other.named:
        with_ids, nameless = (reference, other) if reference.named else (other, reference)
        hint = (
            f"save {nameless.source} as an npz with maps and ids, "
            "or as a folder with a file per bag"
        )
        raise InputError(
            f"ids of the bags, as {with_ids.source} has them",
            rule="bags-differ",
            file=nameless.source,
            location=f"model {nameless.model!r}",
            value="maps by position",
            hint=hint,
        )
    absent = [bag for bag in reference.maps if bag not in other.maps]
    extra = [bag for bag in other.maps if bag not in reference.maps]
    if not absent and not extra:
        return
    if not reference.named:
        raise InputError(
            f"{len(reference.maps)} bags, as {reference.source} has",
            rule="bags-differ",
            file=other.source,
            location=f"model {other.model!r}",
            value=f"{len(other.maps)} bags",
            hint=(
                "maps without ids are paired by position, "
                "so every model needs all bags in the same order"
            ),
        )
    value = f"{len(extra)} more"
    if absent:
        value = f"{len(absent)} of them missing, {len(extra)} more"
    examples = [_few("missing", absent), _few("only here", extra)]
    raise InputError(
        f"the bags of {reference.source}, model {reference.model!r}",
        rule="bags-differ",
        file=other.source,
        location=f"model {other.model!r}, bag {(absent or extra)[0]!r}",
        value=value,
        hint="; ".join(example for example in examples if example),
    )


def _few(what: str, bags: Sequence[str]) -> str:
    if not bags:
        return ""
    more = f" and {len(bags) - SHOWN} more" if len(bags) > SHOWN else ""
    return f"{what}: {', '.join(map(repr, bags[:SHOWN]))}{more}"


def _check_maps(reference: ModelMaps, other: ModelMaps) -> list[str]:
    """Raise for the first map that does not lie on the grid of the reference; return notes."""
    without = 0
    for bag, volume in reference.maps.items():
        if other.maps[bag].shape != volume.shape:
            raise _other_shape(reference, other, bag)
        try:
            without += len(check_pair(volume, other.maps[bag])) > 0
        except InputError as error:
            raise located(error, other.model, bag) from None
    if not without:
        return []
    maps = f"{without} of {len(reference.maps)} maps of {reference.model} and {other.model}"
    return [
        f"{maps}: only one of the two has an orientation; "
        "the other is assumed to lie on the same grid"
    ]


def _other_shape(reference: ModelMaps, other: ModelMaps, bag: str) -> InputError:
    first, second = reference.maps[bag], other.maps[bag]
    return InputError(
        f"the shape of the map in {first.file}, {shape_text(first.shape)}",
        rule="shape-mismatch",
        file=second.file,
        location=f"model {other.model!r}, bag {bag!r}",
        value=shape_text(second.shape),
        hint=(
            "instances are compared one by one: "
            "resample the maps of all models to one shape, axes [z, ]y, x"
        ),
    )
