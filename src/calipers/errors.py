# SPDX-License-Identifier: Apache-2.0
"""The errors that Calipers raises, and checks of plain arguments that raise them.

Each error says where, what was expected, what came. `UsageError` is about names and options,
`InputError` about the contents of inputs. All other modules raise these two.

The checks (`real`, `whole`, `flag`, `one_of`, ...) take the name of an argument of a public
function and its value, return the value in its plain type, and raise a `UsageError` that names the
argument otherwise. They are called before anything is computed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np

# Longer values would hide the rest of a message.
VALUE_LENGTH = 80


class CalipersError(Exception):
    """Base of all errors that Calipers raises on purpose.

    ``exit_code`` is what the command line returns for it.
    """

    exit_code = 3


class UsageError(CalipersError, ValueError):
    """A name, option or combination of options that does not exist or makes no sense."""

    exit_code = 2


class PluginError(UsageError):
    """A format of another installed package cannot be used: it fails, or it is no reader."""


class InputError(CalipersError, ValueError):
    """One problem of one input.

    Parameters
    ----------
    expected
        What a valid input has at this place, in words.
    file
        The file, or ``"<arrays>"`` for data that came from memory.
    location
        JSON pointer, ``line:column`` or array index.
    field
        The key or column.
    value
        The value, shortened for display.
    rule
        Stable identifier of the broken rule, such as ``"non-finite"``.
    hint
        What to do about it.
    """

    exit_code = 2

    def __init__(
        self,
        expected: str,
        *,
        rule: str,
        file: str = "<arrays>",
        location: str = "",
        field: str = "",
        value: object = None,
        hint: str = "",
    ) -> None:
        self.expected, self.rule, self.file, self.location = expected, rule, file, location
        self.field, self.hint = field, hint
        self.value = shorten(value)
        super().__init__(self.describe())

    def describe(self) -> str:
        """Return the message: place, expectation, value, rule, hint."""
        value = f", got {self.value}" if self.value else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.place}: expected {self.expected}{value} [{self.rule}]{hint}"

    @property
    def place(self) -> str:
        """The file, the location in it, and the field."""
        place = self.file + (f", {self.location}" if self.location else "")
        if self.field and self.field not in self.location:
            place += f" ({self.field})"
        return place

    def as_dict(self) -> dict[str, str]:
        """Return the facts for JSON output."""
        return {
            "rule": self.rule,
            "file": self.file,
            "location": self.location,
            "field": self.field,
            "expected": self.expected,
            "value": self.value,
            "hint": self.hint,
        }

    def at(self, file: str, location: str) -> InputError:
        """Return the same problem at another place."""
        return _rebuild({**self.as_dict(), "file": file, "location": location})

    def with_hint(self, rule: str, hint: str) -> InputError:
        """Return the problem with another hint, if it breaks this rule."""
        if self.rule != rule:
            return self
        return _rebuild({**self.as_dict(), "hint": hint})

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword-only arguments need help to cross process borders.
        return _rebuild, (self.as_dict(),)


class InputProblems(InputError):
    """Several problems of one input; the message counts those of each kind.

    ``problems`` are the first hundred of ``total``. ``of_records`` says that all of them are broken
    records, which lenient reading sets aside.
    """

    SHOWN = 100
    EXAMPLES = 5  # of one kind

    def __init__(
        self, problems: Sequence[InputError], total: int | None = None, of_records: bool = False
    ) -> None:
        self.problems = tuple(problems)
        self.total = len(problems) if total is None else total
        self.of_records = of_records
        first = self.problems[0]
        super().__init__(
            first.expected,
            rule=first.rule,
            file=first.file,
            location=first.location,
            field=first.field,
            hint=first.hint,
        )
        # The text, as it was shortened before: a second time would quote the quotes.
        self.value = first.value

    def lines(self) -> list[str]:
        """Return the message line by line: of every kind its count, the hint, then examples."""
        kinds: dict[tuple[str, str, str], list[InputError]] = {}
        listed = self.problems[: self.SHOWN]
        expectations: dict[tuple[str, str], set[str]] = {}
        for problem in listed:
            expectations.setdefault((problem.rule, problem.hint), set()).add(problem.expected)
        for problem in listed:
            expected = problem.expected
            # What every record has an expectation of its own for is one kind all the same.
            if len(expectations[problem.rule, problem.hint]) > self.EXAMPLES:
                expected = ""
            kinds.setdefault((problem.rule, expected, problem.hint), []).append(problem)
        lines = [f"{self.total} problems; nothing was evaluated."]
        for (rule, expected, hint), members in kinds.items():
            # Beyond the first hundred it is not known which kinds there are, unless there is one.
            count = self.total if len(kinds) == 1 else len(members)
            times = "once" if count == 1 else f"{count} times"
            what = expected or f"{members[0].expected}, and so on"
            lines.append(f"  {times}: expected {what} [{rule}]")
            if hint:
                lines.append(f"    hint: {hint}")
            examples = members[: self.EXAMPLES]
            for problem in examples:
                value = f": {problem.value}" if problem.value else ""
                lines.append(f"    {problem.place}{value}")
            if count > len(examples):
                lines.append(f"    ... and {count - len(examples)} more")
        if len(kinds) > 1 and self.total > len(listed):
            lines.append(f"  ... and {self.total - len(listed)} more problems")
        return lines

    def with_hint(self, rule: str, hint: str) -> InputError:
        """Return the problems with another hint for those that break this rule."""
        problems = [problem.with_hint(rule, hint) for problem in self.problems]
        return InputProblems(problems, self.total, self.of_records)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __reduce__(self) -> tuple[object, ...]:
        return InputProblems, (self.problems, self.total, self.of_records)


def raise_problems(
    problems: Sequence[InputError], total: int | None = None, *, of_records: bool = False
) -> None:
    """Raise nothing, the one problem, or all of them together."""
    total = len(problems) if total is None else total
    if total == 1:
        raise problems[0]
    if problems:
        raise InputProblems(problems, total, of_records)


def shorten(value: object) -> str:
    """Return a printable form of any value, at most 80 characters, control characters escaped."""
    if value is None:
        return ""
    text = ""
    # A scalar of NumPy is shown as the number or text that it is: nan, not np.float64(nan).
    if isinstance(value, np.generic):
        value = value.item()
    for character in repr(value):
        text += character if character.isprintable() else f"\\x{ord(character):02x}"
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 3] + "..."


def told_apart(one: str, other: str) -> tuple[str, str]:
    """Return two names in quotes, with escapes for what hides how they differ.

    Those are signs beyond ASCII that only one of them has, and blanks beside a blank or at an end.
    """
    return _marked(one, other), _marked(other, one)


def _marked(name: str, other: str) -> str:
    text = ""
    for k, sign in enumerate(name):
        neighbours = name[k - 1 : k] + name[k + 1 : k + 2]
        # Blanks at the ends have one neighbour; no other place has fewer than two.
        is_hidden = sign.isspace() and (len(neighbours) < 2 or not neighbours.strip())
        is_hidden |= sign == " " and " " in neighbours
        if is_hidden or not sign.isprintable() or not (sign.isascii() or sign in other):
            text += _escape(sign)
        else:
            text += sign
    # The end stays: blanks behind a long name are what this is for.
    if len(text) > VALUE_LENGTH:
        half = (VALUE_LENGTH - 3) // 2
        text = f"{text[:half]}...{text[-half:]}"
    return f'"{text}"' if "'" in text else f"'{text}'"


def _escape(sign: str) -> str:
    return f"\\x{ord(sign):02x}" if sign.isascii() else ascii(sign)[1:-1]


# Two spellings of one word; a column, criterion or metric of either name answers to the other.
SPELLINGS = (("center", "centre"), ("centre", "center"))


def spelled(name: Any, names: Iterable[str]) -> Any:
    """Return a name as it is among ``names`` if only the spelling differs: center for centre."""
    choices = list(names)
    if not isinstance(name, str) or name in choices:
        return name
    others = [name.replace(one, other) for one, other in SPELLINGS]
    return next((other for other in others if other in choices), name)


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a hint that names the nearest candidate, or all of them."""
    # A hint never names what was refused, not even where it is known in another sense.
    names = [str(candidate) for candidate in candidates if candidate != name]
    # 0.6: two letters of five may be wrong; more is guessing.
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if near:
        # Names that differ in nothing visible are shown with what is hidden.
        return f"did you mean {told_apart(near[0], str(name))[0]}?"
    return "known: " + ", ".join(names)


