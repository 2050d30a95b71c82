# SPDX-License-Identifier: Apache-2.0
"""The album of a report: images with the marks of models, their pictures within a budget, and HTML.

An `Evaluation` and a folder of pictures come in. `album` chooses images (the worst of each model, a
random sample, those on which models differ most) and `album_of` takes images that were chosen
elsewhere; both return an `Album`, and `album_html` writes it as HTML. Reports call them.

The pictures that are shown are read once each: from the folder (`gather`), or from the samples of
maps, which are loaded again for the slices that are shown (`read_samples`). Together they fit into
a budget of bytes: they are shrunk until they do, and left out if they still do not. A picture that
cannot be read becomes an empty frame, and a note counts it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calipers.data.cohort import Cohort
from calipers.data.maps import Sample
from calipers.errors import InputError
from calipers.evaluation.result import Evaluation
from calipers.matching.matches import Matches
from calipers.pictures.files import PictureFiles
from calipers.pictures.overlays import (
    Outcomes,
    disputed,
    matches_at,
    objects_of,
    operating_point,
    outcomes,
    overlay,
    sample,
    short,
    slice_of,
    worst,
)
from calipers.pictures.pixels import (
    SIDE,
    PictureError,
    Pixels,
    encode,
    read_pixels,
    scale_to_bytes,
    shrink,
    window_to_bytes,
)
from calipers.results.files import Encoded
from calipers.show.figures import MARKS, SHADE, Overlay
from calipers.show.html import cut, items, paragraph, text
from calipers.show.svg.draw import svg
from calipers.show.words import digits

# Sizes that are tried one after the other until the pictures fit the budget.
SIDES = (SIDE, 384, 256, 192)  # pixels; smaller ones show nothing

Progress = Callable[[int, int], None]
FACTS = ("patient", "centre")  # shown for every image that has them
BUDGET = 2_500_000

MOST_NAMED = 4  # classes
TOGGLES = ("reference", "hit", "false alarm", "duplicate", "missed")  # ignored too, if there is one


@dataclass(frozen=True, slots=True)
class ImageSlice:
    """A picture to show: an image, or one slice of a volume."""

    image: int
    slice_at: float | None = None

    @property
    def key(self) -> str:
        """Its id on the page: letters, digits and hyphens only."""
        return f"picture-{self._place}"

    def map_key(self, model: int) -> str:
        """Return the id on the page of the map of the model of that number."""
        return f"map-{model}-{self._place}"

    @property
    def _place(self) -> str:
        if self.slice_at is None:
            return str(self.image)
        return f"{self.image}-z{math.floor(self.slice_at)}"


@dataclass(frozen=True, slots=True)
class PictureSet:
    """The encoded pictures by their id on the page, and notes about them."""

    pictures: Mapping[str, Encoded]
    sizes: Mapping[str, tuple[float, float]]  # width and height of the files
    details: Mapping[str, str]  # notes on single pictures
    notes: tuple[str, ...]


@dataclass
class _Reading:
    """The pictures read so far, and those that cannot be shown."""

    pixels: dict[str, Pixels] = field(default_factory=dict)
    failed: list[tuple[str, PictureError]] = field(default_factory=list)  # id of the image, why
    misfits: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return what went wrong, with the first case of each kind."""
        notes = []
        if self.failed:
            # The first case stands for all: a list of hundreds would hide the report.
            image, error = self.failed[0]
            hint = f" ({error.hint})" if error.hint else ""
            value = f", got {error.value}" if error.value else ""
            what = f"expected {error.expected}{value} [{error.rule}]{hint}"
            notes.append(
                f"{_n_pictures(len(self.failed))} could not be read; the first, of {image}: {what}"
            )
        if self.misfits:
            n = _n_pictures(len(self.misfits))
            notes.append(
                f"{n} not shown because boxes would be misplaced; the first: {self.misfits[0]}"
            )
        return notes


