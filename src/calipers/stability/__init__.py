# SPDX-License-Identifier: Apache-2.0
"""Stability: how far models that were trained alike say the same."""
