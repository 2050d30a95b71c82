"""`calipers evaluate`: the result on stdout, the narration on stderr, and every option."""

from __future__ import annotations

import json
import math

import pytest

import calipers as cal
from calipers import registry
from preset_lists import BOX_PRESETS, MAP_PRESETS

DOCUMENT_KEYS = ["schema", "calipers", "protocol", "cohort", "rows", "warnings", "statistics"]
ROW_KEYS = [
    "model",
    "metric",
    "metric_id",
    "class",
    "group",
    "value",
    "low",
    "high",
    "level",
    "method",
    "unit",
    "n_units",
    "n_images",
    "n_references",
    "n_predictions",
    "bias",
    "undefined",
    "reason",
]
COCO_NAMES = [
    "AP",
    "AP50",
    "AP75",
    "APs",
    "APm",
    "APl",
    "AR1",
    "AR10",
    "AR100",
    "ARs",
    "ARm",
    "ARl",
]


def value(document, metric, model="ours", label=None):
    found = [
        r
        for r in document["rows"]
        if (r["model"], r["metric"], r["class"]) == (model, metric, label)
    ]
    assert len(found) == 1
    return found[0]["value"]


def test_stdout_is_the_table_and_stderr_the_narration(calipers, files):
    said = calipers("evaluate", files.references, files.ours)
    assert said.code == 0
    lines = [line.split() for line in said.out.splitlines() if line.strip()]
    assert lines[:2] == [["All", "classes", "together"], ["metric", "ours", "references"]]
    assert [line[0] for line in lines[3:15]] == COCO_NAMES
    assert lines[15:17] == [["AP", "per", "class"], ["class", "ours", "references"]]
    assert "n = 4 images." in said.out
    assert "4 images, 5 references, 2 classes; protocol coco" in said.err
    assert (
        "note: No interval for any of the 24 rows: they are based on fewer than 5 images."
        in said.err
    )


def test_a_narrow_terminal_cuts_no_name(calipers, files, monkeypatch):
    monkeypatch.setattr("calipers.show.terminal.UNLIMITED", 40)
    said = calipers(
        "evaluate", files.references, f"quite-a-long-model-name={files.ours}", "--quiet"
    )
    assert "…" not in said.out
    assert "quite-a-" in said.out


def test_quiet_says_nothing_but_the_result(calipers, files):
    loud, quiet = (
        calipers("evaluate", files.references, files.ours),
        calipers("evaluate", files.references, files.ours, "--quiet"),
    )
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out == loud.out


def test_json_is_the_contract(calipers, files):
    said = calipers("evaluate", files.references, files.ours, files.theirs, "--json")
    assert (said.code, said.err) == (0, "")
    document = said.json
    assert list(document) == DOCUMENT_KEYS
    assert document["schema"] == "calipers.evaluation/1"
    assert document["calipers"] == cal.__version__
    assert document["protocol"]["schema"] == "calipers.protocol/1"
    assert all(list(row) == ROW_KEYS for row in document["rows"])
    assert document["cohort"]["models"] == {"ours": 5, "theirs": 2}


def test_rows_come_models_first_then_metrics_then_classes(calipers, files):
    document = calipers("evaluate", files.references, files.ours, files.theirs, "--json").json
    order = [(row["model"], row["metric"], row["class"]) for row in document["rows"]]
    labels = (None, "nodule", "mass")
    assert order == [(m, n, c) for m in ("ours", "theirs") for n in COCO_NAMES for c in labels]


def test_the_numbers_are_those_of_a_calculation_by_hand(calipers, files):
    document = calipers(
        "evaluate", files.references, files.ours, files.theirs, "--preset", "overview", "--json"
    ).json
    assert value(document, "sensitivity@0.5") == 4 / 5
    assert value(document, "PPV@0.5") == 4 / 5
    assert value(document, "FP/image@0.5") == 1 / 4
    assert value(document, "sensitivity@0.5", label="mass") == 1
    assert value(document, "sensitivity@0.5", "theirs") == 1 / 5
    assert value(document, "PPV@0.5", "theirs") == 1 / 2


def test_undefined_is_null_with_a_reason(calipers, files):
    document = calipers("evaluate", files.references, files.ours, "--json").json
    undefined = [row for row in document["rows"] if row["value"] is None]
    assert {row["metric"] for row in undefined} >= {"APl", "ARl"}
    assert {row["reason"] for row in undefined} == {"no_references"}
    assert all(row["low"] is None and row["method"] == "none" for row in document["rows"])
    assert "no references" in calipers("evaluate", files.references, files.ours).out


