# SPDX-License-Identifier: Apache-2.0
"""The command line: `calipers VERB`. stdout is the result, stderr the narration."""
