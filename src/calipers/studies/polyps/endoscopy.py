# SPDX-License-Identifier: Apache-2.0
"""Drawn colonoscopy: frames of six centres with polyps of real sizes, and frames to train on.

`centre_frames` are those that detectors are tested on: as many per centre, with as many polyps, as
the paper says (its table 2), in sizes, shapes and numbers per frame of PolypGen (`sizes`).
`training_frames` are 46 sequences, as in EndoCV 2022; `external_frames` stand for the further data
sets of the winning recipe. `drawn_frame` draws one: a tube of mucosa with folds and vessels around
a dark lumen, reflections, debris, and polyps as lit hills. Flat polyps are low hills, protruded
ones high: there is no other difference between the types.

What is drawn, not taken from data: the look of a centre (tint, light, blur, noise), contrast and
relief of polyps, places, patients. The looks of all centres and sequences come from *one*
distribution, so that how much centres differ is chance and not design; contrast is drawn per
patient, whatever the type or size. No number of this file was adapted to a result of a detector.

Every random number comes from a `stream` named after what it is for: a frame does not depend on how
many others there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from scipy.ndimage import gaussian_filter
from scipy.special import ndtr

from calipers.arrays import F64, U8, Flags
from calipers.studies.polyps.sizes import CENTRES, SEQUENCES, SizeSummary, shipped_sizes
from calipers.synthetic.demo import stream

PolypType = Literal["flat", "protruded"]

LONGER_SIDE = 96  # pixels of a drawn frame
# Table 2 of the paper: frames, and share of frames with a polyp.
FRAMES = dict(zip(CENTRES, (256, 276, 457, 227, 208, 88)))
PREVALENCE = dict(zip(CENTRES, (0.98, 0.89, 0.99, 0.64, 0.99, 0.94)))
FRAMES_PER_PATIENT = 5  # 1512 frames of "over 300 patients"
N_SEQUENCES, FRAMES_PER_SEQUENCE = 46, 14
TRAINING_PREVALENCE = 0.8  # 2631 of 3290 frames
EXTERNAL_SETS = {"external-1": 80, "external-2": 70}  # frames
EXTERNAL_PER_PATIENT = 5
FLAT_SHARE = 0.35  # of patients; the paper does not state it
RELIEF = {"flat": 0.3, "protruded": 1.0}  # height of a hill, in half sides
SAME_PATIENT = 0.6  # correlation of the sizes of a patient's polyps
SHAPES = 8  # that are tried to meet how much of its box a polyp fills
PLACES = 30  # that are tried to keep polyps apart
NARROWEST = 3.0  # pixels of a drawn polyp


@dataclass(frozen=True, slots=True)
class CentreLight:
    """How the frames of a centre look."""

    tint: tuple[float, float, float]
    brightness: float
    vignette: float
    blur: float  # pixels
    noise: float
    texture: float


@dataclass(frozen=True, slots=True)
class PolypPlan:
    """One polyp before it is drawn: box in pixels, and what its patient lends to it."""

    box: tuple[float, float, float, float]
    kind: PolypType
    fill: float
    contrast: float  # of colour against mucosa


@dataclass(frozen=True, slots=True)
class FramePlan:
    """One frame before it is drawn."""

    name: str
    centre: str
    patient: str
    size: tuple[int, int]  # width and height
    light: CentreLight
    polyps: tuple[PolypPlan, ...]
    seed: int


@dataclass(frozen=True)
class DrawnFrame:
    """A frame with what it shows."""

    plan: FramePlan
    pixels: U8  # (height, width, 3)
    masks: tuple[Flags, ...]  # (height, width) each
    boxes: F64  # (m, 4) around the masks


def centre_frames(seed: int, *, share: float = 1.0) -> Iterator[FramePlan]:
    """Yield the frames of the six centres; ``share`` of them for a quick run."""
    for centre in CENTRES:
        n = max(FRAMES_PER_PATIENT, round(share * FRAMES[centre]))
        n_empty = n - round(PREVALENCE[centre] * n)
        yield from _frames(
            centre,
            shipped_sizes()[centre],
            seed,
            n=n,
            n_empty=n_empty,
            per_patient=FRAMES_PER_PATIENT,
        )


def training_frames(seed: int, *, share: float = 1.0) -> Iterator[FramePlan]:
    """Yield the frames of 46 sequences, each with a look of its own."""
    own = max(3, round(share * FRAMES_PER_SEQUENCE))
    sizes = shipped_sizes()[SEQUENCES]
    empty = stream(seed, "empty training frames").random((N_SEQUENCES, own))
    for k in range(N_SEQUENCES):
        n_empty = int((empty[k] > TRAINING_PREVALENCE).sum())
        yield from _frames(
            f"sequence-{k + 1:02d}", sizes, seed, n=own, n_empty=n_empty, per_patient=own
        )


def external_frames(seed: int, *, share: float = 1.0) -> Iterator[FramePlan]:
    """Yield the frames of two further data sets, all of them with a polyp."""
    sizes = shipped_sizes()[SEQUENCES]
    for name, n in EXTERNAL_SETS.items():
        number = max(EXTERNAL_PER_PATIENT, round(share * n))
        yield from _frames(name, sizes, seed, n=number, n_empty=0, per_patient=EXTERNAL_PER_PATIENT)


def _frames(
    centre: str, sizes: SizeSummary, seed: int, *, n: int, n_empty: int, per_patient: int
) -> Iterator[FramePlan]:
    light = _light(stream(seed, centre, "light"))
    empty = np.zeros(n, np.bool_)
    empty[stream(seed, centre, "empty").permutation(n)[:n_empty]] = True
    scale = LONGER_SIDE / max(sizes.frame)
    size = (round(sizes.frame[0] * scale), round(sizes.frame[1] * scale))
    for i in range(n):
        patient = f"{centre}-P{i // per_patient + 1:03d}"
        name = f"{patient}-{i % per_patient + 1:02d}"
        polyps: tuple[PolypPlan, ...] = ()
        if not empty[i]:
            polyps = _polyps(sizes, size, stream(seed, patient), stream(seed, name))
        yield FramePlan(name, centre, patient, size, light, polyps, seed)


def _light(random: Generator) -> CentreLight:
    """Return a look; all centres, sequences and further data sets draw from the same ranges."""
    red = random.uniform(0.62, 0.86)
    green, blue = red * random.uniform(0.42, 0.68), red * random.uniform(0.34, 0.58)
    return CentreLight(
        tint=(red, green, blue),
        brightness=random.uniform(0.8, 1.2),
        vignette=random.uniform(0.3, 1.0),
        blur=random.uniform(0.3, 0.9),
        noise=random.uniform(0.01, 0.045),
        texture=random.uniform(0.5, 1.5),
    )


def _polyps(
    sizes: SizeSummary, size: tuple[int, int], patient: Generator, frame: Generator
) -> tuple[PolypPlan, ...]:
    """Return the polyps of a frame; those of one patient are of a kind, and alike in size."""
    kind: PolypType = "flat" if patient.random() < FLAT_SHARE else "protruded"
    contrast, level = patient.uniform(0.03, 0.3), patient.normal()
    chances = sizes.polyps_per_frame
    number = 1 + int(frame.choice(len(chances), p=chances / chances.sum()))
    polyps: list[PolypPlan] = []
    for _ in range(number):
        # A Gaussian copula: patients differ, and all sizes together keep the real distribution.
        own = SAME_PATIENT * level + math.sqrt(1 - SAME_PATIENT**2) * frame.normal()
        side = sizes.quantile("side", float(ndtr(own)))
        aspect = sizes.quantile("aspect", frame.random())
        fill = sizes.quantile("fill", frame.random())
        sides = _sides(side, aspect, size)
        box = _place(sides, size, [polyp.box for polyp in polyps], frame)
        if box is not None:
            polyps.append(PolypPlan(box, kind, fill, contrast))
    return tuple(polyps)


def _sides(side: float, aspect: float, size: tuple[int, int]) -> F64:
    """Return width and height in pixels of a box with this share of the frame."""
    area = side**2 * size[0] * size[1]
    sides = np.sqrt(area) * np.array([math.exp(aspect / 2), math.exp(-aspect / 2)])
    return np.asarray(np.clip(sides, NARROWEST, np.array(size) - 2.0))


def _place(
    sides: F64,
    size: tuple[int, int],
    others: Sequence[tuple[float, float, float, float]],
    random: Generator,
) -> tuple[float, float, float, float] | None:
    """Return a box clear of the others; None if there is no room."""
    room = np.array(size) - sides
    for _ in range(PLACES):
        x0, y0 = (random.random(2) * room).tolist()
        x1, y1 = x0 + float(sides[0]), y0 + float(sides[1])
        clear = [x1 < a or x0 > c or y1 < b or y0 > d for a, b, c, d in others]
        if all(clear):
            return x0, y0, x1, y1
    return None


def drawn_frame(plan: FramePlan) -> DrawnFrame:
    """Draw a frame."""
    random = stream(plan.seed, plan.name, "picture")
    width, height = plan.size
    y, x = np.mgrid[:height, :width] + 0.5
    picture, heights = _mucosa(x, y, plan.light, random)
    masks, boxes = [], []
    for polyp in plan.polyps:
        mask, hill = _hill(polyp, x, y, random)
        if not mask.any():
            continue
        covered = _colour_of(polyp, plan.light, random)
        rim = gaussian_filter(mask.astype(np.float64), 0.7)[..., None]
        picture = picture * (1 - rim) + rim * (0.45 * picture + 0.55 * covered)
        heights = heights + hill
        masks.append(mask)
        rows, columns = np.nonzero(mask)
        boxes.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    picture = _lit(picture, heights, x, y, plan.light, random)
    pixels = np.round(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8)
    return DrawnFrame(plan, pixels, tuple(masks), np.array(boxes, np.float64).reshape(-1, 4))


def _smooth(shape: tuple[int, ...], sigma: float, random: Generator) -> F64:
    """Return smooth noise with a standard deviation of 1."""
    field = gaussian_filter(random.normal(size=shape), sigma, mode="reflect")
    return np.asarray(field / max(float(field.std()), 1e-9))


def _mucosa(x: F64, y: F64, light: CentreLight, random: Generator) -> tuple[F64, F64]:
    """Return the colours of an empty tube, and the height of its folds."""
    height, width = x.shape
    lumen = random.uniform(0.15, 0.85, 2) * (width, height)
    away = np.hypot(x - lumen[0], y - lumen[1]) / max(width, height)
    warp = _smooth(x.shape, 9.0, random)
    texture, patches = _smooth(x.shape, 1.2, random), _smooth(x.shape, 6.0, random)
    picture = np.array(light.tint) * np.ones((height, width, 1))
    picture = picture * (1 + light.texture * (0.04 * texture + 0.06 * patches))[..., None]
    # Vessels run where another smooth field changes its sign.
    vessels = np.exp(-((_smooth(x.shape, 4.0, random) / 0.12) ** 2))
    picture = picture * (1 - 0.18 * light.texture * vessels[..., None] * np.array([0.5, 1.0, 0.8]))
    # It is dark where the tube goes on.
    picture = picture * (1 - 0.75 * np.exp(-((away / random.uniform(0.08, 0.22)) ** 2)))[..., None]
    folds = np.sin(random.uniform(14.0, 26.0) * np.sqrt(away) + 0.8 * warp + random.uniform(0, 6))
    heights = random.uniform(0.5, 2.0) * np.exp(4.0 * (folds - 1.0)) + 0.5 * patches
    picture = _with_debris(picture, x, y, random)
    return picture, heights


def _with_debris(picture: F64, x: F64, y: F64, random: Generator) -> F64:
    """Return the picture with some residue: round things that are no polyps."""
    for _ in range(int(random.poisson(1.0))):
        cx, cy = random.random(2) * x.shape[::-1]
        radius = random.uniform(1.5, 8.0)
        inside = np.hypot(x - cx, (y - cy) * random.uniform(0.7, 1.4)) < radius
        cover = gaussian_filter(inside.astype(np.float64), 0.6)[..., None]
        colour = np.array([0.55, 0.45, 0.2]) * random.uniform(0.7, 1.3)
        picture = picture * (1 - 0.6 * cover) + 0.6 * cover * colour
    return picture


def _hill(polyp: PolypPlan, x: F64, y: F64, random: Generator) -> tuple[Flags, F64]:
    """Return the mask of a polyp and its height in pixels.

    Its outline is an ellipse with lobes, and may be cut by a fold; of several outlines the one is
    taken that fills its box most nearly as much as a real polyp does.
    """
    x0, y0, x1, y1 = polyp.box
    u, v = 2 * (x - x0) / (x1 - x0) - 1, 2 * (y - y0) / (y1 - y0) - 1
    best: tuple[float, Flags, F64] | None = None
    for k in range(SHAPES):
        lobes, cut = 0.4 * k / (SHAPES - 1), random.random() < k / SHAPES
        mask, level = _outline(u, v, lobes, cut, random)
        miss = abs(float(mask.sum()) / ((x1 - x0) * (y1 - y0)) - polyp.fill)
        if mask.any() and (best is None or miss < best[0]):
            best = (miss, mask, level)
    if best is None:
        return np.zeros(x.shape, np.bool_), np.zeros(x.shape)
    _, mask, level = best
    half = 0.25 * (x1 - x0 + y1 - y0)
    hill = RELIEF[polyp.kind] * half * np.sqrt(np.clip(1 - level**2, 0, None))
    return mask, np.where(mask, hill, 0.0)


def _outline(u: F64, v: F64, lobes: float, cut: bool, random: Generator) -> tuple[Flags, F64]:
    """Return a shape in the square [-1, 1]^2, and the distance from its middle, 1 at the rim."""
    whole = np.linspace(-math.pi, math.pi, 181)
    around = np.ones(whole.shape)
    for k in (2, 3, 4, 5):
        size, phase = lobes * random.normal() / math.sqrt(k), random.uniform(0, 2 * math.pi)
        around += size * np.cos(k * whole + phase)
    around = np.clip(around, 0.15, None)
    # The shape touches the sides of its box, so that boxes keep the sizes that were drawn.
    left, right = (around * np.cos(whole)).min(), (around * np.cos(whole)).max()
    low, high = (around * np.sin(whole)).min(), (around * np.sin(whole)).max()
    p = left + (u + 1) / 2 * (right - left)
    q = low + (v + 1) / 2 * (high - low)
    turned = np.arctan2(q, p)
    reach = np.interp(turned, whole, around)
    level = np.hypot(p, q) / reach
    mask = (level < 1) & (np.abs(u) <= 1) & (np.abs(v) <= 1)
    if cut:
        direction = random.uniform(0, 2 * math.pi)
        centre = 1.1 * np.array([math.cos(direction), math.sin(direction)])
        mask &= np.hypot(u - centre[0], v - centre[1]) > random.uniform(0.5, 0.95)
    return mask, level


def _colour_of(polyp: PolypPlan, light: CentreLight, random: Generator) -> F64:
    shift = polyp.contrast * np.array([random.uniform(0.2, 1.0), random.uniform(-1.0, 0.4), -0.3])
    return np.asarray(np.array(light.tint) * (1 + shift) + 0.1 * polyp.contrast)


def _lit(picture: F64, heights: F64, x: F64, y: F64, light: CentreLight, random: Generator) -> F64:
    """Return the picture in the light of the endoscope, with reflections, blur and noise."""
    relief = gaussian_filter(heights, 0.6)
    slope_y, slope_x = np.gradient(relief)
    lamp = random.normal(0.0, 0.35, 2)
    normal = 1 / np.sqrt(1 + slope_x**2 + slope_y**2)
    shade = (1 - lamp[0] * slope_x - lamp[1] * slope_y) * normal
    picture = picture * (0.35 + 0.65 * np.clip(shade, 0.2, 1.6))[..., None]
    # Wet surfaces reflect where they face the lamp and are bumpy.
    glint = _smooth(x.shape, 0.9, random) * np.clip(shade, 0, None)
    picture = np.where((glint > random.uniform(2.6, 3.4))[..., None], 0.95, picture)
    height, width = x.shape
    away = np.hypot((x - width / 2) / width, (y - height / 2) / height)
    picture = picture * (light.brightness * (1 - light.vignette * away**2))[..., None]
    picture = gaussian_filter(picture, (light.blur, light.blur, 0))
    return np.asarray(picture + random.normal(0, light.noise, picture.shape))
