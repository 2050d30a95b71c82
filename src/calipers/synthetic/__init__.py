# SPDX-License-Identifier: Apache-2.0
"""Made-up data: the demo cohort with its drawn images, volumes with maps, families of models, and random cohorts."""

from calipers.synthetic.bags import demo_bags, write_bags
from calipers.synthetic.demo import demo_cohort, draw_images
from calipers.synthetic.random import random_cohort
from calipers.synthetic.samples import demo_samples, write_samples

__all__ = [
    "demo_bags",
    "demo_cohort",
    "demo_samples",
    "draw_images",
    "random_cohort",
    "write_bags",
    "write_samples",
]
