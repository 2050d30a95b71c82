# SPDX-License-Identifier: Apache-2.0
"""The verb `mixed`: linear mixed models and logistic regression.

`calipers mixed TABLE` fits a formula to any table with a row per measurement; `calipers mixed REFS
PREDS...` fits three models to the references of every detector: IoU with 0 for misses, IoU of hits,
and hit or miss. Both print tables (`calipers.regression.tables`) and sentences, or one JSON
document. The theory is in `calipers.regression.mixed` and `calipers.regression.logistic`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calipers.cli.options import (
    force_option,
    level_option,
    named_files,
    output_file_option,
    output_options,
    preset_option,
    protocol_option,
    reading_arguments,
    reading_options,
    seed_option,
    verb,
)
from calipers.errors import UsageError
from calipers.regression.logistic import LocalizationModels, LogisticModel
from calipers.regression.mixed import MixedModel
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, print_lines, print_tables

SCHEMA = "calipers.mixed/1"
NAMES = "NAME,NAME,..."
ONLY_WITH_PREDICTIONS = {
    "format_": "--format",
    "box_format": "--box-format",
    "columns": "--columns",
    "ids_as_strings": "--ids-as-strings",
    "preset": "--preset",
    "protocol": "--protocol",
    "size_cuts": "--size-cuts",
}
ONLY_WITH_TABLE = {"logistic": "--logistic", "crossed": "--crossed"}


@verb()
@click.argument("source", metavar="TABLE|REFS")
@click.argument("predictions", metavar="[PREDS...]", nargs=-1)
@click.option(
    "--formula",
    metavar="TEXT",
    help='Such as "iou ~ size + type". Default for REFS PREDS: "iou ~ size".',
)
@click.option(
    "--nested",
    metavar=NAMES,
    help="Groups with a random intercept, outermost first: centre,patient,image.",
)
@click.option(
    "--levels",
    metavar="COLUMN=A,B,...",
    multiple=True,
    help="Levels of a categorical column; A is the reference level.",
)
@click.option(
    "--reml/--ml",
    default=True,
    help="Restricted maximum likelihood (default) or maximum likelihood.",
)
@click.option(
    "--logistic",
    is_flag=True,
    help=(
        "TABLE: logistic model of a 0/1 response; standard errors clustered by the outermost group."
    ),
)
@click.option(
    "--crossed", is_flag=True, help="TABLE: the groups are not nested; needs statsmodels."
)
@click.option(
    "--missing",
    type=click.Choice(["refuse", "drop"]),
    default="refuse",
    help="What to do about rows with an empty cell.",
)
@click.option(
    "--few-groups",
    metavar="N",
    type=click.IntRange(min=2),
    default=5,
    help="Groupings with fewer groups become fixed effects (5).",
)
@level_option
@click.option(
    "--bootstrap",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Check the intervals with N bootstrap replicates.",
)
@seed_option()
@click.option(
    "--size-cuts",
    metavar="A,B",
    help="REFS: largest areas of small and medium references (10000,40000).",
)
@preset_option("REFS: preset for criterion and assignment. Default: coco.")
@protocol_option("REFS: the same from a protocol file (TOML).")
@click.option(
    "--diagnostics",
    is_flag=True,
    help="Add residuals, QQ points and the effect of every group to the JSON.",
)
@output_file_option("Also write the JSON to a new file.")
@force_option()
@reading_options
@output_options
def mixed(source: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Fit a mixed model of a measurement, with images, patients and centres as groups.

    For a TABLE (csv or parquet, one row per measurement) it fits one model, and --groups names the
    grouping columns. For REFS and PREDS it fits three models per detector: best IoU of each
    reference (0 if missed), IoU of the hits, and the probability of a hit; --groups is a table of
    images, and --nested names its grouping columns.

    \b
    calipers mixed polyps.csv --formula "iou ~ size + type" --groups centre,patient,image
    calipers mixed refs.json ours=a.json --groups images.csv --formula "iou ~ size"
    """
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    inputs = [source, *named_files(predictions).values()]
    if predictions and options["groups"]:  # for a TABLE, --groups names columns
        inputs.append(options["groups"])
    if options["output"] is not None:
        check_file(options["output"], force=options["force"], inputs=inputs)
    if predictions:
        document, show = _of_references(source, predictions, options, narrator)
    else:
        document, show = _of_table(source, options, narrator)
    narrator.warn(document["warnings"])
    text = json.dumps(document, allow_nan=False)
    if options["output"]:
        from calipers.results.files import write_atomically

        write_atomically(options["output"], text + "\n")
    if options["as_json"]:
        click.echo(text)
    else:
        show()


def _of_table(
    source: str, options: dict[str, Any], narrator: Narrator
) -> tuple[dict[str, Any], Any]:
    """Return the document of one fit on a table, and what prints it."""
    from calipers.io.tables.table import open_table
    from calipers.regression.logistic import logistic_model
    from calipers.regression.mixed import mixed_model

    _refuse(options, ONLY_WITH_PREDICTIONS, "needs REFS and PREDS, but there is only one file")
    if options["formula"] is None:
        raise UsageError('a table needs --formula, such as --formula "iou ~ size + type"')
    if options["groups"] and options["nested"]:
        raise UsageError("with a TABLE --groups and --nested mean the same: give one of them")
    names = _names(options["nested"] or options["groups"])
    if not names:
        raise UsageError(
            "a table needs --groups, outermost first, such as --groups centre,patient,image"
        )
    # Refused rather than ignored: a user would believe that they had an effect.
    if options["logistic"] and (
        options["crossed"] or options["bootstrap"] or options["diagnostics"] or not options["reml"]
    ):
        raise UsageError(
            "--logistic cannot be used with --crossed, --bootstrap, --diagnostics or --ml"
        )
    table = open_table(source, hint="references in JSON need predictions too")
    settings: dict[str, Any] = {key: options[key] for key in ("level", "missing", "few_groups")}
    settings["levels"] = _levels(options["levels"])
    if options["logistic"]:
        fit: Any = logistic_model(table, options["formula"], names, **settings)
    else:
        # Only a linear model has these; a logistic one has standard errors by cluster.
        linear = {key: options[key] for key in ("reml", "crossed", "bootstrap", "seed")}
        linear["progress"] = narrator.steps("bootstrap")
        fit = mixed_model(table, options["formula"], names, **settings, **linear)
    facts = {
        "file": table.file,
        "sha256": table.sha256,
        "rows": len(table),
        "columns": list(table.names),
    }
    fits = [{"model": None, "part": None, **fit.as_dict(), **_diagnostics(fit, options)}]
    document = _document(fit.formula, names, None, facts, fits, table.notes)

    def show() -> None:
        print_fit(fit)

    return document, show


