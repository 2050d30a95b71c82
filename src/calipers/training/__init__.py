# SPDX-License-Identifier: Apache-2.0
"""Networks that are trained: from a folder of pictures to maps that the other verbs read."""
