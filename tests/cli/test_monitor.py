"""`calipers monitor`: the answer in words, OMS beside OOD, a folder that is whole or absent,
and typed refusals.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import calipers as cal
from calipers.monitors.baselines import baseline
from calipers.monitors.words import command_line_warning
from calipers.synthetic.runways import runway_cohort, write_runways

N = 120
FEW = ("--replicates", "100")


@pytest.fixture(scope="module")
def made():
    return runway_cohort(N, seed=3)


@pytest.fixture(scope="module")
def data(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runways")
    write_runways(folder, made)
    return folder


@pytest.fixture
def monitor(calipers, data):
    """Call the verb on the runways; alarms are those of the file unless others are given."""

    def call(*options, alarm=None):
        alarms = [data / "alarms.csv"] if alarm is None else alarm
        named = [word for one in alarms for word in ("--alarm", one)]
        return calipers("monitor", data / "lard.csv", data / "detector.csv", *named, *options)

    return call


def write_alarms(path, made, **columns):
    """Write a table of alarms of the runways."""
    names = list(columns)
    rows = [",".join(["image", *names])]
    rows += [
        ",".join([image, *(str(columns[c][k]) for c in names)])
        for k, image in enumerate(made.cohort.images.ids)
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_sentences_come_first_then_both_paradigms_side_by_side(monitor):
    said = monitor("--ood", "ood", "--tau", 0.5, *FEW)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith(
        "shift-detector gives an image that is unsafe a higher alarm than one that is safe in "
    )
    head = next(line for line in lines if line.split()[:1] == ["monitor"])
    wanted = ["wanted,", "OMS", "wanted,", "OOD"]
    assert head.split() == ["monitor", "quantity", "OMS", "OOD", "images", *wanted]
    for name in ("AUROC", "AUPR", "FPR95", "MCC", "AURC", "E-AURC", "SG", "RH", "AC"):
        rows = [line.split() for line in lines if f" {name} " in line]
        assert sum(row[-3].isdigit() for row in rows if len(row) > 3) == 3
    assert any(line.split()[-4:] == ["rejected", "of", "share", "rejected"] for line in lines)


def test_json_is_one_object_with_the_numbers_of_python(monitor, made):
    document = monitor("--ood", "ood", "--tau", 0.5, "--no-ci", "--json").json
    scope = cal.scope_scores(made.cohort)
    found = cal.evaluate_monitor(
        made.alarms,
        scope,
        0.5,
        made.columns["ood"],
        tuning=made.split("tuning"),
        threshold="q95-safe",
        ci=False,
    )
    assert document["schema"] == "calipers.monitor/1"
    assert document["page"] is None
    same = json.loads(json.dumps(found.as_dict()))
    assert document["rows"] == same["rows"]
    assert document["tables"] == same["tables"]
    assert document["thresholds"] == same["thresholds"]


def test_the_folder_is_complete_and_only_ours_is_replaced(monitor, tmp_path):
    out = tmp_path / "out"
    said = monitor("--ood", "ood", "--tau", 0.5, "--no-ci", "-o", out)
    assert said.code == 0
    assert said.out.endswith(f"Open {out / 'monitor.html'}\n")
    names = {file.name for file in out.iterdir()}
    every = ("auroc", "risk", "roc-oms", "roc-ood", "sweep", "prevalence", "ranking")
    assert {"monitor.html", "monitor.json", "monitor.csv", "images.csv"} <= names
    assert {f"monitor-{name}.svg" for name in every} <= names
    assert {
        f"monitor-{name}-{k}.svg" for name in ("outcomes", "scores") for k in (1, 2, 3)
    } <= names
    assert monitor("--tau", 0.5, "--no-ci", "-o", out).code == 2
    (out / "mine.txt").write_text("stays")
    alone = monitor("--tau", 0.5, "--no-ci", "-o", out, "--force", alarm=["max-score"])
    assert alone.code == 0
    left = {file.name for file in out.iterdir()}
    assert "mine.txt" in left
    assert "monitor-roc-ood.svg" not in left
    assert "monitor-scores-2.svg" not in left


def test_the_table_of_images_has_scores_labels_alarms_and_rejections(monitor, made, tmp_path):
    monitor("--ood", "ood", "--tau", 0.5, "--no-ci", "-o", tmp_path / "out")
    with (tmp_path / "out" / "images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    judged = ~made.split("tuning")
    assert [row["image"] for row in rows] == [
        i for i, k in zip(made.cohort.images.ids, judged) if k
    ]
    assert {"score", "unsafe", "ood", "alarm random", "rejected random"} <= set(rows[0])
    alarms = [float(row["alarm random"]) for row in rows]
    assert np.allclose(alarms, np.asarray(made.alarms["random"])[judged])


def test_the_page_says_what_the_terminal_says(monitor, tmp_path, data):
    said = monitor("--ood", "ood", "--tau", 0.5, *FEW, "-o", tmp_path / "out", "--images", data)
    page = (tmp_path / "out" / "monitor.html").read_text()
    assert "Content-Security-Policy" in page
    assert "failure-predictor: unsafe and accepted" in page
    assert "data:image/" in page  # pictures of the folder
    sentence = next(
        line
        for line in said.out.splitlines()
        if line.startswith("Of 100 unsafe images failure-predictor")
    )
    assert sentence in page
    for name in (
        "auroc",
        "risk",
        "roc-oms",
        "roc-ood",
        "ranking",
        "sweep",
        "outcomes-0",
        "scores-2",
    ):
        assert f'id="fig-monitor-{name}"' in page


def test_without_ood_labels_only_oms_is_shown_and_that_is_said(monitor, tmp_path):
    said = monitor("--tau", 0.5, *FEW, "-o", tmp_path / "out", alarm=["max-score"])
    assert "only model-scope (OMS) labels are shown" in said.err
    assert "OOD" not in said.out
    page = (tmp_path / "out" / "monitor.html").read_text()
    assert "No OOD labels were given" in page
    assert 'id="fig-monitor-roc-ood"' not in page


def test_baselines_need_no_file(monitor, made):
    document = monitor("--tau", 0.5, "--no-ci", "--json", alarm=["max-score", "count"]).json
    assert document["monitors"] == ["max-score", "count"]
    scope = cal.scope_scores(made.cohort)
    alarm = baseline("max-score", made.cohort)
    value = cal.evaluate_monitor(alarm, scope, 0.5, ci=False).get("AUROC").value
    row = next(
        r for r in document["rows"] if r["metric"] == "AUROC" and r["group"] == {"paradigm": "oms"}
    )
    assert row["value"] == value


def test_fitted_baselines_leave_their_images_out(monitor, made, data):
    options = ("--fit", "split=fit", "--images", data, "--tau", 0.5, "--no-ci")
    both = monitor(*options, alarm=[data / "alarms.csv", "image-knn"])
    fit, tuning = made.split("fit"), made.split("tuning")
    assert f"{fit.sum()} images that baselines are fitted on are left out" in both.err
    document = monitor(*options, "--json", alarm=[data / "alarms.csv", "image-knn"]).json
    assert document["n_images"] == (~fit & ~tuning).sum()
    assert "image-knn" in document["monitors"]


def test_a_sweep_has_no_headline_and_a_table_over_tau(monitor):
    said = monitor("--tau-sweep", "--no-ci", alarm=["max-score"])
    assert said.code == 0
    assert said.out.startswith("No tau was given. Over 2 values of tau")
    assert any(line.split()[:1] == ["AUROC"] for line in said.out.splitlines())
    document = monitor("--tau-sweep", "--no-ci", "--json", alarm=["max-score"]).json
    assert document["tau"] is None
    assert len(document["taus"]) == 2


def test_ood_can_be_values_of_a_column(monitor, made):
    document = monitor("--ood", "shift=fog,night", "--tau", 0.5, "--no-ci", "--json").json
    counts = [
        cell
        for cell in document["tables"]["disagreement"]
        if cell["monitor"] is None and cell["ood"]
    ]
    shift = np.asarray(made.columns["shift"])[~made.split("tuning")]
    assert sum(cell["images"] for cell in counts) == np.isin(shift, ("fog", "night")).sum()


def test_columns_that_options_name_are_no_monitors(monitor, made, tmp_path):
    n = np.arange(N)
    path = write_alarms(tmp_path / "a.csv", made, mine=n / N, harm=n % 3, flight=n // 4)
    options = (
        "--tau",
        0.5,
        "--severity",
        "harm",
        "--cluster",
        "flight",
        "--threshold",
        0.5,
        "--no-ci",
        "--json",
    )
    document = monitor(*options, alarm=[path]).json
    assert document["monitors"] == ["mine"]
    assert document["settings"]["unit"] == "flight"
    assert document["settings"]["stakes"] == "given"


def test_the_matching_of_a_preset_is_used_and_its_metrics_are_scores(monitor, made):
    rows = {}
    for name in (("--preset", "lard"), (), ("--preset", "lard", "--score", "F1/image@0.5")):
        document = monitor("--tau", 0.5, "--no-ci", "--json", *name, alarm=["max-score"]).json
        rows[name] = [row["value"] for row in document["rows"] if row["metric"] == "AUROC"]
    assert len({tuple(values) for values in rows.values()}) == 1
    assert document["settings"]["scope"]["protocol"] == "lard"


def test_thresholds_are_numbers_rules_or_of_one_monitor(monitor):
    document = monitor(
        "--tau",
        0.5,
        "--no-ci",
        "--json",
        "--threshold",
        "youden",
        "--threshold",
        "random=1.25",
        "--ood",
        "ood",
    ).json
    assert document["thresholds"]["random"] == {"value": 1.25, "rule": "given", "n_tuning": 0}
    assert document["thresholds"]["shift-detector"]["rule"] == "youden"


@pytest.fixture
def labels(tmp_path):
    """Write a classifier's labels: 3 of 12 wrong, and a confidence that is low there."""
    lines = ["image,y,y_hat,confidence,patient"]
    lines += [
        f"i{k},{k % 2},{(k % 2) ^ (k < 3)}.0,{0.2 if k < 3 else 0.5 + k / 40},p{k // 2}"
        for k in range(12)
    ]
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("alarm", ["confidence", "file"])
def test_a_classifier_needs_two_columns_of_labels(calipers, labels, alarm):
    said = calipers(
        "monitor", labels, "--truth", "y", "--predicted", "y_hat", "--alarm",
        labels if alarm == "file" else alarm,
        "--lower-is-alarm", "confidence", "--threshold", 0.3, "--no-ci", "--json",
    )  # fmt: skip
    document = said.json
    assert document["monitors"] == ["confidence"]
    assert document["settings"]["unit"] == "patient"
    rows = {r["metric"]: r for r in document["rows"] if r["model"] == "confidence"}
    assert rows["AUROC"]["value"] == 1.0
    assert rows["SG"]["value"] == 0.25
    assert rows["RH"]["value"] == 0.0
    assert rows["AUROC"]["n_references"] == 3


