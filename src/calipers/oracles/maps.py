# SPDX-License-Identifier: Apache-2.0
"""`corrupt_maps`: make the maps of a model from labels by one corruption, or by several in a
row. Called by `calipers.corrupt_maps` and the ``corrupt`` command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.kernels.resampling import check_seed
from calipers.oracles import map_objects, map_scores
from calipers.oracles.described import Choice, Corruption, several
from calipers.oracles.map_objects import F32, Marked
from calipers.readers.volumes.values import as_labels
from calipers.synthetic.anatomy import stream
from calipers.tables.samples import Sample

MAP_KINDS: Mapping[str, Callable[..., Marked]] = {
    "shrink": map_objects.shrink,
    "grow": map_objects.grow,
    "missed-objects": map_objects.missed_objects,
    "false-objects": map_objects.false_objects,
    "noise": map_scores.noise,
    "blur": map_scores.blur,
    "shift": map_scores.shift,
    "empty-samples": map_scores.empty_samples,
}
ONE_OF = {
    "shrink": ("voxels", "fraction", "radius"),
    "grow": ("voxels", "fraction", "radius"),
    "missed-objects": ("n", "p"),
    "false-objects": ("voxels", "radius"),
}
Meaning = str | Sequence[int]


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
        `calipers.tables.samples.Sample`, what `calipers.read_maps` returns, or arrays of labels
        ``[z, ]y, x``.
    kind
        One of `calipers.oracles.MAP_KINDS`; or several with their choices, which follow each other:
        ``["shrink(voxels=20)", "noise(sigma=0.1)"]``.
    seed
        Of the random numbers. Sample k depends on the seed and on k alone.
    name
        Of the model; ``kind(parameter=value)`` if left out.
    labels
        What the values of the labels mean, as in `calipers.evaluate_maps`.
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
    >>> from calipers.synthetic import demo_samples
    >>> samples = list(demo_samples(4, dimensions=2))
    >>> thin = cal.corrupt_maps(samples, "shrink", fraction=0.2)
    >>> sorted(thin[0].maps)
    ['diffuse', 'sharp', 'shrink(fraction=0.2)']
    """
    check_seed(seed)
    steps = tuple(several(kind, choices, MAP_KINDS))
    _check_one_of(steps)
    name = " + ".join(map(str, steps)) if name is None else name
    if isinstance(samples, np.ndarray | str | Mapping) or not isinstance(samples, Iterable):
        raise UsageError(
            f"samples is a list of samples or of arrays of labels, not {type(samples).__name__}"
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
    >>> from calipers.oracles import corrupt_map
    >>> corrupt_map(np.array([[0, 1, 1, 1, 0]]), "shrink", radius=1)
    array([[0., 0., 1., 0., 0.]], dtype=float32)
    """
    samples = corrupt_maps([array], kind, seed=seed, name="map", labels=labels, **choices)
    return next(iter(samples)).maps["map"]


def _check_one_of(steps: Sequence[Corruption]) -> None:
    for step in steps:
        names = ONE_OF.get(step.kind, ())
        options = [name for name in names if name in step.choices]
        if names and len(options) != 1:
            got = " and ".join(options) or "none"
            raise UsageError(f"{step.kind} needs one of {', '.join(names)}, not {got}")


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
        if len(blanks) < plan.empty:
            blanks.append(_blank(sample, len(blanks)))
        yield plan.apply(sample, k)
    for number in range(plan.empty if blanks else 0):
        yield plan.apply(_blank(blanks[number % len(blanks)], number), k + 1 + number)


def _sample(entry: Any, k: int, labels: Meaning) -> Sample:
    if isinstance(entry, Sample):
        return entry
    if hasattr(entry, "load"):
        sample: Sample = entry.load(label_values=labels)
        return sample
    array = np.asarray(entry)
    if array.ndim not in (2, 3):
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
        return np.asarray(numbers.reshape(mask.shape) + (values[0] != 0), np.int32)
    return np.asarray(ndimage.label(mask, np.ones((3,) * mask.ndim))[0], np.int32)
