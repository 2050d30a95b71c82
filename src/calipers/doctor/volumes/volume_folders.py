# SPDX-License-Identifier: Apache-2.0
"""The examination of folders of images or volumes: labels, predicted labels, maps of scores.

Every file is opened and its values are looked at once (`Survey`). Then names, grids and values of
predictions are compared with those of the references, one function per mistake, as
`calipers.doctor.symptoms` does for boxes. What the files are tells the verb: `calipers evaluate`
for predicted labels, whose objects are examined further (`calipers.doctor.checkup`),
`calipers maps` for scores. The command is printed only if all pairs can be loaded with it.

Without references, a folder of predictions is examined alone, beside its images if these are named
(``geometry``). `calipers inspect` calls `check_volumes`.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import Array
from calipers.doctor.checkup import check_files
from calipers.doctor.findings import Symptom, conclusion, few, refusal
from calipers.doctor.map_scores import (
    background_values,
    channels,
    inverted_maps,
    scale,
)
from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes.map_commands import segmentation_commands, tried_maps
from calipers.doctor.volumes.numbered_objects import (
    numbered_objects,
    numbered_references,
    unclassed_objects,
    whole_scores,
)
from calipers.doctor.volumes.turned_volumes import turned
from calipers.doctor.volumes.volume_cases import (
    cases,
    copies,
    groups_of,
    kinds_of_files,
    misspelt,
    names,
    odd_cases,
    several_kinds,
    unclear_folders,
)
from calipers.doctor.volumes.volume_grids import CUT, grids
from calipers.errors import InputError
from calipers.io.name_patterns import MOST_KINDS, KindOfFile
from calipers.io.read import PathName, sniff
from calipers.io.volumes.dataset_json import label_folders
from calipers.io.volumes.labels import LabelVolumesReader
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.pairing import list_samples
from calipers.io.volumes.volume import DEFAULT, Role, Volume, shape_text
from calipers.kernels import runs
from calipers.show.words import digits, whole_text

MOST_VALUES = 64  # distinct values of a file that are kept
FEW_VALUES = 20  # whole numbers up to here are labels, whatever their arrangement
OF_CANDIDATES = "picai"  # the preset for maps of candidates
MOST_UNKNOWN = 0.25  # share of objects of unknown classes that may be set aside
LONG_RUN = 1.5  # mean length of runs of equal whole numbers below which they are no labels
MOST_TOUCHING = 0.5  # share of runs that touch the next one, beyond which scores are looked for
SHORT_RUN, SMALL_STEP = 4.0, 2  # runs of scores that touch are this short, or differ by this little
MANY_EDGES, LEAST_WHITE = 5, 200  # values of masks with soft edges, and the highest of them
INSIDE = 0.25  # share of the marked voxels that have it
MOST_ABOVE = 0.5  # share of voxels above 0 of a detection map
# Findings that are told of files, and not of their objects again.
TOLD = ("missing-cases", "duplicate-images", "patient-in-two-splits")


@dataclass(frozen=True)
class FileFacts:
    """The header and the values of one file."""

    volume: Volume
    low: float
    high: float
    whole: bool  # whether all values are whole numbers
    labelled: bool  # whether they look like labels
    values: tuple[int, ...] = ()  # distinct ones but 0, of whole numbers; the first of them
    broken: int = 0  # NaN or infinite
    plateaus: bool = False  # whether every component above 0 has one value, and most voxels are 0
    is_smooth: bool = False  # whether it has many whole numbers, as steps of scores are
    # Of the voxels of labels; empty if they mark nothing, or a box, which may be equal by chance.
    digest: str = ""


@dataclass
class Survey:
    """The files of one folder, by the name of their sample."""

    source: str
    role: str
    files: dict[str, FileFacts] = field(default_factory=dict)
    problems: list[tuple[str, InputError]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    single: bool = False  # one file, not a folder or a list

    @property
    def is_labels(self) -> bool:
        """Whether the files hold labels, not scores."""
        return bool(self.files) and all(facts.labelled for facts in self.files.values())

    @property
    def is_scores(self) -> bool:
        """Whether some file holds values that no label has, or whole numbers as pixels are."""
        return any(not facts.whole or facts.is_smooth for facts in self.files.values())

    @property
    def is_candidates(self) -> bool:
        """Whether the files are detection maps: candidates, each with a score of its own."""
        is_scored = any(facts.high > 0 for facts in self.files.values())
        return is_scored and not self.is_labels and _has_plateaus(self)

    @property
    def low(self) -> float:
        """The lowest value."""
        return min((facts.low for facts in self.files.values()), default=0.0)

    @property
    def high(self) -> float:
        """The highest value."""
        return max((facts.high for facts in self.files.values()), default=0.0)

    @property
    def values(self) -> list[int]:
        """The distinct label values but 0."""
        values: set[int] = set()
        for facts in self.files.values():
            values.update(facts.values)
        return sorted(values)

    @property
    def paths(self) -> dict[str, str]:
        """Name -> path."""
        return {name: facts.volume.file for name, facts in self.files.items()}

    def lines(self) -> Iterator[str]:
        """Yield what was read."""
        headers = [facts.volume for facts in self.files.values()]
        yield f"{self.source}: {self.role}"
        if not headers:
            yield f"  files        none of {len(self.problems)} can be read as {self.role}"
            return
        yield f"  format       {_counted(volume.format for volume in headers)}"
        yield f"  files        {len(headers)}, {sum(volume.bytes for volume in headers):,} bytes"
        shapes = _counted(shape_text(volume.shape) for volume in headers)
        yield f"  shape        {shapes} ([z, ]y, x)"
        yield f"  spacing      {_counted(_spacing_text(volume) for volume in headers)}"
        yield f"  orientation  {_counted(volume.codes or 'unknown' for volume in headers)}"
        if self.is_labels:
            values = ", ".join(map(str, self.values[:FEW_VALUES])) or "none"
            more = " ..." if len(self.values) > FEW_VALUES else ""
            yield f"  values       labels {values}{more}"
        else:
            yield f"  values       scores from {digits(self.low, 4)} to {digits(self.high, 4)}"
        for note in self.notes:
            yield f"  note         {note}"


def _spacing_text(volume: Volume) -> str:
    if volume.spacing is None:
        return "unknown"
    return " x ".join(digits(step, 4) for step in volume.spacing) + " mm"


def _counted(texts: Iterator[str]) -> str:
    """Return the texts with how many files have each, the frequent first."""
    counts = Counter(texts)
    if len(counts) == 1:
        return next(iter(counts))
    shares = [f"{text} ({n})" for text, n in counts.most_common(3)]
    more = f", and {len(counts) - 3} others" if len(counts) > 3 else ""
    return ", ".join(shares) + more


@dataclass(frozen=True)
class VolumeCheckup:
    """What folders of volumes hold, what is wrong with them, and which command works."""

    surveys: tuple[Survey, ...]
    findings: tuple[Symptom, ...]
    commands: tuple[str, ...]
    refused: bool
    voxel_commands: tuple[str, ...] = ()  # that compare voxels, where the others compare objects

    @property
    def counts(self) -> dict[str, int]:
        """How many samples and models were looked at."""
        n_models = sum(survey.role != "references" for survey in self.surveys)
        return {"images": max(len(one.files) for one in self.surveys), "models": n_models}

    @property
    def notes(self) -> list[str]:
        """The notes on all folders."""
        return [note for survey in self.surveys for note in survey.notes]

    def as_dict(self) -> dict[str, Any]:
        """Return findings and commands for JSON output."""
        return {
            "findings": [symptom.as_dict() for symptom in self.findings],
            "commands": list(self.commands),
            "voxel_commands": list(self.voxel_commands),
            "refused": self.refused,
        }

    def lines(self) -> list[str]:
        """Return what was read, the findings and the commands."""
        lines: list[str] = []
        for survey in self.surveys:
            lines += [*survey.lines(), ""]
        lines.pop()
        lines += conclusion(self.findings, self.commands)
        if self.voxel_commands:
            lines += ["", "For Dice, IoU and panoptic quality, which need no scores"]
            lines += [f"  {command}" for command in self.voxel_commands]
        return lines


def are_volumes(references: PathName, predictions: Mapping[str, PathName]) -> bool:
    """Return whether all inputs are images or volumes, in folders or as single files."""
    try:
        kinds = {sniff(fspath(path)).format for path in (references, *predictions.values())}
    except InputError:
        # Whoever reads them says what is wrong.
        return False
    return kinds == {LabelVolumesReader.name}


def check_volumes(inputs: Inputs) -> VolumeCheckup:
    """Examine folders of volumes."""
    if not inputs.predictions:
        return _check_alone(inputs)
    inputs = _with_predicted_labels(inputs)
    kinds = kinds_of_files(inputs)
    if kinds:
        return _by_kind(inputs, kinds)
    folders = _folders_of_models(inputs)
    if folders:
        checkup = check_volumes(replace(inputs, predictions=folders))
        symptoms = (_side_by_side(inputs, folders), *checkup.findings)
        return replace(checkup, findings=symptoms, refused=True)
    reading = inputs.reading
    labels = survey(inputs.references, "references", reading.get("reference_pattern"), inputs)
    models = {}
    for model, path in inputs.predictions.items():
        role = f"predictions of {model}"
        own = survey(path, role, reading.get("pattern"), inputs)
        models[model] = _under_reference_name(own, labels)
    findings: list[Symptom] = []
    for one in (labels, *models.values()):
        findings += unreadable(one)
    options: dict[str, str] = {}
    naming: list[Symptom] = []
    for one in models.values():
        naming += names(labels, one, options)
    if any(set(one.files) <= set(labels.files) for one in models.values()):
        naming = [_of_one_model(symptom) for symptom in naming]
    # A pattern may leave out files that are no labels or predictions, such as images.
    labels = _renamed(labels, options.get("reference_pattern"))
    for model, one in models.items():
        models[model] = _renamed(one, options.get("pattern"))
    surveys = [labels, *models.values()]
    findings += naming
    # Which of several files is meant comes before all else.
    if any(not symptom.reading for symptom in naming):
        return _checkup(surveys, findings, [])
    first = next(iter(models.values()))
    if labels.is_scores and len(models) == 1 and first.is_labels:
        return _check_swapped(inputs, surveys, [*findings, _swapped(labels)])
    findings += [*fractional_labels(labels), *soft_edges(labels), *background_values(labels)]
    findings += [*copies(labels), *unclear_folders(labels)]
    for model, one in models.items():
        renamed = misspelt(labels, one)
        findings += renamed or list(cases(labels, one, options))
        findings += grids(labels, one, reading.get("geometry"), options)
        if "place" not in options:
            findings += turned(labels, one)
        if first.is_labels:
            continue
        findings += channels(labels, one, options)
        background = list(background_values(one))
        findings += background or [
            *scale(one, model, options),
            *inverted_maps(labels, one, model, options),
        ]
    findings += groups_of(labels, inputs.groups)
    if labels.is_labels and all(one.is_candidates for one in models.values()):
        options["preset"] = OF_CANDIDATES
    # What is wrong with a file itself, no option mends.
    wrong = [symptom for symptom in findings if symptom.level == "error" and not symptom.reading]
    if wrong:
        of_voxels = []
        if all(symptom.hint == CUT for symptom in wrong):
            choice = {**reading, **options}
            of_voxels = segmentation_commands(inputs, choice, [one.values for one in surveys])
        return _checkup(surveys, findings, of_voxels)
    if first.is_labels:
        return _with_objects(inputs, options, surveys, findings)
    choices = [options]
    if len(labels.values) > 1:
        findings.append(_several_values(labels))
        choices = [{**options, **choice} for choice in _meanings(labels, first, options)]
    lines = [tried_maps(inputs, choice) for choice in choices]
    return _checkup(surveys, findings, [line for line in lines if line is not None])


def _with_predicted_labels(inputs: Inputs) -> Inputs:
    """Return the inputs with the labels that were predicted, if the references are a whole data set
    of nnU-Net: those of training or of testing, whichever share more names with the predictions.
    """
    folders = label_folders(Path(fspath(inputs.references)))
    if not folders:
        return inputs
    predicted: set[str] = set()
    for path in inputs.predictions.values():
        pattern = inputs.reading.get("pattern")
        predicted.update(list_samples(Path(fspath(path)), "predictions", pattern).files)
    shared = {}
    for folder in folders:
        names = list_samples(folder, "references", inputs.reading.get("reference_pattern")).files
        # Names of the predictions may have an ending of their own, which is told later.
        shared[folder] = sum(_is_part(name, predicted) for name in names)
    return replace(inputs, references=max(folders, key=lambda folder: shared[folder]))


def _by_kind(inputs: Inputs, kinds: Sequence[KindOfFile]) -> VolumeCheckup:
    """Examine one kind of file after the other, of folders of cases with several: each has a
    command.
    """
    checkups = []
    for kind in kinds[:MOST_KINDS]:
        patterns = {"reference_pattern": kind.reference_pattern, "pattern": kind.pattern}
        reading = {**inputs.reading, **patterns}
        checkups.append(check_volumes(replace(inputs, reading=reading)))
    findings = [several_kinds(inputs, kinds)]
    commands: list[str] = []
    voxel_commands: list[str] = []
    for checkup in checkups:
        findings += [symptom for symptom in checkup.findings if symptom not in findings]
        commands += checkup.commands
        voxel_commands += checkup.voxel_commands
    return replace(
        checkups[0],
        findings=tuple(findings),
        commands=tuple(commands),
        voxel_commands=tuple(voxel_commands),
        refused=True,
    )


def _folders_of_models(inputs: Inputs) -> dict[str, PathName]:
    """Return the folders of several models that lie side by side in a folder that was given as one
    model: each of them has a file for every reference, under its own name.
    """
    if len(inputs.predictions) != 1 or inputs.reading.get("pattern"):
        return {}
    place = Path(fspath(next(iter(inputs.predictions.values()))))
    if not place.is_dir():
        return {}
    folders = [entry for entry in sorted(place.iterdir()) if entry.is_dir()]
    if len(folders) < 2:
        return {}
    references = Path(fspath(inputs.references))
    cases_of_references = set(
        list_samples(references, "references", inputs.reading.get("reference_pattern")).files
    )
    models: dict[str, PathName] = {}
    for folder in folders:
        try:
            samples = list_samples(folder, "predictions", None)
        except InputError:
            # Folders without volumes are of something else.
            continue
        if samples.single or not cases_of_references <= set(samples.files):
            return {}
        models[folder.name] = fspath(folder)
    return models if len(models) > 1 else {}


def _side_by_side(inputs: Inputs, folders: Mapping[str, PathName]) -> Symptom:
    """Return the finding that a folder holds several models."""
    (path,) = inputs.predictions.values()
    n = len(folders)
    message = "the folder as a whole is not a model; each folder in it has a file for every case"
    hint = "give these folders: each is a model"
    return Symptom(
        "several-models",
        "error",
        fspath(path),
        message,
        n,
        n,
        hint,
        few([f"{name}={folder}" for name, folder in folders.items()]),
    )


def _under_reference_name(one: Survey, labels: Survey) -> Survey:
    """Return a single file under the name of a single reference, as it is paired."""
    if not (one.single and labels.single and one.files and labels.files):
        return one
    (name,), (facts,) = labels.files, one.files.values()
    return replace(one, files={name: facts})


def _of_one_model(symptom: Symptom) -> Symptom:
    """Return the finding on names without its option, which would be for all models."""
    if "pattern" not in symptom.reading:
        return symptom
    hint = "name the files as those of the other models, or evaluate this model alone: "
    return replace(symptom, hint=hint + symptom.hint, reading={})


def _is_part(name: str, names: set[str]) -> bool:
    return name in names or any(name in other for other in names)


def _check_swapped(
    inputs: Inputs, surveys: Sequence[Survey], findings: Sequence[Symptom]
) -> VolumeCheckup:
    """Examine the folders in the other order too: the command has it if nothing else is wrong."""
    (path,) = inputs.predictions.values()
    other = Path(fspath(inputs.references))
    swapped = check_volumes(
        Inputs(path, {other.name: inputs.references}, inputs.groups, inputs.reading)
    )
    return _checkup(surveys, [*findings, *swapped.findings], swapped.commands)


def survey(source: PathName, role: str, pattern: str | None, inputs: Inputs) -> Survey:
    """Open every file of a folder, and look at its values."""
    samples = list_samples(Path(fspath(source)), role, pattern)
    result = Survey(fspath(source), role, notes=samples.notes, single=samples.single)
    for n_done, (name, path) in enumerate(samples.files.items(), start=1):
        try:
            volume = _opened(path, inputs.reading.get("segment"), role)
            result.files[name] = file_facts(volume, volume.read())
        except InputError as error:
            result.problems.append((name, error))
        if inputs.progress is not None:
            inputs.progress(role, n_done, len(samples.files))
    return result


def _opened(path: str, segment: int | None, role: str) -> Volume:
    """Return the header of a file, which may have an axis of channels."""
    try:
        # Lossy pictures may be maps, and are refused as references.
        meaning: Role = "labels" if role == "references" else "map"
        return open_volume(path, segment=segment, role=meaning)
    except InputError as error:
        if error.rule != "volume-shape":
            raise
    return open_volume(path, segment=segment, limits=replace(DEFAULT, axes=4))


def file_facts(volume: Volume, voxels: Array) -> FileFacts:
    """Return what the values of a file tell."""
    broken = 0
    if voxels.dtype.kind == "f":
        finite = np.isfinite(voxels)
        broken = int(voxels.size - finite.sum())
        if broken:
            voxels = np.where(finite, voxels, 0)
    low, high = float(voxels.min()), float(voxels.max())
    whole = voxels.dtype.kind != "f" or bool((np.rint(voxels) == voxels).all())
    plateaus = low == 0 < high and has_plateaus(voxels)
    if not whole or voxels.ndim > 3 or low < 0 or high > 2**31 - 1:
        return FileFacts(volume, low, high, whole, False, (), broken, plateaus)
    start, length, value = runs.of_labels(voxels.astype(np.int32, copy=False))
    values = np.unique(value)
    # Labels leave something out: without a background of 0 values are scores.
    smooth = len(values) > FEW_VALUES and _is_smooth(start, length, value)
    labelled = low == 0 and not smooth
    distinct = tuple(int(number) for number in values[:MOST_VALUES])
    labelled = labelled and not broken
    digest = ""
    if labelled and len(values) and not _is_box(voxels != 0):
        parts = np.concatenate([start, length, value]).astype(np.int64)
        digest = hashlib.sha256(str(volume.shape).encode() + parts.tobytes()).hexdigest()
    kinds = (whole, labelled, distinct, broken, plateaus, smooth)
    return FileFacts(volume, low, high, *kinds, digest)


def _is_box(mask: Array) -> bool:
    """Return whether the marked voxels fill a box."""
    volume = 1
    for axis in range(mask.ndim):
        others = tuple(k for k in range(mask.ndim) if k != axis)
        marked = np.flatnonzero(mask.any(axis=others))
        volume *= int(marked[-1] - marked[0] + 1)
    return volume == np.count_nonzero(mask)


def has_plateaus(voxels: Array) -> bool:
    """Return whether neighbours above 0 have equal values, and most voxels are 0."""
    above = voxels > 0
    if above.mean() > MOST_ABOVE:
        return False
    for axis in range(voxels.ndim):
        ahead = (slice(None),) * axis + (slice(1, None),)
        behind = (slice(None),) * axis + (slice(None, -1),)
        differs = voxels[ahead] != voxels[behind]
        if bool((differs & above[ahead] & above[behind]).any()):
            return False
    return True


def _is_smooth(start: Array, length: Array, value: Array) -> bool:
    """Return whether runs of whole numbers are steps of scores, not labels: short ones, or such
    that touch another one of nearly the same value.
    """
    if float(length.mean()) < LONG_RUN:
        return True
    touches = start[1:] == start[:-1] + length[:-1]
    if touches.mean() <= MOST_TOUCHING:
        return False
    steps = np.abs(np.diff(value.astype(np.int64)))[touches]
    return bool(length.mean() < SHORT_RUN or np.median(steps) <= SMALL_STEP)


def _renamed(one: Survey, pattern: str | None) -> Survey:
    """Return a survey with the names that a pattern gives."""
    if pattern is None:
        return one
    by_path = {facts.volume.file: facts for facts in one.files.values()}
    samples = list_samples(Path(one.source), one.role, pattern)
    files = {name: by_path[path] for name, path in samples.files.items() if path in by_path}
    return replace(one, files=files)


# Mistakes


def unreadable(one: Survey) -> Iterator[Symptom]:
    """Files that cannot be opened or read, or hold no numbers."""
    by_rule: dict[str, list[tuple[str, InputError]]] = {}
    for name, error in one.problems:
        by_rule.setdefault(error.rule, []).append((name, error))
    total = len(one.files) + len(one.problems)
    for rule, members in by_rule.items():
        error = members[0][1]
        examples = few([f"{name} {problem.value}".strip() for name, problem in members])
        yield Symptom(
            rule,
            "error",
            one.source,
            f"expected {error.expected}",
            len(members),
            total,
            error.hint,
            examples,
        )
    broken = {name: facts.broken for name, facts in one.files.items() if facts.broken}
    if broken:
        yield Symptom(
            "non-finite",
            "error",
            one.source,
            "files with NaN or infinity",
            len(broken),
            total,
            "save finite numbers: look for a division by zero or an overflow of float16",
            few([f"{name}: {n} voxels" for name, n in broken.items()]),
        )


def _swapped(labels: Survey) -> Symptom:
    return Symptom(
        "files-swapped",
        "error",
        labels.source,
        "the references hold scores, and the predictions hold labels",
        len(labels.files),
        len(labels.files),
        "give the references first",
    )


def fractional_labels(labels: Survey) -> Iterator[Symptom]:
    """References with values between whole numbers were interpolated, or are no labels."""
    names = [name for name, facts in labels.files.items() if not facts.whole]
    if names:
        yield Symptom(
            "label-fractions",
            "error",
            labels.source,
            "label volumes with values between whole numbers",
            len(names),
            len(labels.files),
            "save labels without interpolation and without scaling",
            few(names),
        )


def soft_edges(labels: Survey) -> Iterator[Symptom]:
    """Masks of 0 and 255 with values between, as smoothing and lossy pictures leave them."""
    if not labels.is_labels or len(labels.values) < MANY_EDGES or labels.high > 255:
        return
    names = []
    for name, facts in labels.files.items():
        if len(facts.values) < 2 or facts.high < LEAST_WHITE:
            continue
        voxels = facts.volume.read()
        if (voxels == facts.high).sum() > INSIDE * (voxels != 0).sum():
            names.append(name)
    marked = [name for name, facts in labels.files.items() if facts.high > 0]
    if len(names) > 0.5 * len(marked):
        yield Symptom(
            "label-fractions",
            "error",
            labels.source,
            f"masks of 0 and {whole_text(labels.high)} with values between, as at smooth edges",
            len(names),
            len(labels.files),
            "save masks without interpolation, or pass --mask-values "
            f"{whole_text(labels.high)} for the voxels that lie inside as a whole",
            few(names),
        )


def _several_values(labels: Survey) -> Symptom:
    values = ", ".join(map(str, labels.values[:FEW_VALUES]))
    return Symptom(
        "label-values",
        "warning",
        labels.source,
        f"labels have {len(labels.values)} values: {values}",
        len(labels.values),
        len(labels.values),
        "--labels nonzero reads all of them as one finding, --mask-values some of them, --labels "
        "instances each as an object",
    )


def _meanings(labels: Survey, one: Survey, options: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the options of a command for labels of several values.

    A softmax has a channel for every value, background included: each class is compared with its
    own channel. Other maps know nothing of values, so all of them are one finding.
    """
    counts = {facts.volume.shape[0] for facts in one.files.values()}
    if "channel" not in options or counts != {labels.values[-1] + 1}:
        return [{"labels": "nonzero"}]
    return [{"channel": str(value), "mask_values": str(value)} for value in labels.values]


