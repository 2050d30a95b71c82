# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share, and the functions that parse their values.

An ``..._option`` declares one option: its name, type and usual help; a verb may pass the help that
fits what it does. Each ``..._options`` decorates a command with a family of them: how files are
read, how results are resampled, what is printed, which pictures a page has. The ``..._arguments``
turn the parsed options into the arguments of the Python functions, so that every verb understands
them alike.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from calipers.errors import InputError, UsageError, did_you_mean, spelled
from calipers.registry import FORMATS, INTERVALS

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort

F = TypeVar("F", bound=Callable[..., Any])
SCALES = click.Choice(["unit", "raw"])
MASKS = click.Choice(["auto", "required", "ignore"])
LABEL_MEANINGS = ("classes", "instances", "nonzero")
MISSING_VOLUMES = ("error", "empty")
PLACES = ("nearest",)
ON_OFF = click.Choice(["on", "off"])
OUTSIDE = click.Choice(["keep", "clip", "refuse"])
MOST_JOBS = 4096  # more processes than any machine starts, and than C counts
ENGINES = click.Choice(["local", "dask"])
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
SHARE_OR_BOUND = click.FloatRange(0, 1)
BLOCKS = (
    "Number of blocks of images, or of samples, processed in parallel; results do not depend on it."
)
REPLACE_RESULTS = "Allow a DIR that is not empty; results in it are replaced."
# options that replace the statistics of the protocol
STATISTICS = ("cluster", "strata", "level", "replicates", "interval")
REPLICATES = 2000  # of the bootstrap, if nobody says


# Where --help lists the options that verbs share; all others stand before them.
SECTIONS = {
    "Certainty": ("cluster", "strata", "replicates", "level", "interval", "seed", "no_ci"),
    "Page": ("images", "image_pattern", "no_images", "redact", "multiverse", "stability"),
    "Reading files": (
        "groups",
        "format_",
        "box_format",
        "columns",
        "score_scale",
        "masks",
        "coco_ignore",
        "ids_as_strings",
        "strict",
        "allow_loss",
        "outside",
        "where",
        "all_images",
        "readers",
        "reader_overlap",
    ),
    "Reading volumes": (
        "labels",
        "scores",
        "segment",
        "pattern",
        "reference_pattern",
        "missing_volumes",
        "geometry",
        "place",
    ),
    "Long runs": ("jobs", "max_memory", "engine", "scheduler", "part", "plan"),
    "Output": ("force", "as_json", "quiet", "help"),
}
FEW_OPTIONS = 20  # are listed together


class WordChoice(click.Choice[str]):
    """A choice of words that takes both spellings of one: center for centre."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word as it is among the choices."""
        return super().convert(spelled(value, self.choices), param, ctx)


