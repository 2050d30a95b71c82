# SPDX-License-Identifier: Apache-2.0
"""Open a saved evaluation: compute it again from the folder, and compare it with the stored values.

Nobody has to believe a stored number: the cohort and the protocol are in the folder, so every row
is recomputed and must have identical bits. The original inputs are not needed.
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
class ChangedValue:
    """One stored value that differs when it is computed again."""

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
class OpenedFolder:
    """An evaluation computed again from its folder, the record of its run, and the differences."""

    evaluation: Evaluation
    run: Mapping[str, Any]
    file: str  # evaluation.json
    n_values: int
    changed: tuple[ChangedValue, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """How the evaluation was asked for, as the record of the run has it."""
        command = self.run.get("command")
        return tuple(map(str, command)) if isinstance(command, list) else ()

    @property
    def stability(self) -> bool:
        """Whether its page had the section on the stability of repeated trainings."""
        return self._page_setting("stability")

    @property
    def multiverse(self) -> bool:
        """Whether its page had the section on the multiverse."""
        return self._page_setting("multiverse")

    def _page_setting(self, name: str) -> bool:
        settings = self.run.get("settings")
        return isinstance(settings, dict) and settings.get(name) is True

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for whoever opened the folder: other versions, and values that differ."""
        then, now = versions(self.run)
        notes = []
        if then != now:
            notes.append(f"saved with {then}; this is {now}")
        if self.changed:
            notes.append(
                f"{len(self.changed)} of {self.n_values} stored values differ; "
                f"the first is {self.changed[0]}"
            )
        return tuple(notes)

    def require_equal(self) -> None:
        """Raise if any value differs."""
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
            hint=f"saved with {then}; this is {now}{others}: use the version it was saved with, "
            "evaluate again, or pass differences='warn' (--differences warn) to go on with the "
            "values of now",
        )


def open_evaluation(
    folder: str | Path,
    *,
    differences: Literal["refuse", "warn"] = "refuse",
    jobs: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Open a saved evaluation: compute it again from its folder, and compare the values.

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
    result = open_folder(folder, jobs=jobs, progress=progress)
    if differences == "refuse":
        result.require_equal()
    elif result.changed:
        warnings.warn(f"{result.file}: {result.notes[-1]}", stacklevel=2)
    return result.evaluation


def open_folder(
    folder: str | Path, *, jobs: int = 1, progress: Progress | None = None
) -> OpenedFolder:
    """Compute the evaluation of a folder again, and list the values that differ.

    `open_evaluation` explains it.
    """
    saved = read_folder(Path(folder))
    protocol = Protocol.from_dict(saved.document["protocol"], file=saved.file)
    statistics = _statistics(saved)
    _check_counts(saved)
    evaluation = evaluate(
        saved.cohort,
        protocol,
        ci=bool(statistics["beside"]),
        by=list(dict.fromkeys(summary["by"] for summary in statistics["groups"])),
        jobs=jobs,
        progress=progress,
    )
    evaluation = replace(evaluation, slices=saved.slices)
    # Identical bits, not close values: a difference in the last digit already needs a reason.
    pairs = list(compared_values(saved.document, evaluation.as_dict()))
    changes = tuple(pair for pair in pairs if _bits(pair.stored) != _bits(pair.now))
    result = OpenedFolder(evaluation, saved.run, saved.file, len(pairs), changes)
    return replace(result, evaluation=_noted(result, saved)) if changes else result


def compared_values(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangedValue]:
    """Yield every value of the rows and the statistics, as stored and as computed now."""
    names = [_in_words(row) for row in stored["rows"]]
    yield from _entries("/rows", stored["rows"], now["rows"], names)
    for part in PARTS:
        entries = stored["statistics"][part]
        # What stands beside the estimates has the names of their rows.
        words = names
        if part != "beside":
            words = [_in_words(entry) for entry in entries]
        yield from _entries(f"/statistics/{part}", entries, now["statistics"][part], words)


def versions(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the versions that the numbers depend on, as they were and as they are."""
    from calipers import __version__

    stored = run.get("environment")
    then = {**stored} if isinstance(stored, dict) else {}
    then["calipers"] = run.get("calipers")
    now = {**environment(), "calipers": __version__}
    return _version_text(then), _version_text(now)


def _version_text(versions_by_name: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {versions_by_name.get(name)}" for name in VERSIONS)


def _entries(
    place: str,
    stored: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> Iterator[ChangedValue]:
    if len(stored) != len(now):
        yield ChangedValue(place, "number of entries", len(stored), len(now))
        return
    for k, (then, again) in enumerate(zip(stored, now)):
        for key in dict.fromkeys((*again, *then)):
            yield ChangedValue(
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
    """Return an entry in words: ours, AP50, class nodule, centre A."""
    words = [str(entry.get("model")), str(entry.get("metric"))]
    if entry.get("class") is not None:
        words.append(f"class {entry['class']}")
    for name, value in (entry.get("group") or {}).items():
        words.append(f"{name} {value}")
    return ", ".join(words)


def _statistics(stored: StoredFolder) -> Mapping[str, Any]:
    """Return the statistics of the document, checked: lists of objects, groupings with a name."""
    statistics = stored.document.get("statistics")
    for part in PARTS:
        entries = statistics.get(part) if isinstance(statistics, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            place = f"/statistics/{part}"
            raise InputError(
                "a list of objects", rule="type", file=stored.file, location=place, value=entries
            )
    assert isinstance(statistics, dict)
    for k, summary in enumerate(statistics["groups"]):
        if not isinstance(summary.get("by"), str):
            place = f"/statistics/groups/{k}/by"
            raise InputError(
                "text", rule="type", file=stored.file, location=place, value=summary.get("by")
            )
    return statistics


def _check_counts(stored: StoredFolder) -> None:
    """Raise unless the tables hold the cohort that the document counts."""
    document_counts, counts = stored.document["cohort"], cohort_counts(stored.cohort)
    for key, value in counts.items():
        if _bits(document_counts.get(key)) != _bits(value):
            hint = (
                "the files of this folder are not of one run: "
                "take it from a backup, or evaluate again"
            )
            raise InputError(
                f"{value!r} as the tables have it",
                rule="record-count",
                file=stored.file,
                location=f"/cohort/{key}",
                value=document_counts.get(key),
                hint=hint,
            )


def _noted(opened: OpenedFolder, stored: StoredFolder) -> Evaluation:
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
