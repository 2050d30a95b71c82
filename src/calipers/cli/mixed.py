# SPDX-License-Identifier: Apache-2.0
"""`calipers mixed TABLE` and `calipers mixed REFS PREDS...`.

Regression models as tables and sentences in the terminal.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calipers.cli.options import named_files, output_options, reading_arguments, reading_options
from calipers.errors import UsageError
from calipers.regression.logistic import LocalizationModels, LogisticModel
from calipers.regression.mixed import MixedModel
from calipers.regression.model import Coefficient
from calipers.regression.words import digits, percent, probability
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, one_line, stdout_console
from calipers.show.words import plural

SCHEMA = "calipers.mixed/1"
NAMES, LEVEL = "NAME,NAME,...", click.FloatRange(0, 1, min_open=True, max_open=True)
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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option(
    "--level",
    metavar="P",
    type=LEVEL,
    default=0.95,
    help="Confidence level of the intervals (0.95).",
)
@click.option(
    "--bootstrap",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Check the intervals with N bootstrap replicates.",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Seed of the bootstrap (0)."
)
@click.option(
    "--size-cuts",
    metavar="A,B",
    help="REFS: largest areas of small and medium references (10000,40000).",
)
@click.option(
    "--preset", metavar="NAME", help="REFS: preset for criterion and assignment. Default: coco."
)
@click.option("--protocol", metavar="FILE", help="REFS: the same from a protocol file (TOML).")
@click.option(
    "--diagnostics",
    is_flag=True,
    help="Add residuals, QQ points and the effect of every group to the JSON.",
)
@click.option("-o", "--output", metavar="FILE", help="Also write the JSON to a new file.")
@click.option("--force", is_flag=True, help="Replace FILE.")
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
        document, show = _of_references(source, predictions, options)
    else:
        document, show = _of_table(source, options)
    narrator.warn(document["warnings"])
    text = json.dumps(document, allow_nan=False)
    if options["output"]:
        from calipers.results.files import write_atomically

        write_atomically(options["output"], text + "\n")
    if options["as_json"]:
        click.echo(text)
    else:
        show()


def _of_table(source: str, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
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
    if options["logistic"] and (
        options["crossed"] or options["bootstrap"] or options["diagnostics"] or not options["reml"]
    ):
        raise UsageError(
            "--logistic cannot be used with --crossed, --bootstrap, --diagnostics or --ml"
        )
    table = open_table(source, hint="references in JSON need predictions beside them")
    settings: dict[str, Any] = {key: options[key] for key in ("level", "missing", "few_groups")}
    settings["levels"] = _levels(options["levels"])
    if options["logistic"]:
        fit: Any = logistic_model(table, options["formula"], names, **settings)
    else:
        linear = {key: options[key] for key in ("reml", "crossed", "bootstrap", "seed")}
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
    source: str, predictions: tuple[str, ...], options: dict[str, Any]
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

        for one in models:
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


WIDE = 110


def print_fit(fit: MixedModel | LogisticModel) -> None:
    """Print one model: effects, differences between groups, and the result in words."""
    console = stdout_console()
    logistic = isinstance(fit, LogisticModel)
    estimate_name = "odds ratio" if logistic else "effect"
    table = _table(one_line(fit.response), [estimate_name, f"{percent(fit.level)} interval", "p"])
    for one in fit.coefficients:
        if logistic and one.name == "intercept":
            continue
        table.add_row(_effect(one), *_numbers(one, logistic, digits(fit.coefficients)), _p(one.p))
    console.print(escape(one_line(_head(fit))))
    console.print(table)
    if isinstance(fit, MixedModel):
        console.print(_spread(fit))
        if fit.replicates:
            console.print(_checks(fit))
    _say(console, [*fit.sentences(), *_whole_terms(fit), *(f"Note: {note}." for note in fit.notes)])


def print_localization(models: LocalizationModels) -> None:
    """Print the three fits of one model side by side."""
    console = stdout_console()
    level = percent(models.best.level)
    console.print(f"{_name(models.model)}: {escape(one_line(_head(models.best)))}")
    console.print(
        f"[dim]estimate \\[{level} confidence interval]; the same effects on three responses[/dim]"
    )
    table = _table("effect on", ["IoU, 0 if missed", "IoU of hits", "hit, odds ratio"])
    fits = (models.best, models.matched, models.hit)
    numbers = []
    for fit in fits:
        numbers.append("-" if fit is None else str(fit.n_rows))
    table.add_row("references", *numbers, end_section=True)
    # On a narrow terminal the interval goes below the estimate.
    separator = " " if console.width >= WIDE else "\n"
    for one in models.best.coefficients:
        table.add_row(_effect(one), *[_cell(fit, one.name, separator) for fit in fits])
    console.print(table)
    console.print(_spreads(models))
    sentences = [*models.best.sentences(), *_whole_terms(models.best)]
    if models.hit is not None:
        sentences += models.hit.sentences()
    notes: dict[str, None] = {}  # an ordered set: the fits share many notes
    for fit in fits:
        if fit is not None:
            notes |= dict.fromkeys(fit.notes)
    part_names = {"matched": "IoU of hits", "hit": "hit"}
    for part, why in models.problems.items():
        notes[f"{part_names[part]} was not fitted: {why}"] = None
    if models.n_ignored:
        notes[f"{models.n_ignored} ignored references are left out"] = None
    _say(console, [*sentences, *(f"Note: {note}." for note in notes)])


def _head(fit: MixedModel | LogisticModel) -> str:
    rows = f"{fit.n_rows} rows"
    if isinstance(fit, LogisticModel):
        return (
            f"{fit.formula}; {rows}, {fit.n_positive} of them 1; {fit.n_units} {plural(fit.unit)}"
        )
    groups = ", ".join(f"{n} {plural(name)}" for name, n in fit.n_groups.items())
    if groups:
        rows = f"{rows} in {groups}"
    return f"{fit.formula}; {rows}; {fit.criterion}"


def _table(first: str, columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(escape(first), overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _effect(one: Coefficient) -> str:
    if one.reference is None:
        return _name(one.name)
    level = one.name.removeprefix(f"{one.term}[").removesuffix("]")
    return _name(f"{one.term} {level} (not {one.reference})")


def _numbers(one: Coefficient, logistic: bool, n: int) -> tuple[str, str]:
    """Return the estimate and its interval; of log odds the odds ratio."""
    if math.isnan(one.value):
        return str(one.reason).replace("_", " "), ""
    if logistic:
        between = "" if math.isnan(one.low) else f"{_odds(one.low)} to {_odds(one.high)}"
        return _odds(one.value), between
    between = "" if math.isnan(one.low) else f"{one.low:.{n}f} to {one.high:.{n}f}"
    return f"{one.value:.{n}f}", between


def _cell(fit: MixedModel | LogisticModel | None, name: str, separator: str) -> str:
    """Return an effect as ``-0.28 [-0.31, -0.25]``."""
    logistic = isinstance(fit, LogisticModel)
    if fit is None or (logistic and name == "intercept"):
        return "-"
    one = next((one for one in fit.coefficients if one.name == name), None)
    if one is None:
        return "-"
    value, between = _numbers(one, logistic, digits(fit.coefficients))
    if between:
        value += f"{separator}[{between.replace(' to ', ', ')}]"
    return escape(value)


def _odds(logarithm: float) -> str:
    """Return an odds ratio with two decimals, or two digits if it is small."""
    ratio = math.exp(min(logarithm, 700.0))  # larger logarithms overflow
    if ratio < 0.1:
        return f"{ratio:.2g}"
    return f"{ratio:.2f}" if ratio < 1000 else f"{ratio:.1e}"


def _p(p: float) -> str:
    if math.isnan(p):
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _spread(fit: MixedModel) -> Table:
    table = _table(
        "differences between",
        ["SD", f"{percent(fit.level)} interval", "share of variance", "number", "p"],
    )
    tests = {test.what: test.p for test in fit.component_tests}
    for one in fit.components:
        name = "rows, unexplained" if one.icc is None else plural(one.name)
        between = "" if math.isnan(one.low) else f"{one.low:.3f} to {one.high:.3f}"
        counts = (f"{100 * one.share:.0f} %", str(one.n_groups), _p(tests.get(one.name, math.nan)))
        table.add_row(_name(name), f"{one.sd:.3f}", between, *counts)
    return table


def _whole_terms(fit: MixedModel | LogisticModel) -> list[str]:
    """Return for terms of several coefficients whether they matter as a whole."""
    sentences: list[str] = []
    if not isinstance(fit, MixedModel):
        return sentences
    for test in fit.term_tests:
        if test.df > 1:
            sentences.append(
                f"{test.what} as a whole: {probability(test.p)} (likelihood ratio "
                f"{test.statistic:.1f}, {test.df} degrees of freedom)."
            )
    return sentences


def _spreads(models: LocalizationModels) -> Table:
    table = _table("differences between (SD)", ["IoU, 0 if missed", "IoU of hits"])
    fits = [fit for fit in (models.best, models.matched) if fit is not None]
    components = []
    for fit in fits:
        components.append({one.name: one for one in fit.components})
    names = dict.fromkeys(chain.from_iterable(components))
    for name in sorted(names, key=lambda name: name == "residual"):
        cells = []
        for of_fit in components:
            cell = "-"
            if name in of_fit:
                one = of_fit[name]
                cell = escape(f"{one.sd:.3f} [{one.low:.3f}, {one.high:.3f}]")
            cells.append(cell)
        if models.matched is None:
            cells.append("-")
        table.add_row(_name("rows, unexplained" if name == "residual" else plural(name)), *cells)
    return table


def _checks(fit: MixedModel) -> Table:
    """Return a table of the bootstrap standard errors beside the model's own."""
    table = _table(
        "standard error", ["model", *(f"{check.kind} bootstrap" for check in fit.checks)]
    )
    n = digits(fit.coefficients) + 1
    for k, one in enumerate(fit.coefficients):
        errors = [one.se, *(check.coefficients[k].se for check in fit.checks)]
        table.add_row(_effect(one), *(f"{se:.{n}f}" for se in errors))
    return table


def _say(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(escape(one_line(line)), soft_wrap=not sys.stdout.isatty())
    console.print()


def _name(text: str) -> str:
    return escape(one_line(text if len(text) <= 60 else text[:57] + "..."))
