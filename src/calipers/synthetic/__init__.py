# SPDX-License-Identifier: Apache-2.0
"""Made-up data: the demo cohort with its drawn images, and random cohorts for tests."""

from calipers.synthetic.demo import demo_cohort, draw_images
from calipers.synthetic.random import random_cohort

__all__ = ["demo_cohort", "draw_images", "random_cohort"]
