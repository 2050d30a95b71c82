# SPDX-License-Identifier: Apache-2.0
"""Folders that Calipers wrote: cohort, maps and evidence as parquet, checked by hash."""
