# SPDX-License-Identifier: Apache-2.0
"""Maps of several models of the same images, from files: `read_bags`. Headers first, values one bag
at a time.
"""

from calipers.readers.bags.file_bags import FileBags
from calipers.readers.bags.reading import read_bags

__all__ = ["FileBags", "read_bags"]