def gather(
    cohort: Cohort,
    files: PictureFiles | None,
    places: Sequence[ImageSlice],
    budget_bytes: int,
    progress: Callable[[int, int], None] | None = None,
    further: Mapping[str, Pixels] = {},
) -> PictureSet:
    """Read, check, shrink and encode pictures.

    ``further`` pictures come from elsewhere, such as samples; without files there are no others.
    """
    state = _Reading(dict(further))
    if files is not None:
        for k, place in enumerate(places):
            path = files.path_of(place.image)
            if path is not None:
                _add_picture(state, cohort, place, path)
            if progress is not None:
                progress(k + 1, len(places))
    pictures, notes = _encode_within(state.pixels, budget_bytes)
    sizes: dict[str, tuple[float, float]] = {}
    details: dict[str, str] = {}
    for key, pixels in state.pixels.items():
        sizes[key] = (float(pixels.width), float(pixels.height))
        if pixels.note:
            details[key] = pixels.note
    return PictureSet(pictures, sizes, details, (*state.notes(), *notes))


def _add_picture(state: _Reading, cohort: Cohort, place: ImageSlice, path: Path) -> None:
    """Read one picture and shrink it.

    A picture of another size than the cohort states is refused: its boxes would be misplaced.
    """
    name = short(cohort.images.ids[place.image])
    try:
        pixels = read_pixels(path, slice_at=place.slice_at)
    except PictureError as error:
        state.failed.append((name, error))
        return
    # An unknown size (NaN) of the cohort fits every picture.
    stated_size = cohort.images.size[place.image].tolist()
    file_size = [pixels.width, pixels.height]
    if pixels.depth is not None:
        file_size.append(pixels.depth)
    if any(math.isfinite(a) and a != b for a, b in zip(stated_size, file_size)):
        sizes = f"{_size_text(stated_size)} in the data and {_size_text(file_size)} in its file"
        note = f" ({pixels.note})" if pixels.note else ""
        state.misfits.append(f"{name} is {sizes}{note}")
        return
    state.pixels[place.key] = replace(pixels, array=shrink(pixels.array, SIDE))


def _size_text(size: Sequence[float]) -> str:
    sides = []
    for side in size:
        sides.append("?" if math.isnan(side) else f"{side:g}")
    return " x ".join(sides)


def _encode_within(
    pixels: Mapping[str, Pixels], budget: int
) -> tuple[dict[str, Encoded], list[str]]:
    """Return the pictures, as large as the budget allows, and a note if they were shrunk.

    If they do not fit even at the smallest size, those that exceed the budget are left out.
    """
    encoded: dict[str, Encoded] = {}
    for side in SIDES:
        encoded = {key: encode(one, side=side) for key, one in pixels.items()}
        if sum(picture.bytes for picture in encoded.values()) <= budget:
            if side == SIDE:
                return encoded, []
            return encoded, [f"pictures shrunk to {side} pixels to keep the page small"]
    # In the order of the album, in which the most interesting images come first.
    pictures: dict[str, Encoded] = {}
    remaining = budget
    for key, picture in encoded.items():
        if picture.bytes <= remaining:
            pictures[key] = picture
            remaining -= picture.bytes
    return pictures, [
        f"{_n_pictures(len(encoded) - len(pictures))} left out to keep the page small"
    ]


def _n_pictures(n: int) -> str:
    return "1 picture" if n == 1 else f"{n} pictures"


ModelsBySlice = Mapping[ImageSlice, Sequence[str]]  # the models whose maps are shown


@dataclass
class SampleSlices:
    """The pixels of the slices, and counts of samples without."""

    pixels: dict[str, Pixels] = field(default_factory=dict)
    without: int = 0  # samples that have no image
    failures: list[str] = field(default_factory=list)  # why samples could not be loaded
    n_samples: int = 0

    def notes(self) -> tuple[str, ...]:
        """Return what is missing, in words."""
        notes = []
        if self.failures:
            notes.append(
                f"{len(self.failures)} of {self.n_samples} samples could not be read again; "
                f"the first: {self.failures[0]}"
            )
        n_loaded = self.n_samples - len(self.failures)
        if self.without and n_loaded:
            which = "The samples have"
            if self.without < n_loaded:
                which = f"{self.without} of {n_loaded} samples have"
            notes.append(f"{which} no image: the maps are shown on a dark background.")
        return tuple(notes)


