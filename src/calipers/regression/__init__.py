# SPDX-License-Identifier: Apache-2.0
"""Mixed and logistic models of localization."""
