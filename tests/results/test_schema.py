"""Documents with a schema: the place that is named is the one that does not fit."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from calipers.errors import InputError
from calipers.results.schema import structure


class Everything(Struct, forbid_unknown_fields=True):
    split: dict[str, list[str]] = {}
    weights: dict[str, Annotated[float, Meta(ge=0)]] = {}
    part: tuple[Annotated[int, Meta(ge=1)], int] | None = None
    facts: dict[str, str | int | float | bool] = {}
    ranges: dict[str, Annotated[list[Any], Meta(min_length=1)]] = {}


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"split": {"test": [], "train": ["a", 3]}}, "/split/train/1"),
        ({"weights": {"a": 0.5, "b": "x"}}, "/weights/b"),
        ({"weights": {"a": 0.5, "b": -1}}, "/weights/b"),
        ({"part": [1, [2]]}, "/part/1"),
        ({"part": [0, 2]}, "/part/0"),
        ({"part": [1]}, "/part"),
        ({"facts": {"a": 1, "b": None}}, "/facts/b"),
        ({"ranges": {"a": [1], "b": []}}, "/ranges/b"),
    ],
)
def test_the_place_that_does_not_fit_is_named(document: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as error:
        structure(document, Everything, "file", syntax="JSON")
    assert error.value.location == place
