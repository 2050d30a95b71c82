"""The doctor finds planted mistakes under the right code, and the commands that it prints work."""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.cli.main import run
from doctor_cases import (
    Documents,
    Tables,
    centred,
    corners,
    demo,
    documents,
    fractions,
    random,
    saved_documents,
    saved_tables,
    tables,
)

PLANTED: dict[str, tuple[str, bool, Callable[[Path], tuple[str, str]]]] = {}


def planted(code: str, *, command: bool = True) -> Callable[[Any], Any]:
    """Enter a mistake: the code that it gets, and whether a command mends it."""

    def enter(plant: Callable[[Path], tuple[str, str]]) -> Callable[[Path], tuple[str, str]]:
        PLANTED[plant.__name__] = (code, command, plant)
        return plant

    return enter


def on_documents(source: Any, change: Callable[[Documents], None], folder: Path) -> tuple[str, str]:
    pair = documents(*source, folder)
    change(pair)
    return saved_documents(pair, folder)


def on_tables(source: Any, change: Callable[[Tables], None], folder: Path) -> tuple[str, str]:
    pair = tables(*source, folder)
    change(pair)
    return saved_tables(pair, folder)


@planted("box-format")
def corners_as_sides(folder: Path) -> tuple[str, str]:
    return on_documents(demo(), lambda pair: pair.move(lambda box, _: corners(box)), folder)


@planted("box-format")
def corners_as_sides_of_a_weak_model(folder: Path) -> tuple[str, str]:
    source = demo("misses-small")
    return on_documents(source, lambda pair: pair.move(lambda box, _: corners(box)), folder)


@planted("box-format")
def corners_as_sides_random(folder: Path) -> tuple[str, str]:
    return on_documents(random(), lambda pair: pair.move(lambda box, _: corners(box)), folder)


@planted("box-format")
def centres_as_corners(folder: Path) -> tuple[str, str]:
    return on_documents(random(8), lambda pair: pair.move(lambda box, _: centred(box)), folder)


