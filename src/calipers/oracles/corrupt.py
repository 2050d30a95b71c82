# SPDX-License-Identifier: Apache-2.0
"""`corrupt`: a model made from the references by known corruptions, one or several in a row.

Its errors are known by construction, so a metric can be asked whether it sees them. `calipers
corrupt` and the studies call it. A corruption is a function of `CentredBoxes`, boxes as centres and
sides, so that place and shape change separately; `KINDS` lists them by name. Those of place and
shape treat every box by itself, those of classes every image by itself, on all declared classes
(Meissen et al. 2023, appendix A).

As text a corruption reads ``position-noise(sigma=0.5)``; `parse_corruption` and `RANGES` say what
its numbers may be. `oracles.maps` does the same for maps and shares this part.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from calipers.arguments import names_arguments
from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort
from calipers.data.objects import Objects, Predictions
from calipers.errors import UsageError, did_you_mean
from calipers.kernels import ragged
from calipers.kernels.resampling import check_seed

Choice = float | bool
Kinds = Mapping[str, Callable[..., Any]]
# kind, or kind(name=value, ...).
READS = re.compile(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
WORDS = {"true": True, "false": False}

Random = np.random.Generator

CLASS_SHARE = 0.25  # of the image: the mean side of the boxes of ChestX-ray8, as the paper has it

STREAM = 0x6F7261  # keeps the draws apart from the replicates that share a seed


@names_arguments
def corrupt(
    cohort: Cohort,
    kind: str | Sequence[str],
    *,
    seed: int = 0,
    name: str | None = None,
    of: str | None = None,
    **choices: Choice,
) -> Cohort:
    """Return the cohort with one more model: the references, corrupted in a known way.

    Parameters
    ----------
    kind
        One of `calipers.oracles.corrupt.KINDS`; or several with their choices, applied in
        order: ``["class-confusion(p=0.3)", "position-noise(sigma=0.5)"]``.
    seed
        Of the random numbers; the same seed gives the same model.
    name
        Of the model; ``kind(parameter=value)`` if left out.
    of
        Corrupt the predictions of this model instead of the references; scores become 1.
    choices
        Those of the kind: ``sigma``, ``bias``, ``p``, ``mean``, ``size``; see `calipers.oracles`.

    Notes
    -----
    Ignored references are left out: an oracle does not predict them. All scores are 1. Boxes may
    leave the image. A cohort without references gets a model without predictions, unless the
    corruption adds some.

    Examples
    --------
    >>> import calipers as cal
    >>> cohort = cal.corrupt(cal.demo_cohort(), "position-noise", sigma=0.5)
    >>> list(cohort.models)[-1]
    'position-noise(sigma=0.5)'
    >>> result = cal.rodeo(cohort, "position-noise(sigma=0.5)")
    >>> result.localization < result.shape  # places are wrong, shapes are not
    True
    """
    check_seed(seed)
    steps = several(kind, choices, KINDS)
    name = " + ".join(map(str, steps)) if name is None else name
    if name in cohort.models:
        raise UsageError(f"the cohort already has a model {name!r}: give the new one another name")
    if of is None:
        # Ignored references are places about which nobody is judged.
        model_boxes = boxes_from(cohort.references, ~cohort.references.ignore)
    else:
        model_boxes = boxes_from(cohort.predictions(of))
    random = np.random.Generator(np.random.Philox(key=np.array([seed, STREAM], np.uint64)))
    for step in steps:
        model_boxes = KINDS[step.kind](model_boxes, cohort, random, **step.choices)
    return cohort.with_predictions(name, as_predictions(model_boxes, cohort.n_images))


@dataclass(frozen=True)
class CentredBoxes:
    """Boxes of many images, in any order."""

    image: I64  # (n,)
    label: I64  # (n,)
    centre: F64  # (n, d)
    side: F64  # (n, d) above 0

    def __len__(self) -> int:
        return len(self.label)

    def rows(self, rows: I64 | Flags) -> CentredBoxes:
        """Return some of the boxes."""
        return CentredBoxes(self.image[rows], self.label[rows], self.centre[rows], self.side[rows])

    def concat(self, other: CentredBoxes) -> CentredBoxes:
        """Return these boxes and others."""
        return CentredBoxes(
            np.concatenate([self.image, other.image]),
            np.concatenate([self.label, other.label]),
            np.concatenate([self.centre, other.centre]),
            np.concatenate([self.side, other.side]),
        )

    def present(self, n_images: int, n_classes: int) -> Flags:
        """Return (n_images, n_classes): whether an image has a box of a class."""
        table = np.zeros((n_images, n_classes), np.bool_)
        table[self.image, self.label] = True
        return table


def boxes_from(table: Objects, selection: Flags | None = None) -> CentredBoxes:
    """Return the boxes of a table, or those of a selection of its objects."""
    rows = np.arange(len(table)) if selection is None else np.flatnonzero(selection)
    d = table.dimensions
    low, high = table.boxes[rows, :d], table.boxes[rows, d:]
    return CentredBoxes(
        table.image[rows], table.label[rows].astype(np.int64), 0.5 * (low + high), high - low
    )


def as_predictions(boxes: CentredBoxes, n_images: int) -> Predictions:
    """Return the boxes as the predictions of a model; every score is 1."""
    order = np.argsort(boxes.image, kind="stable")
    by_image = boxes.rows(order)
    corners = np.concatenate(
        [by_image.centre - 0.5 * by_image.side, by_image.centre + 0.5 * by_image.side], axis=1
    )
    # From the sides, not from the corners: rounding would move boxes over size cuts.
    extent = np.prod(by_image.side, axis=1)
    return Predictions(
        offsets=ragged.from_owner(by_image.image, n_images),
        boxes=corners,
        extent=extent,
        label=by_image.label.astype(np.int32),
        place=np.arange(len(by_image)),
        facts={},
        area=extent,
        score=np.ones(len(by_image)),
        scored=True,
    )


def position_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Move the centre by a normal offset, along every axis with a standard deviation of ``sigma``
    sides.
    """
    return move_boxes(
        boxes, boxes.centre + sigma * boxes.side * random.standard_normal(boxes.centre.shape)
    )


