# SPDX-License-Identifier: Apache-2.0
"""Runtime monitors: is an image in the scope of the model, and does the monitor know?"""
