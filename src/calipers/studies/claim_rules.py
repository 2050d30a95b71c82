# SPDX-License-Identifier: Apache-2.0
"""Rules of a study: its claims and how each is decided, written down before the run.

A study has files of rules beside its code. The best is a ``claims.toml``: what the paper says,
where it says it, the rule in words that decides, and the limits that the rule uses.
`ClaimRules.load` reads it; judges ask it for statements and limits, so that no threshold stands
anywhere else:

.. code-block:: toml

    schema = "calipers.claims/1"
    study = "stability"
    provenance = "2026-11-18, before the networks were trained"

    [limits]
    similar = 0.1

    [claim.max-is-least-stable]
    text = "Max pooling gives the lowest Spearman correlation in all data sets."
    where = "section V-E, table VII"
    rule = "In every data set Max is the lowest of five, by more than `similar`."

A name in backticks is that of a limit; `Statement.rule` has the number in its place. An entry with
``own = true`` is a question of the study: it is judged like the others and counted apart.

A study whose statements stand in Python names those files instead. Either way `rule_files` returns
names, sizes and hashes, which go into the result and onto the page: who doubts that a rule was
there before the run compares the hash with the history of the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from msgspec import Struct

from calipers.errors import UsageError, did_you_mean
from calipers.results.schema import structure
from calipers.results.toml import parse_toml

RULES_SCHEMA = "calipers.claims/1"
PACKAGE = "calipers.studies"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a paper, paraphrased, and the rule that decides on it."""

    name: str  # short, unique in its study: "accuracy-rises-with-underprediction"
    text: str
    where: str  # in the paper: "section 5, figure 4"
    rule: str = ""  # in words; empty if the judge alone says it
    is_own: bool = False  # a question of the study, which the paper does not answer


class RuleEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A table ``[claim.NAME]``."""

    text: str
    where: str
    rule: str
    own: bool = False  # not a sentence of the paper: counted apart


class RuleDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of claims with their rules."""

    schema: str
    study: str
    provenance: str  # when, and what was known by then
    claim: dict[str, RuleEntry]
    limits: dict[str, float] = {}  # thresholds that rules use, by name


@dataclass(frozen=True)
class ClaimRules:
    """The claims of a study as data."""

    file: str
    provenance: str
    limits: Mapping[str, float]
    statements: Mapping[str, Statement]

    @classmethod
    def load(cls, file: str) -> ClaimRules:
        """Read the rules of a study.

        Parameters
        ----------
        file
            Below ``calipers/studies``, such as ``"stability/claims.toml"``.
        """
        text = _content(file).decode("utf-8")
        document = structure(parse_toml(text, file), RuleDocument, file, schema=RULES_SCHEMA)
        statements = {}
        for name, entry in document.claim.items():
            rule = _with_numbers(entry.rule, document.limits, file)
            statements[name] = Statement(name, entry.text, entry.where, rule, entry.own)
        return cls(file, document.provenance, document.limits, statements)

    def limit(self, name: str) -> float:
        """Return a limit."""
        if name not in self.limits:
            raise UsageError(
                f"{self.file} has no limit {name!r}; {did_you_mean(name, self.limits)}"
            )
        return float(self.limits[name])

    def statement(self, name: str) -> Statement:
        """Return a statement."""
        if name not in self.statements:
            hint = did_you_mean(name, self.statements)
            raise UsageError(f"{self.file} has no claim {name!r}; {hint}")
        return self.statements[name]


def _with_numbers(rule: str, limits: Mapping[str, float], file: str) -> str:
    """Return a rule with the numbers of its limits, so that nobody has to look them up."""

    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in limits:
            hint = did_you_mean(name, limits)
            raise UsageError(f"{file}: a rule names the limit {name!r}, which is not there; {hint}")
        return f"{limits[name]:g}"

    return re.sub(r"`([^`]+)`", number, rule)


def rule_files(files: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Return name, size and hash of the files of rules, which stand below ``calipers/studies``."""
    entries = []
    for file in files:
        content = _content(file)
        digest = hashlib.sha256(content).hexdigest()
        entries.append({"file": file, "bytes": len(content), "sha256": digest})
    return tuple(entries)


def _content(file: str) -> bytes:
    return resources.files(PACKAGE).joinpath(*file.split("/")).read_bytes()
