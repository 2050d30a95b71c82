# SPDX-License-Identifier: Apache-2.0
"""Which file below a folder is the picture of an image: `PictureFiles`.

A folder and the names of images come in, a path per image and notes on those without one go out.
Names are only looked up among the files of the folder, never joined to a path, so that a name
cannot lead out of it. Called by the album of a report, by the page of stability, and by the
command line before a long run.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from calipers.data.cohort import Cohort
from calipers.errors import InputError, shorten
from calipers.io.source import Listing, list_files, open_regular
from calipers.pictures.pixels import PictureError, is_dicom, open_picture_file

FORMATS = ("nifti", "picture", "dicom")  # what a picture may be
SLOT = "{name}"  # in a pattern, for the name of an image
MOST_COPIES = 5  # pairs that a note names
STEP = 1 << 20  # bytes that are read at once
END = 4096  # bytes at the beginning and at the end that are compared first
SEVERAL = ""  # in place of a path: the name fits more than one file


@dataclass(frozen=True, slots=True)
class PictureFiles:
    """The picture of every image that has one."""

    folder: str  # its name, for notes
    paths: tuple[str | None, ...]  # one per image
    several: int  # images whose name matches several files
    shared: int  # images that match a file which matches other images too
    left: int  # links out of the folder
    closed: int  # folders that could not be read

    @classmethod
    def of(cls, folder: Path, cohort: Cohort) -> PictureFiles:
        """Pair the images of a cohort with the files below a folder.

        Notes
        -----
        ``folder`` may end in a pattern such as ``scans/{name}_ct.png``: then only files that are
        called so, with the id or the name of the file of an image in place of ``{name}``, are its
        picture.

        The column ``file_name`` is tried first, then the id of the image. Each is tried as a path
        below the folder, as a name in any of its folders, and as a name without its extension;
        first exactly, then without regard to case and to how accents are encoded. A step that
        matches several files ends the search: nothing is guessed. A file that matches several
        images is used for none of them, unless they name its exact path.

        Files are pictures by their extension, or by the mark of DICOM at byte 128.
        """
        folder, pattern = split_pattern(Path(folder))
        names = list(_names(cohort))
        if pattern:
            names = [_by_pattern(pattern, of_image) for of_image in names]
        return cls.from_names(folder, names)

    @classmethod
    def from_names(cls, folder: Path, images: Sequence[tuple[str, ...]]) -> PictureFiles:
        """Pair images, each with the names that its file may have, with the files below a folder;
        see `of`.
        """
        folder = Path(folder)
        listing = list_files(folder, holds="pictures")
        search = _Search(listing)
        matches = [search.find(names) for names in images]
        uses = Counter(path for path, exact in matches if path and not exact)
        # Images that name the exact path of a file count once, however many they are.
        uses.update({path for path, exact in matches if path and exact and path in uses})
        paths: list[str | None] = []
        several = shared = 0
        for path, exact in matches:
            is_shared = not exact and path is not None and uses[path] > 1
            several += path == SEVERAL
            shared += is_shared
            paths.append(path if path and not is_shared else None)
        files = cls(
            folder.name or folder.resolve().name,
            tuple(paths),
            several,
            shared,
            listing.left,
            listing.closed,
        )
        # Not a single picture: the folder is the wrong one, or names differ in a way that the user
        # should hear about at once.
        if images and not any(paths):
            raise _no_picture(folder, images[0][0], listing, files)
        return files

    def path_of(self, image: int) -> Path | None:
        """Return the file of an image, by its index in the cohort."""
        path = self.paths[image]
        return None if path is None else Path(path)

    def notes(self) -> tuple[str, ...]:
        """Return how many images have a picture, and why others have none."""
        n_pictures = len(self.paths) - self.paths.count(None)
        parts = [f"{n_pictures} of {len(self.paths)} images have a picture in {self.folder}"]
        parts += self._doubts()
        if self.left:
            parts.append(f"{_count_text(self.left, 'link')} out of the folder not followed")
        if self.closed:
            parts.append(f"{_count_text(self.closed, 'folder')} could not be read")
        return ("; ".join(parts), *self.copies())

    def copies(self) -> tuple[str, ...]:
        """Return a note on images whose pictures are the same, byte by byte.

        Slices of one volume share its file, which is no copy. Only files of one size are opened,
        and most of those differ at their ends.
        """
        names = dict.fromkeys(path for path in self.paths if path)
        groups = [list(names)]
        for trait in (_length, _ends, _content):
            groups = [part for group in groups for part in _alike(group, trait)]
        if not groups:
            return ()
        n_copies = sum(len(group) - 1 for group in groups)
        pairs = []
        for group in groups[:MOST_COPIES]:
            pairs.append(" and ".join(shorten(Path(path).name) for path in group[:3]))
        more = "" if len(groups) <= MOST_COPIES else ", ..."
        verb = "is a copy" if n_copies == 1 else "are copies"
        return (
            f"{_count_text(n_copies, 'picture')} {verb} of another, byte by byte: "
            f"{', '.join(pairs)}{more}; copies make intervals too narrow",
        )

    def _doubts(self) -> Iterator[str]:
        if self.several:
            verb = "matches" if self.several == 1 else "match"
            yield f"{_count_text(self.several, 'name')} {verb} several files"
        if self.shared:
            yield f"{_count_text(self.shared, 'image')} would share files with others"


@dataclass(frozen=True)
class _Search:
    """The files of a folder under all their names; tables are made when they are first needed."""

    listing: Listing
    # Of files without extension: whether they are DICOM.
    marks: dict[str, bool] = field(default_factory=dict)

    def find(self, names: Iterable[str]) -> tuple[str | None, bool]:
        """Return the real path for the first name that matches, or SEVERAL; and whether the name is
        its exact path.
        """
        for name in names:
            # Tables written on Windows have backslashes.
            below = name.replace("\\", "/").removeprefix("./")
            exact = self.listing.files.get(below)
            if exact is not None and self._is_picture(exact, below):
                return exact, True
            for path in self._candidates(below):
                if path == SEVERAL or self._is_picture(path, below):
                    return path, False
        return None, False

    def _candidates(self, below: str) -> Iterator[str]:
        """Yield the paths that match a name, most exact first.

        It is a generator so that the tolerant tables are only made if nothing else matches.
        """
        base = below.rpartition("/")[2]
        if base != below and (path := self._loose_paths.get(_folded_name(below))) is not None:
            yield path
        for table in self._exact:
            if (path := table.get(base)) is not None:
                yield path
        loose = _folded_name(base)
        for table in self._loose:
            if (path := table.get(loose)) is not None:
                yield path

    @cached_property
    def _loose_paths(self) -> Mapping[str, str]:
        return _table((_folded_name(name), path) for name, path in self.listing.files.items())

    @cached_property
    def _exact(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Files by their names, and by their names without extension."""
        names = [(name.rpartition("/")[2], path) for name, path in self.listing.files.items()]
        return _table(names), _stem_table(names)

    @cached_property
    def _loose(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        names = []
        for name, path in self.listing.files.items():
            names.append((_folded_name(name.rpartition("/")[2]), path))
        return _table(names), _stem_table(names)

    def _is_picture(self, path: str, name: str) -> bool:
        if path.lower().endswith(_extensions()) or name.lower().endswith(_extensions()):
            return True
        # Files of DICOM often have no extension; each is opened once.
        if path not in self.marks:
            try:
                with open_picture_file(Path(path)) as file:
                    self.marks[path] = is_dicom(file)
            except (PictureError, OSError):
                self.marks[path] = False
        return self.marks[path]


def _alike(paths: list[str], trait: Callable[[Path], object]) -> list[list[str]]:
    """Return the files that share a trait with others; what cannot be read has none."""
    groups: dict[object, list[str]] = {}
    for path in paths:
        try:
            value = trait(Path(path))
        except (OSError, InputError):
            continue
        if value is not None:
            groups.setdefault(value, []).append(path)
    return [group for group in groups.values() if len(group) > 1]


def _length(path: Path) -> int | None:
    """Return the length of a regular file that is not empty."""
    status = path.stat()
    return status.st_size or None if stat.S_ISREG(status.st_mode) else None


def _ends(path: Path) -> bytes:
    with open_regular(path, follow=True) as file:
        head = file.read(END)
        file.seek(max(0, os.fstat(file.fileno()).st_size - END))
        return head + file.read(END)


def _content(path: Path) -> str:
    with open_regular(path, follow=True) as file:
        digest = hashlib.sha256()
        while step := file.read(STEP):
            digest.update(step)
        return digest.hexdigest()


def _table(names: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return name -> path, SEVERAL where a name stands for different files."""
    paths: dict[str, str] = {}
    for name, path in names:
        if paths.setdefault(name, path) != path:
            paths[name] = SEVERAL
    return paths


def _stem_table(names: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return the same for the names of pictures without their extension."""
    stems = []
    for name, path in names:
        stem = _stem(name)
        if stem is not None:
            stems.append((stem, path))
    return _table(stems)


def _extensions() -> tuple[str, ...]:
    """Return how names of pictures end."""
    # Late, as all readers of volumes: most pages have no folder of pictures.
    from calipers.io.volumes.open import extensions

    return extensions(*FORMATS)


def _stem(base: str) -> str | None:
    """Return a name without the extension of a picture; None if it has none."""
    lower = base.lower()
    extension = next((each for each in _extensions() if lower.endswith(each)), None)
    return None if extension is None else base[: -len(extension)]


def _count_text(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _names(cohort: Cohort) -> Iterator[tuple[str, ...]]:
    """Yield the names that the file of each image may have."""
    ids, column = cohort.images.ids, cohort.images.groups.get("file_name")
    if column is None:
        yield from ((image,) for image in ids)
        return
    for name, image in zip(column.tolist(), ids):
        yield (str(name), image) if name and str(name) != image else (image,)


def split_pattern(place: Path) -> tuple[Path, str]:
    """Return the folder and the pattern of ``folder/{name}.png``; a folder alone has none."""
    parts = place.parts
    first = next((k for k, part in enumerate(parts) if SLOT in part), None)
    if first is None:
        return place, ""
    return Path(*parts[:first]), "/".join(parts[first:])


def _by_pattern(pattern: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that the file of an image may have by a pattern."""
    candidates = []
    for name in names:
        for word in (_stem(name) or name, name):
            candidates.append(pattern.replace(SLOT, word))
    return tuple(dict.fromkeys(candidates))


def _no_picture(folder: Path, name: str, listing: Listing, files: PictureFiles) -> InputError:
    pictures = [file for file in listing.files if _stem(file.rpartition("/")[2]) is not None]
    more = f" and {len(pictures) - 1} more" if len(pictures) > 1 else ""
    parts = [f"{pictures[0]}{more}" if pictures else "no picture", *files._doubts()]
    hint = (
        "files are found by the column file_name or by the id of their image, "
        "with or without extension"
    )
    return InputError(
        f"a file for an image such as {shorten(name)}",
        rule="no-picture",
        file=str(folder),
        value="; ".join(parts),
        hint=hint,
    )


def _folded_name(name: str) -> str:
    """Return a name without regard to case and to how accents are encoded."""
    if name.isascii():
        return name.lower()
    # Folding can decompose letters again, hence the second normalisation.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
