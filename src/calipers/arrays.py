# SPDX-License-Identifier: Apache-2.0
"""The types of arrays, declared once, how user input becomes an array, and how parts become one.

Shapes and units are said where an array is used. `host_array` is called by everything that takes
arrays from outside: `Cohort.from_arrays`, `evaluate_maps`, bags, alarms. Evidence and tables of
objects are collected in blocks of images; their ``concat`` puts the columns of the blocks one below
the other with `joined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import chain, pairwise
from numbers import Real
from threading import get_ident
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

F64 = NDArray[np.float64]  # coordinates, scores, similarities, estimates
F32 = NDArray[np.float32]  # maps as they are stored
I64 = NDArray[np.int64]  # offsets, rows, weights
I32 = NDArray[np.int32]  # class codes, ranks
I8 = NDArray[np.int8]  # fates
U8 = NDArray[np.uint8]  # pixels, bits
U64 = NDArray[np.uint64]  # hashes, packed bits
Flags = NDArray[np.bool_]
Array = NDArray[Any]  # any number type; the function says which
Column = NDArray[Any]  # one entry per row: text codes or numbers
Made = TypeVar("Made")

UNEQUAL = "rows of different lengths"  # why lists are no array


class BlockCache:
    """What was computed under the last block of weights, of every thread.

    Blocks are told apart by identity: a thread works them off one after the other, and none is
    ever changed. What one thread computes never stands for the block of another.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[object, Any]] = {}

    def get(self, weights: object, compute: Callable[[], Made]) -> Made:
        """Return what was computed under these weights, or compute it."""
        thread = get_ident()
        last = self._last.get(thread)
        if last is None or last[0] is not weights:
            last = self._last[thread] = weights, compute()
        value: Made = last[1]
        return value


def joined(parts: Sequence[object], name: str, axis: int = 0) -> Any:
    """Return the arrays ``name`` of all parts, one below the other."""
    return np.concatenate([getattr(part, name) for part in parts], axis=axis)


def joined_columns(parts: Sequence[object], names: Iterable[str]) -> dict[str, Any]:
    """Return name -> the arrays of that name of all parts, as keywords of a constructor."""
    return {name: joined(parts, name) for name in names}


class Gathered:
    """Arrays one behind the other: each is copied when it comes, and can be forgotten then.

    Memory costs nothing before it is written to, so there is hardly more than one copy of
    everything at any time. Neighbouring slices of one array are not even copied: they are a larger
    slice of it.

    Parameters
    ----------
    room
        How many entries will come, if that is known; more of them are fine.
    dtype
        Of the result; else that of the first array.
    """

    def __init__(self, axis: int = 0, *, room: int = 0, dtype: DTypeLike | None = None) -> None:
        self.axis, self.room, self.dtype = axis, room, dtype
        self.end = 0
        self._slice: Array | None = None  # while all arrays are slices of one
        self._array: Array | None = None

    def add(self, part: Array, shift: int = 0) -> None:
        """Append an array; ``shift`` is added to its entries from 0 on."""
        if self.end and not part.shape[self.axis]:  # it has no address
            return
        first = self.end == 0 and self._array is None
        start, self.end = self.end, self.end + part.shape[self.axis]
        if not shift and (first or self._slice is not None) and self._extend(part):
            return
        before, self._slice = self._slice, None
        if before is not None:
            self._place(before, 0)
        place = self._place(part, start)
        if shift:
            place[place >= 0] += shift

    def result(self) -> Array:
        """Return all of them; what was room and stayed empty is cut off."""
        if self._slice is not None:
            return self._slice
        assert self._array is not None, "there is at least one array"
        whole = self._array[(slice(None),) * self.axis + (slice(0, self.end),)]
        is_contiguous = whole.flags.c_contiguous or whole.flags.f_contiguous
        return whole if is_contiguous else np.ascontiguousarray(whole)

    def _extend(self, part: Array) -> bool:
        """Return whether an array is the first slice of another one, or follows the last."""
        base, before = part.base, self._slice
        if not isinstance(base, np.ndarray) or not part.ndim == base.ndim == 1:
            return False
        if part.dtype != base.dtype or self.dtype not in (None, part.dtype):
            return False
        if not part.flags.c_contiguous or not base.flags.c_contiguous:
            return False
        start = (_address(part) - _address(base)) // base.itemsize
        if before is None:
            if len(part) == len(base):  # no slice, but all there is
                return False
            self._slice = base[start : start + len(part)]
            return True
        if before.base is not base or _address(before) + before.nbytes != _address(part):
            return False
        self._slice = base[start - len(before) : start + len(part)]
        return True

    def _place(self, part: Array, start: int) -> Array:
        """Copy an array to its place, and return that."""
        end = start + part.shape[self.axis]
        if self._array is None or end > self._array.shape[self.axis]:
            shape = list(part.shape)
            # A little more than twice as much, so that little is copied again and again.
            shape[self.axis] = max(self.room, 2 * end if start else end)
            # Kernels give tables of two dimensions entry by entry, and want them back like that.
            order: Literal["C", "F"] = "F" if part.flags.f_contiguous else "C"
            dtype = part.dtype if self.dtype is None else self.dtype
            larger = np.empty(shape, dtype, order)
            if self._array is not None:
                rows = (slice(None),) * self.axis + (slice(0, start),)
                larger[rows] = self._array[rows]
            self._array = larger
        place: Array = self._array[(slice(None),) * self.axis + (slice(start, end),)]
        place[...] = part
        return place


