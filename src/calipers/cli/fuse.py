# SPDX-License-Identifier: Apache-2.0
"""`calipers fuse REFS MODEL=PREDS...`: the predictions of several models become those of one.

The work is done by `calipers.fusion`; this module reads, writes and prints. ``-o`` is a file for
the fused predictions alone, or a folder for everything: predictions, recipe, page, tables, figures.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.engine import plan_option, print_cost
from calipers.cli.options import (
    check_output,
    chosen_protocol,
    cluster_option,
    jobs_option,
    metric_names,
    named_files,
    output_options,
    preset_option,
    protocol_level_option,
    protocol_option,
    protocol_seed_option,
    reading_arguments,
    reading_options,
    replicates_option,
    strata_option,
    verb,
    writing_options,
)
from calipers.errors import InputError, UsageError, one_of
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, print_tables

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort
    from calipers.evaluation.protocol import Protocol
    from calipers.fusion.recipe import FusionRecipe
    from calipers.fusion.result import FusionDocument

# Formats of predictions in a folder, and the suffixes of their files.
SUFFIXES = {"coco": "json", "csv": "csv", "tsv": "tsv", "parquet": "parquet"}
# Options that only mean something with --evaluate or --tune.
OF_EVALUATION = ("preset", "protocol", "metrics", "cluster", "strata", "replicates", "level")
FOLDS, ROUNDS = 5, 3
SCORE_HINT = (
    "members are averaged by their scores: turn these into probabilities, percentages by dividing "
    "them by 100"
)


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="MODEL=PREDS...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE|DIR",
    required=True,
    help="File for the fused predictions: .json (COCO), .csv, .tsv or .parquet; or a new folder "
    "for predictions, recipe, page, JSON, tables and figures.",
)
@click.option(
    "--recipe",
    metavar="NAME|FILE",
    default="endocv2022",
    help="endocv2022 (default), nms, nmw, soft-nms, wbf, or a recipe file (TOML).",
)
@click.option("--name", metavar="NAME", help="Name of the ensemble. Default: that of the recipe.")
@click.option(
    "--tune",
    is_flag=True,
    help="Choose the parameters of the recipe on the tuning split; needs -o DIR.",
)
@click.option(
    "--tuning",
    metavar="COLUMN=VALUE|SHARE",
    help="Tuning split: images whose column has this value, or a random share of the patients. "
    "Calibration is fitted on it; --evaluate uses the other images.",
)
@click.option(
    "--folds",
    metavar="N",
    type=click.IntRange(2, 100),
    help=f"Folds of the nested cross-validation of --tune ({FOLDS}).",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1, 100),
    help=f"Maximum number of rounds of --tune over the parameters ({ROUNDS}).",
)
@click.option(
    "--evaluate",
    is_flag=True,
    help="Also evaluate members and ensemble, and what each member adds.",
)
@preset_option("Preset for --evaluate and --tune. Default: coco.")
@protocol_option()
@click.option(
    "--metrics",
    metavar="A,B,...",
    help="Metrics for --evaluate, or all; --tune takes the first. Default: the headline of the "
    "protocol.",
)
@cluster_option()
@strata_option
@replicates_option()
@protocol_level_option
@protocol_seed_option
@jobs_option()
@writing_options("FILE", forms="coco, csv, tsv or parquet")
@reading_options
@plan_option
@output_options
def fuse(references: str, predictions: tuple[str, ...], output: str, **options: Any) -> None:
    """Fuse the predictions of several models into those of an ensemble, by a recipe.

    REFS defines the images and classes, and --evaluate measures against it. If --tune was
    interrupted, the same command continues it.

    \b
    calipers fuse refs.json a=a.json b=b.json c=c.json --recipe endocv2022 -o fused.json
    calipers fuse refs.json a=a.json b=b.json --evaluate --metrics AP50 -o ensemble
    calipers fuse refs.json a=a.json b=b.json --tune --tuning split=tune --evaluate -o ensemble
    """
    from calipers.fusion.recipe import FusionRecipe, tuned_name
    from calipers.show.words import count_text

    files = named_files(predictions)
    recipe = FusionRecipe.load(options["recipe"])
    name = options["name"] or (tuned_name(recipe.name) if options["tune"] else recipe.name)
    if name in files:
        raise UsageError(f"a member is called {name!r}: give the ensemble a --name")
    protocol = _protocol(options)
    target = _Target.of(output, options, (references, *files.values()))
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    cohort = _read(references, files, options)
    of, on = count_text("member", len(files)), count_text("image", cohort.n_images)
    narrator.say(f"{of} on {on}; recipe {recipe.name}")
    if options["plan"]:
        _print_plan(cohort, recipe, protocol, options)
        return
    document = _fused(cohort, recipe, name, protocol, target, narrator, options)
    narrator.warn(document.warnings)
    if options["as_json"]:
        click.echo(document.to_json())
        return
    print_tables(document.tables())
    narrator.say(f"written: {output}" if target.is_file else f"Open {target.page}")


def _read(references: str, files: dict[str, str], options: dict[str, Any]) -> Cohort:
    """Read references and members.

    Other verbs rank by any scores, and propose that for scores beyond [0, 1]; no option does here.
    """
    from calipers.io.read import read

    try:
        return read(references, files, **reading_arguments(options))
    except InputError as error:
        raise error.with_hint("score-range", SCORE_HINT) from None


@dataclass(frozen=True)
class _Target:
    """Where the result goes."""

    path: Path
    format: str  # of the fused predictions
    is_file: bool

    @classmethod
    def of(cls, output: str, options: dict[str, Any], inputs: tuple[str, ...]) -> _Target:
        """Return the target; a bad one is refused before any work is done."""
        from calipers.io.write import written_format

        form = options["to"]
        if form in ("yolo", "voc"):
            raise UsageError(
                f"--to {form} is not a single file: use {', '.join(SUFFIXES)}, and calipers convert"
            )
        if form is not None:
            one_of("--to", form, tuple(SUFFIXES))
        others = [options[key] for key in ("groups", "protocol") if options[key]]
        if os.path.exists(options["recipe"]):
            others.append(options["recipe"])
        path = Path(output)
        # A name with a suffix is a file, as for every verb that writes predictions.
        if path.suffix and not path.is_dir():
            check_file(output, force=options["force"], inputs=(*inputs, *others))
            if options["tune"]:
                raise UsageError(
                    f"--tune writes a recipe beside the predictions: give a folder, such as "
                    f"-o {path.stem}"
                )
            return cls(path, written_format(path, options["to"]), True)
        check_output(output, options["force"], (*inputs, *others))
        return cls(path, form or "coco", False)

    @property
    def predictions(self) -> Path:
        """The file of the fused predictions."""
        return self.path if self.is_file else self.path / f"fused.{SUFFIXES[self.format]}"

    @property
    def page(self) -> Path:
        """The page in the folder."""
        return self.path / "fusion.html"

    @property
    def journal(self) -> Path:
        """The file that keeps what a search has computed, beside the folder."""
        return self.path.with_name(f"{self.path.name}.tuning.jsonl")


def _protocol(options: dict[str, Any]) -> Any:
    """Return the protocol of --evaluate and --tune; None if there is neither."""
    from calipers.evaluation.compare import chosen_metrics

    for key in ("folds", "rounds"):
        if options[key] is not None and not options["tune"]:
            raise UsageError(f"--{key} is for --tune")
    if options["evaluate"] or options["tune"]:
        metrics = metric_names(options["metrics"])
        names = [] if metrics in (None, ["all"]) else list(metrics or [])
        protocol = chosen_protocol(options).including(names)
        if options["seed"] is not None:
            protocol = replace(protocol, seed=options["seed"])
        chosen_metrics(protocol, metrics)
        if options["tune"] and options["evaluate"] and not options["tuning"]:
            raise UsageError(
                "--tune and --evaluate on the same images would be optimistic: name the images "
                "for tuning, such as --tuning split=tune or --tuning 0.5"
            )
        return protocol
    for key in (*OF_EVALUATION, "seed"):
        if options[key] is not None and not (key == "seed" and options["tuning"]):
            raise UsageError(f"--{key} is for --evaluate and --tune")
    return None


def _print_plan(
    cohort: Cohort, recipe: FusionRecipe, protocol: Protocol | None, options: dict[str, Any]
) -> None:
    """Print what --tune would take: the rest of the verb is done in seconds."""
    from calipers.fusion.tune import tuning_cost

    if not options["tune"]:
        raise UsageError("--plan is for --tune, which is what takes time here")
    assert protocol is not None
    tuning_cohort, _ = _split(cohort, protocol, options)
    print_cost(tuning_cost(tuning_cohort, recipe, protocol, **_search(options)), options)


def _search(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of --tune as keywords of `tune_fusion`."""
    metrics = metric_names(options["metrics"])
    return {
        "metric": None if metrics in (None, ["all"]) else metrics[0],
        "folds": options["folds"] or FOLDS,
        "rounds": options["rounds"] or ROUNDS,
    }