class Verb(click.Command):
    """A command whose help lists many options in sections, and that shows that it works."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a terminal never stands still meanwhile."""
        from calipers.show.terminal import Heartbeat

        quiet = bool(ctx.params.get("quiet") or ctx.params.get("as_json"))
        with Heartbeat(str(ctx.info_name), quiet=quiet):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those that several verbs share in sections of their own."""
        rows = {}
        help_option = self.get_help_option(ctx)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                rows["help" if parameter is help_option else parameter.name] = record
        sections = []
        if len(rows) > FEW_OPTIONS:
            for title, names in SECTIONS.items():
                shared = [name for name in names if name in rows]
                if len(shared) > 1:
                    sections.append((title, [rows.pop(name) for name in shared]))
        for title, records in [("Options", list(rows.values())), *sections]:
            with formatter.section(title):
                formatter.write_dl(records)


def verb() -> Callable[[Callable[..., Any]], Verb]:
    """Declare a verb of the command line."""
    return click.command(cls=Verb)


def added(options: Sequence[Callable[[F], F]], function: F) -> F:
    """Add options to a command; --help lists them in the order given."""
    # Decorators apply from the last to the first, as those written above a function do.
    for option in reversed(options):
        function = option(function)
    return function


def output_folder_option(
    help: str = "Folder for page, JSON, CSV and figures; must be new or empty.",
    default: str | None = None,
) -> Callable[[F], F]:
    """Declare -o for a folder of results."""
    return click.option("-o", "--output", metavar="DIR", default=default, help=help)


def output_file_option(help: str, *, required: bool = False) -> Callable[[F], F]:
    """Declare -o for a single file."""
    return click.option("-o", "--output", metavar="FILE", required=required, help=help)


def force_option(help: str = "Replace FILE.") -> Callable[[F], F]:
    """Declare --force, which allows to replace what ``help`` names."""
    return click.option("--force", is_flag=True, help=help)


def groups_option(row: str = "image") -> Callable[[F], F]:
    """Declare --groups, a table with one row for each ``row``."""
    text = f"Table with a row per {row}: patient, centre, or any column."
    return click.option("--groups", metavar="TABLE", help=text)


def preset_option(help: str) -> Callable[[F], F]:
    """Declare --preset; ``help`` names the default, which differs between verbs."""
    return click.option("--preset", metavar="NAME", help=help)


def protocol_option(
    help: str = "Protocol file (TOML) instead of a preset.",
) -> Callable[[F], F]:
    """Declare --protocol."""
    return click.option("--protocol", metavar="FILE", help=help)


def cluster_option(
    help: str = "Unit of resampling: image, patient (default if known), any group; or "
    "centre,patient.",
) -> Callable[[F], F]:
    """Declare --cluster."""
    return click.option("--cluster", metavar="COLUMN", help=help)


def strata_option(function: F) -> F:
    """Declare --strata."""
    text = "Resample within each group of this column."
    return click.option("--strata", metavar="COLUMN", help=text)(function)


def level_option(function: F) -> F:
    """Declare --level with the usual level, for verbs without a protocol."""
    text = "Confidence level of the intervals (0.95)."
    return click.option("--level", metavar="P", type=SHARE, default=0.95, help=text)(function)


def protocol_level_option(function: F) -> F:
    """Declare --level without a default: what is not given comes from the protocol."""
    text = "Confidence level (0.95)."
    return click.option("--level", metavar="P", type=SHARE, help=text)(function)


def replicates_option(
    help: str = f"Number of bootstrap replicates ({REPLICATES}).",
    *,
    least: int = 100,
    most: int | None = None,
    default: int | None = None,
) -> Callable[[F], F]:
    """Declare --replicates; without a default a verb can tell whether it was given."""
    numbers = click.IntRange(least, most)
    return click.option("--replicates", metavar="N", type=numbers, default=default, help=help)


def no_ci_option(help: str = "Compute no intervals.") -> Callable[[F], F]:
    """Declare --no-ci."""
    return click.option("--no-ci", is_flag=True, help=help)


def seed_option(help: str = "Seed of the bootstrap (0).") -> Callable[[F], F]:
    """Declare --seed; ``help`` says what is random."""
    return click.option("--seed", metavar="N", type=click.IntRange(min=0), default=0, help=help)


def protocol_seed_option(function: F) -> F:
    """Declare --seed without a default: what is not given comes from the protocol."""
    text = "Seed; replaces that of the protocol."
    return click.option("--seed", metavar="N", type=click.IntRange(min=0), help=text)(function)


def jobs_option(
    help: str = "Number of threads; results do not depend on it.",
) -> Callable[[F], F]:
    """Declare --jobs."""
    return click.option(
        "--jobs", metavar="N", type=click.IntRange(1, MOST_JOBS), default=1, help=help
    )


def engine_option(function: F) -> F:
    """Declare --engine."""
    text = "Where the work runs: local (default), or dask for a cluster."
    return click.option("--engine", type=ENGINES, default="local", help=text)(function)


def scheduler_option(function: F) -> F:
    """Declare --scheduler."""
    text = "Dask scheduler, such as tcp://HOST:8786; default: one on this machine."
    return click.option("--scheduler", metavar="ADDRESS", help=text)(function)


def images_option(help: str) -> Callable[[F], F]:
    """Declare --images; ``help`` says what the pictures are for."""
    return click.option("--images", metavar="DIR", help=help)


def page_options(images: str, redact: str) -> Callable[[F], F]:
    """Add the options that say which pictures and names the page shows."""
    options = (
        images_option(images),
        click.option(
            "--image-pattern",
            metavar="NAMES",
            help="Names of the files in --images, such as {name}_ct.nii.gz.",
        ),
        click.option("--no-images", is_flag=True, help="Write the page without pictures."),
        click.option("--redact", is_flag=True, help=redact),
    )
    return partial(added, options)


def connectivity_option(part: str, default: str | None = None) -> Callable[[F], F]:
    """Declare --connectivity: which neighbours belong to one ``part``, such as an object."""
    kinds = click.Choice(["full", "edges", "faces"])
    text = f"Which neighbours belong to one {part} (full)."
    return click.option("--connectivity", type=kinds, default=default, help=text)


def metrics_option(
    help: str = "Metrics instead of those of the protocol, such as AP@0.4,FROC@1,F1@0.5.",
) -> Callable[[F], F]:
    """Declare --metrics: names of the protocol, or what a name says."""
    return click.option("--metrics", metavar="A,B,...", help=help)


def writing_options(
    target: str, forms: str = "coco, csv, tsv, parquet, yolo or voc"
) -> Callable[[F], F]:
    """Add the options that say how objects are written to ``target``."""
    options = (
        click.option(
            "--to",
            metavar="NAME",
            help=f"{forms}. Default: by the suffix of {target}.",
        ),
        click.option(
            "--to-box-format",
            metavar="NAME",
            help=f"Box format of {target}. Default: xywh for COCO, xyxy for tables.",
        ),
        force_option(f"Replace {target}."),
    )
    return partial(added, options)


def resampling_options(function: F) -> F:
    """Add unit, level and number of replicates of the intervals, for verbs without a protocol."""
    options = (
        cluster_option("Unit of resampling: image, patient (default if known), ..."),
        level_option,
        replicates_option(),
        no_ci_option(),
    )
    return added(options, function)


def resampling_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of resampling as keywords of an analysis."""
    return {
        "cluster": cluster_of(options["cluster"] or "auto"),
        "level": options["level"],
        # Without intervals nothing is resampled, and the number is not used.
        "replicates": chosen_replicates(options, REPLICATES) or REPLICATES,
        "seed": options["seed"],
        "ci": not options["no_ci"],
    }


