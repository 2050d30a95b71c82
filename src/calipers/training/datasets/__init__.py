# SPDX-License-Identifier: Apache-2.0
"""The images that networks learn from: opened, split, decoded and augmented."""
