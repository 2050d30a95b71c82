# SPDX-License-Identifier: Apache-2.0
"""OOD and OMS evaluation of runtime monitors for object detection (2025)."""