def test_no_unsafe_image_is_null_with_a_reason(monitor):
    said = monitor("--tau", 0, "--no-ci", alarm=["max-score"])
    assert said.code == 0
    assert "no image is unsafe" in said.err
    document = monitor("--tau", 0, "--no-ci", "--json", alarm=["max-score"]).json
    rows = [
        r
        for r in document["rows"]
        if r["group"] == {"paradigm": "oms"} and r["metric"] in ("AUROC", "RH")
    ]
    assert {(r["value"], r["reason"]) for r in rows} == {(None, "no_positives")}
    assert (
        "images are unsafe (s lies between 0 and 1)"
        in monitor("--tau", 50, "--no-ci", alarm=["max-score"]).err
    )


def test_a_constant_monitor_is_chance(monitor, made, tmp_path):
    path = write_alarms(tmp_path / "a.csv", made, flat=[7] * N)
    said = monitor("--tau", 0.5, "--no-ci", "--json", "--threshold", 8, alarm=[path])
    rows = {r["metric"]: r["value"] for r in said.json["rows"] if r["group"] == {"paradigm": "oms"}}
    assert (rows["AUROC"], rows["FPR95"]) == (0.5, 1.0)
    assert "gives the same score to all" in monitor("--tau", 0.5, "--no-ci", alarm=[path]).err