def chosen_replicates(options: dict[str, Any], default: int) -> int:
    """Return the number of replicates, 0 with --no-ci; both options together are an error."""
    if options["no_ci"] and options["replicates"]:
        raise UsageError("--replicates is for intervals, which --no-ci leaves out")
    if options["no_ci"]:
        return 0
    return options["replicates"] or default


def lenient_options_of(what: str) -> tuple[Callable[[F], F], ...]:
    """Return --strict, --lenient and --allow-loss, for ``what`` may be broken."""
    return (
        click.option(
            "--strict/--lenient",
            default=True,
            help=f"Stop at broken {what}, or set them aside and count them.",
        ),
        click.option(
            "--allow-loss",
            metavar="SHARE",
            type=SHARE_OR_BOUND,
            default=0.5,
            help=f"Share of the {what} that --lenient may set aside (0.5).",
        ),
    )


def lenient_options(what: str) -> Callable[[F], F]:
    """Declare --strict, --lenient and --allow-loss."""
    return partial(added, lenient_options_of(what))


def reading_options(function: F) -> F:
    """Add the options that say how files are read."""
    formats = "xyxy, xywh or cxcywh, each also with -normalised; or xyxy-inclusive. COCO is xywh."
    columns = "Names of columns in tables, such as image=ImageID,class=label."
    options = (
        groups_option(),
        click.option(
            "--format",
            "format_",
            metavar="NAME",
            help=f"{', '.join(sorted(FORMATS))}, or a format of another package. "
            "Default: detected.",
        ),
        click.option("--box-format", metavar="NAME[,NAME]", help=formats),
        click.option("--columns", "--column", "columns", metavar="NAME=COLUMN,...", help=columns),
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
            help='off: iscrowd overwrites "ignore" of COCO annotations, as in pycocotools.',
        ),
        click.option(
            "--ids-as-strings", is_flag=True, help='Treat the image ids 1 and "1" as the same.'
        ),
        *lenient_options_of("records"),
        click.option(
            "--outside",
            type=OUTSIDE,
            default="keep",
            help="Boxes that reach beyond their image: keep (default), clip or refuse.",
        ),
        click.option(
            "--where",
            metavar="COLUMN=VALUE",
            help="Evaluate only images with this value of a column, such as split=test.",
        ),
        click.option(
            "--all-images",
            is_flag=True,
            help="Also evaluate images that only --groups, or else only predictions, name; or "
            "pictures without annotations.",
        ),
        click.option(
            "--readers",
            metavar="RULE",
            help="How to combine readers of an image: any, majority, each (in turn), or one name.",
        ),
        click.option(
            "--reader-overlap",
            metavar="IOU",
            type=SHARE_OR_BOUND,
            default=0.5,
            help="IoU from which boxes of different readers are one finding (0.5).",
        ),
    )
    return added((*options, *LABEL_OPTIONS), function)


