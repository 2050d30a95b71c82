# SPDX-License-Identifier: Apache-2.0
"""Agreement between raters, and of criteria with raters."""
