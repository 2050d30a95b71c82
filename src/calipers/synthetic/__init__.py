# SPDX-License-Identifier: Apache-2.0
"""Made data: the demo cohort, volumes with maps, bags of several models."""
