# SPDX-License-Identifier: Apache-2.0
"""The verbs that work on maps of scores.

- `calipers maps REFS PREDS...` evaluates maps against label volumes, voxel by voxel and object by
  object (`calipers.maps`);
- `calipers boxes MAPS -o FILE` turns heat maps into boxes with scores (`calipers.heatmaps`). A map
  may be smaller than its image; `ids_and_sizes` finds the sizes of images in pictures, in a table,
  or in the one size that was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from calipers.cli.engine import (
    bytes_of,
    chosen_part,
    chosen_workers,
    max_memory_option,
    part_option,
    plan_option,
    print_cost,
    run_blocks,
)
from calipers.cli.evaluate import show
from calipers.cli.options import (
    check_output,
    chosen_protocol,
    connectivity_option,
    evaluation_options,
    force_option,
    groups_option,
    images_option,
    lenient_options,
    named_files,
    output_file_option,
    output_options,
    page_options,
    score_tables,
    verb,
    with_named_metrics,
)
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.heatmaps.files import size_of
from calipers.io.volumes.open import stem_of
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, one_line
from calipers.show.words import count_text

if TYPE_CHECKING:
    from calipers.engine.store import Store

# options that replace the map settings of the protocol
SETTINGS = ("threshold", "connectivity", "least", "tuning")


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS...", nargs=-1, required=True)
@evaluation_options("Preset: anomaly (default), mood, picai, or another name.")
@click.option(
    "--labels",
    metavar="MEANING",
    default="binary",
    help="Meaning of label values: binary (default), nonzero or instances.",
)
@click.option(
    "--predictions",
    "kind",
    type=click.Choice(["maps", "labels", "instances"]),
    default="maps",
    help="PREDS are maps of scores (default), label volumes as --labels says, or instances.",
)
@click.option(
    "--scores",
    metavar="[MODEL=]TABLE",
    multiple=True,
    help="Scores of predicted label volumes: a table with image, label and score.",
)
@click.option("--mask-values", metavar="N,...", help="Label values that count, such as 1,3.")
@click.option(
    "--normalise",
    metavar="[MODEL=]NAME",
    multiple=True,
    help="How scores are normalised: none (default), minmax, sigmoid, odds, clip, uint8, uint16, "
    "percent or rank; MODEL=NAME for one model, may be repeated.",
)
@click.option(
    "--threshold", metavar="SCORE", help="Threshold for objects: a score, fpr:0.05, or best-dice."
)
@click.option(
    "--tuning",
    metavar="COLUMN=NAME",
    help="Samples on which the threshold is chosen; they are used for nothing else.",
)
@connectivity_option("object")
@click.option(
    "--least",
    metavar="N",
    type=click.IntRange(min=1),
    help="Smallest predicted object, in voxels (1).",
)
@click.option(
    "--label", metavar="NAME", default="lesion", help="Class name of the objects (lesion)."
)
@click.option(
    "--pattern", metavar="NAMES", help="Names of the prediction files, such as {name}_pred.nii.gz."
)
@click.option(
    "--reference-pattern",
    metavar="NAMES",
    help="Names of the reference files, such as {name}_seg.nii.gz.",
)
@click.option(
    "--missing",
    type=click.Choice(["error", "empty", "skip"]),
    default="error",
    help="What to do about missing maps (error).",
)
@click.option(
    "--resize",
    type=click.Choice(["nearest", "linear"]),
    help="Resample maps to the shape of the labels.",
)
@click.option(
    "--place",
    type=click.Choice(["nearest", "linear"]),
    help=(
        "Resample maps on other grids (crops, turned volumes) to that of the labels, by their "
        "affines."
    ),
)
@click.option(
    "--channel",
    metavar="N|NAME",
    help="Channel of maps that have several: its number from 0, "
    "or its name in the dataset.json of nnU-Net.",
)
@click.option(
    "--segment", metavar="N", type=click.IntRange(min=1), help="Segment of DICOM segmentations."
)
@groups_option("sample")
@page_options(
    "Folder of the images, for the pictures on the page.",
    "Write the page with hashed ids and without pictures.",
)
@lenient_options("samples")
@part_option
@max_memory_option
@plan_option
@output_options
def maps(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Evaluate score maps against label images or volumes.

    REFS and PREDS are folders with a file per sample (NIfTI, NRRD, MHA, NumPy, PNG, TIFF, DICOM),
    paired by name, or lists of files; name=DIR names a model. Volumes are read one after the other.

    \b
    calipers maps labels ours=maps_a theirs=maps_b --groups patients.csv -o results
    """
    run_maps(references, predictions, **options)


