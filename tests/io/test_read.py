"""`read`, `sniff` and `explain` over all formats: files, roles, models, groups."""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from calipers.errors import InputError, UsageError
from calipers.io import source
from calipers.io.read import explain, read, sniff
from cases import DATA

COCO = {
    "images": [{"id": k, "file_name": f"i{k}.png"} for k in (1, 2, 3)],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 20, 20]},
        {"id": 2, "image_id": 2, "category_id": 2, "bbox": [10, 10, 20, 20]},
    ],
    "categories": [{"id": 1, "name": "mass"}, {"id": 2, "name": "nodule"}],
}
RESULTS = [{"image_id": 2, "category_id": 2, "bbox": [10, 10, 20, 20], "score": 0.5}]


@pytest.fixture
def files(tmp_path):
    def put(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    put("refs.json", COCO)
    put("dets.json", RESULTS)
    put.folder = tmp_path
    return put


def rule_of(*args, **options):
    with pytest.raises(InputError) as refused:
        read(*args, **options)
    return refused.value.rule


def test_files_that_are_none(files):
    folder = files.folder
    assert rule_of(folder / "missing.json") == "not-found"
    with pytest.raises(InputError, match=r"did you mean 'refs.json'"):
        read(folder / "ref.json")
    with pytest.raises(InputError, match="expected a file") as error:
        read(folder / "zyx.json")  # like the others in its ending alone
    assert not error.value.hint
    assert rule_of(folder) == "not-a-file"
    assert rule_of(files("empty.json", "")) == "empty-file"
    assert rule_of(files("space.json", " \n")) == "empty-file"
    assert rule_of(folder / "a\0b") in ("not-found", "not-readable")
    os.mkfifo(folder / "pipe.json")
    assert rule_of(folder / "pipe.json") == "not-a-file"
    assert rule_of(files("noise.bin", "abcdefg")) == "format"
    assert rule_of(files("noise.json", "abcdefg")) == "json-syntax"


def test_options_are_checked(files):
    refs = files.folder / "refs.json"
    assert rule_of(refs, format="cocoa") == "format"
    assert rule_of(refs, box_format="yxyx") == "box-format"
    assert rule_of(refs, score_scale="percent") == "score-scale"
    assert rule_of(refs, format="csv") in ("missing-column", "csv-syntax", "dup-column")


def test_models_are_named_by_mapping_or_file(files):
    refs, dets = files.folder / "refs.json", files.folder / "dets.json"
    other = files("other.json", [])
    assert list(read(refs).models) == []
    assert list(read(refs, dets).models) == ["dets"]
    assert list(read(refs, str(dets)).models) == ["dets"]
    assert list(read(refs, [dets, other]).models) == ["dets", "other"]
    assert list(read(refs, {"ours": dets, "theirs": dets}).models) == ["ours", "theirs"]
    with pytest.raises(UsageError, match="two models are called 'dets'"):
        read(refs, [dets, dets])


def test_the_intake_accounts_for_every_file(files):
    import hashlib

    refs, dets = files.folder / "refs.json", files.folder / "dets.json"
    account = read(refs, {"ours": dets}).intake
    assert [file.role for file in account.files] == ["references", "predictions of ours"]
    assert [(file.read, file.used) for file in account.files] == [(2, 2), (1, 1)]
    assert account.files[1].sha256 == hashlib.sha256(dets.read_bytes()).hexdigest()
    assert account.files[1].bytes == dets.stat().st_size


def test_tables_and_coco_may_be_mixed(files):
    refs = files.folder / "refs.json"
    by_id = files("a.csv", "image,class,x0,y0,x1,y1,score\n2,nodule,10,10,30,30,.5\n")
    by_name = files("b.csv", "file_name,class,x0,y0,x1,y1,score\ni2.png,nodule,10,10,30,30,.5\n")
    cohort = read(refs, [by_id, by_name, files.folder / "dets.json"])
    for table in cohort.models.values():
        assert table.boxes.tolist() == [[10, 10, 30, 30]]
        assert table.offsets.tolist() == [0, 0, 1, 1]
        assert table.label.tolist() == [1]


def test_tables_may_name_images_by_their_files(files):
    """Where no name is an id and all are names of files; also in tables of groups."""
    refs = files.folder / "refs.json"
    by_name = files("b.csv", "image,class,x0,y0,x1,y1,score\ni2.png,nodule,10,10,30,30,.5\n")
    groups = files("g.csv", "image,centre\ni1.png,A\ni2.png,B\ni3.png,C\n")
    cohort = read(refs, by_name, groups=groups)
    assert cohort.models["b"].offsets.tolist() == [0, 0, 1, 1]
    assert cohort.group("centre").tolist() == ["A", "B", "C"]
    assert "joined by file_name" in " ".join(cohort.intake.notes)
    for names in ("i2.png,1", "i2.png,i9.png"):
        rows = [f"{name},nodule,10,10,30,30,.5" for name in names.split(",")]
        mixed = files("c.csv", "\n".join(["image,class,x0,y0,x1,y1,score", *rows]))
        assert rule_of(refs, mixed) == "unknown-image"
    twins = {**COCO, "images": [{"id": k, "file_name": "same.png"} for k in (1, 2, 3)]}
    same = files("d.csv", "image,class,x0,y0,x1,y1,score\nsame.png,nodule,10,10,30,30,.5\n")
    assert rule_of(files("twins.json", twins), same) == "unknown-image"


def test_numbered_categories_need_names_when_references_are_a_table(files):
    refs = files("refs.csv", "image,class,x0,y0,x1,y1\n2,nodule,10,10,30,30\n")
    assert rule_of(refs, files.folder / "dets.json") == "unknown-category"
    named = files("named.json", {"annotations": RESULTS, "categories": COCO["categories"]})
    assert len(read(refs, named).models["named"]) == 1


GROUPS = (
    "id,Hospital,patient_id,width,height,spacing\n3,A,p1,90,80,0.5\n1,B,p2,100,100,0.7\n"
    "2,A,p1,50,60,\n9,A,p1,1,1,1\n"
)


def test_groups_sizes_and_spacings_come_from_a_table(files):
    cohort = read(files.folder / "refs.json", groups=files("groups.csv", GROUPS))
    assert cohort.images.groups["Hospital"].tolist() == ["B", "A", "A"]
    assert cohort.images.groups["patient"].tolist() == ["p2", "p1", "p1"]
    assert cohort.images.size.tolist() == [[100, 100], [50, 60], [90, 80]]
    assert cohort.images.spacing[0].tolist() == [0.7, 0.7]
    assert np.isnan(cohort.images.spacing[1]).all()
    assert "1 rows describe images that are not in the references" in cohort.intake.notes
    assert cohort.intake.files[1].role == "groups"


def test_a_column_that_is_called_like_the_image_itself_is_renamed(files):
    table = files("t.csv", "study,image,class,x0,y0,x1,y1\na,left,b,1,2,3,4\nc,right,b,1,2,3,4\n")
    coco = {
        "images": [{"id": k, "image": side} for k, side in enumerate(("left", "right"))],
        "annotations": [],
        "categories": [{"id": 1, "name": "b"}],
    }
    for cohort in (read(table, columns={"image": "study"}), read(files("r.json", coco))):
        assert cohort.group("group_image").tolist() == ["left", "right"]
        assert cohort.group("image").tolist() == [0, 1]
        assert cohort.intake.notes == ("column 'image' is read as 'group_image'",)


def test_groups_by_file_name_and_from_parquet(files):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = files.folder / "groups.parquet"
    pq.write_table(pa.table({"file_name": ["i3.png", "i2.png", "i1.png"], "age": [3, 2, 1]}), path)
    cohort = read(files.folder / "refs.json", groups=path)
    assert cohort.images.groups["age"].tolist() == [1, 2, 3]


def test_broken_tables_of_groups(files):
    refs = files.folder / "refs.json"
    assert rule_of(refs, groups=files("g.csv", "a,b\n1,2\n")) == "missing-column"
    assert rule_of(refs, groups=files("g.csv", "image,b\n1,2\n1,3\n2,1\n3,1\n")) == "dup-image"
    assert rule_of(refs, groups=files("g.csv", "image,b\n1,2\n2,1\n")) == "missing-group"
    assert rule_of(refs, groups=files("g.csv", "image,b\nx,2\ny,1\n")) == "unknown-image"
    assert rule_of(refs, groups=files("g.csv", "image,width\n1,2\n2,1\n3,x\n")) == "type"
    assert rule_of(refs, groups=files("g.csv", "image,width\n1,2\n2,1\n3,-1\n")) == "image-size"
    assert rule_of(refs, groups=refs) == "format"
    sized = {**COCO, "images": [{**image, "width": 70, "height": 70} for image in COCO["images"]]}
    assert (
        rule_of(files("sized.json", sized), groups=files("groups.csv", GROUPS)) == "size-conflict"
    )
    cohort = read(refs, groups=files("g.csv", "image,b\n1,2\n2,1\n"), lenient=True)
    assert cohort.images.groups["b"].tolist() == ["2", "1", ""]


def test_sizes_from_the_groups_take_part_in_the_checks(files):
    small = "image,width,height\n1,15,15\n2,50,60\n3,9,9\n"
    refs, groups = files.folder / "refs.json", files("g.csv", small)
    assert rule_of(refs, groups=groups, outside="refuse") == "outside"
    (note,) = read(refs, groups=groups).intake.notes
    assert "reach outside their image" in note


def test_boxes_outside_are_kept_clipped_or_refused(files):
    small = files("g.csv", "image,width,height\n1,15,15\n2,50,60\n3,9,9\n")
    refs = files.folder / "refs.json"
    kept = read(refs, groups=small)
    assert kept.references.boxes.tolist() == read(refs).references.boxes.tolist()
    clipped = read(refs, groups=small, outside="clip")
    assert (clipped.references.boxes[:, 2:] <= [[50, 60]]).all()
    assert "clipped to their image" in " ".join(clipped.intake.notes)
    assert rule_of(refs, outside="ignore") == "outside"


def test_sniffing_gives_format_role_and_reason(files):
    found = sniff(files.folder / "refs.json")
    assert (found.format, found.role) == ("coco", "references")
    assert "JSON object" in found.reason
    assert sniff(files.folder / "dets.json").role == "predictions"
    assert sniff(files("s.json", {"annotations": RESULTS})).role == "predictions"
    assert sniff(files("a.csv", "image;class;x;y;w;h\n")).role == "references"
    assert sniff(files("a.tsv", "image\tclass\tx\ty\tw\th\tscore\n")).role == "predictions"
    assert sniff(files("a.csv", "image,patient\n")).role == "groups"
    assert sniff(files("a.csv", "Image Index,Finding Label,Bbox [x,y,w,h]\n")).format == "nih"


def test_explain_says_what_was_understood(files):
    content = [*RESULTS, {**RESULTS[0], "score": 7}, {**RESULTS[0], "image_id": 4}]
    text = explain(
        files.folder / "refs.json",
        {"ours\x1b[1m": files("bad.json", content)},
        groups=files("g.csv", GROUPS),
    )
    for line in (
        "format       coco, boxes as xywh",
        "records      3 read = 1 used + 2 set aside",
        "score-range          1",
        "unknown-image        1",
        "Images         3, 2 with references; 2D",
        "size known   3 of 3",
        "Hospital     2 different values",
        "mass                 1 references, 0 ours\\u001b[1m",
        "Strict reading refuses these inputs: 2 broken records.",
    ):
        assert line in text
    assert "\x1b" not in text


def test_only_the_images_that_were_asked_for(files):
    """References, predictions and the count of silent images are those of the chosen images."""
    refs, dets = files.folder / "refs.json", files.folder / "dets.json"
    groups = files("splits.csv", "id,split\n1,train\n2,test\n3,train\n")
    cohort = read(refs, dets, groups=groups, where="split=test")
    assert cohort.images.ids == ("2",)
    assert (len(cohort.references), len(cohort.models["dets"])) == (1, 1)
    notes = " ".join(cohort.intake.notes)
    assert "only the images with split = test are evaluated: 1 of 3" in notes
    assert "without prediction" not in notes
    assert "without prediction" in " ".join(read(refs, dets).intake.notes)
    others = read(refs, dets, groups=groups, where="split=train")
    assert (others.images.ids, len(others.models["dets"])) == (("1", "3"), 0)
    for wrong, words in (
        ("splt=test", "did you mean 'split'"),
        ("split=tset", "did you mean 'test'"),
        ("split", "COLUMN=VALUE"),
        ("=test", "COLUMN=VALUE"),
    ):
        with pytest.raises(UsageError, match=words):
            read(refs, dets, groups=groups, where=wrong)


def test_the_toy_example_in_coco_form():
    folder = DATA / "formats" / "toyexample"
    if not folder.exists():
        pytest.skip("the public data is not here")
    cohort = read(
        folder / "gts_coco_format" / "toy_example_coco.JSON",
        folder / "dets_coco_format" / "coco_dets.json",
    )
    assert cohort.images.ids == tuple(map(str, range(10)))
    assert cohort.classes == ("cat",)
    assert (len(cohort.references), len(cohort.models["coco_dets"])) == (12, 12)
    assert cohort.references.boxes[0].tolist() == [1, 49, 341, 499]


def test_mask_results_without_boxes(files):
    """Their boxes and areas are those of the masks; who ignores the masks has no boxes either."""
    path = DATA / "coco_rle" / "instances_val2014_fakesegm100_results.json"
    if not path.exists():
        pytest.skip("the public data is not here")
    results = json.loads(path.read_text())
    images = sorted({result["image_id"] for result in results})
    categories = sorted({result["category_id"] for result in results})
    refs = {
        "images": [{"id": image} for image in images],
        "annotations": [],
        "categories": [{"id": category, "name": str(category)} for category in categories],
    }
    table = read(files("r.json", refs), path).models[path.stem]
    assert len(table) == 734
    assert table.boxes[0].tolist() == [259, 41, 606, 285]
    assert table.area[:3].tolist() == table.masks.voxels[:3].tolist() == [53487, 167619, 52665]
    assert rule_of(files("r.json", refs), path, masks="ignore") == "box-shape"
    assert rule_of(files("r.json", refs), path, lenient=True, masks="ignore") == "mostly-broken"
    text = explain(files("r.json", refs), path, masks="ignore")
    assert "734 read = 0 used + 734 set aside" in text


def test_naming_the_nih_format_leaves_the_predictions_free(files):
    refs = files(
        "boxes.csv", "Image Index,Finding Label,Bbox [x,y,w,h],,,\n1_0.png,Mass,1,2,3,4,,,\n"
    )
    dets = files("dets.csv", "image,class,x,y,w,h,score\n1_0.png,Mass,1,2,3,4,.5\n")
    assert len(read(refs, dets, format="nih").models["dets"]) == 1


def test_blocks_find_what_the_whole_would(files, monkeypatch):
    from calipers.data import rules
    from calipers.io import assemble
    from calipers.io import assemble as notes

    content = [{**RESULTS[0], "score": k / 50, "bbox": [10, 10, 20, k % 7]} for k in range(100)]
    refs, dets = files.folder / "refs.json", files("many.json", content)
    whole = read(refs, dets, lenient=True)
    for module in (assemble, notes, rules):
        monkeypatch.setattr(module, "BLOCK", 8)
    parts = read(refs, dets, lenient=True)
    assert [file.as_dict() for file in whole.intake.files] == [
        file.as_dict() for file in parts.intake.files
    ]
    assert set(whole.intake.quarantine) == set(parts.intake.quarantine)
    assert np.array_equal(whole.models["many"].boxes, parts.models["many"].boxes)
    assert np.array_equal(whole.models["many"].extent, parts.models["many"].extent)


@pytest.mark.parametrize("copied", [source.COPIED, 0])
@pytest.mark.parametrize("name", ["refs.csv", "refs.json", "refs.parquet"])
def test_files_are_closed(tmp_path, monkeypatch, name, copied):
    """A handle that is left to the garbage collector is a warning under ``python -W error``."""
    path = tmp_path / name
    if name == "refs.json":
        path.write_text(json.dumps(COCO))
    else:
        box = {"x0": [1.0], "y0": [2.0], "x1": [3.0], "y1": [4.0]}
        table = pd.DataFrame({"image": ["a"], "class": ["n"], **box})
        table.to_csv(path, index=False) if name == "refs.csv" else table.to_parquet(path)
    monkeypatch.setattr(source, "COPIED", copied)
    left_open = []
    gc.collect()  # what earlier tests of this process left is not of this read
    monkeypatch.setattr(sys, "unraisablehook", left_open.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        assert len(read(path).references) in (1, 2)
        gc.collect()
    assert left_open == []
