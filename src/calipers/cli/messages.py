# SPDX-License-Identifier: Apache-2.0
"""What an error says on a terminal: one line a problem, a hint once, no character that drives the
terminal.
"""

from __future__ import annotations

from calipers.errors import CalipersError, InputError, InputProblems


def printable(text: str) -> str:
    """Return text with control characters escaped, line breaks excepted: names must not drive a
    terminal.
    """
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """Return text with control characters and line breaks escaped: a name must not look like a line
    of ours.
    """
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def error_text(error: CalipersError) -> str:
    """Return the message of an error; of many problems the first hundred, with equal hints said
    once.
    """
    if not isinstance(error, InputProblems):
        return _problem(error) if isinstance(error, InputError) else one_line(str(error))
    problems = error.problems[: error.SHOWN]
    lines, hints = [f"{error.total} problems; nothing was evaluated."], dict[str, None]()
    for problem in problems:
        lines.append("  " + _place(problem))
        hints[problem.hint] = None
    if error.total > len(problems):
        lines.append(f"  ... and {error.total - len(problems)} more")
    lines += [f"  hint: {one_line(hint)}" for hint in hints if hint]
    return "\n".join(
        [
            *lines,
            "  calipers inspect counts the problems by rule; --lenient sets broken records aside",
        ]
    )


def _problem(error: InputError) -> str:
    return _place(error) + (f"\n  hint: {one_line(error.hint)}" if error.hint else "")


def _place(error: InputError) -> str:
    return one_line(error.describe().removesuffix(f"\n  hint: {error.hint}"))


def _escaped(c: str) -> str:
    code = ord(c)
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(c) or (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
