# SPDX-License-Identifier: Apache-2.0
"""Stability of localization between models that were trained alike."""