def test_a_wrong_direction_is_answered_with_the_option(monitor, made, tmp_path):
    fails = np.asarray(made.columns["fails"], float)
    path = write_alarms(tmp_path / "a.csv", made, calm=1 - fails + np.arange(N) / N / 10)
    said = monitor("--tau", 0.5, *FEW, alarm=[path])
    assert "pass --lower-is-alarm calm" in said.err
    assert "higher_is_alarm" not in said.err
    assert "pass --lower-is-alarm calm" in monitor("--tau", 0.5, "--no-ci", alarm=[path]).err
    assert (
        command_line_warning("take a larger tau, or classes='present'")
        == "take a larger tau, or --classes present"
    )


def test_missing_images_nan_and_strange_images_are_named(monitor, made, tmp_path):
    path = write_alarms(tmp_path / "a.csv", made, mine=np.arange(N))
    whole = path.read_text().splitlines()
    path.write_text("\n".join(whole[:-2]) + "\n")
    said = monitor("--tau", 0.5, alarm=[path])
    assert said.code == 2
    assert "[missing-image]" in said.err
    assert "2 of 120 images have no row" in said.err
    path.write_text("\n".join([*whole[:-1], whole[-1].rpartition(",")[0] + ",nan"]) + "\n")
    assert "[non-finite]" in monitor("--tau", 0.5, alarm=[path]).err
    path.write_text("\n".join([*whole, "nobody,1"]) + "\n")
    assert "[unknown-image]" in monitor("--tau", 0.5, alarm=[path]).err


