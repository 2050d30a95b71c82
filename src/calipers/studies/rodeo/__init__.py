# SPDX-License-Identifier: Apache-2.0
"""The experiments of Robust Detection Outcome (Meissen et al., MIDL 2023)."""
