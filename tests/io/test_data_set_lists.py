"""The lists of data sets and challenges: what is read, what is refused, and how they are told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import list_cases as cases
from annotation_cases import CVAT, IMAGENET, LABELME, VOC, labelme
from calipers.doctor.checkup import check_files
from calipers.errors import InputError
from calipers.io.read import read, sniff


def put(folder: Path, **files: str) -> list[Path]:
    paths = []
    for name, text in files.items():
        path = folder / name.replace("_", ".")
        path.write_text(text)
        paths.append(path)
    return paths


def luna_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "annotations.csv").write_text(cases.LUNA16)
    (folder / "annotations_excluded.csv").write_text(cases.LUNA16_EXCLUDED)
    (folder / "seriesuids.csv").write_text(cases.LUNA16_SCANS)
    return folder


def test_vindr(tmp_path):
    refs, dets = put(tmp_path, r_csv=cases.VINDR, d_csv=cases.VINDR_SUBMISSION)
    with pytest.raises(InputError, match="several-readers"):
        read(refs)
    cohort = read(refs, dets, readers="majority")
    assert cohort.images.ids == ("a1", "b2", "c3")
    assert cohort.classes == ("Cardiomegaly", "Nodule/Mass")
    assert cohort.references.boxes.tolist() == [
        [695.5, 1377.5, 1651.5, 1830.5],
        [100.5, 200, 180, 300],
    ]
    assert cohort.models["d"].boxes.tolist()[1] == [1, 2, 30, 40]
    assert cohort.models["d"].label.tolist() == [0, 1, 1]
    assert any("1 entries of 'No finding'" in note for note in cohort.intake.notes)
    only = read(refs, readers="R8")
    assert only.images.ids == ("a1", "c3")
    assert len(only.references) == 1


def test_the_test_set_of_vindr_has_no_readers(tmp_path):
    [refs] = put(tmp_path, r_csv=cases.VINDR_TEST)
    cohort = read(refs)
    assert cohort.intake.files[0].format == "vindr"
    assert (cohort.images.ids, len(cohort.references)) == (("a1", "b2", "c3"), 2)


def test_rsna(tmp_path):
    refs, dets = put(tmp_path, r_csv=cases.RSNA, d_csv=cases.RSNA_SUBMISSION)
    cohort = read(refs, dets)
    assert cohort.images.ids == ("0004cfab", "00436515")
    assert cohort.classes == ("pneumonia",)
    assert cohort.references.boxes.tolist() == [[264, 152, 477, 531], [562, 152, 818, 605]]
    assert cohort.images.size.tolist() == [[1024, 1024]] * 2
    assert cohort.models["d"].score.tolist() == [0.9, 0.3]
    assert cohort.models["d"].boxes.tolist()[1] == [560, 150, 810, 600]


def test_openimages(tmp_path):
    refs, dets, scores, sizes = put(
        tmp_path,
        r_csv=cases.OPENIMAGES,
        d_csv=cases.OPENIMAGES_SUBMISSION,
        s_csv=cases.OPENIMAGES_SCORES,
        g_csv=cases.OPENIMAGES_SIZES,
    )
    with pytest.raises(InputError, match="size-unknown"):
        read(refs)
    cohort = read(refs, [dets, scores], groups=sizes)
    assert cohort.references.boxes.tolist() == [
        [20, 25, 100, 75],
        [40, 50, 80, 100],
        [0, 0, 400, 150],
    ]
    assert cohort.references.crowd.tolist() == [True, False, False]
    assert cohort.models["d"].boxes.tolist()[0] == [40, 50, 80, 100]
    assert cohort.models["s"].score.tolist() == [0.75]


def test_luna16_lists(tmp_path):
    refs, dets = put(tmp_path, r_csv=cases.LUNA16, d_csv=cases.LUNA16_CANDIDATES)
    cohort = read(refs)
    assert (cohort.dimensions, cohort.classes) == (3, ("nodule",))
    assert cohort.references.boxes.tolist()[0] == [-131.25, -178, -301.25, -125.75, -172.5, -295.75]
    assert cohort.images.spacing.tolist() == [[1, 1, 1]] * 2
    assert any("seriesuids.csv" in note for note in cohort.intake.notes)
    with pytest.raises(InputError, match="unknown-image"):
        read(refs, dets)


def test_the_folder_of_luna16(tmp_path):
    [dets] = put(tmp_path, d_csv=cases.LUNA16_CANDIDATES)
    cohort = read(luna_folder(tmp_path / "refs"), dets)
    assert cohort.images.ids == ("1.3.6.1", "1.3.6.2", "1.3.6.3", "1.3.6.4")
    assert cohort.references.ignore.tolist() == [False, False, True, False, True]
    # An irrelevant finding of unknown size has a diameter of 10 mm.
    assert np.ptp(cohort.references.boxes[2].reshape(2, 3), axis=0).tolist() == [10, 10, 10]
    assert cohort.models["d"].boxes.tolist()[-1] == [0, 0, 0, 0, 0, 0]


def test_the_folder_of_luna16_is_evaluated_as_the_challenge_does(tmp_path):
    import calipers as cal
    from reference.luna16 import Scan, sensitivity_at

    [dets] = put(tmp_path, d_csv=cases.LUNA16_CANDIDATES)
    cohort = read(luna_folder(tmp_path / "refs"), dets)
    result = cal.evaluate(cohort, "luna16", ci=False)
    scans: dict[str, Scan] = {name: Scan() for name in cases.LUNA16_SCANS.split()}

    def rows(text: str) -> list[list[str]]:
        return [line.split(",") for line in text.splitlines()[1:]]

    def place(row: list[str]) -> tuple[float, float, float]:
        return float(row[1]), float(row[2]), float(row[3])

    for row in rows(cases.LUNA16):
        scans[row[0]].nodules.append((place(row), float(row[4])))
    for row in rows(cases.LUNA16_EXCLUDED):
        diameter = 10.0 if row[4] == "-1" else float(row[4])
        scans[row[0]].excluded.append((place(row), diameter))
    for row in rows(cases.LUNA16_CANDIDATES):
        scans[row[0]].candidates.append((place(row), float(row[4])))
    for rate in (0.125, 0.25, 1):
        expected = sensitivity_at(list(scans.values()), rate)
        assert result[f"FROC@{rate:g}"].value == pytest.approx(expected)


def test_findings_of_scans_that_are_not_listed(tmp_path):
    folder = luna_folder(tmp_path / "refs")
    (folder / "seriesuids.csv").write_text("seriesuid\n1.3.6.1\n1.3.6.3\n")
    with pytest.raises(InputError, match="unknown-image") as refused:
        read(folder)
    assert refused.value.location == "annotations.csv:4:1"
    cohort = read(folder, lenient=True)
    assert cohort.intake.files[0].quarantined == {"unknown-image": 1}
    assert cohort.images.ids == ("1.3.6.1", "1.3.6.3")


def test_deeplesion(tmp_path):
    [refs] = put(tmp_path, r_csv=cases.DEEPLESION)
    cohort = read(refs)
    assert cohort.images.ids == ("000001_01_01_109.png", "000002_01_01_162.png")
    assert cohort.references.boxes.tolist()[0] == [226.25, 90, 241.25, 112]
    assert cohort.images.size.tolist() == [[512, 512]] * 2
    assert cohort.images.spacing.tolist() == [[0.5, 0.5], [0.75, 0.75]]
    assert cohort.group("patient").tolist() == ["1", "2"]
    assert cohort.references.facts["Coarse_lesion_type"].tolist() == ["3", "-1", "5"]


@pytest.mark.parametrize(("suffix", "predictions"), [(".mha", cases.JOBS), ("", cases.NODULES)])
def test_node21_and_boxes_of_grand_challenge(tmp_path, suffix, predictions):
    refs, dets = put(tmp_path, r_csv=cases.NODE21.replace(".mha", suffix), d_json=predictions)
    cohort = read(refs, dets)
    assert cohort.images.ids == ("0" + suffix, "1" + suffix)
    assert cohort.references.boxes.tolist() == [[120, 200, 150, 224], [500, 600, 540, 650]]
    assert cohort.models["d"].boxes.tolist()[0] == [120, 200, 150, 224]
    assert cohort.models["d"].score.tolist()[0] == 0.9


def stored(folder, *jobs):
    """Put the values of jobs into files of their own, as an evaluation container finds them."""
    for one in jobs:
        output = one["outputs"][0]
        place = folder / one["pk"] / "output" / "nodules.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(output["value"]))
        output["value"] = None
        output["interface"]["relative_path"] = "nodules.json"
    (folder / "predictions.json").write_text(json.dumps(jobs))
    return folder


def test_results_of_grand_challenge_in_files_of_their_own(tmp_path):
    """Beside the list of jobs, or one object per image without a list."""
    (refs,) = put(tmp_path, r_csv=cases.NODE21)
    first = cases.BOXES["boxes"][0]
    whole = stored(tmp_path / "ev", cases.job("0.mha", first), cases.job("1.mha"))
    assert read(refs, whole).models["ev"].boxes.tolist() == [[120, 200, 150, 224]]
    with pytest.raises(InputError, match="give the folder"):
        read(refs, whole / "predictions.json")
    (command,) = check_files(refs, {"ev": whole / "predictions.json"}).commands
    assert f"evaluate {refs} {whole}" in command
    (whole / "predictions.json").unlink()
    assert read(refs, whole).models["ev"].boxes.tolist() == [[120, 200, 150, 224]]
    by_name = tmp_path / "named"
    by_name.mkdir()
    for k in (0, 1):
        document = json.dumps({**cases.BOXES, "boxes": [first]})
        (by_name / f"{k}.json").write_text(document)
    assert read(refs, by_name).models["named"].image.tolist() == [0, 1]
    # A list may not lead out of its folder.
    outside = cases.job("..", first)
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "nodules.json").write_text(cases.NODULES)
    outside["outputs"] = [{"value": None, "interface": {"relative_path": "nodules.json"}}]
    (whole / "predictions.json").write_text(json.dumps([outside]))
    with pytest.raises(InputError, match="one output"):
        read(refs, whole)


def test_boxes_of_several_classes_need_a_name(tmp_path):
    refs = "image,class,x0,y0,x1,y1\n0,nodule,1,1,9,9\n0,mass,1,1,9,9\n"
    box = {"corners": cases.corners(1, 1, 9, 9, 0), "probability": 0.5}
    paths = put(tmp_path, r_csv=refs, d_json=json.dumps([cases.job("0", {**box, "name": "mass"})]))
    assert read(*paths).models["d"].label.tolist() == [0]
    paths = put(tmp_path, r_csv=refs, d_json=json.dumps([cases.job("0", box)]))
    with pytest.raises(InputError, match="class-missing") as refused:
        read(*paths)
    assert refused.value.location == "/0/outputs/0/value/boxes/0"


def test_a_siim_submission_has_masks_and_no_scores(tmp_path):
    other = "1.2.276.0.7230010.3.9,5 1\n"
    rows = cases.SIIM.splitlines(keepends=True)
    refs, dets, strange = put(
        tmp_path, r_csv=cases.SIIM, d_csv="".join(rows[:3]), s_csv=rows[0] + rows[1] + other
    )
    cohort = read(refs, dets)
    first = cohort.references.boxes.tolist()[0]
    assert cohort.models["d"].boxes.tolist() == [first]
    assert cohort.models["d"].masks is not None
    assert cohort.models["d"].masks.voxels.tolist() == [5]
    with pytest.raises(InputError) as error:
        read(refs, strange)
    assert (error.value.rule, error.value.location) == ("unknown-image", "3:2")
    assert sum(read(refs, strange, lenient=True).intake.files[1].quarantined.values()) == 1


def test_siim(tmp_path):
    [refs] = put(tmp_path, r_csv=cases.SIIM)
    cohort = read(refs)
    assert cohort.images.ids == ("1.2.276.0.7230010.3.1", "1.2.276.0.7230010.3.2")
    # Ten pixels down, three of the first column; then down to row 8 of the second one.
    assert cohort.references.boxes.tolist() == [[0, 8, 2, 13], [1023, 1018, 1024, 1024]]
    masks = cohort.references.masks
    assert masks is not None
    assert np.argwhere(masks.dense(0)).tolist() == [[8, 1], [9, 1], [10, 0], [11, 0], [12, 0]]
    assert read(refs, masks="ignore").references.masks is None


SNIFFED = {
    "vindr": [cases.VINDR, cases.VINDR_TEST, cases.VINDR_SUBMISSION],
    "rsna": [cases.RSNA, cases.RSNA_SUBMISSION],
    "openimages": [cases.OPENIMAGES, cases.OPENIMAGES_SUBMISSION, cases.OPENIMAGES_SCORES],
    "luna16": [cases.LUNA16, cases.LUNA16_EXCLUDED, cases.LUNA16_CANDIDATES],
    "deeplesion": [cases.DEEPLESION],
    "node21": [cases.NODE21],
    "grand-challenge": [cases.NODULES, cases.JOBS],
    "siim": [cases.SIIM],
    "csv": [
        "image,class,x0,y0,x1,y1\na,n,1,1,2,2\n",
        "image_id,class_name,x_min,y_min,x_max,y_max\na,polyp,1,1,2,2\n",
        "patientId,x,y,w,h,score\na,1,1,2,2,.5\n",
        "ImageId,EncodedPixels\n0002cc93b.jpg,29102 12 29346 24\n",
        cases.OPENIMAGES_SIZES,
    ],
    "nih": ["Image Index,Finding Label,Bbox [x,y,w,h],,,\na.png,Mass,1,2,3,4\n"],
    "lard": ["image;height;width;x_A;y_A;x_B;y_B;x_C;y_C;x_D;y_D\na;9;9;1;1;2;1;1;2;2;2\n"],
    "coco": [
        '{"images": [], "annotations": [], "categories": []}',
        '[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]',
        '[{"image_id": "a", "file_name": "a.png", "category_id": 0, "bbox": [1, 2, 3, 4],'
        ' "score": 0.5}]',
    ],
    "voc": [VOC, IMAGENET],
    "cvat": [CVAT],
    "labelme": [labelme(*LABELME)],
    "label-studio": ['[{"data": {"image": "a.png"}, "annotations": [{"result": []}]}]'],
}
LISTED = [(name, k) for name, texts in SNIFFED.items() for k in range(len(texts))]


@pytest.mark.parametrize(("format", "k"), LISTED)
def test_no_format_is_taken_for_another(tmp_path, format, k):
    text = SNIFFED[format][k]
    path = tmp_path / ("file" + {"[": ".json", "{": ".json", "<": ".xml"}.get(text[0], ".csv"))
    path.write_text(text)
    assert sniff(path).format == format


# (files, the one to break, what to replace, by what, rule, location)
BROKEN = [
    ("rsna", 0, "379.0,1", "379.0,2", "type", "3:6"),
    ("rsna", 0, "379.0,1", "379.0,0", "class-missing", "3:6"),
    ("rsna", 0, ",,,,,0", ",,,,,1", "box-shape", "2:2"),
    ("rsna", 0, "264.0,", "x,", "type", "3:2"),
    ("rsna", 0, ",213.0,", ",-213.0,", "neg-size", "3:2"),
    ("rsna", 1, " 0.3 560", " 0.3", "box-shape", "3:2"),
    ("rsna", 1, "0.9 264", "0.9 x", "type", "3:2 box 1"),
    ("rsna", 1, " 0.3 560", " 3 560", "score-range", "3:2 box 2"),
    ("rsna", 1, "0004cfab,", "0004cfax,", "unknown-image", "2:2 box 1"),
    ("vindr", 0, "b2,No finding", "b2,Cardiomegaly", "box-shape", "3:3"),
    ("vindr", 0, "Cardiomegaly,691", "No finding,691", "class-missing", "2:2"),
    ("vindr", 0, ",1653,", ",16x53,", "type", "2:5"),
    ("vindr", 1, "3 0.9", "15 0.9", "unknown-category", "2:2 box 1"),
    ("luna16", 0, "-128.5", "", "box-shape", "2:2"),
    ("luna16", 0, ",6\n", ",-6\n", "neg-size", "4:2"),
    ("luna16", 1, "0.9", "90", "score-range", "2:5"),
    ("deeplesion", 0, "226.25, 90.0, ", "226.25, ", "box-shape", "2:7"),
    ("deeplesion", 0, "226.25, ", "226.25x, ", "type", "2:7"),
    ("node21", 0, "24,0,1", "24,0,0", "class-missing", "2:3"),
    ("node21", 0, "24,0,1", "24,0,yes", "type", "2:3"),
    ("node21", 1, "[150, 224, 0]", "[150, 224, 5]", "box-shape", "/boxes/0"),
    ("node21", 1, "[150, 224, 0]", "[150, 224]", "box-shape", "/boxes/0"),
    ("node21", 1, '"probability": 0.9', '"probability": null', "score-missing", "/boxes/0"),
    ("siim", 0, "10 3 1019", "10 3", "rle-kind", "2:2"),
    ("siim", 0, "10 3 1019", "10 3 -9", "rle-kind", "2:2"),
    ("siim", 0, "1048570 6", "1048570 7", "rle-length", "4:2"),
]
FILES = {
    "rsna": (cases.RSNA, cases.RSNA_SUBMISSION.replace("cfab,", "cfab,0.5 1 1 2 2")),
    "vindr": (cases.VINDR_TEST, cases.VINDR_SUBMISSION),
    "luna16": (cases.LUNA16, cases.LUNA16_CANDIDATES.replace("1.3.6.4", "1.3.6.2")),
    "deeplesion": (cases.DEEPLESION, None),
    "node21": (cases.NODE21.replace(".mha", ""), cases.NODULES),
    "siim": (cases.SIIM, None),
}


@pytest.mark.parametrize(("format", "which", "old", "new", "rule", "location"), BROKEN)
def test_a_broken_record_is_refused_at_its_place(tmp_path, format, which, old, new, rule, location):
    texts = [text for text in FILES[format] if text is not None]
    if old not in texts[which]:
        pytest.fail("nothing to break")
    texts[which] = texts[which].replace(old, new, 1)
    paths = []
    for name, text in zip(("refs", "dets"), texts):
        path = tmp_path / f"{name}.txt"
        path.write_text(text)
        paths.append(path)
    with pytest.raises(InputError) as refused:
        read(*paths)
    assert rule in str(refused.value)
    assert location in str(refused.value)
    # Set aside, it is one record, and all others are used.
    cohort = read(*paths, lenient=True, allow_loss=1)
    account = cohort.intake.files[which]
    assert dict(account.quarantined) == {rule: 1}
    assert account.read == account.used + 1


def test_a_submission_of_one_class_has_five_words_for_every_box(tmp_path):
    refs, dets = put(
        tmp_path,
        r_csv="image_id,x,y,w,h\na,1,2,30,40\na,50,60,7,8\nb,1,1,5,5\n",
        d_csv="image_id,PredictionString\na,0.9 1 2 30 40 0.5 50 60 7 8\nb,\n",
    )
    detections = read(refs, dets).models["d"]
    assert detections.boxes.tolist() == [[1, 2, 31, 42], [50, 60, 57, 68]]
    assert detections.score.tolist() == [0.9, 0.5]
    # Seven words are boxes of neither kind.
    (dets,) = put(tmp_path, e_csv="image_id,PredictionString\na,0.9 1 2 30 40 0.5 50\n")
    with pytest.raises(InputError, match="boxes of 6 words"):
        read(refs, dets)


def test_candidates_of_luna16_are_called_points(tmp_path):
    folder = luna_folder(tmp_path / "luna")
    (dets,) = put(tmp_path, d_csv=cases.LUNA16_CANDIDATES)
    notes = read(folder, dets).intake.files[1].notes
    assert any("all predictions are points" in note for note in notes)
    assert not any("have no area" in note for note in notes)
