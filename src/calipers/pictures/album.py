# SPDX-License-Identifier: Apache-2.0
"""The album of a report: the worst images of each model, a random sample, and the images on which
models differ most.

An `Evaluation` and a folder of pictures come in; an `Album` goes out, which the report draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calipers.evaluation import Evaluation
from calipers.matches import Matches
from calipers.pictures.choosing import (
    Outcomes,
    disputed,
    matches_at,
    operating_point,
    outcomes,
    sample,
    worst,
)
from calipers.pictures.encoding import Encoded
from calipers.pictures.finding import PictureFiles
from calipers.pictures.gathering import ImageSlice, PictureSet, gather
from calipers.pictures.overlays import objects_of, overlay, short, slice_of
from calipers.pictures.samples import read_samples
from calipers.plots.figures import Overlay
from calipers.saving import shown_matches
from calipers.tables import Cohort

Progress = Callable[[int, int], None]
FACTS = ("patient", "centre")  # shown for every image that has them
BUDGET = 2_500_000


@dataclass(frozen=True, slots=True)
class AlbumEntry:
    """One image, with a figure for each model that is shown on it."""

    image: int  # index in the cohort
    id: str
    facts: tuple[str, ...]  # patient P031, centre C1
    models: tuple[str, ...]
    overlays: tuple[Overlay, ...]  # one per model
    picture: str  # key of `Album.pictures`; "" = an empty frame


@dataclass(frozen=True, slots=True)
class AlbumGroup:
    """Images that are shown for one reason."""

    title: str
    why: str
    entries: tuple[AlbumEntry, ...]


@dataclass(frozen=True, slots=True)
class Album:
    """The images of a report; every picture is stored once, overlays refer to it by ``symbol``."""

    groups: tuple[AlbumGroup, ...]
    pictures: Mapping[str, Encoded]
    notes: tuple[str, ...]
    cuts: Mapping[str, float]  # model -> score from which predictions are shown


@dataclass(frozen=True, slots=True)
class _ModelAtCut:
    """One model at its score cut."""

    model: str
    cut: float
    matches: Matches
    outcomes: Outcomes
    by_protocol: bool  # whether the protocol itself cuts scores

    @property
    def cut_in_words(self) -> str:
        if self.cut == -math.inf:
            return "all predictions"
        if self.by_protocol:
            return f"scores from {self.cut:.3g}, the cut of the protocol"
        return (
            f"scores from {self.cut:.3g}, the cut with the best F1 on these images; "
            "for display only"
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A group before its pictures are read."""

    title: str
    why: str
    images: tuple[ImageSlice, ...]
    models: tuple[_ModelAtCut, ...]


def album(
    evaluation: Evaluation,
    folder: Path | None,
    *,
    models: Sequence[str] | None = None,
    per_group: int = 6,
    most_models: int = 3,
    seed: int | None = None,
    budget_bytes: int = BUDGET,
    progress: Progress | None = None,
) -> Album:
    """Choose images, read their pictures and draw the marks, on top of the maps of the models if
    there are any.

    Parameters
    ----------
    folder
        The folder of the pictures; None shows the images of the samples, or marks on empty frames
        if there are none.
    models
        Which models, the most interesting first; by default all in display order. The first
        ``most_models`` are shown.
    per_group
        Images in each group.
    seed
        Of the random sample; by default that of the protocol.
    budget_bytes
        Of all pictures together, as text of the page. Pictures are shrunk until they fit; if that
        is not enough, some are left out.
    progress
        Called with (pictures read, pictures in all).

    Notes
    -----
    Each model is shown at the score cut of its best pooled F1, or at that of the protocol; objects
    of maps, which have a threshold already, are all shown. Only pictures that are shown are read. A
    picture that cannot be read, or whose size is not that of the cohort, is an empty frame, and a
    note counts it.
    """
    names = tuple(evaluation.models if models is None else models)[:most_models]
    if seed is None:
        seed = evaluation.protocol.seed
    models_at_cut = tuple(_at_cut(evaluation, model) for model in names)
    plans = _plans(evaluation, models_at_cut, per_group, seed)
    return _build(evaluation, folder, plans, models_at_cut, budget_bytes, progress)


def album_of(
    evaluation: Evaluation,
    folder: Path | None,
    groups: Sequence[tuple[str, str, Sequence[int]]],
    *,
    model: str,
    cut: float = -math.inf,
    budget_bytes: int = BUDGET,
) -> Album:
    """Return an album of images that were chosen elsewhere: (title, why, images) of every group.

    Parameters
    ----------
    model
        Whose predictions are shown, those of a score of at least ``cut``.
    """
    matches = matches_at(evaluation, model, cut, shown_matches(evaluation, model))
    at_cut = (_ModelAtCut(model, cut, matches, outcomes(matches, cut), by_protocol=True),)
    plans = [_plan(evaluation.cohort, title, why, images, at_cut) for title, why, images in groups]
    return _build(evaluation, folder, plans, at_cut, budget_bytes, None)


def _build(
    evaluation: Evaluation,
    folder: Path | None,
    plans: Sequence[_Plan],
    models: Sequence[_ModelAtCut],
    budget_bytes: int,
    progress: Progress | None,
) -> Album:
    """Return the album of the plans, with the pictures that could be read."""
    files = None if folder is None else PictureFiles.of(Path(folder), evaluation.cohort)
    pictures = _read_pictures(evaluation, files, plans, budget_bytes, progress)
    groups = []
    for plan in plans:
        entries = tuple(_entry(evaluation, plan, place, pictures) for place in plan.images)
        groups.append(AlbumGroup(plan.title, plan.why, entries))
    notes = pictures.notes
    if files is not None:
        notes = (*files.notes(), *notes)
    cuts = {at_cut.model: at_cut.cut for at_cut in models}
    return Album(tuple(groups), pictures.pictures, notes, cuts)


