# SPDX-License-Identifier: Apache-2.0
"""The verbs that work on files of references and predictions, and on what came of them.

- `calipers evaluate REFS PREDS...` evaluates, prints the tables and writes a folder with ``-o``;
- `calipers inspect REFS [PREDS...]`, also called `calipers doctor`, shows how files are read and
  what is wrong with them, and evaluates nothing;
- `calipers convert REFS OUTPUT [--predictions PREDS]` writes them in another format;
- `calipers check DIR REQUIREMENTS` judges a saved evaluation by acceptance limits: each requirement
  in words, then a line per row (`print_outcomes`).

Options become the arguments of the functions that Python users call; nothing is computed here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from calipers.cli.engine import (
    chosen_part,
    chosen_workers,
    part_option,
    plan_option,
    print_cost,
    run_blocks,
)
from calipers.cli.options import (
    check_output,
    chosen_protocol,
    evaluation_options,
    force_option,
    named_files,
    output_options,
    picture_arguments,
    picture_options,
    reading_arguments,
    reading_options,
    sizes_text,
    verb,
    with_named_metrics,
    writing_options,
)
from calipers.errors import CalipersError, InputError, UsageError, spelled
from calipers.results.files import check_file, check_folder
from calipers.show.terminal import (
    Narrator,
    error_text,
    one_line,
    print_lines,
    print_tables,
    printable,
)
from calipers.show.words import count_text, interval_text, number_text

EACH = "each"  # of --readers: every reader is the reference in turn
READER_METRICS = "F1@0.5,sensitivity@0.5,PPV@0.5,FP/image@0.5"  # readers have no scores
LEVELS = click.Choice(["warning", "error"])  # at which `inspect` fails
USUAL_LEVEL = 0.95  # a requirement that is met at a lower level deserves a warning
STYLES = {"met": "green", "not met": "bold red", "not shown": "bold yellow"}
LONGEST = max(map(len, STYLES))  # verdicts stand in a column
WIDEST = 40  # of a column: a longer name pushes its own line only

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort
    from calipers.doctor.checkup import Checkup
    from calipers.doctor.findings import Symptom
    from calipers.doctor.remedies import Inputs
    from calipers.engine.store import Store
    from calipers.io.saved.folder import Stored
    from calipers.results.requirements import Outcome, Requirements


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS...", nargs=-1, required=True)
@evaluation_options(
    "coco (default), overview, rodeo, chestxray8, endocv2021, endocv2022, endovis2015, giana2017, "
    "giana2018, giana2021, lard, luna16, node21, oms, picai, polyp-clinical, rsna2018, tide, "
    "voc2007, voc2012."
)
@click.option(
    "--summary",
    metavar="COLUMN",
    help="Also print mean (SD) and range over the groups of a column of --by, such as centre.",
)
@click.option(
    "--fps",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True),
    help="Frames per second of sequences, if the images have no column fps.",
)
@click.option(
    "--multiverse",
    is_flag=True,
    help="Add to the page how sensitive the ranking is to analysis choices.",
)
@click.option(
    "--stability",
    is_flag=True,
    help=(
        "Add a section that treats the models as repeated trainings of one: which objects do all "
        "of them find?"
    ),
)
@picture_options
@reading_options
@part_option
@plan_option
@output_options
def evaluate(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Evaluate predictions against references.

    PREDS are files, or name=file to name a model. Formats are detected; see --format.

    \b
    calipers evaluate refs.json ours=a.json theirs=b.json --preset overview -o results
    calipers evaluate refs.json a.json --preset endocv2022 --by centre,size --summary centre
    """
    run_evaluate(references, predictions, **options)


