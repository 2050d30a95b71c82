"""`calipers boxes`: folders of heat maps to boxes that `calipers evaluate` reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import calipers as cal

CLASSES = ("nodule", "mass")
SIDE = 64
PLACES = {
    "a": [(0, (8, 8, 24, 24))],
    "b": [(1, (32, 16, 56, 40))],
    "c": [(0, (40, 40, 56, 56)), (1, (0, 0, 16, 24))],
}


def heat(image):
    """Maps of an image, at an eighth of its size: hot in the middle of every finding."""
    maps = np.zeros((2, SIDE // 8, SIDE // 8), np.float32)
    for label, (x0, y0, x1, y1) in PLACES[image]:
        maps[label, y0 // 8 : y1 // 8, x0 // 8 : x1 // 8] = 0.9
    return maps


@pytest.fixture
def maps(tmp_path):
    folder = tmp_path / "maps"
    folder.mkdir()
    for image in PLACES:
        np.save(folder / f"{image}.npy", heat(image))
    return folder


@pytest.fixture
def references(tmp_path):
    """References with the file names of pictures as ids."""
    records = [
        {
            "image_id": f"{image}.png",
            "boxes": [box for _, box in objects],
            "labels": [label for label, _ in objects],
            "width": SIDE,
            "height": SIDE,
        }
        for image, objects in PLACES.items()
    ]
    path = tmp_path / "references.csv"
    cal.write(cal.Cohort.from_arrays(records, classes=CLASSES), path)
    return path


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for image in PLACES:
        Image.new("L", (SIDE, SIDE)).save(folder / f"{image}.png")
    return folder


def value(evaluated, metric):
    return next(
        row["value"]
        for row in evaluated["rows"]
        if row["metric"] == metric and row["class"] is None
    )


@pytest.mark.parametrize("name", ["boxes.json", "boxes.csv", "boxes.parquet"])
def test_from_maps_to_an_evaluation(calipers, maps, references, tmp_path, name):
    target = tmp_path / name
    said = calipers(
        "boxes",
        maps,
        "-o",
        target,
        "--classes",
        "nodule,mass",
        "--sizes",
        references,
        "--threshold",
        128,
    )
    assert (said.code, said.out) == (0, f"{target}\n")
    assert "4 boxes (4 at 128) on 3 images" in said.err
    evaluated = calipers(
        "evaluate", references, f"cam={target}", "--preset", "chestxray8", "--no-ci", "--json"
    ).json
    assert value(evaluated, "accuracy@0.7") == 1.0
    assert value(evaluated, "FP/image@0.7") == 0.0


def test_both_thresholds_are_kept_and_told_apart(calipers, maps, tmp_path):
    said = calipers(
        "boxes",
        maps,
        "-o",
        tmp_path / "b.csv",
        "--classes",
        "nodule,mass",
        "--size",
        "64x64",
        "--json",
    )
    assert (said.code, said.err) == (0, "")
    assert said.json["schema"] == "calipers.boxes/1"
    keys = (
        "schema calipers written format settings images classes maps constant boxes by_threshold "
        "images_without_boxes"
    )
    assert list(said.json) == [*keys.split(), "warnings"]
    assert said.json["by_threshold"] == [
        {"threshold": 60.0, "boxes": 4},
        {"threshold": 180.0, "boxes": 4},
    ]
    assert (said.json["maps"], said.json["constant"], said.json["boxes"]) == (6, 2, 8)
    assert said.json["warnings"] == ["2 maps of one value give no box"]
    header, first = (tmp_path / "b.csv").read_text().splitlines()[:2]
    assert header == "image,class,x0,y0,x1,y1,score,threshold"
    assert first.startswith("a,nodule,")


def test_the_best_box_alone(calipers, maps, tmp_path):
    options = (
        "--classes",
        "nodule,mass",
        "--size",
        "64x64",
        "--keep-best",
        "--score",
        "max",
        "--json",
    )
    assert calipers("boxes", maps, "-o", tmp_path / "b.csv", *options).json["boxes"] == 4


def written(calipers, folder, target, *options):
    said = calipers("boxes", folder, "-o", target, "--force", *options)
    assert said.code == 0, said.err
    return target.read_text()


def test_every_way_of_naming_files_gives_the_same(calipers, maps, tmp_path):
    same = ("--size", "64x64", "--classes", "nodule,mass")
    folders, flat, named = (tmp_path / name for name in ("folders", "flat", "named"))
    named.mkdir()
    flat.mkdir()
    for image in PLACES:
        np.savez_compressed(named / f"{image}_cam.npz", heat(image))
        for label, values in zip(CLASSES, heat(image)):
            (folders / label).mkdir(parents=True, exist_ok=True)
            np.save(folders / label / f"{image}.npy", values)
            np.save(flat / f"{image}__{label}.npy", values)
    target = tmp_path / "b.csv"
    wanted = written(calipers, maps, target, *same)
    assert written(calipers, folders, target, *same) == wanted
    assert written(calipers, flat, target, *same, "--pattern", "{image}__{class}.npy") == wanted
    assert written(calipers, flat, target, *same, "--pattern", "{image}__{class}") == wanted
    assert written(calipers, named, target, *same, "--pattern", "{image}_cam") == wanted


def test_classes_come_from_folders(calipers, tmp_path):
    for label in CLASSES:
        (tmp_path / "m" / label).mkdir(parents=True)
        for image in PLACES:
            values = (heat(image)[CLASSES.index(label)] * 255).astype(np.uint8)
            Image.fromarray(values).save(tmp_path / "m" / label / f"{image}.png")
    said = calipers("boxes", tmp_path / "m", "-o", tmp_path / "b.csv", "--json").json
    assert said["classes"] == ["mass", "nodule"]
    assert said["boxes"] == 8
    assert "boxes are in pixels of the maps" in said["warnings"][0]


def test_sizes_and_ids_of_pictures(calipers, maps, pictures, tmp_path):
    target, same = tmp_path / "b.csv", ("--classes", "nodule,mass", "--images", pictures)
    assert written(calipers, maps, target, *same).splitlines()[1].startswith("a,")
    assert (
        written(calipers, maps, target, *same, "--ids", "picture")
        .splitlines()[1]
        .startswith("a.png,")
    )
    (pictures / "b.png").unlink()
    said = calipers("boxes", maps, "-o", target, "--force", *same)
    assert (said.code, "[no-picture]" in said.err, "'b'" in said.err) == (2, True, True)


def test_volumes(calipers, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    values = np.zeros((4, 5, 6))
    values[1:3, 2, 3:5] = 1.0
    np.save(folder / "v.npy", values)
    target, same = tmp_path / "b.csv", ("--classes", "nodule", "--threshold", 60)
    said = calipers("boxes", folder, "-o", target, *same)
    assert (said.code, "--volumes" in said.err, target.exists()) == (2, True, False)
    text = written(calipers, folder, target, *same, "--volumes")
    assert text == "image,class,x0,y0,z0,x1,y1,z1,score,threshold\nv,nodule,3,2,1,5,3,3,1,60\n"


def test_volumes_of_nifti_files(calipers, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    values = np.zeros((4, 5, 6), np.float32)
    values[1:3, 2, 3:5] = 1.0
    for folder in ("maps/nodule", "pictures"):
        (tmp_path / folder).mkdir(parents=True)
        nibabel.save(nibabel.Nifti1Image(values.T, np.eye(4)), tmp_path / folder / "v.nii.gz")
    np.save(tmp_path / "maps" / "nodule" / "w.npy", values)
    (tmp_path / "sizes.csv").write_text(
        "image,width,height,depth\nv.nii.gz,6,5,4\nw.nii.gz,6,5,4\n"
    )
    target, same = tmp_path / "b.csv", ("--threshold", 60, "--volumes")
    box = "3,2,1,5,3,3,1,60\n"
    text = written(calipers, tmp_path / "maps", target, *same)
    assert text.endswith(f"v,nodule,{box}w,nodule,{box}")
    text = written(calipers, tmp_path / "maps", target, *same, "--sizes", tmp_path / "sizes.csv")
    assert text.endswith(f"v.nii.gz,nodule,{box}w.nii.gz,nodule,{box}")
    (tmp_path / "maps" / "nodule" / "w.npy").unlink()
    text = written(
        calipers,
        tmp_path / "maps",
        target,
        *same,
        "--images",
        tmp_path / "pictures",
        "--ids",
        "picture",
    )
    assert text.endswith(f"v.nii.gz,nodule,{box}")


def test_missing_maps_are_refused_or_counted(calipers, tmp_path):
    folder = tmp_path / "m"
    for label, images in (("nodule", "ab"), ("mass", "b")):
        (folder / label).mkdir(parents=True)
        for image in images:
            np.save(folder / label / f"{image}.npy", np.eye(4))
    said = calipers("boxes", folder, "-o", tmp_path / "b.csv", "--json")
    assert (said.code, said.json["error"]["kind"]) == (2, "map-missing")
    assert "1 of 4 maps are missing" in said.json["error"]["message"]
    found = calipers("boxes", folder, "-o", tmp_path / "b.csv", "--missing", "empty", "--json").json
    assert found["warnings"][0] == "1 of 4 maps are missing: they give no box"


def test_a_broken_map_names_its_file_and_writes_nothing(calipers, maps, tmp_path):
    values = heat("b")
    values[1, 2, 3] = np.nan
    np.save(maps / "b.npy", values)
    target = tmp_path / "b.json"
    said = calipers("boxes", maps, "-o", target, "--classes", "nodule,mass", "--json")
    problem = said.json["error"]["problems"][0]
    assert (said.code, problem["rule"], problem["location"]) == (2, "non-finite", "[1, 2, 3]")
    assert problem["file"] == str((maps / "b.npy").resolve())
    assert not target.exists()
    (maps / "b.npy").write_bytes(b"\x93NUMPY")
    assert (
        "[volume-broken]" in calipers("boxes", maps, "-o", target, "--classes", "nodule,mass").err
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--classes is needed: it names the maps"),
        (("--classes", "a,a"), "different names"),
        (("--classes", "a,b,c"), "[map-shape]"),
        (("--classes", "nodule,mass", "--pattern", "{name}"), "{image} once"),
        (("--classes", "nodule,mass", "--pattern", "{image}_x"), "[map-missing]"),
        (("--classes", "nodule,mass", "--size", "12"), "WIDTHxHEIGHT"),
        (("--classes", "nodule,mass", "--size", "8x8x8"), "[image-size]"),
        (("--classes", "nodule,mass", "--size", "8x8", "--images", "."), "give one of them"),
        (("--classes", "nodule,mass", "--ids", "picture"), "--images"),
        (("--classes", "nodule,mass", "--threshold", "300"), "0..255"),
        (("--classes", "nodule,mass", "--format", "xml"), "known: coco, csv, tsv, parquet"),
    ],
)
def test_senseless_requests_are_refused(calipers, maps, tmp_path, options, words):
    said = calipers("boxes", maps, "-o", tmp_path / "b.csv", *options)
    assert said.code == 2
    assert words in said.err
    assert not (tmp_path / "b.csv").exists()


def test_folders_that_hold_no_maps_are_refused(calipers, tmp_path):
    target = tmp_path / "b.csv"
    said = calipers("boxes", tmp_path / "none", "-o", target)
    assert (said.code, "[not-found]" in said.err) == (2, True)
    (tmp_path / "empty").mkdir()
    assert "[map-missing]" in calipers("boxes", tmp_path / "empty", "-o", target).err
    (tmp_path / "file").write_text("x")
    assert "[not-a-folder]" in calipers("boxes", tmp_path / "file", "-o", target).err


def test_two_files_for_one_map_are_refused(calipers, maps, tmp_path):
    np.savez(maps / "a.npz", heat("a"))
    said = calipers("boxes", maps, "-o", tmp_path / "b.csv", "--classes", "nodule,mass")
    assert (said.code, "[dup-image]" in said.err) == (2, True)


def test_other_files_are_counted(calipers, maps, tmp_path):
    (maps / "readme.txt").write_text("x")
    said = calipers(
        "boxes", maps, "-o", tmp_path / "b.csv", "--classes", "nodule,mass", "--json"
    ).json
    assert said["warnings"][0] == "files of other kinds, not read: 1"


def test_nothing_is_replaced_without_being_asked(calipers, maps, references, tmp_path):
    target = tmp_path / "b.csv"
    target.write_text("mine")
    same = ("--classes", "nodule,mass", "--sizes", references)
    said = calipers("boxes", maps, "-o", target, *same)
    assert (said.code, "--force" in said.err, target.read_text()) == (2, True, "mine")
    assert "[output-in-input]" in calipers("boxes", maps, "-o", references, *same, "--force").err


def test_a_table_without_an_image_is_an_error(calipers, maps, tmp_path):
    (tmp_path / "sizes.csv").write_text("image,width,height\na,8,8\nb,8,8\n")
    options = ("--classes", "nodule,mass", "--sizes", tmp_path / "sizes.csv")
    said = calipers("boxes", maps, "-o", tmp_path / "b.csv", *options)
    assert (said.code, "[size-unknown]" in said.err) == (2, True)


def test_coco_is_a_document_with_names(calipers, maps, tmp_path):
    calipers("boxes", maps, "-o", tmp_path / "b.json", "--classes", "nodule,mass", "-q")
    document = json.loads((tmp_path / "b.json").read_text())
    assert [category["name"] for category in document["categories"]] == ["nodule", "mass"]
    assert {"image_id", "category_id", "bbox", "score"} <= set(document["annotations"][0])


def test_a_name_that_fits_two_images_is_not_guessed(calipers, maps, tmp_path):
    (tmp_path / "sizes.csv").write_text("image,width,height\na.png,8,8\na.jpg,9,9\nb,8,8\nc,8,8\n")
    options = ("--classes", "nodule,mass", "--sizes", tmp_path / "sizes.csv")
    said = calipers("boxes", maps, "-o", tmp_path / "b.csv", *options)
    assert (said.code, "a.png or a.jpg" in said.err) == (2, True)
