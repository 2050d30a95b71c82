# SPDX-License-Identifier: Apache-2.0
"""Measure the coverage of all intervals: ``python -m calipers.validation --csv coverage.csv``.

Takes about ten minutes on one core; ``make coverage`` runs it and writes the table of
``docs/validation/coverage.md``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from calipers.validation.cells import Cell, Effort, by_family
from calipers.validation.experiments import experiments
from calipers.validation.page import write_csv, write_page


def main(arguments: list[str] | None = None) -> int:
    """Measure, show and write the table."""
    parser = argparse.ArgumentParser(prog="python -m calipers.validation", description=__doc__)
    parser.add_argument("--simulations", type=int, default=300, help="data sets of a cell")
    parser.add_argument("--replicates", type=int, default=400, help="of the bootstrap")
    parser.add_argument("--extra", type=int, default=700, help="data sets without an interval")
    parser.add_argument("--seed", type=int, default=20_000)
    parser.add_argument("--only", default="", help="experiments whose name contains this")
    parser.add_argument("--csv", type=Path, help="write the cells here")
    parser.add_argument("--before", type=Path, help="cells of an earlier version, for the page")
    parser.add_argument("--page", type=Path, help="write the page of the documentation here")
    options = parser.parse_args(arguments)
    effort = Effort(options.simulations, options.replicates, options.extra, options.seed)
    cells: list[Cell] = []
    for experiment in experiments():
        if options.only not in experiment.name:
            continue
        for cell in experiment.cells(effort):
            cells.append(cell)
            sys.stdout.write(f"{cell}\n")
        sys.stdout.flush()
    for family, (number, inside, low, high) in by_family(cells).items():
        sys.stdout.write(f"{family:<20} {inside:>3} of {number:>3} inside, {low:.3f}-{high:.3f}\n")
    if options.csv:
        write_csv(cells, options.csv)
    if options.page:
        write_page(cells, options.page, effort, options.before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