def run_evaluate(
    references: str, predictions: tuple[str, ...], *, store: Store | None = None, **options: Any
) -> None:
    """Do what `calipers evaluate` does; ``store`` holds the blocks of parts that were matched."""
    from calipers.evaluation.collect import collect_part, collection_plan, spans
    from calipers.evaluation.evaluate import evaluate as run
    from calipers.evaluation.groups import check_columns
    from calipers.evaluation.plan import evaluation_cost
    from calipers.io.read import read

    narrator, start = Narrator(quiet=options["quiet"] or options["as_json"]), datetime.now(UTC)
    if options["readers"] == EACH:
        for_readers(options)
    protocol = with_named_metrics(chosen_protocol(options), options["metrics"])
    pictures, part = chosen_pictures(options), chosen_part(options)
    if options["summary"]:
        _check_summary(options)
    for name in ("multiverse", "stability"):
        if options[name] and (not options["output"] or len(predictions) < 2):
            raise UsageError(
                f"--{name} adds a section to the page that compares models: give -o DIR and two or "
                f"more models"
            )
    if options["output"] is not None:
        inputs = [references, *named_files(predictions).values()]
        if options["groups"]:
            inputs.append(options["groups"])
        # Before anything is read: a long run must not end with a folder that cannot be written.
        # The folder of a part may hold what an earlier run of it finished.
        check_output(options["output"], options["force"] or part is not None, tuple(inputs))
    reading = reading_arguments(options, each_reader=True)
    cohort = read(references, named_files(predictions), **reading)
    if options["fps"] is not None:
        cohort = _with_frame_rate(cohort, options["fps"])
    if options["images"] is not None:
        from calipers.pictures.files import PictureFiles

        # A folder without the pictures is reported before the work, not after it.
        narrator.warn(PictureFiles.of(Path(pictures["images"]), cohort).copies())
    narrator.say(f"{sizes_text(cohort, classes=True)}; protocol {protocol.name}")
    command = click.get_current_context().find_root().obj or ()
    # A part neither groups nor resamples: what only the merge needs is refused here.
    check_columns(cohort.images, protocol, options["by"])
    if options["plan"]:
        print_cost(evaluation_cost(cohort, protocol, ci=not options["no_ci"]), options)
        return
    with ExitStack() as stack:
        # An image that ends a thread would end the program.
        lenient = not options["strict"]
        jobs, executor = stack.enter_context(chosen_workers(options, processes=lenient))
        plan = collection_plan(cohort, protocol, command, lenient=lenient)
        # A single block is done at once: there is nothing to go on from.
        is_long = bool(options["output"]) and len(spans(cohort.n_images)) > 1
        if store is not None or part is not None or is_long:
            store = stack.enter_context(run_blocks(plan, options, part, store))
        progress = narrator.steps("matching", "resampling")
        if part is not None and store is not None:
            how: dict[str, Any] = {"workers": jobs, "executor": executor, "lenient": lenient}
            number = collect_part(cohort, protocol, store, **how, progress=progress)
            narrator.say(f"part {part}: {number} of {plan.n_blocks} blocks are kept")
            click.echo(options["output"])
            return
        evaluation = run(
            cohort,
            protocol,
            seed=options["seed"],
            ci=not options["no_ci"],
            by=tuple(dict.fromkeys(options["by"])),
            jobs=jobs,
            executor=executor,
            store=store,
            lenient=lenient,
            allow_loss=options["allow_loss"],
            progress=progress,
        )
        narrator.warn(evaluation.look_for_warnings(narrator.whole()))
        if options["output"]:
            evaluation.save(
                options["output"],
                force=options["force"],
                command=command,
                started=start,
                multiverse=options["multiverse"],
                stability=options["stability"],
                step=narrator.doing,
                progress=narrator.whole(),
                **pictures,
            )
    show(evaluation, narrator, options)


def _with_frame_rate(cohort: Cohort, rate: float) -> Cohort:
    """Return the cohort with the column that metrics of sequences read the frame rate from."""
    import numpy as np

    if "fps" in cohort.images.groups:
        raise UsageError("the images have a column fps already: leave --fps out")
    return cohort.with_groups({"fps": np.full(cohort.n_images, rate)})


def _check_summary(options: dict[str, Any]) -> None:
    """Raise before the work unless a grouping has the column whose groups are averaged."""
    over = options["summary"]
    columns = []
    for text in options["by"]:
        columns += [name.partition("=")[0].strip() for name in text.split(",")]
    over = spelled(over, columns)
    if over in ("size", "class") or over not in columns:
        raise UsageError(
            f"--summary {over} averages groups of images of a --by: give --by {over} or "
            f"--by {over},size"
        )


def for_readers(options: dict[str, Any]) -> None:
    """Fill in what suits readers as references in turn: a row per reader, metrics without ranks."""
    options["by"] = tuple(dict.fromkeys((*options["by"], "reader")))
    if not (options["preset"] or options["protocol"] or options["metrics"]):
        options["preset"], options["metrics"] = "overview", READER_METRICS


