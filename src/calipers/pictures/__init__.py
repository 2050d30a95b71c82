# SPDX-License-Identifier: Apache-2.0
"""Pictures of the report: which files belong to the images, which images are shown, and the marks
on them.
"""
