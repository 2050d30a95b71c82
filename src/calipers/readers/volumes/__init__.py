# SPDX-License-Identifier: Apache-2.0
"""Read arrays, images and volumes. Headers are read first and voxels on demand; files of folders
are paired by name.
"""

from calipers.readers.volumes.agreement import check_pair
from calipers.readers.volumes.limits import Limits
from calipers.readers.volumes.opening import open_volume
from calipers.readers.volumes.pairing import pair
from calipers.readers.volumes.reading import read_maps
from calipers.readers.volumes.sample_files import Pairing, SampleFiles
from calipers.readers.volumes.values import as_labels, as_map
from calipers.readers.volumes.volume import Volume
from calipers.readers.volumes.writing import write_volume

__all__ = [
    "Limits",
    "Pairing",
    "SampleFiles",
    "Volume",
    "as_labels",
    "as_map",
    "check_pair",
    "open_volume",
    "pair",
    "read_maps",
    "write_volume",
]
