# SPDX-License-Identifier: Apache-2.0
"""The data of an evaluation as frozen structs of arrays: cohort, objects, masks, maps, bags."""
