# SPDX-License-Identifier: Apache-2.0
"""Files in, a checked cohort out; and back. Formats are plug-ins: see `calipers.registry`."""