def _fused(
    cohort: Cohort,
    recipe: FusionRecipe,
    name: str,
    protocol: Protocol | None,
    target: _Target,
    narrator: Narrator,
    options: dict[str, Any],
) -> FusionDocument:
    """Tune or fit, fuse, evaluate and write; return what came of it."""
    from calipers.evaluation.warnings import SAID_OF_MODELS, reading_notes
    from calipers.fusion.evaluate import evaluate_fusion
    from calipers.fusion.fuse import carry_out, fit_calibration
    from calipers.fusion.result import FusionDocument
    from calipers.fusion.tune import tune_fusion
    from calipers.io.write import left_out, write

    tuning_cohort, judged = _split(cohort, protocol, options)
    metrics, tuning = metric_names(options["metrics"]), None
    if options["tune"]:
        assert protocol is not None
        tuning = tune_fusion(
            tuning_cohort,
            recipe,
            protocol,
            **_search(options),
            journal=target.journal,
            jobs=options["jobs"],
            progress=narrator.whole(),
        )
        recipe = tuning.recipe
    elif options["tuning"]:
        recipe = fit_calibration(tuning_cohort, recipe)
    fusion, evaluation = carry_out(cohort, recipe), None
    if options["evaluate"]:
        assert protocol is not None
        evaluation = evaluate_fusion(
            judged,
            carry_out(judged, recipe),
            protocol,
            name=name,
            metrics=metrics,
            jobs=options["jobs"],
            progress=narrator.steps("matching", "resampling", "comparing"),
        )
    fused = cohort.with_predictions(name, fusion.predictions)

    def write_predictions(folder: Path) -> None:
        file, boxes = folder / target.predictions.name, options["to_box_format"]
        write(
            fused,
            file,
            what=name,
            format=target.format,
            box_format=boxes,
            progress=narrator.whole(),
        )

    notes = [*reading_notes(cohort, () if evaluation is None else SAID_OF_MODELS)]
    if options["tuning"]:
        notes += _notes_on_split(tuning_cohort, judged)
    notes += left_out(fusion.predictions, target.format)
    document = FusionDocument(
        fusion, name, str(target.predictions), tuple(notes), evaluation, tuning
    )
    if target.is_file:
        write_predictions(target.path.parent)
    else:
        command = click.get_current_context().obj or ()
        document.save(
            target.path, predictions=write_predictions, force=options["force"], command=command
        )
        # The result is there: nobody needs the way to it any more.
        target.journal.unlink(missing_ok=True)
    return document


def _notes_on_split(tuning: Cohort, judged: Cohort) -> list[str]:
    from calipers.data.look_alikes import note_on_split

    sides = [cohort.images.groups.get("patient") for cohort in (tuning, judged)]
    names = [() if column is None else column.tolist() for column in sides]
    return note_on_split(names[0], names[1], "tuning")


def _split(
    cohort: Cohort, protocol: Protocol | None, options: dict[str, Any]
) -> tuple[Cohort, Cohort]:
    """Return the cohort that is learnt from, and the one that the ensemble is judged by."""
    if not options["tuning"]:
        return cohort, cohort
    from calipers.evaluation.collect import units_for
    from calipers.evaluation.protocol import Protocol
    from calipers.fusion.tune import tuning_split

    plan = Protocol.load("coco") if protocol is None else protocol
    seed = plan.seed if options["seed"] is None else options["seed"]
    tuning, others = tuning_split(cohort, options["tuning"], units_for(cohort, plan), seed)
    return cohort.take(tuning), cohort.take(others)
