"""Which presets a cohort of boxes can be evaluated with, which need masks, and which need maps."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from calipers import registry
from calipers.evaluation.protocol import presets
from cases import NEED_MASKS

NEED_MAPS = [
    kind for kind, place in registry.METRICS.items() if place.startswith("calipers.metrics.maps:")
]


def names_one(preset: str, names: Sequence[str]) -> bool:
    """Return whether a preset names one of these criteria or kinds of metrics."""
    text = (
        resources.files("calipers")
        .joinpath("presets", f"{preset}.toml")
        .read_text(encoding="utf-8")
    )
    return any(f'"{name}"' in text for name in names)


MAP_PRESETS = [preset for preset in presets() if names_one(preset, NEED_MAPS)]
MASK_PRESETS = [
    preset for preset in presets() if preset not in MAP_PRESETS and names_one(preset, NEED_MASKS)
]
BOX_PRESETS = [preset for preset in presets() if preset not in (*MAP_PRESETS, *MASK_PRESETS)]