def run_maps(
    references: str, predictions: tuple[str, ...], *, store: Store | None = None, **options: Any
) -> None:
    """Do what `calipers maps` does; ``store`` holds the samples of parts that were examined."""
    from calipers.io.volumes.pairing import read_maps
    from calipers.maps.evaluate import check_sample_columns, evaluate_maps, examine_part
    from calipers.maps.plan import cost_of, map_plan

    narrator, start = Narrator(quiet=options["quiet"] or options["as_json"]), datetime.now(UTC)
    if options["kind"] != "maps" and options["threshold"] is not None:
        raise UsageError(
            f"--threshold cuts objects out of maps of scores; --predictions {options['kind']} "
            "has objects already"
        )
    protocol = with_named_metrics(chosen_protocol(options, "anomaly"), options["metrics"])
    protocol = with_settings(protocol, options)
    folders, part = named_files(predictions), chosen_part(options)
    if options["output"] is not None:
        others = [options[name] for name in ("groups", "images") if options[name]]
        inputs = (references, *folders.values(), *others)
        # The folder of a part may hold what an earlier run of it finished.
        check_output(options["output"], options["force"] or part is not None, inputs)
    samples = read_maps(
        references,
        folders,
        images=options["images"],
        groups=options["groups"],
        pattern=options["pattern"],
        reference_pattern=options["reference_pattern"],
        image_pattern=options["image_pattern"],
        missing=options["missing"],
        resize=options["resize"],
        place=options["place"],
        channel=options["channel"],
        segment=options["segment"],
        progress=narrator.steps("headers"),
    )
    counts = f"{count_text('sample', len(samples))}, {count_text('model', len(folders))}"
    narrator.say(f"{counts}; protocol {protocol.name}")
    meaning: dict[str, Any] = {
        "labels": meaning_of_labels(options["labels"], options["mask_values"]),
        "normalise": chosen_normalisation(options["normalise"]),
        "predictions": options["kind"],
        "scores": score_tables(options["scores"]),
    }
    if options["max_memory"] is not None:
        limit = bytes_of(options["max_memory"])
        options["jobs"] = cost_of(samples, protocol).jobs_within(limit, options["jobs"])
    if options["plan"]:
        print_cost(cost_of(samples, protocol, **meaning, measured=True), options)
        return
    command = click.get_current_context().find_root().obj or ()
    check_sample_columns(samples, protocol, options["by"])
    with ExitStack() as stack:
        # A sample that ends the process that reads it must not end this one.
        alone = not options["strict"]
        jobs, executor = stack.enter_context(chosen_workers(options, processes=True, alone=alone))
        meaning["lenient"] = not options["strict"]
        if options["output"] is not None:
            plan = map_plan(samples, protocol, **meaning, command=command)
            store = stack.enter_context(run_blocks(plan, options, part, store))
        how: dict[str, Any] = {**meaning, "jobs": jobs, "executor": executor, "store": store}
        how["progress"] = narrator.steps(*steps_of(protocol))
        if part is not None:
            number = examine_part(samples, protocol, **how)
            narrator.say(f"part {part}: {number} samples are kept in {options['output']}")
            click.echo(options["output"])
            return
        evaluation = evaluate_maps(
            samples,
            protocol,
            **how,
            label=options["label"],
            allow_loss=options["allow_loss"],
            seed=options["seed"],
            ci=not options["no_ci"],
            by=tuple(dict.fromkeys(options["by"])),
        )
        narrator.warn(evaluation.warnings)
        if options["missing"] == "empty":
            for file in evaluation.cohort.intake.files:
                if file.assumed_empty is not None:
                    counts = f"{file.read} maps read, {file.used} used, {file.assumed_empty}"
                    narrator.say(one_line(f"{file.role}: {counts} assumed empty"))
        if options["output"]:
            pictures = {
                "pictures": not options["no_images"] and not options["redact"],
                "redact": options["redact"],
            }
            evaluation.save(
                options["output"],
                force=options["force"],
                command=command,
                started=start,
                step=narrator.doing,
                progress=narrator.whole(),
                **pictures,
            )
    show(evaluation, narrator, options)


def with_settings(protocol: Any, options: dict[str, Any]) -> Any:
    """Return the protocol with the settings of maps that the options name."""
    from calipers.metrics.maps import MapSettings

    changes = {name: options[name] for name in SETTINGS if options[name] is not None}
    if "threshold" in changes:
        changes["threshold"] = number_or_text(changes["threshold"])
    if not changes:
        return protocol
    return replace(protocol, maps=replace(protocol.maps or MapSettings(), **changes))


def chosen_normalisation(texts: tuple[str, ...]) -> str | dict[str, str]:
    """Return the normalisation of all models (``uint8``), or of those that are named
    (``echo=uint8``).
    """
    if not texts:
        return "none"
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    of_models = {}
    for text in texts:
        model, _, name = text.partition("=")
        if not name:
            raise UsageError(
                f"--normalise {text} and a second --normalise contradict each other: "
                "write MODEL=NAME for each model"
            )
        of_models[model] = name
    return of_models