# Commands


def _checkup(
    surveys: Sequence[Survey], findings: Sequence[Symptom], commands: Sequence[str]
) -> VolumeCheckup:
    levels = ("error", "warning", "note")
    ordered = sorted(findings, key=lambda symptom: levels.index(symptom.level))
    refused = any(symptom.level == "error" for symptom in findings)
    return VolumeCheckup(tuple(surveys), tuple(ordered), tuple(commands), refused)


def _with_objects(
    inputs: Inputs,
    options: Mapping[str, str],
    surveys: Sequence[Survey],
    findings: Sequence[Symptom],
) -> VolumeCheckup:
    """Examine the objects of label volumes, which `calipers evaluate` compares."""
    reading = dict(inputs.reading)
    for name in ("pattern", "reference_pattern", "geometry", "place"):
        if name in options:
            reading[name] = options[name]
    if "missing" in options:
        reading["missing_volumes"] = options["missing"]
    marked = [facts.values for facts in surveys[0].files.values()]
    predicted: list[Any] = []
    for one in surveys[1:]:
        predicted.extend(facts.values for facts in one.files.values())
    # Numbers of one side alone mean nothing to the other: read as objects, they would merge.
    numbering = numbered_references(inputs, reading, marked)
    if numbering is None:
        numbering = numbered_objects(inputs, reading, [*marked, *predicted])
    if numbering is None:
        numbering = unclassed_objects(inputs, reading, predicted)
    if numbering is not None:
        findings, reading = [*findings, numbering], {**reading, **numbering.reading}
    try:
        result = check_files(inputs.references, inputs.predictions, inputs.groups, **reading)
    except InputError as error:
        return _checkup(surveys, [*findings, refusal(error, fspath(inputs.references))], [])
    # Cases that have no file are told above; an empty file is a statement.
    of_objects = [symptom for symptom in result.findings if symptom.code not in TOLD]
    commands = result.commands
    # Volumes are not rewritten: what no option reads rightly has no command.
    if any("--repair" in shlex.split(command) for command in commands):
        commands = ()
    # Many objects with other values are not to be set aside: the values mean something else.
    unknown = [symptom for symptom in of_objects if symptom.code == "unknown-category"]
    if any(symptom.count > MOST_UNKNOWN * symptom.total for symptom in unknown):
        commands = ()
        is_scored = len(surveys[0].values) == 1 and all(map(_has_plateaus, surveys[1:]))
        scores = whole_scores(inputs, reading) if is_scored else None
        if scores is not None:
            return _with_whole_scores(inputs, options, surveys, [*findings, scores])
        if len(surveys[0].values) == 1:
            of_objects = [_with_score_hint(symptom) for symptom in of_objects]
    whole = _checkup(surveys, [*findings, *of_objects], commands)
    if not commands or not inputs.predictions:
        return replace(whole, refused=whole.refused or result.refused)
    values = [one.values for one in surveys]
    lines = segmentation_commands(inputs, {**reading, **options}, values)
    return replace(whole, refused=whole.refused or result.refused, voxel_commands=tuple(lines))


