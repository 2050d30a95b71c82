# SPDX-License-Identifier: Apache-2.0
"""Figures as accessible SVG that a strict page may hold: no scripts, nothing from elsewhere."""