def _of_references(
    source: str, predictions: tuple[str, ...], options: dict[str, Any], narrator: Narrator
) -> tuple[dict[str, Any], Any]:
    """Return the document of three fits per model, and what prints it."""
    from calipers.evaluation.collect import with_areas
    from calipers.evaluation.protocol import Protocol
    from calipers.evaluation.result import cohort_counts
    from calipers.io.read import read
    from calipers.regression.logistic import CUTS, localization_models

    _refuse(
        options,
        ONLY_WITH_TABLE,
        "is for a TABLE; for REFS and PREDS both kinds of model are fitted",
    )
    if options["preset"] and options["protocol"]:
        raise UsageError("--preset and --protocol exclude each other")
    protocol = Protocol.load(
        Path(options["protocol"]) if options["protocol"] else options["preset"] or "coco"
    )
    cohort = with_areas(
        read(source, named_files(predictions), **reading_arguments(options)), protocol
    )
    cuts = CUTS if options["size_cuts"] is None else _cuts(options["size_cuts"])
    settings = {
        key: options[key] for key in ("level", "missing", "few_groups", "reml", "bootstrap", "seed")
    }
    models = [
        localization_models(
            cohort,
            model,
            options["formula"] or "iou ~ size",
            _names(options["nested"]) or None,
            view=protocol.matching,
            cuts=cuts,
            levels=_levels(options["levels"]),
            progress=narrator.steps("bootstrap"),
            **settings,
        )
        for model in cohort.models
    ]
    fits = []
    for one in models:
        of_parts = (one.best, one.matched, None)
        fits += [
            {**facts, **_diagnostics(fit, options)} for facts, fit in zip(one.as_dicts(), of_parts)
        ]
    first = models[0].best
    document = _document(
        first.formula, first.groups, cohort_counts(cohort), None, fits, cohort.intake.notes
    )

    def show() -> None:
        for number, one in enumerate(models):
            if number:
                print_lines([""])
            print_localization(one)

    return document, show


def _document(
    formula: str, groups: Any, cohort: Any, table: Any, fits: list[Any], notes: Any
) -> dict[str, Any]:
    from calipers import __version__

    return {
        "schema": SCHEMA,
        "calipers": __version__,
        "formula": formula,
        "groups": list(groups),
        "cohort": cohort,
        "table": table,
        "fits": fits,
        "warnings": list(notes),
    }


def _diagnostics(fit: Any, options: dict[str, Any]) -> dict[str, Any]:
    if fit is None or not options["diagnostics"]:
        return {}
    return {"diagnostics": fit.diagnostics.as_dict()}


def _refuse(options: dict[str, Any], forbidden: dict[str, str], why: str) -> None:
    for name, option in forbidden.items():
        if options[name]:
            raise UsageError(f"{option} {why}")


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _levels(entries: tuple[str, ...]) -> dict[str, list[str]]:
    levels_of_column = {}
    for entry in entries:
        column, sign, levels = entry.partition("=")
        if not (column.strip() and sign and _names(levels)):
            raise UsageError(f"--levels takes COLUMN=A,B,..., not {entry!r}")
        levels_of_column[column.strip()] = _names(levels)
    return levels_of_column


def _cuts(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--size-cuts takes two areas such as 10000,40000, not {text!r}") from None
    return low, high


_GROUPS = (
    "REFS: table with a row per image. TABLE: grouping columns, outermost first: centre,patient."
)
for _option in mixed.params:
    if isinstance(_option, click.Option) and _option.name == "groups":
        _option.help, _option.metavar = _GROUPS, "TABLE|NAMES"


def print_fit(fit: MixedModel | LogisticModel) -> None:
    """Print one model: effects, differences between groups, and the result in words."""
    print_tables(fit.tables())
    print_lines([*fit.sentences(), *(f"note: {note}" for note in fit.notes)])


def print_localization(models: LocalizationModels) -> None:
    """Print the three fits of one model side by side."""
    from calipers.regression.tables import localization_tables

    print_tables(localization_tables(models))
    sentences = list(models.best.sentences())
    if models.hit is not None:
        sentences += models.hit.sentences()
    notes: dict[str, None] = {}  # an ordered set: the fits share many notes
    for fit in (models.best, models.matched, models.hit):
        if fit is not None:
            notes |= dict.fromkeys(fit.notes)
    part_names = {"matched": "IoU of hits", "hit": "hit"}
    for part, why in models.problems.items():
        notes[f"{part_names[part]} was not fitted: {why}"] = None
    if models.n_ignored:
        notes[f"{models.n_ignored} ignored references are left out"] = None
    print_lines([*sentences, *(f"note: {note}" for note in notes)])
