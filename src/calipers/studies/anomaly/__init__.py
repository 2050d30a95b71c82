# SPDX-License-Identifier: Apache-2.0
"""The experiments of Revisiting Anomaly Localization Metrics (Zimmerer and Maier-Hein, 2024)."""
