# SPDX-License-Identifier: Apache-2.0
"""Lists of public data sets and challenges: tables and JSON lists in a layout of their own."""
