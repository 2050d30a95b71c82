# SPDX-License-Identifier: Apache-2.0
"""Do intervals hold the truth as often as they say? Simulated data, whose truth is known, tell."""
