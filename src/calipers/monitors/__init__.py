# SPDX-License-Identifier: Apache-2.0
"""Runtime monitors: is an image in the scope of the model, and does the monitor know?"""

from calipers.monitors.evaluation import evaluate_monitor
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.scope import scope_scores
from calipers.monitors.scope_result import Scope

__all__ = ["MonitorEvaluation", "Scope", "evaluate_monitor", "scope_scores"]
