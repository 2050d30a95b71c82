# SPDX-License-Identifier: Apache-2.0
"""Formulas such as ``iou ~ size + type + size:type``: which column is explained by which others."""

from __future__ import annotations

import re
from dataclasses import dataclass

from calipers.errors import UsageError

TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d][\w.]*)|(?P<number>[01])(?!\w)|(?P<sign>[+\-:]))"
)
PLAIN = re.compile(r"[^\W\d][\w.]*")
GRAMMAR = (
    "write y ~ a + b + a:b; -1 takes the intercept away, names with other signs stand in "
    "`backquotes`"
)


@dataclass(frozen=True)
class Formula:
    """A response and the terms that explain it; a term is one column, or several for an
    interaction.
    """

    response: str  # "" if the formula leaves it out
    terms: tuple[tuple[str, ...], ...]  # main effects before interactions
    intercept: bool

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Return the formula written in ``text``.

        Examples
        --------
        >>> Formula.parse("iou ~ size + type:size + type").terms
        (('size',), ('type',), ('type', 'size'))
        """
        if "|" in text:
            raise UsageError(
                f"random intercepts are not part of the formula {text!r}: "
                "name their columns as groups"
            )
        left_side, sign, right_side = text.partition("~")
        if not sign or "~" in right_side:
            raise UsageError(f"a formula has one ~, not {text!r}; {GRAMMAR}")
        response = _tokens(left_side, text)
        if len(response) > 1 or (response and response[0][0] != "name"):
            raise UsageError(
                f"one column stands before the ~, not {left_side.strip()!r}; {GRAMMAR}"
            )
        name = response[0][1] if response else ""
        terms, intercept = _terms(_tokens(right_side, text), text)
        if not terms and not intercept:
            raise UsageError(f"nothing is left to fit in {text!r}; {GRAMMAR}")
        if any(name in term for term in terms):
            raise UsageError(f"{name!r} cannot explain itself in {text!r}")
        return cls(name, tuple(sorted(terms, key=len)), intercept)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that explain, each once."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term))

    def __str__(self) -> str:
        terms = [":".join(map(_quoted, term)) for term in self.terms]
        if not self.intercept:
            terms.insert(0, "0")
        elif not terms:
            terms = ["1"]
        response = _quoted(self.response) if self.response else ""
        return f"{response} ~ {' + '.join(terms)}".strip()


def term_name(term: tuple[str, ...]) -> str:
    """Return a term as it is written in a formula."""
    return ":".join(term)


def _quoted(name: str) -> str:
    return name if PLAIN.fullmatch(name) else f"`{name}`"


def _tokens(text: str, formula: str) -> list[tuple[str, str]]:
    """Return (kind, text) of the parts: name, number or sign."""
    tokens, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None:
            raise UsageError(
                f"cannot read {text[at:].strip()!r} in the formula {formula!r}; {GRAMMAR}"
            )
        kind = match.lastgroup or ""
        tokens.append(("name" if kind == "quoted" else kind, match[kind]))
        at = match.end()
    return tokens


def _terms(tokens: list[tuple[str, str]], formula: str) -> tuple[list[tuple[str, ...]], bool]:
    """Return the terms of the right-hand side, each once, and whether there is an intercept."""
    terms: dict[frozenset[str], tuple[str, ...]] = {}
    intercept = True
    for sign, part in _summands(tokens, formula):
        kinds = [kind for kind, _ in part]
        if kinds == ["number"]:
            intercept = (part[0][1] == "1") == (sign == "+")
        elif sign == "-" or "number" in kinds:
            raise UsageError(f"only the intercept can be taken away, as -1, in {formula!r}")
        else:
            names = tuple(dict.fromkeys(name for _, name in part))
            terms.setdefault(frozenset(names), names)
    return list(terms.values()), intercept


def _summands(
    tokens: list[tuple[str, str]], formula: str
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (sign, factors) of every summand; signs and factors have to alternate."""
    summands: list[tuple[str, list[tuple[str, str]]]] = []
    expected = "factor"
    if not tokens or tokens[0][0] != "sign":
        tokens = [("sign", "+"), *tokens]
    for kind, text in tokens:
        if kind == "sign" and text != ":" and (expected == "sign" or not summands):
            summands.append((text, []))
            expected = "factor"
        elif kind == "sign" and text == ":" and expected == "sign":
            expected = "factor"
        elif kind != "sign" and expected == "factor" and summands:
            summands[-1][1].append((kind, text))
            expected = "sign"
        else:
            raise UsageError(f"{text!r} is out of place in the formula {formula!r}; {GRAMMAR}")
    if expected == "factor":
        raise UsageError(f"the formula {formula!r} breaks off; {GRAMMAR}")
    return summands
