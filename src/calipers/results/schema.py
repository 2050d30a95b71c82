# SPDX-License-Identifier: Apache-2.0
"""Documents with a schema: parsed TOML or JSON becomes a msgspec struct, or an `InputError`.

A schema is written once, as a `msgspec.Struct`: its fields are the keys, their types and bounds the
checks. `structure` gives the struct of a document. What does not fit is told as everywhere in
Calipers: the file, the key, what is expected there, what came, and the nearest word that is known.

A struct checks what no type can say in ``__post_init__``, and raises an `InputError` whose location
is the key; `structure` adds the file and the place of the struct.

Called for protocols and requirements (TOML) and for the documents of saved evaluations (JSON).
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from calipers.errors import InputError, did_you_mean

Syntax = Literal["TOML", "JSON"]
T = TypeVar("T")

# What msgspec says: the message, the place, and the steps to it: `.key`, `[2]`, `[...]` for a key
# of a table whose keys are free.
MESSAGE = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
STEP = re.compile(r"\.([^.\[]+)|\[([^\]]+)\]")
UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
MISSING = re.compile(r"Object missing required field `(.*)`")
EXPECTED = re.compile(r"Expected `([^`]*)`(, got .*)?(.*)")
KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "array": "a list",
    "null": "null",
}
# Types that have an inside.
INNER = (
    inspect.StructType,
    inspect.DictType,
    inspect.ListType,
    inspect.TupleType,
    inspect.VarTupleType,
)
PLAIN = {inspect.StrType: str, inspect.BoolType: bool, inspect.NoneType: None}
BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


class _Spot(NamedTuple):
    """A place in a document: the steps to it, the value there, and the type it should have."""

    steps: tuple[str | int, ...]
    value: Any
    type: inspect.Type


def structure(
    document: Any,
    kind: type[T],
    file: str,
    *,
    schema: str | None = None,
    syntax: Syntax = "TOML",
    where: str = "",
) -> T:
    """Return a document as a struct; ``where`` is its own place in the file.

    Raises
    ------
    InputError
        ``schema``, ``unknown-key``, ``missing-key``, ``type``, ``choice``, ``range``,
        ``non-finite``, or a rule of the struct.
    """
    name = document.get("schema") if isinstance(document, Mapping) else None
    if schema is not None and name != schema:
        raise InputError(
            f'schema = "{schema}"', rule="schema", file=file, field="schema", value=name
        )
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        problem = _problem(error, document, kind, syntax)
    except UnicodeEncodeError as error:
        # JSON can escape half of a surrogate pair, which UTF-8 cannot encode.
        half = error.object[error.start]
        raise InputError("whole characters", rule="encoding", file=file, value=half) from None
    place = where + problem.location
    raise problem.at(file, place if syntax == "JSON" else place.removeprefix("."))


def _problem(
    error: msgspec.ValidationError, document: Any, kind: type, syntax: Syntax
) -> InputError:
    """Return what msgspec refused as an input error without a file."""
    parts = MESSAGE.fullmatch(str(error))
    assert parts is not None
    message, path = parts[1], parts[2] or ""
    spot = _spot(path, document, inspect.type_info(kind))
    location = _location(spot.steps, syntax)
    if isinstance(error.__cause__, InputError):
        cause = error.__cause__  # the struct refused its own fields, and named the key
        key = _location((cause.location,), syntax) if cause.location else ""
        return cause.at("", location + key)
    if unknown := UNKNOWN.fullmatch(message):
        key = unknown[1]
        return InputError(
            "a key of the schema",
            rule="unknown-key",
            location=location + _location((key,), syntax),
            value=key,
            hint=did_you_mean(key, _keys(spot.type)),
        )
    if missing := MISSING.fullmatch(message):
        return InputError(f"the key {missing[1]!r}", rule="missing-key", location=location)
    choices = _choices(spot.type)
    if choices:
        return InputError(
            "one of " + ", ".join(choices),
            rule="choice",
            location=location,
            value=spot.value,
            hint=did_you_mean(str(spot.value), choices),
        )
    rule, expected = _expectation(message, spot.value, syntax)
    return InputError(expected, rule=rule, location=location, value=spot.value)


def _expectation(message: str, value: Any, syntax: Syntax) -> tuple[str, str]:
    """Return the broken rule, and what msgspec expected in plain words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "non-finite", "a finite number"
    parts = EXPECTED.fullmatch(message)
    if parts is None:
        return "type", message
    words = KINDS | {"object": "a table" if syntax == "TOML" else "an object"}
    names = parts[1].split(" | ")
    if "float" in names and "int" in names:
        names.remove("int")
    if syntax == "TOML" and "null" in names:  # which TOML cannot say
        names.remove("null")
    expected = " or ".join(words.get(name, name) for name in names)
    if parts[2]:
        return "type", expected
    bound = parts[3]
    if bound == " of length >= 1":
        return "type", f"{expected} that is not empty"
    for sign, word in BOUNDS.items():
        bound = bound.replace(f" {sign} ", f" {word} ")
    return "range", expected + bound


