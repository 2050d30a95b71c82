# SPDX-License-Identifier: Apache-2.0
"""``python -m calipers`` is the command line."""

from calipers.cli.main import main

if __name__ == "__main__":
    main()
