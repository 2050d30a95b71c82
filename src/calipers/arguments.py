# SPDX-License-Identifier: Apache-2.0
"""Name the argument of a public function that is not what the function takes.

`names_arguments` decorates the functions of the public surface, `names_methods` the methods of its
classes, `names_fields` their constructors too. Arguments are compared with their annotations twice,
and the first that does not fit becomes a `UsageError`, which names it and says what it takes.

Before the call, plain arguments are: flags, numbers, texts, words to choose from, and functions
that are called back (`may_fit`). They are refused before anything is computed or written. Lists,
tables and paths are left to the functions, which say more about them. That takes about a tenth of a
microsecond per argument. Constructors, which only keep what they get, look at objects too.

After a call that failed with an exception of Python's own, every argument is compared in full
(`fits`). If all of them fit, the exception stays as it is: it is a fault of Calipers, or of a
function that the caller handed in.
"""

from __future__ import annotations

import builtins
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import islice
from os import PathLike, fspath
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
# Methods by which an object describes itself in a message.
WRITERS = ("__repr__", "__str__", "__format__")
# Values that are no object of a class of Calipers.
PLAIN = (bool, int, float, complex, bytes, list, tuple, set, type)
FUNCTION: Any = Callable
HOLDERS = (list, tuple)  # that may hold masked entries
MOST_ENTRIES = 1000  # of a sequence that are looked at
MOST_TYPES = 100  # combinations of types that a function remembers
# Types that need no second look, by what an annotation says.
AT_ONCE: dict[Any, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (float, int),
    str: (str,),
    None: (type(None),),
    type(None): (type(None),),
}
# What a type of numbers in an array is called.
KINDS_OF_NUMBERS = {"b": "flags", "i": "whole numbers", "u": "whole numbers", "f": "numbers"}


