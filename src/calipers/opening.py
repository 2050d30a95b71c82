# SPDX-License-Identifier: Apache-2.0
"""A saved evaluation, opened again: made anew from the folder alone, and compared with what was
stored.

Nobody has to believe a stored number: the cohort and the protocol are in the folder, so every row
is computed once more, and has to come out with the same bits. The inputs may be gone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from calipers.engine.blocks import Progress
from calipers.errors import InputError, UsageError
from calipers.evaluate import evaluate
from calipers.evaluation import Evaluation, cohort_counts
from calipers.protocol import Protocol
from calipers.readers.stored_folder import StoredFolder, read_folder
from calipers.results.provenance import environment
from calipers.tables import FileIntake

PARTS = ("beside", "groups", "each")  # of the statistics: what has numbers that no row has
VERSIONS = ("calipers", "numpy")


@dataclass(frozen=True)
class Changed:
    """One stored value that is another one when it is computed again."""

    place: str  # JSON pointer in evaluation.json
    what: str  # the row in words: ours, AP50, class nodule
    stored: Any
    now: Any

    def as_dict(self) -> dict[str, Any]:
        """Return the difference for JSON."""
        return {"place": self.place, "what": self.what, "stored": self.stored, "now": self.now}

    def __str__(self) -> str:
        return f"{self.place} ({self.what}): stored {self.stored!r}, now {self.now!r}"


@dataclass(frozen=True)
class Opened:
    """An evaluation made anew, the record of the run that was stored, and every value that came out
    differently.
    """

    evaluation: Evaluation
    run: Mapping[str, Any]
    file: str  # evaluation.json
    n_values: int
    changed: tuple[Changed, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """How the evaluation was asked for, as the record of the run has it."""
        found = self.run.get("command")
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def stability(self) -> bool:
        """Whether its page told of the stability of repeated trainings."""
        return self._told("stability")

    @property
    def multiverse(self) -> bool:
        """Whether its page told of the multiverse."""
        return self._told("multiverse")

    def _told(self, name: str) -> bool:
        settings = self.run.get("settings")
        return isinstance(settings, dict) and settings.get(name) is True

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever opened it should know: other versions, and values that differ."""
        then, now = versions(self.run)
        found = [f"saved with {then}; this is {now}"] if then != now else []
        if self.changed:
            found.append(
                f"{len(self.changed)} of {self.n_values} stored values differ; the first is {self.changed[0]}"
            )
        return tuple(found)

    def require_equal(self) -> None:
        """Raise if any value came out differently."""
        if not self.changed:
            return
        first, (then, now) = self.changed[0], versions(self.run)
        others = f", and {len(self.changed) - 1} values more" if len(self.changed) > 1 else ""
        raise InputError(
            f"{first.stored!r} as it is stored ({first.what})",
            rule="not-reproduced",
            file=self.file,
            location=first.place,
            value=first.now,
            hint=f"saved with {then}; this is {now}{others}: use the version it was saved with, evaluate again, or "
            "pass differences='warn' (--differences warn) to go on with the values of now",
        )


