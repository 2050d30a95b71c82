# SPDX-License-Identifier: Apache-2.0
"""`pair`: labels, maps and images of the same sample, found by their names. No guess is made
silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from calipers.errors import InputError, UsageError, did_you_mean, raise_problems
from calipers.readers.volumes.agreement import check_pair, check_resize
from calipers.readers.volumes.limits import DEFAULT, Limits
from calipers.readers.volumes.names import Offered, offered
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
        Where the name of a sample stands in the paths of predictions, such as
        ``"{name}_pred.nii.gz"``; or one pattern per model. Without a pattern it is the path below
        the folder without extension.
    reference_pattern, image_pattern
        The same for references and images.
    missing
        What to do with samples without a map: ``"error"``, ``"empty"`` (the model found nothing),
        or ``"skip"`` (only samples are used that all models have; maps without a reference are
        skipped too). Counted in the notes.
    resize
        ``"nearest"`` or ``"linear"``: maps may have other shapes than their labels and are brought
        to theirs when they are loaded.
    member
        The array of npz archives that hold several.

    Returns
    -------
    Pairing
        A sequence of `SampleFiles` in the order of their names, with notes.
    """
    if missing not in MISSING:
        raise UsageError(
            f"no choice {missing!r} for samples without prediction; {did_you_mean(missing, MISSING)}"
        )
    check_resize(resize)
    named = dict(predictions) if isinstance(predictions, Mapping) else {"model": predictions}
    if not named:
        raise UsageError("no model: give at least one folder of predictions")
    patterns = _patterns(pattern, named)
    wanted = offered(
        _path(references), "references", reference_pattern, ("reference", "path", "file")
    )
    columns = {model: (model, "prediction", "path", "file") for model in named}
    came = {m: offered(_path(named[m]), "predictions", patterns[m], columns[m]) for m in named}
    shown = (
        None
        if images is None
        else offered(_path(images), "images", image_pattern, ("image", "path", "file"))
    )
    came = {model: _renamed(one, wanted) for model, one in came.items()}
    names, notes = _names(wanted, came, missing)
    sources = [wanted, *came.values(), *([shown] if shown else [])]
    notes = [note for one in sources for note in one.notes] + notes
    if shown is not None and (without := sum(name not in shown.files for name in names)):
        notes.append(f"{without} of {len(names)} samples have no image")
    return _opened(names, wanted, came, shown, _Options(member, resize, limits), notes)


def _path(name: PathName) -> Path:
    return Path(fspath(name))


def _patterns(pattern: Patterns, named: Mapping[str, PathName]) -> dict[str, str | None]:
    if not isinstance(pattern, Mapping):
        return dict.fromkeys(named, pattern)
    strange = next((model for model in pattern if model not in named), None)
    if strange is not None:
        raise UsageError(
            f"a pattern for {strange!r}, which is no model; {did_you_mean(strange, named)}"
        )
    return {model: pattern.get(model) for model in named}


def _renamed(one: Offered, wanted: Offered) -> Offered:
    """Return a single file under the name of a single reference: whoever names two files has paired
    them.
    """
    if not (one.single and wanted.single):
        return one
    return Offered(
        one.source, {next(iter(wanted.files)): next(iter(one.files.values()))}, one.notes, True
    )


def _names(
    wanted: Offered, came: Mapping[str, Offered], missing: str
) -> tuple[list[str], list[str]]:
    """Return the names of the samples that are used, and notes on those that are not."""
    names, notes = list(wanted.files), []
    for model, one in came.items():
        lost = [name for name in wanted.files if name not in one.files]
        extra = [name for name in one.files if name not in wanted.files]
        if (
            (extra and missing != "skip")
            or (lost and missing == "error")
            or len(lost) == len(wanted.files)
        ):
            raise _unpaired(model, wanted, one, lost, extra)
        if lost:
            what = "count as empty" if missing == "empty" else "are skipped"
            notes.append(
                f"{len(lost)} of {len(wanted.files)} samples have no prediction of {model} and {what}"
            )
        if extra:
            notes.append(f"{len(extra)} predictions of {model} have no reference and are skipped")
        if missing == "skip":
            names = [name for name in names if name in one.files]
    if not names:
        raise InputError(
            "a sample that all models have", rule="unpaired", file=wanted.source, value="none"
        )
    return names, notes


def _unpaired(
    model: str, wanted: Offered, came: Offered, lost: Sequence[str], extra: Sequence[str]
) -> InputError:
    value = f"{len(lost)} references without prediction, {len(extra)} predictions without reference"
    hint = proposal(wanted.files, came.files)
    listed = [("references without prediction", lost), ("predictions without reference", extra)]
    said = "; ".join(f"{what}: {_few(names)}" for what, names in listed if names)
    more = hint or ("missing='empty' or 'skip' allows it" if lost and not extra else "")
    return InputError(
        f"a prediction of {model} for every reference, by name",
        rule="unpaired",
        file=came.source,
        value=value,
        hint="\n        ".join(part for part in (said, more) if part),
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (
        ", ".join(repr(name if len(name) <= 80 else name[:77] + "...") for name in names[:SHOWN])
        + more
    )


def _opened(
    names: Sequence[str],
    wanted: Offered,
    came: Mapping[str, Offered],
    shown: Offered | None,
    options: _Options,
    notes: list[str],
) -> Pairing:
    """Open all headers; the problems of all samples are raised together."""
    samples: list[SampleFiles] = []
    problems: list[InputError] = []
    remarks: dict[str, int] = {}
    for name in names:
        try:
            sample = _sample(name, wanted, came, shown, options)
            for remark in _checked(sample, samples[:1], options.resize):
                remarks[remark] = remarks.get(remark, 0) + 1
            samples.append(sample)
        except InputError as error:
            problems.append(error)
    raise_problems(problems)
    notes += [f"{remark} ({n} of {len(samples)})" for remark, n in remarks.items()]
    return Pairing(tuple(samples), tuple(notes))


def _sample(
    name: str,
    wanted: Offered,
    came: Mapping[str, Offered],
    shown: Offered | None,
    options: _Options,
) -> SampleFiles:
    labels = open_volume(wanted.files[name], role="labels", limits=options.limits)
    maps: dict[str, Volume | None] = {}
    for model, one in came.items():
        path = one.files.get(name)
        maps[model] = (
            None
            if path is None
            else open_volume(path, member=options.member, limits=options.limits)
        )
    image = None
    if shown is not None and name in shown.files:
        image = open_volume(shown.files[name], role="image", limits=options.limits)
    return SampleFiles(name, labels, maps, image, resize=options.resize)


def _checked(sample: SampleFiles, first: Sequence[SampleFiles], resize: str | None) -> list[str]:
    """Raise if the files of a sample do not fit each other or the other samples; return what is
    worth a note.
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
            hint="evaluate 2D and 3D apart",
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
