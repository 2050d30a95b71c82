# SPDX-License-Identifier: Apache-2.0
"""The experiments of Robust Detection Outcome (Meissen et al., MIDL 2023): figures 1 to 11, table
1, every claim.
"""

from calipers.studies.rodeo.study import STUDY

__all__ = ["STUDY"]
