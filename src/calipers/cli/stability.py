# SPDX-License-Identifier: Apache-2.0
"""The verb `stability`: do models that were trained alike mark the same places?

`calipers stability M1 M2 M3 ...` takes maps of models or, with ``--references``, files of
predictions; `holds_predictions` tells them apart. Maps are compared as they are
(`calipers.stability.analyse`), predictions object by object and on a grid. Tables and sentences are
printed; ``-o`` writes the page.
"""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
from calipers.cli.options import (
    BLOCKS,
    REPLACE_RESULTS,
    SHARE,
    WordChoice,
    check_output,
    engine_option,
    force_option,
    groups_option,
    images_option,
    jobs_option,
    lenient_options,
    output_folder_option,
    output_options,
    resampling_arguments,
    resampling_options,
    scheduler_option,
    seed_option,
    verb,
)
from calipers.data.bags import Bags
from calipers.errors import InputError, UsageError
from calipers.show.terminal import Narrator, one_line, print_lines, print_tables

UNIT = click.FloatRange(0, 1)
RULES = WordChoice(["any-overlap", "centre", "rounded", "coverage"])
UNDEFINED = click.Choice(["skip", "agree", "one"])
INPUTS = ("labels", "groups", "scores", "references", "images")  # options that name an input

if TYPE_CHECKING:
    from calipers.engine.store import Store
    from calipers.stability.result import StabilityResult

GRID = {2: (32, 32), 3: (16, 32, 32)}  # cells of a map of predictions, if nobody says
ONLY_MAPS = {
    "labels": "--labels: references say which images are positive, and where",
    "scores": "--scores: the highest score of an image is that of its bag",
    "pooling": "--pooling: the highest score of an image is that of its bag",
    "pattern": "--pattern",
    "label_pattern": "--label-pattern",
    "normalise": "--normalise",
}


def named_models(entries: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, path) of arguments such as ``ours=maps`` or ``maps``; "" where only a path was
    given.
    """
    models = []
    for entry in entries:
        name, sign, path = entry.partition("=")
        if not sign or os.path.exists(entry) or not name or "/" in name or "\\" in name:
            name, path = "", entry
        if not path:
            raise UsageError(
                f"a file is missing in {entry!r}: give a model as file or as name=file"
            )
        models.append((name, path))
    return models


def holds_predictions(path: str) -> bool:
    """Return whether a file holds boxes of a detector (COCO JSON, a table with the columns of a
    box), and no maps.
    """
    from calipers.io.read import sniff_file
    from calipers.io.source import HEAD, InputFile, open_regular
    from calipers.io.tables.delimited import header_names

    place = Path(path)
    if not os.path.isfile(path):
        return False
    # Only the beginning is looked at: files of maps may be large.
    with open_regular(place, follow=True) as stream:
        head = stream.read(HEAD).removeprefix(BOM_UTF8)
    file = InputFile(path, head, len(head), "")
    try:
        kind = sniff_file(file).format
    except InputError:
        return False
    # Here a picture or volume is a map, not the objects of a label volume.
    if kind == "label-volumes":
        return False
    if kind == "parquet":
        return _boxed(_parquet_columns(place))
    return kind != "csv" or _boxed(header_names(file.head))


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return []  # its reader says what is wrong


def _boxed(names: Iterable[str]) -> bool:
    from calipers.io.tables.columns import BOX_LAYOUTS

    lower = {name.lower() for name in names}
    return any(set(box) <= lower for _, box in BOX_LAYOUTS)


def map_bags(models: Sequence[tuple[str, str]], options: dict[str, Any]) -> Bags:
    """Return the bags of files of maps, with positive instances where labels have boxes."""
    from calipers.stability.grid import instance_labels
    from calipers.stability.read import read_bags

    # An easy mistake: files of predictions without --references would be read as maps.
    boxed = next((path for _, path in models if holds_predictions(path)), None)
    if boxed is not None:
        hint = "give --references REFS, which define the images and what is to be found"
        if len(models) > 1 and not all(holds_predictions(path) for _, path in models):
            hint = (
                f"if it has the references, give it as --labels {boxed}; maps and predictions do "
                f"not mix"
            )
        raise InputError(
            "maps, or references too", rule="wrong-role", file=boxed, value="predictions", hint=hint
        )
    names = ("groups", "scores", "pattern", "label_pattern")
    reading = {name: options[name] for name in names}
    bags = read_bags(models, options["labels"], normalise=options["normalise"] or "none", **reading)
    if not bags.boxes:
        for name in ("rule", "coverage"):
            if options[name] is not None:
                raise UsageError(f"--{name} is about boxes in --labels, and there are none")
        return bags
    return bags.with_instances(partial(instance_labels, **rule_of(options)))


def rule_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return rule and coverage of the options, as keywords."""
    if options["coverage"] is not None and options["rule"] not in (None, "coverage"):
        raise UsageError(f"--coverage is for --rule coverage, not for --rule {options['rule']}")
    # A share alone names its rule.
    if options["coverage"] is not None:
        return {"rule": "coverage", "coverage": options["coverage"]}
    return {"rule": options["rule"] or "any-overlap"}


