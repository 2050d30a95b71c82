# SPDX-License-Identifier: Apache-2.0
"""COCO JSON: documents of references and lists of results."""
