# SPDX-License-Identifier: Apache-2.0
"""Arrays in, arrays out. Kernels know no names, no files and no defaults, and never raise (but
for a seed that the generator does not take).
"""
