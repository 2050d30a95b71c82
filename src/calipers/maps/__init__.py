# SPDX-License-Identifier: Apache-2.0
"""The evaluation of maps against labels, one sample at a time."""