def read_cohort(models: Sequence[tuple[str, str]], options: dict[str, Any]) -> Any:
    """Return the cohort of references and files of predictions."""
    from calipers.io.read import read

    for name, option in ONLY_MAPS.items():
        if options[name] is not None:
            raise UsageError(f"--references is for predictions, which have no {option}")
    if options["rule"] not in (None, "any-overlap", "centre") or options["coverage"] is not None:
        raise UsageError("predictions are put on a grid by --rule any-overlap or centre")
    maps = next((path for _, path in models if not holds_predictions(path)), None)
    # A file that does not exist is told by the reader, in better words.
    if maps is not None and os.path.exists(maps):
        hint = "maps need no references: give --labels instead"
        raise InputError(
            "predictions (COCO or a table of boxes)", rule="wrong-role", file=maps, hint=hint
        )
    files: dict[str, str] = {}
    for name, path in models:
        model = name or Path(path).stem
        if model in files:
            raise UsageError(
                f"two models are called {model!r}; name them: first={files[model]} second={path}"
            )
        files[model] = path
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    progress = narrator.whole()
    return read(options["references"], files, groups=options["groups"], progress=progress)


def prediction_bags(cohort: Any, options: dict[str, Any]) -> Bags:
    """Return the predictions of a cohort on a grid."""
    from calipers.stability.grid import detections_as_bags

    grid = grid_of(options["grid"]) or GRID[cohort.dimensions]
    bags: Bags = detections_as_bags(cohort, grid, covers=options["rule"] or "any-overlap")
    return bags


def grid_of(text: str | None) -> tuple[int, ...] | None:
    """Return the numbers of ``16,16``."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise UsageError(f"--grid takes rows,columns such as 32,32, not {text!r}") from None


@verb()
@click.argument("models", metavar="MODEL MODEL...", nargs=-1, required=True)
@click.option(
    "--labels",
    metavar="FILE|DIR",
    help="Table of images with 0 or 1, groups and boxes; or a folder of masks.",
)
@groups_option()
@click.option("--scores", metavar="TABLE", help="Table of image scores, with a column per model.")
@click.option(
    "--references",
    metavar="REFS",
    help="References, if each MODEL is a file of predicted boxes or masks.",
)
@output_folder_option()
@images_option("Folder of the pictures, shown below the maps on the page.")
@click.option(
    "--threshold",
    metavar="T",
    type=UNIT,
    default=0.5,
    help="Smallest score of a positive instance (0.5).",
)
@click.option(
    "--bags",
    type=click.Choice(["positive", "all"]),
    default="positive",
    help="Images to analyse (positive).",
)
@click.option(
    "--undefined",
    type=UNDEFINED,
    default="skip",
    help="How to treat pairs of maps without a score, 0/0 (skip).",
)
@click.option(
    "--pooling",
    metavar="NAME",
    help="How a map becomes a score of its image, for the AUC: max (default), mean, noisy-or, "
    "noisy-or:0.98, lse, lse:10, top-k:8.",
)
@click.option("--rule", type=RULES, help="How boxes become positive instances (any-overlap).")
@click.option(
    "--coverage",
    metavar="P",
    type=SHARE,
    help="Smallest share of an instance inside a box, for --rule coverage.",
)
@click.option(
    "--grid", metavar="ROWS,COLUMNS", help="Grid for predictions (32,32; in 3D 16,32,32)."
)
@click.option(
    "--pattern", metavar="NAMES", help="Names of the files of maps, such as {name}_map.nii.gz."
)
@click.option(
    "--label-pattern",
    metavar="NAMES",
    help="Names of the files of masks, such as {name}_seg.nii.gz.",
)
@click.option(
    "--normalise",
    metavar="NAME",
    help="How scores are normalised: minmax, sigmoid, odds, clip, uint8, uint16, percent or rank.",
)
@resampling_options
@click.option(
    "--no-kendall", is_flag=True, help="Leave out Kendall's tau, which is slow on large maps."
)
@seed_option()
@jobs_option(BLOCKS)
@engine_option
@scheduler_option
@lenient_options("images")
@part_option
@max_memory_option
@force_option(REPLACE_RESULTS)
@plan_option
@output_options
def stability(models: tuple[str, ...], **options: Any) -> None:
    """Measure how well repeated trainings of a model mark the same places.

    MODEL is a folder with a map per image (NIfTI, NRRD, MHA, NumPy, PNG, TIFF), an npz or npy of
    all maps, or a table with a row per instance; name=MODEL names it. Maps are read one image at a
    time. With --references, MODEL is a file of predictions.

    \b
    calipers stability run1 run2 run3 run4 run5 --labels labels.csv -o results
    calipers stability a.json b.json c.json --references refs.json
    """
    run_stability(models, **options)


def run_stability(models: tuple[str, ...], *, store: Store | None = None, **options: Any) -> None:
    """Do what `calipers stability` does; ``store`` holds the bags of parts that were counted."""
    from calipers.stability.analyse import (
        bag_plan,
        bag_questions,
        check_units,
        collect_bags,
        stability_cost,
    )
    from calipers.stability.analyse import stability as run

    narrator, named_paths = (
        Narrator(quiet=options["quiet"] or options["as_json"]),
        named_models(models),
    )
    analysis, part = _options(options), chosen_part(options)
    if options["output"] is not None:
        inputs = [path for _, path in named_paths] + [
            options[name] for name in INPUTS if options[name]
        ]
        # The folder of a part may hold what an earlier run of it finished.
        check_output(options["output"], options["force"] or part is not None, tuple(inputs))
    elif options["images"] is not None:
        raise UsageError("--images is for the page, which -o DIR writes: give -o DIR too")
    cohort = None
    if options["references"] is not None:
        cohort = read_cohort(named_paths, options)
        bags = prediction_bags(cohort, options)
    else:
        if options["grid"] is not None:
            raise UsageError(
                "--grid is for predictions with --references; maps have their own grid"
            )
        bags = map_bags(named_paths, options)
    narrator.say(f"{len(bags)} images, {len(bags.models)} models: {', '.join(bags.models)}")
    command = click.get_current_context().find_root().obj or ()
    names = ("threshold", "bags", "pooling", "kendall")
    check_units(bags, analysis["cluster"])
    questions = bag_questions(bags, **{name: analysis[name] for name in names})
    if options["max_memory"] is not None or options["plan"]:
        cost = stability_cost(bags, questions)
        if options["max_memory"] is not None:
            limit = bytes_of(options["max_memory"])
            options["jobs"] = cost.jobs_within(limit, options["jobs"])
        if options["plan"]:
            print_cost(cost, options)
            return
    with ExitStack() as stack:
        lenient = not options["strict"]
        # Threads are quicker, but one of them that ends would end the program.
        workers = chosen_workers(options, processes=lenient, alone=lenient)
        jobs, executor = stack.enter_context(workers)
        if options["output"] is not None:
            plan = bag_plan(bags, questions, command, lenient=lenient)
            store = stack.enter_context(run_blocks(plan, options, part, store))
        how: dict[str, Any] = {"jobs": jobs, "executor": executor, "store": store}
        how["lenient"] = lenient
        how["progress"] = narrator.steps("reading", "resampling")
        if part is not None:
            number = collect_bags(bags, questions, **how)
            narrator.say(f"part {part}: {number} images are kept in {options['output']}")
            click.echo(options["output"])
            return
        result = run(bags, **how, **analysis, allow_loss=options["allow_loss"])
        objects = None
        if cohort is not None:
            objects = _objects(cohort, narrator, options)
        _finish(result, objects, narrator, options)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of the analysis."""
    return {
        **resampling_arguments(options),
        "threshold": options["threshold"],
        "undefined": options["undefined"],
        "bags": options["bags"],
        "pooling": options["pooling"],
        "kendall": not options["no_kendall"],
    }


