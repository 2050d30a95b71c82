# SPDX-License-Identifier: Apache-2.0
"""Monitors that reject images at run time, and how good they are."""