def chosen_pictures(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the page; without a folder there is no page."""
    if not options["output"]:
        for name in ("images", "no_images", "redact"):
            if options[name]:
                option = name.replace("_", "-")
                raise UsageError(
                    f"--{option} is for the page, which -o DIR writes: give -o DIR too"
                )
        return picture_arguments(options, None)
    return picture_arguments(options, Path(options["output"]))


def show(evaluation: Any, narrator: Narrator, options: dict[str, Any]) -> None:
    """Print the result, and where the page is."""
    over = options.get("summary")
    if options["as_json"]:
        document = evaluation.as_dict()
        if over:
            document["summary"] = evaluation.summary(over).as_dict()
        click.echo(json.dumps(document, allow_nan=False))
    else:
        from calipers.evaluation.compare import reader_sentences
        from calipers.evaluation.tables import print_evaluation, summary_tables

        print_evaluation(evaluation)
        if over:
            print_tables(summary_tables(evaluation.summary(over), evaluation.headline))
        print_lines(reader_sentences(evaluation))
    if options["output"]:
        narrator.say(f"Open {Path(options['output']) / 'report.html'}")


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS...]", nargs=-1)
@click.option(
    "--fail-on",
    type=LEVELS,
    help="Exit with code 1 if a finding makes results wrong (error), or on any finding (warning).",
)
@click.option(
    "--repair",
    metavar="FILE",
    help="Write the predictions with the fixes that were found, as csv, json or parquet.",
)
@force_option()
@reading_options
@output_options
def inspect(references: str, predictions: tuple[str, ...], **options: Any) -> int:
    """Show how files are read, what is wrong with them, and the command that works.

    Every problem of all files is listed, and nothing is evaluated. Fixes are tried before they are
    proposed. REFS alone may also be predictions, to check them before they are submitted. The exit
    code is 2 if strict reading refuses a file.

    \b
    calipers doctor refs.json preds.json
    """
    from calipers import __version__
    from calipers.doctor.checkup import check_files
    from calipers.doctor.remedies import Inputs
    from calipers.doctor.volumes.volume_folders import are_volumes
    from calipers.evaluation.result import cohort_counts

    files = named_files(predictions)
    reading = reading_arguments(options, each_reader=True)
    del reading["progress"]  # the examination counts reading among all of its steps
    if options["repair"] is not None:
        inputs = [references, *files.values()]
        check_file(options["repair"], force=options["force"], inputs=inputs)
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    if options["format_"] is None and are_volumes(references, files):
        step = narrator.steps("references", *files)
        return _inspect_volumes(
            Inputs(
                references,
                files,
                reading.pop("groups"),
                reading,
                progress=lambda name, n_done, n_all: step(n_done, n_all),
            ),
            options,
        )
    checkup = check_files(
        references, files, reading.pop("groups"), progress=narrator.whole(), **reading
    )
    narrator.doing("")
    if options["as_json"]:
        document = {
            "schema": "calipers.inspect/1",
            "calipers": __version__,
            "cohort": cohort_counts(checkup.cohort),
            "warnings": list(checkup.cohort.intake.notes),
        }
        click.echo(json.dumps({**document, **checkup.as_dict()}))
    else:
        click.echo(printable("\n".join(checkup.lines())))
    if options["repair"] is not None:
        # The files are still wrong, but this command has done what it was asked for.
        _repair(checkup, options)
        return 0
    if options["strict"] and checkup.refused:
        return InputError.exit_code
    intake = checkup.cohort.intake
    return _failure(options, checkup.findings, intake.quarantined > 0, bool(intake.notes))


def _failure(
    options: dict[str, Any], findings: Sequence[Symptom], has_broken: bool, has_notes: bool
) -> int:
    """Return 1 if there is something that --fail-on names."""
    levels = {symptom.level for symptom in findings}
    is_broken = "error" in levels or has_broken
    # Without --fail-on nothing that could be read is a failure.
    failures = {"error": is_broken, "warning": is_broken or "warning" in levels or has_notes}
    return int(failures.get(options["fail_on"], False))


def _inspect_volumes(inputs: Inputs, options: dict[str, Any]) -> int:
    """Show what is wrong with folders of volumes."""
    from calipers import __version__
    from calipers.doctor.volumes.volume_folders import check_volumes

    if options["repair"] is not None:
        raise UsageError("--repair rewrites files of boxes; volumes are left as they are")
    checkup = check_volumes(inputs)
    if options["as_json"]:
        document = {
            "schema": "calipers.inspect/1",
            "calipers": __version__,
            "cohort": checkup.counts,
            "warnings": checkup.notes,
        }
        click.echo(json.dumps({**document, **checkup.as_dict()}))
    else:
        click.echo(printable("\n".join(checkup.lines())))
    if options["strict"] and checkup.refused:
        return InputError.exit_code
    return _failure(options, checkup.findings, False, bool(checkup.notes))


def _repair(checkup: Checkup, options: dict[str, Any]) -> None:
    """Write the predictions of the one model that has fixes."""
    from calipers.io.write import write

    if len(checkup.repaired) != 1:
        number = len(checkup.repaired) or "no"
        raise UsageError(
            f"--repair rewrites the predictions of one model; {number} models have fixes that only "
            "rewriting can make: give one file of predictions with such a finding"
        )
    (model, cohort) = next(iter(checkup.repaired.items()))
    write(cohort, options["repair"], what=model)
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    narrator.say(f"{len(cohort.models[model])} predictions of {model}: {options['repair']}")


@verb()
@click.argument("references", metavar="REFS")
@click.argument("output", metavar="[OUTPUT]", required=False)
@click.option("-o", "--output", "option", metavar="OUTPUT", help="The same as OUTPUT.")
@click.option(
    "--predictions", metavar="PREDS", help="Convert these predictions instead of the references."
)
@writing_options("OUTPUT")
@click.option(
    "--integer-ids",
    is_flag=True,
    help="COCO for other tools: number the images, with their ids as file_name.",
)
@reading_options
@output_options
def convert(references: str, output: str | None, option: str | None, **options: Any) -> None:
    """Write the references REFS, or predictions on them, in another format.

    OUTPUT (or -o OUTPUT) is a file; with --to yolo or --to voc it is a new folder. Predictions also
    need the references, which define images and classes.

    \b
    calipers convert refs.json refs.csv
    calipers convert refs.json --predictions a.json --to yolo -o run1
    """
    from calipers import __version__
    from calipers.io.annotations.export import FOLDER_FORMATS, lost_in_folder
    from calipers.io.read import read
    from calipers.io.write import left_out, other_order, write, written_format
    from calipers.show.words import count_text

    if (output is None) == (option is None):
        raise UsageError("say once where to write: calipers convert REFS OUTPUT, or REFS -o OUTPUT")
    output = output or option or ""
    target = Path(output)
    prediction_files: dict[str, str] = {}
    if options["predictions"]:
        prediction_files = named_files([options["predictions"]])
    inputs = [references, *prediction_files.values()]
    if options["groups"]:
        inputs.append(options["groups"])
    format_name = written_format(target, options["to"])
    if format_name in FOLDER_FORMATS:
        # Never replaced, not even with --force: pictures may lie beside the labels.
        check_folder(output, force=False, inputs=tuple(inputs))
    else:
        check_file(output, force=options["force"], inputs=inputs)
    try:
        cohort = read(references, prediction_files, **reading_arguments(options))
    except InputError as error:
        # One file cannot be swapped with another.
        if error.hint.endswith("swapped?") and not prediction_files:
            raise error.with_hint(
                "wrong-role",
                "these are predictions: calipers convert REFS --predictions PREDS -o OUTPUT, with "
                "the references as REFS, which define images and classes",
            ) from None
        raise
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    what = next(iter(prediction_files), "references")
    write(
        cohort,
        target,
        what=what,
        format=options["to"],
        box_format=options["to_box_format"],
        integer_ids=options["integer_ids"],
        progress=narrator.whole(),
    )
    table = cohort.models[what] if prediction_files else cohort.references
    notes = [*cohort.intake.notes, *left_out(table, format_name)]
    notes += lost_in_folder(cohort, table, format_name)
    if not prediction_files:
        notes += other_order(cohort, format_name, integer_ids=options["integer_ids"])
    if options["as_json"]:
        document = {"schema": "calipers.convert/1", "calipers": __version__, "written": output}
        click.echo(json.dumps({**document, "what": what, "objects": len(table), "warnings": notes}))
        return
    narrator.warn(notes)
    narrator.say(f"{count_text('object', len(table))} on {count_text('image', cohort.n_images)}")
    click.echo(output)


@verb()
@click.argument("evaluation", metavar="DIR")
@click.argument("requirements", metavar="REQUIREMENTS")
@click.option(
    "--junit",
    metavar="FILE",
    help="Also write the outcomes as JUnit XML; an earlier JUnit file is replaced.",
)
@output_options
def check(evaluation: str, requirements: str, junit: str | None, as_json: bool, quiet: bool) -> int:
    """Check an evaluation against acceptance limits.

    DIR is a folder written by calipers evaluate -o, or its evaluation.json. REQUIREMENTS is a TOML
    file. Exit code 0: all requirements are met; 1: at least one is not met or not shown; 2: bad
    input.

    \b
    calipers check results requirements.toml --junit junit.xml
    """
    from calipers.io.saved.folder import read_stored
    from calipers.results.requirements import Requirements, junit_of_error
    from calipers.results.requirements import check as judge

    if junit is not None:
        _check_target(junit)
    try:
        stored = read_stored(evaluation)
        criteria = Requirements.load(requirements)
        rows, notes = _rows_with_intervals(stored, Path(evaluation))
        outcomes = judge(rows, criteria, bounds=_metric_bounds(stored))
    except CalipersError as error:
        if junit is not None:  # last week's verdict must not stay there as if it were today's
            _write(junit, junit_of_error(error_text(error), suite=requirements))
        raise
    document = _document(stored, criteria, outcomes, notes)
    if junit is not None:
        _write(junit, _junit(document, outcomes))
    narrator = Narrator(quiet=quiet or as_json)
    narrator.warn(document["warnings"])
    counts = document["counts"]
    if as_json:
        click.echo(json.dumps(document))
    else:
        print_outcomes(outcomes)
        click.echo(f"{counts['met']} of {counts['requirements']} requirements met")
    if junit is not None:
        narrator.say(f"JUnit: {junit}")
    return int(counts["met"] < counts["requirements"])


def _metric_bounds(stored: Stored) -> dict[str, tuple[float, float]]:
    """Return between which values the metrics lie; nothing of a protocol that is not ours."""
    from calipers.evaluation.protocol import Protocol

    try:
        return Protocol.from_dict(stored.protocol, file=stored.file).bounds
    except CalipersError:
        # Rows of another tool are judged too; only their ranges are unknown.
        return {}


def _rows_with_intervals(
    stored: Stored, folder: Path
) -> tuple[Sequence[Mapping[str, Any]], list[str]]:
    """Return the rows with an interval of the metric where version 0.1 stored another one.

    Such rows are computed again from the cohort in the folder, and a note says so.
    """
    from calipers.evaluation.saved import rows_of_now
    from calipers.results.requirements import SHARE_OF_UNITS

    n_other = sum(row["method"] == SHARE_OF_UNITS for row in stored.rows)
    if not n_other or not stored.vouched or not folder.is_dir():
        return stored.rows, []
    try:
        now = {_row_key(row): row for row in rows_of_now(folder)}
    except CalipersError:
        # A folder without its cohort: the rows stay as they are, and are not shown.
        return stored.rows, []
    rows = []
    for row in stored.rows:
        is_other = row["method"] == SHARE_OF_UNITS
        rows.append(now[_row_key(row)] if is_other else row)
    note = (
        f"{n_other} rows have bounds of the share of units without error, as early versions wrote "
        "them; their intervals were recomputed from the folder by the current rules"
    )
    return rows, [note]


def _row_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    group = tuple((row["group"] or {}).items())
    return row["model"], row["metric"], row["class"], group


def _document(
    stored: Stored, criteria: Requirements, outcomes: Sequence[Outcome], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the JSON document of the contract ``calipers.check/1``."""
    from calipers import __version__
    from calipers.results.requirements import VERDICTS, verdicts

    requirement_verdicts = list(verdicts(outcomes).values())
    counts = {"requirements": len(requirement_verdicts)}
    for verdict in VERDICTS:
        counts[verdict.replace(" ", "_")] = requirement_verdicts.count(verdict)
    warnings = list(notes)
    if not stored.vouched:
        warnings.append(
            "there is no run.json beside the evaluation: its numbers cannot be verified"
        )
    levels = [row["level"] for row in stored.rows if isinstance(row.get("level"), float)]
    weakest = min(levels, default=USUAL_LEVEL)
    if weakest < USUAL_LEVEL:
        warnings.append(
            f"the confidence level of intervals is {weakest:g}; a requirement can demand more, "
            "such as level = 0.95"
        )
    return {
        "schema": "calipers.check/1",
        "calipers": __version__,
        "evaluation": stored.file,
        "result_hash": stored.result_hash,
        "vouched": stored.vouched,
        "requirements": criteria.file,
        "requirements_sha256": criteria.sha256,
        "name": criteria.name,
        "counts": counts,
        "outcomes": [outcome.as_dict() for outcome in outcomes],
        "warnings": warnings,
    }


def _junit(document: dict[str, Any], outcomes: Sequence[Outcome]) -> str:
    from calipers.results.requirements import junit

    names = (
        "calipers",
        "evaluation",
        "result_hash",
        "vouched",
        "requirements",
        "requirements_sha256",
    )
    properties = {name: str(document[name]) for name in names}
    return junit(
        outcomes, suite=document["name"] or document["requirements"], properties=properties
    )


def _check_target(name: str) -> None:
    """Refuse to replace anything but an earlier file of this kind; a device such as stdout is
    none.
    """
    from calipers.results.files import head_of
    from calipers.results.requirements import HEAD

    target = Path(name)
    if not name or target.is_dir():
        raise InputError("the name of a file", rule="not-a-file", file=name or "--junit")
    if not target.exists():
        return
    try:
        ours = target.is_file() and head_of(target, len(HEAD)) == HEAD.encode()
    except OSError as error:
        raise InputError(
            "a file that can be replaced", rule="not-readable", file=name, value=error.strerror
        ) from None
    if not ours:
        hint = "only the JUnit file of an earlier check may be replaced: choose another name"
        raise InputError(
            "a file that does not exist yet", rule="output-exists", file=name, hint=hint
        )


def _write(name: str, text: str) -> None:
    from calipers.results.files import write_atomically

    write_atomically(name, text)


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print the outcomes, requirement by requirement; those that are not met with the reason."""
    console = Console(file=sys.stdout, highlight=False)
    cells = {id(outcome): _cells(outcome) for outcome in outcomes}
    widths = [min(max(map(cell_len, column)), WIDEST) for column in zip(*cells.values())]

    def line(text: str) -> None:
        # Lines are never cut: a missing name or number would mislead.
        console.print(text, soft_wrap=True)

    for _, group in groupby(outcomes, key=lambda outcome: outcome.requirement.id):
        together = list(group)
        requirement = together[0].requirement
        line(
            f"[bold]{_markup_safe(requirement.id)}[/]  "
            f"{_markup_safe(requirement.text or str(requirement))}"
        )
        if requirement.text:
            line(f"  {_markup_safe(str(requirement))}")
        for outcome in together:
            verdict = f"[{STYLES[outcome.verdict]}]{outcome.verdict:<{LONGEST}}[/]"
            padded = [
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(cells[id(outcome)], widths)
            ]
            line(f"  {verdict}  {escape('  '.join(padded)).rstrip()}")
            if outcome.verdict != "met":
                line(f"  {'':{LONGEST}}  {_markup_safe(outcome.why)}")
        console.print()


def _cells(outcome: Outcome) -> tuple[str, str, str]:
    """Return the row that was judged, its estimate, and the numbers behind it."""
    row = outcome.row
    if row is None:
        return one_line(outcome.place), "-", ""
    amounts = (
        count_text(row["unit"], row["n_units"]),
        count_text("image", row["n_images"]),
        count_text("reference", row["n_references"]),
    )
    # Where images are resampled, they are the units.
    numbers = f"n = {', '.join(dict.fromkeys(amounts))}"
    if _has_interval(row):
        numbers += f"; {row['method']}"
    return one_line(outcome.place), _estimate_text(row), one_line(numbers)


def _has_interval(row: Mapping[str, Any]) -> bool:
    """Return whether a row has an interval of its metric; one on error-free units is none."""
    from calipers.results.requirements import SHARE_OF_UNITS

    bounds_known = row["low"] is not None and row["high"] is not None
    return bounds_known and row["method"] != SHARE_OF_UNITS


def _estimate_text(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "undefined"
    value = number_text(row["value"])
    return f"{value} {interval_text(row['low'], row['high'])}" if _has_interval(row) else value


def _markup_safe(text: str) -> str:
    return escape(one_line(text))