@pytest.mark.parametrize("preset", BOX_PRESETS)
def test_every_preset_runs(calipers, files, preset):
    said = calipers("evaluate", files.references, files.ours, "--preset", preset, "--json")
    assert said.code == 0
    assert said.json["protocol"]["name"] == preset
    assert calipers("evaluate", files.references, files.ours, "--preset", preset).code == 0


@pytest.mark.parametrize("preset", cal.presets())
def test_help_names_every_preset(calipers, preset):
    verb = "maps" if preset in MAP_PRESETS else "evaluate"
    assert preset in " ".join(calipers(verb, "--help").out.split())


def test_a_protocol_file_replaces_the_preset(calipers, files):
    text = (
        'schema = "calipers.protocol/1"\nname = "mine"\nextends = "overview"\n[matching]\n'
        "thresholds = [0.3]\n"
    )
    protocol = files.write("mine.toml", text)
    document = calipers(
        "evaluate", files.references, files.ours, "--protocol", protocol, "--json"
    ).json
    assert (document["protocol"]["name"], document["protocol"]["thresholds"]) == ("mine", [0.3])
    said = calipers(
        "evaluate", files.references, files.ours, "--protocol", protocol, "--preset", "coco"
    )
    assert said.code == 2
    assert "exclude each other" in said.err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--preset", "cocoo"], "did you mean 'coco'?"),
        (["--protocol", "nowhere.toml"], "nowhere.toml"),
        (["--cluster", "patientt"], "no column 'patientt'"),
        (["--by", "patientt"], "by: the images have no column 'patientt'"),
        (["--interval", "wilsom"], "'wilsom' is not one of 'bootse-t-logit'"),
        (["--format", "tfrecord"], ", ".join(sorted(registry.FORMATS))),
        (["--box-format", "xxyy"], "did you mean 'xyxy'?"),
        (["--columns", "image"], "--columns takes NAME=COLUMN"),
        (["--columns", "imag=pic"], "did you mean 'image'?"),
        (["-o", ""], "-o needs the name of a folder"),
        (["again="], "a file is missing in 'again='"),
    ],
)
def test_wrong_values_name_what_exists(calipers, files, option, words):
    said = calipers("evaluate", files.references, files.ours, *option)
    assert (said.code, said.out) == (2, "")
    assert words in said.err


def test_models_are_named_by_file_or_by_the_user(calipers, files):
    document = calipers(
        "evaluate", files.references, f"new model={files.ours}", files.theirs, "--json"
    ).json
    assert list(document["cohort"]["models"]) == ["new model", "theirs"]


def test_a_file_with_an_equals_sign_is_a_file(calipers, files):
    odd = files.write("a=b.json", (files.folder / "ours.json").read_text())
    document = calipers("evaluate", files.references, odd, "--json").json
    assert list(document["cohort"]["models"]) == ["a=b"]


def test_two_models_of_one_name_are_refused(calipers, files):
    said = calipers("evaluate", files.references, files.ours, files.ours)
    assert said.code == 2
    assert "two models are called 'ours'" in said.err
    said = calipers("evaluate", files.references, f"a={files.ours}", f"a={files.theirs}")
    assert (said.code, "two models are called 'a'" in said.err) == (2, True)


def test_groups_give_the_unit(calipers, files):
    rows = calipers("evaluate", files.references, files.ours, "--json").json["rows"]
    assert {(row["unit"], row["n_units"]) for row in rows} == {("image", 4)}
    rows = calipers(
        "evaluate", files.references, files.ours, "--groups", files.groups, "--json"
    ).json["rows"]
    assert {(row["unit"], row["n_units"]) for row in rows} == {("patient", 2)}
    argv = [
        "evaluate",
        files.references,
        files.ours,
        "--groups",
        files.groups,
        "--cluster",
        "centre",
        "--json",
    ]
    assert {(row["unit"], row["n_units"]) for row in calipers(*argv).json["rows"]} == {
        ("centre", 2)
    }


@pytest.mark.parametrize("word", ["--columns", "--column"])
def test_columns_of_a_table_can_be_named(calipers, files, word):
    references = files.write("r.csv", "pic,what,x0,y0,x1,y1\n1,a,0,0,9,9\n2,,,,,\n")
    ours = files.write("p.csv", "pic,what,x0,y0,x1,y1,score\n1,a,0,0,9,9,1\n")
    assert calipers("evaluate", references, ours).code == 2
    said = calipers(
        "evaluate", references, ours, word, "image=pic,class=what", "--preset", "overview", "--json"
    )
    assert said.code == 0
    assert value(said.json, "sensitivity@0.5", "p") == 1