def _rebuild(facts: dict[str, str]) -> InputError:
    # Already text: the constructor would quote it once more.
    value = facts.pop("value")
    error = InputError(**facts)
    error.value = value
    error.args = (error.describe(),)
    return error


def real(name: str, value: Any) -> float:
    """Return a number that is not NaN as float; text, yes and no, and arrays are none."""
    import numpy as np  # late: `calipers --help` and most errors need no arrays

    # A bool is an int to Python, and True would pass as the number 1.
    is_number = isinstance(value, int | float | np.number) and not isinstance(
        value, bool | np.complexfloating | np.timedelta64
    )
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.nan
    if math.isnan(number):
        raise UsageError(f"{name} is a number, not {shown(value)}")
    return number


def finite(name: str, value: Any) -> float:
    """Return a finite number as float."""
    number = math.nan if isinstance(value, float) and math.isnan(value) else real(name, value)
    if not math.isfinite(number):
        raise UsageError(f"{name} is a finite number, not {shown(value)}")
    return number


def whole(name: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from low to high as int."""
    import numpy as np

    is_integer = isinstance(value, int | np.integer) and not isinstance(
        value, bool | np.timedelta64
    )
    if not is_integer or not low <= int(value) <= high:
        raise UsageError(f"{name} is a whole number from {low} to {high}, not {shown(value)}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return yes or no as bool."""
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} is True or False, not {shown(value)}")
    return bool(value)


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return one of several words; of two spellings of one word, the one that is among them."""
    words = list(choices)
    value = spelled(value, words)
    if not isinstance(value, str) or value not in words:
        raise UsageError(f"no {name} {shown(value)}; {did_you_mean(str(value)[:200], words)}")
    return value


def word(name: str, value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is named by a text, not by {shown(value)}")
    return value


def several(name: str, value: Any) -> list[Any]:
    """Return the entries of a list, tuple, array or other sequence; a single word is none."""
    if (
        isinstance(value, str | bytes)
        or not isinstance(value, Iterable)
        or getattr(value, "shape", None) == ()
    ):
        raise UsageError(f"{name} takes several entries, such as a list, not {shown(value)}")
    return list(value)


def path(name: str, value: Any) -> str:
    """Return where a file is, as text."""
    if not isinstance(value, str | PathLike) or isinstance(fspath(value), bytes):
        raise UsageError(f"{name} is the path of a file, not {shown(value)}")
    return str(fspath(value))


def shown(value: Any) -> str:
    """Return a value as a message shows it: short, in one line, without half characters."""
    try:
        text = repr(value)
    except Exception:  # a number of 5,000 digits, or an object that cannot describe itself
        text = f"<{type(value).__name__}>"
    text = " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").split())
    return text if len(text) <= 80 else f"{text[:77]}..."
