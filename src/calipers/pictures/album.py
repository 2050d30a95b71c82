# SPDX-License-Identifier: Apache-2.0
"""The album of a report: worst images of each model, a random sample, and those that models
dispute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from calipers.pictures.gathering import Gathered, Wanted, gather
from calipers.pictures.overlays import look, overlay, short, slice_of
from calipers.pictures.samples import read_samples
from calipers.plots.figures import Overlay
from calipers.saving import shown_matches
from calipers.tables import Cohort

Progress = Callable[[int, int], None]
ALWAYS_SAID = ("patient", "centre")
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
    """The images of a report; every picture is held once, overlays name it by ``symbol``."""

    groups: tuple[AlbumGroup, ...]
    pictures: Mapping[str, Encoded]
    notes: tuple[str, ...]
    cuts: Mapping[str, float]  # model -> score from which predictions are shown


@dataclass(frozen=True, slots=True)
class _Judged:
    """One model at its score cut."""

    model: str
    cut: float
    matches: Matches
    outcomes: Outcomes
    given: bool  # whether the protocol itself cuts scores

    @property
    def cut_in_words(self) -> str:
        if self.cut == -math.inf:
            return "all predictions"
        if self.given:
            return f"scores from {self.cut:.3g}, the cut of the protocol"
        return f"scores from {self.cut:.3g}, the cut with the best F1 on these images; for display only"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A group before its pictures are read."""

    title: str
    why: str
    images: tuple[Wanted, ...]
    shown: tuple[_Judged, ...]


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
    """Choose images, read their pictures and draw the marks, above the maps of the models where
    there are any.

    Parameters
    ----------
    folder
        Where the pictures are; None shows the images of the samples, or marks on empty frames if
        there are none.
    models
        Which models, the most interesting first; all in display order if left out. The first
        ``most_models`` are shown.
    per_group
        Images in each group.
    seed
        Of the random sample; that of the protocol if left out.
    budget_bytes
        Of all pictures together, as text of the page. They are shrunk, and at last left out, until
        they fit.
    progress
        Called with (pictures read, pictures in all).

    Notes
    -----
    Each model is shown at the score cut of its best pooled F1, or at that of the protocol; objects
    of maps, which have a threshold already, are all shown. Only pictures that are shown are read;
    one that cannot be read, or whose size is not that of the cohort, is an empty frame and counted.
    """
    names = tuple(evaluation.models if models is None else models)[:most_models]
    judged = tuple(_judge(evaluation, model) for model in names)
    plans = list(
        _plans(evaluation, judged, per_group, evaluation.protocol.seed if seed is None else seed)
    )
    return _filled(evaluation, folder, plans, judged, budget_bytes, progress)


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
    judged = (_Judged(model, cut, matches, outcomes(matches, cut), given=True),)
    plans = [
        _Plan(
            title,
            why,
            tuple(_wanted(evaluation.cohort, int(image), judged) for image in images),
            judged,
        )
        for title, why, images in groups
    ]
    return _filled(evaluation, folder, plans, judged, budget_bytes, None)


def _filled(
    evaluation: Evaluation,
    folder: Path | None,
    plans: Sequence[_Plan],
    judged: Sequence[_Judged],
    budget_bytes: int,
    progress: Progress | None,
) -> Album:
    """Return the album of the plans, with the pictures that there are."""
    files = None if folder is None else PictureFiles.of(Path(folder), evaluation.cohort)
    gathered = _gathered(evaluation, files, plans, budget_bytes, progress)
    groups = tuple(
        AlbumGroup(
            plan.title,
            plan.why,
            tuple(_entry(evaluation, plan, one, gathered) for one in plan.images),
        )
        for plan in plans
    )
    notes = (*(files.notes() if files else ()), *gathered.notes)
    return Album(groups, gathered.pictures, notes, {one.model: one.cut for one in judged})


