# SPDX-License-Identifier: Apache-2.0
"""`read_bags`: read the maps of several models of the same images from files.

A bag is one image with its instances. Headers are checked first; values are read one bag at a time.
"""

from calipers.readers.bags.file_bags import FileBags
from calipers.readers.bags.reading import read_bags

__all__ = ["FileBags", "read_bags"]