def open_evaluation(
    folder: str | Path,
    *,
    differences: Literal["refuse", "warn"] = "refuse",
    jobs: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Open an evaluation that was saved: made anew from its folder, and compared with the stored
    values.

    Parameters
    ----------
    folder
        What `Evaluation.save` or ``calipers evaluate -o`` wrote. The inputs of then are not needed.
    differences
        What happens if a value comes out with other bits, after an update of NumPy for instance:
        ``"refuse"`` raises, ``"warn"`` gives a warning and returns the values of now; they carry
        the warning with them.
    jobs
        Threads; the result does not depend on it.
    progress
        Called with (blocks done, blocks in all).

    Raises
    ------
    InputError
        A file is missing, cut off or changed, or ``not-reproduced``: a value differs.

    Examples
    --------
    >>> import calipers as cal, tempfile
    >>> ev = cal.evaluate(cal.demo_cohort(), "rodeo")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = cal.open_evaluation(ev.save(folder))
    >>> again["mislabels", "RoDeO"] == ev["mislabels", "RoDeO"]
    True
    """
    if differences not in ("refuse", "warn"):
        raise UsageError(f"differences is 'refuse' or 'warn', not {differences!r}")
    opened = open_folder(folder, jobs=jobs, progress=progress)
    if differences == "refuse":
        opened.require_equal()
    elif opened.changed:
        warnings.warn(f"{opened.file}: {opened.notes[-1]}", stacklevel=2)
    return opened.evaluation


def open_folder(folder: str | Path, *, jobs: int = 1, progress: Progress | None = None) -> Opened:
    """Make the evaluation of a folder anew, and say what came out differently; `open_evaluation`
    explains it.
    """
    stored = read_folder(Path(folder))
    protocol = Protocol.from_dict(stored.document["protocol"], file=stored.file)
    statistics = _statistics(stored)
    _check_counts(stored)
    evaluation = evaluate(
        stored.cohort,
        protocol,
        ci=bool(statistics["beside"]),
        by=list(dict.fromkeys(summary["by"] for summary in statistics["groups"])),
        jobs=jobs,
        progress=progress,
    )
    evaluation = replace(evaluation, slices=stored.slices)
    pairs = list(compared(stored.document, evaluation.as_dict()))
    changed = tuple(pair for pair in pairs if _bits(pair.stored) != _bits(pair.now))
    opened = Opened(evaluation, stored.run, stored.file, len(pairs), changed)
    return replace(opened, evaluation=_noted(opened, stored)) if changed else opened


def compared(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Changed]:
    """Yield every value of the rows, and of what stands beside them, as it is stored and as it is
    now.
    """
    names = [_in_words(row) for row in stored["rows"]]
    yield from _entries("/rows", stored["rows"], now["rows"], names)
    for part in PARTS:
        entries = stored["statistics"][part]
        told = names if part == "beside" else [_in_words(entry) for entry in entries]
        yield from _entries(f"/statistics/{part}", entries, now["statistics"][part], told)


def versions(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the versions that the numbers depend on, as they were and as they are."""
    from calipers import __version__

    about = run.get("environment")
    then = {**(about if isinstance(about, dict) else {}), "calipers": run.get("calipers")}
    now = {**environment(), "calipers": __version__}
    words = [", ".join(f"{name} {found.get(name)}" for name in VERSIONS) for found in (then, now)]
    return words[0], words[1]


def _entries(
    place: str,
    stored: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> Iterator[Changed]:
    if len(stored) != len(now):
        yield Changed(place, "number of entries", len(stored), len(now))
        return
    for k, (then, again) in enumerate(zip(stored, now)):
        for key in dict.fromkeys((*again, *then)):
            yield Changed(
                f"{place}/{k}/{key}",
                names[k] if k < len(names) else "",
                then.get(key),
                again.get(key),
            )


def _bits(value: Any) -> str:
    """Return text that is equal for equal bits: JSON writes the shortest digits that give the
    number, and -0.0.
    """
    return json.dumps(value, sort_keys=True)


def _in_words(entry: Mapping[str, Any]) -> str:
    found = [entry.get(key) for key in ("model", "metric")]
    found += [f"class {entry['class']}"] if entry.get("class") is not None else []
    found += [f"{name} {value}" for name, value in (entry.get("group") or {}).items()]
    return ", ".join(str(word) for word in found)


def _statistics(stored: StoredFolder) -> Mapping[str, Any]:
    """Return what the document says of its statistics: lists of objects, and groupings with a name."""
    found = stored.document.get("statistics")
    for part in PARTS:
        entries = found.get(part) if isinstance(found, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            place = f"/statistics/{part}"
            raise InputError(
                "a list of objects", rule="type", file=stored.file, location=place, value=entries
            )
    assert isinstance(found, dict)
    for k, summary in enumerate(found["groups"]):
        if not isinstance(summary.get("by"), str):
            place = f"/statistics/groups/{k}/by"
            raise InputError(
                "text", rule="type", file=stored.file, location=place, value=summary.get("by")
            )
    return found


def _check_counts(stored: StoredFolder) -> None:
    """The tables have to hold the cohort that the document counts."""
    told, found = stored.document["cohort"], cohort_counts(stored.cohort)
    for key, value in found.items():
        if _bits(told.get(key)) != _bits(value):
            hint = "the files of this folder are not of one run: take it from a backup, or evaluate again"
            raise InputError(
                f"{value!r} as the tables have it",
                rule="record-count",
                file=stored.file,
                location=f"/cohort/{key}",
                value=told.get(key),
                hint=hint,
            )


def _noted(opened: Opened, stored: StoredFolder) -> Evaluation:
    """Return the evaluation with the difference among its warnings, so that no page hides it."""
    rows = len(opened.evaluation.rows)
    account = FileIntake(
        opened.file,
        "evaluation",
        "calipers",
        rows,
        rows,
        {},
        stored.sha256,
        stored.bytes,
        (opened.notes[-1],),
    )
    cohort = opened.evaluation.cohort
    intake = replace(cohort.intake, files=(*cohort.intake.files, account))
    return replace(opened.evaluation, cohort=replace(cohort, intake=intake))
