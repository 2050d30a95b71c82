# SPDX-License-Identifier: Apache-2.0
"""Which file belongs to which image. Names are only looked up among the files of a folder, never
joined to a path.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from calipers.errors import InputError, shorten
from calipers.pictures.reading import PictureError, is_dicom, opened
from calipers.readers.listing import Listing, list_files
from calipers.tables import Cohort

EXTENSIONS = (
    ".nii",
    ".nii.gz",
    ".png",
    ".jpg",
    ".jpeg",
    ".bmp",
    ".tif",
    ".tiff",
    ".webp",
    ".dcm",
    ".dicom",
)
SEVERAL = ""  # in place of a path: the name fits more than one file


@dataclass(frozen=True, slots=True)
class PictureFiles:
    """The picture of every image that has one."""

    folder: str  # its name, for notes
    paths: tuple[str | None, ...]  # one per image
    several: int  # images whose name fits several files
    shared: int  # images that fit a file which fits other images too
    left: int  # links out of the folder
    closed: int  # folders that could not be read

    @classmethod
    def of(cls, folder: Path, cohort: Cohort) -> PictureFiles:
        """Pair the images of a cohort with the files below a folder.

        Notes
        -----
        The column ``file_name`` comes first, then the id of the image. Each is tried as a path
        below the folder, as a name in any of its folders, and as a name without its extension;
        first as it stands, then without regard to case and to how accents are encoded. A step that
        fits several files ends the search: nothing is guessed. A file that fits several images is
        given to none of them, unless they name its very path.

        Files are pictures by their extension, or by the mark of DICOM at byte 128.
        """
        return cls.named(folder, list(_names(cohort)))

    @classmethod
    def named(cls, folder: Path, images: Sequence[tuple[str, ...]]) -> PictureFiles:
        """Pair images, each with the names under which it may be found, with the files below a
        folder; see `of`.
        """
        folder = Path(folder)
        listing = list_files(folder, holds="pictures")
        search = _Search(listing)
        found = [search.find(names) for names in images]
        times = Counter(path for path, exact in found if path and not exact)
        times.update({path: 1 for path, exact in found if path and exact and path in times})
        shared = [not exact and path is not None and times[path] > 1 for path, exact in found]
        paths = tuple(
            path if path and not twice else None for (path, _), twice in zip(found, shared)
        )
        several = sum(path == SEVERAL for path, _ in found)
        made = cls(
            folder.name or folder.resolve().name,
            paths,
            several,
            sum(shared),
            listing.left,
            listing.closed,
        )
        if images and not any(paths):
            raise _nothing_fits(folder, images[0][0], listing, made)
        return made

    def path_of(self, image: int) -> Path | None:
        """Return the file of an image, by its index in the cohort."""
        path = self.paths[image]
        return None if path is None else Path(path)

    def notes(self) -> tuple[str, ...]:
        """Return what was found, in words."""
        found = len(self.paths) - self.paths.count(None)
        said = [f"{found} of {len(self.paths)} images have a picture in {self.folder}"]
        said += self._doubts()
        if self.left:
            said.append(f"{_times(self.left, 'link')} out of the folder not followed")
        if self.closed:
            said.append(f"{_times(self.closed, 'folder')} could not be read")
        return ("; ".join(said),)

    def _doubts(self) -> Iterator[str]:
        if self.several:
            yield f"{_times(self.several, 'name')} {'fits' if self.several == 1 else 'fit'} several files"
        if self.shared:
            yield f"{_times(self.shared, 'image')} would share files with others"


def _times(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _names(cohort: Cohort) -> Iterator[tuple[str, ...]]:
    """Yield the names under which each image may be found."""
    ids, column = cohort.images.ids, cohort.images.groups.get("file_name")
    if column is None:
        yield from ((image,) for image in ids)
        return
    for name, image in zip(column.tolist(), ids):
        yield (str(name), image) if name and str(name) != image else (image,)


def _nothing_fits(folder: Path, name: str, listing: Listing, made: PictureFiles) -> InputError:
    pictures = [file for file in listing.files if _stem(file.rpartition("/")[2]) is not None]
    more = f" and {len(pictures) - 1} more" if len(pictures) > 1 else ""
    got = f"{pictures[0]}{more}" if pictures else "no picture"
    doubts = "; ".join(made._doubts())
    hint = "a file is found by the column file_name or by the id of its image, with or without extension"
    return InputError(
        f"a file for an image such as {shorten(name)}",
        rule="no-picture",
        file=str(folder),
        value=f"{got}; {doubts}" if doubts else got,
        hint=hint,
    )


def _stem(base: str) -> str | None:
    """Return a name without the extension of a picture; None if it has none."""
    if not base.lower().endswith(EXTENSIONS):
        return None
    return base[: -len(".nii.gz")] if base.lower().endswith(".nii.gz") else base.rpartition(".")[0]


def _tolerant(name: str) -> str:
    """Return a name without regard to case and to how accents are encoded."""
    return (
        name.lower()
        if name.isascii()
        else unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    )


@dataclass(frozen=True)
class _Search:
    """The files of a folder under all their names; tables are made when they are first needed."""

    listing: Listing
    marks: dict[str, bool] = field(
        default_factory=dict
    )  # of files without extension: whether they are DICOM

    def find(self, names: Iterable[str]) -> tuple[str | None, bool]:
        """Return the real path for the first name that fits, or SEVERAL; and whether a name is its
        very path.
        """
        for name in names:
            whole = name.replace("\\", "/").removeprefix("./")
            exact = self.listing.files.get(whole)
            if exact is not None and self._is_picture(exact, whole):
                return exact, True
            for found in self._fits(whole):
                if found == SEVERAL or self._is_picture(found, whole):
                    return found, False
        return None, False

    def _fits(self, whole: str) -> Iterator[str]:
        """Yield what fits a name, most exact first; the tolerant tables are only made if nothing
        else fits.
        """
        base = whole.rpartition("/")[2]
        if base != whole and (found := self._loose_paths.get(_tolerant(whole))) is not None:
            yield found
        for table in self._exact:
            if (found := table.get(base)) is not None:
                yield found
        loose = _tolerant(base)
        for table in self._loose:
            if (found := table.get(loose)) is not None:
                yield found

    @cached_property
    def _loose_paths(self) -> Mapping[str, str]:
        return _table((_tolerant(name), path) for name, path in self.listing.files.items())

    @cached_property
    def _exact(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Files by their names, and by their names without extension."""
        names = [(name.rpartition("/")[2], path) for name, path in self.listing.files.items()]
        return _table(names), _table(
            (stem, path) for base, path in names if (stem := _stem(base)) is not None
        )

    @cached_property
    def _loose(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        names = [
            (_tolerant(name.rpartition("/")[2]), path) for name, path in self.listing.files.items()
        ]
        return _table(names), _table(
            (stem, path) for base, path in names if (stem := _stem(base)) is not None
        )

    def _is_picture(self, path: str, name: str) -> bool:
        if path.lower().endswith(EXTENSIONS) or name.lower().endswith(EXTENSIONS):
            return True
        if path not in self.marks:
            try:
                with opened(Path(path)) as file:
                    self.marks[path] = is_dicom(file)
            except (PictureError, OSError):
                self.marks[path] = False
        return self.marks[path]


def _table(names: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return name -> path, SEVERAL where a name stands for different files."""
    found: dict[str, str] = {}
    for name, path in names:
        if found.setdefault(name, path) != path:
            found[name] = SEVERAL
    return found
