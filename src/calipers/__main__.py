# SPDX-License-Identifier: Apache-2.0
"""The program `calipers`, and ``python -m calipers``: the command line, from its first line on."""

from calipers.engine.signals import leave_on_signals


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Before anything that takes time to load.
    leave_on_signals()
    from calipers.cli.main import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
