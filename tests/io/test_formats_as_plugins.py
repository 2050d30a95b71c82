# SPDX-License-Identifier: Apache-2.0
"""Formats as plug-ins: one file and one line each,
and formats of other packages as entry points.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import calipers as cal
from calipers import io, registry
from calipers.errors import InputError, PluginError
from calipers.io.reader import Reader, Sniffed, readers
from calipers.io.source import open_input
from calipers.io.tables.objects import TableReader
from calipers.io.tables.table import FileTable
from calipers.io.volumes.open import extensions, open_volume, stem_of, volume_readers
from calipers.io.volumes.volume import Request, Volume, VolumeReader

NAMES = ("image", "class", "x0", "y0", "x1", "y1", "score")
REFERENCES = "#lines\na nodule 0 0 10 10\nb nodule 5 5 20 20\n"
PREDICTIONS = "#lines\na nodule 0 0 10 9 0.9\nb nodule 40 40 50 50 0.4\n"


class LinesReader(TableReader):
    """Lines of words below a first line ``#lines``."""

    name = "lines"

    def sniff(self, file):
        if file.head.startswith("#lines"):
            return Sniffed(self.name, "unknown", "it begins with #lines")
        return None

    def table(self, file):
        rows = [line.split() for line in bytes(file.data).decode().splitlines()[1:]]
        columns = {name: [row[k] for row in rows] for k, name in enumerate(NAMES[: len(rows[0])])}
        return FileTable(
            file.file, self.name, columns, np.arange(2, len(rows) + 2), True, source=file
        )


class GreedyReader(LinesReader):
    """A format that takes every JSON file for its own."""

    name = "greedy"
    roles = ("references",)

    def sniff(self, file):
        return Sniffed(self.name, "references", "JSON") if file.head[:1] == "{" else None


class FailingReader(LinesReader):
    name = "failing"

    def sniff(self, file):
        raise KeyError("oops")


class EmptyHandedReader(LinesReader):
    name = "empty-handed"

    def references(self, file, options):
        return None


class HalfReader(Reader):
    """A format that declares both roles and reads neither."""

    name = "half"

    def sniff(self, file):
        return Sniffed(self.name, "unknown", "#half") if file.head.startswith("#half") else None


class ScansReader(VolumeReader):
    """Two bytes of width and height, then pixels, below the mark SCAN."""

    name, title, extensions = "scan", "SCAN", (".scan.bin",)

    def recognises(self, name, head):
        return head.startswith(b"SCAN")

    def open(self, request: Request) -> Volume:
        content = request.path.read_bytes()
        pixels = np.frombuffer(content[6:], np.uint8).reshape(content[5], content[4])
        return Volume(request.file, "scan", pixels.shape, pixels.dtype, partial(np.array, pixels))


