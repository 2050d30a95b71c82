# SPDX-License-Identifier: Apache-2.0
"""Figures: specifications as data (`figures`), drawn as accessible SVG (`svg`) or with matplotlib
(`mpl`).
"""
