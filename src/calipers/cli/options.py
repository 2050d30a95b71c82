# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share, and the functions that parse their values.

Each ``..._options`` decorates a command with a family of options: how files are read, which
protocol is used, what is printed, which pictures a page has. The ``..._arguments`` turn the parsed
options into the arguments of the Python functions, so that every verb understands them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.registry import INTERVALS

F = TypeVar("F", bound=Callable[..., Any])
SCALES = click.Choice(["unit", "raw"])
MASKS = click.Choice(["auto", "required", "ignore"])
ON_OFF = click.Choice(["on", "off"])
OUTSIDE = click.Choice(["keep", "clip", "refuse"])
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
SHARE_OR_BOUND = click.FloatRange(0, 1)
JOBS = "Blocks of images, or samples, processed at a time; results do not depend on it."


def reading_options(function: F) -> F:
    """Add the options that say how files are read."""
    formats = "xyxy, xywh or cxcywh, each also with -normalised; or xyxy-inclusive. COCO is xywh."
    columns = "Names of columns in tables, such as image=ImageID,class=label."
    for option in reversed(
        (
            click.option(
                "--groups",
                metavar="TABLE",
                help="Table with a row per image: patient, centre, or any column.",
            ),
            click.option(
                "--format",
                "format_",
                metavar="NAME",
                help="coco, csv, lard, nih, parquet, or a format of another package. Default: "
                "detected.",
            ),
            click.option("--box-format", metavar="NAME[,NAME]", help=formats),
            click.option(
                "--columns", "--column", "columns", metavar="NAME=COLUMN,...", help=columns
            ),
            click.option(
                "--score-scale",
                type=SCALES,
                default="unit",
                help="unit: scores lie in [0, 1]; raw: any scores.",
            ),
            click.option(
                "--masks",
                type=MASKS,
                default="auto",
                help="auto reads masks if all annotations have one.",
            ),
            click.option(
                "--coco-ignore",
                type=ON_OFF,
                default="on",
                help='off: "ignore" of COCO annotations is overwritten by iscrowd, as pycocotools '
                "does.",
            ),
            click.option(
                "--ids-as-strings", is_flag=True, help='Treat the image ids 1 and "1" as the same.'
            ),
            click.option(
                "--strict/--lenient",
                default=True,
                help="Stop at broken records, or set them aside and count them.",
            ),
            click.option(
                "--allow-loss",
                metavar="SHARE",
                type=SHARE_OR_BOUND,
                default=0.5,
                help="Share of the records that --lenient may set aside (0.5).",
            ),
            click.option(
                "--outside",
                type=OUTSIDE,
                default="keep",
                help="Boxes that reach beyond their image: keep (default), clip or refuse.",
            ),
        )
    ):
        function = option(function)
    return function


