# SPDX-License-Identifier: Apache-2.0
"""Which files are meant, and do they open? References and predictions before any rule.

References in a box format that cannot be right are opened in one that can be, and those of several
readers by the usual rule (`open_inputs`). A folder may hold the file that is meant, and a file may
be a part of the folder that is meant (`references_inside`, `right_places`).
`calipers.doctor.checkup` calls these.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from os import fspath
from pathlib import Path

import numpy as np

from calipers.data.objects import to_corners
from calipers.data.rules import examine
from calipers.doctor.box_trials import LAYOUTS
from calipers.doctor.findings import MOST_EXAMPLES, Symptom, few, refusal
from calipers.doctor.remedies import Inputs
from calipers.errors import CalipersError, InputError
from calipers.io.assemble import apply_rules
from calipers.io.read import (
    OpenReferences,
    PathName,
    open_references,
    pending_models,
    sniff,
    with_predicted_images,
)
from calipers.io.reader import ObjectPart, Options, ReferenceIndex
from calipers.io.source import InputFile, model_name

USUAL_READERS = "majority"  # the rule for several readers that a command proposes
PICTURES, ANNOTATIONS = "label-volumes", "annotations"  # format of pictures, folder beside them
REFERENCES = (".json", ".xml", ".csv", ".tsv", ".parquet", ".sqlite")  # of whole data sets
RESULTS = (".json", ".csv", ".tsv", ".parquet")  # files in which tools write predictions
MOST_RESULTS = 20  # of a folder that are tried


def open_inputs(inputs: Inputs) -> tuple[OpenReferences, list[Symptom], Inputs]:
    """Open the references, with the images that only predictions name if these count."""
    opened, symptoms, inputs = _open_references(inputs)
    if inputs.options.all_images and inputs.groups is None:
        paths = list(inputs.predictions.items())
        # Files that cannot be read are findings of their own.
        with suppress(InputError):
            opened = with_predicted_images(opened, paths, inputs.options)
    return opened, symptoms, inputs


def _open_references(inputs: Inputs) -> tuple[OpenReferences, list[Symptom], Inputs]:
    """Open the references; boxes in a format that cannot be right are read in one that can be."""
    try:
        opened = open_references(inputs.references, inputs.groups, inputs.options)
    except InputError as error:
        # A rule that the user chose, or that was tried already, did not help.
        if error.rule != "several-readers" or inputs.options.readers is not None:
            raise
        # Which rule is right is a question of the study: the hint lists all, the command has one.
        symptom = refusal(error, fspath(inputs.references))
        opened, symptoms, inputs = _open_references(inputs.with_readers(USUAL_READERS))
        return opened, [symptom, *symptoms], inputs
    try:
        apply_rules(opened.file.part, opened.file.images, "references", inputs.options)
    except InputError as error:
        box_format = _fitting_format(opened)
        if error.rule != "box-format-suspect" or box_format is None:
            raise
        symptom = refusal(error, opened.input_file.file)
        symptom = replace(
            symptom,
            code="box-format",
            message=f"references are {box_format}, read as {opened.file.part.delivery.box_format}",
            hint=f"read the references as {box_format}",
        )
        inputs = inputs.with_reference_format(box_format)
        opened = open_references(inputs.references, inputs.groups, inputs.options)
        return opened, [symptom], inputs
    return opened, [], inputs


def _fitting_format(opened: OpenReferences) -> str | None:
    """Return the only box format in which all references lie inside of their images."""
    delivery, sizes = opened.file.part.delivery, opened.file.images.size
    delivery = delivery.rows(delivery.image >= 0)
    fitting = []
    for layout in LAYOUTS:
        for name in (layout, f"{layout}-normalised"):
            trial = replace(delivery, box_format=name)
            is_sound = not examine(trial, sizes, "references", declared=True, inside=True)
            if is_sound and name != delivery.box_format:
                fitting.append(name)
    # Fractions lie inside of an image as pixels, too: that is what was suspected.
    scaled = [name for name in fitting if name.endswith("-normalised")]
    if delivery.box_format in scaled or (delivery.boxes <= 1).all():
        fitting = [name for name in scaled if name.startswith(delivery.box_format)] or scaled
    return fitting[0] if len(fitting) == 1 else None


def read_parts(
    name: str, path: PathName, index: ReferenceIndex, options: Options
) -> list[tuple[InputFile, str, str, ObjectPart]]:
    """Return the models of a file or folder with what their reader delivers, before any rule."""
    models = pending_models(name, path, index, options)
    return [(file, model, kind, read_part()) for file, model, kind, read_part in models]


def right_places(
    path: PathName, index: ReferenceIndex, options: Options, error: InputError
) -> tuple[list[str], Symptom]:
    """Return the files in a folder, or the folder around a file, that hold the predictions which
    the path itself does not, and the finding that says so; nothing if there are none.
    """
    about = fspath(path)
    inside, n_alike = _files_inside(path, index, options)
    if not inside:
        inside = _places_of_models(path, index, options)
    if len(inside) == 1:
        return inside, only_file(path, inside[0], "predictions", n_alike)
    if inside:
        what = "folders" if Path(inside[0]).is_dir() else "files"
        message = f"the folder as a whole is not an input; several {what} in it hold predictions"
        hint = f"give these {what}: each is a model"
        n = len(inside)
        return inside, Symptom("not-a-file", "error", about, message, n, n, hint, few(inside))
    around = _folder_around(path, index, options)
    places = [] if around is None else [around]
    message = f"expected {error.expected}; the folder has what the file lacks"
    return places, Symptom(
        "part-of-a-folder", "error", about, message, 1, 1, "give the folder", tuple(places)
    )


def only_file(folder: PathName, inside: str, what: str, n_alike: int = 1) -> Symptom:
    """Return the finding that one file of a folder has to be given, not the folder."""
    message = f"the folder as a whole is not an input; one file in it holds {what}"
    if n_alike > 1:
        message = (
            f"the folder as a whole is not an input; {n_alike} files in it hold the same {what}"
        )
    return Symptom(
        "not-a-file", "error", fspath(folder), message, 1, n_alike, "give this file", (inside,)
    )


def predictions_beside(references: PathName, inputs: Inputs) -> dict[str, PathName]:
    """Return the files with predictions in the folder of references, by the names of models."""
    try:
        index = open_inputs(replace(inputs, references=references))[0].index
    except CalipersError:
        return {}
    folder = Path(fspath(references)).parent
    files, _ = _files_inside(folder, index, inputs.options.of_predictions())
    return {model_name(file): file for file in files}


def references_inside(inputs: Inputs) -> str | None:
    """Return the only file with references in a folder that is no input itself, or whose pictures
    have them in a file beside; of several, that in which all predicted images are. Its folder
    ``annotations`` may be the input, or have the file.

    Raises
    ------
    InputError
        Several files have references, and predictions do not tell which is meant.
    """
    place = Path(fspath(inputs.references))
    if not place.is_dir() or inputs.options.format is not None:
        return None
    problem = None
    try:
        if sniff(fspath(place)).format != PICTURES:
            return None
    except InputError as error:
        if error.rule != "not-a-file":
            return None
        problem = error
    files = [file for folder in (place, place / ANNOTATIONS) for file in _files_of(folder)]
    readable = [file for file in files if _has_references(file, inputs)]
    # The folder of the files may be an input, such as that of LUNA16.
    if (place / ANNOTATIONS).is_dir() and _has_references(place / ANNOTATIONS, inputs):
        readable = [place / ANNOTATIONS]
    if len(readable) > 1 and inputs.predictions:
        readable = [file for file in readable if _knows_all_images(file, inputs)] or readable
    if len(readable) == 1:
        return fspath(readable[0])
    if readable and problem is not None:
        names = ", ".join(map(fspath, readable[:MOST_EXAMPLES]))
        raise problem.with_hint("not-a-file", f"these files have references, give one: {names}")
    return None


def _files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that may be annotations, in the order of their names."""
    if not folder.is_dir():
        return []
    files = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in REFERENCES]
    return [file for file in files if not file.name.startswith(".")][:MOST_RESULTS]


