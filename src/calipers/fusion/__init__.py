# SPDX-License-Identifier: Apache-2.0
"""Several boxes for one thing: suppression."""

from calipers.fusion.suppress import suppressed

__all__ = ["suppressed"]