def number_or_text(text: str) -> float | str:
    """Return 0.5 of "0.5", and other text as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def steps_of(protocol: Any) -> tuple[str, ...]:
    """Return the steps of the evaluation, in order."""
    steps = ("reading", "matching", "resampling")
    if protocol.maps is not None and protocol.maps.is_rule:
        return ("choosing a threshold", *steps)
    return steps


def meaning_of_labels(name: str, values: str | None) -> str | tuple[int, ...]:
    """Return the name of a meaning, or the values that count, of ``1,3``."""
    if values is None:
        return name
    # "binary" is the default, so it may also mean that nothing was said.
    if name != "binary":
        raise UsageError(
            f"--labels {name} and --mask-values {values} contradict each other: give one of them"
        )
    return mask_values(values)


def mask_values(text: str) -> tuple[int, ...]:
    """Return the numbers of ``1,3``."""
    try:
        return tuple(int(value) for value in text.split(","))
    except ValueError:
        raise UsageError(f"--mask-values takes whole numbers such as 1,3, not {text!r}") from None


FORMATS = ("coco", "csv", "tsv", "parquet")


@verb()
@click.argument("maps", metavar="MAPS")
@output_file_option("File for the boxes: .json, .csv, .tsv or .parquet.", required=True)
@click.option(
    "--classes",
    metavar="A,B,...",
    help="Classes in the order of the maps; needed if a file has several maps.",
)
@click.option(
    "--pattern", metavar="TEXT", help="Pattern of the file names, such as '{image}__{class}.png'."
)
@images_option("Folder of the pictures; maps are resampled to their sizes.")
@click.option(
    "--sizes",
    metavar="FILE",
    help="Table with image, width and height, or the references; boxes get its image ids.",
)
@click.option("--size", metavar="WxH", help="One size for all images, such as 1024x1024.")
@click.option(
    "--ids",
    type=click.Choice(["name", "picture"]),
    default="name",
    help="Image ids: name of the map, or of its picture.",
)
@click.option(
    "--threshold",
    "thresholds",
    metavar="N",
    type=float,
    multiple=True,
    help="Threshold for boxes (60 and 180). Repeatable.",
)
@click.option(
    "--scale",
    type=click.Choice(["image", "image-class", "none"]),
    default="image",
    help="What is scaled to 0..255: the maps of an image together, each map, or nothing.",
)
@connectivity_option("component", default="full")
@click.option(
    "--score",
    type=click.Choice(["mean", "max"]),
    default="mean",
    help="Score of a box: mean or max of the map in the component.",
)
@click.option("--keep-best", is_flag=True, help="Keep only the best box of each class and image.")
@click.option(
    "--missing",
    type=click.Choice(["refuse", "empty"]),
    default="refuse",
    help="If an image has no map of a class: stop, or treat it as empty.",
)
@click.option(
    "--volumes", is_flag=True, help="Maps are volumes with the axes (depth, height, width)."
)
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    help="coco, csv, tsv or parquet. Default: by the suffix of FILE.",
)
@force_option()
@output_options
def boxes(maps: str, output: str, **options: Any) -> None:
    """Turn heat maps into boxes with scores, as predictions that `calipers evaluate` reads.

    MAPS is a folder of npy, npz, png, tif or NIfTI files: IMAGE.npy with one map per class, or
    CLASS/IMAGE.png, or any --pattern. Maps are resampled to the size of the image, scaled to 0..255
    and thresholded at 60 and at 180; every connected component becomes a box.

    \b
    calipers boxes cams --classes nodule,mass --size 1024x1024 -o boxes.csv
    """
    from calipers.heatmaps.boxes import boxes_from_heatmaps
    from calipers.heatmaps.files import find_maps
    from calipers.heatmaps.settings import THRESHOLDS

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    kind = _format(output, options["format_"])
    check_file(
        output, force=options["force"], inputs=[options["sizes"]] if options["sizes"] else []
    )
    map_files = find_maps(
        maps, options["pattern"], _classes(options["classes"]), options["missing"]
    )
    ids, size = ids_and_sizes(map_files.images, options)
    n_images, n_classes = len(map_files.images), len(map_files.classes)
    narrator.say(f"{count_text('image', n_images)}, {count_text('class', n_classes)}")
    result = boxes_from_heatmaps(
        map_files.load(options["volumes"], narrator.steps("maps")),
        classes=map_files.classes,
        size=size,
        thresholds=options["thresholds"] or THRESHOLDS,
        scale=options["scale"],
        connectivity=options["connectivity"],
        keep_best=options["keep_best"],
        score=options["score"],
        image_ids=ids,
    )
    result.write(output, kind)
    size_note = (
        () if size is not None else ("no image sizes were given: boxes are in pixels of the maps",)
    )
    _show(
        result,
        output,
        kind,
        (*map_files.notes, *size_note, *result.notes),
        narrator if not options["as_json"] else None,
    )


def _show(
    result: Any, output: str, format: str, warnings: tuple[str, ...], narrator: Narrator | None
) -> None:
    from calipers import __version__

    if narrator is None:
        document = {
            "schema": "calipers.boxes/1",
            "calipers": __version__,
            "written": output,
            "format": format,
        }
        click.echo(json.dumps({**document, **result.as_dict(), "warnings": list(warnings)}))
        return
    narrator.warn(warnings)
    levels = ", ".join(f"{n} at {level:g}" for level, n in result.by_threshold().items())
    narrator.say(f"{len(result)} boxes ({levels}) on {len(result.images)} images")
    click.echo(output)


def _format(output: str, name: str | None) -> str:
    from calipers.io.write import SUFFIXES

    format_name = name or SUFFIXES.get(Path(output).suffix.lower(), "")
    if format_name not in FORMATS:
        word = format_name or Path(output).suffix
        raise UsageError(f"no format {word!r}; {did_you_mean(word, FORMATS)}")
    return format_name


def _classes(text: str | None) -> list[str]:
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"--classes takes different names A,B,..., not {text!r}")
    return names


def ids_and_sizes(images: Sequence[str], options: Mapping[str, Any]) -> tuple[tuple[str, ...], Any]:
    """Return the ids of the images, and their sizes: one for all, one each, or None for those of
    the maps.
    """
    size_options = [
        f"--{name}" for name in ("images", "sizes", "size") if options[name] is not None
    ]
    if len(size_options) > 1:
        raise UsageError(f"{' and '.join(size_options)} exclude each other: give one of them")
    if options["ids"] == "picture" and options["images"] is None:
        raise UsageError("--ids picture needs --images DIR, the folder of the pictures")
    if options["images"] is not None:
        return _of_pictures(images, options["images"], options["ids"])
    if options["sizes"] is not None:
        return _of_table(images, options["sizes"])
    return tuple(images), None if options["size"] is None else _one_size(options["size"])


def _one_size(text: str) -> list[int]:
    sides = re.split(r"[x,]", text)
    if len(sides) not in (2, 3) or not all(side.isascii() and side.isdigit() for side in sides):
        raise UsageError(f"--size takes WIDTHxHEIGHT, or WIDTHxHEIGHTxDEPTH, not {text!r}")
    return [int(side) for side in sides]


def _of_pictures(images: Sequence[str], folder: str, ids: str) -> tuple[tuple[str, ...], Any]:
    from calipers.data.cohort import Cohort
    from calipers.pictures.files import PictureFiles

    # Pictures are looked up for a cohort, so the images become one without objects.
    nothing = [{"image_id": name, "boxes": [], "labels": []} for name in images]
    pictures = PictureFiles.of(Path(folder), Cohort.from_arrays(nothing, classes=("any",)))
    paths = []
    for k, name in enumerate(images):
        path = pictures.path_of(k)
        if path is None:
            hint = "; ".join(pictures.notes())
            raise InputError(
                "a picture for every map", rule="no-picture", file=folder, value=name, hint=hint
            )
        paths.append(path)
    sizes = [size_of(path) for path in paths]
    if ids == "picture":
        return tuple(path.name for path in paths), sizes
    return tuple(images), sizes


def _of_table(images: Sequence[str], path: str) -> tuple[tuple[str, ...], Any]:
    from calipers.heatmaps.files import read_sizes

    table = read_sizes(path)
    stems = [_stem(name) for name in table.ids]
    # An exact name comes first; a name without its extension counts only if nothing else fits.
    row_lookups = [
        _rows_of(table.ids),
        _rows_of(table.names),
        _rows_of(stems),
        _rows_of([_stem(name) for name in table.names]),
    ]
    table_rows = []
    for image in images:
        rows = next((lookup[image] for lookup in row_lookups if image in lookup), [])
        if not rows:
            # The nearest name is found by comparing with each: a thousand are quick and enough.
            hint = did_you_mean(image, list(dict.fromkeys(stems))[:1000])
            raise InputError(
                "a size for every map", rule="size-unknown", file=path, value=image, hint=hint
            )
        if len(rows) > 1:
            value = f"{image}: {table.ids[rows[0]]} or {table.ids[rows[1]]}"
            raise InputError("one image for every map", rule="dup-image", file=path, value=value)
        table_rows.append(rows[0])
    sizes = table.size[np.array(table_rows, np.int64)].astype(int).tolist()
    return tuple(table.ids[row] for row in table_rows), sizes


def _rows_of(names: Sequence[str]) -> dict[str, list[int]]:
    """Return name -> its rows."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def _stem(name: str) -> str:
    last = name.rpartition("/")[2]
    return stem_of(last) or last.rpartition(".")[0] or name