def _has_plateaus(one: Survey) -> bool:
    """Return whether every component above 0 has one value, as in detection maps."""
    return all(facts.plateaus for facts in one.files.values() if facts.high > 0)


def _with_whole_scores(
    inputs: Inputs,
    options: Mapping[str, str],
    surveys: Sequence[Survey],
    findings: Sequence[Symptom],
) -> VolumeCheckup:
    """Return the checkup of detection maps whose scores are whole numbers."""
    choices = {**options, "preset": OF_CANDIDATES}
    for model in inputs.predictions:
        choices[f"normalise {model}"] = "odds"
    line = tried_maps(inputs, choices)
    return _checkup(surveys, findings, [] if line is None else [line])


def _with_score_hint(symptom: Symptom) -> Symptom:
    """Return the finding on values of no class with what whole scores of candidates need."""
    if symptom.code != "unknown-category":
        return symptom
    hint = "if they are scores of candidates, calipers maps with --preset picai --normalise odds"
    return replace(symptom, hint="; ".join(filter(None, [symptom.hint, hint])))


def _check_alone(inputs: Inputs) -> VolumeCheckup:
    """Examine one folder: references, or predictions before they are submitted."""
    reading, source = inputs.reading, inputs.references
    one = survey(source, "labels", reading.get("reference_pattern"), inputs)
    if one.files and not one.is_labels:
        one = replace(one, role="predictions")
    findings = [*unreadable(one), *odd_cases(one)]
    if one.role == "predictions":
        findings += scale(one, "", {})
    geometry = reading.get("geometry")
    if geometry is not None:
        images = survey_headers(geometry)
        findings += [*cases(images, one, {}), *grids(images, one, None, {})]
    if one.is_labels and not any(symptom.level == "error" for symptom in findings):
        return _with_objects(inputs, {}, [one], findings)
    return _checkup([one], findings, [])


def survey_headers(source: PathName) -> Survey:
    """Return the headers of the images of a folder; their values are not looked at."""
    result = Survey(fspath(source), "images")
    for name, path in list_samples(Path(fspath(source)), "images").files.items():
        volume = open_volume(path, role="image")
        result.files[name] = FileFacts(volume, 0.0, 0.0, True, False)
    return result