def test_box_format_is_obeyed(calipers, files):
    corners = [(1, 1, [10, 10, 30, 30]), (1, 2, [50, 50, 80, 80])]
    records = [
        {"image_id": i, "category_id": c, "bbox": box, "score": 0.9} for i, c, box in corners
    ]
    document = json.loads((files.folder / "references.json").read_text())
    document["annotations"] = [
        {"id": k, "image_id": i, "category_id": c, "bbox": box, "iscrowd": 0}
        for k, (i, c, box) in enumerate(corners)
    ]
    references, ours = files.write("corners.json", document), files.write("found.json", records)
    said = calipers("evaluate", references, ours, "--box-format", "xyxy", "--json")
    assert said.code == 0
    assert math.isclose(value(said.json, "AP", "found"), 1)


def test_score_scale(calipers, files):
    raw = files.write(
        "raw.json", [{"image_id": 1, "category_id": 1, "bbox": [10, 10, 20, 20], "score": 7.5}]
    )
    said = calipers("evaluate", files.references, raw)
    assert (said.code, "--score-scale raw" in said.err) == (2, True)
    assert calipers("evaluate", files.references, raw, "--score-scale", "raw").code == 0


def test_the_result_does_not_depend_on_the_number_of_threads(calipers, files):
    argv = ["evaluate", files.references, files.ours, files.theirs, "--preset", "rodeo", "--json"]
    assert calipers(*argv, "--jobs", "1").out == calipers(*argv, "--jobs", "3").out


def test_seed_is_kept(calipers, files):
    document = calipers("evaluate", files.references, files.ours, "--seed", "7", "--json").json
    assert document["protocol"]["seed"] == 7


def test_no_ci_silences_the_note_on_intervals(calipers, files):
    assert (
        calipers("evaluate", files.references, files.ours, "--no-ci", "--json").json["warnings"]
        == []
    )


def test_a_model_that_predicts_nothing(calipers, files):
    nothing = files.write("nothing.json", "[]")
    said = calipers("evaluate", files.references, nothing, "--preset", "overview", "--json")
    assert said.code == 0
    rows = {row["metric"]: row for row in said.json["rows"] if row["class"] is None}
    assert rows["sensitivity@0.5"]["value"] == 0
    assert (rows["PPV@0.5"]["value"], rows["PPV@0.5"]["reason"]) == (None, "no_predictions")
    silent = [warning for warning in said.json["warnings"] if "4 of 4 images" in warning]
    assert silent == ["nothing: 4 of 4 images have no prediction."]  # once, and by name


def test_notes_of_readers_name_their_file(calipers, files):
    data = (files.folder / "references.json").read_bytes()
    (files.folder / "bom.json").write_bytes(b"\xef\xbb\xbf" + data)
    warnings = calipers("evaluate", files.path("bom.json"), files.ours, "--json").json["warnings"]
    assert [warning for warning in warnings if warning.startswith("bom.json: ")]


def test_references_against_themselves_are_perfect(calipers, files):
    perfect = json.loads((files.folder / "references.json").read_text())["annotations"]
    path = files.write("perfect.json", [{**record, "score": 1.0} for record in perfect])
    document = calipers("evaluate", files.references, path, "--json").json
    values = [
        row["value"]
        for row in document["rows"]
        if row["value"] is not None and row["metric"] != "AR1"
    ]
    assert all(math.isclose(v, 1) for v in values)


def test_a_summary_over_centres(calipers, tmp_path) -> None:
    cohort = cal.demo_cohort()
    cal.write(cohort, tmp_path / "refs.json")
    cal.write(cohort, tmp_path / "a.json", what="overpredicts")
    arguments = ("evaluate", tmp_path / "refs.json", tmp_path / "a.json", "--no-ci")
    choices = ("--preset", "endocv2022", "--by", "centre,size", "--summary", "centre")
    said = calipers(*arguments, *choices)
    assert said.code == 0, said.err
    assert "AP@0.5 of a per centre" in said.out
    assert "mean of 4 groups (SD)" in said.out
    document = calipers(*arguments, *choices, "--json").json
    assert document["summary"]["schema"] == "calipers.summary/1"
    assert [group["n_images"] for group in document["summary"]["groups"]] == [35, 48, 15, 22]
    refused = calipers(*arguments, "--by", "size", "--summary", "centre")
    assert refused.code == 2
    assert "--by centre,size" in refused.err


