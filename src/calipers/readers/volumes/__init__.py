# SPDX-License-Identifier: Apache-2.0
"""Arrays, images and volumes: header first, voxels on demand; folders of them paired by name."""
