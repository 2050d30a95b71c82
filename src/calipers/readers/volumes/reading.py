# SPDX-License-Identifier: Apache-2.0
"""`read_maps`: pair folders of label volumes and maps for `calipers.evaluate_maps`."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from calipers.readers.volumes.pairing import pair
from calipers.readers.volumes.sample_files import Pairing

PathName = str | PathLike[str]


def read_maps(
    references: PathName,
    predictions: Mapping[str, PathName] | PathName,
    *,
    images: PathName | None = None,
    groups: PathName | None = None,
    **choices: Any,
) -> Pairing:
    """Pair label images or volumes with maps of scores. Voxels are read one sample at a time, when
    they are used.

    Parameters
    ----------
    references, predictions
        Folders with a file per sample, paired by name; lists of files; or single files. Several
        models as a mapping.
    images
        The images themselves, for the pictures of the report.
    groups
        A table with a row per sample: patient, centre, any column.
    choices
        Further arguments of `calipers.readers.volumes.pair`: ``pattern``, ``reference_pattern``,
        ``missing``, ``resize``, ``member``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np, calipers as cal
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("labels", "maps"):
    ...     (folder / name).mkdir()
    >>> np.save(folder / "labels" / "case1.npy", np.eye(8, dtype=np.uint8))
    >>> np.save(folder / "maps" / "case1.npy", np.eye(8, dtype=np.float32))
    >>> samples = cal.read_maps(folder / "labels", {"ours": folder / "maps"})
    >>> print(cal.evaluate_maps(samples, ci=False)["AP/dataset"])
    1.000, n = 1 images, 1 references
    """
    pairing = pair(references, predictions, images, **choices)
    return pairing if groups is None else pairing.with_groups(groups)
