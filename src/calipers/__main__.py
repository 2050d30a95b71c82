# SPDX-License-Identifier: Apache-2.0
"""The program `calipers`, and ``python -m calipers``: the command line, from its first line on."""

import gc

from calipers.engine.signals import leave_on_signals

# New objects between two searches for cycles. Modules make 200,000 objects that stay; Python's 700
# would search them again and again, which takes a twentieth of the time of `evaluate -o`.
NEW_OBJECTS = 10_000


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Before anything that takes time to load.
    leave_on_signals()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    from calipers.cli.main import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
