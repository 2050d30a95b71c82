"""The files of annotation tools under attack: each with a judge that counts objects in another way.

`fuzz.targets` lists these targets with the others.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.dom import expatbuilder

import numpy as np
from PIL import Image

import calipers as cal
from annotation_cases import (
    CVAT,
    LABELME,
    PAINTED_BRUSH,
    PAINTED_PNG,
    RECTANGLE,
    VOC,
    YOLO_LABELS,
    YOLO_NAMES,
    labelme,
    labelme_shape,
    put,
    region,
    task,
    yolo_data,
)
from fuzz import mutate, peers, tool_peers
from fuzz.mutate import Random
from fuzz.peers import agrees
from fuzz.targets import Target

SCORED = "0 0.5 0.5 0.2 0.25 0.9\n1 0.1 0.1 0.1 0.1 0.2\n"
PREDICTIONS = [{"score": 0.5, "result": [region("polyp", RECTANGLE)]}]
RESULTS = "000001 0.9 48 240 195 371\n000001 0.25 1 1 10 10\n"
BRUSH = region(
    "polyp",
    {"format": "rle", "rle": PAINTED_BRUSH},
    "brushlabels",
    original_width=4,
    original_height=2,
)
TURNED = {**RECTANGLE, "rotation": 30}
OUTLINE = region(
    "polyp", {"points": [[10, 20], [30, 25], [20, 60]], "closed": True}, "polygonlabels", id="r3"
)
ELLIPSE = region(
    "flat",
    {"x": 50, "y": 50, "radiusX": 10, "radiusY": 20, "rotation": 60},
    "ellipselabels",
    id="r4",
)
EXPORT = json.dumps(
    [
        task("a.png", [region("polyp", RECTANGLE)], predictions=PREDICTIONS),
        task("b.png", [BRUSH]),
        task("c.png", [region("polyp", TURNED, id="r2"), OUTLINE, ELLIPSE]),
    ]
)
MASK = labelme_shape("polyp", [[1, 2], [4, 3]], "mask", mask=PAINTED_PNG)

OUTLINES = (
    labelme_shape("polyp", [[1.5, 2], [21.5, 2], [21.5, 12]]),
    labelme_shape("vessel", [[50, 40], [60, 44], [52, 60]], group_id=1),
    labelme_shape("vessel", [[70, 40], [80, 44], [72, 60]], group_id=1),
)
PAINTED = json.dumps([task("b.png", [BRUSH]), task("c.png", [OUTLINE])])

Damage = Callable[[Random], bytes]


def of_words(text: str) -> Damage:
    def damage(rng: Random) -> bytes:
        if rng.random() < 0.3:
            return mutate.of_bytes(rng, text.encode())
        return mutate.of_text(rng, text).encode("utf-8", "surrogatepass")

    return damage


def of_json_text(text: str) -> Damage:
    return lambda rng: mutate.of_json(rng, text.encode())


def _of_markup(text: str) -> Damage:
    """Words between tags are replaced, so that most files stay XML."""
    spaced = text.replace(">", "> ").replace("<", " <")
    return of_words(spaced.lstrip())


def is_lenient(content: bytes) -> bool:
    # Every third input, the same ones in every run.
    return len(content) % 3 == 0


def sniff_some(path: Path, content: bytes) -> None:
    """Ask for the format of every fifth input: reading asks as well, in the same way."""
    if len(content) % 5 == 0:
        cal.sniff(path)


def same_size(cohort: Any, k: int, sides: tuple[Any, Any]) -> None:
    """The k-th image has the width and height that the file says, or none if it says none."""
    size = cohort.images.size[k].tolist()
    if all(side is not None for side in sides):
        assert size == [float(side) for side in sides], f"{size}, but the file says {sides}"


def _xml_count(content: bytes, path: str) -> int:
    # Without namespaces, as the readers: `:_order` is the name of an attribute then, as any other.
    found = [expatbuilder.parseString(content, namespaces=False).documentElement]
    for tag in path.split("/"):
        children = [child for element in found for child in element.childNodes]
        found = [child for child in children if getattr(child, "tagName", None)]
        if tag != "*":
            found = [child for child in found if child.tagName == tag]
    return len(found)


def annotations(folder: Path) -> Iterator[Target]:
    """Readers of XML, JSON and text files of annotation tools."""

    def read(
        name: str, place: str, *more: str, voc: bool = False, masks: str = "auto"
    ) -> Callable[..., Any]:
        def run(content: bytes, folder: Path) -> Any:
            if place == "yolo" and not (folder / place).exists():
                yolo_data(folder / place)
            if voc and not (folder / place).exists():
                put(folder / place, {"000001.xml": VOC})
            put(folder, {name: content})
            files = [folder / part for part in (place, *more)]
            sniff_some(files[-1], content)
            lenient = is_lenient(content)
            return cal.read(*files, lenient=lenient, allow_loss=1.0, masks=masks)

        return run

    def judge_masks(peer: Callable[[bytes], list[Any]]) -> Callable[[bytes, Any], None]:
        def judge(content: bytes, cohort: Any) -> None:
            peers.sound(cohort)
            wanted = peers.reading(peer, content, cohort)
            if wanted is not None:
                tool_peers.same_masks(cohort, wanted)

        return judge

    def records(content: bytes, cohort: Any, role: int = 0) -> int:
        """Records that were read, broken ones too."""
        account = cohort.intake.files[role]
        assert account.read == account.used + sum(account.quarantined.values())
        return int(account.read)

    def judge_voc(content: bytes, cohort: Any) -> None:
        assert records(content, cohort) == _xml_count(content, "object")
        agrees(peers.voc)(content, cohort)

    def judge_cvat(content: bytes, cohort: Any) -> None:
        shapes = _xml_count(content, "image/*")
        others = _xml_count(content, "image/tag") + _xml_count(content, "image/attribute")
        assert records(content, cohort) == shapes - others
        agrees(peers.cvat)(content, cohort)

    def judge_labelme(content: bytes, cohort: Any) -> None:
        shapes = json.loads(content.decode("utf-8-sig"))["shapes"]
        assert records(content, cohort) <= len(shapes)
        agrees(tool_peers.labelme)(content, cohort)
        document = json.loads(content.decode("utf-8-sig"))
        sides = document.get("imageWidth"), document.get("imageHeight")
        same_size(cohort, 0, sides)

    def judge_studio(content: bytes, cohort: Any) -> None:
        agrees(tool_peers.label_studio)(content, cohort)
        agrees(tool_peers.label_studio_predictions, model=True)(content, cohort)
        sizes = peers.reading(tool_peers.label_studio_sizes, content, cohort)
        if sizes is None:
            return
        for name, sides in sizes.items():
            same_size(cohort, cohort.images.ids.index(name), sides)

    def judge_lines(role: int, peer: peers.Peer) -> Callable[[bytes, Any], None]:
        def judge(content: bytes, cohort: Any) -> None:
            lines = content.decode("utf-8-sig").split("\n")
            assert records(content, cohort, role) == sum(1 for line in lines if line.split())
            agrees(peer, model=role == 1)(content, cohort)

        return judge

    yield Target("voc", _of_markup(VOC), read("voc/a.xml", "voc"), judge_voc)
    yield Target("cvat", _of_markup(CVAT), read("c.xml", "c.xml"), judge_cvat)
    text = labelme(*LABELME, MASK)
    yield Target("labelme", of_json_text(text), read("lm/a.json", "lm"), judge_labelme)
    yield Target(
        "labelme masks",
        of_json_text(labelme(*OUTLINES, MASK)),
        read("lmm/a.json", "lmm", masks="required"),
        judge_masks(tool_peers.labelme_masks),
    )
    yield Target(
        "label-studio masks",
        of_json_text(PAINTED),
        read("m.json", "m.json", masks="required"),
        judge_masks(tool_peers.label_studio_masks),
    )
    run = read("e.json", "e.json", "e.json")
    yield Target("label-studio", of_json_text(EXPORT), run, judge_studio)
    yield Target(
        "voc results",
        of_words(RESULTS),
        read("m/comp4_det_test_dog.txt", "sound", "m", voc=True),
        judge_lines(1, peers.voc_results),
    )
    run = read("yolo/labels/a.txt", "yolo")
    judge = judge_lines(0, peers.yolo(scored=False))
    yield Target("yolo", of_words(YOLO_LABELS), run, judge)
    yield Target("yolo names", of_words(YOLO_NAMES), read("yolo/data.yaml", "yolo"))
    lines = "polyp 10 20 30 40\nvessel 5 6 70 80 difficult\n"
    yield Target("text-boxes", of_words(lines), read("boxes/a.txt", "boxes"))
    yield from _binary(folder, read)
    run = read("run/a.txt", "yolo", "run")
    judge = judge_lines(1, peers.yolo(scored=True))
    yield Target("yolo predictions", of_words(SCORED), run, judge)


def _binary(folder: Path, read: Callable[..., Callable[..., Any]]) -> Iterator[Target]:
    """Label pictures, and reports of DICOM where the packages are there."""

    def damage(whole: bytes) -> Damage:
        return lambda rng: mutate.of_bytes(rng, whole)

    labels = np.zeros((12, 16), np.uint8)
    labels[2:5, 3:7], labels[7:10, 8:15] = 1, 2

    def damage_labels(rng: Random) -> bytes:
        changed = labels.copy()
        for _ in range(int(rng.integers(1, 6))):
            y, x = (int(rng.integers(side)) for side in labels.shape)
            changed[y : y + int(rng.integers(1, 4)), x : x + 2] = rng.integers(0, 4)
        stream = io.BytesIO()
        Image.fromarray(changed).save(stream, "PNG")
        whole = stream.getvalue()
        return mutate.of_bytes(rng, whole) if rng.random() < 0.5 else whole

    judge = agrees(tool_peers.label_picture)
    yield Target("label-volumes", damage_labels, read("l.png", "l.png", "l.png"), judge)
    for suffix in (".nii", ".mha", ".nrrd"):
        name, judge = f"l{suffix}", agrees(tool_peers.label_volume(suffix))
        damage_volume = _damaged_labels(folder / f"sound{suffix}")
        yield Target(f"label-volumes {suffix}", damage_volume, read(name, name, name), judge)
    try:
        # Here, because it skips whoever imports it where there is no pydicom.
        from dicom_cases import report, report_images

        corners = [[4, 6], [14, 6], [14, 16], [4, 16], [4, 6]]
        ends = [[20, 8], [26, 16], [26, 9], [20, 15]]
        regions = [
            (0, "POLYLINE", corners),
            (1, "CIRCLE", [[20, 10], [20, 14]]),
            (2, "ELLIPSE", ends),
        ]
        path = report(folder / "report.dcm", report_images(folder), regions, percent=90.0)
    except ImportError:
        return
    references = agrees(tool_peers.structured_report)
    predictions = agrees(tool_peers.scored_report, model=True)

    def judge_report(content: bytes, cohort: Any) -> None:
        references(content, cohort)
        predictions(content, cohort)

    whole = path.read_bytes()

    def damage_report(rng: Random) -> bytes:
        if rng.random() < 0.3:
            return mutate.of_bytes(rng, whole)
        return mutate.of_report(rng, whole)

    yield Target("dicom-sr", damage_report, read("r.dcm", "r.dcm", "r.dcm"), judge_report)


def _damaged_labels(path: Path) -> Damage:
    """Return volumes of labels, as SimpleITK writes them, some of them with other bytes."""

    def damage(rng: Random) -> bytes:
        import SimpleITK as sitk

        labels = np.zeros((5, 12, 16), np.uint8)
        labels[1:3, 2:5, 3:7], labels[2:4, 7:10, 8:15] = 1, 2
        for _ in range(int(rng.integers(0, 6))):
            z, y, x = (int(rng.integers(side)) for side in labels.shape)
            labels[z : z + 2, y : y + int(rng.integers(1, 4)), x : x + 2] = rng.integers(0, 4)
        kind = ("u1", "i2", "i4", "u2")[int(rng.integers(4))]
        image = sitk.GetImageFromArray(labels.astype(kind))
        image.SetSpacing((0.5, 0.5, 2.0))
        if rng.random() < 0.5:  # turned: boxes are those of the array as it is stored
            image.SetDirection((-1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -1.0))
        sitk.WriteImage(image, str(path))
        whole = path.read_bytes()
        return mutate.of_bytes(rng, whole) if rng.random() < 0.5 else whole

    return damage