def test_two_files_must_not_contradict_each_other(monitor, made, tmp_path):
    one = write_alarms(tmp_path / "a.csv", made, a=np.arange(N), ood=np.arange(N) % 2)
    other = write_alarms(tmp_path / "b.csv", made, b=np.arange(N), ood=(np.arange(N) + 1) % 2)
    assert "[labels-differ]" in monitor("--tau", 0.5, alarm=[one, other]).err
    assert "two monitors are called 'a'" in monitor("--tau", 0.5, alarm=[one, one]).err
    assert monitor("--tau", 0.5, "--no-ci", "--ood", "ood", alarm=[one]).code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ood", "odd"], "did you mean 'ood'"),
        (["--ood", "shift"], "--ood shift=VALUE,VALUE; there are "),
        (["--ood", "shift"], "--ood shift, image "),
        (["--monitor", "nobody"], "known: shift-detector, failure-predictor, random"),
        (["--ood", "shift=fogg"], "did you mean 'fog'"),
        (["--ood", "shift="], "expected COLUMN or COLUMN=VALUE"),
        (["--tuning", "nothing"], "--tuning: no column 'nothing'"),
        (["--severity", "shift"], "a number for every image"),
        (["--cluster", "nobody"], "no column 'nobody'"),
        (["--lower-is-alarm", "randm"], "did you mean 'random'"),
        (["--monitor", "randm"], "--monitor: no monitor 'randm'"),
        (["--threshold", "randm=1"], "did you mean 'random'"),
        (["--fit", "split=fit,test,tuning"], "none is left to evaluate"),
    ],
)
def test_unknown_columns_and_monitors_are_answered_with_the_nearest(monitor, options, told):
    said = monitor("--tau", 0.5, "--no-ci", *options)
    assert said.code == 2
    assert told in said.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tau", "0.5", "--tau-sweep"], "exclude each other"),
        (["--tau", "nan"], "--tau is a finite number"),
        (["--threshold", "bestf1"], "did you mean 'best-f1'"),
        (["--threshold", "inf"], "--threshold is a finite number"),
        (["--no-ci", "--replicates", "200"], "--no-ci leaves out"),
        (["--score", "AP50"], "--preset coco --score AP50"),
        (["--preset", "lrad"], "did you mean 'lard'"),
        (["--preset", "coco", "--score", "AP", "--iou", "0.3"], "--iou is fixed by the protocol"),
        (["--images", "nowhere"], "[not-a-folder]"),
        (["--truth", "y"], "leave PREDS out"),
        (["-o", ""], "-o needs the name of a folder"),
    ],
)
def test_bad_options_are_told_before_anything_is_read(calipers, options, told):
    said = calipers("monitor", "missing.json", "absent.json", "--alarm", "max-score", *options)
    assert said.code == 2
    assert told in said.err


