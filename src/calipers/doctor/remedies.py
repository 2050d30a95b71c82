# SPDX-License-Identifier: Apache-2.0
"""From fixes to commands: each is carried out before it is printed.

A fix that an option of reading expresses is tried by reading the files again with that option, as
the command would. For all others the predictions are rewritten (``--repair``): the rewritten file
is written to a temporary folder and read again. What fails here is not proposed. `Inputs` are the
files and options of the user, a `Plan` collects the fixes of one file of predictions; `commands_of`
returns lines of the command line and the rewritten predictions.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from calipers.arrays import I64
from calipers.data.cohort import Cohort, Images
from calipers.data.rules import as_predictions, examine, settle
from calipers.doctor.findings import Symptom
from calipers.doctor.name_symptoms import IMAGE_NAMES
from calipers.doctor.symptoms import REPEATED
from calipers.doctor.trial import Case, RawPredictions, overlaps, share_met
from calipers.errors import CalipersError
from calipers.io.consensus import EACH
from calipers.io.read import PathName, read_all
from calipers.io.reader import ImageList, ObjectPart, Options
from calipers.io.write import write

# Options of reading and their defaults, which a command does not repeat.
DEFAULTS: Mapping[str, Any] = {
    "format": None,
    "box_format": None,
    "columns": None,
    "score_scale": "unit",
    "ids_as_strings": False,
    "masks": "auto",
    "coco_ignore": True,
    "readers": None,
    "reader_overlap": 0.5,
    "outside": "keep",
    "allow_loss": 0.5,
    "labels": "classes",
    "scores": None,
    "segment": None,
    "pattern": None,
    "reference_pattern": None,
    "missing_volumes": "error",
    "geometry": None,
    "place": None,
    "where": None,
    "all_images": False,
    "lenient": False,
}
# Options that say something about the predictions only, or about the file that was rewritten.
OF_PREDICTIONS = ("score_scale", "ids_as_strings", "columns", "format")
MOST_LOST = 0.1  # share of predictions that rewriting may leave out


@dataclass(frozen=True)
class Inputs:
    """The files of a checkup, and the keywords of `calipers.read` that the user chose."""

    references: PathName
    predictions: Mapping[str, PathName]
    groups: PathName | None
    reading: Mapping[str, Any]
    preset: str = ""  # by which references of this format are judged
    # called with (name of the step, work done, work in all)
    progress: Callable[[str, int, int], None] | None = field(default=None, compare=False)

    @cached_property
    def options(self) -> Options:
        """The options of an examination: it counts all problems, and stops at none."""
        return Options.from_keywords(**{**self.reading, "lenient": True, "inspecting": True})

    def with_reference_format(self, box_format: str) -> Inputs:
        """Return the inputs with another box format of the references."""
        both = (box_format, self.options.prediction_box_format)
        return replace(self, reading={**self.reading, "box_format": both})

    def with_prediction_format(self, box_format: str) -> Inputs:
        """Return the inputs with another box format of the predictions."""
        both = (self.options.box_format, box_format)
        return replace(self, reading={**self.reading, "box_format": both})

    def with_readers(self, rule: str) -> Inputs:
        """Return the inputs with a rule for several readers of an image."""
        return replace(self, reading={**self.reading, "readers": rule})

    def arguments(self, names: Sequence[str]) -> list[str]:
        """Return files of predictions as a command names them."""
        words = []
        for name in names:
            path = fspath(self.predictions[name])
            words.append(path if Path(path).stem == name else f"{name}={path}")
        return words


@dataclass
class Plan:
    """The fixes of one file of predictions."""

    name: str
    fixes: list[Symptom] = field(default_factory=list)
    models: list[tuple[str, ObjectPart, Case]] = field(default_factory=list)

    def add(self, model: str, part: ObjectPart, case: Case, symptoms: Sequence[Symptom]) -> None:
        """Add a model of the file, with its case after all fixes."""
        self.models.append((model, part, case))
        self.fixes += [symptom for symptom in symptoms if symptom.remedy is not None]

    @property
    def reading(self) -> dict[str, Any]:
        """The options of reading that the fixes need."""
        options: dict[str, Any] = {}
        for symptom in self.fixes:
            options.update(symptom.reading)
        return options

    @property
    def is_rewritten(self) -> bool:
        """Whether some fix is no option of reading."""
        return any(symptom.is_rewritten for symptom in self.fixes)


def commands_of(inputs: Inputs, plans: Sequence[Plan]) -> tuple[list[str], dict[str, Cohort]]:
    """Return the commands that work, and the rewritten predictions by model."""
    readings = [plan.reading for plan in plans]
    is_joint = all(reading == readings[0] for reading in readings)
    if is_joint and not any(plan.is_rewritten for plan in plans):
        names = [plan.name for plan in plans]
        line = _tried(inputs, names, readings[0], plans)
        if line is not None:
            return [line], {}
    commands: list[str] = []
    repaired: dict[str, Cohort] = {}
    for plan in plans:
        line = None
        if not plan.is_rewritten:
            line = _tried(inputs, [plan.name], plan.reading, [plan])
        if line is not None:
            commands.append(line)
            continue
        # An option may not fit, such as a box format beside columns that name another one.
        cohort = _rewritten(inputs, plan)
        if cohort is not None:
            commands += _repair_lines(inputs, plan, cohort)
            repaired[plan.models[0][0]] = cohort
    return commands, repaired


def lenient_commands(inputs: Inputs) -> list[str]:
    """Return the command that sets broken records aside, if enough is left for it to run."""
    line = _tried(inputs, list(inputs.predictions), {"lenient": True}, ())
    return [] if line is None else [line]


def _tried(
    inputs: Inputs, names: Sequence[str], reading: Mapping[str, Any], plans: Sequence[Plan]
) -> str | None:
    """Return the command with these options if it reads the files, and no fewer objects meet."""
    keywords = {**inputs.reading, **reading}
    keywords.setdefault("lenient", False)
    paths = {name: inputs.predictions[name] for name in names}
    try:
        options = Options.from_keywords(**keywords)
        cohort = read_all(inputs.references, paths, inputs.groups, options).cohort
    except CalipersError:
        return None
    for plan in plans:
        for model, _, case in plan.models:
            if model not in cohort.models or not _keeps(cohort, model, case):
                return None
    return _line(inputs, inputs.arguments(names), keywords)


def _keeps(cohort: Cohort, model: str, case: Case) -> bool:
    """Return whether a cohort that was read has the overlaps that the fixed sample promised."""
    n = len(case.sample)
    expected = share_met(overlaps(case.cohort, case.sample), n)
    return share_met(overlaps(cohort, RawPredictions.of(cohort.models[model])), n) >= 0.9 * expected


def _rewritten(inputs: Inputs, plan: Plan) -> Cohort | None:
    """Return a cohort with the fixed predictions of a file of one model, if a copy can be read."""
    if len(plan.models) != 1 or not plan.fixes:
        return None
    model, part, case = plan.models[0]
    sample = case.sample
    delivery = part.delivery
    is_moved = sample.boxes.shape != delivery.boxes.shape or bool(
        (sample.boxes != delivery.boxes).any() or sample.box_format != delivery.box_format
    )
    # Masks would still lie where the boxes were.
    if is_moved and delivery.masks is not None:
        return None
    delivery = replace(
        delivery,
        image=sample.image,
        label=sample.label,
        boxes=sample.boxes.copy(),
        box_format=sample.box_format,
        score=sample.score,
    )
    cohort = case.cohort
    if inputs.options.all_images and inputs.groups is None:
        cohort, image = _with_unlisted(cohort, sample)
        delivery = replace(delivery, image=image)
    delivery = delivery.rows((delivery.image >= 0) & (sample.label >= 0))
    sizes = cohort.images.size
    scale = plan.reading.get("score_scale", inputs.options.score_scale)
    findings = examine(delivery, sizes, "predictions", score_scale=scale, declared=True)
    delivery, _, _ = settle(delivery, findings, part.source, lenient=True)
    # Copies of other predictions are no loss.
    n_copies = sum(symptom.count for symptom in plan.fixes if symptom.code == REPEATED)
    # Nor are predictions on images that the references do not list, where a finding says so.
    if any(symptom.code == IMAGE_NAMES for symptom in plan.fixes):
        n_copies += len(sample.image_names)
    if len(delivery) < (1 - MOST_LOST) * (part.n_records - n_copies):
        return None
    cohort = cohort.with_predictions(model, as_predictions(delivery, sizes))
    with TemporaryDirectory() as folder:
        copy = Path(folder) / _file_name(cohort, model)
        write(cohort, copy, what=model)
        try:
            options = Options.from_keywords(**_of_copy(inputs, plan))
            again = read_all(inputs.references, {model: copy}, inputs.groups, options).cohort
        except CalipersError:
            return None
    same = np.array_equal(again.models[model].score, cohort.models[model].score)
    return cohort if same and _keeps(again, model, case) else None


def _with_unlisted(cohort: Cohort, sample: RawPredictions) -> tuple[Cohort, I64]:
    """Return a cohort with the images that only predictions name, without references, and the image
    of every prediction.
    """
    images = cohort.images
    names = dict.fromkeys(map(str, sample.image_names.values()))
    listed = ImageList(images.ids, images.size, images.spacing, dict(images.groups))
    further = listed.with_further(names)
    places = {name: k for k, name in enumerate(further.ids)}
    image = sample.image.copy()
    for row, name in sample.image_names.items():
        image[row] = places[str(name)]
    offsets = cohort.references.offsets
    added = np.full(len(further.keys) - len(images.ids), offsets[-1])
    table = Images(further.ids, further.size, further.spacing, further.groups)
    references = replace(cohort.references, offsets=np.concatenate([offsets, added]))
    return replace(cohort, images=table, references=references, models={}), image


def _file_name(cohort: Cohort, model: str) -> str:
    """Return a name for rewritten predictions: tables match ids as text, but hold no masks."""
    masks = cohort.models[model].masks
    return "repaired.csv" if masks is None else "repaired.json"


def _of_copy(inputs: Inputs, plan: Plan) -> dict[str, Any]:
    """Return the keywords that read a rewritten file beside the references."""
    keywords = {name: value for name, value in inputs.reading.items() if name not in OF_PREDICTIONS}
    if "score_scale" in plan.reading:
        keywords["score_scale"] = plan.reading["score_scale"]
    if inputs.options.box_format is not None:
        keywords["box_format"] = (inputs.options.box_format, None)
    keywords.setdefault("lenient", False)
    return keywords


def _repair_lines(inputs: Inputs, plan: Plan, cohort: Cohort) -> list[str]:
    name = _file_name(cohort, plan.models[0][0])
    if len(inputs.predictions) > 1:
        name = f"{plan.name}-{name}"
    # The command may not replace the repairs of another day.
    stem, suffix = Path(name).stem, Path(name).suffix
    number = 2
    while Path(name).exists():
        name = f"{stem}-{number}{suffix}"
        number += 1
    words = inputs.arguments([plan.name])
    first = _line(inputs, words, inputs.reading, verb="doctor", more=["--repair", name])
    argument = name if Path(name).stem == plan.name else f"{plan.name}={name}"
    return [first, _line(inputs, [argument], _of_copy(inputs, plan))]


def _line(
    inputs: Inputs,
    files: Sequence[str],
    reading: Mapping[str, Any],
    *,
    verb: str = "evaluate",
    more: Sequence[str] = (),
) -> str:
    words = ["calipers", verb, fspath(inputs.references), *files]
    if inputs.groups is not None:
        words += ["--groups", fspath(inputs.groups)]
    if inputs.preset and verb == "evaluate" and reading.get("readers") != EACH:
        words += ["--preset", inputs.preset]
    return shlex.join([*words, *option_words(reading), *more])


def option_words(reading: Mapping[str, Any]) -> list[str]:
    """Return keywords of `calipers.read` as words of the command line, without the defaults."""
    words: list[str] = []
    for name, default in DEFAULTS.items():
        value = reading.get(name, default)
        if value == default:
            continue
        if name == "scores" and isinstance(value, Mapping):
            for model, table in value.items():
                words += ["--scores", f"{model}={fspath(table)}"]
            continue
        words.append("--" + name.replace("_", "-"))
        if isinstance(value, tuple):
            words.append(",".join(side or "" for side in value))
        elif isinstance(value, Mapping):
            words.append(",".join(f"{key}={column}" for key, column in value.items()))
        elif name == "coco_ignore":
            words.append("off")
        elif value is not True:
            words.append(str(value))
    return words
