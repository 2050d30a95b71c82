"""Buffers of other lengths than a compiled kernel was promised."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from calipers.kernels import route


def taken_at_other_lengths(
    name: str, arguments: tuple[Any, ...], longer_will_do: Collection[int] = ()
) -> list[int]:
    """Return which arrays a kernel does not refuse if they are shorter or, with exceptions, longer
    by one.
    """
    kernel = getattr(route.native(), name)
    kernel(*arguments)
    taken = []
    for k, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            flat = argument.reshape(-1)
            others = [
                flat[:-1].copy(),
                *([] if k in longer_will_do else [np.append(flat, flat[-1:])]),
            ]
            taken += [
                k
                for other in others
                if not _refuses(kernel, (*arguments[:k], other, *arguments[k + 1 :]))
            ]
    return taken


def _refuses(kernel: Callable[..., object], arguments: tuple[Any, ...]) -> bool:
    try:
        kernel(*arguments)
    except ValueError as error:
        return "lengths do not fit" in str(error)
    return False
