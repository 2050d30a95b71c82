# SPDX-License-Identifier: Apache-2.0
"""Name the argument of a public function that is not what the function takes.

`names_arguments` decorates the functions of the public surface, `names_methods` the methods of its
classes, `names_fields` their constructors too. It costs nothing while all is well: only if a call
fails with an exception of Python's own are the arguments compared with their annotations, and the
first that does not fit becomes a `UsageError`, which names it and says what it takes. If all of
them fit, the exception stays as it is: it is a fault of Calipers, or of a function that the caller
handed in.
"""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from os import PathLike
from pathlib import PurePath
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from calipers.errors import CalipersError, UsageError, shown

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# What operations on a wrong argument raise; memory and interrupts are no question of arguments.
BLAMED = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    bytes: "bytes",
    type(None): "None",
    Sequence: "a list of entries",
    Iterable: "several entries",
    Mapping: "a mapping",
    Callable: "a function",
    PathLike: "a path",
    list: "a list",
    tuple: "a tuple",
    dict: "a mapping",
}
# Values that are no object of a class of Calipers.
PLAIN = (bool, int, float, complex, bytes, list, tuple, set, type)
MOST_ENTRIES = 1000  # of a sequence that are looked at


def names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: see above."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except CalipersError:
            raise
        except BLAMED as error:
            problem = wrong_argument(function, args, options)
            if problem is None and isinstance(error, OverflowError):
                problem = "a number is too large"
            if problem is None:
                raise
            raise UsageError(f"{function.__name__}: {problem}") from error

    return call


def names_methods(kind: type[T]) -> type[T]:
    """Decorate a public class: its own public methods name their arguments, as functions do."""
    for name, member in list(vars(kind).items()):
        is_of_class = isinstance(member, classmethod)
        function = member.__func__ if is_of_class else member
        # What was decorated before comes again where a dataclass with slots copies its class.
        is_plain = inspect.isfunction(function) and not hasattr(function, "__wrapped__")
        if is_plain and not name.startswith("_"):
            method: Any = names_arguments(function)
            type.__setattr__(kind, name, classmethod(method) if is_of_class else method)
    return kind


def names_fields(kind: type[T]) -> type[T]:
    """Decorate a public class: its constructor names its arguments, and so do its methods."""
    names_methods(kind)
    constructor: Any = kind.__init__

    @wraps(constructor)
    def construct(self: Any, *args: Any, **options: Any) -> None:
        try:
            constructor(self, *args, **options)
        except CalipersError:
            raise
        except BLAMED as error:
            problem = wrong_argument(constructor, (self, *args), options)
            if problem is None:
                raise
            raise UsageError(f"{kind.__name__}: {problem}") from error

    type.__setattr__(kind, "__init__", construct)
    return kind


def wrong_argument(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> str | None:
    """Say which argument of a call does not fit its annotation; None if all fit."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **options)
    except TypeError as error:
        # A name that it does not have, or one that is missing: Python says which.
        return str(error)
    names = _Names(inspect.unwrap(function).__globals__)
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        is_several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_several or parameter.annotation is parameter.empty:
            continue
        hint = _resolved(parameter.annotation, names)
        if not fits(value, hint):
            return f"{name} is {in_words(hint)}, not {shown(value)}"
    return None


class _Unseen(type):
    """A class that a module imports for type checkers only, known by its name."""

    def __instancecheck__(cls, value: Any) -> bool:
        names = [kind.__name__ for kind in type(value).__mro__]
        # It may also be the name of a type of functions, texts or paths: only what is certainly
        # something else does not fit.
        return cls.__name__ in names or not isinstance(value, PLAIN)


class _Names(dict[str, Any]):
    """The names of a module; unknown ones are those of classes that are not loaded."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return _Unseen(name, (), {})


def _resolved(annotation: Any, names: _Names) -> Any:
    """Return the type that an annotation names; Any if it is none."""
    if not isinstance(annotation, str):
        return annotation
    try:
        # The annotations of Calipers itself, which hold no text of a user.
        return eval(annotation, {}, names)
    except Exception:
        return Any


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is what an annotation says; what is not understood fits."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if hint is None or hint is type(None):
        return value is None
    if origin is None:
        return not isinstance(hint, type) or _is_instance(value, hint)
    if not isinstance(origin, type):
        return True
    return _is_instance(value, origin) and _entries_fit(value, origin, get_args(hint))


def _is_instance(value: Any, kind: type) -> bool:
    import numpy as np  # late: most errors need no arrays

    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind in (int, float):
        # A bool is an int to Python, and an int may stand for a float.
        kinds = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, kinds) and not isinstance(value, bool)
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be asked
        return True


def _entries_fit(value: Any, origin: type, parts: tuple[Any, ...]) -> bool:
    """Return whether the entries of a sequence or mapping fit; a text is no list of texts."""
    if issubclass(origin, Mapping):
        entries = list(value.items())[:MOST_ENTRIES]
        return all(fits(key, parts[0]) and fits(entry, parts[1]) for key, entry in entries)
    if not issubclass(origin, Sequence) or not parts:
        return True
    if isinstance(value, str | bytes):
        return False
    if origin is tuple and parts[-1] is not Ellipsis:
        return len(value) == len(parts) and all(map(fits, value, parts))
    return all(fits(entry, parts[0]) for entry in value[:MOST_ENTRIES])


def in_words(hint: Any) -> str:
    """Return an annotation as a message says it."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(in_words, get_args(hint))))
    if origin is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if hint is None:
        return "None"
    kind = hint if origin is None else origin
    if kind in WORDS:
        return WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return "a path"
    name = str(getattr(kind, "__name__", kind))
    article = "an" if name[:1].upper() in ("A", "E", "I", "O") else "a"
    return f"{article} {name}"
