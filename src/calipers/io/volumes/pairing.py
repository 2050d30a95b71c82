# SPDX-License-Identifier: Apache-2.0
"""Pair the labels, maps and images of the same sample by their names.

In come folders, lists of paths or single files; out goes a `Pairing`, whose headers were all
checked and whose voxels were not read yet. `read_maps` is the front door, for
`calipers.maps.evaluate`; `pair` does its work. `list_samples` names the samples of a folder, a list
or one file; the readers of bags call it too.

Names must agree exactly, in composed Unicode (NFC): a name is the path below the folder without the
extension of a volume, or the part of it that a pattern with ``{name}`` cuts out. If names do not
agree, nothing is guessed: the error quotes a few of them, and `calipers.io.name_patterns` adds the
patterns that would pair most.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from calipers.arguments import names_arguments
from calipers.errors import InputError, UsageError, did_you_mean, raise_problems
from calipers.io.archives import is_archive, list_archive
from calipers.io.name_patterns import SLOT, proposal
from calipers.io.source import PICKLES, InputFile, list_files, open_source, require_file
from calipers.io.tables.delimited import decode
from calipers.io.tables.table import open_table, texts
from calipers.io.volumes.dataset_json import channel_number, labels_of
from calipers.io.volumes.open import extensions, open_volume, stem_of
from calipers.io.volumes.placing import (
    can_place,
    check_place,
    check_way,
    is_on_grid,
    on_one_grid,
    with_place_hint,
)
from calipers.io.volumes.samples import Pairing, SampleFiles, case_notes, check_pair, check_resize
from calipers.io.volumes.volume import DEFAULT, Limits, Volume

# A csv or tsv is a list of paths here, never a volume.
LISTS = (".txt", ".lst", ".csv", ".tsv")
# How nnU-Net names the channels of an image, and the archive of its softmax.
OF_NNUNET = ("plans.json", "dataset.json", ".pkl")  # files beside its predictions
CHANNEL, FIRST_CHANNEL, ARCHIVE = re.compile(r"_\d{4}$"), "_0000", ".npz"
Matcher = Callable[[str], str | None]

PathName = str | PathLike[str]
Patterns = str | Mapping[str, str] | None
MISSING = ("error", "empty", "skip")
# Names quoted in a message; the rest is only counted.
SHOWN = 5
TOLD = 64  # headers between two calls of a progress


@names_arguments
def read_maps(
    references: PathName,
    predictions: Mapping[str, PathName] | PathName,
    *,
    images: PathName | None = None,
    groups: PathName | None = None,
    **choices: Any,
) -> Pairing:
    """Pair label images or volumes with maps of scores.

    Voxels are read one sample at a time, when they are used.

    Parameters
    ----------
    references, predictions
        Folders with a file per sample, paired by name; lists of files; or single files. Several
        models as a mapping.
    images
        The images themselves, for the pictures of the report.
    groups
        A table with a row per sample: patient, centre, any column.
    choices
        Further arguments of `calipers.io.volumes.pairing.pair`: ``pattern``, ``reference_pattern``,
        ``missing``, ``resize``, ``place``, ``member``, ``segment``, ``channel``, ``progress``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np, calipers as cal
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("labels", "maps"):
    ...     (folder / name).mkdir()
    >>> np.save(folder / "labels" / "case1.npy", np.eye(8, dtype=np.uint8))
    >>> np.save(folder / "maps" / "case1.npy", np.eye(8, dtype=np.float32))
    >>> samples = cal.read_maps(folder / "labels", {"ours": folder / "maps"})
    >>> print(cal.evaluate_maps(samples, ci=False)["AP/dataset"])
    1.000, n = 1 image, 1 reference
    """
    pairing = pair(references, predictions, images, **choices)
    return pairing if groups is None else pairing.with_groups(groups)


@dataclass(frozen=True)
class _Options:
    """How files become volumes."""

    member: str | None
    resize: str | None
    place: str | None
    limits: Limits
    segment: int | None
    channel: int | None


def pair(
    references: PathName,
    predictions: Mapping[str, PathName] | PathName,
    images: PathName | None = None,
    pattern: Patterns = None,
    *,
    reference_pattern: str | None = None,
    image_pattern: str | None = None,
    missing: str = "error",
    resize: str | None = None,
    place: str | None = None,
    member: str | None = None,
    segment: int | None = None,
    channel: int | str | None = None,
    limits: Limits = DEFAULT,
    progress: Callable[[int, int], None] | None = None,
) -> Pairing:
    """Pair label volumes with the maps of one or more models, and check all headers before a voxel
    is read.

    Parameters
    ----------
    references, predictions, images
        Folders, zip or tar archives of arrays, lists of paths (text with a path per line; csv with
        columns ``reference``, ``prediction`` or the name of the model, ``image`` and, optionally,
        ``name``), or single files. Predictions as model -> source, or one source for the model
        ``model``.
    pattern
        The paths of predictions with ``{name}`` in place of the sample's name, such as
        ``"{name}_pred.nii.gz"``; or one pattern per model. Without a pattern the name is the path
        below the folder without extension.
    reference_pattern, image_pattern
        The same for references and images.
    missing
        What to do with samples without a map: ``"error"``, ``"empty"`` (the model found nothing),
        or ``"skip"`` (use only samples that all models have; maps without a reference are skipped
        too). The notes count them.
    resize
        ``"nearest"`` or ``"linear"``: maps may have other shapes than their labels and are resized
        to them when they are loaded.
    place
        ``"nearest"`` or ``"linear"``: maps may lie on other grids than their labels (crops, turned
        or shifted volumes), and are put on that of the labels by the affines of both; 0 where a map
        does not reach.
    member
        The array of npz archives that hold several.
    segment
        The only segment of DICOM segmentations that is read.
    channel
        The channel of maps that have several: its number from 0, or its name in the
        ``dataset.json`` of nnU-Net, in the folder of the maps or of the references, or above one.
    progress
        Called with (samples whose headers were read, samples in all).

    Returns
    -------
    Pairing
        A sequence of `SampleFiles` in the order of their names, with notes.
    """
    if missing not in MISSING:
        raise UsageError(f"missing cannot be {missing!r}; {did_you_mean(missing, MISSING)}")
    check_resize(resize)
    check_way(place, resize)
    sources = dict(predictions) if isinstance(predictions, Mapping) else {"model": predictions}
    if not sources:
        raise UsageError("no model: give at least one folder of predictions")
    # References are listed first: every model is compared with them, not with each other.
    patterns = _patterns(pattern, sources)
    reference_files = list_samples(
        _path(references), "references", reference_pattern, ("reference", "path", "file")
    )
    notes = list(reference_files.notes)
    map_files: dict[str, SampleList] = {}
    for model, source in sources.items():
        columns = (model, "prediction", "path", "file")
        own_files = list_samples(
            _path(source), "predictions", patterns[model], columns, softmax=channel is not None
        )
        map_files[model] = _under_reference_name(own_files, reference_files)
        notes += own_files.notes
    # Images only make pictures, so a sample may lack one; a note counts those.
    image_files = None
    if images is not None:
        image_files = list_samples(
            _path(images), "images", image_pattern, ("image", "path", "file")
        )
        notes += image_files.notes
    names, name_notes = paired_names(reference_files, map_files, missing)
    notes += name_notes
    if image_files is not None:
        without = sum(name not in image_files.files for name in names)
        if without:
            notes.append(f"{without} of {len(names)} samples have no image")
    number = channel
    if isinstance(channel, str):
        folders = [_path(source) for source in (*sources.values(), references)]
        number, note = channel_number(channel, folders)
        notes += note
    if number is not None and int(number) < 0:
        raise UsageError(f"channels count from 0, got {number}")
    options = _Options(
        member, resize, place, limits, segment, None if number is None else int(number)
    )
    pairing = _open_all(names, reference_files, map_files, image_files, options, notes, progress)
    reading = {
        "pattern": pattern if pattern is None or isinstance(pattern, str) else dict(pattern),
        "reference_pattern": reference_pattern,
        "missing": missing,
        "resize": resize,
        "place": place,
        "channel": options.channel,
        "segment": segment,
        "member": member,
    }
    return replace(pairing, reading=reading)


def _path(name: PathName) -> Path:
    return Path(fspath(name))


def _patterns(pattern: Patterns, sources: Mapping[str, PathName]) -> dict[str, str | None]:
    if not isinstance(pattern, Mapping):
        return dict.fromkeys(sources, pattern)
    for model in pattern:
        if model not in sources:
            raise UsageError(
                f"there is a pattern for {model!r}, which is not a model; "
                f"{did_you_mean(model, sources)}"
            )
    return {model: pattern.get(model) for model in sources}


def _under_reference_name(own_files: SampleList, references: SampleList) -> SampleList:
    """Return a single file under the name of a single reference.

    A user who passes two files has paired them already, whatever they are called.
    """
    if not (own_files.single and references.single):
        return own_files
    name = next(iter(references.files))
    path = next(iter(own_files.files.values()))
    return SampleList(own_files.source, {name: path}, own_files.notes, True)


def paired_names(
    references: SampleList,
    predictions: Mapping[str, SampleList],
    missing: str,
    allowing: str = "--missing empty or --missing skip (missing='empty' in Python) allows it",
) -> tuple[list[str], list[str]]:
    """Return the names of the samples that are used, and notes on those that are not.

    ``allowing`` is the hint that names the option for missing predictions.
    """
    names, notes = list(references.files), []
    for model, one in predictions.items():
        unpredicted = [name for name in references.files if name not in one.files]
        extra = [name for name in one.files if name not in references.files]
        # A model without a single common name is a wrong folder, not a model that found nothing, so
        # "empty" and "skip" do not excuse it.
        if (
            (extra and missing != "skip")
            or (unpredicted and missing == "error")
            or len(unpredicted) == len(references.files)
        ):
            raise _unpaired(model, references, one, (unpredicted, extra), allowing)
        if unpredicted:
            what = "count as empty" if missing == "empty" else "are skipped"
            notes.append(
                f"{len(unpredicted)} of {len(references.files)} samples "
                f"have no prediction of {model} and {what}"
            )
        if extra:
            notes.append(f"{len(extra)} predictions of {model} have no reference and are skipped")
        if missing == "skip":
            names = [name for name in names if name in one.files]
    if not names:
        raise InputError(
            "a sample that all models have", rule="unpaired", file=references.source, value="none"
        )
    return names, notes


def _unpaired(
    model: str,
    references: SampleList,
    predictions: SampleList,
    alone: tuple[Sequence[str], Sequence[str]],
    allowing: str,
) -> InputError:
    """Return the error on names without a partner: of references, and of predictions."""
    unpredicted, extra = alone
    value = (
        f"{len(unpredicted)} references without prediction, "
        f"{len(extra)} predictions without reference"
    )
    hint = proposal(references.files, predictions.files)
    examples = []
    if unpredicted:
        examples.append(f"references without prediction: {_few(unpredicted)}")
    if extra:
        examples.append(f"predictions without reference: {_few(extra)}")
    parts = [*([hint] if hint else []), *examples]
    if not hint and unpredicted and not extra:
        parts.insert(0, allowing)
    return InputError(
        f"a prediction of {model} for every reference, by name",
        rule="unpaired",
        file=predictions.source,
        value=value,
        hint="; ".join(parts),
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(_shortened(name)) for name in names[:SHOWN]) + more


def _shortened(name: str) -> str:
    return name if len(name) <= 80 else name[:77] + "..."


def _open_all(
    names: Sequence[str],
    references: SampleList,
    predictions: Mapping[str, SampleList],
    images: SampleList | None,
    options: _Options,
    notes: list[str],
    progress: Callable[[int, int], None] | None,
) -> Pairing:
    """Open all headers; the problems of all samples are raised together."""
    samples: list[SampleFiles] = []
    problems: list[InputError] = []
    remarks: dict[str, int] = {}
    # One bad header must not hide the next: a user with a thousand files wants to see all of them.
    for n_done, name in enumerate(names, start=1):
        try:
            sample = _sample(name, references, predictions, images, options)
            for remark in _check_sample(sample, samples[:1], options):
                remarks[remark] = remarks.get(remark, 0) + 1
            samples.append(sample)
        except InputError as error:
            problems.append(error)
        if progress is not None and (n_done % TOLD == 0 or n_done == len(names)):
            progress(n_done, len(names))
    raise_problems(problems)
    notes += [f"{remark} ({n} of {len(samples)})" for remark, n in remarks.items()]
    notes += case_notes({sample.name: sample.labels for sample in samples})
    return Pairing(tuple(samples), tuple(notes))


def _sample(
    name: str,
    references: SampleList,
    predictions: Mapping[str, SampleList],
    images: SampleList | None,
    options: _Options,
) -> SampleFiles:
    segment, limits = options.segment, options.limits
    labels = open_volume(references.files[name], role="labels", segment=segment, limits=limits)
    maps: dict[str, Volume | None] = {}
    for model, one in predictions.items():
        path = one.files.get(name)
        maps[model] = None
        if path is not None:
            maps[model] = open_volume(
                path,
                member=options.member,
                segment=segment,
                channel=options.channel,
                dimensions=labels.dimensions,
                limits=limits,
            )
    image = None
    if images is not None and name in images.files:
        image = open_volume(images.files[name], role="image", limits=limits)
    grids = on_one_grid(labels, maps, image, limits)
    return SampleFiles(name, *grids, resize=options.resize, place=options.place)


def _check_sample(
    sample: SampleFiles, first: Sequence[SampleFiles], options: _Options
) -> list[str]:
    """Raise if the files of a sample do not agree with each other or with the first sample; return
    notes.
    """
    labels = sample.labels
    if first and first[0].labels.dimensions != labels.dimensions:
        expected = f"{first[0].labels.dimensions} axes, as {first[0].labels.file} has"
        value = f"{labels.dimensions} axes"
        raise InputError(
            expected,
            rule="volume-shape",
            file=labels.file,
            value=value,
            hint="evaluate 2D and 3D samples separately",
        )
    # 2D and 3D are told apart by the first sample; mixing them would average areas with volumes.
    # The notes of all files stand together, so that those of predictions say whose they are.
    remarks = list(labels.notes)
    if sample.image is not None:
        remarks += [f"images: {note}" for note in sample.image.notes]
    for model, volume in sample.maps.items():
        if volume is None:
            continue
        remarks += [f"predictions of {model}: {note}" for note in volume.notes]
        if options.place is not None and can_place(volume, labels):
            if not is_on_grid(volume, labels):
                remarks += check_place(volume, labels, options.place)
            continue
        try:
            remarks += check_pair(labels, volume, resize=options.resize)
        except InputError as error:
            raise with_place_hint(error, volume, labels) from None
        if volume.shape != labels.shape:
            remarks.append(f"maps resized to the shape of their labels ({options.resize})")
    if sample.image is not None:
        check_pair(labels, sample.image)
    return remarks


@dataclass(frozen=True)
class SampleList:
    """Files by the name of their sample."""

    source: str  # folder or list
    files: Mapping[str, str]  # name -> path
    notes: tuple[str, ...] = ()
    single: bool = False  # one file, not a folder or a list


def list_samples(
    source: Path,
    role: str,
    pattern: str | None = None,
    columns: tuple[str, ...] = (),
    *,
    softmax: bool = False,
) -> SampleList:
    """Return the files of a folder, an archive, a list, or one file.

    Notes
    -----
    In a folder, or in a zip or tar archive of arrays, the name is the path below it without
    extension, in composed Unicode; with a pattern it is the part of that path that matches
    ``{name}``. The slices of a DICOM series in a folder of their own are one sample, named like the
    folder. A list holds paths, relative to itself or absolute; the user wrote them, so they may
    lead anywhere.

    As nnU-Net names files, ``case_0000`` is the first channel of the image ``case`` where all
    images end so. In a folder of its predictions ``case.npz`` beside ``case.nii.gz`` holds the
    softmax, and is read instead of it only if ``softmax`` says so.
    """
    if pattern is not None and pattern.count(SLOT) < 1:
        raise UsageError(
            f"a pattern needs {SLOT} in place of the sample's name, such as '{SLOT}_seg.nii.gz'"
        )
    if os.path.isdir(source) or is_archive(source):  # a name that is too long is no folder
        return _in_folder(source, role, pattern, softmax)
    if source.name.lower().endswith(LISTS):
        return _in_list(source, pattern, columns)
    require_file(source)
    base = stem_of(source.name) or source.name
    return SampleList(str(source), {unicodedata.normalize("NFC", base): str(source)}, single=True)


def _in_folder(folder: Path, role: str, pattern: str | None, softmax: bool) -> SampleList:
    whole = folder
    if is_archive(folder):
        listing = list_archive(folder)
    else:
        if role != "images":
            folder = labels_of(folder, role)
        listing = list_files(folder, holds=role)
    paths, others = _volumes(listing.files)
    if not paths:
        raise _nothing(folder, role, listing.files)
    n_paths = len(paths)
    # Elsewhere two files of one name are a mistake.
    if any(name.endswith(OF_NNUNET) for name in listing.files):
        paths = _without_twins(paths, softmax)
    if role == "images" and pattern is None:
        paths, pattern = _first_channels(paths)
    files, strange = _by_name(paths.items(), _matcher(pattern), str(folder))
    counts = {
        "other files of the same case, not read": n_paths - len(paths),
        "files of other kinds, not read": others,
        f"files that do not match the pattern {pattern!r}": strange,
        "links out of the folder, not followed": listing.left,
        "folders that could not be read": listing.closed,
    }
    notes = [f"{folder}: {what}: {n}" for what, n in counts.items() if n]
    if folder != whole:
        notes.insert(0, f"labels are those in {folder.name}")
    return SampleList(str(folder), files, tuple(notes))


def _volumes(files: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return path below the folder -> real path of what may be a volume, and the number of other
    files.

    DICOM files in a folder of their own are slices: that folder is one volume, whatever else is in
    it.
    """
    slices, all_extensions = extensions("dicom"), extensions()
    # A first pass over all names, because the slices of a folder need not come first in it.
    series = set()
    for name in files:
        if "/" in name and name.lower().endswith(slices):
            series.add(name.rpartition("/")[0])
    volumes: dict[str, str] = {}
    others = 0
    for name, path in files.items():
        folder = name.rpartition("/")[0]
        if folder in series:
            volumes.setdefault(folder, os.path.dirname(path))
        elif name.lower().endswith(all_extensions):
            volumes[name] = path
        else:
            others += 1
    return volumes, others


