# SPDX-License-Identifier: Apache-2.0
"""The page and the folder of a stability analysis: can the maps of these models be trusted?

A `StabilityResult` comes in; `write_stability` writes the folder for `calipers stability -o`, and
`of_stability` is the view in a notebook. The page has the answer in words, the scores, what all and
what some models mark on the least and the most stable images, what detectors find object by object,
the models against the reference, and methods for a paper.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from calipers.errors import InputError
from calipers.io.tables.table import columns_of, delimited
from calipers.pictures.files import PictureFiles
from calipers.pictures.pixels import PictureError, Pixels, encode, read_pixels
from calipers.results.files import check_folder, files_of, staged_folder, write_atomically
from calipers.show.html import (
    answer_page,
    answer_section,
    as_bytes,
    cut,
    details,
    figure_block,
    framed,
    further,
    in_pairs,
    items,
    made_by,
    paragraph,
    reproduce_block,
    table_block,
    text,
)
from calipers.show.svg.draw import svg
from calipers.show.words import Short, level_text, two_decimals
from calipers.stability.figures import FIGURES, MapSlice, available
from calipers.stability.objects_result import ObjectStability
from calipers.stability.result import (
    StabilityResult,
    agreement_word,
    by_chance,
    number_word,
)
from calipers.stability.tables import (
    bag_columns,
    bags_table,
    disputed_table,
    reference_table,
    scores_table,
    variance_table,
)

# As many as fit on a screen; both ends, because stable images show what agreement looks like.
EACH = 4  # images at either end
WIDTH = 300  # for which a panel is laid out
MIDDLE = 0.5  # of a slice, in voxels
LEGEND = (
    "The darker a place, the more models mark it: if models agree, only the lightest and the "
    "darkest shade remain."
)

LONGEST = 2000  # characters of a sentence
REPEATED = (
    "This section is for models that were trained alike, with other seeds or on other folds: it "
    "treats them as repeated trainings of one model and shows what another training would find too."
)
WHY = (
    "If models that were trained alike find different objects, they are unsure of them, whatever "
    "their scores say. A reference is disputed if some but not all models find it."
)

# From this mean DICE on, models are said to mark what the reference does. It is a judgement, so the
# sentence states the number too.
RIGHT = 0.5

CITATIONS = (
    "Romanova R, van Schoren J, Cheplygina V. Localization stability of weakly supervised deep "
    "neural networks.",
    "Cohen J. A coefficient of agreement for nominal scales. Educ Psychol Meas 1960;20:37-46.",
    "Feinstein AR, Cicchetti DV. High agreement but low kappa: I. The problems of two paradoxes. J "
    "Clin Epidemiol 1990;43:543-549.",
    "Byrt T, Bishop J, Carlin JB. Bias, prevalence and kappa. J Clin Epidemiol 1993.",
    "Gwet KL. Computing inter-rater reliability in the presence of high agreement. Br J Math Stat "
    "Psychol 2008.",
)
UNDEFINED = {
    "skip": "left out and counted",
    "agree": "counted as 1 if both mark everything and as 0 if both mark nothing",
    "one": "counted as 1",
}

BAGS = "bags.csv"

PAGE, DOCUMENT, ROWS = "stability.html", "stability.json", "stability.csv"
OURS = re.compile(rf"stability\.(html|json|csv)|bags\.csv|stability-({'|'.join(FIGURES)})\.svg")
SVG_WIDTH = 560
TITLES = {
    "map": "Can these maps be trusted?",
    "model": "Can these models be trusted?",
}
# order of the figures; single images have their own section
ORDER = ("pairs", "models", "called", "images", "sweep", "scores")
AGAINST = ("dice", "auc")


def write_stability(
    result: StabilityResult,
    folder: Path,
    *,
    force: bool = False,
    command: Sequence[str] = (),
    images: str | Path | None = None,
    objects: ObjectStability | None = None,
) -> Path:
    """Write page, document, rows, images and figures, all of them or none; return the page.

    These are ``stability.html``, ``stability.json``, ``stability.csv``, ``bags.csv`` and the
    figures. Files of an earlier result in the folder are replaced or removed; other files stay.

    Parameters
    ----------
    folder
        New or empty, and not the folder of an input.
    force
        Allow a folder that holds something.
    command
        The command line of the analysis, shown on the page.
    images
        A folder with the pictures of the images, found by their ids; maps are drawn above them.
    objects
        What the same models find, object by object, if they are detectors.
    """
    check_folder(folder, force=force, inputs=_inputs(result))
    old = files_of(folder, OURS)
    inputs = PageInputs(command, objects, Pictures.of(images, result.ids))
    display = with_display_names(result)
    # All files or none: no reader sees half of a result.
    with staged_folder(folder, owned=old, force=force) as stage:
        for name in available(result):
            picture = svg(display.figure(name), width=SVG_WIDTH, name=name, standalone=True)
            write_atomically(stage / f"stability-{name}.svg", as_bytes(picture + "\n"))
        write_atomically(stage / ROWS, as_bytes(delimited(_rows(result))))
        write_atomically(stage / BAGS, as_bytes(delimited(bag_columns(result))))
        write_atomically(stage / PAGE, as_bytes(stability_page(display, inputs)))
        record = json.dumps(_document(result, inputs), allow_nan=False)
        write_atomically(stage / DOCUMENT, record + "\n")
    return folder / PAGE


def write_stability_page(
    result: StabilityResult,
    path: Path,
    *,
    command: Sequence[str] = (),
    images: str | Path | None = None,
    objects: ObjectStability | None = None,
) -> Path:
    """Write the page alone, whole or not at all; options as in `write_stability`."""
    inputs = PageInputs(command, objects, Pictures.of(images, result.ids))
    write_atomically(path, as_bytes(stability_page(with_display_names(result), inputs)))
    return path


def _inputs(result: StabilityResult) -> tuple[str, ...]:
    """Return the files and folders of the maps; nothing for maps from memory."""
    sources = getattr(result.source, "sources", ())
    return tuple(str(one.source) for one in sources)


def _rows(result: StabilityResult) -> Mapping[str, Sequence[Any]]:
    rows = []
    for row in result.rows:
        group = json.dumps(row.group) if row.group else None
        rows.append({**row.as_dict(), "group": group})
    columns = columns_of(rows)
    columns.pop("flags", None)
    return columns


def _document(result: StabilityResult, inputs: PageInputs) -> dict[str, Any]:
    objects = {} if inputs.objects is None else {"objects": inputs.objects.as_dict()}
    return {
        **result.as_dict(),
        "verdict": trust(result, inputs.what),
        **objects,
        **made_by(inputs.command),
    }


def with_display_names(result: StabilityResult) -> StabilityResult:
    """Return the result with display names of models and images."""
    names = Short([*result.models, *result.ids], series=result.models)
    if not names.changed:
        return result
    models, ids = tuple(map(names.name, result.models)), tuple(map(names.name, result.ids))
    local = result.localized
    rows = tuple(replace(row, model=names.name(row.model)) for row in local.rows)
    local = replace(local, models=models, ids=tuple(map(names.name, local.ids)), rows=rows)
    return replace(result, plan=replace(result.plan, models=models, ids=ids), localized=local)


def of_stability(result: StabilityResult) -> str:
    """Return the result in a notebook: the verdict, the sentences, the main scores."""
    display = with_display_names(result)
    verdict = f"<p><strong>{text(trust(display))}</strong></p>"
    return framed(verdict + items(display.sentences()) + table_block(scores_table(display)))


@dataclass
class Pictures:
    """The pictures of images in a folder; `notes` says which cannot be shown and why."""

    files: PictureFiles | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: str | Path | None, ids: tuple[str, ...]) -> Pictures:
        """Look for the pictures of images by their ids."""
        if folder is None:
            return cls()
        files = PictureFiles.from_names(Path(folder), [(name,) for name in ids])
        return cls(files, list(files.notes()))

    def below(self, place: int, part: MapSlice) -> tuple[str, float]:
        """Return the picture of an image as a data address, and the aspect ratio (height over
        width) of a cell of its map.
        """
        path = None if self.files is None else self.files.path_of(place)
        if path is None:
            return "", 1.0
        slice_at = None if part.index is None else part.index + MIDDLE
        try:
            pixels = read_pixels(path, slice_at=slice_at)
        except PictureError as error:
            self.notes.append(
                f"a picture could not be read: expected {error.expected} [{error.rule}]"
            )
            return "", 1.0
        # The slice of another volume would be a wrong picture, which is worse than none.
        if part.index is not None and pixels.depth not in (None, part.of):
            self.notes.append(
                f"a picture with {pixels.depth} slices does not fit a map with {part.of} slices "
                "and is not shown"
            )
            return "", 1.0
        rows, columns = part.counts.shape
        # Cells are drawn in the shape that they have on the picture.
        aspect = (pixels.height / rows) / (pixels.width / columns)
        return encode(_with_rim(pixels, part)).data, aspect


@dataclass(frozen=True)
class PageInputs:
    """What the page shows besides the result."""

    command: Sequence[str] = ()
    objects: ObjectStability | None = None
    pictures: Pictures = field(default_factory=Pictures)

    @property
    def what(self) -> str:
        """What may be trusted or not: a map, or a model that predicts objects."""
        return "map" if self.objects is None else "model"


def _with_rim(pixels: Pixels, part: MapSlice) -> Pixels:
    """Return the picture with a black rim where the last blocks of a map reach beyond it."""
    rim = []
    for n_cells, n_pixels in zip(part.counts.shape, pixels.array.shape):
        beyond = (-(-n_cells // part.side) * part.side) / n_cells
        rim.append((0, round(n_pixels * (beyond - 1.0))))
    if not any(width for _, width in rim):
        return pixels
    colours = [(0, 0)] * (pixels.array.ndim - 2)
    return Pixels(np.pad(pixels.array, [*rim, *colours]), pixels.width, pixels.height)


def shown_images(result: StabilityResult) -> list[tuple[str, list[int]]]:
    """Return titles and places of the images that are shown; none is shown twice."""
    order = result.ranked("APJ").tolist()
    if len(order) <= 2 * EACH:
        return [("Images, least stable first", order)] if order else []
    return [("Least stable", order[:EACH]), ("Most stable", order[: -EACH - 1 : -1])]


def images_section(result: StabilityResult, pictures: Pictures) -> str:
    """Return map and histogram of the least and the most stable images; "" without any."""
    groups = shown_images(result) if result.source is not None else []
    blocks = []
    for g, (title, places) in enumerate(groups):
        entries = [_entry(result, place, pictures, f"fig-bag-{g}-{place}") for place in places]
        blocks.append(f'<h3>{title}</h3>\n<div class="pairs">{"".join(entries)}</div>')
    if not blocks:
        return ""
    return "\n".join([paragraph(LEGEND), items(list(dict.fromkeys(pictures.notes))), *blocks])


def _entry(result: StabilityResult, place: int, pictures: Pictures, name: str) -> str:
    """Return one image: its map and its histogram side by side, and the numbers of both."""
    try:
        cells = result.figure("bags", bag=place, picture=lambda part: pictures.below(place, part))
    except InputError as error:
        # The file of a map is gone: the numbers stand, and the page says why there is no map.
        return paragraph(f"{result.ids[place]}: the map could not be read again: {error}", "note")
    bars = result.figure("called", bag=place)
    panels, tables = "", ""
    for k, figure in enumerate((cells, bars)):
        picture = svg(figure, width=WIDTH, name=f"{name}-{k}")
        panels += f'<div class="panel">{picture}</div>'
        title = f"Numbers of this figure: {figure.title}"
        tables += table_block(replace(figure.table(), name=f"{name}-{k}-numbers", title=title))
    return (
        f'<figure class="plot" id="{name}">\n<figcaption>{text(cells.title)}</figcaption>\n'
        f'<div class="panels">{panels}</div>\n{paragraph(f"{cells.note} {bars.note}", "note")}\n'
        f"{details('Numbers of this figure', tables)}\n</figure>"
    )


def evaluation_section(result: ObjectStability) -> str:
    """Return the section on objects in the page of an evaluation."""
    settings = result.settings
    rule = (
        "An object is found, and two predictions are the same, if their "
        f"{settings['criterion']} is at least {settings['threshold']:g}."
    )
    return "\n".join([paragraph(REPEATED), objects_block(result), paragraph(rule, "note")])


def objects_block(result: ObjectStability) -> str:
    """Return sentences, figures and the most disputed images."""
    sentences = [cut(sentence, LONGEST) for sentence in (*result.sentences(), *result.warnings)]
    blocks = [figure_block(result.figure(name), f"fig-objects-{name}") for name in _figures(result)]
    disputed = table_block(disputed_table(result)) or paragraph("No reference is disputed.")
    return "\n".join([items(sentences), in_pairs(blocks), paragraph(WHY), disputed])


def _figures(result: ObjectStability) -> list[str]:
    names = ["found-by", "false-alarms", "agreement", "pairs"]
    if any("size" in (row.group or {}) for row in result.rows):
        names.append("sizes")
    return names


def trust(result: StabilityResult, what: str = "map") -> str:
    """Return in one sentence, without numbers, whether a single map, or model, can be trusted."""
    word, models = agreement_word(result), f"{number_word(len(result.models))} models"
    if not word:
        return (
            f"There is nothing to trust: none of the {models} marks anything at the threshold "
            f"{result.threshold:g}."
        )
    # The verdict is about agreement first; the reference can only take trust away or leave it.
    right = result.localized.get("DICE").value if result.localized.has("DICE") else None
    if word == "hardly" or by_chance(result):
        why = "are not shown to agree beyond chance"
        if word == "hardly":
            why = "mark different places on the same image"
        also = ""
        if _wrong(right):
            also = f" Nor do they mark what the reference marks (mean DICE {two_decimals(right)})."
        elif right is not None:
            also = (
                " Still, on average they mark much of what the reference marks "
                f"(mean DICE {two_decimals(right)})."
            )
        return f"Do not trust a single {what}: these {models} {why}.{also}"
    if _wrong(right):
        return (
            f"Do not trust these {what}s: the {models} {word} mark the same places, but these are "
            f"mostly not where the reference is (mean DICE {two_decimals(right)}). "
            "Stable does not mean correct."
        )
    start = (
        f"Trust a single {what} in part: these {models} share a core of places and differ around "
        "it."
    )
    if word == "mostly":
        start = f"Any one {what} represents the others: these {models} mark nearly the same places."
    if right is None:
        return f"{start} Without references it is unknown whether they are the right places."
    return f"{start} They are mostly where the reference is (mean DICE {two_decimals(right)})."


def _wrong(dice: float | None) -> TypeGuard[float]:
    return dice is not None and dice < RIGHT


def summary_line(result: StabilityResult) -> str:
    """Return models, images and places in one line."""
    instances = int(result.evidence.n.sum())
    n_omitted = result.n_bags - result.n_used
    omitted_note = f" ({n_omitted} negative ones are left out)" if n_omitted else ""
    return (
        f"{len(result.models)} models, {result.n_used} images{omitted_note}, {instances:,} places; "
        f"a place is marked if its score is at least {result.threshold:g}."
    )


def methods(result: StabilityResult) -> list[str]:
    """Return paragraphs on methods that are ready for a paper."""
    plan, n = result.plan, len(result.models)
    kind = "positive images" if plan.positive is not None and plan.bags == "positive" else "images"
    first = (
        f"We compared the maps of {n} models that were trained alike on {result.n_used} {kind}. "
        f"Maps were binarised at {result.threshold:g}. For each image and each of the "
        f"{n * (n - 1) // 2} unordered pairs of models we computed the agreement of the binary "
        "maps, among others the adjusted positive Jaccard index (APJ: the Jaccard index of "
        "positive instances corrected for chance; 1 for the same instances, 0 for agreement by "
        "chance), positive and negative agreement and Gwet's AC1, and rank and linear correlations "
        "of the maps themselves. The value of an image is the mean over pairs, and the reported "
        "value is the mean over images. Pairs of maps for which a score is 0/0, because both mark "
        f"nothing or everything, were {UNDEFINED[plan.undefined]}."
    )
    return [first, _uncertainty(result), *_reference_sentences(result)]


def _uncertainty(result: StabilityResult) -> str:
    plan, certainty = result.plan, result.plan.certainty
    sentences = ["No confidence intervals over images were computed."]
    if certainty.replicates:
        sentences = [
            f"{level_text(certainty.level)} confidence intervals come from {certainty.replicates} "
            f"bootstrap replicates, resampled by {plan.units.name} (n = {plan.units.number}, seed "
            f"{certainty.seed}), with these models; they generalise to "
            f"{plan.units.generalises_to()}."
        ]
    if result.leave_one_out("APJ").reason is None:
        sentences.append(
            "Pairs that share a model are dependent, so pairs were never counted as independent: "
            f"the uncertainty over trainings is a t interval with {len(result.models) - 1} degrees "
            "of freedom from the jackknife over models."
        )
    sentences.append("Standard deviations are over images (ddof 0).")
    return " ".join(sentences)


def _reference_sentences(result: StabilityResult) -> list[str]:
    local, sentences = result.localized, []
    if local.has("DICE"):
        sentences.append(
            f"On {len(local.ids)} annotated positive images every model was compared with the "
            "reference by DICE, the Jaccard index, and whether the Jaccard index is at least "
            f"{local.least_jaccard:g} (accuracy)."
        )
    if local.has("AUC"):
        scores = (
            "the given scores"
            if local.pooling == "given"
            else f"the {local.pooling_words} of each map"
        )
        sentences.append(
            f"Whole images were classified by {scores}, measured by the area under the ROC curve "
            "(AUC)."
        )
    return [" ".join(sentences)] if sentences else []


def stability_page(result: StabilityResult, inputs: PageInputs) -> str:
    """Return the page as HTML; every text is escaped."""
    objects = "" if inputs.objects is None else objects_block(inputs.objects)
    title = TITLES[inputs.what]
    parts = [
        ("cautions", "Before you trust these numbers", _cautions(result)),
        ("objects", "Object by object", objects),
        ("figures", "Do the models agree?", _figure_blocks(result, ORDER)),
        ("images", "Where they agree, and where not", images_section(result, inputs.pictures)),
        ("reference", "Is it the right place?", _reference(result)),
        ("methods", "Methods", _methods(result)),
        ("numbers", "All numbers", _numbers(result)),
        ("reproduce", "Reproduce", reproduce_block(inputs.command, result.plan.settings())),
    ]
    return answer_page(title, summary_line(result), _answer(result, inputs.what), parts)


def _answer(result: StabilityResult, what: str) -> str:
    return answer_section(
        trust(result, what), further(result.sentences()) + table_block(scores_table(result))
    )


def _cautions(result: StabilityResult) -> str:
    """Return what may mislead, then further notes."""
    flagged = [remark.text for remark in result.remarks if remark.flag]
    care = f'<div class="care"><h3>What may mislead</h3>{items(flagged)}</div>' if flagged else ""
    paradox = result.paradox()
    notes = [remark.text for remark in result.remarks if not remark.flag]
    # Said also where it does not mislead: readers of kappa look for it.
    if not paradox.flagged and paradox.of_pairs:
        notes.append(
            "The kappa paradox (calls so one-sided that APJ and AJ are low although models agree) "
            f"occurs in {paradox.pairs} of {paradox.of_pairs} pairs of maps: too few to mislead"
        )
    return care + items([f"{note[:1].upper()}{note[1:]}." for note in notes])


def _figure_blocks(result: StabilityResult, names: Sequence[str]) -> str:
    """Return figures, two in a row where there is room."""
    blocks = []
    for name in names:
        if name in available(result):
            # The points of this figure are images, whose numbers are in the table of images.
            all_in = BAGS if name == "dice" else DOCUMENT
            blocks.append(figure_block(result.figure(name), f"fig-{name}", all_in=all_in))
    return in_pairs(blocks)


def _reference(result: StabilityResult) -> str:
    table = table_block(reference_table(result), len(result.models))
    return f"{table}\n{_figure_blocks(result, AGAINST)}" if table else ""


def _methods(result: StabilityResult) -> str:
    paragraphs = "\n".join(paragraph(words) for words in methods(result))
    return paragraphs + details("References", items(CITATIONS))


def _numbers(result: StabilityResult) -> str:
    scores = table_block(scores_table(result, result.names), len(result.names))
    variance = table_block(variance_table(result))
    parts = [table_block(bags_table(result), all_in=BAGS), details("Every score", scores)]
    if variance:
        parts.append(details("Where APJ varies", variance))
    return "\n".join(parts)
