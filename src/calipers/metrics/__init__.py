# SPDX-License-Identifier: Apache-2.0
"""Metrics: functions of evidence and of one weight per image. One file, one registry line each."""
