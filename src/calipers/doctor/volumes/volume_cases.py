# SPDX-License-Identifier: Apache-2.0
"""Which cases a folder of volumes holds: names, missing and odd ones, copies, and their groups.

Names of predictions are compared with those of the references; a difference that a pattern
expresses becomes an option of the command. References with the same voxels in two cases are copies,
whatever they are called. A table of groups is read as `calipers maps` reads it.

`calipers.doctor.volumes.volume_folders` calls the checks on the files that it has surveyed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calipers.doctor.findings import MOST_EXAMPLES, Symptom, few, refusal
from calipers.doctor.reference_checks import torn_patients
from calipers.doctor.remedies import Inputs
from calipers.doctor.spelling import same_names
from calipers.errors import InputError
from calipers.io.name_patterns import (
    KindOfFile,
    class_folders,
    proposed_patterns,
    said_choices,
    shared_class_folders,
    shared_kinds,
)
from calipers.io.read import PathName
from calipers.io.reader import ImageList, Options
from calipers.io.tables.objects import add_groups
from calipers.io.tables.table import open_table
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.pairing import list_samples
from calipers.io.volumes.samples import are_of_one_image
from calipers.io.volumes.volume import Volume

if TYPE_CHECKING:
    from calipers.doctor.volumes.volume_folders import Survey


def names(labels: Survey, one: Survey, options: dict[str, str]) -> Iterator[Symptom]:
    """Names that differ by a prefix or suffix; the patterns are added to ``options``."""
    unknown = [name for name in one.files if name not in labels.files]
    if not unknown or not labels.files:
        return
    patterns, n_pairs, choices = proposed_patterns(labels.paths, one.paths)
    if choices:
        yield Symptom(
            "image-names",
            "error",
            one.source,
            f"every case has a folder with several files of which one may be meant; {n_pairs} "
            "cases pair",
            len(unknown),
            len(one.files),
            said_choices(choices),
            few(unknown),
        )
        return
    if not patterns or n_pairs < max(1, len(one.files) // 2):
        return
    if any(options.get(key, pattern) != pattern for key, pattern in patterns.items()):
        return
    options.update(patterns)
    words = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in patterns.items())
    yield Symptom(
        "image-names",
        "error",
        one.source,
        f"names differ from those of the references; {n_pairs} pair with patterns",
        len(unknown),
        len(one.files),
        f"pass {words}",
        few(unknown),
        reading=patterns,
    )


def kinds_of_files(inputs: Inputs) -> list[KindOfFile]:
    """Return the kinds of files that the cases of both folders have, if one side has several: a
    file for each class, or images beside labels; or the folders of classes that both sides have,
    with a file of every case in each.
    """
    reading = inputs.reading
    if len(inputs.predictions) != 1 or reading.get("pattern") or reading.get("reference_pattern"):
        return []
    (path,) = inputs.predictions.values()
    references = list_samples(Path(fspath(inputs.references)), "references").files
    predictions = list_samples(Path(fspath(path)), "predictions").files
    kinds, n_kinds = shared_kinds(references, predictions)
    if n_kinds > 1:
        return kinds
    kinds = shared_class_folders(references, predictions)
    return kinds if kinds and _are_of_one_image(references) else []


def _are_of_one_image(files: Mapping[str, str]) -> bool | None:
    """Return whether the folders of files (name -> path) are the classes of the same images."""
    folders = class_folders(files)
    if folders is None:
        return False
    headers = {}
    for name, path in files.items():
        try:
            headers[name] = open_volume(path, role="labels")
        except InputError:
            # Whoever reads the file says what is wrong with it.
            continue
    return are_of_one_image(folders, headers)


def unclear_folders(labels: Survey) -> Iterator[Symptom]:
    """Folders with files of the same names, which may be classes: pictures of one size, or volumes
    whose classes no pattern pairs.
    """
    folders = class_folders(labels.files)
    headers = {name: facts.volume for name, facts in labels.files.items()}
    if folders is None or are_of_one_image(folders, headers) is False:
        return
    names = list(folders.cases)
    patterns = [f"{folders.above}{name}/{{name}}{folders.suffixes[name]}" for name in names]
    yield Symptom(
        "class-folders",
        "warning",
        labels.source,
        "folders have files of the same names, which are read as images of one class",
        len(names),
        len(names),
        "if the folders are classes of the same images, evaluate one after the other: "
        f"--reference-pattern '{patterns[0]}' --pattern '{patterns[0]}'",
        few(names),
    )


def several_kinds(inputs: Inputs, kinds: Sequence[KindOfFile]) -> Symptom:
    """Return the finding that every case has several files, of which each needs a command."""
    (path,) = inputs.predictions.values()
    message = "every case has several files: read together, each would be a case of the same class"
    hint = "evaluate this kind of file, with its patterns"
    if len(kinds) > 1:
        hint = "evaluate one kind of file after the other, each with its patterns"
    names = few([kind.kind for kind in kinds])
    return Symptom(
        "several-kinds", "error", fspath(path), message, len(kinds), len(kinds), hint, names
    )


def misspelt(labels: Survey, one: Survey) -> list[Symptom]:
    """Return the finding on names that differ in a way that no pattern expresses, such as zeros."""
    unknown = [name for name in one.files if name not in labels.files]
    if not unknown or len(unknown) < len(one.files):
        return []
    match = same_names(unknown, list(labels.files))
    if match is None:
        return []
    names = list(labels.files)
    pairs = [f"{name} is {names[k]}" for name, k in match.images.items()]
    symptom = Symptom(
        "image-names",
        "error",
        one.source,
        f"names differ from those of the references by {match.words}",
        len(unknown),
        len(one.files),
        "name the files as those of the references",
        few(pairs),
    )
    return [symptom]


def cases(labels: Survey, one: Survey, options: dict[str, str]) -> Iterator[Symptom]:
    """Samples that one side lacks."""
    # Of references of which none can be opened, the names alone are no cases.
    if not labels.files:
        return
    missing = [name for name in labels.files if name not in one.files]
    references = {*labels.files, *dict(labels.problems)}
    extra = [name for name in one.files if name not in references]
    is_mended = len(missing) < len(labels.files)
    # Files that are broken are not missing, and are told elsewhere.
    missing = [name for name in missing if name not in dict(one.problems)]
    if missing:
        if is_mended:
            options["missing"] = "empty"
        yield Symptom(
            "missing-cases",
            "error",
            one.source,
            "references without a prediction",
            len(missing),
            len(labels.files),
            "write a file for every case; else they count as images without any prediction",
            few(missing),
            reading={"missing": "empty"} if is_mended else {},
        )
    if extra:
        yield Symptom(
            "extra-cases",
            "error",
            one.source,
            "predictions without a reference",
            len(extra),
            len(one.files),
            "remove them, or give all references",
            few(extra),
        )


def odd_cases(one: Survey) -> Iterator[Symptom]:
    """Files that differ from nearly all others: number of axes, orientation."""
    kinds: dict[str, Callable[[Volume], str]] = {
        "axes": lambda volume: f"{volume.dimensions} axes",
        "orientation": lambda volume: volume.codes or "unknown",
    }
    for kind, text_of in kinds.items():
        texts = {name: text_of(facts.volume) for name, facts in one.files.items()}
        counts = Counter(texts.values())
        if len(counts) < 2:
            continue
        usual, n = counts.most_common(1)[0]
        odd = [name for name, text in texts.items() if text != usual]
        # Scanners differ in orientation; one file in ten that does is rather a mistake.
        if kind == "orientation" and len(odd) > 0.1 * len(texts):
            continue
        yield Symptom(
            f"odd-{kind}",
            "error" if kind == "axes" else "warning",
            one.source,
            f"files differ from the {n} others, which have {usual}",
            len(odd),
            len(texts),
            "save all files in the same way",
            few([f"{name}: {texts[name]}" for name in odd]),
        )


def copies(labels: Survey) -> Iterator[Symptom]:
    """References with exactly the voxels of another case, where something is marked."""
    by_content: dict[str, list[str]] = {}
    for name, facts in labels.files.items():
        if facts.digest:
            by_content.setdefault(facts.digest, []).append(name)
    twins = [names for names in by_content.values() if len(names) > 1]
    if twins:
        yield Symptom(
            "duplicate-images",
            "warning",
            labels.source,
            "label volumes have exactly the voxels of another case",
            sum(len(names) - 1 for names in twins),
            len(labels.files),
            "keep one case of each pair: copies make intervals too narrow",
            few([" and ".join(names[:3]) for names in twins[:MOST_EXAMPLES]]),
        )


def groups_of(labels: Survey, table: PathName | None) -> Iterator[Symptom]:
    """A table of groups that cannot be read with these cases, or tears patients apart."""
    if table is None or not labels.files:
        return
    unknown = np.full((len(labels.files), 3), np.nan)
    images = ImageList(list(labels.files), unknown, unknown, {})
    try:
        images, _ = add_groups(images, open_table(fspath(table)), Options())
    except InputError as error:
        yield refusal(error, fspath(table))
        return
    yield from torn_patients(images.groups, fspath(table))
