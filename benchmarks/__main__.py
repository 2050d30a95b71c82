# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks [--only NAME]`: prints the table and writes it to benchmarks/results."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path

# One thread each, unless a row says otherwise; libraries read this when they are loaded.
for name in ("CALIPERS_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def main() -> None:
    """Run the rows, print as they finish, write text and JSON."""
    import benchmarks.error_rows
    import benchmarks.fusion_rows
    import benchmarks.mask_rows
    import benchmarks.monitor_rows
    import benchmarks.stability_rows
    import benchmarks.voxel_rows  # noqa: F401  all register their rows
    from benchmarks.contest import as_json, as_table
    from benchmarks.rows import ROWS

    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(ROWS), help="run only this row")
    chosen = parser.parse_args().only or list(ROWS)
    results = []
    for name in chosen:
        results += list(ROWS[name]())
        print(as_table(results).splitlines()[-1], flush=True)
    table = as_table(results)
    print("\n" + table)
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    (folder / f"{stamp}.txt").write_text(table + "\n")
    (folder / f"{stamp}.json").write_text(as_json(results) + "\n")


if __name__ == "__main__":
    main()
