# SPDX-License-Identifier: Apache-2.0
"""Arrays, pictures and volumes: header first, voxels on demand; folders paired by name."""