def position_bias(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, bias: float, literal: bool = False
) -> CentredBoxes:
    """Move the centre by ``bias`` sides into a random direction.

    The paper prints a division by the side, which contradicts its own figure; ``literal`` does
    that, in fractions of the image.
    """
    step = bias * _directions(boxes, random)
    if not literal:
        return move_boxes(boxes, boxes.centre + step * boxes.side)
    size = cohort.images.size[boxes.image]
    return move_boxes(boxes, boxes.centre + step / (boxes.side / size) * size)


def _directions(boxes: CentredBoxes, random: Random) -> F64:
    """Return (n, d) vectors of length 1, in every direction alike."""
    if boxes.centre.shape[1] == 2:
        angle = random.random(len(boxes)) * (2.0 * np.pi)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    vectors = random.standard_normal(boxes.centre.shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def shape_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Multiply every side by a log-normal factor of its own, ``ln f ~ N(0, sigma^2)``."""
    return reshape_boxes(
        boxes, boxes.side * np.exp(sigma * random.standard_normal(boxes.side.shape))
    )


def size_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Multiply all sides by one log-normal factor, ``ln f ~ N(0, sigma^2)``."""
    return reshape_boxes(
        boxes, boxes.side * np.exp(sigma * random.standard_normal((len(boxes), 1)))
    )


def aspect_noise(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, sigma: float
) -> CentredBoxes:
    """Change the aspect, ``ln a' ~ N(ln a, sigma^2)`` with a = width / height, and keep the area.

    In 3D the logarithms of the sides move by normal offsets whose sum is taken out, so that the
    volume stays.
    """
    if boxes.side.shape[1] == 2:
        half = 0.5 * sigma * random.standard_normal(len(boxes))
        return reshape_boxes(boxes, boxes.side * np.exp(np.stack([half, -half], axis=1)))
    offset = sigma * random.standard_normal(boxes.side.shape)
    return reshape_boxes(boxes, boxes.side * np.exp(offset - offset.mean(axis=1, keepdims=True)))


def box_overprediction(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, mean: float, noise: float = 0.5
) -> CentredBoxes:
    """Add D copies of every box, geometric on 0, 1, ... with that mean, then move all by position
    noise.
    """
    # NumPy counts the throws up to the first success, from 1 on.
    copies = random.geometric(1.0 / (1.0 + mean), len(boxes)) - 1
    repeated = boxes.rows(np.repeat(np.arange(len(boxes)), 1 + copies))
    return position_noise(repeated, cohort, random, sigma=noise)


def class_underprediction(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, p: float, noise: float = 0.5
) -> CentredBoxes:
    """Drop all boxes of a class in an image with probability p; what is left is moved by position
    noise.
    """
    # One draw per image and class, present or not: the draws do not depend on the boxes.
    dropped = random.random(_cells(cohort)) < p
    return position_noise(
        boxes.rows(~dropped[boxes.image, boxes.label]), cohort, random, sigma=noise
    )


def class_overprediction(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, p: float, share: float = CLASS_SHARE
) -> CentredBoxes:
    """Give every class that an image does not have, with probability p, one box of a quarter of its
    sides.
    """
    added = (random.random(_cells(cohort)) < p) & ~boxes.present(*_cells(cohort))
    return boxes.concat(place_boxes(_nonzero(added), share, cohort, random))


def class_confusion(
    boxes: CentredBoxes, cohort: Cohort, random: Random, *, p: float
) -> CentredBoxes:
    """Select every declared class with probability p, and permute the selected ones; a class may
    keep its name.
    """
    selected = random.random(_cells(cohort)) < p
    plain = np.broadcast_to(np.arange(selected.shape[1], dtype=np.float64), selected.shape)
    # Both orders begin with the selected classes, one by their number and one at random; the others
    # follow alike.
    plain_order = np.argsort(np.where(selected, plain, plain + plain.shape[1]), axis=1)
    random_order = np.argsort(
        np.where(selected, random.random(selected.shape), plain + 1.0), axis=1
    )
    name = np.empty_like(plain_order)
    np.put_along_axis(name, plain_order, random_order, axis=1)
    return CentredBoxes(boxes.image, name[boxes.image, boxes.label], boxes.centre, boxes.side)


def random_boxes(
    boxes: CentredBoxes,
    cohort: Cohort,
    random: Random,
    *,
    size: float = CLASS_SHARE,
    p: float = 0.0,
) -> CentredBoxes:
    """Keep only which classes an image has, add absent ones with probability p, and place one box
    for each at random.

    ``size`` is the share of the image that a side takes.
    """
    present = boxes.present(*_cells(cohort))
    present |= random.random(_cells(cohort)) < p
    return place_boxes(_nonzero(present), size, cohort, random)


def _cells(cohort: Cohort) -> tuple[int, int]:
    return cohort.n_images, len(cohort.classes)


def _nonzero(cells: Flags) -> tuple[I64, I64]:
    image, label = np.nonzero(cells)
    return image, label


def place_boxes(
    cells: tuple[I64, I64], share: float, cohort: Cohort, random: np.random.Generator
) -> CentredBoxes:
    """Return one box for every (image, class), of a share of the sides of its image, anywhere
    inside of it.
    """
    image, label = cells
    no_size = np.flatnonzero(np.isnan(cohort.images.size).any(axis=1))
    if len(no_size):
        name = cohort.images.ids[no_size[0]]
        raise UsageError(
            f"boxes at random places need the size of every image; image {name!r} has none"
        )
    size = cohort.images.size[image]
    side = share * size
    # Any place at which the box lies inside is equally likely.
    low = random.random(size.shape) * (size - side)
    return CentredBoxes(image, label, low + 0.5 * side, side)


def move_boxes(boxes: CentredBoxes, centre: F64) -> CentredBoxes:
    """Return the boxes at other places."""
    return replace(boxes, centre=centre)


def reshape_boxes(boxes: CentredBoxes, side: F64) -> CentredBoxes:
    """Return the boxes with other sides about the same centres."""
    return replace(boxes, side=side)


KINDS: Mapping[str, Callable[..., CentredBoxes]] = {
    "position-noise": position_noise,
    "position-bias": position_bias,
    "shape-noise": shape_noise,
    "size-noise": size_noise,
    "aspect-noise": aspect_noise,
    "class-underprediction": class_underprediction,
    "class-overprediction": class_overprediction,
    "box-overprediction": box_overprediction,
    "class-confusion": class_confusion,
    "random-boxes": random_boxes,
}


@dataclass(frozen=True)
class Corruption:
    """One kind with its choices."""

    kind: str
    choices: Mapping[str, Choice]

    def __str__(self) -> str:
        texts = [f"{name}={_number_text(value)}" for name, value in self.choices.items()]
        return f"{self.kind}({', '.join(texts)})"


class Range(NamedTuple):
    """The numbers that a choice may be: ``low <= value <= high``."""

    low: float = 0.0
    high: float = math.inf
    whole: bool = False
    positive: bool = False  # 0 is not allowed

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        start = "above 0" if self.positive else f"from {self.low:g}"
        end = "" if math.isinf(self.high) else f" to {self.high:g}"
        return f"{kind} {start}{end}"

    def holds(self, value: Any) -> bool:
        """Return whether a value is one of these numbers."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            return False
        above = value > 0 if self.positive else value >= self.low
        return above and value <= self.high and (not self.whole or float(value).is_integer())


SHARE = Range(0, 1)
# The upper ends only keep boxes finite and memory bounded; no experiment comes near them.
RANGES: Mapping[str, Range] = {
    "sigma": Range(0, 20),
    "noise": Range(0, 20),
    "bias": Range(0, 1000),
    "mean": Range(0, 1000),
    "p": SHARE,
    "size": Range(0, 1, positive=True),
    "share": Range(0, 1, positive=True),
    "n": Range(0, 10_000, whole=True),
    "voxels": Range(0, 10**9, whole=True),
    "fraction": Range(0, 10),
    "radius": Range(0, 10_000),
    "distance": Range(0, 10_000),
    "x": Range(-10_000, 10_000, whole=True),
    "y": Range(-10_000, 10_000, whole=True),
    "z": Range(-10_000, 10_000, whole=True),
}


def several(
    kind: str | Sequence[str], choices: Mapping[str, Choice], kinds: Kinds
) -> list[Corruption]:
    """Return the corruptions of one name with its choices, or of one or more texts."""
    if isinstance(kind, str) and "(" not in kind:
        return [check_corruption(kind, choices, kinds)]
    if choices:
        raise UsageError(
            "with several corruptions, write the choices after each kind, such as "
            "position-noise(sigma=0.5)"
        )
    texts = [kind] if isinstance(kind, str) else list(kind)
    if not texts:
        raise UsageError(f"at least one corruption: {', '.join(kinds)}")
    return [parse_corruption(text, kinds) for text in texts]


def parse_corruption(text: str, kinds: Kinds) -> Corruption:
    """Return the corruption of ``position-noise(sigma=0.5)``."""
    match = READS.fullmatch(text)
    wrong = UsageError(f"a corruption reads like position-noise(sigma=0.5), not {text!r}")
    if match is None:
        raise wrong
    choices: dict[str, Choice] = {}
    for part in filter(None, (part.strip() for part in (match[2] or "").split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if name in choices:
            raise UsageError(f"{name} is given twice in {text!r}")
        try:
            choices[name] = WORDS[value.lower()] if value.lower() in WORDS else float(value)
        except ValueError:
            raise wrong from None
        # "0.5" alone, or "=0.5".
        if not sign or not name:
            raise wrong
    return check_corruption(match[1], choices, kinds)


def check_corruption(kind: str, choices: Mapping[str, Choice], kinds: Kinds) -> Corruption:
    """Return a corruption whose kind and choices are known and in range."""
    if kind not in kinds:
        raise UsageError(f"no corruption {kind!r}; {did_you_mean(kind, kinds)}")
    options = parameters(kind, kinds)
    for name, value in choices.items():
        if name not in options:
            raise UsageError(f"{kind} has no {name!r}; {did_you_mean(name, options)}")
        if isinstance(options[name].default, bool):
            if not isinstance(value, bool):
                raise UsageError(f"{kind}: {name} is True or False, not {value!r}")
        elif not RANGES[name].holds(value):
            raise UsageError(f"{kind}: {name} is {RANGES[name]}, not {value!r}")
    missing = [
        name for name, one in options.items() if one.default is one.empty and name not in choices
    ]
    if missing:
        raise UsageError(f"{kind} needs {', '.join(missing)}")
    return Corruption(kind, dict(choices))


def parameters(kind: str, kinds: Kinds) -> dict[str, inspect.Parameter]:
    """Return the choices that a kind has."""
    # The keyword arguments of the function are the choices: there is no second list of them.
    every = inspect.signature(kinds[kind]).parameters.values()
    return {one.name: one for one in every if one.kind == one.KEYWORD_ONLY}


def _number_text(value: Choice) -> str:
    """Return a number as short as it is exact."""
    if isinstance(value, bool):
        return str(value)
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))
