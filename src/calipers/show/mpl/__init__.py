# SPDX-License-Identifier: Apache-2.0
"""Figures drawn with matplotlib (extra `mpl`)."""
