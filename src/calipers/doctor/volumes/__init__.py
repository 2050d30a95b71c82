# SPDX-License-Identifier: Apache-2.0
"""What is wrong with files of references and predictions, and the command that works."""