# How label images and volumes become objects.
LABEL_OPTIONS = (
    click.option(
        "--labels",
        type=click.Choice(LABEL_MEANINGS),
        default="classes",
        help="Label volumes: values are classes (default) or instances; or nonzero is one class.",
    ),
    click.option(
        "--scores",
        metavar="[MODEL=]TABLE",
        multiple=True,
        help="Scores of predicted label volumes: a table with image, label and score.",
    ),
    click.option(
        "--segment", metavar="N", type=click.IntRange(min=1), help="Segment of DICOM segmentations."
    ),
    click.option(
        "--pattern", metavar="NAMES", help="Names of predicted volumes, such as {name}_pred.nii.gz."
    ),
    click.option(
        "--reference-pattern",
        metavar="NAMES",
        help="Names of reference volumes, such as {name}_seg.nii.gz.",
    ),
    click.option(
        "--missing-volumes",
        type=click.Choice(MISSING_VOLUMES),
        default="error",
        help="References without a predicted volume: error (default), or empty.",
    ),
    click.option(
        "--geometry",
        metavar="DIR",
        help="Folder of the images; needed if DICOM segmentations leave out empty slices.",
    ),
    click.option(
        "--place",
        type=click.Choice(PLACES),
        help=(
            "Resample predicted volumes on other grids to the grids of the references, by their "
            "affines."
        ),
    ),
)


def evaluation_options(presets: str) -> Callable[[F], F]:
    """Add the options of an evaluation: the plan, the statistics, the folder; ``presets`` names
    some of them.
    """
    of_by = "Also report per group: centre; centre,size; age=40:60. Repeatable."
    options = (
        output_folder_option("Folder for JSON, tables and the page; must be new or empty."),
        preset_option(presets),
        protocol_option(),
        metrics_option(),
        cluster_option(),
        strata_option,
        click.option("--by", metavar="COLUMNS", multiple=True, help=of_by),
        replicates_option(least=1),
        protocol_level_option,
        click.option(
            "--interval", type=click.Choice(INTERVALS), help="Kind of interval (bootse-t-logit)."
        ),
        protocol_seed_option,
        jobs_option(BLOCKS),
        engine_option,
        scheduler_option,
        no_ci_option(),
        force_option(REPLACE_RESULTS),
    )
    return partial(added, options)


def output_options(function: F) -> F:
    """Add --json and --quiet."""
    options = (
        click.option(
            "--json", "as_json", is_flag=True, help="Print one JSON object, also for errors."
        ),
        click.option(
            "-q", "--quiet", is_flag=True, help="Print no progress and no notes on stderr."
        ),
    )
    return added(options, function)


def picture_options(function: F) -> F:
    """Add the options of the page of an evaluation of boxes."""
    redact = (
        "Write the page with hashed ids and without pictures; other files in DIR keep all names."
    )
    return page_options("Folder of the pictures for the page.", redact)(function)


def picture_arguments(options: dict[str, Any], output: Path | None) -> dict[str, Any]:
    """Take the options of pictures as keywords of `Evaluation.report`; ``output`` is the folder
    that is written to.
    """
    images, pattern = options["images"], options["image_pattern"]
    if pattern is not None and (images is None or "{name}" not in pattern):
        raise UsageError(
            "--image-pattern says how files in --images DIR are called, with {name} in place of "
            "the name of the image: give both"
        )
    if images is not None:
        if options["no_images"]:
            raise UsageError("--images and --no-images exclude each other")
        if options["redact"]:
            raise UsageError("--redact leaves pictures out, so it cannot be used with --images")
        if not os.path.isdir(images):
            hint = "give the folder that contains the pictures"
            raise InputError("a folder", rule="not-a-folder", file=images, hint=hint)
        if output is not None and output.resolve() == Path(images).resolve():
            hint = "results are never written among the inputs: choose another folder"
            raise InputError(
                "an output that is not an input", rule="output-in-input", file=images, hint=hint
            )
        if pattern is not None:
            images = str(Path(images) / pattern)
    pictures = not options["no_images"] and not options["redact"]
    return {"images": images, "pictures": pictures, "redact": options["redact"]}


def reading_arguments(options: dict[str, Any], *, each_reader: bool = False) -> dict[str, Any]:
    """Take the reading options out of the arguments of a verb, as keywords of `calipers.read`.

    ``each_reader``: the verb can work on images that are repeated for every pair of readers.
    """
    if options["readers"] == "each" and not each_reader:
        raise UsageError(
            "--readers each is for evaluate, compare, multiverse and inspect: it repeats every "
            "image for its readers; choose any, majority, or the name of a reader"
        )
    # Imported here: help needs no terminal.
    from calipers.show.terminal import Narrator

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
        "readers": options["readers"],
        "reader_overlap": options["reader_overlap"],
        "labels": options["labels"],
        "scores": score_tables(options["scores"]),
        "segment": options["segment"],
        "pattern": options["pattern"],
        "reference_pattern": options["reference_pattern"],
        "missing_volumes": options["missing_volumes"],
        "geometry": options["geometry"],
        "place": options["place"],
        "where": options["where"],
        "all_images": options["all_images"],
        "progress": Narrator(quiet=options["quiet"] or options["as_json"]).whole(),
    }


