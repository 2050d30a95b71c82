# SPDX-License-Identifier: Apache-2.0
"""`calipers monitor REFS PREDS --alarm FILE|NAME...`."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import (
    SHARE,
    named_files,
    output_options,
    reading_arguments,
    reading_options,
)
from calipers.errors import InputError, UsageError, did_you_mean

if TYPE_CHECKING:
    from calipers.cli.monitor_files import Watched
    from calipers.monitors import MonitorEvaluation, Scope
    from calipers.tables import Cohort

CLASSES = click.Choice(["declared", "present", "micro"])
FROM_ZERO = click.FloatRange(min=0)
OF_BOXES = ("score", "classes", "iou", "criterion", "assignment", "score_cut", "preset", "protocol")
OF_OOD = "Images out of distribution: COLUMN of 0 and 1, or COLUMN=VALUE,..., of alarms or groups."
OF_ALARM = "Table with a column per monitor, or a baseline: max-score, count, image-knn, ...; may be repeated."
OF_THRESHOLD = "Reject from here on: a number, q95-safe (default), best-f1 or youden; NAME=VALUE for one monitor."
OF_FIT = (
    "Images on which baselines are fitted, and which are then left out; all: those that are judged."
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS]", required=False)
@click.option("--alarm", metavar="FILE|NAME", multiple=True, required=True, help=OF_ALARM)
@click.option(
    "--monitor",
    metavar="NAME",
    multiple=True,
    help="Only this column of the tables; may be repeated.",
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
@click.option(
    "--tau-sweep", is_flag=True, help="State nothing at one tau, only the sweep over all of them."
)
@click.option(
    "--score",
    metavar="NAME",
    help="s of an image: mF1 (default), rodeo, or a metric of the preset.",
)
@click.option("--classes", type=CLASSES, help="Classes that mF1 averages over (declared).")
@click.option("--iou", metavar="T", type=float, help="From here on a prediction is a hit (0.5).")
@click.option("--criterion", metavar="NAME", help="How places are compared (box-iou).")
@click.option("--assignment", metavar="NAME", help="Who belongs to whom (by-overlap).")
@click.option(
    "--score-cut", metavar="T", type=float, help="Predictions with a lower score do not count."
)
@click.option(
    "--preset", metavar="NAME", help="Matching, and metrics for --score: oms, lard, any other."
)
@click.option("--protocol", metavar="FILE", help="A protocol in TOML, instead of a preset.")
@click.option(
    "--truth", metavar="COLUMN", help="REFS is a table of labels: the true ones. Without PREDS."
)
@click.option(
    "--predicted",
    metavar="COLUMN",
    help="REFS is a table of labels: those that the model predicts.",
)
@click.option("--threshold", metavar="VALUE", multiple=True, help=OF_THRESHOLD)
@click.option(
    "--tuning", metavar="COLUMN", help="Images that thresholds are chosen on, as for --ood."
)
@click.option("--fit", metavar="COLUMN", help=OF_FIT)
@click.option(
    "--severity", metavar="COLUMN", help="How bad a failure on an image is; 1 if left out."
)
@click.option(
    "--fallback-hazard",
    metavar="H",
    type=FROM_ZERO,
    default=0.0,
    help="What a rejected image costs (0).",
)
@click.option(
    "--images", metavar="DIR", help="Folder of the pictures, for the page and for baselines."
)
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="What intervals speak for: image, patient (default if known), ...",
)
@click.option("--level", metavar="P", type=SHARE, default=0.95, help="Of the intervals (0.95).")
@click.option(
    "--replicates", metavar="N", type=click.IntRange(min=100), help="Of the bootstrap (2000)."
)
@click.option("--no-ci", is_flag=True, help="No intervals.")
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Of bootstrap and random halves.",
)
@click.option(
    "-o", "--output", metavar="DIR", help="Folder for page, JSON, CSV and figures; new or empty."
)
@click.option(
    "--force", is_flag=True, help="Allow a DIR that holds something; results in it are replaced."
)
@reading_options
@output_options
def monitor(references: str, predictions: str | None, **given: Any) -> None:
    """Can I trust this monitor? Does it alarm on the images on which the model fails?

    Alarms are judged against the scope of the model (OMS: the score of an image is below tau), and
    against the distribution (OOD, if labels are given), side by side. PREDS is a file, or
    name=file. A column ood, tuning or split of a table of alarms is found by its name.

    \b
    calipers monitor refs.json dets.json --alarm alarms.csv --ood ood --tau 0.5 -o monitor
    calipers monitor refs.json dets.json --alarm max-score --alarm count --tau-sweep
    calipers monitor labels.csv --truth y --predicted y_hat --alarm alarms.csv
    """
    from calipers.cli.monitor_files import scope_of_labels, watched
    from calipers.monitors import evaluate_monitor

    narrator = Narrator(quiet=given["quiet"] or given["as_json"])
    options = _options(given)
    _check(references, predictions, given)
    if predictions is None:
        cohort, scope = None, scope_of_labels(references, given)
    else:
        cohort, scope = _boxes(references, predictions, given)
    judged = watched(scope, cohort, given, labels=references if predictions is None else None)
    _narrate(judged, narrator)
    found = evaluate_monitor(
        judged.alarms,
        judged.scope,
        given["tau"],
        judged.ood,
        higher_is_alarm={name: name not in given["lower_is_alarm"] for name in judged.alarms},
        tuning=judged.tuning,
        threshold=_thresholds(given, list(judged.alarms)),
        severity=judged.severity,
        fallback_hazard=given["fallback_hazard"],
        **options,
    )
    _finish(found, cohort, narrator, given)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    if given["no_ci"] and given["replicates"]:
        raise UsageError("--replicates are for intervals, which --no-ci leaves out")
    if given["tau_sweep"] and given["tau"] is not None:
        raise UsageError(
            "--tau and --tau-sweep exclude each other: with --tau all others are swept beside it"
        )
    if given["tau"] is not None and not math.isfinite(given["tau"]):
        raise UsageError(f"--tau is a finite number, not {given['tau']!r}")
    _thresholds(given, [])
    text: str = given["cluster"] or "auto"
    return {
        "cluster": tuple(name.strip() for name in text.split(",")) if "," in text else text,
        "level": given["level"],
        "replicates": given["replicates"] or 2000,
        "seed": given["seed"],
        "ci": not given["no_ci"],
    }


def _check(references: str, predictions: str | None, given: dict[str, Any]) -> None:
    """Refuse what cannot be, before anything is read."""
    labels = given["truth"] is not None or given["predicted"] is not None
    if labels and predictions is not None:
        raise UsageError(
            "--truth and --predicted are columns of one table of labels: leave PREDS out"
        )
    if predictions is None and not (given["truth"] and given["predicted"]):
        raise UsageError(
            "give PREDS, or for a classifier both --truth COLUMN and --predicted COLUMN"
        )
    if labels:
        for name in OF_BOXES:
            if given[name] is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} is about boxes; labels are right or wrong"
                )
    _check_folders(references, predictions, given)


def _check_folders(references: str, predictions: str | None, given: dict[str, Any]) -> None:
    if given["images"] is not None and not Path(given["images"]).is_dir():
        hint = "give the folder in which the pictures are"
        raise InputError("a folder", rule="not-a-folder", file=given["images"], hint=hint)
    if given["output"] is not None:
        from calipers.cli.evaluate import check_output

        tables = [entry for entry in given["alarm"] if Path(entry).exists()]
        files = [*(named_files([predictions]).values() if predictions else ()), *tables]
        inputs = [
            references,
            *files,
            *(given[name] for name in ("groups", "images", "protocol") if given[name]),
        ]
        check_output(given["output"], given["force"], tuple(inputs))


def _boxes(references: str, predictions: str, given: dict[str, Any]) -> tuple[Cohort, Scope]:
    from calipers.monitors import scope_scores
    from calipers.readers import read

    asked = _scope_arguments(given)
    cohort = read(references, named_files([predictions]), **reading_arguments(given))
    if given["images"] is not None and given["output"] is not None:
        from calipers.pictures.finding import PictureFiles

        PictureFiles.of(
            Path(given["images"]), cohort
        )  # a folder without them is told before the work, not after
    scope = scope_scores(cohort, **asked)
    aside = cohort.intake.quarantined
    return cohort, replace(
        scope, settings={**scope.settings, "set_aside": aside}
    ) if aside else scope


def _scope_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of the scope: the matching of the preset, if there is one, unless options
    say otherwise.
    """
    names = ("score", "classes", "iou", "criterion", "assignment", "score_cut")
    asked = {name: given[name] for name in names if given[name] is not None}
    from calipers.cli.evaluate import chosen_protocol
    from calipers.monitors.scope import BUILT_IN

    if given["preset"] is None and given["protocol"] is None:
        if asked.get("score", "mF1") not in BUILT_IN:
            hint = "or a metric of a protocol, which --preset or --protocol names, such as --preset coco --score AP50"
            raise UsageError(f"--score is {' or '.join(BUILT_IN)}, {hint}; not {asked['score']!r}")
        return asked
    protocol = chosen_protocol({"preset": given["preset"], "protocol": given["protocol"]})
    if asked.get("score", "mF1") not in BUILT_IN:
        wrong = [name for name in names[1:] if name in asked]
        if wrong:
            raise UsageError(
                f"--{wrong[0].replace('_', '-')} is fixed by the protocol of the metric {asked['score']}"
            )
        return {**asked, "protocol": protocol}
    view = protocol.matching
    matching = {"iou": view.threshold, "criterion": view.criterion, "assignment": view.assignment}
    return {**matching, "score_cut": view.score_cut, **asked}


