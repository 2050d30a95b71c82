# SPDX-License-Identifier: Apache-2.0
"""Stability of localization (Romanova, van Schoren and Cheplygina)."""