def _gathered(
    evaluation: Evaluation,
    files: PictureFiles | None,
    plans: Sequence[_Plan],
    budget_bytes: int,
    progress: Progress | None,
) -> Gathered:
    """Return the pictures of a folder, and of samples: those that were kept with the evaluation,
    else loaded now.
    """
    shown: dict[Wanted, dict[str, None]] = {}  # image -> models, each once and in order
    for plan in plans:
        for one in plan.images:
            shown.setdefault(one, {}).update(dict.fromkeys(judged.model for judged in plan.shown))
    cohort, wanted = evaluation.cohort, list(shown)
    if evaluation.slices is not None:
        found = gather(cohort, files, wanted, budget_bytes, progress)
        kept, notes = evaluation.slices.pictures, (*evaluation.slices.notes, *found.notes)
        return replace(found, pictures={**kept, **found.pictures}, notes=notes)
    read = read_samples(
        evaluation,
        {one: tuple(models) for one, models in shown.items()},
        images=files is None,
        progress=progress,
    )
    found = gather(cohort, files, wanted, budget_bytes, progress, read.pixels)
    return replace(found, notes=(*read.notes(), *found.notes))


def _judge(evaluation: Evaluation, model: str) -> _Judged:
    matches = shown_matches(evaluation, model)
    given = matches.views[0].score_cut > -math.inf
    cut = -math.inf if evaluation.cohort.maps and not given else operating_point(matches)
    matches = matches_at(evaluation, model, cut, matches)
    return _Judged(model, cut, matches, outcomes(matches, cut), given)


def _plans(
    evaluation: Evaluation, judged: tuple[_Judged, ...], n: int, seed: int
) -> Iterator[_Plan]:
    """Yield the groups that have images."""
    if not judged:
        return
    cohort = evaluation.cohort

    def plan(
        title: str, why: str, images: Sequence[int], shown: tuple[_Judged, ...]
    ) -> Iterator[_Plan]:
        if len(images):
            yield _Plan(
                title, why, tuple(_wanted(cohort, int(image), shown) for image in images), shown
            )

    for one in judged:
        why = f"Most missed references, false alarms and duplicates together ({one.cut_in_words})."
        yield from plan(
            f"Worst of {short(one.model)}", why, worst(one.outcomes, n).tolist(), (one,)
        )
    why = f"Drawn at random from {_all(cohort.n_images)} (seed {seed}): what is usual."
    yield from plan("Random", why, sample(cohort.n_images, n, seed).tolist(), judged)
    why = "Models differ most in the references that they find and in the number of their false alarms."
    yield from plan(
        "Most disputed", why, disputed([one.outcomes for one in judged], n).tolist(), judged
    )


def _wanted(cohort: Cohort, image: int, shown: tuple[_Judged, ...]) -> Wanted:
    """Return the image; of a volume the slice for the model with most errors, the same for all
    models.
    """
    if cohort.dimensions == 2:
        return Wanted(image)
    one = max(shown, key=lambda judged: judged.outcomes.errors[image])
    return Wanted(image, slice_of(cohort, one.model, image, look(one.matches, image, one.cut)))


def _entry(evaluation: Evaluation, plan: _Plan, wanted: Wanted, gathered: Gathered) -> AlbumEntry:
    key = wanted.key if wanted.key in gathered.pictures else ""
    overlays = tuple(
        overlay(
            evaluation,
            one.model,
            wanted.image,
            cut=one.cut,
            symbol=key,
            shade_symbol=_map_key(evaluation, one.model, wanted, gathered),
            matches=one.matches,
            slice_at=wanted.slice_at,
            size=gathered.sizes.get(wanted.key),
        )
        for one in plan.shown
    )
    if gathered.details.get(wanted.key) and key:
        overlays = tuple(
            replace(one, note=f"{one.note}; {gathered.details[wanted.key]}") for one in overlays
        )
    return AlbumEntry(
        image=wanted.image,
        id=evaluation.cohort.images.ids[wanted.image],
        facts=_facts(evaluation, wanted.image),
        models=tuple(one.model for one in plan.shown),
        overlays=overlays,
        picture=key,
    )


def _map_key(evaluation: Evaluation, model: str, wanted: Wanted, gathered: Gathered) -> str:
    key = wanted.map_key(evaluation.models.index(model))
    return key if key in gathered.pictures else ""


def _facts(evaluation: Evaluation, image: int) -> tuple[str, ...]:
    """Return patient, centre, and the columns by which the evaluation was grouped, as words."""
    groups = evaluation.cohort.images.groups
    asked = [
        name.partition("=")[0].strip()
        for summary in evaluation.groups
        for name in summary.by.split(",")
    ]
    names = [name for name in dict.fromkeys((*ALWAYS_SAID, *asked)) if name in groups]
    return tuple(f"{short(name)} {short(str(groups[name][image]))}" for name in names)


def _all(n_images: int) -> str:
    return "the only image" if n_images == 1 else f"all {n_images} images"
