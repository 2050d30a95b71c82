# SPDX-License-Identifier: Apache-2.0
"""`corrupt_maps`: the maps of a model made from labels by known corruptions, one or several in a
row.

`calipers.corrupt_maps` and the ``corrupt`` command call it. A corruption is a function of `Marked`,
the objects that a map means and its scores; `MAP_KINDS` lists them by name.

*Objects*, exact to the voxel: shrunk, grown, missed and invented ones. Distances are between the
centres of voxels, in voxels. What is added scores 1, what is taken away 0.

*Scores*: noise, blur, shift.

Arrays are ``[z, ]y, x``. Samples are corrupted when they are asked for, each from a random stream
of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import names_arguments
from calipers.arrays import F32, F64, I32, I64, Flags
from calipers.data.maps import Sample
from calipers.errors import UsageError, shown, word
from calipers.io.volumes.values import MEANINGS, as_labels, is_meaning
from calipers.kernels.resampling import check_seed
from calipers.oracles.corrupt import Choice, Corruption, several
from calipers.synthetic.demo import stream
from calipers.synthetic.volumes import soft_map

Random = np.random.Generator
Window = tuple[slice, ...]
APART = 2.0  # voxels this far from each other never touch, not even at a corner

T = TypeVar("T", np.int32, np.float32)

# Choices that exclude each other, and of which one is needed.
ONE_OF = {
    "shrink": ("voxels", "fraction", "radius"),
    "grow": ("voxels", "fraction", "radius"),
    "missed-objects": ("n", "p"),
    "false-objects": ("voxels", "radius"),
}
Meaning = str | Sequence[int]


@names_arguments
def corrupt_maps(
    samples: Iterable[Any],
    kind: str | Sequence[str],
    *,
    seed: int = 0,
    name: str | None = None,
    labels: Meaning = "binary",
    **choices: Choice,
) -> Sequence[Sample] | Iterator[Sample]:
    """Return the samples with one more model: a map of their labels, corrupted in a known way.

    Parameters
    ----------
    samples
        `calipers.data.maps.Sample`, what `calipers.read_maps` returns, or arrays of labels
        ``[z, ]y, x``.
    kind
        One of `calipers.oracles.maps.MAP_KINDS`; or several with their choices, applied in
        order: ``["shrink(voxels=20)", "noise(sigma=0.1)"]``.
    seed
        Of the random numbers. Sample k depends on the seed and on k alone.
    name
        Of the model; ``kind(parameter=value)`` if left out.
    labels
        What the values of the labels mean, as in `calipers.maps.evaluate`.
    choices
        Those of the kind: ``voxels``, ``radius``, ``fraction``, ``n``, ``p``, ``sigma``,
        ``distance``, ``x``, ``y``, ``z``.

    Returns
    -------
    samples
        For a sequence, a sequence in which a sample is made when it is asked for; else an iterator.

    Notes
    -----
    Before the first corruption a map is 1 on objects and 0 elsewhere: perfect. Objects are
    connected components, corners included, or with ``labels="instances"`` the values of the labels.
    ``empty-samples(n=5)`` adds five samples without objects, on which all other models are silent;
    the corruptions reach them as well.

    Examples
    --------
    >>> import calipers as cal
    >>> from calipers.synthetic.volumes import demo_samples
    >>> samples = list(demo_samples(4, dimensions=2))
    >>> thin = cal.corrupt_maps(samples, "shrink", fraction=0.2)
    >>> sorted(thin[0].maps)
    ['diffuse', 'sharp', 'shrink(fraction=0.2)']
    """
    check_seed(seed)
    steps = tuple(several(kind, choices, MAP_KINDS))
    _check_one_of(steps)
    name = " + ".join(map(str, steps)) if name is None else word("name", name)
    if isinstance(samples, np.ndarray | str | Mapping) or not isinstance(samples, Iterable):
        raise UsageError(
            f"samples is a list of samples or of arrays of labels, not {type(samples).__name__}"
        )
    if not is_meaning(labels):
        raise UsageError(
            f"labels is one of {', '.join(MEANINGS)}, or the values that count; not {shown(labels)}"
        )
    plan = MapCorruption(steps, name, seed, labels)
    return Corrupted(samples, plan) if isinstance(samples, Sequence) else _one_by_one(samples, plan)


def corrupt_map(
    array: NDArray[Any],
    kind: str | Sequence[str],
    *,
    seed: int = 0,
    labels: Meaning = "binary",
    **choices: Choice,
) -> F32:
    """Return the map of one array of labels, corrupted in a known way; see `corrupt_maps`.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.oracles.maps import corrupt_map
    >>> corrupt_map(np.array([[0, 1, 1, 1, 0]]), "shrink", radius=1)
    array([[0., 0., 1., 0., 0.]], dtype=float32)
    """
    samples = corrupt_maps([array], kind, seed=seed, name="map", labels=labels, **choices)
    return next(iter(samples)).maps["map"]


@dataclass(frozen=True)
class MapCorruption:
    """The corruptions that are applied to every sample."""

    steps: tuple[Corruption, ...]
    name: str
    seed: int
    labels: Meaning

    @property
    def empty(self) -> int:
        """How many samples without objects are added."""
        return sum(int(step.choices["n"]) for step in self.steps if step.kind == "empty-samples")

    def apply(self, sample: Sample, k: int) -> Sample:
        """Return the sample with one more map."""
        if self.name in sample.maps:
            raise UsageError(
                f"sample {sample.name!r} already has a model {self.name!r}: give the new one "
                "another name"
            )
        objects = _objects(sample, self.labels)
        marked = Marked(objects, (objects > 0).astype(np.float32))
        # a stream per sample: sample k does not depend on which samples were made before
        random = stream(self.seed, "maps", str(k))
        for step in self.steps:
            try:
                marked = MAP_KINDS[step.kind](marked, random, **step.choices)
            except UsageError as error:
                raise UsageError(f"sample {sample.name!r}: {error}") from None
        return replace(sample, maps={**sample.maps, self.name: marked.scores})


class Corrupted(Sequence[Sample]):
    """Samples with one more model, each made when it is asked for."""

    def __init__(self, samples: Sequence[Any], plan: MapCorruption) -> None:
        self._samples, self._plan = samples, plan

    def __len__(self) -> int:
        return len(self._samples) + (self._plan.empty if len(self._samples) else 0)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        """Return sample ``index``, or a list of some."""
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        k = index + len(self) if index < 0 else index
        if not 0 <= k < len(self):
            raise IndexError(f"there are {len(self)} samples")
        n = len(self._samples)
        if k < n:
            return self._plan.apply(_sample(self._samples[k], k, self._plan.labels), k)
        return self._plan.apply(
            _blank(_sample(self._samples[(k - n) % n], k, self._plan.labels), k - n), k
        )


def _one_by_one(samples: Iterable[Any], plan: MapCorruption) -> Iterator[Sample]:
    blanks: list[Sample] = []
    k = -1
    for k, entry in enumerate(samples):
        sample = _sample(entry, k, plan.labels)
        # An iterator cannot be asked again: as many shapes as are needed are remembered.
        if len(blanks) < plan.empty:
            blanks.append(_blank(sample, len(blanks)))
        yield plan.apply(sample, k)
    for number in range(plan.empty if blanks else 0):
        yield plan.apply(_blank(blanks[number % len(blanks)], number), k + 1 + number)


def _check_one_of(steps: Sequence[Corruption]) -> None:
    for step in steps:
        names = ONE_OF.get(step.kind, ())
        options = [name for name in names if name in step.choices]
        if names and len(options) != 1:
            combination = " and ".join(options) or "none"
            raise UsageError(f"{step.kind} needs one of {', '.join(names)}, not {combination}")


def _sample(entry: Any, k: int, labels: Meaning) -> Sample:
    if isinstance(entry, Sample):
        return entry
    if hasattr(entry, "load"):
        sample: Sample = entry.load(label_values=labels)
        return sample
    if np.ma.is_masked(entry):
        raise UsageError(f"samples[{k}] has masked entries: fill them, or leave the sample out")
    array = np.asarray(entry)
    if array.ndim not in (2, 3) or not array.size:
        raise UsageError(
            f"samples[{k}] is a sample or an array of labels [z, ]y, x, not {type(entry).__name__}"
        )
    return Sample(str(k), array, {})


def _blank(sample: Sample, number: int) -> Sample:
    """Return a sample of that shape without objects and with empty maps; it is a new patient."""
    name, shape = f"empty-{number + 1}", sample.labels.shape
    groups = dict(sample.groups)
    if "patient" in groups:
        groups["patient"] = name
    return Sample(
        name=name,
        labels=np.zeros_like(sample.labels),
        maps={model: np.zeros(shape, np.float32) for model in sample.maps},
        spacing=sample.spacing,
        groups=groups,
    )


def _objects(sample: Sample, labels: Meaning) -> NDArray[np.int32]:
    """Return the objects of the labels, numbered from 1."""
    from scipy import ndimage

    mask = as_labels(sample.labels, labels, file=f"labels of {sample.name}")
    if labels == "instances":
        values, numbers = np.unique(mask, return_inverse=True)
        # Without background the smallest label would become 0.
        return np.asarray(numbers.reshape(mask.shape) + (values[0] != 0), np.int32)
    return np.asarray(ndimage.label(mask, np.ones((3,) * mask.ndim))[0], np.int32)


@dataclass(frozen=True)
class Marked:
    """A map on its way through corruptions: the objects that it means, and its scores."""

    objects: I32  # 0 = background, 1, 2, ... = objects
    scores: F32


def shrink(
    marked: Marked,
    random: Random,
    *,
    voxels: float | None = None,
    fraction: float = 0.0,
    radius: float | None = None,
) -> Marked:
    """Take the outermost voxels from every object: so many, a fraction of them, or all up to a
    depth.

    Notes
    -----
    The depth of a voxel is its distance to the nearest one outside; the edge of the image is no
    outside. The least deep go first; of equal ones those farther from the centroid, then those that
    come first in the array. An object of no more voxels than are taken is gone. ``round(fraction *
    size)`` rounds halves to even.
    """
    objects = marked.objects.copy()
    for k, box in _windows(objects):
        # One voxel more, so that the nearest voxel outside is in the window.
        window = _wider_window(box, 1, objects.shape)
        voxel_flags = objects[window] == k
        depth = _squared_distance(voxel_flags)[voxel_flags]
        places = np.argwhere(voxel_flags)
        if radius is not None:
            rows = np.flatnonzero(depth <= radius**2 + 1e-9)
        else:
            n = _number(len(places), voxels, fraction)
            rows = np.lexsort((-_from_centroid(places, places), depth))[:n]
        objects[window][tuple(places[rows].T)] = 0
    return _with_objects(marked, objects)


def grow(
    marked: Marked,
    random: Random,
    *,
    voxels: float | None = None,
    fraction: float = 0.0,
    radius: float | None = None,
) -> Marked:
    """Give every object the nearest voxels of the background: so many, a fraction of its size, or
    all within a radius.

    Notes
    -----
    The nearest come first; of equal ones those nearer to the centroid, then those that come first
    in the array. Objects grow one after the other and take nothing from each other, but they may
    come to touch. Where the background ends, they get what there is.
    """
    objects = marked.objects.copy()
    for k, box in _windows(objects):
        size = int((objects[box] == k).sum())
        n_new = 0 if radius is not None else _number(size, voxels, fraction)
        reach = math.ceil(radius) if radius is not None else 1
        while True:
            window = _wider_window(box, reach, objects.shape)
            whole = all(part.stop - part.start == n for part, n in zip(window, objects.shape))
            is_object, free = objects[window] == k, objects[window] == 0
            away = _squared_distance(~is_object)
            if radius is not None:
                free &= away <= radius**2
            elif not whole:  # beyond the reach, nearer voxels may lie outside of the window
                free &= away <= reach**2
            if whole or radius is not None or int(free.sum()) >= n_new:
                break
            reach *= 2
        places = np.argwhere(free)
        order = np.lexsort((_from_centroid(places, np.argwhere(is_object)), away[free]))
        rows = order if radius is not None else order[:n_new]
        objects[window][tuple(places[rows].T)] = k
    return _with_objects(marked, objects)


def missed_objects(
    marked: Marked, random: Random, *, n: float | None = None, p: float = 0.0
) -> Marked:
    """Leave out n random objects (all, if there are no more), or each with probability p."""
    there = np.unique(marked.objects)
    there = there[there > 0]
    if n is None:
        removals = there[random.random(len(there)) < p]
    else:
        removals = random.choice(there, min(int(n), len(there)), replace=False)
    return _with_objects(marked, np.where(np.isin(marked.objects, removals), 0, marked.objects))


def false_objects(
    marked: Marked,
    random: Random,
    *,
    n: float = 1,
    radius: float | None = None,
    voxels: float | None = None,
) -> Marked:
    """Add n discs (spheres) of one size at free places, which touch neither objects nor each other.

    Notes
    -----
    A disc has its centre in the centre of a voxel. By radius it holds the voxels at most so far
    away; by number exactly so many, the nearest ones, of equal ones those that come first in the
    array. It lies inside of the image. All free places are equally likely; without one that is a
    `UsageError`.
    """
    shape = marked.objects.shape
    if max(radius or 0.0, (voxels or 0.0) ** (1 / len(shape)) / 2) > max(shape):
        raise UsageError("a disc is larger than the image")
    offsets = _ball(len(shape), radius, voxels)
    reach = math.sqrt(float((offsets**2).sum(axis=1).max()))
    # centres so far from every object that the disc touches none
    free = _squared_distance(marked.objects == 0) >= (reach + APART) ** 2
    for axis, (low, high) in enumerate(zip(offsets.min(axis=0), offsets.max(axis=0))):
        line = np.moveaxis(free, axis, 0)  # a view: the disc stays inside along every axis
        line[: max(0, -int(low))] = False
        line[max(0, shape[axis] - int(high)) :] = False
    objects = marked.objects.copy()
    # Numbers of earlier corruptions are not used again.
    first = int(objects.max(initial=0)) + 1
    grid = np.ogrid[tuple(slice(0, side) for side in shape)]
    for k in range(int(n)):
        places = np.flatnonzero(free)
        if not len(places):
            raise UsageError(
                f"no free place for {int(n)} discs of {len(offsets)} voxels: fewer or smaller ones"
            )
        centre = np.unravel_index(int(random.choice(places)), shape)
        objects[tuple((offsets + np.array(centre)).T)] = first + k
        away = sum((axis - middle) ** 2 for axis, middle in zip(grid, centre))
        free &= away >= (2 * reach + APART) ** 2
    return _with_objects(marked, objects)


def _ball(dimensions: int, radius: float | None, voxels: float | None) -> I64:
    """Return (m, d) the steps from the centre to the voxels of a disc."""
    # a cube of the d-th root of the number of voxels holds enough of them
    reach = radius if radius is not None else (voxels or 1) ** (1 / dimensions)
    side = np.arange(-math.ceil(reach), math.ceil(reach) + 1)
    steps = np.stack(np.meshgrid(*[side] * dimensions, indexing="ij"), axis=-1).reshape(
        -1, dimensions
    )
    away = (steps**2).sum(axis=1)
    if radius is not None:
        return np.asarray(steps[away <= radius**2])
    return np.asarray(steps[np.argsort(away, kind="stable")[: max(int(voxels or 0), 1)]])


def _windows(objects: I32) -> list[tuple[int, Window]]:
    """Return every object with the box around it."""
    from scipy import ndimage

    boxes = ndimage.find_objects(objects)
    return [(k, box) for k, box in enumerate(boxes, start=1) if box is not None]


def _wider_window(box: Window, pad: int, shape: Sequence[int]) -> Window:
    wider = []
    for part, n in zip(box, shape):
        wider.append(slice(max(0, part.start - pad), min(n, part.stop + pad)))
    return tuple(wider)


def _squared_distance(flags: Flags) -> F64:
    """Return the squared distance of every voxel to the nearest one that is not inside; infinite if
    all are.
    """
    from scipy import ndimage

    if flags.all():
        return np.full(flags.shape, np.inf)
    # squares of distances are whole numbers: rounded, so that ties are ties
    squares: F64 = np.rint(ndimage.distance_transform_edt(flags) ** 2)
    return squares


def _from_centroid(places: I64, around: I64) -> F64:
    """Return squared distances to the centroid, times the squared size of what it is of: exact, so
    ties are ties.
    """
    return np.asarray(
        ((places * float(len(around)) - around.sum(axis=0)) ** 2).sum(axis=1), np.float64
    )


def _number(size: int, voxels: float | None, fraction: float) -> int:
    return round(fraction * size) if voxels is None else int(voxels)


def _with_objects(marked: Marked, objects: I32) -> Marked:
    """Return other objects: scores change where they do, between 0 and 1."""
    was, now = marked.objects > 0, objects > 0
    scores = np.where(was & ~now, np.float32(0), np.where(now & ~was, np.float32(1), marked.scores))
    return Marked(objects, scores)


def noise(marked: Marked, random: Random, *, sigma: float) -> Marked:
    """Add normal noise to every score, then cut to [0, 1]."""
    normal = random.standard_normal(marked.scores.shape, np.float32)
    return Marked(marked.objects, np.clip(marked.scores + np.float32(sigma) * normal, 0.0, 1.0))


def blur(marked: Marked, random: Random, *, sigma: float) -> Marked:
    """Blur with a Gaussian of that standard deviation in voxels, cut at three of them.

    Beyond its edges the image goes on as it is there.
    """
    return Marked(marked.objects, soft_map(marked.scores, blur=sigma))


def shift(
    marked: Marked,
    random: Random,
    *,
    x: float = 0,
    y: float = 0,
    z: float = 0,
    distance: float = 0.0,
) -> Marked:
    """Move all by whole voxels along the axes, or by a distance into a random direction, rounded to
    whole voxels.

    What leaves the image is lost; what comes in scores 0.
    """
    d = marked.scores.ndim
    if d == 2 and z:
        raise UsageError("shift: there is no z in two dimensions")
    # Drawn even if the distance is 0: the stream must not depend on the choices.
    direction = random.standard_normal(d)
    step = np.rint(distance * direction / np.linalg.norm(direction)) if distance else np.zeros(d)
    step = (step + np.array([z, y, x][3 - d :])).astype(np.int64)  # along [z, ]y, x
    return Marked(_shift_array(marked.objects, step), _shift_array(marked.scores, step))


def empty_samples(marked: Marked, random: Random, *, n: float) -> Marked:
    """Add n samples without objects, of the shapes of the first ones. A sample itself stays as it
    is.
    """
    return marked


def _shift_array(array: NDArray[T], step: NDArray[np.int64]) -> NDArray[T]:
    """Return an array moved by whole cells; what leaves it is lost, and zeros follow."""
    target, source = [], []
    for k, n in zip(step.tolist(), array.shape):
        # Of n cells, n - |k| stay inside, none if the step is longer than the side.
        stay = max(0, n - abs(k))
        target.append(slice(max(0, k), max(0, k) + stay))
        source.append(slice(max(0, -k), max(0, -k) + stay))
    result = np.zeros_like(array)
    result[tuple(target)] = array[tuple(source)]
    return result


MAP_KINDS: Mapping[str, Callable[..., Marked]] = {
    "shrink": shrink,
    "grow": grow,
    "missed-objects": missed_objects,
    "false-objects": false_objects,
    "noise": noise,
    "blur": blur,
    "shift": shift,
    "empty-samples": empty_samples,
}
