# SPDX-License-Identifier: Apache-2.0
"""The verbs that ask what would happen under other choices.

- `calipers multiverse REFS PREDS...` evaluates all models under every configuration of a grid
  (`calipers.sensitivity.multiverse`): does the ranking survive?
- `calipers sweep REFS [PREDS...] --over CHOICE=VALUES` varies one or two choices of the analysis,
  or the strength of a corruption (`calipers.sensitivity.sweep`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.engine import (
    chosen_workers,
    plan_option,
    print_cost,
    without_deadly_images,
)
from calipers.cli.options import (
    BLOCKS,
    check_output,
    chosen_protocol,
    chosen_replicates,
    engine_option,
    force_option,
    jobs_option,
    metric_names,
    named_files,
    no_ci_option,
    output_folder_option,
    output_options,
    preset_option,
    protocol_option,
    reading_arguments,
    reading_options,
    replicates_option,
    scheduler_option,
    seed_option,
    sizes_text,
    verb,
)
from calipers.cli.sources import source_of
from calipers.errors import InputError, UsageError
from calipers.sensitivity.figures import sweep_figures
from calipers.sensitivity.sweep import Sweep
from calipers.show.terminal import Narrator, one_line, print_lines, print_tables

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort
    from calipers.sensitivity.result import Multiverse

REPLICATES = 200
NAMED = ("metric", "criterion")  # choices with an option of their own


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS PREDS...]", nargs=-1)
@output_folder_option()
@click.option(
    "--grid",
    metavar="FILE",
    help="Choices and their values in TOML. Default: what suits the data.",
)
@click.option(
    "--metrics",
    "--metric",
    "metric",
    metavar="A,B,...",
    multiple=True,
    help="Use only these metrics, such as AP,F1 or, with thresholds of their own, AP@0.4,F1@0.5.",
)
@click.option(
    "--criterion", metavar="NAME", multiple=True, help="Use only this criterion. Repeatable."
)
@replicates_option(f"Number of bootstrap replicates ({REPLICATES}).", most=10_000)
@no_ci_option()
@seed_option()
@jobs_option()
@engine_option
@scheduler_option
@force_option("Allow a DIR that is not empty; a multiverse in it is replaced.")
@reading_options
@plan_option
@output_options
def multiverse(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Test how sensitive the ranking is to analysis choices.

    All models are evaluated under every defensible configuration: a metric, a criterion, a
    threshold, and so on; configurations that cannot differ count once. PREDS are files, or
    name=file to name a model. REFS may also be a folder that evaluate -o or maps -o wrote.

    \b
    calipers multiverse refs.json ours=a.json theirs=b.json -o choices
    calipers multiverse refs.json a.json b.json --metric AP --metric F1 --criterion box-iou
    """
    from calipers.evaluation.protocol import Protocol
    from calipers.sensitivity.multiverse import multiverse as run
    from calipers.sensitivity.multiverse import multiverse_cost

    source = source_of(references, predictions)
    grid, base = _grid(options)
    if options["output"] is not None:
        others = [options[key] for key in ("groups", "grid") if options[key]]
        check_output(options["output"], options["force"], (*source.inputs, *others))
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    cohort = source.cohort(Protocol.load(source.protocol), options)
    narrator.say(sizes_text(cohort, models=True))
    replicates = chosen_replicates(options, REPLICATES)
    if options["plan"]:
        print_cost(multiverse_cost(cohort, grid, base, replicates), options)
        return
    # An image that ends a thread would end the program.
    with chosen_workers(options, processes=not options["strict"]) as (jobs, executor):

        def work(images: Cohort) -> Multiverse:
            return run(
                images,
                grid,
                base=base,
                replicates=replicates,
                seed=options["seed"],
                jobs=jobs,
                executor=executor,
                progress=narrator.steps("matching", "resampling"),
            )

        result = without_deadly_images(work, cohort, options)
    _finish(result, narrator, options)


def listed_names(texts: Sequence[str]) -> list[str]:
    """Return the names of ``A,B`` and of options that were repeated."""
    names: list[str] = []
    for text in texts:
        names += metric_names(text) or []
    return names


