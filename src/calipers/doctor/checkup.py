# SPDX-License-Identifier: Apache-2.0
"""The whole examination on one page: paths in, a `Checkup` with findings and commands out.

References are read first; each file of predictions is then read as its reader delivers it, before
any rule, so that one unusable file hides nothing about the others. The checks of
`calipers.doctor.symptoms` run one after another, each on what the fixes before it made of the
predictions. A fix becomes a command only after `calipers.doctor.remedies` carried it out.

Without references a file of predictions is examined alone (`check_submission`). `calipers inspect`
(`calipers doctor`) shows the result and, with ``--repair``, writes `Checkup.repaired`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np

from calipers.data.cohort import Cohort, FileIntake, Images, Intake
from calipers.data.rules import Delivery, Role, as_predictions, as_references
from calipers.doctor.class_agreement import targets
from calipers.doctor.findings import MOST_EXAMPLES, Symptom, conclusion, few, refusal
from calipers.doctor.input_files import (
    names_of_models,
    only_file,
    open_inputs,
    predictions_beside,
    read_parts,
    references_inside,
    right_places,
)
from calipers.doctor.map_scores import rank_agreement
from calipers.doctor.name_symptoms import IMAGE_NAMES
from calipers.doctor.reference_checks import COHORT_CHECKS
from calipers.doctor.remedies import Inputs, Plan, commands_of, lenient_commands
from calipers.doctor.spelling import alike_images
from calipers.doctor.symptoms import (
    EXPLAINS,
    MODEL_CHECKS,
    OTHER_SPLITS,
    SUBMISSION_CHECKS,
    UNMET,
    ModelCheck,
)
from calipers.doctor.trial import UNKNOWN_RULES, Case, RawPredictions, sample_of
from calipers.errors import CalipersError, InputError, InputProblems
from calipers.io.assemble import Assembled, apply_rules, assemble
from calipers.io.read import (
    OpenReferences,
    PathName,
    PendingModel,
    describe,
    pending_models,
    sniff,
)
from calipers.io.reader import ImageList, ObjectPart, Options, ReferenceIndex, reader_of
from calipers.io.source import InputFile, InputFolder, Progress, model_name

EXAMINED = 1 << 24  # bytes of a table without references, about 300,000 rows: a few seconds
UNKNOWN_IMAGE = "unknown-image"
PIXELS = "cxcywh"  # boxes as in YOLO, in pixels
MOST_FRACTIONS = 0.5  # share of boxes beyond which they are pixels; a small one lies within 0..1


@dataclass(frozen=True)
class Checkup:
    """What was read, what is wrong with it, and which commands work."""

    assembled: Assembled
    findings: tuple[Symptom, ...]
    commands: tuple[str, ...]
    refused: bool  # whether strict reading refuses one of the files
    # model -> a cohort with its predictions, after all fixes that no option expresses
    repaired: Mapping[str, Cohort] = field(default_factory=dict)

    @property
    def cohort(self) -> Cohort:
        """What could be read."""
        return self.assembled.cohort

    def as_dict(self) -> dict[str, Any]:
        """Return findings and commands for JSON output."""
        return {
            "findings": [symptom.as_dict() for symptom in self.findings],
            "commands": list(self.commands),
            "refused": self.refused,
        }

    def lines(self) -> list[str]:
        """Return what was read, the findings and, where a reader looks first, the commands."""
        lines = describe(self.assembled).rstrip("\n").split("\n")
        return lines + conclusion(self.findings, self.commands)


def check_files(
    references: PathName,
    predictions: Mapping[str, PathName],
    groups: PathName | None = None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    **reading: Any,
) -> Checkup:
    """Examine files; ``reading`` are keywords of `calipers.read`, and ``progress`` is called with
    (name of the step, work done, work in all).

    Raises
    ------
    InputError
        The references cannot be read at all, in no order and box format that was tried.
    """
    inputs = Inputs(references, predictions, groups, reading, progress=progress)
    inside = references_inside(inputs)
    if inside is not None:
        symptom = only_file(references, inside, "references")
        predictions = predictions or predictions_beside(inside, inputs)
        rest = check_files(inside, predictions, groups, progress=progress, **reading)
        findings = unexplained([symptom, *rest.findings])
        return replace(rest, findings=tuple(findings), refused=True)
    if not predictions and sniff(fspath(references)).role == "predictions":
        return check_submission(references, **reading)
    steps = _CheckupSteps(inputs)
    steps.begin("reading", steps.references)
    try:
        opened, symptoms, inputs = open_inputs(steps.of(inputs))
    except InputError as error:
        if error.rule != "wrong-role" or len(predictions) > 1:
            raise
        # The beginning of some formats does not tell predictions from references.
        if not predictions:
            return check_submission(references, **reading)
        # The plainest of all mistakes: the files came in the wrong order.
        return _check_swapped(inputs, error)
    if not predictions and _holds_predictions(opened, inputs):
        name = model_name(fspath(references))
        return check_files(references, {name: references}, groups, progress=progress, **reading)
    checkup = _check_opened(opened, symptoms, inputs)
    whole = _check_whole_folder(checkup, opened, inputs) or _check_pictures(checkup, opened, inputs)
    if whole is not None:
        return whole
    checkup = _check_all_images(checkup, inputs) or checkup
    folder = _split_folder(checkup, inputs)
    if folder is None:
        return checkup
    # The command is for the split that was predicted, and what is said about it comes first.
    rest = check_files(folder, predictions, groups, progress=progress, **reading)
    splits = [symptom for symptom in checkup.findings if symptom.code == OTHER_SPLITS]
    return replace(rest, findings=tuple(unexplained([*splits, *rest.findings])))


def _holds_predictions(opened: OpenReferences, inputs: Inputs) -> bool:
    """Return whether a file of references has predictions, too, as some tools export them."""
    if not reader_of(opened.file.format).holds_both:
        return False
    try:
        parts = read_parts("", inputs.references, opened.index, inputs.options.of_predictions())
    except CalipersError:
        return False
    return any(len(part.delivery) for _, _, _, part in parts)


def _check_whole_folder(checkup: Checkup, opened: OpenReferences, inputs: Inputs) -> Checkup | None:
    """Examine the folder of a list that is only a part of it, as in LUNA16, where other files have
    the scans without nodules; None if that does not help.
    """
    path, reader = Path(fspath(inputs.references)), reader_of(opened.file.format)
    unknown = [symptom for symptom in checkup.findings if symptom.code == "unknown-image"]
    companions = [name for name in reader.companions if (path.parent / name).is_file()]
    is_part = bool(unknown or companions) and path.name not in companions
    if not is_part or path.is_dir() or "folder" not in reader.inputs:
        return None
    folder = fspath(path.parent)
    try:
        if sniff(folder).format != opened.file.format:
            return None
        of_folder = replace(inputs, references=folder)
        whole = _check_opened(*open_inputs(of_folder))
        if companions:
            whole = _check_all_images(whole, of_folder) or whole
    except CalipersError:
        return None
    if not whole.commands or any(symptom.code == "unknown-image" for symptom in whole.findings):
        return None
    before, after = checkup.cohort, whole.cohort
    symptom = Symptom(
        "part-of-a-folder",
        "error" if unknown else "warning",
        fspath(inputs.references),
        f"the folder of this file has more of the data set: {after.n_images} images and "
        f"{len(after.references)} references, not {before.n_images} and {len(before.references)}",
        before.n_images,
        after.n_images,
        "give the folder",
        few(companions),
    )
    findings = unexplained([symptom, *whole.findings])
    return replace(whole, findings=tuple(findings), refused=whole.refused or bool(unknown))


def _check_pictures(checkup: Checkup, opened: OpenReferences, inputs: Inputs) -> Checkup | None:
    """Examine pictures without annotations as well, as images without objects; None if there are
    none.
    """
    names = opened.file.unlisted
    if not names or inputs.options.all_images:
        return None
    reading = {**inputs.reading, "all_images": True}
    whole = _check_opened(*open_inputs(replace(inputs, reading=reading)))
    is_predicted = _n_unlisted(checkup) > _n_unlisted(whole)
    symptom = Symptom(
        "pictures-without-annotations",
        "error" if is_predicted else "warning",
        fspath(inputs.references),
        "pictures have no file of annotations, and are left out",
        len(names),
        whole.cohort.n_images,
        "if nothing is to be found on them, pass --all-images: they count as images without "
        "objects; if nobody has annotated them, leave it out",
        few(names),
    )
    findings = unexplained([symptom, *whole.findings])
    return replace(whole, findings=tuple(findings), refused=whole.refused or is_predicted)


def _check_all_images(checkup: Checkup, inputs: Inputs) -> Checkup | None:
    """Examine the images that only the table of groups names, as well, or those that only the
    predictions name if the format of the references omits images without any; None if no prediction
    is on one of them.
    """
    n_unknown = _n_unlisted(checkup)
    if not n_unknown or inputs.options.all_images:
        return None
    opened = open_inputs(inputs)[0]
    is_open = reader_of(opened.file.format).may_omit_empty and _has_no_empty(checkup.cohort)
    if inputs.groups is None and not opened.file.omits_empty and not is_open:
        return None
    try:
        reading = {**inputs.reading, "all_images": True}
        whole = _check_opened(*open_inputs(replace(inputs, reading=reading)))
    except CalipersError:
        return None
    # Names that differ are mended in copies of the predictions, which have the further images.
    cohort = next(iter(whole.repaired.values()), whole.cohort)
    n_further = cohort.n_images - checkup.cohort.n_images
    if n_further <= 0 or _n_unlisted(whole) > n_unknown:
        return None
    further = cohort.images.ids[checkup.cohort.n_images :]
    # Another name of a listed image is no further image.
    has_own_names = inputs.groups is None and not any(
        symptom.code == IMAGE_NAMES for symptom in checkup.findings
    )
    if has_own_names and alike_images(further, checkup.cohort):
        return None
    is_open &= inputs.groups is None and not opened.file.omits_empty
    if is_open and not _are_without_objects(cohort, checkup.cohort.n_images):
        return None
    if inputs.groups is not None:
        code, about = "images-in-groups", fspath(inputs.groups)
        message = "images that only this table names have predictions"
        hint = "if they have no references, pass --all-images: they count as images without any"
    else:
        code, about = "images-in-predictions", fspath(inputs.references)
        message = "the references list only images with objects; others have predictions"
        hint = (
            "--all-images: they count as images without references. Images that have neither are "
            "not known, and rates per image are too high if there are any: list them if you can"
        )
    if is_open:
        message += ", mostly with lower scores than those on objects"
        hint += "; if they are not to be evaluated, --lenient leaves their predictions out"
    counts = (n_further, cohort.n_images)
    symptom = Symptom(code, "error", about, message, *counts, hint, few(further[:MOST_EXAMPLES]))
    return replace(whole, findings=tuple(unexplained([symptom, *whole.findings])), refused=True)


def _n_unlisted(checkup: Checkup) -> int:
    """Return how many predictions are on images that the references do not list, or how many such
    images there are where all names differ.
    """
    count = 0
    for symptom in checkup.findings:
        if symptom.code == UNKNOWN_IMAGE:
            count += symptom.count
        elif symptom.code == IMAGE_NAMES:
            count += symptom.total - symptom.count
    return count


def _has_no_empty(cohort: Cohort) -> bool:
    """Return whether every image of the references has some."""
    return bool((np.diff(cohort.references.offsets) > 0).all())


def _are_without_objects(cohort: Cohort, n_listed: int) -> bool:
    """Return whether images beyond the listed ones have so few predictions, and so unsure ones,
    that they may well have no objects; images of another split have as sure ones as those listed.
    """
    for predictions in cohort.models.values():
        sample = RawPredictions.of(predictions)
        n_unlisted = len(np.unique(sample.image[sample.image >= n_listed]))
        if n_unlisted > len(np.unique(sample.image[sample.image < n_listed])):
            return False
        rows, target = targets(cohort, sample)
        best = np.full(cohort.n_images, -np.inf)
        np.maximum.at(best, sample.image, predictions.score)
        further = best[n_listed:][np.isfinite(best[n_listed:])]
        hits = predictions.score[rows[target >= 0]]
        if len(further) and rank_agreement(hits, further) <= 0.5:
            return False
    return True


def _split_folder(checkup: Checkup, inputs: Inputs) -> Path | None:
    """Return the folder of the only split that predictions are for, if the references have it."""
    splits = {s.examples[0] for s in checkup.findings if s.code == OTHER_SPLITS}
    if len(splits) != 1:
        return None
    root, split = Path(fspath(inputs.references)), splits.pop()
    places = (root / "labels" / split, root / split / "labels", root / split)
    return next((place for place in places if place.is_dir()), None)


def _check_swapped(inputs: Inputs, error: InputError) -> Checkup:
    """Examine the files in the other order, or raise the error of the given one."""
    (model, other) = next(iter(inputs.predictions.items()))
    # A name that came from the file goes with the file.
    if model == Path(fspath(other)).stem:
        model = Path(fspath(inputs.references)).stem
    swapped = replace(inputs, references=other, predictions={model: inputs.references})
    try:
        checkup = _check_opened(*open_inputs(swapped))
    except CalipersError:
        raise error from None
    if checkup.refused:
        raise error from None
    symptom = refusal(error, fspath(inputs.references))
    symptom = replace(
        symptom,
        code="files-swapped",
        message="predictions were given as references, and references as predictions",
        hint="give the references first",
    )
    return replace(checkup, findings=(symptom, *checkup.findings), refused=True)


class _CheckupSteps:
    """How far a checkup is, by the bytes of its files: they are read, predictions are examined, and
    commands are tried on all of them.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.progress = inputs.progress
        self.name = ""
        self.n_current = 0  # bytes of the step that is being done
        self.n_shown = 0
        self.references = _bytes_of(inputs.references)
        self.predictions = {name: _bytes_of(path) for name, path in inputs.predictions.items()}
        self.total = 2 * self.references + 3 * sum(self.predictions.values())
        self.n_done = 0

    def begin(self, name: str, n_bytes: int) -> None:
        """Say that the step before is done, and what comes next: work on so many bytes."""
        self.n_done += self.n_current
        self.name, self.n_current = name, n_bytes
        self._show(name, self.n_done)

    def within(self, name: str, n_done: int, total: int) -> None:
        """Say how far the step is: a file that is read, a check, or a trial."""
        words = name if name.startswith(self.name) else f"{self.name}: {name}"
        self._show(words, self.n_done + self.n_current * n_done // total)

    def of(self, inputs: Inputs) -> Inputs:
        """Return the inputs; whatever reads them says how far it is."""
        return replace(inputs, reading={**inputs.reading, "progress": self.within})

    def _show(self, name: str, n_done: int) -> None:
        # Files may be read more than once, and the last step has no end here.
        self.n_shown = min(max(self.n_shown, n_done), self.total - 1)
        if self.progress is not None:
            self.progress(name, self.n_shown, self.total)


def _bytes_of(path: PathName) -> int:
    """Return the size of a file; folders count as small ones."""
    try:
        return max(1, os.stat(path).st_size)
    except (OSError, ValueError):  # its reader says what is wrong with it
        return 1


def _pixels(path: PathName, part: ObjectPart) -> Symptom | None:
    """Return the finding on predictions that are pixels in a format of fractions, if most are."""
    beyond = [problem for problem in part.problems if problem.rule == "not-normalised"]
    if len(beyond) <= MOST_FRACTIONS * part.n_records:
        return None
    return Symptom(
        "box-format",
        "error",
        fspath(path),
        "boxes are not fractions of the image, which this format uses",
        len(beyond),
        part.n_records,
        f"read the boxes as {PIXELS}, or as the format that they have",
        few([f"{problem.location} {problem.value}".strip() for problem in beyond]),
    )


def _check_opened(opened: OpenReferences, symptoms: list[Symptom], inputs: Inputs) -> Checkup:
    images = opened.file.images
    steps = _CheckupSteps(inputs)
    inputs = steps.of(inputs)
    options = inputs.options
    steps.begin("reading", steps.references)
    inputs = replace(inputs, preset=reader_of(opened.file.format).preset)
    broken, _ = broken_records(opened.file.part, images, "references", options)
    findings = [*symptoms, *broken]
    pending: list[PendingModel] = []
    cases: list[tuple[str, str, ObjectPart, RawPredictions]] = []
    unusable: list[FileIntake] = []
    failed = False
    models = list(inputs.predictions)
    for name, path in inputs.predictions.items():
        steps.begin(f"reading {name}", steps.predictions[name])
        own_options = options.of_predictions().of_model(name, models)
        try:
            parts = read_parts(name, path, opened.index, own_options)
        except InputError as error:
            places, symptom = right_places(path, opened.index, own_options, error)
            if not places:
                findings.append(refusal(error, fspath(path)))
                failed = True
                continue
            symptoms = [*symptoms, symptom]
            if len(places) > 1:
                own_models = names_of_models(places)
                rest = {other: of for other, of in inputs.predictions.items() if other != name}
                inputs = replace(inputs, predictions={**rest, **own_models})
                return _check_opened(opened, symptoms, inputs)
            findings.append(symptom)
            inputs = replace(inputs, predictions={**inputs.predictions, name: places[0]})
            parts = read_parts(name, places[0], opened.index, own_options)
        for file, model, kind, part in parts:
            pixels = _pixels(path, part)
            if pixels is not None and own_options.box_format is None:
                inputs = inputs.with_prediction_format(PIXELS)
                return _check_opened(opened, [*symptoms, pixels], inputs)
            cases.append((name, model, part, sample_of(part)))
            symptoms_of_part, is_usable = broken_records(
                part, images, "predictions", options.of_predictions()
            )
            broken += symptoms_of_part
            findings += symptoms_of_part
            if is_usable:
                pending.append((file, model, kind, _Reread(part)))
            else:
                unusable.append(_unusable_file(file, model, kind, part, symptoms_of_part))
    steps.begin("examining the references", 0)
    refused = bool(failed or symptoms or broken)
    assembled = assemble((opened.input_file, opened.file), pending, opened.groups, options)
    assembled = _with_files(assembled, unusable)
    cohort = assembled.cohort
    for check in COHORT_CHECKS:
        of_cohort = list(check(cohort))
        findings += of_cohort
        # What is wrong with the references, no option for the predictions mends.
        failed |= any(symptom.level == "error" for symptom in of_cohort)
    plans = {name: Plan(name) for name in inputs.predictions}
    bare = replace(cohort, models={})
    keys, class_keys = images.keys, opened.file.class_keys
    for name, model, part, sample in cases:
        path = fspath(inputs.predictions[name])
        # A file of several models is examined once for each.
        shares = Counter(owner for owner, *_ in cases)
        steps.begin(f"examining {name}", steps.predictions[name] // shares[name])
        case = Case(bare, path, sample, keys, class_keys, assembled.box_formats[0])
        case = replace(case, in_order=part.in_order, all_images=options.all_images)
        case = replace(case, progress=inputs.progress)
        own, case = examine_case(case, MODEL_CHECKS, steps.within)
        findings += own
        # Boxes of which it is known that they are wrong, and not exactly how.
        failed |= any(symptom.level == "error" and symptom.remedy is None for symptom in own)
        plans[name].add(model, part, case, own)
    findings = unexplained(findings)
    if failed or not cases:
        return Checkup(assembled, tuple(findings), (), refused)
    steps.begin("trying commands", steps.references + sum(steps.predictions.values()))
    commands, repaired = commands_of(inputs, list(plans.values()))
    # What is left of predictions that meet nothing is not worth a command.
    is_met = not any(symptom.code == UNMET for symptom in findings)
    if not commands and refused and is_met:
        commands = lenient_commands(inputs)
    return Checkup(assembled, tuple(findings), tuple(commands), refused, repaired)


def _unusable_file(
    file: InputFile, model: str, kind: str, part: ObjectPart, symptoms: Sequence[Symptom]
) -> FileIntake:
    """Return the account of a file of which not a record can be used."""
    n = part.n_records
    aside = {symptoms[0].code: n}
    return FileIntake(
        file.file, f"predictions of {model}", kind, n, 0, aside, file.sha256, file.size
    )


def _with_files(assembled: Assembled, files: Sequence[FileIntake]) -> Assembled:
    """Add files to the account of what was read."""
    cohort, formats = assembled.cohort, assembled.box_formats
    intake = replace(cohort.intake, files=(*cohort.intake.files, *files))
    # The format of their boxes is what is in doubt.
    return Assembled(replace(cohort, intake=intake), (*formats, *("" for _ in files)))


def check_submission(path: PathName, **reading: Any) -> Checkup:
    """Examine predictions without references: images and classes are those that they name."""
    inputs = Inputs(path, {}, None, {**reading, "masks": "ignore"})
    options = inputs.options.of_predictions()
    findings: list[Symptom] = []
    models, files, formats, samples = {}, [], [], []
    images = ImageList([], np.zeros((0, 2)), np.zeros((0, 2)), {})
    classes: dict[str, int] = {}
    for file, model, kind, part in _read_alone(path, options):
        part, images = _with_own_images(part, images, classes)
        if not isinstance(file, InputFolder) and len(file.data) < file.size:
            findings.append(_only_the_beginning(file, len(file.data)))
        broken, is_usable = broken_records(part, images, "predictions", options)
        findings += broken
        samples.append(sample_of(part))
        if not is_usable:
            continue
        delivery, account = apply_rules(part, images, "predictions", options)
        models[model] = delivery
        formats.append(account.box_format)
        role, aside = f"predictions of {model}", dict(account.aside)
        counts = (part.n_records, len(delivery), aside, file.sha256, file.size)
        files.append(FileIntake(file.file, role, kind, *counts, tuple(part.notes)))
    cohort = _cohort_alone(images, tuple(classes), models, tuple(files))
    for sample in samples:
        case = Case(cohort, fspath(path), sample, images.keys, None)
        findings += examine_case(case, SUBMISSION_CHECKS)[0]
    refused = any(symptom.level == "error" for symptom in findings)
    return Checkup(Assembled(cohort, tuple(formats)), tuple(unexplained(findings)), (), refused)


def _only_the_beginning(file: InputFile, n_bytes: int) -> Symptom:
    message = "only the first rows of a long table are examined: bytes that were read"
    hint = "the findings hold for the first rows; calipers evaluate reads and checks all of them"
    return Symptom("first-rows", "note", file.file, message, n_bytes, file.size, hint)


def _read_alone(path: PathName, options: Options) -> list[tuple[InputFile, str, str, ObjectPart]]:
    """Return the models of a file whose references are unknown; boxes have 2 or 3 dimensions."""
    for dimensions in (2, 3):
        size = np.zeros((0, dimensions))
        index = ReferenceIndex({}, ImageList([], size, size, {}), (), {})
        models = []
        try:
            for file, model, kind, read_part in pending_models(
                None, path, index, options, most=EXAMINED
            ):
                models.append((file, model, kind, read_part()))
        except InputError as error:
            if error.rule != "box-shape" or dimensions == 3:
                raise
            continue
        # Some readers set every box of other dimensions aside, each as a broken record.
        is_other = False
        for _, _, _, part in models:
            rules = {problem.rule for problem in part.problems}
            is_other |= not len(part.delivery) and rules == {"box-shape"}
        if dimensions == 3 or not is_other:
            return models
    raise AssertionError("unreachable: the loop returns or raises")


def _with_own_images(
    part: ObjectPart, images: ImageList, classes: dict[str, int]
) -> tuple[ObjectPart, ImageList]:
    """Return the part with the images and classes that it names itself."""
    delivery = part.delivery
    sample = sample_of(part)
    places = {str(key): k for k, key in enumerate(images.keys)}
    image, label = delivery.image.astype(np.int64), delivery.label.astype(np.int64)
    for row, name in sample.image_names.items():
        image[row] = places.setdefault(str(name), len(places))
    for row, name in sample.label_names.items():
        label[row] = classes.setdefault(str(name), len(classes))
    # Fractions are those of images of any size.
    is_normalised = delivery.box_format.endswith("-normalised")
    side = 1.0 if is_normalised else np.nan
    size = np.full((len(places), delivery.boxes.shape[1] // 2), side)
    rest = [finding for finding in part.findings if finding.rule not in UNKNOWN_RULES]
    named = replace(part, delivery=replace(delivery, image=image, label=label), findings=rest)
    return named, ImageList(list(places), size, size, {})


def _cohort_alone(
    images: ImageList,
    classes: tuple[str, ...],
    models: Mapping[str, Delivery],
    files: tuple[FileIntake, ...],
) -> Cohort:
    """Return a cohort without references."""
    size = images.size
    nothing = np.zeros(0, np.int64)
    boxes = np.zeros((0, 2 * size.shape[1]))
    references = as_references(Delivery(nothing, nothing, boxes, "xyxy", nothing), size)
    tables = {model: as_predictions(delivery, size) for model, delivery in models.items()}
    table = Images(images.ids, size, images.spacing, {})
    return Cohort(table, classes or ("?",), references, tables, Intake(files))


@dataclass(frozen=True)
class _Reread:
    """Hand out a part that was read before."""

    part: ObjectPart

    def __call__(self) -> ObjectPart:
        # The columns are given away and overwritten; the checks still need them.
        everything = np.arange(len(self.part.delivery))
        return replace(self.part, delivery=self.part.delivery.rows(everything))


def examine_case(
    case: Case, checks: Sequence[ModelCheck], progress: Progress | None = None
) -> tuple[list[Symptom], Case]:
    """Run checks, each on what the fixes before it made of the predictions; ``progress`` is called
    with every check.
    """
    symptoms: list[Symptom] = []
    for k, check in enumerate(checks):
        if progress is not None:
            progress(check.__name__.replace("_", " "), k, len(checks))
        for symptom in check(case):
            symptoms.append(symptom)
            if symptom.remedy is not None:
                case = replace(case, sample=symptom.remedy)
            if symptom.cohort is not None:
                case = replace(case, cohort=symptom.cohort)
    return symptoms, case


def broken_records(
    part: ObjectPart, images: ImageList, role: Role, options: Options
) -> tuple[list[Symptom], bool]:
    """Return what strict reading refuses, a finding per rule, and whether the rest can be used."""
    try:
        apply_rules(part, images, role, replace(options, lenient=False))
    except InputError as error:
        problems = error.problems if isinstance(error, InputProblems) else (error,)
    else:
        return [], True
    by_rule: dict[str, list[InputError]] = {}
    for problem in problems:
        by_rule.setdefault(problem.rule, []).append(problem)
    counts: Mapping[str, int] = {}
    is_usable = True
    try:
        counts = apply_rules(part, images, role, options)[1].aside
    except InputError:
        is_usable = False
    symptoms = []
    for rule, members in by_rule.items():
        count = counts.get(rule, len(members))
        symptom = refusal(members[0], part.source.file)
        places = [f"{member.location} {member.value}".strip() for member in members]
        total = max(part.n_records, count)
        symptoms.append(replace(symptom, count=count, total=total, examples=few(places)))
    return symptoms, is_usable


def unexplained(findings: Iterable[Symptom]) -> list[Symptom]:
    """Leave out broken rules that another finding on the same file explains; errors come first."""
    findings = list(findings)
    explained = set()
    for symptom in findings:
        for rule in EXPLAINS.get(symptom.code, ()):
            explained.add((symptom.about, rule))
    rest = [symptom for symptom in findings if (symptom.about, symptom.code) not in explained]
    levels = ("error", "warning", "note")
    return sorted(rest, key=lambda symptom: levels.index(symptom.level))
