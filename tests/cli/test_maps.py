"""`calipers maps`: folders of labels and maps in, estimates and a page out; bad input is one error
and no output.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.io.write_volume import write_volume
from map_cases import values_of

Calls = Callable[..., Any]
SPACING = (1.0, 1.0, 2.5)


class Study:
    """Folders with label volumes and the maps of two models, written in a format."""

    def __init__(self, folder: Path, suffix: str = ".npy", n: int = 6) -> None:
        self.folder, self.suffix = folder, suffix
        random = np.random.default_rng(3)
        for k in range(n):
            labels = np.zeros((6, 10, 12), np.uint8)
            if k % 3:
                labels[1:4, 2:6, 3 + k % 2 : 8] = 1
            noise = random.random(labels.shape)
            self.write("labels", f"case{k}", labels)
            self.write("ours", f"case{k}", (0.7 * labels + 0.3 * noise).astype(np.float32))
            self.write("theirs", f"case{k}", (0.3 * labels + 0.6 * noise).astype(np.float32))
        rows = [f"case{k},p{k // 2},{'NS'[k % 2]},{'tune' if k < 2 else 'test'}" for k in range(n)]
        (folder / "groups.csv").write_text(
            "\n".join(["image,patient,centre,split", *rows]), encoding="utf-8"
        )

    def write(self, part: str, name: str, array: np.ndarray, affine: Any = None) -> None:
        (self.folder / part).mkdir(exist_ok=True, parents=True)
        path = self.folder / part / f"{name}{self.suffix}"
        write_volume(
            path,
            array,
            None if affine is not None else SPACING * (self.suffix != ".npy") or None,
            affine,
        )

    def path(self, part: str) -> str:
        return str(self.folder / part)

    def file(self, part: str, name: str = "case1") -> Path:
        return self.folder / part / f"{name}{self.suffix}"


@pytest.fixture(params=[".npy", ".npz", ".nii.gz"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Study:
    return Study(tmp_path / "data", request.param)


@pytest.fixture
def plain(tmp_path: Path) -> Study:
    return Study(tmp_path / "data")


def test_folders_give_what_arrays_give(calipers: Calls, study: Study) -> None:
    said = calipers("maps", study.path("labels"), f"ours={study.path('ours')}", "--no-ci", "--json")
    assert (said.code, said.err) == (0, "")
    samples = cal.read_maps(study.path("labels"), {"ours": study.path("ours")})
    pairs = [sample.load() for sample in samples]
    expected = values_of(cal.evaluate_maps(pairs, ci=False))
    found = {row["metric"]: row["value"] for row in said.json["rows"] if row["class"] is None}
    assert found == pytest.approx(expected)
    assert said.json["protocol"]["maps"]["threshold"] == 0.5


def test_a_folder_of_volumes_with_intervals_and_a_report(
    calipers: Calls, study: Study, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    said = calipers(
        *(
            "maps",
            study.path("labels"),
            f"ours={study.path('ours')}",
            f"theirs={study.path('theirs')}",
        ),
        *("--groups", study.path("groups.csv"), "--by", "centre", "--cluster", "image", "-o", out),
    )
    assert said.code == 0, said.err
    assert {"evaluation.json", "report.html", "run.json", "objects.parquet", "images.csv"} <= {
        path.name for path in out.iterdir()
    }
    document = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    rows = {
        (row["model"], row["metric"]): row
        for row in document["rows"]
        if not row["group"] and not row["class"]
    }
    assert (
        rows["ours", "softIoU"]["low"]
        < rows["ours", "softIoU"]["value"]
        < rows["ours", "softIoU"]["high"]
    )
    assert rows["ours", "AP/dataset"]["value"] > rows["theirs", "AP/dataset"]["value"]
    assert {row["group"]["centre"] for row in document["rows"] if row["group"]} == {"N", "S"}
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert "AP/sample, AUROC/sample: 2 of 6 samples have no references" in said.err
    assert "labels" in json.dumps(run)


def test_options_replace_those_of_the_protocol(calipers: Calls, plain: Study) -> None:
    both = ("maps", plain.path("labels"), plain.path("ours"), "--no-ci", "--json")
    options = ("--threshold", "fpr:0.1", "--connectivity", "faces", "--least", "3")
    document = calipers(*both, *options).json
    assert (
        document["protocol"]["maps"] | {"threshold": "fpr:0.1", "connectivity": "faces", "least": 3}
        == (document["protocol"]["maps"])
    )
    assert any("score of at least" in warning for warning in document["warnings"])
    tuned = (
        "--groups",
        plain.path("groups.csv"),
        "--tuning",
        "split=tune",
        "--threshold",
        "best-dice",
    )
    document = calipers(*both, *tuned).json
    assert document["cohort"]["images"] == 4
    # The samples that chose the threshold are counted as set aside, but none is a broken record.
    output = plain.folder / "tuned"
    assert calipers(*both[:-1], *tuned, "-o", output).code == 0
    said = calipers("verify", output, "-q")
    assert said.code == 0, said.err
    assert calipers(*both, "--preset", "mood").json["protocol"]["name"] == "mood"


def test_jobs_change_nothing(calipers: Calls, plain: Study) -> None:
    words = (
        "maps",
        plain.path("labels"),
        plain.path("ours"),
        plain.path("theirs"),
        "--json",
        "--seed",
        "3",
    )
    one, three = (calipers(*words, "--jobs", jobs).json["rows"] for jobs in (1, 3))
    assert one == three


def shape(study: Study) -> None:
    study.write("ours", "case1", np.zeros((6, 12, 10), np.float32))


def nan(study: Study) -> None:
    study.write("ours", "case1", np.full((6, 10, 12), np.nan, np.float32))


def above_one(study: Study) -> None:
    study.write("ours", "case1", np.full((6, 10, 12), 7.0, np.float32))


def three_labels(study: Study) -> None:
    study.write("labels", "case1", np.arange(720, dtype=np.uint8).reshape(6, 10, 12) % 3)


def smooth_labels(study: Study) -> None:
    study.write("labels", "case1", np.linspace(0, 1, 720, dtype=np.float32).reshape(6, 10, 12))


def another_name(study: Study) -> None:
    study.file("ours").rename(study.file("ours", "case_1"))


def truncated(study: Study) -> None:
    held = study.file("ours").read_bytes()
    study.file("ours").write_bytes(held[: len(held) // 2])


def empty_file(study: Study) -> None:
    study.file("ours").write_bytes(b"")


def empty_folder(study: Study) -> None:
    for path in (study.folder / "ours").iterdir():
        path.unlink()


def no_folder(study: Study) -> None:
    (study.folder / "ours").rename(study.folder / "gone")


def flat(study: Study) -> None:
    write_volume(study.file("ours"), np.zeros((10, 12), np.float32))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (shape, "6 x 12 x 10|(6, 12, 10)|12 x 10"),
        (nan, "non-finite"),
        (above_one, "score-range"),
        (three_labels, "mask-values"),
        (smooth_labels, "whole numbers"),
        (another_name, "case_1"),
        (truncated, "case1"),
        (empty_file, "case1"),
        (empty_folder, "ours"),
        (no_folder, "ours"),
        (flat, "case1"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_bad_files_are_one_error_and_no_output(
    calipers: Calls, study: Study, tmp_path: Path, harm: Callable[[Study], None], words: str
) -> None:
    harm(study)
    out = tmp_path / "out"
    both = ("maps", study.path("labels"), f"ours={study.path('ours')}", "-o", out)
    said = calipers(*both)
    assert said.code == 2, said.err
    assert said.out == ""
    assert said.err.count("error:") == 1
    assert any(word in said.err for word in words.split("|"))
    assert "Traceback" not in said.err
    # Processes take their time to start, and hand over errors of any format alike.
    workers = ("--jobs", 2) if study.suffix == ".npz" else ()
    as_json = calipers(*both, "--json", *workers)
    assert (as_json.code, as_json.json["schema"]) == (2, "calipers.error/1")
    assert not out.exists()


@pytest.mark.parametrize("harm", [nan, above_one, three_labels, smooth_labels])
def test_an_error_in_the_middle_names_the_file(
    calipers: Calls, study: Study, harm: Callable[[Study], None]
) -> None:
    harm(study)
    said = calipers("maps", study.path("labels"), study.path("ours"))
    assert f"case1{study.suffix}" in said.err


def test_affines_that_differ_are_told_with_both_codes(calipers: Calls, tmp_path: Path) -> None:
    study = Study(tmp_path / "data", ".nii.gz")
    right, left = np.diag([1.0, 1.0, 2.5, 1.0]), np.diag([-1.0, 1.0, 2.5, 1.0])
    array = np.zeros((6, 10, 12), np.float32)
    study.write("labels", "case1", array.astype(np.uint8), right)
    study.write("ours", "case1", array, left)
    said = calipers("maps", study.path("labels"), study.path("ours"), "-o", tmp_path / "out")
    assert said.code == 2
    assert all(
        word in said.err for word in ("RAS", "LAS", "mirrored along x", "case1.nii.gz", "[affine]")
    )
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_packed_as_its_name_says(calipers: Calls, tmp_path: Path) -> None:
    study = Study(tmp_path / "data", ".nii.gz")
    packed = study.file("ours").read_bytes()
    for held in (gzip.decompress(packed)[:40], packed[:-6] + b"abcdef", b"\x1f\x8b" + b"0" * 100):
        study.file("ours").write_bytes(held)
        said = calipers("maps", study.path("labels"), study.path("ours"))
        assert said.code == 2, held[:10]
        assert "case1.nii.gz" in said.err


def test_without_its_extra_a_format_is_refused_by_name(
    calipers: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study(tmp_path / "data", ".nii.gz")
    monkeypatch.setitem(__import__("sys").modules, "nibabel", None)
    said = calipers("maps", study.path("labels"), study.path("ours"), "-o", tmp_path / "out")
    assert said.code == 2
    assert 'pip install "calipers[volumes]"' in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--labels", "instance"), "instances"),
        (("--normalise", "softmax"), "no normalisation 'softmax'"),
        (("--mask-values", "1,x"), "whole numbers such as 1,3"),
        (("--mask-values", "1", "--labels", "instances"), "contradict each other"),
        (("--threshold", "0"), "above 0"),
        (("--threshold", "best"), "'best-dice'"),
        (("--threshold", "best-dice"), "must be chosen on other samples"),
        (("--tuning", "tune"), "split=tune"),
        (("--least", "0"), "least"),
        (("--connectivity", "corners"), "connectivity"),
        (("--preset", "anomly"), "anomaly"),
        (("--by", "centra"), "centre"),
        (("--groups", "nowhere.csv"), "nowhere.csv"),
        (("--pattern", "{nam}.npy"), "pattern"),
    ],
)
def test_bad_choices_are_one_error_and_no_output(
    calipers: Calls, plain: Study, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    groups = () if "--groups" in options else ("--groups", plain.path("groups.csv"))
    said = calipers(
        "maps", plain.path("labels"), plain.path("ours"), *groups, *options, "-o", tmp_path / "out"
    )
    assert said.code == 2, said.err
    assert words in said.err
    assert not (tmp_path / "out").exists()
    as_json = calipers(
        "maps", plain.path("labels"), plain.path("ours"), *groups, *options, "--json"
    )
    assert (as_json.code, as_json.json["schema"]) == (2, "calipers.error/1")


@pytest.mark.parametrize("inside", ["labels", "ours", "images"])
def test_nothing_is_written_into_an_input_folder(
    calipers: Calls, plain: Study, inside: str
) -> None:
    plain.write("images", "case1", np.zeros((6, 10, 12), np.float32))
    out = str(plain.folder / inside / "results")
    said = calipers(
        "maps",
        plain.path("labels"),
        plain.path("ours"),
        "--images",
        plain.path("images"),
        "-o",
        out,
    )
    assert said.code == 2
    assert not Path(out).exists()


@pytest.mark.parametrize(("missing", "samples"), [("empty", 6), ("skip", 5)])
def test_maps_that_are_not_there(calipers: Calls, plain: Study, missing: str, samples: int) -> None:
    plain.file("ours").unlink()
    both = ("maps", plain.path("labels"), plain.path("ours"), "--no-ci", "--json")
    assert calipers(*both).code == 2
    document = calipers(*both, "--missing", missing).json
    assert document["cohort"]["images"] == samples
    assert any(
        "1 of 6 samples have no prediction of ours" in warning for warning in document["warnings"]
    )


def test_maps_that_are_assumed_to_be_empty_are_a_number_of_their_own(
    calipers: Calls, plain: Study, tmp_path: Path
) -> None:
    """Of six samples ours has five maps: what was read, used and assumed are three numbers, on the
    terminal, in the JSON, in the record of the run and on the page.
    """
    plain.file("ours").unlink()
    out = tmp_path / "out"
    both = ("maps", plain.path("labels"), plain.path("ours"), plain.path("theirs"), "--no-ci")
    said = calipers(*both, "--missing", "empty", "-o", out)
    assert "predictions of ours: 5 maps read, 5 used, 1 assumed empty\n" in said.err
    assert "predictions of theirs: 6 maps read, 6 used, 0 assumed empty\n" in said.err
    for file, place in (("evaluation.json", "cohort"), ("run.json", "inputs")):
        document = json.loads((out / file).read_text())
        accounts = document[place]["files"] if place == "cohort" else document[place]
        counts = [(a["read"], a["used"], a.get("assumed_empty")) for a in accounts]
        assert counts == [(6, 6, None), (5, 5, 1), (6, 6, 0)]
        assert {account["reading"]["missing"] for account in accounts} == {"empty"}
        assert [account["reading"].get("normalise") for account in accounts[1:]] == ["none"] * 2
    page = (out / "report.html").read_text()
    assert "assumed empty" in page
    assert calipers("verify", out).code == 0


def test_one_model_can_be_normalised_alone(calipers: Calls, tmp_path: Path) -> None:
    """Bytes of one model are divided, the scores of the other are not."""
    scores = np.zeros((8, 8), np.float32)
    scores[2:4, 2:4] = [[0.2, 0.4], [0.6, 1.0]]
    for name, array in (
        ("labels", (scores > 0).astype(np.uint8)),
        ("plain", scores),
        ("echo", (scores * 255).round().astype(np.uint8)),
    ):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "a.npy", array)
    both = ("maps", tmp_path / "labels", tmp_path / "plain", tmp_path / "echo", "--no-ci", "--json")
    assert calipers(*both).code == 2
    divided = calipers(*both, "--normalise", "uint8")
    assert (divided.code, "scores in [0, 1] already" in divided.out) == (2, True)
    rows = calipers(*both, "--normalise", "echo=uint8", "--threshold", "0.5").json["rows"]
    values: dict[str, dict[str, float]] = {"plain": {}, "echo": {}}
    for row in rows:
        values[row["model"]][row["metric"]] = row["value"]
    assert values["plain"] == pytest.approx(values["echo"], nan_ok=True, abs=1e-6)
    assert values["plain"]["AP/dataset"] == 1.0


def test_single_files_are_a_pair(calipers: Calls, plain: Study) -> None:
    said = calipers(
        "maps", plain.file("labels"), plain.file("theirs", "case1"), "--no-ci", "--json"
    )
    assert said.code == 0
    assert said.json["cohort"]["images"] == 1


@pytest.mark.parametrize("side", ["references", "predictions"])
def test_a_path_that_is_not_there_is_told_as_such(calipers: Calls, plain: Study, side: str) -> None:
    labels, maps = plain.path("labels"), plain.path("ours")
    given = (labels + "x", maps) if side == "references" else (labels, maps + "x")
    said = calipers("maps", *given)
    assert said.code == 2
    assert "[not-found]" in said.err
    assert "labels" in said.err if side == "references" else "ours" in said.err


def test_messages_name_only_options_that_maps_has() -> None:
    """What the reading of volumes says is said to users of `calipers maps`."""
    import calipers
    from calipers.cli.evaluate import evaluate
    from calipers.cli.maps import maps

    options = {name for option in maps.params for name in option.opts}
    package = Path(calipers.__file__).parent
    files = [*(package / "io" / "volumes").glob("*.py"), *(package / "maps").glob("*.py")]
    # Label volumes are read for `calipers evaluate`, whose users hear of its options.
    shared = [file for file in files if file.name in ("labels.py", "placing.py")]
    both = options | {name for option in evaluate.params for name in option.opts}
    for file in shared:
        assert set(re.findall(r"--[a-z][a-z-]+", file.read_text())) <= both
        files.remove(file)
    named = {word for file in files for word in re.findall(r"--[a-z][a-z-]+", file.read_text())}
    assert {"--missing", "--resize", "--mask-values"} <= named <= options