def _thresholds(given: dict[str, Any], monitors: list[str]) -> dict[str, Any]:
    """Return the rule of every monitor, and of those that entries NAME=VALUE name."""
    every: Any = "q95-safe"
    own: dict[str, Any] = {}
    for entry in given["threshold"]:
        name, sign, value = entry.rpartition("=")
        if sign:
            own[name] = _rule(value)
        else:
            every = _rule(entry)
    return {**dict.fromkeys(monitors, every), **own}


def _rule(text: str) -> float | str:
    try:
        value = float(text)
    except ValueError:
        from calipers.monitors.thresholds import RULES

        if text not in RULES:
            raise UsageError(
                f"--threshold is a number or a rule, not {text!r}; {did_you_mean(text, RULES)}"
            ) from None
        return text
    if not math.isfinite(value):
        raise UsageError(f"--threshold is a finite number, not {text!r}")
    return value


def _narrate(judged: Watched, narrator: Narrator) -> None:
    from calipers.report.words import plural as counted

    n = len(judged.scope)
    narrator.say(
        f"{counted('image', n)}, {counted('monitor', len(judged.alarms))}: {', '.join(judged.alarms)}"
    )
    if judged.ood is None:
        narrator.say(
            "note: no OOD labels were given (--ood COLUMN): only model-scope (OMS) labels are shown"
        )
    else:
        narrator.say(f"{int(judged.ood.sum())} of {n} images are out of distribution")
    if aside := judged.scope.settings.get("set_aside", 0):
        narrator.say(
            f"note: {counted('broken record', aside)} set aside (--lenient); s does not see them"
        )
    narrator.warn(judged.notes)


def _finish(
    found: MonitorEvaluation, cohort: Cohort | None, narrator: Narrator, given: dict[str, Any]
) -> None:
    """Write and print the result; warnings come last, where they are seen."""
    page = None
    if given["output"] is not None:
        narrator.doing("figures and tables")
        command = click.get_current_context().obj or ()
        saved = found.save(
            given["output"],
            force=given["force"],
            command=command,
            cohort=cohort,
            images=given["images"],
        )
        page = str(saved)
        narrator.doing("")
    if given["as_json"]:
        click.echo(json.dumps({**found.as_dict(), "page": page}, allow_nan=False))
        return
    from calipers.cli.monitor_tables import print_monitors, spoken

    print_monitors(found)
    if page is not None:
        click.echo(f"Open {page}")
    narrator.warn([spoken(warning) for warning in found.warnings])
