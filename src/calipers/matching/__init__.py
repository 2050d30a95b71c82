# SPDX-License-Identifier: Apache-2.0
"""Who belongs to whom: criteria, assignment, and the matches they leave."""
