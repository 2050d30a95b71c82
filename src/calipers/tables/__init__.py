# SPDX-License-Identifier: Apache-2.0
"""The data of an evaluation as frozen structs of arrays: images, references, predictions, the
cohort.
"""

from calipers.tables.boxes import BOX_FORMATS, BoxFormat, to_corners
from calipers.tables.cohort import Cohort, Images
from calipers.tables.intake import FileIntake, Intake
from calipers.tables.objects import Objects, Predictions, References

__all__ = [
    "BOX_FORMATS",
    "BoxFormat",
    "Cohort",
    "FileIntake",
    "Images",
    "Intake",
    "Objects",
    "Predictions",
    "References",
    "to_corners",
]
