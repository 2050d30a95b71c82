"""Which presets a cohort of boxes can be evaluated with, and which need masks."""

from __future__ import annotations

from importlib import resources

from calipers import registry
from calipers.protocol import presets

OF_MASKS = ("mask-iou", "hull-iou", "boundary-iou", "dice", "point-in-mask", "point-in-hull")  # criteria that need them


def criteria_of_masks(preset: str) -> set[str]:
    """Return the criteria of a preset for which references must have masks."""
    text = resources.files("calipers").joinpath("presets", f"{preset}.toml").read_text(encoding="utf-8")
    return {name for name in OF_MASKS if f'"{name}"' in text}


BOX_PRESETS = [preset for preset in presets() if not criteria_of_masks(preset)]
MASK_PRESETS = [preset for preset in presets() if set() < criteria_of_masks(preset) <= set(registry.CRITERIA)]
