"""`calipers inspect` and `calipers convert`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calipers as cal


def test_inspect_tells_what_was_understood(calipers, files):
    said = calipers("inspect", files.references, f"ours={files.ours}", "--groups", files.groups)
    assert (said.code, said.err) == (0, "")
    for words in (
        "format       coco, boxes as xywh",
        "5 read = 5 used + 0 set aside",
        "predictions of ours",
        "patient",
    ):
        assert words in said.out


def test_inspect_json(calipers, files):
    said = calipers("inspect", files.references, files.ours, "--json")
    assert (said.code, said.err) == (0, "")
    assert list(said.json) == [
        "schema",
        "calipers",
        "cohort",
        "warnings",
        "findings",
        "commands",
        "refused",
    ]
    assert said.json["schema"] == "calipers.inspect/1"
    assert said.json["cohort"]["images"] == 4
    assert [file["role"] for file in said.json["cohort"]["files"]] == [
        "references",
        "predictions of ours",
    ]


def test_inspect_counts_all_problems_by_rule(calipers, files):
    records = json.loads((files.folder / "ours.json").read_text())
    records[0]["bbox"][2] = -1
    records[1]["score"] = 2
    records[2]["image_id"] = 99
    broken = files.write("broken.json", records)
    said = calipers("inspect", files.references, broken)
    assert said.code == 2
    for rule in ("neg-size", "score-range", "unknown-image"):
        assert rule in said.out
    assert "Strict reading refuses these inputs: 3 broken records." in said.out


@pytest.mark.parametrize(("level", "code"), [(None, 0), ("error", 1), ("warning", 1)])
def test_inspect_fails_on_request(calipers, files, level, code):
    broken = files.write(
        "broken.json", [{"image_id": 99, "category_id": 1, "bbox": [1, 1, 2, 2], "score": 1}]
    )
    options = [] if level is None else ["--fail-on", level]
    # Strict reading refuses the file; whoever reads leniently asks how bad it is.
    assert calipers("inspect", files.references, broken, *options).code == 2
    options.append("--lenient")
    assert calipers("inspect", files.references, broken, *options).code == code
    assert calipers("inspect", files.references, broken, *options, "--json").code == code


def test_inspect_tells_notes_from_broken_records(calipers, files):
    text = (files.folder / "references.json").read_text()
    (files.folder / "bom.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    noted = files.path("bom.json")
    assert calipers("inspect", noted, "--fail-on", "error").code == 0
    assert calipers("inspect", noted, "--fail-on", "warning").code == 1
    assert calipers("inspect", files.references, files.ours, "--fail-on", "warning").code == 0


def test_inspect_of_an_unusable_file_is_an_error(calipers, files):
    assert calipers("inspect", files.write("cut.json", '{"images": [')).code == 2


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "json"])
def test_convert_keeps_the_numbers(calipers, files, suffix):
    folder = files.folder.parent
    argv = ["convert", files.references]
    assert calipers(*argv, folder / f"r.{suffix}").code == 0
    assert calipers(*argv, folder / f"p.{suffix}", "--predictions", files.ours).code == 0
    before = calipers("evaluate", files.references, f"m={files.ours}", "--json").json["rows"]
    after = calipers(
        "evaluate", folder / f"r.{suffix}", f"m={folder / f'p.{suffix}'}", "--json"
    ).json["rows"]
    assert after == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]'),
        ("a.csv", "image,class,score,x0,y0,x1,y1\na,b,0.5,1,2,3,4\n"),
    ],
)
def test_predictions_alone_are_told_their_option(calipers, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    run = calipers("convert", tmp_path / name, "-o", tmp_path / "out.csv")
    assert run.code == 2
    assert "--predictions PREDS" in run.err
    assert "swapped" not in run.err


def test_convert_prints_what_it_wrote(calipers, files):
    target = str(files.folder.parent / "r.csv")
    said = calipers("convert", files.references, target)
    assert said.out == target + "\n"
    assert said.err == "5 objects on 4 images\n"
    said = calipers("convert", files.references, target, "--force", "--quiet")
    assert (said.out, said.err) == (target + "\n", "")


def test_convert_takes_its_output_as_other_verbs_do(calipers, files):
    target = str(files.folder.parent / "o.csv")
    said = calipers("convert", files.references, "-o", target)
    assert (said.code, said.out) == (0, target + "\n")
    for output in ((), (target, "-o", target)):
        said = calipers("convert", files.references, *output, "--force")
        assert (said.code, "-o OUTPUT" in said.err) == (2, True)


def test_a_yolo_folder_that_was_converted_is_read_and_examined_as_it_is(calipers, files):
    """Sizes of images are in it, so that boxes are in pixels as before."""
    folder = files.folder.parent
    assert calipers("convert", files.references, "-o", folder / "r", "--to", "yolo").code == 0
    more = ("--predictions", files.ours, "--to", "yolo")
    assert calipers("convert", files.references, "-o", folder / "p", *more).code == 0
    before = calipers("evaluate", files.references, f"m={files.ours}", "--no-ci", "--json")
    for place in (folder / "r", folder / "r" / "labels"):
        said = calipers("evaluate", place, f"m={folder / 'p'}", "--no-ci", "--json")
        values = [row["value"] for row in said.json["rows"]]
        assert values == pytest.approx([row["value"] for row in before.json["rows"]], nan_ok=True)
        said = calipers("doctor", place, folder / "p")
        assert "size known   4 of 4" in said.out
        assert "those in" in said.out
    cohort = cal.read(folder / "r")
    assert cohort.references.boxes == pytest.approx(cal.read(files.references).references.boxes)


def test_convert_json(calipers, files):
    target = str(files.folder.parent / "p.csv")
    said = calipers(
        "convert", files.references, target, "--predictions", f"m={files.ours}", "--json"
    )
    assert (said.code, said.err) == (0, "")
    assert list(said.json) == ["schema", "calipers", "written", "what", "objects", "warnings"]
    assert said.json == {
        "schema": "calipers.convert/1",
        "calipers": cal.__version__,
        "written": target,
        "what": "m",
        "objects": 5,
        "warnings": [],
    }


def test_convert_never_replaces_without_being_asked(calipers, files):
    target = Path(files.write("there.csv", "mine"))
    said = calipers("convert", files.references, target)
    assert (said.code, target.read_text()) == (2, "mine")
    assert "--force" in said.err
    assert calipers("convert", files.references, target, "--force").code == 0
    assert target.read_text().startswith("image,class,")


def test_convert_never_replaces_its_input(calipers, files):
    before = (files.folder / "references.json").read_bytes()
    for spelling in (files.references, files.folder / ".." / "data" / "references.json"):
        said = calipers("convert", files.references, spelling, "--force")
        assert (said.code, "[output-in-input]" in said.err) == (2, True)
    assert (files.folder / "references.json").read_bytes() == before
    groups = Path(files.groups).read_bytes()
    assert (
        calipers(
            "convert", files.references, files.groups, "--groups", files.groups, "--force"
        ).code
        == 2
    )
    assert Path(files.groups).read_bytes() == groups


def test_convert_of_an_unknown_suffix(calipers, files):
    said = calipers("convert", files.references, files.folder.parent / "r.xyz")
    assert (said.code, "known: coco, csv, tsv, parquet" in said.err) == (2, True)
    assert (
        calipers("convert", files.references, files.folder.parent / "r.xyz", "--to", "csv").code
        == 0
    )


def masked(files) -> tuple[str, str]:
    """References with polygons, and results with run lengths only."""
    segmentation = [[1, 1, 5, 1, 5, 4, 1, 4]]
    record = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 3], "segmentation": segmentation}
    document = {
        "images": [{"id": 1, "width": 9, "height": 8}],
        "categories": [{"id": 1, "name": "polyp"}],
    }
    references = files.write("masks.json", {**document, "annotations": [record]})
    counts = {"size": [8, 9], "counts": [9, 3, 5, 3, 5, 3, 5, 3, 36]}
    results = [{"image_id": 1, "category_id": 1, "score": 0.5, "segmentation": counts}]
    return references, files.write("segments.json", results)


def test_convert_keeps_masks_or_says_that_it_does_not(calipers, files):
    references, results = masked(files)
    said = calipers(
        "convert", references, files.path("again.json"), "--predictions", results, "--json"
    )
    assert (said.code, said.json["warnings"]) == (0, [])
    (record,) = json.loads(Path(files.path("again.json")).read_text())["annotations"]
    assert record["segmentation"]["size"] == [8, 9]
    said = calipers("convert", references, files.path("again.csv"), "--json")
    assert said.json["warnings"] == ["masks of 1 objects are not written: csv holds boxes only"]


@pytest.fixture
def detailed(files):
    """References in an order of their own, with a declared area and a column of objects."""
    text = (
        "image,class,x1,y1,x2,y2,area,grade,width,height,spacing_x,spacing_y\n"
        "b,n,0,0,10,10,400,3,100,100,.5,.5\nb,n,9,0,20,10,,4,100,100,.5,.5\n"
        "a,n,0,0,10,20,,,100,100,.5,.5\n"
    )
    Path(files.path("detailed.csv")).write_text(text)
    return files.path("detailed.csv")


OF_OBJECTS = "columns of objects are not written: grade"
AREAS = "1 declared areas are not written: size cuts will go by the areas of boxes"
SPACING = "columns of images are not written: spacing"


@pytest.mark.parametrize(
    ("format", "losses"),
    [
        ("csv", []),
        ("parquet", []),
        ("coco", [OF_OBJECTS]),
        ("yolo", [OF_OBJECTS, AREAS, SPACING]),
        ("voc", [OF_OBJECTS, AREAS, SPACING]),
    ],
)
def test_convert_says_what_is_lost(calipers, files, detailed, format, losses):
    said = calipers("convert", detailed, files.path("out"), "--to", format, "--json")
    reordered = f"{format} lists images in the order of their ids"
    *notes, last = ["", *said.json["warnings"]]
    assert last.startswith(reordered) == (format in ("coco", "yolo", "voc"))
    assert [note for note in notes if "not written" in note] == losses


def test_predictions_that_are_called_references_are_not_mistaken_for_them(calipers, files):
    """The references were written, under the name of the predictions."""
    words = ["convert", files.references, files.path("out.csv"), "--predictions"]
    said = calipers(*words, f"references={files.ours}")
    assert (said.code, "called 'references', too" in said.err) == (2, True), said.err
    assert not Path(files.path("out.csv")).exists()
    assert calipers(*words, f"ours={files.ours}").code == 0


def test_masks_can_be_required_or_ignored(calipers, files):
    references, results = masked(files)
    assert "with masks   references, segments" in calipers("inspect", references, results).out
    assert "with masks" not in calipers("inspect", references, "--masks", "ignore").out
    said = calipers(
        "convert", files.references, files.path("x.json"), "--masks", "required", "--json"
    )
    assert (said.code, said.json["error"]["problems"][0]["rule"]) == (2, "mask-missing")


def test_several_readers_are_refused_with_the_rules_and_read_with_one(calipers, tmp_path):
    path = tmp_path / "refs.csv"
    path.write_text("image,rad_id,class,x0,y0,x1,y1\na,R1,n,0,0,9,9\na,R2,n,1,0,10,9\n")
    said = calipers("inspect", path)
    assert said.code == 2
    assert "several-readers" in said.out
    assert "--readers any" in said.out
    said = calipers("inspect", path, "--readers", "majority", "--reader-overlap", "0.7")
    assert said.code == 0
    assert "IoU of at least 0.7" in said.out
