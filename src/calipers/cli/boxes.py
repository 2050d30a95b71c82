# SPDX-License-Identifier: Apache-2.0
"""`calipers boxes MAPS -o FILE`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import output_options
from calipers.errors import UsageError, did_you_mean
from calipers.results.files import check_file

FORMATS = ("coco", "csv", "tsv", "parquet")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("maps", metavar="MAPS")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    help="File for the boxes: .json, .csv, .tsv or .parquet.",
)
@click.option(
    "--classes",
    metavar="A,B,...",
    help="Classes in the order of the maps; needed if a file has several maps.",
)
@click.option(
    "--pattern", metavar="TEXT", help="Pattern of the file names, such as '{image}__{class}.png'."
)
@click.option(
    "--images", metavar="DIR", help="Folder of the pictures; maps are resampled to their sizes."
)
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
@click.option(
    "--connectivity",
    type=click.Choice(["full", "edges", "faces"]),
    default="full",
    help="Which neighbours belong to one component (full).",
)
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
@click.option("--force", is_flag=True, help="Replace FILE.")
@output_options
def boxes(maps: str, output: str, **options: Any) -> None:
    """Turn heat maps into boxes with scores, as predictions that `calipers evaluate` reads.

    MAPS is a folder of npy, npz, png, tif or NIfTI files: IMAGE.npy with one map per class, or
    CLASS/IMAGE.png, or any --pattern. Maps are resampled to the size of the image, scaled to 0..255
    and thresholded at 60 and at 180; every connected component becomes a box.

    \b
    calipers boxes cams --classes nodule,mass --size 1024x1024 -o boxes.csv
    """
    from calipers.cli.map_files import find_maps, ids_and_sizes
    from calipers.heatmaps import boxes_from_heatmaps
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
    narrator.say(f"{len(map_files.images)} images, {len(map_files.classes)} classes")
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
    from calipers.readers.writing import SUFFIXES

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