@pytest.mark.parametrize(
    ("alarm", "told"),
    [
        ("max-scor", "did you mean 'max-score'"),
        ("nowhere.csv", "[not-found]"),
        ("image-knn", "--fit split=train"),
    ],
)
def test_an_alarm_is_a_file_or_a_baseline(monitor, alarm, told):
    said = monitor("--tau", 0.5, alarm=[alarm])
    assert said.code == 2
    assert told in said.err


def test_pictures_are_needed_where_they_are_looked_at(monitor, data):
    said = monitor("--tau", 0.5, "--fit", "split=fit", alarm=[data / "alarms.csv", "image-knn"])
    assert "give their folder with --images" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--truth", "y", "--predicted", "yhat"], "did you mean 'y_hat'"),
        (["--truth", "y"], "both --truth COLUMN and --predicted COLUMN"),
        (["--truth", "y", "--predicted", "y_hat", "--iou", "0.4"], "--iou is for boxes"),
        (
            ["--truth", "y", "--predicted", "y_hat", "--alarm", "max-score"],
            "needs predictions of boxes",
        ),
        (
            ["--truth", "y", "--predicted", "y_hat", "--alarm", "confidense"],
            "did you mean 'confidence'",
        ),
    ],
)
def test_bad_labels_are_refused(calipers, labels, words, told):
    more = [] if "--alarm" in words else ["--alarm", labels]
    said = calipers("monitor", labels, *words, *more)
    assert said.code == 2
    assert told in said.err


def test_an_image_without_a_label_is_named(calipers, labels):
    labels.write_text(labels.read_text().replace("i4,0,0.0", "i4,,0.0"))
    said = calipers(
        "monitor", labels, "--truth", "y", "--predicted", "y_hat", "--alarm", "confidence"
    )
    assert said.code == 2
    assert "[missing-label]" in said.err


def test_records_that_are_set_aside_are_counted(calipers, data, tmp_path):
    lines = (data / "detector.csv").read_text().splitlines()
    broken = tmp_path / "detector.csv"
    broken.write_text(
        "\n".join([*lines[:1], lines[1].rpartition(",")[0] + ",high", *lines[2:]]) + "\n"
    )
    words = ("monitor", data / "lard.csv", broken, "--alarm", "max-score", "--tau", 0.5, "--no-ci")
    assert calipers(*words).code == 2
    said = calipers(*words, "--lenient")
    assert "1 broken record set aside" in said.err
    assert calipers(*words, "--lenient", "--json").json["settings"]["scope"]["set_aside"] == 1


def test_results_never_go_among_the_inputs(monitor, data):
    assert "output-in-input" in monitor("--tau", 0.5, "-o", data, "--force").err
