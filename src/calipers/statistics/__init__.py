# SPDX-License-Identifier: Apache-2.0
"""How sure we are: weights that resample units, intervals, comparison, ranking."""