@planted("box-format")
def sides_in_columns_of_corners(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.predictions:
            row["x1"] = repr(float(row["x1"]) - float(row["x0"]))
            row["y1"] = repr(float(row["y1"]) - float(row["y0"]))

    return on_tables(random(), change, folder)


@planted("boxes-normalised")
def fractions_as_pixels(folder: Path) -> tuple[str, str]:
    return on_documents(demo(), lambda pair: pair.move(fractions), folder)


@planted("boxes-normalised")
def fractions_of_corners(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        return fractions(corners(box), size)

    return on_documents(random(), lambda pair: pair.move(change), folder)


@planted("boxes-normalised")
def fractions_of_centres(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        return fractions(centred(box), size)

    return on_documents(demo("mislabels"), lambda pair: pair.move(change), folder)


@planted("boxes-normalised")
def fractions_in_a_table(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for column in ("x0", "y0", "x1", "y1"):
            pair.each(column, lambda cell: repr(float(cell) / 300))

    return on_tables(random(), change, folder)


@planted("axes-swapped")
def y_before_x(folder: Path) -> tuple[str, str]:
    def change(box: list[float], _: object) -> list[float]:
        x, y, w, h = box
        return [y, x, h, w]

    return on_documents(demo(), lambda pair: pair.move(change), folder)


@planted("axes-swapped")
def y_before_x_in_a_table(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.predictions:
            row["x0"], row["y0"], row["x1"], row["y1"] = row["y0"], row["x0"], row["y1"], row["x1"]

    return on_tables(random(), change, folder)


@planted("axes-swapped")
def corners_with_y_before_x(folder: Path) -> tuple[str, str]:
    def change(box: list[float], _: object) -> list[float]:
        x0, y0, x1, y1 = corners(box)
        return [y0, x0, y1, x1]

    return on_documents(random(9), lambda pair: pair.move(change), folder)


def _scaled(factor: float) -> Callable[[Documents], None]:
    return lambda pair: pair.move(lambda box, _: [factor * side for side in box])


@planted("resolution")
def half_resolution(folder: Path) -> tuple[str, str]:
    return on_documents(demo(), _scaled(0.5), folder)


@planted("resolution")
def quarter_resolution(folder: Path) -> tuple[str, str]:
    return on_documents(random(), _scaled(0.25), folder)


@planted("resolution")
def double_resolution(folder: Path) -> tuple[str, str]:
    return on_documents(random(10), _scaled(2.0), folder)


@planted("resolution")
def resized_for_the_network(folder: Path) -> tuple[str, str]:
    return on_documents(random(), _scaled(512 / 300), folder)


@planted("image-names")
def accents_as_signs(folder: Path) -> tuple[str, str]:
    """A Mac writes the names of files in NFD, most others in NFC."""

    def change(pair: Documents) -> None:
        for record in pair.references["images"]:
            record["id"] = f"Zürich_{record['id']}"
            record.pop("file_name", None)
        for record in [*pair.references["annotations"], *pair.predictions["annotations"]]:
            record["image_id"] = f"Zürich_{record['image_id']}"
        text = json.dumps(pair.predictions, ensure_ascii=False)
        pair.predictions = json.loads(unicodedata.normalize("NFD", text))

    return on_documents(demo(), change, folder)


@planted("mirrored")
def y_from_below(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        x, y, w, h = box
        return [x, size[1] - y - h, w, h]

    return on_documents(demo(), lambda pair: pair.move(change), folder)


@planted("mirrored")
def left_is_right(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        x, y, w, h = box
        return [size[0] - x - w, y, w, h]

    return on_documents(random(11), lambda pair: pair.move(change), folder)


@planted("box-format")
def references_as_corners(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        for record in pair.references["annotations"]:
            record["bbox"] = corners(record["bbox"])

    return on_documents(demo(), change, folder)


@planted("box-format")
def references_as_fractions(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        sizes = pair.sizes()
        for record in pair.references["annotations"]:
            record["bbox"] = fractions(record["bbox"], sizes[record["image_id"]])
            del record["area"]

    return on_documents(random(), change, folder)


@planted("class-numbers")
def classes_from_zero(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        pair.bare()
        for record in pair.predictions:
            record["category_id"] -= 1

    return on_documents(demo(), change, folder)


@planted("class-numbers")
def classes_from_one(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        pair.bare()
        for category in pair.references["categories"]:
            category["id"] -= 1
        for record in pair.references["annotations"]:
            record["category_id"] -= 1

    return on_documents(random(), change, folder)


@planted("class-numbers")
def class_numbers_for_names(folder: Path) -> tuple[str, str]:
    names = list(demo()[0].classes)

    def change(pair: Tables) -> None:
        # Declared in the order of the model, so that numbers mean something.
        declared = [dict.fromkeys(pair.references[0], "") | {"class": name} for name in names]
        pair.references[:0] = declared
        pair.each("class", lambda name: str(names.index(name)))

    return on_tables(demo("misses-small"), change, folder)


@planted("class-names")
def classes_in_capitals(folder: Path) -> tuple[str, str]:
    return on_tables(demo(), lambda pair: pair.each("class", str.upper), folder)


@planted("class-names")
def classes_with_underscores(folder: Path) -> tuple[str, str]:
    change = lambda pair: pair.each("class", lambda name: name.replace("-", "_"))  # noqa: E731
    return on_tables(random(), change, folder)


@planted("class-names")
def class_misspelt(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        pair.each("class", lambda name: name.replace("nodule", "noduel"))

    return on_tables(demo(), change, folder)


@planted("image-names")
def images_with_extension(folder: Path) -> tuple[str, str]:
    return on_tables(random(), lambda pair: pair.each("image", lambda name: name + ".dcm"), folder)


@planted("image-names")
def images_without_extension(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.references:
            row["image"] += ".nii.gz" if row["image"] else ""

    return on_tables(random(), change, folder)


@planted("image-names")
def images_with_folder(folder: Path) -> tuple[str, str]:
    change = lambda pair: pair.each("image", lambda name: f"/data/test/{name}.png")  # noqa: E731
    return on_tables(demo(), change, folder)


@planted("image-names")
def ids_as_text(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        pair.numbered()
        for record in pair.predictions["annotations"]:
            record["image_id"] = str(record["image_id"])

    return on_documents(random(), change, folder)


@planted("image-numbers")
def images_from_zero(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        pair.numbered()
        for record in pair.predictions["annotations"]:
            record["image_id"] -= 1

    return on_documents(random(), change, folder)


@planted("score-percent")
def percent(folder: Path) -> tuple[str, str]:
    change = lambda pair: pair.each("score", lambda cell: repr(100 * float(cell)))  # noqa: E731
    return on_tables(demo(), change, folder)


@planted("score-raw")
def logits(folder: Path) -> tuple[str, str]:
    change = lambda pair: pair.each("score", lambda cell: repr(8 * float(cell) - 4))  # noqa: E731
    return on_tables(random(), change, folder)


@planted("image-names")
def two_mistakes(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        pair.each("image", lambda name: f"{name}.png")
        pair.each("score", lambda cell: repr(100 * float(cell)))
        for column in ("x0", "y0", "x1", "y1"):
            pair.each(column, lambda cell: repr(float(cell) / 300))

    return on_tables(random(), change, folder)


@planted("files-swapped")
def swapped_files(folder: Path) -> tuple[str, str]:
    references, predictions = on_documents(demo(), lambda pair: None, folder)
    return predictions, references


@planted("score-constant", command=False)
def constant_scores(folder: Path) -> tuple[str, str]:
    return on_tables(demo(), lambda pair: pair.each("score", lambda _: "0.5"), folder)


@planted("several-readers")
def three_readers(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        rows = []
        for row in pair.references:
            rows += [{**row, "rad_id": reader} for reader in ("R1", "R2", "R3")]
        pair.references[:] = rows

    return on_tables(demo(), change, folder)


@planted("patients-in-names", command=False)
def patients_nowhere_else(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.references:
            del row["patient"]

    return on_tables(demo(), change, folder)


@planted("patient-in-two-splits", command=False)
def torn_patients(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.references:
            row["split"] = "train" if row["image"].endswith("_1") else "test"

    return on_tables(demo(), change, folder)


@planted("missing-cases", command=False)
def cases_never_run(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        images = sorted({row["image"] for row in pair.predictions})[:20]
        pair.predictions[:] = [row for row in pair.predictions if row["image"] not in images]

    return on_tables(demo(), change, folder)


@planted("duplicate-images", command=False)
def image_twice(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        references = pair.references
        owners = [record["image_id"] for record in references["annotations"]]
        twin = next(image for image in references["images"] if owners.count(image["id"]) > 1)
        references["images"].append({**twin, "id": "copy"})
        for record in list(references["annotations"]):
            if record["image_id"] == twin["id"]:
                number = len(references["annotations"]) + 1
                references["annotations"].append({**record, "id": number, "image_id": "copy"})

    return on_documents(demo(), change, folder)


@planted("few-positives", command=False)
def rare_class(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in [row for row in pair.references if row["class"] == "nodule"][:2]:
            row["class"] = "cyst"

    return on_tables(demo(), change, folder)


@planted("class-names")
def classes_in_another_language(folder: Path) -> tuple[str, str]:
    words = {name: f"Befund {name[::-1]}" for name in random()[0].classes}
    return on_tables(random(), lambda pair: pair.each("class", lambda name: words[name]), folder)


@planted("classes-exchanged")
def classes_in_another_order(folder: Path) -> tuple[str, str]:
    names = random()[0].classes
    others = dict(zip(names, (*names[1:], names[0])))
    return on_tables(random(), lambda pair: pair.each("class", lambda name: others[name]), folder)


@planted("image-numbers")
def images_and_classes_from_zero(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        pair.numbered()
        pair.bare()
        for record in pair.predictions:
            record["image_id"] -= 1
            record["category_id"] -= 1

    return on_documents(demo(), change, folder)


@planted("classes-exchanged")
def two_of_three_classes_exchanged(folder: Path) -> tuple[str, str]:
    first, second = demo()[0].classes[:2]
    others = {first: second, second: first}
    change = lambda pair: pair.each("class", lambda name: others.get(name, name))  # noqa: E731
    return on_tables(demo("overpredicts"), change, folder)


@planted("class-numbers")
def classes_counted_beside_ids_with_gaps(folder: Path) -> tuple[str, str]:
    """The categories are 3, 10 and 17, and the predictions say 1, 2 and 3."""

    def change(pair: Documents) -> None:
        pair.bare()
        place = {one["id"]: k for k, one in enumerate(pair.references["categories"])}
        for record in pair.predictions:
            record["category_id"] = place[record["category_id"]] + 1
        for record in pair.references["annotations"]:
            record["category_id"] = 3 + 7 * place[record["category_id"]]
        for category in pair.references["categories"]:
            category["id"] = 3 + 7 * place[category["id"]]

    return on_documents(demo(), change, folder)


def _torchvision(first: list[int], folder: Path) -> tuple[str, str]:
    """Write the predictions as torchvision does: classes are numbers, and 0 is the background; the
    ``first`` numbers are those of the first classes of the references.
    """
    pair = tables(*demo(), folder)
    classes = cal.read(folder / "sound-refs.csv").classes
    number = dict(zip(classes, [*first, *range(len(first) + 1, len(classes) + 1)]))
    by_image: dict[str, dict[str, list[Any]]] = {}
    for row in pair.predictions:
        columns = by_image.setdefault(row["image"], {"boxes": [], "labels": [], "scores": []})
        columns["boxes"].append([float(row[name]) for name in ("x0", "y0", "x1", "y1")])
        columns["labels"].append(number[row["class"]])
        columns["scores"].append(float(row["score"]))
    references, predictions = saved_tables(pair, folder)
    (folder / predictions).write_text(json.dumps(by_image))
    return references, predictions


@planted("class-numbers")
def numbers_of_torchvision(folder: Path) -> tuple[str, str]:
    return _torchvision([], folder)


@planted("classes-exchanged")
def numbers_of_torchvision_in_another_order(folder: Path) -> tuple[str, str]:
    """The first class has the number of the second: read as places from 0, it is right."""
    return _torchvision([2, 1], folder)


@planted("image-numbers")
def slices_of_a_stack(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        names = list(dict.fromkeys(row["image"] for row in pair.references if row["image"]))
        for row in pair.references:
            place = names.index(row["image"]) if row["image"] else 0
            row["image"] = f"scan {chr(97 + place // 26)}{chr(97 + place % 26)}"
        pair.each("image", lambda name: str(names.index(name)))

    return on_tables(random(), change, folder)


@planted("image-names")
def more_images_and_an_extension(folder: Path) -> tuple[str, str]:
    """A third of the images has no annotation file, and all predictions name pictures."""

    def change(pair: Tables) -> None:
        names = sorted({row["image"] for row in pair.references})
        pair.references = [row for row in pair.references if row["image"] not in names[::3]]
        listed = {row["image"] for row in pair.references}
        predictions = [row for row in pair.predictions if row["image"] in listed]
        saved_tables(Tables(pair.references, predictions), folder)
        for name in ("refs", "preds"):
            (folder / f"{name}.csv").rename(folder / f"sound-{name}.csv")
        pair.each("image", lambda name: f"{name}.JPG")

    return on_tables(random(), change, folder)


@planted("image-names")
def folders_joined_to_names(folder: Path) -> tuple[str, str]:
    """DeepLesion calls 000001_01_01/109.png on the disk 000001_01_01_109.png in its table."""

    def change(pair: Tables) -> None:
        for row in pair.references:
            row["image"] = f"0001_01_{row['image']}.png"
        pair.each("image", lambda name: f"0001_01/{name}.png")

    return on_tables(random(), change, folder)


@planted("image-names")
def images_with_prefix(folder: Path) -> tuple[str, str]:
    change = lambda pair: pair.each("image", lambda name: f"pred_{name}_v2.png")  # noqa: E731
    return on_tables(random(), change, folder)


@planted("image-names")
def images_without_prefix(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.references:
            row["image"] = f"site-a/scan_{row['image']}_ax" if row["image"] else ""

    return on_tables(random(), change, folder)


@planted("image-names")
def images_with_dashes(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        pair.each("image", lambda name: name.replace("_", "-"))

    return on_tables(demo(), change, folder)


@planted("sides-swapped")
def height_before_width(folder: Path) -> tuple[str, str]:
    def change(box: list[float], _: object) -> list[float]:
        x, y, w, h = box
        return [x, y, h, w]

    return on_documents(demo(), lambda pair: pair.move(change), folder)


@planted("corners-swapped")
def corners_from_below(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.predictions:
            row["y0"], row["y1"] = row["y1"], row["y0"]

    return on_tables(random(), change, folder)


@planted("turned")
def turned_by_exif(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        x, y, w, h = box
        return [size[1] - y - h, x, h, w]

    return on_documents(demo(), lambda pair: pair.move(change), folder)


def _letterboxed(box: list[float], size: tuple[float, float]) -> list[float]:
    factor = 640 / max(size)
    x, y, w, h = (factor * side for side in box)
    return [x + (640 - factor * size[0]) / 2, y + (640 - factor * size[1]) / 2, w, h]


@planted("resolution")
def on_a_padded_square(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        for k, image in enumerate(pair.references["images"]):
            image["width" if k % 2 else "height"] = 420
        sound = folder / "sound-refs.json"
        sound.write_text(json.dumps(pair.references))
        pair.move(_letterboxed)

    return on_documents(random(), change, folder)


@planted("repeated")
def written_twice(folder: Path) -> tuple[str, str]:
    change = lambda pair: pair.predictions.extend(list(pair.predictions))  # noqa: E731
    return on_tables(demo(), change, folder)


@planted("score-ranks")
def places_in_a_list(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        pair.predictions.sort(key=lambda row: -float(row["score"]))
        for place, row in enumerate(pair.predictions, start=1):
            row["score"] = str(place)

    return on_tables(demo(), change, folder)


@planted("moved", command=False)
def cropped_images(folder: Path) -> tuple[str, str]:
    def change(box: list[float], _: object) -> list[float]:
        return [box[0] - 31, box[1] - 57, box[2], box[3]]

    return on_documents(random(), lambda pair: pair.move(change), folder)


@planted("score-inverted")
def uncertainty_as_score(folder: Path) -> tuple[str, str]:
    change = lambda pair: pair.each("score", lambda cell: repr(1 - float(cell)))  # noqa: E731
    return on_tables(demo(), change, folder)


@planted("silent-classes", command=False)
def a_class_left_out(folder: Path) -> tuple[str, str]:
    name = demo()[0].classes[0]

    def change(pair: Tables) -> None:
        pair.predictions[:] = [row for row in pair.predictions if row["class"] != name]

    return on_tables(demo(), change, folder)


@planted("corners-swapped")
def both_x_before_both_y(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        for row in pair.predictions:
            row["y0"], row["x1"] = row["x1"], row["y0"]

    return on_tables(random(), change, folder)


@planted("resolution")
def fractions_of_a_fixed_side(folder: Path) -> tuple[str, str]:
    return on_documents(random(), _scaled(1 / 1024), folder)


@planted("resolution")
def corners_in_thousandths(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        return [1000 * side for side in fractions(corners(box), size)]

    return on_documents(random(), lambda pair: pair.move(change), folder)


@planted("axes-swapped")
def fractions_with_y_before_x(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        x0, y0, x1, y1 = fractions(corners(box), size)
        return [y0, x0, y1, x1]

    return on_documents(demo(), lambda pair: pair.move(change), folder)


@planted("mirrored")
def upper_border_from_below(folder: Path) -> tuple[str, str]:
    def change(box: list[float], size: tuple[float, float]) -> list[float]:
        x, y, w, h = box
        return [x, size[1] - y, w, h]

    return on_documents(demo(), lambda pair: pair.move(change), folder)


@planted("box-format")
def references_as_centres(folder: Path) -> tuple[str, str]:
    def change(pair: Documents) -> None:
        for record in pair.references["annotations"]:
            record["bbox"] = centred(record["bbox"])

    return on_documents(random(), change, folder)


@planted("score-inverted")
def loss_as_score(folder: Path) -> tuple[str, str]:
    def change(pair: Tables) -> None:
        pair.each("score", lambda cell: repr(5 - 5 * float(cell)))

    return on_tables(demo(), change, folder)


@planted("class-numbers")
def dump_with_ids_of_categories(folder: Path) -> tuple[str, str]:
    """Detectron2 counts classes from 0; its results list has the ids of the categories, from 1."""

    def change(pair: Documents) -> None:
        by_image: dict[object, list[dict[str, object]]] = {}
        for record in pair.predictions["annotations"]:
            by_image.setdefault(record["image_id"], []).append(record)
        number = {one["id"]: k for k, one in enumerate(pair.references["categories"], start=1)}
        for one in pair.references["categories"]:
            one["id"] = number[one["id"]]
        for record in [*pair.references["annotations"], *pair.predictions["annotations"]]:
            record["category_id"] = number[record["category_id"]]
        pair.predictions = [
            {"image_id": image, "instances": records} for image, records in by_image.items()
        ]

    return on_documents(random(), change, folder)


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = run([*argv])
    return code, json.loads(capsys.readouterr().out)


def ap(capsys: pytest.CaptureFixture[str], words: list[str]) -> float:
    """Return AP50 of a command, 0 if it fails."""
    code, document = said(capsys, *words, "--no-ci", "--json")
    if code:
        return 0.0
    rows = [row for row in document["rows"] if row["metric"] == "AP50" and row["class"] is None]
    return float(rows[0]["value"] or 0.0)


def test_there_are_enough() -> None:
    assert len(PLANTED) >= 30


@pytest.mark.parametrize("name", PLANTED)
def test_planted_mistake(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, has_command, plant = PLANTED[name]
    references, predictions = plant(tmp_path)
    exit_code, document = said(capsys, "doctor", references, predictions, "--json")
    assert exit_code in (0, 2)
    assert (exit_code == 2) is document["refused"]
    codes = [finding["code"] for finding in document["findings"]]
    assert code in codes
    finding = document["findings"][codes.index(code)]
    assert finding["hint"]
    assert 0 < finding["count"] <= finding["total"]
    assert 0 < len(finding["examples"]) <= 5
    if not has_command:
        return
    before = ap(capsys, ["evaluate", references, predictions])
    for command in document["commands"][:-1]:
        run([*shlex.split(command)[1:], "--quiet"])
    after = ap(capsys, shlex.split(document["commands"][-1])[1:])
    suffix = Path(predictions).suffix
    sound = ap(capsys, ["evaluate", f"sound-refs{suffix}", f"sound-preds{suffix}"])
    assert after > before
    assert after == pytest.approx(sound, abs=1e-9)
