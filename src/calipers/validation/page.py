# SPDX-License-Identifier: Apache-2.0
"""The coverage table as a file of cells and as a page of the documentation."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path

from calipers.validation.cells import HIGHEST, LOWEST, WIDEST, Cell, Effort, by_family

START, END = "<!-- measured: start -->", "<!-- measured: end -->"


def write_csv(cells: Sequence[Cell], path: Path) -> None:
    """Write the cells, one row each."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(Cell)])
        writer.writeheader()
        for cell in cells:
            writer.writerow(asdict(cell))


def read_csv(path: Path) -> list[Cell]:
    """Return the cells of a file."""
    cells = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            values: dict[str, object] = {}
            for column in fields(Cell):
                text = row[column.name]
                kinds = {"int": int, "float": float}
                values[column.name] = kinds.get(str(column.type), str)(text)
            cells.append(Cell(**values))  # type: ignore[arg-type]
    return cells


def write_page(cells: Sequence[Cell], page: Path, effort: Effort, before: Path | None) -> None:
    """Replace what stands between the two marks of a page by the measured tables."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    earlier = read_csv(before) if before else []
    body = "\n".join(_tables(cells, earlier, effort))
    page.write_text(f"{head}{START}\n\n{body}\n\n{END}{tail}", encoding="utf-8")


def _tables(cells: Sequence[Cell], earlier: Sequence[Cell], effort: Effort) -> Iterator[str]:
    today = datetime.now(UTC).date().isoformat()
    inside = sum(cell.inside for cell in cells)
    holding = sum(cell.holds for cell in cells)
    yield (
        f"Measured on {today}: {effort.simulations} data sets a cell with {effort.replicates} "
        f"replicates each, {effort.extra} more for the true sampling interval, seed {effort.seed}. "
        f"Coverage lies within {_share(LOWEST)}-{_share(HIGHEST)} in {holding} of {len(cells)} "
        f"cells; in {inside} the mean width is also at most {WIDEST:g} true widths."
    )
    yield ""
    yield from _family_table(cells, earlier)
    yield ""
    yield "### Every cell"
    yield ""
    yield "| family | number | design | K | truth | stated | coverage | MC error | width |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for cell in cells:
        mark = "" if cell.inside else " ⚠"
        yield (
            f"| {cell.family} | {cell.metric} | {cell.design} | {cell.n_units} | "
            f"{cell.truth:.3f} | {cell.stated:.2f} | {_share(cell.coverage)}{mark} | "
            f"{_share(cell.mc_error)} | {cell.width:.2f} |"
        )


def _family_table(cells: Sequence[Cell], earlier: Sequence[Cell]) -> Iterator[str]:
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
            held = sum(cell.holds for cell in earlier if cell.family == family)
            line += f" {_share(was_low)}-{_share(was_high)} | {held} | {was_inside} |"
        yield line


def _share(value: float) -> str:
    """Return a share without its leading zero: .952."""
    if math.isnan(value):
        return "-"
    return f"{value:.3f}".removeprefix("0").rstrip("0") if value < 1 else "1.00"
