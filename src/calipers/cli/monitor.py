# SPDX-License-Identifier: Apache-2.0
"""The verb `monitor`: can a runtime monitor be trusted?

`calipers monitor REFS PREDS --alarm FILE|NAME...` takes alarms of tables or of baselines, for a
detector with boxes or for a classifier with a table of labels. It scores the model on every image
(`calipers.monitors.scope`), evaluates the alarms against both kinds of labels
(`calipers.monitors.evaluate`), prints the answer in words and tables, and writes a page with
``-o``.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from calipers.cli.engine import (
    chosen_workers,
    plan_option,
    print_cost,
    without_deadly_images,
)
from calipers.cli.options import (
    BLOCKS,
    REPLACE_RESULTS,
    check_output,
    chosen_protocol,
    engine_option,
    force_option,
    images_option,
    jobs_option,
    named_files,
    output_folder_option,
    output_options,
    preset_option,
    protocol_option,
    reading_arguments,
    reading_options,
    resampling_arguments,
    resampling_options,
    scheduler_option,
    seed_option,
    verb,
)
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.evaluation.collect import BLOCK
from calipers.monitors.baselines import NEEDS_PICTURES, picture_features, sampled_features
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.tables import tables_for_terminal
from calipers.monitors.words import command_line_warning
from calipers.show.terminal import Narrator, one_line, print_lines, print_tables

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort
    from calipers.monitors.baselines import Features
    from calipers.monitors.read import FeatureReader, MonitorInputs
    from calipers.monitors.scope import Scope

TRIED = 16  # pictures that are decoded to know how long all of them take
CLASSES = click.Choice(["declared", "present", "micro"])
FROM_ZERO = click.FloatRange(min=0)
SCOPE_OPTIONS = ("score", "classes", "iou", "criterion", "assignment", "score_cut")
BOX_OPTIONS = (*SCOPE_OPTIONS, "preset", "protocol")
OF_OOD = "Images out of distribution: COLUMN of 0 and 1, or COLUMN=VALUE,..., in alarms or groups."
OF_ALARM = (
    "Table with a column per monitor, or a baseline: max-score, count, image-knn, ... Repeatable."
)
OF_THRESHOLD = (
    "Rejection threshold: a number, q95-safe (default), best-f1 or youden; NAME=VALUE for one "
    "monitor."
)
OF_FIT = "Images to fit baselines on, which are then left out; all: fit on the evaluated images."


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS]", required=False)
@click.option("--alarm", metavar="FILE|NAME", multiple=True, required=True, help=OF_ALARM)
@click.option(
    "--monitor",
    metavar="NAME",
    multiple=True,
    help="Use only this column of the tables. Repeatable.",
)
@click.option(
    "--lower-is-alarm",
    metavar="NAME",
    multiple=True,
    help="A low score of this monitor means alarm.",
)
@click.option("--ood", metavar="COLUMN", help=OF_OOD)
@click.option(
    "--tau", metavar="T", type=float, help="An image is unsafe if its score s is below T."
)
@click.option("--tau-sweep", is_flag=True, help="Report only the sweep over all values of tau.")
@click.option(
    "--score",
    metavar="NAME",
    help="Score s of an image: mF1 (default), rodeo, or a metric of the preset.",
)
@click.option("--classes", type=CLASSES, help="Classes that mF1 averages over (declared).")
@click.option("--iou", metavar="T", type=float, help="Smallest IoU of a hit (0.5).")
@click.option("--criterion", metavar="NAME", help="Localization criterion (box-iou).")
@click.option(
    "--assignment", metavar="NAME", help="Assignment of predictions to references (by-overlap)."
)
@click.option("--score-cut", metavar="T", type=float, help="Ignore predictions with a lower score.")
@preset_option("Preset for matching, and for metrics of --score: oms, lard, ...")
@protocol_option()
@click.option(
    "--truth",
    metavar="COLUMN",
    help="Column of true labels, if REFS is a table of labels (without PREDS).",
)
@click.option(
    "--predicted",
    metavar="COLUMN",
    help="Column of predicted labels, if REFS is a table of labels.",
)
@click.option("--threshold", metavar="VALUE", multiple=True, help=OF_THRESHOLD)
@click.option(
    "--tuning", metavar="COLUMN", help="Images to choose thresholds on, given as for --ood."
)
@click.option("--fit", metavar="COLUMN", help=OF_FIT)
@click.option(
    "--severity",
    metavar="COLUMN",
    help="Column with the severity of a failure on an image. Default: 1.",
)
@click.option(
    "--fallback-hazard",
    metavar="H",
    type=FROM_ZERO,
    default=0.0,
    help="Hazard of a rejected image (0).",
)
@images_option("Folder of the pictures, for the page and for baselines.")
@resampling_options
@click.option(
    "--halves",
    metavar="N",
    type=click.IntRange(min=1),
    default=50,
    help="Number of random halves on which thresholds are chosen, without --tuning (50).",
)
@seed_option("Seed of the bootstrap and of random halves (0).")
@jobs_option(BLOCKS)
@engine_option
@scheduler_option
@output_folder_option()
@force_option(REPLACE_RESULTS)
@reading_options
@plan_option
@output_options
def monitor(references: str, predictions: str | None, **options: Any) -> None:
    """Test whether a monitor raises alarms on the images on which the model fails.

    Alarms are evaluated against the scope of the model (OMS: the score of an image is below tau)
    and against the distribution (OOD, if labels are given), side by side. PREDS is a file, or
    name=file. Columns ood, tuning or split of a table of alarms are recognised by their names.

    \b
    calipers monitor refs.json dets.json --alarm alarms.csv --ood ood --tau 0.5 -o monitor
    calipers monitor refs.json dets.json --alarm max-score --alarm count --tau-sweep
    calipers monitor labels.csv --truth y --predicted y_hat --alarm alarms.csv
    """
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    statistics = _options(options)
    _check(references, predictions, options)
    if options["plan"]:
        _print_plan(references, predictions, options, statistics)
        return
    # Pictures are decoded in processes, boxes are matched in threads.
    decodes = not NEEDS_PICTURES.isdisjoint(options["alarm"])
    # An image that ends a thread would end the program.
    lenient = not options["strict"]
    workers = chosen_workers(options, processes=decodes or lenient, alone=decodes and lenient)
    with workers as (jobs, executor):
        how: dict[str, Any] = {"jobs": jobs, "executor": executor}
        features = partial(picture_features, **how, progress=narrator.steps("pictures"))
        in_threads = options["engine"] == "local" and not lenient
        of_boxes = {"jobs": jobs} if in_threads else how
        of_boxes = {**of_boxes, "progress": narrator.steps("matching")}
        cohort, inputs = _inputs(references, predictions, options, of_boxes, features)
    _narrate(inputs, narrator)
    progress = narrator.steps("resampling")
    # What is left is small, and resampled on this machine whatever the engine is.
    result = _evaluated(inputs, options, statistics, jobs=options["jobs"], progress=progress)
    _finish(result, cohort, narrator, options)


def _inputs(
    references: str,
    predictions: str | None,
    options: dict[str, Any],
    of_boxes: dict[str, Any],
    features: FeatureReader,
) -> tuple[Cohort | None, MonitorInputs]:
    """Read the model's output and score it, and read the alarms; ``of_boxes`` says where boxes are
    matched.
    """
    from calipers.monitors.read import read_monitor_inputs, scope_of_labels

    if predictions is None:
        scope = scope_of_labels(references, options)
        return None, read_monitor_inputs(scope, None, options, references, features=features)

    def scored(cohort: Cohort) -> tuple[Cohort, MonitorInputs]:
        scope = _scope(cohort, options, of_boxes)
        return cohort, read_monitor_inputs(scope, cohort, options, None, features=features)

    whole = _read_boxes(references, predictions, options)
    return without_deadly_images(scored, whole, options)


def _evaluated(
    inputs: MonitorInputs, options: dict[str, Any], statistics: dict[str, Any], **how: Any
) -> MonitorEvaluation:
    from calipers.monitors.evaluate import evaluate_monitor

    return evaluate_monitor(
        inputs.alarms,
        inputs.scope,
        options["tau"],
        inputs.ood,
        higher_is_alarm={name: name not in options["lower_is_alarm"] for name in inputs.alarms},
        tuning=inputs.tuning,
        threshold=_thresholds(options, list(inputs.alarms)),
        severity=inputs.severity,
        fallback_hazard=options["fallback_hazard"],
        **statistics,
        **how,
    )


def _print_plan(
    references: str, predictions: str | None, options: dict[str, Any], statistics: dict[str, Any]
) -> None:
    """Print what the run would take: a few pictures are decoded, and the first images evaluated."""
    from calipers.engine.cost import Stopwatch
    from calipers.evaluation.plan import image_cost

    seconds = 0.0

    def features(cohort: Cohort, images: Any) -> Features:
        nonlocal seconds
        values, seconds = sampled_features(cohort, images, TRIED)
        return values

    cohort, inputs = _inputs(references, predictions, options, {}, features)

    def trial(n_images: int, replicates: int, watch: Stopwatch) -> None:
        first = inputs.take(np.arange(len(inputs.scope)) < n_images)
        how = {**statistics, "replicates": max(replicates, 100), "ci": replicates > 0}
        _evaluated(first, options, how, progress=watch)

    files = () if cohort is None else cohort.intake.files
    n_objects = int(inputs.scope.n_references.sum() + inputs.scope.n_predictions.sum())
    cost = image_cost(
        trial,
        work="monitor",
        n_images=len(inputs.scope),
        n_objects=n_objects,
        n_models=1,
        n_blocks=max(1, -(-len(inputs.scope) // BLOCK)),
        file_bytes=sum(file.bytes for file in files),
        replicates=statistics["replicates"] if statistics["ci"] else 0,
    )
    pictures = (cost.shared_seconds or 0.0) + seconds
    print_cost(replace(cost, shared_seconds=pictures), options)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics as keywords of `evaluate_monitor`; raise for options that
    contradict.
    """
    statistics = resampling_arguments(options)
    if options["tau_sweep"] and options["tau"] is not None:
        raise UsageError(
            "--tau and --tau-sweep exclude each other: --tau sweeps all other values as well"
        )
    if options["tau"] is not None and not math.isfinite(options["tau"]):
        raise UsageError(f"--tau is a finite number, not {options['tau']!r}")
    _thresholds(options, [])  # bad values are reported before anything is read
    return statistics | {"halves": options["halves"]}


