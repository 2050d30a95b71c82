# SPDX-License-Identifier: Apache-2.0
"""Where long work runs, how it goes on after an interruption, and how parts become one result.

Verbs that work through many samples add `part_option`, take their workers from `chosen_workers`
and keep finished samples with `run_blocks`:

- with ``-o DIR``, finished samples are kept in ``DIR.blocks`` until the result is written. The same
  command goes on from there after Ctrl-C, a kill or a power cut;
- with ``--part 2/8 -o DIR``, the samples of that part are kept in DIR, and nothing else is done;
- `calipers merge DIR...` runs the command of the parts with what they kept.

Verbs that can say beforehand what they take add `plan_option`, and give `print_cost` a `RunCost`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from calipers.cli.options import F, force_option, output_folder_option, output_options, verb
from calipers.errors import InputError, UsageError
from calipers.show.terminal import Narrator, duration_text, one_line
from calipers.show.words import count_text

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from calipers.data.cohort import Cohort
    from calipers.engine.cost import RunCost
    from calipers.engine.ordered_map import Part
    from calipers.engine.store import RunPlan, Store

Result = TypeVar("Result")
BLOCKS = ".blocks"  # added to the name of a result folder
# Options that say where and how a part ran, not what it computes; those of the merged run.
OF_PARTS = {
    "part": None,
    "plan": False,
    "jobs": 1,
    "engine": "local",
    "scheduler": None,
    "max_memory": None,
}
# Parts may run in folders of their own: the plan knows what these inputs hold.
PLACES = ("references", "predictions", "models", "protocol", "images")


class Workers(NamedTuple):
    """Where samples are worked on, and how many at a time."""

    jobs: int
    executor: Executor | None


def part_option(function: F) -> F:
    """Declare --part."""
    text = "Run only part I of N, and keep it in DIR for calipers merge."
    return click.option("--part", metavar="I/N", help=text)(function)


def plan_option(function: F) -> F:
    """Declare --plan."""
    text = "Estimate the time and memory of the run, and stop."
    return click.option("--plan", is_flag=True, help=text)(function)


def max_memory_option(function: F) -> F:
    """Declare --max-memory."""
    text = "Memory limit, such as 8GB: fewer jobs if necessary, with the same results."
    return click.option("--max-memory", metavar="SIZE", help=text)(function)


def bytes_of(text: str) -> int:
    """Return the number of bytes in ``8GB`` or ``500 MB``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)i?B?\s*", text)
    if match is None:
        raise UsageError(f"--max-memory is a size such as 8GB, not {text!r}")
    return int(float(match.group(1)) * 1000 ** " kMGT".index(match.group(2) or " "))


def print_cost(cost: RunCost, options: Mapping[str, Any]) -> None:
    """Print what a run would take."""
    jobs = options["jobs"]
    if options["as_json"]:
        click.echo(json.dumps(cost.as_dict(jobs)))
        return
    items, models = count_text(cost.unit, cost.n_items), count_text("model", cost.n_models)
    files = f"{_size(cost.file_bytes)} of files"
    blocks = count_text("block", cost.n_blocks)
    if cost.steps:
        click.echo(f"work    {items}:")
        for name, number in cost.steps.items():
            click.echo(f"        {number:6d}  {one_line(name)}")
    else:
        click.echo(f"work    {items} of {models}, {files}, in {blocks}")
    memory = f"{cost.memory(jobs) / 1e9:.1f} GB with --jobs {jobs}"
    click.echo(f"memory  about {memory}; {one_line(cost.largest)}")
    seconds = cost.seconds(jobs)
    text = f"about {duration_text(seconds)}" if seconds >= 1 else "less than a second"
    click.echo(f"time    {text} with --jobs {jobs}, {cost.basis}")


def _size(n_bytes: int) -> str:
    """Return ``1.23 GB``, or ``4.5 MB`` of small files."""
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 10**8 else f"{n_bytes / 1e6:.1f} MB"


def chosen_part(options: Mapping[str, Any]) -> Part | None:
    """Return the part that --part names."""
    if options["part"] is None:
        return None
    from calipers.engine.ordered_map import Part

    if options["output"] is None:
        raise UsageError(
            "--part keeps its results in a folder: give -o DIR, a different one for each part"
        )
    return Part.parse(options["part"])


@contextmanager
def chosen_workers(
    options: Mapping[str, Any], *, processes: bool, alone: bool = False
) -> Iterator[Workers]:
    """Give the workers of --jobs, --engine and --scheduler.

    Parameters
    ----------
    processes
        Use processes instead of threads on this machine: right where files are decoded.
    alone
        Also for a single job, which this process does otherwise.
    """
    jobs = options["jobs"]
    if options["engine"] == "dask":
        from calipers.engine.cluster import dask_cluster

        with dask_cluster(options["scheduler"], workers=jobs) as cluster:
            yield Workers(cluster.n_workers, cluster.executor)
        return
    if options["scheduler"] is not None:
        raise UsageError("--scheduler is for --engine dask")
    if not processes or (jobs == 1 and not alone):
        yield Workers(jobs, None)
        return
    from calipers.engine.processes import Processes

    with Processes(jobs) as executor:
        yield Workers(jobs, executor)


