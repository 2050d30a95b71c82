# SPDX-License-Identifier: Apache-2.0
"""The data of an evaluation as frozen structs of arrays: images, references, predictions, cohort.

Readers build them, the engine and the metrics read them, nobody changes them.
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