def _has_references(file: Path, inputs: Inputs) -> bool:
    try:
        return len(open_inputs(replace(inputs, references=file))[0].file.part.delivery) > 0
    except CalipersError:
        return False


def _knows_all_images(file: Path, inputs: Inputs) -> bool:
    """Return whether references list every image of all predictions that can be read."""
    index = open_inputs(replace(inputs, references=file))[0].index
    for name, path in inputs.predictions.items():
        try:
            parts = read_parts(name, path, index, inputs.options.of_predictions())
        except CalipersError:
            continue
        for _, _, _, part in parts:
            if (part.delivery.image < 0).any():
                return False
    return True


def _files_inside(path: PathName, index: ReferenceIndex, options: Options) -> tuple[list[str], int]:
    """Return the files with predictions in a folder that is none itself, such as the results that a
    tool writes beside curves and weights, and how many hold the same as the first. Of these only
    the first is returned, and files that name other images are no predictions for these.
    """
    place = Path(fspath(path))
    if not place.is_dir():
        return [], 0
    files = [entry for entry in sorted(place.iterdir()) if entry.suffix.lower() in RESULTS]
    readable: dict[str, list[ObjectPart]] = {}
    for file in files[:MOST_RESULTS]:
        try:
            readable[fspath(file)] = [part for *_, part in read_parts("", file, index, options)]
        except CalipersError:
            continue
    ours = {file: parts for file, parts in readable.items() if not _names_others(parts)} or readable
    distinct: list[str] = []
    for name, parts in ours.items():
        if not any(_are_alike(parts, ours[other]) for other in distinct):
            distinct.append(name)
    return distinct, 1 + len(ours) - len(distinct)


