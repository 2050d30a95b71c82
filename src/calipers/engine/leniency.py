# SPDX-License-Identifier: Apache-2.0
"""Items that lenient work sets aside: those that cannot be read, or that end their worker.

Strict work (the default) ends with the error that names such an item. With ``--lenient`` the item
has a `SetAside` in the place of its result, which is stored, sent and merged like any result, so
that a run that goes on and the parts of a run know of it. Callers leave it out, count it and name
it; `Leniency.check` ends a run that has lost too much of its data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from calipers.engine.ordered_map import WorkerDied, in_order
from calipers.errors import InputError, UsageError, real

ALLOWED_LOSS = 0.5  # share of the items, if nobody says
RULE = "worker-died"
HINT = "its file may be damaged, or the memory too small: try fewer --jobs; --lenient sets it aside"
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class SetAside:
    """An item without a result, and why."""

    name: str
    file: str
    rule: str
    reason: str

    @classmethod
    def of(cls, name: str, error: InputError) -> SetAside:
        """Return what is known of an item that was refused."""
        return cls(name, error.file, error.rule, str(error)[:2000])

    @classmethod
    def after(cls, name: str, death: WorkerDied) -> SetAside:
        """Return what is known of an item that ends its worker."""
        return cls(name, "", RULE, death.how)

    def record(self, file: str) -> tuple[str, str, str, str]:
        """Return what the account of a cohort says: file, name, rule and reason."""
        return file, self.name, self.rule, self.reason

    def text(self) -> str:
        """Return the name and what is wrong, short."""
        return f"{self.name} ({self.reason if self.rule == RULE else self.rule})"


@dataclass(frozen=True)
class Leniency:
    """Whether items without a result end the work, or how many of them may be set aside."""

    lenient: bool = False
    allow_loss: float = ALLOWED_LOSS  # share of the items

    def __post_init__(self) -> None:
        if not 0.0 <= real("allow_loss", self.allow_loss) <= 1.0:
            raise UsageError(f"allow_loss is a share from 0 to 1, got {self.allow_loss!r}")

    def in_order(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        name_of: Callable[[int], str],
        *,
        what: str,
        **how: Any,
    ) -> Iterator[Result | SetAside]:
        """Yield the work on every item in the order of the items, as `engine.work.in_order` does;
        an item that ends its worker is an error that names it, or set aside.

        Parameters
        ----------
        what
            What an item without this fault is, in words.
        how
            Workers, executor, store: see `engine.work.in_order`.
        """

        def aside(death: WorkerDied) -> Any:
            return SetAside.after(name_of(death.item), death)

        try:
            yield from in_order(work, items, **how, aside=aside if self.lenient else None)
        except WorkerDied as death:
            raise InputError(
                what,
                rule=RULE,
                file=name_of(death.item),
                value=death.how,
                hint=HINT,
            ) from None

    def attempt(self, work: Callable[[], Result], name: Callable[[], str]) -> Result | SetAside:
        """Return a result, or why there is none: only faults of the input are set aside."""
        try:
            return work()
        except InputError as error:
            if not self.lenient:
                raise
            return SetAside.of(name(), error)

    def check(self, aside: Sequence[SetAside], n_items: int, what: str) -> None:
        """Raise if so much was set aside that the rest says little about the data."""
        n_aside = len(aside)
        if not n_aside or (n_aside < n_items and n_aside <= self.allow_loss * n_items):
            return
        rules = ", ".join(f"{rule} {n}" for rule, n in counts_of(aside).items())
        hint = "without --lenient the error says what is wrong with the first one"
        if n_aside < n_items:
            hint += "; --allow-loss SHARE (allow_loss=...) evaluates the rest all the same"
        raise InputError(
            loss_limit(self.allow_loss, what),
            rule="mostly-broken",
            value=f"{n_aside} of {n_items} ({rules}), the first is {aside[0].text()}",
            hint=hint,
        )


STRICT = Leniency()


def loss_limit(allow_loss: float, what: str) -> str:
    """Return what was expected where too much was set aside."""
    return f"at most {100 * allow_loss:g} % of the {what} set aside, and something left"


def counts_of(aside: Sequence[SetAside]) -> dict[str, int]:
    """Return how many items were set aside, by rule."""
    return dict(Counter(item.rule for item in aside).most_common())


def aside_note(aside: Sequence[SetAside], what: str, n_names: int = 3) -> str:
    """Return a sentence on what was set aside; ``what`` is one of them."""
    names = ", ".join(item.text() for item in aside[:n_names])
    if len(aside) > n_names:
        names += ", ..."
    number = f"1 {what} was" if len(aside) == 1 else f"{len(aside)} {what}s were"
    return f"{number} set aside (--lenient): {names}"
