# SPDX-License-Identifier: Apache-2.0
"""Where per-image work runs: fixed blocks of images, on any executor, joined in block order."""

from calipers.engine.blocks import collect, spans

__all__ = ["collect", "spans"]
