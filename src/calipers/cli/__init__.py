# SPDX-License-Identifier: Apache-2.0
"""The command line: `calipers VERB`. stdout is the result, stderr the narration; exit codes are a
contract.
"""

from calipers.cli.main import main

__all__ = ["main"]
