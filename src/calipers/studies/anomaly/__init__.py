# SPDX-License-Identifier: Apache-2.0
"""The experiments of Revisiting Anomaly Localization Metrics (Zimmerer and Maier-Hein, 2024), and
every claim.
"""

from calipers.studies.anomaly.study import STUDY

__all__ = ["STUDY"]