def names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: see above."""
    border = _Border(function)

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        values, named = border.checked(args, options)
        try:
            return function(*values, **named)
        except CalipersError:
            raise
        except Exception as error:
            problem = _unwritable(error)
            if problem is None and isinstance(error, BLAMED):
                problem = wrong_argument(function, args, options)
            if problem is None and _is_too_large(error):
                problem = "a number is too large"
            if problem is None and isinstance(error, TypeError):
                problem = _unknown_option(error, options)
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
    border = _Border(constructor, kind.__name__)

    @wraps(constructor)
    def construct(self: Any, *args: Any, **options: Any) -> None:
        (_, *values), named = border.checked((self, *args), options)
        try:
            constructor(self, *values, **named)
        except CalipersError:
            raise
        except Exception as error:
            problem = _unwritable(error)
            if problem is None and isinstance(error, BLAMED):
                problem = wrong_argument(constructor, (self, *args), options)
            if problem is None and _is_too_large(error):
                problem = "a number is too large"
            if problem is None:
                raise
            raise UsageError(f"{kind.__name__}: {problem}") from error

    type.__setattr__(kind, "__init__", construct)
    return kind


def _unwritable(error: Exception) -> str | None:
    """Return what to say if a message failed because an object does not describe itself."""
    if isinstance(error, TypeError) and "returned non-string" in str(error):
        return "an argument holds an object that cannot be written as text"
    step, culprit = error.__traceback__, None
    while step is not None:
        frame = step.tb_frame
        if frame.f_code.co_name in WRITERS and not _is_of_ours(frame.f_globals):
            culprit = type(frame.f_locals.get("self")).__name__
        step = step.tb_next
    if culprit is None:
        return None
    return f"an argument holds a {culprit}, which cannot be written as text"


def _is_of_ours(names: Mapping[str, Any]) -> bool:
    return str(names.get("__name__", "")).split(".")[0] == "calipers"


def _is_too_large(error: Exception) -> bool:
    """Return whether an exception says that a number is too large for what is done with it."""
    # Python writes no numbers of more than 4,300 digits, not even into a message.
    return isinstance(error, OverflowError) or "integer string conversion" in str(error)


def _unknown_option(error: TypeError, options: Mapping[str, Any]) -> str | None:
    """Return what to say of an option that a function hands on to one that does not have it."""
    text = str(error)
    for name in options:
        if text.endswith(f"got an unexpected keyword argument {name!r}"):
            return f"there is no option {name}"
    return None


class _Border:
    """The plain arguments of a function or constructor, which are checked before each call."""

    def __init__(self, function: Callable[..., Any], kind: str = "") -> None:
        self.function, self.kind = function, kind
        # (position, name, types that fit at once, annotation); not known before the first call,
        # because annotations name classes of modules that are still being loaded.
        self.parameters: list[tuple[int, str, frozenset[type], Any]] | None = None
        # Types of arguments that fitted before; empty where more than types decides.
        self.fitted: set[tuple[Any, ...]] = set()
        self.is_by_type = True
        self.may_mask = not kind

    def checked(
        self, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, with Python's own numbers and texts in place of NumPy's; raise a
        `UsageError` for the first one that is certainly no such thing.
        """
        types_of_all = (*map(type, args), *options, *map(type, options.values()))
        if types_of_all in self.fitted:
            return args, options
        if self.parameters is None:
            self.parameters = self._read()
        self._check_masked(args, options)
        n, values, named = len(args), list(args), dict(options)
        for position, name, at_once, hint in self.parameters:
            if position < n:
                value = values[position] = own_scalar(args[position])
            elif name in options:
                value = named[name] = own_scalar(options[name])
            else:
                continue
            if type(value) not in at_once and not may_fit(value, hint, is_field=bool(self.kind)):
                problem = f"{name} is {in_words(hint)}, not {shown(value)}"
                raise UsageError(f"{self.kind or self.function.__name__}: {problem}")
        types_now = (*map(type, values), *named, *map(type, named.values()))
        # What lies in a list, and whether entries are masked, types do not say.
        kinds = {type(value) for value in (*values, *named.values())}
        is_open = self.may_mask and any(kind in HOLDERS or _masks(kind) for kind in kinds)
        is_by_type = self.is_by_type and not is_open
        if is_by_type and types_now == types_of_all and len(self.fitted) < MOST_TYPES:
            self.fitted.add(types_of_all)
        return tuple(values), named

    def _check_masked(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Raise for masked entries: NumPy would read what lies below the mask as if it were data.

        Constructors keep what they get, and check it themselves.
        """
        if not self.may_mask:
            return
        names = list(inspect.signature(self.function).parameters)
        for k, value in (*enumerate(args), *options.items()):
            if _has_masked(value):
                name = names[min(k, len(names) - 1)] if isinstance(k, int) else k
                problem = f"{name} has masked entries, which have no value"
                raise UsageError(f"{self.function.__name__}: {problem}; fill them in or leave out")

    def _read(self) -> list[tuple[int, str, frozenset[type], Any]]:
        names = _Names(inspect.unwrap(self.function).__globals__)
        parameters = []
        for position, parameter in enumerate(inspect.signature(self.function).parameters.values()):
            is_several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if is_several or parameter.annotation is parameter.empty:
                continue
            hint = _resolved(parameter.annotation, names)
            if not is_plain(hint, objects=bool(self.kind)):
                continue
            # Whether a function takes what it is called with, its type does not say.
            self.is_by_type = self.is_by_type and FUNCTION not in map(get_origin, _parts(hint))
            # What is named only has no place among the positions.
            is_named = parameter.kind == parameter.KEYWORD_ONLY
            place = sys.maxsize if is_named else position
            parameters.append((place, parameter.name, _at_once(hint), hint))
        return parameters


def _masks(kind: type) -> bool:
    """Return whether a type is that of masked arrays, or of the masked entry itself."""
    return kind.__name__ in ("MaskedArray", "MaskedConstant", "mvoid")


def _has_masked(value: Any) -> bool:
    """Return whether a value is masked in some place, or a list has such an entry.

    Tables and mappings are left to the functions, which name the row.
    """
    if _masks(type(value)):
        import numpy as np

        return bool(np.ma.is_masked(value))
    if type(value) not in HOLDERS:
        return False
    return any(_masks(type(entry)) and _has_masked(entry) for entry in value[:MOST_ENTRIES])


def own_scalar(value: Any) -> Any:
    """Return a number, flag or text of NumPy as Python's own; anything else as it is.

    What is equal should also be written equally: settings go into files.
    """
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return value
    is_scalar = not hasattr(value, "__setitem__") and value.dtype.kind in "biufU"
    return value.item() if is_scalar else value


def is_plain(hint: Any, *, objects: bool = False) -> bool:
    """Return whether an annotation says only flags, numbers, texts, None, words and functions, or,
    on request, objects of a class of Calipers.
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return all(is_plain(part, objects=objects) for part in get_args(hint))
    if origin in (Literal, FUNCTION) or hint is None:
        return True
    if origin is not None or not isinstance(hint, type):
        return False
    is_of_ours = hint.__module__.startswith("calipers.") and not isinstance(hint, _Unseen)
    return hint in AT_ONCE or (objects and is_of_ours)


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of an annotation."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _at_once(hint: Any) -> frozenset[type]:
    """Return the types of which every value fits a plain annotation."""
    if get_origin(hint) in (Union, types.UnionType):
        return frozenset().union(*map(_at_once, get_args(hint)))
    return frozenset(AT_ONCE.get(hint, ()))


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


def may_fit(value: Any, hint: Any, *, is_field: bool = False) -> bool:
    """Return whether a value may be what a plain annotation says.

    Arrays and numbers of other libraries are left to the function, but not to a constructor, which
    only keeps them. A text that is none of the words is left to both: they name the nearest one.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(may_fit(value, part, is_field=is_field) for part in parts)
    if origin is Literal:
        return type(value) in map(type, parts)
    if origin is FUNCTION:
        return callable(value) and _takes(value, parts)
    if getattr(hint, "_is_protocol", False):
        return True
    if is_field:
        return fits(value, hint)
    kind = type(value)
    is_known = kind.__module__.split(".")[0] in ("builtins", "calipers", "numpy")
    return not is_known or kind.__name__ == "ndarray" or fits(value, hint)


def _takes(function: Any, parts: tuple[Any, ...]) -> bool:
    """Return whether a function can be called with as many arguments as an annotation says."""
    if not parts or parts[0] is Ellipsis:
        return True
    if function in (bool, int, float, complex, str, bytes):
        return False  # they do not say what they take
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C that does not say what it takes
        return True
    try:
        signature.bind(*parts[0])
    except TypeError:
        return False
    return True


def _is_instance(value: Any, kind: type) -> bool:
    import numpy as np  # late: most errors need no arrays

    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind in (int, float):
        # A bool is an int to Python, a duration one to NumPy, and an int may stand for a float.
        kinds = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, kinds) and not isinstance(value, bool | np.timedelta64)
    if kind is PathLike or issubclass(kind, PurePath):
        # Paths of bytes are paths to Python, but not here.
        return isinstance(value, kind) and isinstance(fspath(value), str)
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be asked
        return True


def _entries_fit(value: Any, origin: type, parts: tuple[Any, ...]) -> bool:
    """Return whether the entries of a sequence or mapping fit; a text is no list of texts."""
    if issubclass(origin, Mapping):
        entries = list(value.items())[:MOST_ENTRIES]
        return all(fits(key, parts[0]) and fits(entry, parts[1]) for key, entry in entries)
    if origin.__module__ == "numpy":
        # An array, with the kind of its numbers.
        kind, own = _kind_of_numbers(parts), KINDS_OF_NUMBERS.get(value.dtype.kind)
        # Whole numbers are numbers too.
        return kind is None or own == kind or (kind, own) == ("numbers", "whole numbers")
    if origin is FUNCTION:
        return _takes(value, parts)
    if not issubclass(origin, Sequence) or not parts:
        return True
    if isinstance(value, str | bytes):
        return False
    if origin is tuple and parts[-1] is not Ellipsis:
        return len(value) == len(parts) and all(map(fits, value, parts))
    # Not a slice: some sequences, such as a deque, have none.
    return all(fits(entry, parts[0]) for entry in islice(value, MOST_ENTRIES))


def _kind_of_numbers(parts: tuple[Any, ...]) -> str | None:
    """Return what an array holds, from the parts of its annotation; None if they do not say."""
    import numpy as np

    numbers = get_args(parts[-1]) if parts else ()
    if not numbers or not isinstance(numbers[0], type) or not issubclass(numbers[0], np.generic):
        return None
    return KINDS_OF_NUMBERS.get(np.dtype(numbers[0]).kind)


def in_words(hint: Any) -> str:
    """Return an annotation as a message says it."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        words = list(dict.fromkeys(map(in_words, get_args(hint))))
        if WORDS[PathLike] in words and WORDS[str] in words:
            words.remove(WORDS[str])  # the text of a path
        return " or ".join(words)
    if origin is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if hint is None:
        return "None"
    kind = hint if origin is None else origin
    if getattr(kind, "__module__", "") == "numpy" and get_args(hint):
        return f"an array of {_kind_of_numbers(get_args(hint)) or 'numbers or texts'}"
    if kind in WORDS:
        return WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return "a path"
    name = str(getattr(kind, "__name__", kind))
    article = "an" if name[:1].upper() in ("A", "E", "I", "O") else "a"
    return f"{article} {name}"
