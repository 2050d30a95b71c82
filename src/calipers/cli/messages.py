# SPDX-License-Identifier: Apache-2.0
"""Errors on a terminal: one line per problem, every hint once, and no control characters."""

from __future__ import annotations

from calipers.errors import CalipersError, InputError, InputProblems


def printable(text: str) -> str:
    """Return text with control characters escaped, except line breaks: a name must not control the
    terminal.
    """
    return "\n".join(map(one_line, text.split("\n")))


def one_line(text: str) -> str:
    """Return text with control characters and line breaks escaped: a name must not look like a line
    of ours.
    """
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def error_text(error: CalipersError) -> str:
    """Return the message of an error; of many problems the first hundred, and every hint once."""
    if isinstance(error, InputProblems):
        return _problems_text(error)
    if isinstance(error, InputError):
        hint = f"\n  hint: {one_line(error.hint)}" if error.hint else ""
        return _place(error) + hint
    return one_line(str(error))


def _problems_text(error: InputProblems) -> str:
    problems = error.problems[: error.SHOWN]
    lines = [f"{error.total} problems; nothing was evaluated."]
    lines += [f"  {_place(problem)}" for problem in problems]
    if error.total > len(problems):
        lines.append(f"  ... and {error.total - len(problems)} more")
    for hint in dict.fromkeys(problem.hint for problem in problems):
        if hint:
            lines.append(f"  hint: {one_line(hint)}")
    lines.append(
        "  calipers inspect counts the problems by rule; --lenient sets broken records aside"
    )
    return "\n".join(lines)


def _place(error: InputError) -> str:
    return one_line(error.describe().removesuffix(f"\n  hint: {error.hint}"))


def _escaped(c: str) -> str:
    if c.isprintable():
        return c
    code = ord(c)
    if c in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[c]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