def _without_twins(paths: Mapping[str, str], softmax: bool) -> dict[str, str]:
    """Leave out one of ``case.npz``, the softmax, and ``case.nii.gz``, the labels, of nnU-Net."""
    archives = {stem_of(name) for name in paths if name.lower().endswith(ARCHIVE)}
    labels = {stem_of(name) for name in paths if not name.lower().endswith(ARCHIVE)}
    twins = archives & labels
    rest = {}
    for name, path in paths.items():
        if stem_of(name) not in twins or name.lower().endswith(ARCHIVE) == softmax:
            rest[name] = path
    return rest


def _first_channels(paths: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """Return the first channel of every image, if all are named like channels, and the pattern
    of their names.
    """
    if not all(CHANNEL.search(stem_of(name) or name) for name in paths):
        return dict(paths), None
    firsts = {}
    for name, path in paths.items():
        if (stem_of(name) or name).endswith(FIRST_CHANNEL):
            firsts[name] = path
    return (firsts, SLOT + FIRST_CHANNEL) if firsts else (dict(paths), None)


def _by_name(
    paths: Iterable[tuple[str, str]], fits: Matcher, source: str
) -> tuple[dict[str, str], int]:
    """Return name -> path, and how many paths do not match the pattern.

    Two files with the same name are an error.
    """
    files: dict[str, str] = {}
    path_below: dict[str, str] = {}  # for the message: the path without the folder
    strange = 0
    for below, path in paths:
        name = fits(unicodedata.normalize("NFC", below))
        if name is None:
            strange += 1
            continue
        if name in files:
            hint = (
                "both have the same name without extension: remove one, "
                "or give a pattern that includes the extension"
            )
            raise InputError(
                "one file per sample",
                rule="dup-name",
                file=source,
                value=f"{path_below[name]} and {below}",
                hint=hint,
            )
        files[name], path_below[name] = path, below
    # Sorted by name: the order of a folder differs between file systems, the order of results may
    # not.
    return dict(sorted(files.items())), strange


def _matcher(pattern: str | None) -> Matcher:
    """Return a function from a path to the name of its sample; None if the path does not match."""
    if pattern is None:
        return lambda below: stem_of(below) or below
    # A pattern may repeat {name}, as in "{name}/{name}_seg.nii.gz": the parts have to agree.
    first, *rest = unicodedata.normalize("NFC", pattern).split(SLOT)
    text = re.escape(first) + "(?P<name>.+)" + "(?P=name)".join(re.escape(part) for part in rest)
    expression = re.compile(text)
    # A pattern without extension also matches files with any extension of a volume.
    without_extension = stem_of(pattern) is None

    def fits(below: str) -> str | None:
        match = expression.fullmatch(below)
        if match is None and without_extension:
            match = expression.fullmatch(stem_of(below) or below)
        return match["name"] if match else None

    return fits


def _nothing(folder: Path, role: str, files: Mapping[str, str]) -> InputError:
    pickled = next((name for name in files if name.lower().endswith(PICKLES)), None)
    if pickled is not None:
        hint = (
            "pickles and checkpoints are never opened: save arrays with numpy.save or numpy.savez"
        )
        return InputError(
            f"{role} as volumes", rule="pickle", file=str(folder), value=pickled, hint=hint
        )
    value = next(iter(files), "nothing")
    return InputError(
        f"{role} with one of {', '.join(extensions())}",
        rule="no-volumes",
        file=str(folder),
        value=value,
    )


def _in_list(file: Path, pattern: str | None, columns: tuple[str, ...]) -> SampleList:
    opened = open_source(file)
    names: list[str] | None = None
    if file.name.lower().endswith((".csv", ".tsv")):
        rows, names = _table_rows(opened, columns)
    else:
        rows = _plain_lines(opened)
    paths = []
    for row in rows:
        # Relative to the list itself, so that the list works from any directory.
        path = row if os.path.isabs(row) else str(file.parent / row)
        paths.append(path)
    fits: Matcher = _as_it_is
    if names is None:
        names = [Path(row).name for row in rows]
        fits = _matcher(pattern)
    files, strange = _by_name(zip(names, paths), fits, str(file))
    if not files:
        raise InputError("paths of volumes", rule="no-volumes", file=str(file))
    notes: tuple[str, ...] = ()
    if strange:
        notes = (f"{file}: {strange} paths do not match the pattern {pattern!r}",)
    return SampleList(str(file), files, notes)


def _as_it_is(name: str) -> str | None:
    return name


def _plain_lines(opened: InputFile) -> list[str]:
    return [
        line.strip()
        for line in decode(opened).splitlines()
        if line.strip() and not line.startswith("#")
    ]


def _table_rows(opened: InputFile, columns: tuple[str, ...]) -> tuple[list[str], list[str] | None]:
    """Return the paths of a table, and the names of their samples if it has them."""
    table = open_table(opened, ragged=True)
    lower = {name.lower(): name for name in table.names}
    column = next((lower[name.lower()] for name in columns if name.lower() in lower), None)
    if column is None:
        # A csv with a path in its first line has no header: it is read as plain lines.
        if len(table.names) == 1 and stem_of(table.names[0]) is not None:
            return _plain_lines(opened), None
        expected = f"a column {' or '.join(columns)}"
        raise InputError(
            expected, rule="missing-column", file=opened.file, location="1", value=list(table.names)
        )
    rows = texts(table, column)
    empty = next((k for k, row in enumerate(rows) if not row.strip()), None)
    if empty is not None:
        raise table.problem(empty, column, "missing-path", "a path", rows[empty]).as_error(
            opened.file
        )
    if "name" in lower:
        return rows, texts(table, lower["name"])
    # A row with a reference is a pair: both files get the name of the reference.
    if "reference" in lower and lower["reference"] != column:
        references = [Path(row).name for row in texts(table, lower["reference"])]
        return rows, [stem_of(name) or name for name in references]
    return rows, None
