# SPDX-License-Identifier: Apache-2.0
"""Do intervals cover the true value as often as they claim? Simulated data show it."""