def _grid(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return grid and base of the file and the options; errors in them are reported before anything
    is read.
    """
    from calipers.sensitivity.multiverse import DEFAULT, check_grid, load_grid

    grid: dict[str, Any] = {}
    base: dict[str, Any] = {}
    if options["grid"] is not None:
        grid, base = load_grid(options["grid"])
    for name in NAMED:
        names = listed_names(options[name])
        if names:
            grid[name] = names
    # What the user left out comes from the default grid, and the two may contradict.
    check_grid({**DEFAULT, **grid})
    return grid, base


def _finish(result: Multiverse, narrator: Narrator, options: dict[str, Any]) -> None:
    """Write and print the result."""
    if not options["no_ci"] and result.robustness is None:
        narrator.say("note: no intervals: too few patients or images to resample")
    page = None
    if options["output"] is not None:
        narrator.doing("figures and tables")
        command = click.get_current_context().obj or ()
        page = str(result.save(options["output"], force=options["force"], command=command))
        narrator.doing("")
    if options["as_json"]:
        click.echo(json.dumps({**result.as_dict(), "page": page}, allow_nan=False))
        return
    _print(result)
    if page is not None:
        click.echo(one_line(f"Open {page}"))


def _print(result: Multiverse) -> None:
    """Print sentences, then the shares at every value of every choice, then the counts."""
    from calipers.sensitivity.result import choice_name, configuration_text
    from calipers.sensitivity.tables import levels_table

    print_lines(result.sentences())
    print_tables([levels_table(result, silent=False)])
    lines = []
    if result.silent:
        choices = ", ".join(map(choice_name, result.silent))
        lines.append(f"Choices that change no share: {choices}.")
    lines.append(f"Base configuration: {configuration_text(result.each[result.base])}.")
    counts = f"{len(result.each)} different configurations of {result.n_possible:,} combinations."
    if result.n_undefined:
        counts += f" {result.n_undefined} more were left out, because a model has no value."
    print_lines([*lines, counts])


OVER = (
    "threshold=0.1:0.9:0.1, criterion=box-iou,iop or position-noise.sigma=0:2:0.25; one or two of "
    "them."
)
METRIC = (
    "Metrics, such as AP@0.4,FROC@1. Default: those of the headline that the choice applies to."
)
ALWAYS = "A corruption that is always applied, after the others."


MOST = 10_000


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS...]", nargs=-1)
@click.option("--over", metavar="CHOICE=VALUES", multiple=True, required=True, help=OVER)
@click.option("--metrics", "--metric", "metrics", metavar="A,B,...", multiple=True, help=METRIC)
@output_folder_option("Folder for sweep.json, sweep.csv and figures; must be new or empty.")
@preset_option("Preset. Default: overview.")
@protocol_option()
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(min=1),
    default=5,
    help="Runs of an oracle at every point (5).",
)
@click.option("--with", "always", metavar="KIND", multiple=True, help=ALWAYS)
@seed_option("Seed of oracles and intervals (0).")
@no_ci_option("Compute no intervals of models.")
@jobs_option(BLOCKS)
@engine_option
@scheduler_option
@force_option("Allow a DIR that is not empty; a sweep in it is replaced.")
@reading_options
@plan_option
@output_options
def sweep(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Show how metrics depend on one or two choices, such as a threshold or a known error.

    Choices of the protocol (threshold, score_cut, least_area, max_dets, criterion, assignment,
    interpolation, average, classes, ties) are swept for the models of PREDS. The strength of a
    corruption, such as position-noise.sigma, is swept for an oracle that corrupts REFS; then PREDS
    are not needed.

    \b
    calipers sweep refs.json ours=a.json --metric AP@0.5 --over threshold=0.1:0.9:0.1 -o results
    calipers sweep refs.json --preset rodeo --over position-noise.sigma=0:2:0.25
    """
    from calipers.io.read import read
    from calipers.sensitivity.sweep import check_choice, is_corruption, sweep_cost
    from calipers.sensitivity.sweep import sweep as run

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    over, files = choices_of(options["over"]), named_files(predictions)
    for name, values in over.items():
        check_choice(name, values)  # errors are reported before anything is read
    names = listed_names(options["metrics"])
    protocol = chosen_protocol(options, default="overview").including(names)
    metrics = chosen_metrics(protocol, names, over)
    if options["output"] is not None:
        others = [options[key] for key in ("groups", "protocol") if options[key]]
        _check_sweep_folder(
            options["output"], options["force"], (references, *files.values(), *others)
        )
    oracle = any(is_corruption(name) for name in over)
    cohort = read(references, files, **reading_arguments(options))
    narrator.say(f"{sizes_text(cohort)}; protocol {protocol.name}")
    if oracle and files:
        narrator.warn(
            [
                f"{', '.join(files)} are not used: the strength of a corruption is swept for an "
                f"oracle"
            ]
        )
    narrator.warn(cohort.intake.notes)
    how: dict[str, Any] = {
        "protocol": protocol,
        "runs": options["runs"],
        "seed": options["seed"],
        "ci": not options["no_ci"],
        "with_": options["always"],
    }
    if options["plan"]:
        print_cost(sweep_cost(cohort, metrics, over, **how), options)
        return
    steps = ("runs",) if oracle else ("matching", "resampling")
    # An image that ends a thread would end the program.
    with chosen_workers(options, processes=not options["strict"]) as (jobs, executor):
        how |= {"jobs": jobs, "executor": executor, "progress": narrator.steps(*steps)}
        result = without_deadly_images(
            lambda images: run(images, metrics, over, **how), cohort, options
        )
    if options["output"]:
        result.save(options["output"], force=options["force"])
    if options["as_json"]:
        click.echo(result.to_json())
        return

    print_sweep(result)
    if options["output"]:
        narrator.say(f"written: {options['output']}")


def choices_of(entries: tuple[str, ...]) -> dict[str, list[float | str]]:
    """Return name -> values of entries such as ``threshold=0.1:0.9:0.1`` and
    ``criterion=box-iou,iop``.
    """
    choices: dict[str, list[float | str]] = {}
    for entry in entries:
        name, sign, text = (part.strip() for part in entry.partition("="))
        if not (name and sign and text):
            raise UsageError(
                f"--over takes CHOICE=VALUES, such as threshold=0.1:0.9:0.1, not {entry!r}"
            )
        if name in choices:
            raise UsageError(
                f"--over is given twice for {name!r}: write all its values in one list"
            )
        if ":" in text:
            choices[name] = _span(text, entry)
        else:
            choices[name] = [_value(part.strip(), entry) for part in text.split(",")]
    return choices


def _span(text: str, entry: str) -> list[float | str]:
    """Return the numbers of ``start:stop:step``, both ends included."""
    parts = text.split(":")
    try:
        start, stop, step = (Decimal(part.strip()) for part in parts)
    except (InvalidOperation, ValueError):
        raise UsageError(f"--over {entry}: a range is START:STOP:STEP, three numbers") from None
    if not all(number.is_finite() for number in (start, stop, step)) or step <= 0 or stop < start:
        raise UsageError(f"--over {entry}: a range rises from START to STOP in steps above 0")
    n = int((stop - start) / step) + 1
    if n > MOST:
        raise UsageError(f"--over {entry}: {n:,} values; at most {MOST:,}")
    return [float(start + k * step) for k in range(n)]


def _value(text: str, entry: str) -> float | str:
    if not text:
        raise UsageError(f"--over {entry}: a value is missing between commas")
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,15}", text) else float(text)
    except ValueError:
        return text