class FateRows(NDArrayOperatorsMixin):
    """Fates (V, n): the distinct rows (D, V), and which of them is that of every object.

    Under forty views the fates of an object are forty bytes, and those of ten million objects 400
    MB. But few of them differ: objects that nobody is near differ by their size alone, and others
    by the thresholds that they reach. This stands for the array of all fates. What is often asked
    for (one view, some objects) is read from the rows; whatever else is done, is done with that
    array.
    """

    dtype = np.dtype(np.int8)
    ndim = 2

    def __init__(self, rows: I8, place: I32) -> None:
        self.rows, self.place = rows, place

    @property
    def shape(self) -> tuple[int, int]:
        """Number of views, number of objects."""
        return self.rows.shape[1], len(self.place)

    @property
    def T(self) -> I8:
        """(n, V) the fates of all objects, as an array."""
        return self.rows[self.place]

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.T.T, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(one) if isinstance(one, FateRows) else one for one in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getitem__(self, key: Any) -> Any:
        """Return what the array has there: of one view an array, of some objects their rows."""
        views, objects = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(views, int | np.integer):
            return self.rows[:, views][self.place[objects]]
        if isinstance(views, slice | list) and isinstance(objects, slice | np.ndarray):
            return FateRows(np.ascontiguousarray(self.rows[:, views]), self.place[objects])
        return np.asarray(self)[key]


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def n_distinct(values: F64, most: int = 1 << 20) -> int:
    """Return how many different finite numbers there are.

    They are sorted, about ``most`` at a time: a sorted copy of millions of scores is large.
    """
    n_parts = -(-len(values) // most)
    sample = np.sort(values[:: max(1, n_parts)])
    inner = sample[np.arange(1, n_parts) * len(sample) // max(1, n_parts)]
    blocks = np.array_split(values, max(1, n_parts))  # flags of all values are large, too
    total = 0
    for low, high in pairwise([-np.inf, *np.unique(inner).tolist(), np.inf]):
        part = np.concatenate([block[(block >= low) & (block < high)] for block in blocks])
        part.sort()
        total += int(np.count_nonzero(part[1:] != part[:-1])) + (len(part) > 0)
    return total


def host_array(value: Any, dtype: DTypeLike | None = None, *, flags: bool = False) -> Array:
    """Return the array of whatever NumPy can read: lists, frames, tensors of any device.

    Parameters
    ----------
    flags
        Whether yes and no may stand among numbers, as 1 and 0.

    Raises
    ------
    ValueError
        If there is none, and why: `UNEQUAL`, or whatever the library of the value says.
    """
    # NumPy would drop the imaginary parts, with a warning that few see.
    if dtype is not None and "complex" in str(getattr(value, "dtype", "")):
        raise ValueError("complex numbers")
    # NumPy would read what is under a mask as if it were not masked.
    parts = value if isinstance(value, list | tuple) else [value]
    if parts and isinstance(parts[0], np.ma.MaskedArray) and any(map(np.ma.is_masked, parts)):
        raise ValueError("masked entries, which are not numbers")
    try:
        array = np.asarray(_on_host(value))
        is_sound = dtype is None or not array.size or _holds_numbers(array)
        # NumPy would read yes among numbers as 1.
        if is_sound and not flags and array.dtype.kind in "iuf":
            is_sound = not _holds_flags(value)
        if is_sound:
            return array if dtype is None else np.asarray(array, dtype)
    except Exception as error:  # libraries raise TypeError, RuntimeError, errors of their own
        if "inhomogeneous" in str(error):  # that is how NumPy says it
            raise ValueError(UNEQUAL) from None
        raise ValueError(f"{type(error).__name__}: {error}") from None
    raise ValueError("texts, dates, or yes and no, which are not numbers")


def _holds_numbers(array: Array) -> bool:
    """Return whether all entries are numbers: NumPy would also make some of texts and dates."""
    if array.dtype.kind != "O":
        return array.dtype.kind in "iufV"  # V: short floats of other libraries
    return all(isinstance(entry, Real | Decimal | np.number) for entry in array.flat) and not any(
        isinstance(entry, bool | np.bool_ | np.timedelta64) for entry in array.flat
    )


def _holds_flags(value: Any) -> bool:
    """Return whether yes or no stands somewhere in lists, or in arrays in them."""
    entries = value if isinstance(value, list | tuple) else ()
    while entries:
        kinds = set(map(type, entries))  # few, of millions of entries
        if kinds & {bool, np.bool_}:
            return True
        if np.ndarray in kinds and any(_kind(entry) == "b" for entry in entries):
            return True
        if not any(issubclass(kind, list | tuple) for kind in kinds):
            return False
        lists = (entry for entry in entries if isinstance(entry, list | tuple))
        entries = list(chain.from_iterable(lists))
    return False


def _kind(value: Any) -> str:
    return value.dtype.kind if isinstance(value, np.ndarray) else ""


def _on_host(value: Any) -> Any:
    """Return a tensor without its gradient and in the memory of the CPU; anything else as it is.

    NumPy can read neither tensors that require a gradient nor those of a GPU. Calipers does not
    import their libraries, so tensors are known by their methods.
    """
    if isinstance(value, list | tuple) and value and callable(getattr(value[0], "detach", None)):
        return [_on_host(entry) for entry in value]
    for name in ("detach", "cpu"):
        method = getattr(value, name, None)
        if callable(method):
            value = method()
    # NumPy has no such numbers; float32 holds them exactly.
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        return value.float()
    # Arrays that have DLPack alone would become an object; those of NumPy have both.
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value, device="cpu")
    return value
