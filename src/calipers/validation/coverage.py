# SPDX-License-Identifier: Apache-2.0
"""Measure the coverage of all intervals, and write the table of the documentation.

``python -m calipers.validation.coverage --csv cells.csv`` runs all experiments, which takes about
ten minutes on one core (``--jobs 2`` uses two), and writes a row per cell; ``--page`` puts the
tables between the two marks of ``docs/validation/coverage.md``. ``make coverage`` does both.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path

from calipers.show.words import percent_number
from calipers.validation.cells import (
    HIGHEST,
    LOWEST,
    WIDEST,
    CoverageCell,
    Effort,
    by_family,
)
from calipers.validation.experiments import COVERED_TOO_SELDOM, control, experiments

START, END = "<!-- measured: start -->", "<!-- measured: end -->"


def write_csv(cells: Sequence[CoverageCell], path: Path) -> None:
    """Write the cells, one row each."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(CoverageCell)])
        writer.writeheader()
        for cell in cells:
            writer.writerow(asdict(cell))


def read_csv(path: Path) -> list[CoverageCell]:
    """Return the cells of a file."""
    cells = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            values: dict[str, object] = {}
            for column in fields(CoverageCell):
                text = row.get(column.name, "nan")  # cells of earlier versions have fewer columns
                kinds = {"int": int, "float": float}
                values[column.name] = kinds.get(str(column.type), str)(text)
            cells.append(CoverageCell(**values))  # type: ignore[arg-type]
    return cells


