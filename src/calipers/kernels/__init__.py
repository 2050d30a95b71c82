# SPDX-License-Identifier: Apache-2.0
"""Arrays in, arrays out. Kernels know no names, no files and no defaults, and never raise."""