def _read_pictures(
    evaluation: Evaluation,
    files: PictureFiles | None,
    plans: Sequence[_Plan],
    budget_bytes: int,
    progress: Progress | None,
) -> PictureSet:
    """Return the pictures of a folder and of samples; samples are loaded unless the evaluation was
    stored with their slices.
    """
    models_of: dict[ImageSlice, dict[str, None]] = {}  # image -> models, each once and in order
    for plan in plans:
        names = [at_cut.model for at_cut in plan.models]
        for place in plan.images:
            models_of.setdefault(place, {}).update(dict.fromkeys(names))
    cohort, places = evaluation.cohort, list(models_of)
    if evaluation.slices is not None:
        pictures = gather(cohort, files, places, budget_bytes, progress)
        stored, notes = evaluation.slices.pictures, (*evaluation.slices.notes, *pictures.notes)
        return replace(pictures, pictures={**stored, **pictures.pictures}, notes=notes)
    slices = read_samples(
        evaluation,
        {place: tuple(models) for place, models in models_of.items()},
        images=files is None,
        progress=progress,
    )
    pictures = gather(cohort, files, places, budget_bytes, progress, slices.pixels)
    return replace(pictures, notes=(*slices.notes(), *pictures.notes))


def _at_cut(evaluation: Evaluation, model: str) -> _ModelAtCut:
    matches = shown_matches(evaluation, model)
    by_protocol = matches.views[0].score_cut > -math.inf
    # Objects of maps have a threshold already: all of them are shown.
    cut = -math.inf
    if by_protocol or not evaluation.cohort.maps:
        cut = operating_point(matches)
    matches = matches_at(evaluation, model, cut, matches)
    return _ModelAtCut(model, cut, matches, outcomes(matches, cut), by_protocol)


def _plans(
    evaluation: Evaluation, models: tuple[_ModelAtCut, ...], n: int, seed: int
) -> list[_Plan]:
    """Return the groups that have images."""
    if not models:
        return []
    cohort = evaluation.cohort
    plans = []
    for at_cut in models:
        why = (
            f"Most missed references, false alarms and duplicates together ({at_cut.cut_in_words})."
        )
        images = worst(at_cut.outcomes, n).tolist()
        plans.append(_plan(cohort, f"Worst of {short(at_cut.model)}", why, images, (at_cut,)))
    why = f"Drawn at random from {_all(cohort.n_images)} (seed {seed}): typical cases."
    images = sample(cohort.n_images, n, seed).tolist()
    plans.append(_plan(cohort, "Random", why, images, models))
    why = (
        "Models differ most in the references that they find "
        "and in the number of their false alarms."
    )
    images = disputed([at_cut.outcomes for at_cut in models], n).tolist()
    plans.append(_plan(cohort, "Most disputed", why, images, models))
    return [plan for plan in plans if plan.images]


def _plan(
    cohort: Cohort, title: str, why: str, images: Sequence[int], models: tuple[_ModelAtCut, ...]
) -> _Plan:
    places = tuple(_place_of(cohort, int(image), models) for image in images)
    return _Plan(title, why, places, models)


def _place_of(cohort: Cohort, image: int, models: tuple[_ModelAtCut, ...]) -> ImageSlice:
    """Return the image; of a volume, the slice for the model with most errors, shown for all
    models.
    """
    if cohort.dimensions == 2:
        return ImageSlice(image)
    most = max(models, key=lambda at_cut: at_cut.outcomes.errors[image])
    objects = objects_of(most.matches, image, most.cut)
    return ImageSlice(image, slice_of(cohort, most.model, image, objects))


def _entry(
    evaluation: Evaluation, plan: _Plan, place: ImageSlice, pictures: PictureSet
) -> AlbumEntry:
    key = place.key if place.key in pictures.pictures else ""
    detail = pictures.details.get(place.key)
    overlays = []
    for at_cut in plan.models:
        figure = overlay(
            evaluation,
            at_cut.model,
            place.image,
            cut=at_cut.cut,
            symbol=key,
            shade_symbol=_map_key(evaluation, at_cut.model, place, pictures),
            matches=at_cut.matches,
            slice_at=place.slice_at,
            size=pictures.sizes.get(place.key),
        )
        if detail and key:
            figure = replace(figure, note=f"{figure.note}; {detail}")
        overlays.append(figure)
    return AlbumEntry(
        image=place.image,
        id=evaluation.cohort.images.ids[place.image],
        facts=_facts(evaluation, place.image),
        models=tuple(at_cut.model for at_cut in plan.models),
        overlays=tuple(overlays),
        picture=key,
    )


def _map_key(evaluation: Evaluation, model: str, place: ImageSlice, pictures: PictureSet) -> str:
    key = place.map_key(evaluation.models.index(model))
    return key if key in pictures.pictures else ""


def _facts(evaluation: Evaluation, image: int) -> tuple[str, ...]:
    """Return patient, centre, and the columns by which the evaluation was grouped, as words."""
    groups = evaluation.cohort.images.groups
    columns = list(FACTS)
    for summary in evaluation.groups:
        for name in summary.by.split(","):
            columns.append(name.partition("=")[0].strip())
    names = [name for name in dict.fromkeys(columns) if name in groups]
    return tuple(f"{short(name)} {short(str(groups[name][image]))}" for name in names)


def _all(n_images: int) -> str:
    return "the only image" if n_images == 1 else f"all {n_images} images"