def _spot(path: str, document: Any, type_: inspect.Type) -> _Spot:
    """Walk to the place that msgspec names; a free key is the first one whose value does not
    fit.
    """
    spot = _Spot((), document, type_)
    for key, index in STEP.findall(path):
        type_ = _alternative(spot.type)
        step: str | int = key
        if isinstance(type_, inspect.StructType):
            type_ = next(field.type for field in type_.fields if field.encode_name == key)
        elif isinstance(type_, inspect.DictType):
            type_ = type_.value_type
            step = _misfit(spot.value, type_)
        elif isinstance(type_, inspect.ListType | inspect.VarTupleType):
            type_, step = type_.item_type, int(index)
        elif isinstance(type_, inspect.TupleType):
            step = int(index)
            type_ = type_.item_types[step]
        spot = _Spot((*spot.steps, step), spot.value[step], type_)
    return spot


def _alternative(type_: inspect.Type) -> inspect.Type:
    """Return the one type of a union that has an inside."""
    if isinstance(type_, inspect.UnionType):
        return next(part for part in type_.types if isinstance(part, INNER))
    return type_


def _misfit(table: Mapping[str, Any], type_: inspect.Type) -> str:
    """Return the first key whose value is not what it has to be."""
    kind = _annotation(type_)
    for key, value in table.items():
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return key
    raise AssertionError("msgspec refused a table whose values fit one by one")


def _annotation(type_: inspect.Type) -> Any:
    """Return the annotation that msgspec understands as a type; of a type that no table with free
    keys has, Any.
    """
    if isinstance(type_, inspect.StructType):
        return type_.cls
    if isinstance(type_, inspect.UnionType):
        return functools.reduce(operator.or_, map(_annotation, type_.types))
    if isinstance(type_, inspect.ListType):
        items: Any = list[_annotation(type_.item_type)]  # type: ignore[misc]
        return Annotated[items, _limits(type_, "min_length", "max_length")]
    if isinstance(type_, inspect.IntType | inspect.FloatType):
        number = int if isinstance(type_, inspect.IntType) else float
        return Annotated[number, _limits(type_, "gt", "ge", "lt", "le")]
    return PLAIN.get(type(type_), Any)


def _limits(type_: inspect.Type, *names: str) -> msgspec.Meta:
    limits = {name: getattr(type_, name) for name in names}
    return msgspec.Meta(**{name: limit for name, limit in limits.items() if limit is not None})


def _keys(type_: inspect.Type) -> list[str]:
    struct = _alternative(type_)
    assert isinstance(struct, inspect.StructType)
    return [field.encode_name for field in struct.fields]


def _choices(type_: inspect.Type) -> tuple[str, ...]:
    for part in type_.types if isinstance(type_, inspect.UnionType) else (type_,):
        if isinstance(part, inspect.LiteralType):
            return tuple(map(str, part.values))
    return ()


def _location(steps: tuple[str | int, ...], syntax: Syntax) -> str:
    """Return the steps as ``.metric[0].size`` in TOML, as ``/rows/0/value`` in JSON."""
    if syntax == "JSON":
        return "".join(f"/{step}" for step in steps)
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