def read_samples(
    evaluation: Evaluation,
    models: ModelsBySlice,
    *,
    images: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> SampleSlices:
    """Load every sample once and keep the slices that are shown, shrunk; keep nothing if samples
    cannot be loaded again.

    Parameters
    ----------
    images
        Whether the images of the samples are shown, or only the maps.
    """
    slices, load = SampleSlices(), evaluation.load_sample
    if load is None:
        return slices
    # Several slices of a sample may be shown; loading is slow, so each is loaded once.
    by_image: dict[int, list[ImageSlice]] = {}
    for place in models:
        by_image.setdefault(place.image, []).append(place)
    for k, (image, places) in enumerate(by_image.items()):
        slices.n_samples += 1
        try:
            sample = load(image)
        except (InputError, OSError) as error:
            name = short(evaluation.cohort.images.ids[image])
            slices.failures.append(f"{name}: {str(error).splitlines()[0]}")
        else:
            slices.without += images and sample.image is None
            for place in places:
                _add_slice(slices, evaluation, sample, place, models[place], images)
        if progress is not None:
            progress(k + 1, len(by_image))
    return slices


def _add_slice(
    slices: SampleSlices,
    evaluation: Evaluation,
    sample: Sample,
    place: ImageSlice,
    models: Sequence[str],
    images: bool,
) -> None:
    """Keep one slice of a sample: of its image and of the maps of the models."""
    index = ... if place.slice_at is None else math.floor(place.slice_at)
    # An image of another shape than its labels would lie beside the marks.
    if images and sample.image is not None and sample.image.shape == sample.labels.shape:
        plane = np.asarray(sample.image[index])
        grey = plane if plane.dtype == np.uint8 else window_to_bytes(plane, sample.name)
        slices.pixels[place.key] = _small_pixels(grey)
    maps = list(sample.maps.values())
    for model in models:
        number = evaluation.models.index(model)  # names may have been replaced, their order stays
        levels = scale_to_bytes(np.asarray(maps[number][index]), 0.0, 1.0)
        slices.pixels[place.map_key(number)] = _small_pixels(levels, scores=True)


def _small_pixels(array: NDArray[np.uint8], *, scores: bool = False) -> Pixels:
    height, width = array.shape
    return Pixels(shrink(np.ascontiguousarray(array), SIDE), width, height, scores=scores)


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
            return f"scores of at least {digits(self.cut, 3)}, the cut of the protocol"
        return (
            f"scores of at least {digits(self.cut, 3)}, the cut with the best F1 on these images; "
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
    # More models than these make panels too small to see anything.
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
    matches = matches_at(evaluation, model, cut, evaluation.matches(model))
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
    # A stored evaluation has no samples to load, but the slices that its album showed.
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
    matches = evaluation.matches(model)
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
    # Worst cases alone would make every model look bad: typical ones belong beside them.
    why = f"Drawn at random from {_images_in_words(cohort.n_images)} (seed {seed}): typical cases."
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
    # All models are shown in one slice, so that they can be compared.
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


def _images_in_words(n_images: int) -> str:
    return "the only image" if n_images == 1 else f"all {n_images} images"


def album_html(album: Album, *, volumes: bool) -> str:
    """Return an album as HTML; one page can hold one."""
    groups = [_group(group, str(g), volumes=volumes) for g, group in enumerate(album.groups)]
    return "\n".join([_picture_store(album), items(album.notes), _switches(album), *groups])


def _overlays(album: Album) -> list[Overlay]:
    overlays: list[Overlay] = []
    for group in album.groups:
        for entry in group.entries:
            overlays += entry.overlays
    return overlays


def _picture_store(album: Album) -> str:
    """Return every picture and map once; the overlays refer to them by id."""
    # A picture takes the size of its figure, which counts in pixels of the image, not of the shrunk
    # picture.
    sizes = {}
    for drawing in _overlays(album):
        for key in (drawing.symbol, drawing.shade_symbol):
            sizes[key] = drawing.size
    images = ""
    for key, picture in album.pictures.items():
        if key in sizes:
            width, height = sizes[key]
            images += (
                f'<image id="{key}" class="fig-picture" href="{picture.data}" width="{width:g}" '
                f'height="{height:g}" preserveAspectRatio="none"/>'
            )
    if not images:
        return ""
    return f'<svg class="store" width="0" height="0" aria-hidden="true"><defs>{images}</defs></svg>'


def _switches(album: Album) -> str:
    """Return a check box for every kind of mark; the style sheet hides marks without a script."""
    overlays = _overlays(album)
    fates = list(TOGGLES)
    if any(mark.fate == "ignored" for drawing in overlays for mark in drawing.marks):
        fates.append("ignored")
    switches = []
    for fate in fates:
        name = fate.replace(" ", "-")
        line = f'<line class="fig-mark fig-{name}" x1="2" y1="6" x2="24" y2="6"/>'
        sample = f'<svg class="sample" viewBox="0 0 26 12" aria-hidden="true">{line}</svg>'
        switches.append(
            f'<label><input type="checkbox" id="show-{name}" checked> {sample} '
            f"{text(MARKS[fate].words)}</label>"
        )
    if any(drawing.shade_symbol for drawing in overlays):
        switches.append(
            f'<label><input type="checkbox" id="show-map" checked> {COLOUR_BAR} '
            "score of the map, 0 to 1</label>"
        )
    return f'<fieldset class="switches"><legend>Marks</legend>{"".join(switches)}</fieldset>'


def _colour_bar() -> str:
    """Return the colours of the maps from 0 to 1, on a dark and on a grey ground as in the
    pictures.
    """
    stops = "".join(
        f'<stop offset="{at:g}" stop-color="rgb({r},{g},{b})" stop-opacity="{opacity:g}"/>'
        for at, r, g, b, opacity in SHADE
    )
    return (
        '<svg class="sample ramp" viewBox="0 0 60 12" preserveAspectRatio="none" '
        'aria-hidden="true"><defs>'
        f'<linearGradient id="map-colours">{stops}</linearGradient></defs>'
        '<rect y="6" width="60" height="6" fill="#777"/>'
        '<rect width="60" height="12" fill="url(#map-colours)"/></svg>'
    )


COLOUR_BAR = _colour_bar()


def _group(group: AlbumGroup, name: str, *, volumes: bool) -> str:
    entries = ""
    for k, entry in enumerate(group.entries):
        entries += _entry_html(entry, f"{name}-{k}", volumes=volumes)
    heading = f"<h3>{text(group.title)}</h3>\n{paragraph(group.why, 'note')}"
    return f'{heading}\n<div class="album">{entries}</div>'


def _entry_html(entry: AlbumEntry, name: str, *, volumes: bool) -> str:
    """Return one image: a panel per model, side by side if there are several."""
    several = len(entry.overlays) > 1
    panels = ""
    for k, (model, drawing) in enumerate(zip(entry.models, entry.overlays)):
        picture = svg(drawing, name=f"shot-{name}-{k}")
        # The id of the image stands above the panels already.
        caption = drawing.title.removeprefix(short(entry.id)).lstrip(":, ")
        if several:
            caption = f"{model}: {caption}"
        mistakes = _errors_in_words(drawing)
        if volumes and mistakes:
            mistakes = f"in this slice, {mistakes}"
        panels += (
            f'<div class="panel"><div class="shot">{picture}</div><p>{text(caption)}</p>'
            f"{paragraph(mistakes, 'note')}</div>"
        )
    facts = f' <span class="soft">{text(", ".join(entry.facts))}</span>' if entry.facts else ""
    wide = " several" if several else ""
    return (
        f'<figure class="entry{wide}" id="image-{name}">'
        f"<figcaption>{text(entry.id)}{facts}</figcaption>"
        f'<div class="panels">{panels}</div></figure>'
    )


def _errors_in_words(drawing: Overlay) -> str:
    """Return the classes of missed references and wrong predictions, for a printed page without
    tooltips.
    """
    phrases = []
    for fate, words in (("missed", "missed"), ("false alarm", "false"), ("duplicate", "duplicate")):
        counts = Counter(mark.label for mark in drawing.marks if mark.fate == fate)
        if not counts:
            continue
        names = []
        for name, n in counts.most_common(MOST_NAMED):
            names.append(cut(name, 40) + (f" ({n})" if n > 1 else ""))
        if len(counts) > MOST_NAMED:
            names.append(f"{len(counts) - MOST_NAMED} more")
        phrases.append(f"{words}: {', '.join(names)}")
    return "; ".join(phrases)