def _check(references: str, predictions: str | None, options: dict[str, Any]) -> None:
    """Raise for arguments that contradict each other, before anything is read."""
    labels = options["truth"] is not None or options["predicted"] is not None
    if labels and predictions is not None:
        raise UsageError(
            "--truth and --predicted are columns of one table of labels: leave PREDS out"
        )
    if predictions is None and not (options["truth"] and options["predicted"]):
        raise UsageError(
            "give PREDS, or for a classifier both --truth COLUMN and --predicted COLUMN"
        )
    # Options of boxes have no default here, so whatever is set was given by the user.
    if labels:
        for name in BOX_OPTIONS:
            if options[name] is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} is for boxes; labels are right or wrong"
                )
    _check_folders(references, predictions, options)


def _check_folders(references: str, predictions: str | None, options: dict[str, Any]) -> None:
    if options["images"] is not None and not os.path.isdir(options["images"]):
        hint = "give the folder that contains the pictures"
        raise InputError("a folder", rule="not-a-folder", file=options["images"], hint=hint)
    if options["output"] is not None:
        inputs = [references]
        if predictions:
            inputs += named_files([predictions]).values()
        # An alarm may also be the name of a baseline, which is no file.
        inputs += [entry for entry in options["alarm"] if os.path.exists(entry)]
        inputs += [options[name] for name in ("groups", "images", "protocol") if options[name]]
        check_output(options["output"], options["force"], tuple(inputs))


