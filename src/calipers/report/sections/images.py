# SPDX-License-Identifier: Apache-2.0
"""Pictures of the failures: worst, random, disputed, with the marks of references and
predictions.
"""

from __future__ import annotations

from collections import Counter

from calipers.pictures.album import Album, AlbumEntry, AlbumGroup
from calipers.pictures.overlays import short
from calipers.plots.figures import Overlay
from calipers.plots.svg import svg
from calipers.plots.theme import MARKS, SHADE
from calipers.report.context import Context
from calipers.report.markup import cut, items, paragraph, text

MOST_NAMED = 4  # classes
TOGGLES = ("reference", "hit", "false alarm", "duplicate", "missed")  # ignored too, if there is one


def section(page: Context) -> str:
    """Return the album: what the marks mean, switches for them, and the pictures of every group."""
    album = page.album
    if album is None or not (album.pictures or any(o.marks for o in _overlays(album))):
        return ""
    return album_html(album, volumes=page.evaluation.cohort.dimensions == 3)


def album_html(album: Album, *, volumes: bool) -> str:
    """Return an album as HTML; one page can hold one."""
    groups = [_group(group, str(g), volumes=volumes) for g, group in enumerate(album.groups)]
    return "\n".join([_store(album), items(album.notes), _switches(album), *groups])


def _overlays(album: Album) -> list[Overlay]:
    overlays: list[Overlay] = []
    for group in album.groups:
        for entry in group.entries:
            overlays += entry.overlays
    return overlays


def _store(album: Album) -> str:
    """Return every picture and map once; the overlays refer to them by id."""
    sizes = {}
    for overlay in _overlays(album):
        for key in (overlay.symbol, overlay.shade_symbol):
            sizes[key] = overlay.size
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
    if any(mark.fate == "ignored" for overlay in overlays for mark in overlay.marks):
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
    if any(overlay.shade_symbol for overlay in overlays):
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
        entries += _entry(entry, f"{name}-{k}", volumes=volumes)
    heading = f"<h3>{text(group.title)}</h3>\n{paragraph(group.why, 'note')}"
    return f'{heading}\n<div class="album">{entries}</div>'


def _entry(entry: AlbumEntry, name: str, *, volumes: bool) -> str:
    """Return one image: a panel per model, side by side if there are several."""
    several = len(entry.overlays) > 1
    panels = ""
    for k, (model, overlay) in enumerate(zip(entry.models, entry.overlays)):
        picture = svg(overlay, name=f"shot-{name}-{k}")
        caption = overlay.title.removeprefix(short(entry.id)).lstrip(":, ")
        if several:
            caption = f"{model}: {caption}"
        mistakes = _wrong(overlay)
        if volumes and mistakes:
            mistakes = f"in this slice: {mistakes}"
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


def _wrong(overlay: Overlay) -> str:
    """Return the classes of missed references and wrong predictions, for a printed page without
    tooltips.
    """
    phrases = []
    for fate, words in (("missed", "missed"), ("false alarm", "false"), ("duplicate", "twice")):
        counts = Counter(mark.label for mark in overlay.marks if mark.fate == fate)
        if not counts:
            continue
        names = []
        for name, n in counts.most_common(MOST_NAMED):
            names.append(cut(name, 40) + (f" ({n})" if n > 1 else ""))
        if len(counts) > MOST_NAMED:
            names.append(f"{len(counts) - MOST_NAMED} more")
        phrases.append(f"{words}: {', '.join(names)}")
    return "; ".join(phrases)
