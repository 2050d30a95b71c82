# SPDX-License-Identifier: Apache-2.0
"""How sensitive results are to analysis choices: sweeps and the multiverse."""
