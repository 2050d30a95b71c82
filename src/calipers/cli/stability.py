# SPDX-License-Identifier: Apache-2.0
"""`calipers stability M1 M2 M3 ...`."""

from __future__ import annotations

import json
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import SHARE, cluster_of, output_options
from calipers.cli.stability_files import map_bags, named_models, prediction_bags, read_cohort
from calipers.errors import UsageError

UNIT = click.FloatRange(0, 1)
RULES = click.Choice(["any-overlap", "centre", "rounded", "coverage"])
UNDEFINED = click.Choice(["skip", "agree", "one"])
INPUTS = ("labels", "groups", "scores", "references", "images")  # options that name an input


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", metavar="MODEL MODEL...", nargs=-1, required=True)
@click.option(
    "--labels",
    metavar="FILE|DIR",
    help="Table of images with 0 or 1, groups and boxes; or a folder of masks.",
)
@click.option(
    "--groups", metavar="TABLE", help="Table with a row per image: patient, centre, or any column."
)
@click.option("--scores", metavar="TABLE", help="Table of image scores, with a column per model.")
@click.option(
    "--references",
    metavar="REFS",
    help="References, if each MODEL is a file of predicted boxes or masks.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Folder for page, JSON, CSV and figures; must be new or empty.",
)
@click.option(
    "--images", metavar="DIR", help="Folder of the pictures, shown below the maps on the page."
)
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
    help="How scores are normalised: minmax, sigmoid, clip, uint8, uint16 or rank.",
)
@click.option(
    "--cluster",
    metavar="COLUMN",
    default="auto",
    help="Unit of resampling: image, patient (default if known), ...",
)
@click.option(
    "--level",
    metavar="P",
    type=SHARE,
    default=0.95,
    help="Confidence level of the intervals (0.95).",
)
@click.option(
    "--replicates",
    metavar="N",
    type=click.IntRange(min=100),
    help="Number of bootstrap replicates (2000).",
)
@click.option("--no-ci", is_flag=True, help="Compute no intervals.")
@click.option(
    "--no-kendall", is_flag=True, help="Leave out Kendall's tau, which is slow on large maps."
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Seed of the bootstrap (0)."
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Number of threads; results do not depend on it.",
)
@click.option(
    "--force", is_flag=True, help="Allow a DIR that is not empty; results in it are replaced."
)
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
    from calipers.stability.analysis import stability as run

    narrator, named_paths = (
        Narrator(quiet=options["quiet"] or options["as_json"]),
        named_models(models),
    )
    analysis = _options(options)
    if options["output"] is not None:
        from calipers.cli.evaluate import check_output

        inputs = [path for _, path in named_paths] + [
            options[name] for name in INPUTS if options[name]
        ]
        check_output(options["output"], options["force"], tuple(inputs))
    elif options["images"] is not None:
        raise UsageError("--images is for the page, which -o DIR writes: give -o DIR too")
    objects = None
    if options["references"] is not None:
        cohort = read_cohort(named_paths, options)
        bags, objects = prediction_bags(cohort, options), _objects(cohort, narrator, options)
    else:
        if options["grid"] is not None:
            raise UsageError(
                "--grid is for predictions with --references; maps have a grid of their own"
            )
        bags = map_bags(named_paths, options)
    narrator.say(f"{len(bags)} images, {len(bags.models)} models: {', '.join(bags.models)}")
    result = run(bags, progress=narrator.steps("reading", "resampling"), **analysis)
    _finish(result, objects, narrator, options)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of the analysis."""
    if options["no_ci"] and options["replicates"]:
        raise UsageError("--replicates is for intervals, which --no-ci leaves out")
    names = ("threshold", "undefined", "bags", "level", "seed", "jobs")
    return {
        **{name: options[name] for name in names},
        "cluster": cluster_of(options["cluster"]),
        "replicates": options["replicates"] or 2000,
        "ci": not options["no_ci"],
        "kendall": not options["no_kendall"],
    }


def _objects(cohort: Any, narrator: Narrator, options: dict[str, Any]) -> Any:
    """Return which references the models find, object by object."""
    from calipers.stability.objects import object_stability

    return object_stability(
        cohort,
        cluster=cluster_of(options["cluster"]),
        level=options["level"],
        seed=options["seed"],
        replicates=options["replicates"] or 2000,
        ci=not options["no_ci"],
        progress=narrator.steps("objects"),
    )


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
    from calipers.cli.stability_tables import print_objects, print_stability

    warnings = list(result.warnings)
    if objects is not None:
        print_objects(objects)
        warnings = [*objects.warnings, *warnings]
    print_stability(result)
    if page is not None:
        click.echo(f"Open {page}")
    narrator.warn(warnings)


def _document(result: Any, objects: Any) -> dict[str, Any]:
    document: dict[str, Any] = result.as_dict()
    return document if objects is None else {**document, "objects": objects.as_dict()}


def _save(result: Any, objects: Any, options: dict[str, Any]) -> str:
    """Write the folder; return the file to open."""
    page = result.save(
        options["output"],
        command=click.get_current_context().obj or (),
        force=options["force"],
        images=options["images"],
        objects=objects,
    )
    return str(page)
