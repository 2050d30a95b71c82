"""Buffers of other lengths than a compiled kernel was promised."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from calipers.kernels import route


def refuses_other_lengths(name: str, arguments: tuple[Any, ...], longer_will_do: Collection[int] = ()) -> None:
    """Check that a kernel takes its arguments, and none of its arrays shorter or, with exceptions, longer by one."""
    kernel = getattr(route.native(), name)
    kernel(*arguments)
    for k, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            flat = argument.reshape(-1)
            for other in [flat[:-1].copy(), *([] if k in longer_will_do else [np.append(flat, flat[-1:])])]:
                with pytest.raises(ValueError, match="lengths do not fit"):
                    kernel(*arguments[:k], other, *arguments[k + 1 :])
