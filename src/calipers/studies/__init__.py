# SPDX-License-Identifier: Apache-2.0
"""Published experiments that run from end to end and judge every claim."""
