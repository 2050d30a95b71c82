# SPDX-License-Identifier: Apache-2.0
"""The study of polyp detection: where its performance varies, and with what."""