def chosen_metrics(
    protocol: Any, names: Sequence[str], over: dict[str, list[float | str]]
) -> list[str]:
    """Return the metrics that were named; else those of the headline that the choices apply to."""
    from calipers import registry
    from calipers.sensitivity.sweep import OWN, is_corruption

    if names:
        return list(dict.fromkeys(protocol.only([name]).metrics[0].name for name in names))
    kinds = {plan.name: plan.kind for plan in protocol.metrics}
    metrics = list(protocol.headline or kinds)
    if any(not is_corruption(name) and name not in OWN for name in over):
        metrics = [name for name in metrics if not registry.own_matching(kinds[name])]
    if not metrics:
        raise UsageError(
            f"no metric in the headline of {protocol.name} to sweep: name one with --metric"
        )
    return metrics


def _check_sweep_folder(output: str, force: bool, inputs: tuple[str, ...]) -> None:
    """Refuse a bad output folder before any work is done; a saved evaluation is never touched."""
    folder = check_output(output, force, inputs)
    if (folder / "evaluation.json").exists():
        hint = "it contains an evaluation: choose another folder"
        raise InputError("a folder for a sweep", rule="output-exists", file=output, hint=hint)


MOST_ROWS = 40


def print_sweep(sweep: Sweep) -> None:
    """Print the tables of a sweep, the findings in words, and the numbers behind them."""
    from calipers.sensitivity.tables import sweep_tables
    from calipers.show.words import count_text

    print_tables([table.first(MOST_ROWS, all_in="--json") for table in sweep_tables(sweep)])
    sentences = dict.fromkeys(f"{figure.title}." for figure in sweep_figures(sweep).values())
    n_images, n_references = sweep.n_images, sweep.n_references
    numbers = f"n = {count_text('image', n_images)}, {count_text('reference', n_references)}"
    print_lines([*sentences, f"{numbers}; protocol {sweep.protocol}."])