class NothingReader(ScansReader):
    name, extensions = "nothing", (".nothing",)

    def open(self, request):
        return None


Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Pretend that packages with these entry points are installed."""
    entries: list[importlib.metadata.EntryPoint] = []

    def forget() -> None:
        for function in (registry.plugins, registry.reader, extensions):
            function.cache_clear()

    def entry_points(*, group: str) -> list[importlib.metadata.EntryPoint]:
        return [entry for entry in entries if entry.group == group]

    def add(group: str, **names: str) -> None:
        for name, value in names.items():
            value = value if ":" in value else f"{__name__}:{value}"
            entries.append(importlib.metadata.EntryPoint(name.replace("_", "-"), value, group))
        forget()

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    forget()
    yield add
    monkeypatch.undo()
    forget()


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_a_format_of_another_package_is_listed_sniffed_and_read(install, files) -> None:
    install("calipers.readers", lines="LinesReader")
    references, predictions = files("r.lines", REFERENCES), files("p.lines", PREDICTIONS)
    assert "lines" in registry.known("format")
    assert "lines" in [reader.name for reader in readers()]
    assert cal.sniff(references) == Sniffed("lines", "unknown", "it begins with #lines")
    for name in (None, "lines"):
        cohort = cal.read(references, {"ours": predictions}, format=name)
        assert cohort.images.ids == ("a", "b")
        assert cohort.models["ours"].score.tolist() == [0.9, 0.4]
        assert {file.format for file in cohort.intake.files} == {"lines"}


def test_its_records_obey_the_rules_of_all_formats(install, files) -> None:
    install("calipers.readers", lines="LinesReader")
    broken = files("r.lines", REFERENCES.replace("10 10", "-5 10"))
    with pytest.raises(InputError) as error:
        cal.read(broken)
    assert (error.value.rule, error.value.location) == ("neg-size", "2:3")


def test_formats_of_others_are_asked_first(install, files) -> None:
    path = files("a.json", '{"images": []}')
    assert cal.sniff(path).format == "coco"
    install("calipers.readers", greedy="GreedyReader")
    assert cal.sniff(path).format == "greedy"


def test_a_list_of_references_is_no_predictions(install, files) -> None:
    install("calipers.readers", lines="LinesReader", greedy="GreedyReader")
    references = files("r.lines", REFERENCES)
    with pytest.raises(InputError, match="greedy") as error:
        cal.read(references, files("p.json", "{}"))
    assert error.value.rule == "score-missing"


def test_an_unknown_name_is_answered_with_the_nearest(install, files) -> None:
    install("calipers.readers", lines="LinesReader")
    with pytest.raises(InputError, match="did you mean 'lines'") as error:
        cal.read(files("r.lines", REFERENCES), format="line")
    assert error.value.rule == "format"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("absent", "no_such_package:Reader", "ModuleNotFoundError"),
        ("missing", "calipers.io.reader:NoSuchReader", "AttributeError"),
        ("object", "calipers.io.reader:readers", "not a subclass of Reader"),
        ("renamed", "LinesReader", "its reader is called 'lines'"),
        ("failing", "FailingReader", "KeyError"),
        ("coco", "LinesReader", "the name of another one"),
    ],
)
def test_a_broken_plugin_is_named(install, files, name, value, reason) -> None:
    install("calipers.readers", **{name: value})
    with pytest.raises(PluginError, match=f"the format '{name}' of .*{reason}"):
        cal.read(files("r.csv", "image,class,x0,y0,x1,y1\na,b,0,0,1,1\n"))


def test_a_plugin_that_returns_nothing_is_named(install, files) -> None:
    install("calipers.readers", empty_handed="EmptyHandedReader")
    with pytest.raises(PluginError, match=r"'empty-handed'.*no ReferenceFile"):
        cal.read(files("r.lines", REFERENCES))


def test_a_plugin_without_the_method_of_a_role_is_named(install, files) -> None:
    install("calipers.readers", half="HalfReader", lines="LinesReader")
    half = files("r.half", "#half\n")
    with pytest.raises(PluginError, match=r"'half'.*HalfReader.*no method references\(\)"):
        cal.read(half)
    with pytest.raises(PluginError, match=r"'half'.*HalfReader.*no method predictions\(\)"):
        cal.read(files("r.lines", REFERENCES), half)


def test_a_volume_reader_goes_by_the_extension_unless_it_looks_for_a_mark() -> None:
    class Plain(ScansReader):
        recognises = VolumeReader.recognises

    assert Plain().recognises("one.scan.bin", b"")
    assert not Plain().recognises("one.bin", b"SCAN")


def test_named_formats_of_ours_ask_nobody(install, files) -> None:
    install("calipers.readers", absent="no_such_package:Reader")
    refs = files("r.csv", "image,class,x0,y0,x1,y1\na,b,0,0,1,1\n")
    assert cal.read(refs, format="csv").n_images == 1


def test_a_volume_format_of_another_package(install, files) -> None:
    path = files("one.scan.bin", b"SCAN\x03\x02" + bytes(range(6)))
    with pytest.raises(InputError) as error:
        open_volume(path)
    assert error.value.rule == "volume-format"
    install("calipers.volumes", scan="ScansReader")
    assert open_volume(path).read().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert stem_of("folder/one.scan.bin") == "folder/one"
    assert "scan" in [reader.name for reader in volume_readers()]


def test_a_volume_reader_that_returns_nothing_is_named(install, files) -> None:
    install("calipers.volumes", nothing="NothingReader")
    with pytest.raises(PluginError, match=r"'nothing'.*no Volume"):
        open_volume(files("one.nothing", b"SCAN"))


def test_importing_looks_for_no_plugin() -> None:
    """Entry points are read when a file is, so that import and help stay quick."""
    import subprocess
    import sys

    code = (
        "import sys, calipers, calipers.io.read, calipers.cli.main as m; "
        "print('importlib.metadata' in sys.modules)"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert lines.stdout.strip() == "False"


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(io.__path__, "calipers.io."):
        yield importlib.import_module(info.name)


@pytest.mark.parametrize(
    ("base", "table"), [(Reader, registry.FORMATS), (VolumeReader, registry.VOLUMES)]
)
def test_one_line_per_format(base, table) -> None:
    """Every reader of ours is in the registry under its name, and nothing else is."""
    classes = {}
    for module in _modules():
        for member in vars(module).values():
            is_reader = isinstance(member, type) and issubclass(member, base)
            if is_reader and hasattr(member, "name") and member.__module__ == module.__name__:
                classes[member.name] = f"{module.__name__}:{member.__name__}"
    assert classes == table


@pytest.mark.parametrize(
    "module", ["io/read.py", "io/reader.py", "io/assemble.py", "io/volumes/open.py"]
)
def test_one_file_per_format(module: str) -> None:
    """What chooses a reader names no format and no extension."""
    names = {*registry.FORMATS, *registry.VOLUMES, *extensions()}
    tree = ast.parse((Path(cal.__file__).parent / module).read_text(encoding="utf-8"))
    literals = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not literals & names


def test_detection_loads_only_readers_whose_marks_a_file_has(tmp_path: Path) -> None:
    path = tmp_path / "references.json"
    path.write_text('{"images": [], "annotations": [], "categories": []}')
    code = (
        "import sys, calipers as cal\n"
        f"print(cal.sniff({str(path)!r}).format)\n"
        "print(*(name for name in sys.modules if name.startswith('calipers.io.')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    name, modules = done.stdout.splitlines()
    assert name == "coco"
    others = {line.partition(":")[0] for line in registry.FORMATS.values()}
    assert others & set(modules.split()) == {"calipers.io.coco.plugin"}


MARKED_FILES = {
    "dicom-sr": b"\0" * 128 + b"DICM" + b"1.2.840.10008.5.1.4.1.1.88.11",
    "lidc": b"SQLite format 3\0 CREATE TABLE scans",
    "parquet": b"PAR1",
    "labelme": b'{"version": "5", "flags": {}, "shapes": [], "imagePath": "a.png"}',
    "label-studio": b'[{"data": {"image": "a"}, "annotations": []}]',
    "ultralytics": b'[{"name": "a", "class": 0, "box": {"x1": 0}}]',
    "torchvision": b'{"a": {"boxes": [], "labels": [], "scores": []}}',
    "detectron2": b'[{"image_id": 1, "instances": []}]',
    "grand-challenge": b'[{"inputs": [], "outputs": []}]',
    "json-rows": b'[{"image": "a", "XMin": 1, "YMin": 2, "XMax": 3, "YMax": 4}]',
}


@pytest.mark.parametrize("name", registry.MARKS)
def test_marks_hide_no_format_that_a_reader_would_recognise(tmp_path: Path, name: str) -> None:
    if not registry.MARKS[name]:
        assert "file" not in next(one for one in readers() if one.name == name).inputs
        return
    path = tmp_path / "a"
    path.write_bytes(MARKED_FILES[name])
    file = open_input(str(path))
    by_marks = [reader.name for reader in readers(file)]
    assert name in by_marks
    recognised = [r.name for r in readers() if "file" in r.inputs and r.sniff(file) is not None]
    assert recognised[0] == name
    assert set(recognised) <= set(by_marks)