def score_tables(texts: Sequence[str]) -> str | dict[str, str] | None:
    """Return the table of ``scores.csv``, or those of models, of ``ours=scores.csv``."""
    if not texts:
        return None
    if len(texts) == 1 and ("=" not in texts[0] or os.path.exists(texts[0])):
        return texts[0]
    tables = {}
    for text in texts:
        model, _, table = text.partition("=")
        if not table:
            raise UsageError(
                f"--scores {text} and a second --scores contradict each other: "
                "write MODEL=TABLE for each model"
            )
        tables[model] = table
    return tables


def chosen_protocol(options: dict[str, Any], default: Any = "coco") -> Any:
    """Return the protocol of the options; a preset and a file together are an error."""
    from calipers.evaluation.protocol import Protocol

    preset, file = options["preset"], options["protocol"]
    if preset and file:
        raise UsageError(
            '--preset and --protocol exclude each other; a protocol can use extends = "..."'
        )
    protocol = Protocol.load(Path(file) if file else preset or default)
    changes = {name: options[name] for name in STATISTICS if options.get(name) is not None}
    if "cluster" in changes:
        changes["cluster"] = cluster_of(changes["cluster"])
    return replace(protocol, **changes) if changes else protocol


def with_named_metrics(protocol: Any, text: str | None) -> Any:
    """Return the protocol with the metrics that --metrics names, if it does."""
    names = metric_names(text)
    return protocol if names is None else protocol.with_metrics(names)


def check_output(folder: str, force: bool, inputs: tuple[str, ...]) -> Path:
    """Refuse a bad output folder before any work is done; return the folder."""
    if not folder:
        raise UsageError("-o needs the name of a folder")
    from calipers.results.files import check_folder

    return check_folder(folder, force=force, inputs=inputs)


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
        if spelled(name.strip(), OBJECTS) not in {**OBJECTS, **BOXES}:
            suggestion = did_you_mean(name.strip(), [*OBJECTS, *BOXES])
            raise UsageError(
                f"--columns: {name.strip()!r} is not a column that Calipers reads; {suggestion}"
            )
    return {spelled(name.strip(), OBJECTS): column.strip() for name, _, column in pairs}


def cluster_of(text: str) -> str | tuple[str, ...]:
    """Return the unit of ``patient``, or the nested units of ``centre,patient``."""
    if "," not in text:
        return text
    return tuple(name.strip() for name in text.split(","))


def named_files(entries: Sequence[str]) -> dict[str, str]:
    """Return model name -> path of arguments such as ``ours=dets.json`` or ``dets.json``."""
    from calipers.io.source import model_name

    files: dict[str, str] = {}
    for entry in entries:
        name, sign, path = entry.partition("=")
        # A file whose own name contains "=" is a file, and not a name with a file.
        if not sign or os.path.exists(entry) or not name or "/" in name or "\\" in name:
            name, path = model_name(entry), entry
        if not path:
            raise UsageError(f"a file is missing in {entry!r}: give PREDS as file or as name=file")
        if name in files:
            names = [Path(place).resolve().parent.name for place in (files[name], path)]
            # Their folders are rather called like the models than any names of ours.
            first, second = names if len(set(names)) == 2 and all(names) else ("first", "second")
            raise UsageError(
                f"two models are called {name!r}; name them: {first}={files[name]} {second}={path}"
            )
        files[name] = path
    return files


def metric_names(text: str | None) -> list[str] | None:
    """Return the metrics of ``AP50,AP75``."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--metrics takes NAME,NAME,..., not {text!r}")
    # No metric is called by a number: that is the rest of one with a decimal comma.
    if any(name.isdigit() for name in names):
        pointed = re.sub(r"(@\d+),(\d+)(?=,|$)", r"\1.\2", text)
        raise UsageError(f"no metric {text!r}; did you mean {pointed!r}?")
    return names


def sizes_text(cohort: Cohort, *, models: bool = False, classes: bool = False) -> str:
    """Return how much was read: ``16 images, 15 references, 2 classes``."""
    from calipers.show.words import count_text

    counts = [
        count_text("image", cohort.n_images),
        count_text("reference", len(cohort.references)),
    ]
    if models:
        counts.append(count_text("model", len(cohort.models)))
    if classes:
        counts.append(count_text("class", len(cohort.classes)))
    return ", ".join(counts)
