# SPDX-License-Identifier: Apache-2.0
"""Tables: CSV, TSV and parquet files of objects, groups, alarms, ratings and bags."""
