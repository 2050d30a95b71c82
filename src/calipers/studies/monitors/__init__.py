# SPDX-License-Identifier: Apache-2.0
"""OOD and OMS evaluation of runtime monitors for object detection (2025): definitions, and what
they decide.
"""

from calipers.studies.monitors.study import STUDY

__all__ = ["STUDY"]
