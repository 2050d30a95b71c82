# SPDX-License-Identifier: Apache-2.0
"""Pictures of the report: find the files of images, choose which images to show, and draw marks on
them.
"""
