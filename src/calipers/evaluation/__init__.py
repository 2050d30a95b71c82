# SPDX-License-Identifier: Apache-2.0
"""The evaluation of a cohort: protocol, evidence, estimates, groups, comparison, saving."""
