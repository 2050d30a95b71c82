# SPDX-License-Identifier: Apache-2.0
"""Build a checked cohort from what the format readers return; the same for all formats.

`calipers.io.read` calls `assemble` with the references and with the predictions of every model, as
`calipers.io.reader` describes them. The rules of `calipers.data.rules` are applied to each part
(`apply_rules`): strict reading raises all broken ones, lenient reading sets the records aside and
accounts for them, so that ``read == used + quarantined`` holds for every file (`Account`).
Predictions that are allowed but unusual get a note for the report (`prediction_notes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags, joined
from calipers.data.cohort import Cohort, FileIntake, Images, Intake, Quarantined
from calipers.data.objects import Predictions, to_corners
from calipers.data.rules import (
    BLOCK,
    Delivery,
    Finding,
    Role,
    as_predictions,
    as_references,
    clip_to_images,
    examine,
    outside_image,
    settle,
    without_area,
)
from calipers.engine.leniency import loss_limit
from calipers.errors import (
    InputError,
    InputProblems,
    UsageError,
    did_you_mean,
    raise_problems,
    spelled,
)
from calipers.io.consensus import EACH, paired_readers, settle_readers
from calipers.io.reader import ImageList, ObjectPart, Options, Problem, ReferenceFile
from calipers.io.source import InputFile

MANY = 0.5  # share from which tied scores and silent images are noted

# A record counts under the first rule it breaks: the order in which `examine` applies them.
RULE_ORDER = (
    "non-finite",
    "score-range",
    "area-range",
    "size-unknown",
    "neg-size",
    "zero-area",
    "outside",
)


FOLDER = "folder"  # in place of a column: the first folder of the name of an image


@dataclass(frozen=True)
class Assembled:
    """A cohort, and the box format in which each file was read (for `explain`)."""

    cohort: Cohort
    box_formats: tuple[str, ...]


def assemble(
    references: tuple[InputFile, ReferenceFile],
    predictions: Sequence[tuple[InputFile, str, str, Callable[[], ObjectPart]]],
    groups: FileIntake | None,
    options: Options,
) -> Assembled:
    """Build the cohort.

    Parameters
    ----------
    predictions
        File, model, format, and a function that reads the part: one file's columns are in memory at
        a time.
    """
    # References first: they define the images and classes that predictions are resolved against.
    input_file, file = references
    images, sizes = file.images, file.images.size
    delivery, account = apply_rules(file.part, images, "references", options)
    _check_loss(file.part, account, len(delivery), "references", options)
    notes = [*account.notes, *_box_notes(delivery, sizes, "references")]
    notes += _selection_notes(images, options)
    n_used = len(delivery)
    if file.readings is not None and options.readers is not None:
        delivery, reader_notes = settle_readers(
            delivery, file.readings, sizes, options.readers, options.reader_overlap
        )
        notes += reader_notes
    intake = _intake(input_file, "references", file.format, file.part, account, n_used, notes)
    files = [replace(intake, reading=options.record("references", account.box_format))]
    is_used = _used_images(file, options)
    formats = [account.box_format]
    quarantine = account.quarantine
    table = as_references(_with_flags(delivery), sizes)
    if groups is not None:
        files.append(groups)
        formats.append("")
    models: dict[str, Predictions] = {}
    for input_file, model, kind, read_part in predictions:
        part = read_part()
        delivery, account = apply_rules(part, images, "predictions", options.of_predictions())
        _check_loss(part, account, len(delivery), f"predictions of {model}", options)
        formats.append(account.box_format)
        notes = [*account.notes, *prediction_notes(delivery, sizes, is_used)]
        intake = _intake(
            input_file, f"predictions of {model}", kind, part, account, len(delivery), notes
        )
        files.append(replace(intake, reading=options.record("predictions", account.box_format)))
        quarantine += account.quarantine
        # The columns of one model are large: they go before those of the next one are read, and
        # nobody else needs the boxes, so that these need no copy.
        del part
        columns = [delivery]
        del delivery
        # Taken out of the list, so that a column can go as soon as it is not needed any more.
        models[model] = as_predictions(columns.pop(), sizes, overwrite=True)
    image_table = Images(images.ids, sizes, images.spacing, images.groups)
    cohort = Cohort(
        image_table, file.classes, table, models, Intake(tuple(files), tuple(quarantine))
    )
    if file.readings is not None and options.readers == EACH:
        cohort, note = paired_readers(cohort, file.readings)
        first = replace(files[0], notes=(*files[0].notes, note))
        cohort = replace(cohort, intake=replace(cohort.intake, files=(first, *files[1:])))
        # Images were repeated, with their columns.
        is_used = _selected_images(cohort.images, options.where)
    if not is_used.all():
        cohort = cohort.take(is_used)
    return Assembled(cohort, tuple(formats))


def _used_images(file: ReferenceFile, options: Options) -> Flags:
    """Return which images are evaluated: those that were asked for, and that the chosen reader has
    read.
    """
    is_used = _selected_images(file.images, options.where)
    # An image that the chosen reader did not read is none without findings.
    if file.readings is not None and options.readers in file.readings.names:
        is_used = is_used & file.readings.images_of(options.readers)
    return is_used


def _selected_images(images: ImageList | Images, where: str | None) -> Flags:
    """Return which images have the value of a column that ``where`` names."""
    if where is None:
        return np.ones(len(images.ids), np.bool_)
    column, value = where.split("=", 1)
    name = spelled(column, images.groups)
    if name in images.groups:
        texts = list(map(str, images.groups[name].tolist()))
    elif column == FOLDER:
        texts = [image.rpartition("/")[0].partition("/")[0] for image in images.ids]
    else:
        raise UsageError(
            f"where: images have no column {column!r}; "
            + did_you_mean(column, [*images.groups, FOLDER])
        )
    is_selected = np.array(texts) == value
    if not is_selected.any():
        values = [text or "'' (nothing)" for text in sorted(set(texts))]
        raise UsageError(
            f"where: no image has {column} = {value!r}; " + did_you_mean(value, values)
        )
    return np.asarray(is_selected)


def _selection_notes(images: ImageList, options: Options) -> list[str]:
    if options.where is None:
        return []
    is_selected = _selected_images(images, options.where)
    column, value = options.where.split("=", 1)
    counts = f"{int(is_selected.sum())} of {len(is_selected)}"
    return [f"only the images with {column} = {value} are evaluated: {counts}"]


def _with_flags(delivery: Delivery) -> Delivery:
    def flags(column: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        return None if column is None else column.astype(np.bool_)

    return replace(delivery, crowd=flags(delivery.crowd), ignore=flags(delivery.ignore))


def _intake(
    input_file: InputFile,
    role: str,
    format: str,
    part: ObjectPart,
    account: Account,
    n_used: int,
    notes: list[str],
) -> FileIntake:
    input_file.require_unchanged()
    sha256, n_bytes = part.contents or (input_file.sha256, input_file.size)
    return FileIntake(
        file=input_file.file,
        role=role,
        format=format,
        read=part.n_records,
        used=n_used,
        quarantined=dict(account.aside),
        sha256=sha256,
        bytes=n_bytes,
        notes=tuple(dict.fromkeys([*input_file.notes, *part.notes, *notes])),
    )


def fit_dimensions(images: ImageList, dimensions: int) -> ImageList:
    """Give sizes and spacings as many columns as the boxes have dimensions, NaN where unknown."""

    def fit(column: F64) -> F64:
        resized = np.full((len(column), dimensions), np.nan)
        shared = min(dimensions, column.shape[1])
        resized[:, :shared] = column[:, :shared]
        return resized

    return replace(images, size=fit(images.size), spacing=fit(images.spacing))


def apply_rules(
    part: ObjectPart, images: ImageList, role: Role, options: Options
) -> tuple[Delivery, Account]:
    """Apply all rules to a part; raises in strict mode if any is broken."""
    account = Account(part.source.file, options.lenient)
    # Records without a row first, then the findings of the reader, then the rules: a record counts
    # under the first that it breaks, and is not examined again.
    account.problems(part.problems, part.n_dropped)
    delivery = account.settle(part, part.delivery, part.findings)
    delivery = account.settle(part, delivery, examine_blocks(delivery, images.size, role, options))
    account.box_format = delivery.box_format
    # Clipping repairs boxes that keep all other rules, so it comes after them.
    if options.outside == "clip":
        delivery = _clipped(part, delivery, images, role, account)
    account.close()
    return delivery, account


def _clipped(
    part: ObjectPart, delivery: Delivery, images: ImageList, role: Role, account: Account
) -> Delivery:
    """Cut boxes at the borders of their images; a reference of which nothing is left is broken."""
    clipped, is_cut = clip_to_images(delivery, images.size)
    n_cut, total = int(is_cut.sum()), len(delivery)
    if n_cut:
        account.notes.append(f"{n_cut} of {total} {role} were clipped to their image")
    if role == "predictions":
        return clipped
    extent = to_corners(clipped.boxes, "xyxy", images.size[clipped.image])[1]
    lost_rows = np.flatnonzero(without_area(clipped.boxes, extent))
    if not len(lost_rows):
        return clipped
    expected, hint = "a reference of which a part lies inside its image", "remove the record"
    finding = Finding("outside", "bbox", expected, lost_rows, delivery.boxes[lost_rows], hint)
    return account.settle(part, clipped, [finding])


def _check_loss(
    part: ObjectPart, account: Account, n_used: int, role: str, options: Options
) -> None:
    """Raise if lenient reading set so much aside that the rest says little about the file."""
    n_aside = part.n_records - n_used
    if not n_aside or not options.lenient or options.inspecting:
        return
    if n_used and n_aside <= options.allow_loss * part.n_records:
        return
    rules = ", ".join(f"{rule} {n}" for rule, n in account.aside.most_common(3))
    hint = "calipers inspect shows every broken record"
    if n_used:
        hint += "; --allow-loss SHARE (allow_loss=...) evaluates the rest all the same"
    raise InputError(
        loss_limit(options.allow_loss, role),
        rule="mostly-broken",
        file=part.source.file,
        value=f"{n_aside} of {part.n_records} ({rules})",
        hint=hint,
    )


def examine_blocks(delivery: Delivery, sizes: F64, role: Role, options: Options) -> list[Finding]:
    """Apply `examine` to millions of objects a block at a time, so that its copies stay small.

    Whether the box format is the declared one is judged on the whole, from every k-th object.
    """
    declared = options.box_format is not None
    inside = options.outside == "refuse"
    n = len(delivery)
    # Blocks only cost time here; small files are examined at once.
    if n <= BLOCK:
        scale = options.score_scale
        return examine(delivery, sizes, role, score_scale=scale, declared=declared, inside=inside)

    def examined(rows: I64, **how: bool) -> list[Finding]:
        # The copy of the rows ends with the call, before the next is made.
        return examine(delivery.rows(rows), sizes, role, score_scale=options.score_scale, **how)

    if not declared:
        suspect = examined(np.arange(0, n, -(-n // BLOCK)))
        fatal = [finding for finding in suspect if finding.whole_file]
        if fatal:
            return fatal
    findings: dict[tuple[str, str, str], list[Finding]] = {}
    for start in range(0, n, BLOCK):
        if options.progress is not None:
            options.progress(f"checking {role}", start, n)
        rows = np.arange(start, min(start + BLOCK, n))
        for finding in examined(rows, declared=True, inside=inside):
            # A rule that several blocks break is one finding, as if the file had been examined at
            # once.
            key = (finding.rule, finding.field, finding.expected)
            findings.setdefault(key, []).append(replace(finding, rows=finding.rows + start))
    return [_merge_findings(findings[key]) for key in sorted(findings, key=_rule_rank)]


def _rule_rank(key: tuple[str, str, str]) -> int:
    rule = key[0]
    return RULE_ORDER.index(rule) if rule in RULE_ORDER else len(RULE_ORDER)


def _merge_findings(parts: Sequence[Finding]) -> Finding:
    rows = joined(parts, "rows")
    values: list[object] = []
    for part in parts:
        values.extend(part.values)
    return replace(parts[0], rows=rows, values=values)


@dataclass
class Account:
    """What became of the records of one file and role."""

    file: str
    lenient: bool
    errors: list[InputError] = field(default_factory=list)
    n_errors: int = 0
    is_fatal: bool = False  # whether a rule is broken that lenient reading does not forgive
    aside: Counter[str] = field(default_factory=Counter)
    quarantine: list[Quarantined] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    box_format: str = ""  # in which the file was read

    def problems(self, problems: Sequence[Problem], n_records: int) -> None:
        """Enter records that never became rows; each counts under the first of its problems."""
        if not self.lenient:
            errors = [problem.as_error(self.file) for problem in problems[: InputProblems.SHOWN]]
            self._refuse(errors, len(problems))
            return
        # Reversed twice: the first problem of a record wins, and the order of the file stays.
        firsts: dict[str, Problem] = {}
        for problem in reversed(problems):
            firsts[problem.origin or _record_of(problem.location)] = problem
        for problem in reversed(firsts.values()):
            self.aside[problem.rule] += 1
            self.quarantine.append(
                Quarantined(self.file, problem.location, problem.rule, problem.record[:2000])
            )
        assert len(firsts) == n_records, "two broken records share a location"

    def settle(self, part: ObjectPart, delivery: Delivery, findings: Sequence[Finding]) -> Delivery:
        """Apply findings: collect them as errors (strict) or set the records aside (lenient)."""
        if not findings:
            return delivery
        if self.lenient:
            rest, aside, records = settle(delivery, findings, part.source, lenient=True)
            self.aside += aside
            self.quarantine += records
            return rest
        self.is_fatal |= any(finding.whole_file for finding in findings)
        try:
            settle(delivery, findings, part.source)
        except InputProblems as several:
            self._refuse(several.problems, several.total)
        except InputError as one:
            self._refuse([one], 1)
        # Strict reading goes on without the bad rows, to find what else is wrong before it raises.
        bad = np.zeros(len(delivery), np.bool_)
        for finding in findings:
            bad[finding.rows] = True
        return delivery.rows(~bad)

    def close(self) -> None:
        """Raise everything that was collected."""
        raise_problems(
            self.errors[: InputProblems.SHOWN], self.n_errors, of_records=not self.is_fatal
        )

    def _refuse(self, errors: Sequence[InputError], total: int) -> None:
        self.errors += errors
        self.n_errors += total


def _record_of(location: str) -> str:
    """Return the part of a location that names the record: ``/annotations/12`` or ``17``."""
    parts = location.split("/")
    if len(parts) == 1:
        return location.split(":")[0]
    length = 3 if parts[1] == "annotations" else 2
    return "/".join(parts[:length])


def prediction_notes(
    delivery: Delivery, sizes: NDArray[np.float64], is_used: Flags | None = None
) -> list[str]:
    """Return notes on ties, boxes outside their image or without area, and images without
    predictions, of those that are used.
    """
    if is_used is None:
        is_used = np.ones(len(sizes), np.bool_)
    return [
        *_ties(delivery),
        *_box_notes(delivery, sizes, "predictions"),
        *_silent_images(delivery, is_used),
    ]


def _ties(delivery: Delivery) -> list[str]:
    score, n = delivery.score, len(delivery)
    if score is None or n < 2:
        return []
    # Ties need no ranks: equal scores are neighbours once they are sorted.
    sorted_scores = np.sort(score)
    same = sorted_scores[1:] == sorted_scores[:-1]
    tied = _count_tied(same)
    if tied == n and sorted_scores[0] == sorted_scores[-1]:
        return [f"all {n} scores are equal: average precision depends on the order of the records"]
    if tied > MANY * n:
        return [
            f"{tied} of {n} scores are tied: average precision depends on the order of the records"
        ]
    return []


def _count_tied(same: NDArray[np.bool_]) -> int:
    """Count the entries that equal a neighbour, from the comparisons of sorted neighbours."""
    edge = np.zeros(1, np.bool_)
    return int((np.concatenate([edge, same]) | np.concatenate([same, edge])).sum())


def _box_notes(delivery: Delivery, sizes: NDArray[np.float64], role: Role) -> list[str]:
    """Count the boxes that reach outside their image, and the predictions without area."""
    n_outside = n_empty = n_points = 0
    for corners, extent, per_box in _corners_in_blocks(delivery, sizes):
        n_outside += int(outside_image(corners, per_box).sum())
        if role == "predictions":
            n_empty += int(without_area(corners, extent).sum())
            low, high = np.split(corners, 2, axis=1)
            n_points += int((low == high).all(axis=1).sum())
    total = len(delivery)
    notes = []
    if n_outside:
        notes.append(
            f"{n_outside} of {total} {role} reach outside their image; they are kept as they are"
        )
    if n_points and n_points == total:
        notes.append("all predictions are points: criteria of place match them, overlaps never do")
    elif n_empty:
        notes.append(
            f"{n_empty} of {total} predictions have no area: they overlap nothing, and count"
        )
    return notes


def _corners_in_blocks(
    delivery: Delivery, sizes: NDArray[np.float64]
) -> Iterator[tuple[F64, F64, F64]]:
    """Yield corners, extents and image sizes of a block of boxes at a time: those of all would
    double the memory of a large file.
    """
    for start in range(0, len(delivery), BLOCK):
        block = slice(start, start + BLOCK)
        per_box = sizes[delivery.image[block]]
        yield *to_corners(delivery.boxes[block], delivery.box_format, per_box), per_box


def _silent_images(delivery: Delivery, is_used: Flags) -> list[str]:
    n_images = int(is_used.sum())
    has_predictions = np.bincount(delivery.image, minlength=len(is_used)) > 0
    silent = n_images - int((has_predictions & is_used).sum())
    return [f"{silent} of {n_images} images without prediction"] if silent > MANY * n_images else []
