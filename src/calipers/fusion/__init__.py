# SPDX-License-Identifier: Apache-2.0
"""Fusion of detectors: methods on arrays, recipes, ensembles and what each member adds."""