def _places_of_models(path: PathName, index: ReferenceIndex, options: Options) -> list[str]:
    """Return the folders of a folder that hold predictions each, or the only file of each that
    does: so experiments keep their models side by side, or the only one.
    """
    place = Path(fspath(path))
    if not place.is_dir():
        return []
    folders = [entry for entry in sorted(place.iterdir()) if entry.is_dir()]
    places: list[str] = []
    for folder in folders[:MOST_RESULTS]:
        if _is_model(folder, index, options):
            places.append(fspath(folder))
            continue
        inside, _ = _files_inside(folder, index, options)
        # Which of several files of a folder is meant, nobody knows.
        if len(inside) > 1:
            return []
        places += inside
    # As runs/detect/exp of YOLO.
    if not places and len(folders) == 1:
        return _places_of_models(folders[0], index, options)
    return places


def _is_model(folder: Path, index: ReferenceIndex, options: Options) -> bool:
    """Return whether a folder as a whole holds predictions for these images."""
    try:
        parts = [part for *_, part in read_parts("", folder, index, options)]
    except CalipersError:
        return False
    has_boxes = any(len(part.delivery) for part in parts)
    return has_boxes and not _names_others(parts)


def names_of_models(places: Sequence[str]) -> dict[str, str]:
    """Return files by the names of their models: their own names, or those of their folders where
    the own ones are equal.
    """
    names = [model_name(place) for place in places]
    if len(set(names)) < len(names):
        names = [Path(place).parent.name for place in places]
    return dict(zip(names, places))


def _names_others(parts: Sequence[ObjectPart]) -> bool:
    return any((part.delivery.image < 0).any() for part in parts)


def _are_alike(parts: Sequence[ObjectPart], others: Sequence[ObjectPart]) -> bool:
    """Return whether two files have the same boxes, classes and scores, in any order."""
    if len(parts) != 1 or len(others) != 1:
        return False
    tables = []
    for delivery in (parts[0].delivery, others[0].delivery):
        if delivery.score is None or delivery.masks is not None:
            return False
        corners = to_corners(delivery.boxes, delivery.box_format.partition("-")[0])[0]
        rows = np.column_stack([delivery.image, delivery.label, delivery.score, corners])
        tables.append(rows[np.lexsort(rows.T[::-1])])
    first, second = tables
    return first.shape == second.shape and bool(np.allclose(first, second, atol=1e-3))


def _folder_around(path: PathName, index: ReferenceIndex, options: Options) -> str | None:
    """Return the folder of a file that does not hold its predictions itself, if that folder does,
    as a whole: a list of jobs whose results lie beside it.
    """
    place = Path(fspath(path))
    if not place.is_file():
        return None
    folder = fspath(place.parent)
    try:
        if sniff(folder).format != sniff(fspath(path)).format:
            return None
        read_parts("", folder, index, options)
    except CalipersError:
        return None
    return folder
