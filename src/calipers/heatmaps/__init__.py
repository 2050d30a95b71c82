# SPDX-License-Identifier: Apache-2.0
"""From maps of scores to objects: boxes or instances above thresholds."""