def write_page(
    cells: Sequence[CoverageCell],
    control: Sequence[CoverageCell],
    page: Path,
    effort: Effort,
    before: Path | None,
) -> None:
    """Replace what stands between the two marks of a page by the measured tables."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    earlier = read_csv(before) if before else []
    body = "\n".join((*_tables(cells, earlier, effort), *_control_table(control)))
    page.write_text(f"{head}{START}\n\n{body}\n\n{END}{tail}", encoding="utf-8")


def _tables(
    cells: Sequence[CoverageCell], earlier: Sequence[CoverageCell], effort: Effort
) -> Iterator[str]:
    today = datetime.now(UTC).date().isoformat()
    inside = sum(cell.inside for cell in cells)
    holding = sum(cell.holds for cell in cells)
    possible = sum(cell.possible for cell in cells)
    yield (
        f'Measured on {today} by `make coverage ARGS="--seed {effort.seed}"`: '
        f"{effort.simulations} data sets a cell with {effort.replicates} "
        f"replicates each, {effort.extra} more for the true sampling interval. "
        f"Coverage lies within {_share(LOWEST)}-{_share(HIGHEST)} in {holding} of {len(cells)} "
        f"cells ({_percent(holding / len(cells))}); in {inside} "
        f"({_percent(inside / len(cells))}) the mean width is also at most {WIDEST:g} true widths. "
        f"{possible} cells could be inside at all: {inside} of them are "
        f"({_percent(inside / possible)})."
    )
    yield ""
    yield from _family_table(cells, earlier)
    yield ""
    yield from _outside_table(cells)
    yield ""
    yield "### Every cell"
    yield ""
    yield "| family | number | design | K | truth | stated | coverage | MC error | width | least |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for cell in cells:
        mark = "" if cell.inside else " ⚠"
        least = "" if math.isnan(cell.least) else f"{cell.least:.2f}"
        yield (
            f"| {cell.family} | {cell.metric} | {cell.design} | {cell.n_units} | "
            f"{cell.truth:.3f} | {cell.stated:.2f} | {_share(cell.coverage)}{mark} | "
            f"{_share(cell.mc_error)} | {_width(cell)} | {least} |"
        )


def _outside_table(cells: Sequence[CoverageCell]) -> Iterator[str]:
    """Yield the cells outside with their reasons; those of one design and reason share a row."""
    yield "### Cells outside"
    yield ""
    yield "| family | numbers | design | coverage | width | why |"
    yield "|---|---|---|---|---|---|"
    rows: dict[tuple[str, str], list[CoverageCell]] = {}
    for cell in cells:
        if not cell.inside:
            rows.setdefault((cell.design, _why(cell)), []).append(cell)
    for (design, why), members in rows.items():
        families = ", ".join(dict.fromkeys(cell.family for cell in members))
        numbers = "; ".join(cell.metric for cell in members)
        coverages = "; ".join(_share(cell.coverage) for cell in members)
        widths = "; ".join(_width(cell) for cell in members)
        yield f"| {families} | {numbers} | {design} | {coverages} | {widths} | {why} |"


def _why(cell: CoverageCell) -> str:
    reason = COVERED_TOO_SELDOM.get((cell.design, cell.metric), "")
    return reason if reason and cell.coverage < LOWEST else cell.why_outside


def _width(cell: CoverageCell) -> str:
    return "" if math.isnan(cell.width) else f"{cell.width:.2f}"


def _control_table(control: Sequence[CoverageCell]) -> Iterator[str]:
    """Yield what intervals over images did, which must fail."""
    yield ""
    yield "### Control: images resampled although those of a patient are alike"
    yield ""
    yield "| number | design | truth | coverage | MC error | width |"
    yield "|---|---|---|---|---|---|"
    for cell in control:
        mark = "" if cell.inside else " ⚠"
        yield (
            f"| {cell.metric} | {cell.design} | {cell.truth:.3f} | {_share(cell.coverage)}{mark} | "
            f"{_share(cell.mc_error)} | {cell.width:.2f} |"
        )


def _family_table(cells: Sequence[CoverageCell], earlier: Sequence[CoverageCell]) -> Iterator[str]:
    then = by_family(earlier)
    columns = "| family | cells | coverage | coverage inside | and width |"
    extra = " before: coverage | inside | and width |" if earlier else ""
    yield columns + extra
    yield "|---" * (columns.count("|") - 1 + extra.count("|")) + "|"
    for family, (number, inside, low, high) in by_family(cells).items():
        members = [cell for cell in cells if cell.family == family]
        holding = sum(cell.holds for cell in members)
        line = f"| {family} | {number} | {_share(low)}-{_share(high)} | {holding} | {inside} |"
        if family in then:
            _, was_inside, was_low, was_high = then[family]
            n_holding = sum(cell.holds for cell in earlier if cell.family == family)
            line += f" {_share(was_low)}-{_share(was_high)} | {n_holding} | {was_inside} |"
        yield line


def _percent(share: float) -> str:
    return f"{percent_number(share, fine=True)} %"


def _share(value: float) -> str:
    """Return a share without its leading zero: .952."""
    if math.isnan(value):
        return "-"
    if value >= 1:
        return "1.00"
    digits = f"{value:.3f}".removeprefix("0.").rstrip("0")
    return f".{digits}" if digits else "0"


def measured(only: str, effort: Effort, jobs: int = 1) -> Iterator[list[CoverageCell]]:
    """Yield the cells of every experiment whose name contains ``only``, in their order."""
    numbers = [at for at, experiment in enumerate(experiments()) if only in experiment.name]
    if jobs == 1:
        for at in numbers:
            yield _cells(at, effort)
        return
    # Seeds are those of an experiment, so it does not matter which process runs it.
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_cells, numbers, [effort] * len(numbers))


def _cells(at: int, effort: Effort) -> list[CoverageCell]:
    """Return the cells of one experiment, by its number: an experiment cannot be sent."""
    return list(list(experiments())[at].cells(effort))


def main(arguments: list[str] | None = None) -> int:
    """Measure, show and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m calipers.validation.coverage", description="Measure coverage."
    )
    parser.add_argument("--simulations", type=int, default=300, help="data sets of a cell")
    parser.add_argument("--replicates", type=int, default=400, help="of the bootstrap")
    parser.add_argument("--extra", type=int, default=700, help="data sets without an interval")
    parser.add_argument("--seed", type=int, default=Effort().seed)
    parser.add_argument("--only", default="", help="experiments whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="processes; the cells are the same")
    parser.add_argument("--csv", type=Path, help="write the cells here")
    parser.add_argument("--before", type=Path, help="cells of an earlier version, for the page")
    parser.add_argument("--page", type=Path, help="write the page of the documentation here")
    options = parser.parse_args(arguments)
    effort = Effort(options.simulations, options.replicates, options.extra, options.seed)
    cells: list[CoverageCell] = []
    for of_experiment in measured(options.only, effort, options.jobs):
        for cell in of_experiment:
            cells.append(cell)
            sys.stdout.write(f"{cell}\n")
        sys.stdout.flush()
    for family, (number, inside, low, high) in by_family(cells).items():
        sys.stdout.write(f"{family:<20} {inside:>3} of {number:>3} inside, {low:.3f}-{high:.3f}\n")
    of_control = [] if options.only else control(effort)
    for cell in of_control:
        sys.stdout.write(f"{cell}\n")
    if options.csv:
        write_csv([*cells, *of_control], options.csv)
    if options.page:
        write_page(cells, of_control, options.page, effort, options.before)
    if any(cell.holds for cell in of_control):
        sys.stdout.write("the control passes: this measurement cannot tell a wrong interval\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
