# SPDX-License-Identifier: Apache-2.0
"""Figures as data (`figures`), drawn as accessible SVG (`svg`) or with matplotlib (`mpl`).

The other modules turn results into figures: evaluations (`catalogue`), monitors, stability, sweeps
and multiverses.
"""
