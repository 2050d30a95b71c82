# SPDX-License-Identifier: Apache-2.0
"""Made-up data: the demo cohort, volumes with maps, families of models, shifted images, and random
cohorts.
"""

from calipers.synthetic.bags import demo_bags, write_bags
from calipers.synthetic.demo import demo_cohort, draw_images
from calipers.synthetic.endoscopy import endoscopy_cohort
from calipers.synthetic.random import random_cohort
from calipers.synthetic.runways import runway_cohort, write_runways
from calipers.synthetic.samples import demo_samples, write_samples
from calipers.synthetic.shifts import ShiftedCohort

__all__ = [
    "ShiftedCohort",
    "demo_bags",
    "demo_cohort",
    "demo_samples",
    "draw_images",
    "endoscopy_cohort",
    "random_cohort",
    "runway_cohort",
    "write_bags",
    "write_runways",
    "write_samples",
]