def _read_boxes(references: str, predictions: str, options: dict[str, Any]) -> Cohort:
    from calipers.io.read import read

    _scope_arguments(options)  # contradictions are reported before anything is read
    cohort = read(references, named_files([predictions]), **reading_arguments(options))
    if options["images"] is not None and options["output"] is not None:
        from calipers.pictures.files import PictureFiles

        # A folder without the pictures is reported before the work, not after it.
        PictureFiles.of(Path(options["images"]), cohort)
    return cohort


def _scope(cohort: Cohort, options: dict[str, Any], how: dict[str, Any]) -> Scope:
    from calipers.monitors.scope import scope_scores

    scope = scope_scores(cohort, **_scope_arguments(options), **how)
    n_aside = cohort.intake.quarantined
    if n_aside:
        scope = replace(scope, settings={**scope.settings, "set_aside": n_aside})
    return scope


def _scope_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of the scope: the matching of the preset, if there is one, unless options
    replace it.
    """
    from calipers.monitors.scope import BUILT_IN

    arguments = {name: options[name] for name in SCOPE_OPTIONS if options[name] is not None}
    built_in = arguments.get("score", "mF1") in BUILT_IN
    if options["preset"] is None and options["protocol"] is None:
        if not built_in:
            raise UsageError(
                f"--score is {' or '.join(BUILT_IN)}, or a metric of a protocol, which --preset or "
                "--protocol names, such as --preset coco --score AP50; not "
                f"{arguments['score']!r}"
            )
        return arguments
    protocol = chosen_protocol({"preset": options["preset"], "protocol": options["protocol"]})
    if not built_in:
        for name in SCOPE_OPTIONS[1:]:
            if name in arguments:
                raise UsageError(
                    f"--{name.replace('_', '-')} is fixed by the protocol of the metric "
                    f"{arguments['score']}"
                )
        return {**arguments, "protocol": protocol}
    # A score of ours, with the matching of the protocol unless an option replaces it.
    view = protocol.matching
    matching = {"iou": view.threshold, "criterion": view.criterion, "assignment": view.assignment}
    return {**matching, "score_cut": view.score_cut, **arguments}


def _thresholds(options: dict[str, Any], monitors: list[str]) -> dict[str, Any]:
    """Return the rule of every monitor, and of those that entries NAME=VALUE name."""
    every: Any = "q95-safe"
    by_name: dict[str, Any] = {}
    for entry in options["threshold"]:
        # From the right: the name of a monitor may contain "=", a value does not.
        name, sign, value = entry.rpartition("=")
        if sign:
            by_name[name] = _rule(value)
        else:
            every = _rule(entry)
    return {**dict.fromkeys(monitors, every), **by_name}


def _rule(text: str) -> float | str:
    try:
        value = float(text)
    except ValueError:
        from calipers.monitors.labels import RULES

        if text not in RULES:
            raise UsageError(
                f"--threshold is a number or a rule, not {text!r}; {did_you_mean(text, RULES)}"
            ) from None
        return text
    if not math.isfinite(value):
        raise UsageError(f"--threshold is a finite number, not {text!r}")
    return value


def _narrate(inputs: MonitorInputs, narrator: Narrator) -> None:
    from calipers.show.words import count_text as counted

    n = len(inputs.scope)
    narrator.say(
        f"{counted('image', n)}, {counted('monitor', len(inputs.alarms))}: "
        f"{', '.join(inputs.alarms)}"
    )
    if inputs.ood is None:
        narrator.say(
            "note: no OOD labels were given (--ood COLUMN): only model-scope (OMS) labels are shown"
        )
    else:
        narrator.say(f"{int(inputs.ood.sum())} of {n} images are out of distribution")
    if aside := inputs.scope.settings.get("set_aside", 0):
        narrator.say(
            f"note: {counted('broken record', aside)} set aside (--lenient); the score s ignores "
            f"them"
        )
    narrator.warn(inputs.notes)


def _finish(
    result: MonitorEvaluation, cohort: Cohort | None, narrator: Narrator, options: dict[str, Any]
) -> None:
    """Write and print the result; warnings come last, where they are seen."""
    page = None
    if options["output"] is not None:
        narrator.doing("figures and tables")
        command = click.get_current_context().obj or ()
        page_path = result.save(
            options["output"],
            force=options["force"],
            command=command,
            cohort=cohort,
            images=options["images"],
        )
        page = str(page_path)
        narrator.doing("")
    if options["as_json"]:
        click.echo(json.dumps({**result.as_dict(), "page": page}, allow_nan=False))
        return

    print_lines(result.sentences())
    print_tables(tables_for_terminal(result))
    if page is not None:
        click.echo(one_line(f"Open {page}"))
    narrator.warn([command_line_warning(warning) for warning in result.warnings])