def test_a_frame_rate_from_the_command_line(calipers, tmp_path) -> None:
    cohort = cal.demo_cohort()
    cal.write(cohort, tmp_path / "refs.json")
    cal.write(cohort, tmp_path / "a.json", what="overpredicts")
    rows = [f"{name},v{k // 10},{k % 10}" for k, name in enumerate(cohort.images.ids)]
    (tmp_path / "videos.csv").write_text("\n".join(["image,sequence,frame", *rows]))
    (tmp_path / "p.toml").write_text(
        'schema = "calipers.protocol/1"\nname = "p"\nsource = "test"\n'
        '[[metric]]\nname = "FP/minute"\nkind = "alarms-per-minute"\n'
    )
    arguments = ("evaluate", tmp_path / "refs.json", tmp_path / "a.json", "--no-ci", "--json")
    more = ("--groups", tmp_path / "videos.csv", "--protocol", tmp_path / "p.toml")
    slow = calipers(*arguments, *more, "--fps", "10").json["rows"][0]["value"]
    fast = calipers(*arguments, *more, "--fps", "20").json["rows"][0]["value"]
    assert fast == pytest.approx(2 * slow)
    assert calipers(*arguments, *more).json["rows"][0]["reason"] == "no_frame_rate"


def test_metrics_by_their_names(calipers, files, tmp_path):
    """Any metric without a protocol file; the folder opens again with the same values."""
    given = ("evaluate", files.references, files.ours, "--no-ci", "--json")
    wanted = "AP@0.4,FROC@1,F1@0.5,score=0.5*AP@0.4 + 0.5*F1@0.5"
    out = tmp_path / "out"
    document = calipers(*given, "--metrics", wanted, "-o", out).json
    values = {row["metric"]: row["value"] for row in document["rows"] if row["class"] is None}
    assert list(values) == ["AP@0.4", "FROC@1", "F1@0.5", "score"]
    assert values["score"] == pytest.approx(0.5 * values["AP@0.4"] + 0.5 * values["F1@0.5"])
    assert document["protocol"]["name"] == "coco, metrics chosen"
    assert calipers("verify", out).code == 0
    overview = calipers(*given, "--preset", "overview").json["rows"]
    same = [row["value"] for row in overview if row["metric"] == "F1@0.5"]
    assert values["F1@0.5"] == same[0]
    wrong = calipers("evaluate", files.references, files.ours, "--metrics", "F3@0.5")
    assert (wrong.code, "no metric 'F3@0.5'; " in wrong.err) == (2, True)


def test_each_reader_in_turn_with_the_others_as_a_yardstick(calipers, tmp_path):
    """On the terminal, in JSON, on the page and in the folder."""
    names = ("R1", "R2", "R3")
    rows = ["image,reader,class,x0,y0,x1,y1"]
    said = ["image,class,score,x0,y0,x1,y1"]
    for k in range(12):
        for j, name in enumerate(names):
            shift = 4 * ((k + j) % 4)
            rows.append(f"{k},{name},nodule,{shift},0,{shift + 20},20")
        said.append(f"{k},nodule,0.9,4,0,24,20")
    references, predictions, out = (tmp_path / name for name in ("r.csv", "ours.csv", "out"))
    references.write_text("\n".join(rows) + "\n")
    predictions.write_text("\n".join(said) + "\n")
    given = ("evaluate", references, predictions, "--readers", "each", "--replicates", "100")
    printed = calipers(*given, "-o", out)
    assert "F1@0.5 by reader" in printed.out
    assert "agree with each other" in printed.out
    document = calipers(*given, "--json").json
    assert document["schema"] == "calipers.evaluation/1"
    groups = {(row["model"], row["group"]["reader"]) for row in document["rows"] if row["group"]}
    assert groups == {(model, name) for model in ("ours", "other readers") for name in names}
    assert {row["unit"] for row in document["rows"]} == {"original image"}
    assert {row["n_units"] for row in document["rows"]} == {12}
    page = (out / "report.html").read_text()
    assert "Readers as the yardstick" in page
    assert "agree with each other" in page
    assert calipers("verify", out).code == 0
    compared = calipers(
        "compare",
        references,
        predictions,
        "--readers",
        "each",
        "--metrics",
        "F1@0.5",
        "--margin",
        "0.9",
    )
    assert "ours agrees with the readers better than they agree with each other" in compared.out
    inspected = calipers("inspect", references, predictions, "--readers", "each", "--json").json
    assert not {"duplicate-images", "patients-in-names"} & {
        finding["code"] for finding in inspected["findings"]
    }
    converted = calipers("convert", references, tmp_path / "out.json", "--readers", "each")
    assert (converted.code, "--readers each is for evaluate" in converted.err) == (2, True)