def _objects(cohort: Any, narrator: Narrator, options: dict[str, Any]) -> Any:
    """Return which references the models find, object by object."""
    from calipers.stability.objects import object_stability

    # Objects are matched in threads of this machine, whatever the engine is.
    how = {"jobs": options["jobs"], "progress": narrator.steps("objects")}
    return object_stability(cohort, **resampling_arguments(options), **how)


def _finish(result: Any, objects: Any, narrator: Narrator, options: dict[str, Any]) -> None:
    """Write and print the result; warnings come last, where they are seen."""
    page = None
    if options["output"] is not None:
        narrator.doing("figures and tables")
        page = _save(result, objects, options)
        narrator.doing("")
    if options["as_json"]:
        click.echo(json.dumps({**_document(result, objects), "page": page}, allow_nan=False))
        return
    from calipers.stability.tables import found_table

    warnings = list(result.warnings)
    if objects is not None:
        print_lines(objects.sentences())
        print_tables([found_table(objects)])
        click.echo("The same predictions as maps, cell by cell:")
        warnings = [*objects.warnings, *warnings]
    print_stability(result)
    if page is not None:
        click.echo(one_line(f"Open {page}"))
    narrator.warn(warnings)


def _document(result: Any, objects: Any) -> dict[str, Any]:
    document: dict[str, Any] = result.as_dict()
    return document if objects is None else {**document, "objects": objects.as_dict()}


def _save(result: Any, objects: Any, options: dict[str, Any]) -> str:
    """Write the folder; return the file to open."""
    page = result.save(
        options["output"],
        command=click.get_current_context().find_root().obj or (),
        force=options["force"],
        images=options["images"],
        objects=objects,
    )
    return str(page)


def print_stability(result: StabilityResult) -> None:
    """Print the result in words, every score, and the models against the reference."""
    from calipers.stability.tables import tables_for_terminal

    print_lines(result.sentences())
    print_tables(tables_for_terminal(result))
