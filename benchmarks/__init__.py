# SPDX-License-Identifier: Apache-2.0
"""Speed and memory against other tools, measured in one run: `make bench`."""