def without_deadly_images(
    work: Callable[[Cohort], Result],
    cohort: Cohort,
    options: Mapping[str, Any],
) -> Result:
    """Return the result of work on a cohort; with --lenient images that end their worker are left
    out, and the user is told, also with --quiet and --json: the result does not say it.
    """
    from calipers.engine.leniency import Leniency
    from calipers.matching.deadly_images import on_survivors

    leniency = Leniency(not options["strict"], options["allow_loss"])
    result, rest = on_survivors(work, cohort, leniency)
    before = set(cohort.intake.notes)
    Narrator(quiet=False).warn([note for note in rest.intake.notes if note not in before])
    return result


@contextmanager
def _kept_blocks(plan: RunPlan, options: Mapping[str, Any], part: Part | None) -> Iterator[Store]:
    """Open the folder for finished samples; an interruption says that the command goes on."""
    from calipers.engine.store import blaming_blocks, opened

    output = Path(options["output"])
    folder = output.with_name(output.name + BLOCKS) if part is None else output
    with opened(folder, plan, part) as store:
        try:
            with blaming_blocks(store):
                yield store
        except KeyboardInterrupt as stop:
            first, end = store.span
            stop.add_note(
                f"{store.n_done} of {end - first} are done and kept in {folder}: the same command "
                "continues from there"
            )
            raise


@contextmanager
def run_blocks(
    plan: RunPlan, options: Mapping[str, Any], part: Part | None, store: Store | None
) -> Iterator[Store]:
    """Give the blocks of a run: those of the merged parts in ``store``, or a folder for its own.

    Those of its own go when the work with them has ended, and its result is written; those of a
    part are its result.
    """
    if store is not None:
        _check_plan(store, plan)
        yield store
        return
    with _kept_blocks(plan, options, part) as own:
        yield own
        if part is None:
            own.remove()


def _check_plan(store: Store, plan: RunPlan) -> None:
    """Raise unless the parts in a store belong to the inputs as they are now."""
    from calipers.engine.store import difference_of

    difference = difference_of(store.plan, plan)
    if difference:
        raise InputError(
            "the inputs and options of the parts",
            rule="foreign-part",
            file=str(store.folders[0]),
            location=difference,
            hint="merge where the parts ran, with the same Calipers and unchanged inputs",
        )


@verb()
@click.argument("parts", metavar="DIR...", nargs=-1, required=True)
@output_folder_option("Folder for JSON, tables and the page; must be new or empty.")
@force_option("Allow a DIR that is not empty; results in it are replaced.")
@output_options
@click.pass_context
def merge(ctx: click.Context, /, parts: tuple[str, ...], **options: Any) -> None:
    """Merge the parts of a run into one result, identical to that of a single run, bit for bit.

    DIR are the folders that --part I/N -o DIR wrote, all N of them, in any order. Run it where the
    parts ran: the inputs are listed again, but not evaluated again.

    \b
    calipers maps labels ours=maps --part 1/2 -o parts/1
    calipers maps labels ours=maps --part 2/2 -o parts/2
    calipers merge parts/1 parts/2 -o results
    """
    from calipers.engine.store import blaming_blocks, merged
    from calipers.results.files import check_folder

    if options["output"] is not None:
        check_folder(options["output"], force=options["force"], inputs=parts)
    folders = [Path(part) for part in parts]
    store, commands = merged(folders)
    verb, run = _runner(store.plan.work)
    with ExitStack() as stack:
        contexts = []
        for folder, command in zip(folders, commands):
            contexts.append(_context(ctx, verb, command, folder))
            stack.enter_context(contexts[-1])
        _check_same_options(folders, contexts, options)
        # The parts ran in folders and on workers of their own; `options` are those of this command.
        stack.enter_context(blaming_blocks(store))
        run(**{**contexts[0].params, **OF_PARTS, **options}, store=store)


def _context(
    ctx: click.Context, verb: click.Command, command: list[str], folder: Path
) -> click.Context:
    """Return the command of a part, read again."""
    is_of_verb = command[1:2] == [verb.name]
    # A command that asks for its help prints that.
    if is_of_verb and not {"--help", "-h"} & set(command):
        with suppress(click.ClickException, click.exceptions.Exit):
            return verb.make_context(verb.name, command[2:], parent=ctx)
    raise InputError(
        "the command of the parts",
        rule="no-blocks",
        file=str(folder),
        value=shlex.join(command),
        hint="run the parts again",
    )


def _check_same_options(
    folders: Sequence[Path], contexts: Sequence[click.Context], options: Mapping[str, Any]
) -> None:
    """Raise unless all parts had the same options; else the first part would decide by its own,
    also those that blocks do not depend on, such as the seed.
    """
    from calipers.engine.store import check_same_run, first_difference

    aside = {*OF_PARTS, *PLACES, *options}
    tables = []
    for context in contexts:
        tables.append({key: value for key, value in context.params.items() if key not in aside})
    for folder, table in zip(folders, tables):
        check_same_run(folders[0], folder, first_difference(tables[0], table))


def _runner(work: str) -> tuple[click.Command, Any]:
    """Return the verb of a kind of work, and the function behind it."""
    if work == "maps":
        from calipers.cli.maps import maps, run_maps

        return maps, run_maps
    if work == "evaluate":
        from calipers.cli.evaluate import evaluate, run_evaluate

        return evaluate, run_evaluate
    if work == "stability":
        from calipers.cli.stability import run_stability, stability

        return stability, run_stability
    raise InputError("a kind of work that can be merged", rule="no-blocks", value=work)
