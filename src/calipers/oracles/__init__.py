# SPDX-License-Identifier: Apache-2.0
"""Simulated predictors that corrupt the references in a known way."""
