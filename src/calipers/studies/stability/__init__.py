# SPDX-License-Identifier: Apache-2.0
"""The experiments of Romanova, van Schoren and Cheplygina on the stability of localization: every
table and claim.
"""

from calipers.studies.stability.study import STUDY

__all__ = ["STUDY"]
