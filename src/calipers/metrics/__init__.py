# SPDX-License-Identifier: Apache-2.0
"""Metrics: functions of evidence and of one weight per image. One file, one registry line each."""

from calipers.metrics.contract import Evidence, Facts, Metric, MetricPlan, Recipe

__all__ = ["Evidence", "Facts", "Metric", "MetricPlan", "Recipe"]
