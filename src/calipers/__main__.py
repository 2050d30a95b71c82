# SPDX-License-Identifier: Apache-2.0
"""The program `calipers`, and ``python -m calipers``: the command line, from its first line on."""

import gc

from calipers.engine.signals import leave_on_signals

# New objects between two searches for cycles. Modules make 200,000 objects that stay, and Python's
# 700 would search them again and again: a tenth of the time of `evaluate -o`.
NEW_OBJECTS = 200_000


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Before anything that takes time to load.
    leave_on_signals()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    from calipers.cli.main import main as run_command_line

    try:
        run_command_line()
    finally:
        # The end of a process searches all modules for cycles several times, a tenth of the time of
        # `evaluate -o`, to free memory that goes with the process anyway.
        gc.freeze()


if __name__ == "__main__":
    main()
