# SPDX-License-Identifier: Apache-2.0
"""The images behind a cohort: files, pixels, marks, and which ones a page shows."""
