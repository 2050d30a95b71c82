# SPDX-License-Identifier: Apache-2.0
"""`pair`: find the labels, maps and images of the same sample by their names.

Names must agree exactly. If they do not, the error proposes a pattern; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from calipers.errors import InputError, UsageError, did_you_mean, raise_problems
from calipers.readers.volumes.agreement import check_pair, check_resize
from calipers.readers.volumes.limits import DEFAULT, Limits
from calipers.readers.volumes.names import SampleList, list_samples
from calipers.readers.volumes.opening import open_volume
from calipers.readers.volumes.proposing import proposal
from calipers.readers.volumes.sample_files import Pairing, SampleFiles
from calipers.readers.volumes.volume import Volume

PathName = str | PathLike[str]
Patterns = str | Mapping[str, str] | None
MISSING = ("error", "empty", "skip")
SHOWN = 5


@dataclass(frozen=True)
class _Options:
    """How files become volumes."""

    member: str | None
    resize: str | None
    limits: Limits


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
    member: str | None = None,
    limits: Limits = DEFAULT,
) -> Pairing:
    """Pair label volumes with the maps of one or more models, and check all headers before a voxel
    is read.

    Parameters
    ----------
    references, predictions, images
        Folders, lists of paths (text with a path per line; csv with columns ``reference``,
        ``prediction`` or the name of the model, ``image`` and, optionally, ``name``), or single
        files. Predictions as model -> source, or one source for the model ``model``.
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
    member
        The array of npz archives that hold several.

    Returns
    -------
    Pairing
        A sequence of `SampleFiles` in the order of their names, with notes.
    """
    if missing not in MISSING:
        raise UsageError(f"missing cannot be {missing!r}; {did_you_mean(missing, MISSING)}")
    check_resize(resize)
    sources = dict(predictions) if isinstance(predictions, Mapping) else {"model": predictions}
    if not sources:
        raise UsageError("no model: give at least one folder of predictions")
    patterns = _patterns(pattern, sources)
    reference_files = list_samples(
        _path(references), "references", reference_pattern, ("reference", "path", "file")
    )
    notes = list(reference_files.notes)
    map_files: dict[str, SampleList] = {}
    for model, source in sources.items():
        columns = (model, "prediction", "path", "file")
        own_files = list_samples(_path(source), "predictions", patterns[model], columns)
        map_files[model] = _under_reference_name(own_files, reference_files)
        notes += own_files.notes
    image_files = None
    if images is not None:
        image_files = list_samples(
            _path(images), "images", image_pattern, ("image", "path", "file")
        )
        notes += image_files.notes
    names, name_notes = _names(reference_files, map_files, missing)
    notes += name_notes
    if image_files is not None:
        without = sum(name not in image_files.files for name in names)
        if without:
            notes.append(f"{without} of {len(names)} samples have no image")
    options = _Options(member, resize, limits)
    return _open_all(names, reference_files, map_files, image_files, options, notes)


def _path(name: PathName) -> Path:
    return Path(fspath(name))


def _patterns(pattern: Patterns, sources: Mapping[str, PathName]) -> dict[str, str | None]:
    if not isinstance(pattern, Mapping):
        return dict.fromkeys(sources, pattern)
    for model in pattern:
        if model not in sources:
            raise UsageError(
                f"there is a pattern for {model!r}, which is no model; "
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


def _names(
    references: SampleList, predictions: Mapping[str, SampleList], missing: str
) -> tuple[list[str], list[str]]:
    """Return the names of the samples that are used, and notes on those that are not."""
    names, notes = list(references.files), []
    for model, one in predictions.items():
        unpredicted = [name for name in references.files if name not in one.files]
        extra = [name for name in one.files if name not in references.files]
        if (
            (extra and missing != "skip")
            or (unpredicted and missing == "error")
            or len(unpredicted) == len(references.files)
        ):
            raise _unpaired(model, references, one, unpredicted, extra)
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
    unpredicted: Sequence[str],
    extra: Sequence[str],
) -> InputError:
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
    lines = ["; ".join(examples)]
    if hint:
        lines.append(hint)
    elif unpredicted and not extra:
        lines.append("missing='empty' or 'skip' allows it")
    return InputError(
        f"a prediction of {model} for every reference, by name",
        rule="unpaired",
        file=predictions.source,
        value=value,
        hint="\n        ".join(line for line in lines if line),
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
) -> Pairing:
    """Open all headers; the problems of all samples are raised together."""
    samples: list[SampleFiles] = []
    problems: list[InputError] = []
    remarks: dict[str, int] = {}
    for name in names:
        try:
            sample = _sample(name, references, predictions, images, options)
            for remark in _check_sample(sample, samples[:1], options.resize):
                remarks[remark] = remarks.get(remark, 0) + 1
            samples.append(sample)
        except InputError as error:
            problems.append(error)
    raise_problems(problems)
    notes += [f"{remark} ({n} of {len(samples)})" for remark, n in remarks.items()]
    return Pairing(tuple(samples), tuple(notes))


def _sample(
    name: str,
    references: SampleList,
    predictions: Mapping[str, SampleList],
    images: SampleList | None,
    options: _Options,
) -> SampleFiles:
    labels = open_volume(references.files[name], role="labels", limits=options.limits)
    maps: dict[str, Volume | None] = {}
    for model, one in predictions.items():
        path = one.files.get(name)
        maps[model] = None
        if path is not None:
            maps[model] = open_volume(path, member=options.member, limits=options.limits)
    image = None
    if images is not None and name in images.files:
        image = open_volume(images.files[name], role="image", limits=options.limits)
    return SampleFiles(name, labels, maps, image, resize=options.resize)


def _check_sample(
    sample: SampleFiles, first: Sequence[SampleFiles], resize: str | None
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
    remarks = [note for volume in sample.files() for note in volume.notes]
    for volume in sample.maps.values():
        if volume is not None:
            remarks += check_pair(labels, volume, resize=resize)
            if volume.shape != labels.shape:
                remarks.append(f"maps resized to the shape of their labels ({resize})")
    if sample.image is not None:
        check_pair(labels, sample.image)
    return remarks