def evaluation_options(presets: str) -> Callable[[F], F]:
    """Add the options of an evaluation: the plan, the statistics, the folder; ``presets`` names
    some of them.
    """
    of_cluster = (
        "Unit of resampling: image, patient (default if known), any group; or centre,patient."
    )
    of_by = "Also report per group: centre; centre,size; age=40:60. Repeatable."
    options = (
        click.option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder for JSON, tables and the page; must be new or empty.",
        ),
        click.option("--preset", metavar="NAME", help=presets),
        click.option(
            "--protocol", metavar="FILE", help="Protocol file (TOML) instead of a preset."
        ),
        click.option("--cluster", metavar="COLUMN", help=of_cluster),
        click.option(
            "--strata",
            metavar="COLUMN",
            help="Resample within each group of this column.",
        ),
        click.option("--by", metavar="COLUMNS", multiple=True, help=of_by),
        click.option(
            "--replicates",
            metavar="N",
            type=click.IntRange(min=1),
            help="Number of bootstrap replicates (2000).",
        ),
        click.option("--level", metavar="P", type=SHARE, help="Confidence level (0.95)."),
        click.option(
            "--interval", type=click.Choice(INTERVALS), help="Kind of interval (bootse-t-logit)."
        ),
        click.option(
            "--seed",
            metavar="N",
            type=click.IntRange(min=0),
            help="Seed; replaces that of the protocol.",
        ),
        click.option("--jobs", metavar="N", type=click.IntRange(min=1), default=1, help=JOBS),
        click.option(
            "--engine",
            type=click.Choice(["local"]),
            default="local",
            help="Where the work runs; only local.",
        ),
        click.option("--no-ci", is_flag=True, help="Compute no intervals."),
        click.option(
            "--force",
            is_flag=True,
            help="Allow a DIR that is not empty; results in it are replaced.",
        ),
    )

    def added(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return added


def output_options(function: F) -> F:
    """Add --json and --quiet."""
    for option in reversed(
        (
            click.option(
                "--json", "as_json", is_flag=True, help="Print one JSON object, also for errors."
            ),
            click.option(
                "-q", "--quiet", is_flag=True, help="Print no progress and no notes on stderr."
            ),
        )
    ):
        function = option(function)
    return function


def picture_options(function: F) -> F:
    """Add the options that say which pictures and names the page shows."""
    redact = (
        "Write the page with hashed ids and without pictures; other files in DIR keep all names."
    )
    # Decorators apply from the last to the first, and --help shows them in the order of a file.
    for option in reversed(
        (
            click.option("--images", metavar="DIR", help="Folder of the pictures for the page."),
            click.option("--no-images", is_flag=True, help="Write the page without pictures."),
            click.option("--redact", is_flag=True, help=redact),
        )
    ):
        function = option(function)
    return function


def picture_arguments(options: dict[str, Any], output: Path | None) -> dict[str, Any]:
    """Take the options of pictures as keywords of `Evaluation.report`; ``output`` is the folder
    that is written to.
    """
    images = options["images"]
    if images is not None:
        if options["no_images"]:
            raise UsageError("--images and --no-images exclude each other")
        if options["redact"]:
            raise UsageError("--redact leaves pictures out, so it cannot be used with --images")
        if not Path(images).is_dir():
            hint = "give the folder that contains the pictures"
            raise InputError("a folder", rule="not-a-folder", file=images, hint=hint)
        if output is not None and output.resolve() == Path(images).resolve():
            hint = "results are never written among the inputs: choose another folder"
            raise InputError(
                "an output that is not an input", rule="output-in-input", file=images, hint=hint
            )
    pictures = not options["no_images"] and not options["redact"]
    return {"images": images, "pictures": pictures, "redact": options["redact"]}


def reading_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Take the reading options out of the arguments of a verb, as keywords of `calipers.read`."""
    return {
        "groups": options["groups"],
        "format": options["format_"],
        "box_format": box_formats(options["box_format"]),
        "columns": column_map(options["columns"]),
        "score_scale": options["score_scale"],
        "ids_as_strings": options["ids_as_strings"],
        "masks": options["masks"],
        "coco_ignore": options["coco_ignore"] == "on",
        # The command line says --strict or --lenient; Python has one word for it.
        "lenient": not options["strict"],
        "allow_loss": options["allow_loss"],
        "outside": options["outside"],
    }


def box_formats(text: str | None) -> str | tuple[str | None, str | None] | None:
    """Return the format of ``xywh``, or both of ``xywh,xyxy`` for references and predictions."""
    if text is None or "," not in text:
        return text
    references, _, predictions = text.partition(",")
    return references.strip() or None, predictions.strip() or None


def column_map(text: str | None) -> dict[str, str] | None:
    """Return ``{"image": "ImageID"}`` of ``image=ImageID,...``."""
    if not text:
        return None
    from calipers.io.tables.columns import BOXES, OBJECTS

    pairs = [entry.partition("=") for entry in text.split(",")]
    for name, sign, column in pairs:
        # A half entry is a typing error, never an empty name.
        if not (name and sign and column):
            raise UsageError(f"--columns takes NAME=COLUMN,..., not {text!r}")
        if name.strip() not in OBJECTS and name.strip() not in BOXES:
            suggestion = did_you_mean(name.strip(), [*OBJECTS, *BOXES])
            raise UsageError(
                f"--columns: {name.strip()!r} is not a column that Calipers reads; {suggestion}"
            )
    return {name.strip(): column.strip() for name, _, column in pairs}


def cluster_of(text: str) -> str | tuple[str, ...]:
    """Return the unit of ``patient``, or the nested units of ``centre,patient``."""
    if "," not in text:
        return text
    return tuple(name.strip() for name in text.split(","))


def named_files(entries: Sequence[str]) -> dict[str, str]:
    """Return model name -> path of arguments such as ``ours=dets.json`` or ``dets.json``."""
    files: dict[str, str] = {}
    for entry in entries:
        name, sign, path = entry.partition("=")
        # A file whose own name contains "=" is a file, and not a name with a file.
        if not sign or Path(entry).exists() or not name or "/" in name or "\\" in name:
            name, path = Path(entry).stem, entry
        if not path:
            raise UsageError(f"a file is missing in {entry!r}: give PREDS as file or as name=file")
        if name in files:
            raise UsageError(
                f"two models are called {name!r}; name them: first={files[name]} second={path}"
            )
        files[name] = path
    return files
