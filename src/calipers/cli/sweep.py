# SPDX-License-Identifier: Apache-2.0
"""`calipers sweep REFS [PREDS...] --over CHOICE=VALUES`."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

from calipers.cli.evaluate import chosen_protocol
from calipers.cli.narration import Narrator
from calipers.cli.options import named_files, output_options, reading_arguments, reading_options
from calipers.errors import InputError, UsageError
from calipers.results.files import check_folder, files_of, staged_folder, write_atomically

OVER = (
    "threshold=0.1:0.9:0.1, criterion=box-iou,iop or position-noise.sigma=0:2:0.25; one or two of "
    "them."
)
METRIC = "A metric of the protocol. Default: those of its headline that the choice applies to."
ALWAYS = "A corruption that is always applied, after the others."


FIGURE = re.compile(r"sweep-[0-9].*\.svg")  # figures of an earlier sweep
MOST = 10_000


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS...]", nargs=-1)
@click.option("--over", metavar="CHOICE=VALUES", multiple=True, required=True, help=OVER)
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help=METRIC)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    help="Folder for sweep.json, sweep.csv and figures; must be new or empty.",
)
@click.option("--preset", metavar="NAME", help="Preset. Default: overview.")
@click.option("--protocol", metavar="FILE", help="Protocol file (TOML) instead of a preset.")
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(min=1),
    default=5,
    help="Runs of an oracle at every point (5).",
)
@click.option("--with", "always", metavar="KIND", multiple=True, help=ALWAYS)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of oracles and intervals (0).",
)
@click.option("--no-ci", is_flag=True, help="Compute no intervals of models.")
@click.option(
    "--force", is_flag=True, help="Allow a DIR that is not empty; a sweep in it is replaced."
)
@reading_options
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
    from calipers.readers import read
    from calipers.sensitivity import sweep as run
    from calipers.sensitivity.choices import check_choice, is_corruption

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    over, files = choices_of(options["over"]), named_files(predictions)
    for name, values in over.items():
        check_choice(name, values)  # errors are reported before anything is read
    protocol = chosen_protocol(options, default="overview")
    metrics = chosen_metrics(protocol, options["metrics"], over)
    if options["output"] is not None:
        others = [options[key] for key in ("groups", "protocol") if options[key]]
        check_output(options["output"], options["force"], (references, *files.values(), *others))
    oracle = any(is_corruption(name) for name in over)
    cohort = read(references, files, **reading_arguments(options))
    narrator.say(
        f"{cohort.n_images} images, {len(cohort.references)} references; protocol {protocol.name}"
    )
    if oracle and files:
        narrator.warn(
            [
                f"{', '.join(files)} are not used: the strength of a corruption is swept for an "
                f"oracle"
            ]
        )
    narrator.warn(cohort.intake.notes)
    result = run(
        cohort,
        metrics,
        over,
        protocol=protocol,
        runs=options["runs"],
        seed=options["seed"],
        ci=not options["no_ci"],
        with_=options["always"],
        progress=narrator.steps("runs") if oracle else narrator.steps("matching", "resampling"),
    )
    if options["output"]:
        write(result, Path(options["output"]))
    if options["as_json"]:
        click.echo(result.to_json())
        return
    from calipers.cli.sweep_tables import print_sweep

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
    protocol: Any, names: tuple[str, ...], over: dict[str, list[float | str]]
) -> list[str]:
    """Return the metrics that were named; else those of the headline that the choices apply to."""
    from calipers import registry
    from calipers.sensitivity.choices import OWN, is_corruption

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


def check_output(output: str, force: bool, inputs: tuple[str, ...]) -> None:
    """Refuse a bad output folder before any work is done; a saved evaluation is never touched."""
    if not output:
        raise UsageError("-o needs the name of a folder")
    folder = check_folder(output, force=force, inputs=inputs)
    if (folder / "evaluation.json").exists():
        hint = "it holds an evaluation: choose another folder"
        raise InputError("a folder for a sweep", rule="output-exists", file=output, hint=hint)


def write(result: Any, folder: Path) -> None:
    """Write document, rows and figures together, or nothing."""
    from calipers.plots.svg import svg
    from calipers.plots.sweeps import sweep_figures
    from calipers.results.delimited import columns_of, delimited

    earlier = files_of(folder, FIGURE)
    with staged_folder(folder, ("sweep.json", "sweep.csv", *earlier)) as stage:
        write_atomically(stage / "sweep.json", result.to_json() + "\n")
        write_atomically(stage / "sweep.csv", delimited(columns_of(result.rows())))
        for k, (name, figure) in enumerate(sweep_figures(result).items(), start=1):
            word = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:60]
            write_atomically(stage / f"sweep-{k}-{word}.svg", svg(figure, standalone=True))
