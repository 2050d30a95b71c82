"""Folders of volumes: planted mistakes are found, sound folders are not blamed, commands run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes import volume_folders
from calipers.doctor.volumes.volume_folders import VolumeCheckup, are_volumes, check_volumes
from calipers.io.volumes.volume import Volume
from calipers.io.write_volume import write_volume

SHAPE = (6, 20, 24)
AFFINE = np.diag([-0.7, -0.7, 2.5, 1.0])
Arrays = dict[str, np.ndarray]


def labels(n: int = 6, *, values: int = 1) -> Arrays:
    """Return volumes with a lesion off the centre each, the last one empty."""
    rng = np.random.default_rng(5)
    volumes = {}
    for k in range(n):
        volume = np.zeros(SHAPE, np.uint8)
        if k < n - 1:
            y, x = rng.integers(1, 5, 2)
            volume[1:3, y : y + 5, x : x + 5] = 1 + k % values
        volumes[f"case{k}"] = volume
    return volumes


def maps(of: Arrays) -> Arrays:
    """Return scores that are high on most of every lesion."""
    rng = np.random.default_rng(6)
    return {
        name: np.where(np.roll(volume, 1, axis=2) > 0, 0.8, 0.1).astype(np.float32)
        + (0.1 * rng.random(SHAPE)).astype(np.float32)
        for name, volume in of.items()
    }


def put(folder: Path, volumes: Arrays, affine: np.ndarray = AFFINE, suffix: str = ".npz") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for name, volume in volumes.items():
        if suffix in (".npy", ".png"):
            write_volume(folder / f"{name}{suffix}", volume)
        else:
            write_volume(folder / f"{name}{suffix}", volume, affine=affine)
    return folder


def checked(references: Path, predictions: Path | None, **reading: object) -> VolumeCheckup:
    files = {} if predictions is None else {predictions.name: predictions}
    assert are_volumes(references, files)
    return check_volumes(Inputs(references, files, None, reading))


def codes(checkup: VolumeCheckup, level: str = "error") -> set[str]:
    return {symptom.code for symptom in checkup.findings if symptom.level == level}


PLANTED: dict[str, tuple[Callable[[Path], tuple[Path, Path]], str, str]] = {}


def planted(code: str, option: str = "") -> Callable:
    """Enter a mistake: its code, and an option of the command that works ("-": there is none)."""

    def register(make: Callable[[Path], tuple[Path, Path]]) -> Callable:
        PLANTED[make.__name__] = (make, code, option)
        return make

    return register


def pair_of(folder: Path, predictions: Arrays, **options: object) -> tuple[Path, Path]:
    return put(folder / "refs", labels()), put(folder / "preds", predictions, **options)


@planted("affine", "-")
def header_mirrored(folder):
    return pair_of(folder, maps(labels()), affine=np.diag([0.7, -0.7, 2.5, 1.0]))


@planted("affine", "-")
def header_moved(folder):
    moved = AFFINE.copy()
    moved[2, 3] = 12.5
    return pair_of(folder, maps(labels()), affine=moved)


@planted("affine", "-")
def header_of_another_spacing(folder):
    return pair_of(folder, maps(labels()), affine=np.diag([-1.4, -0.7, 2.5, 1.0]))


def numbered(seed: int, *, reverse: bool = False) -> Arrays:
    """Return volumes with one to three lesions, each with a number of its own."""
    rng = np.random.default_rng(seed)
    volumes = {}
    for k in range(9):
        volume = np.zeros(SHAPE, np.uint8)
        places = [0, 7, 14][: 1 + k % 3]
        for number, x in enumerate(places[::-1] if reverse else places, 1):
            volume[1:4, 2 + rng.integers(0, 2) : 9, x + rng.integers(0, 2) : x + 6] = number
        volumes[f"case{k}"] = volume
    return volumes


@planted("label-instances", "--labels instances")
def numbers_taken_for_classes(folder):
    """The objects of a volume are numbered, in another order on each side."""
    return put(folder / "refs", numbered(1)), put(folder / "preds", numbered(2, reverse=True))


@planted("label-instances", "--labels instances")
def numbers_in_the_same_order(folder):
    """One false alarm has a number that no reference has."""
    predictions = numbered(2)
    predictions["case2"][5, 15:18, 0:3] = 4
    return put(folder / "refs", numbered(1)), put(folder / "preds", predictions)


def crop_of(volumes: Arrays, *, keep_origin: bool = False) -> tuple[Arrays, np.ndarray]:
    """Return the middle of every volume, with the affine of the part, or that of the whole."""
    low = np.array([0, 1, 1])  # z, y, x
    affine = AFFINE.copy()
    if not keep_origin:
        affine[:3, 3] = AFFINE[:3, :3] @ low[::-1]
    return {name: volume[0:4, 1:16, 1:20] for name, volume in volumes.items()}, affine


@planted("shape-mismatch", "--place nearest")
def maps_cropped(folder):
    part, affine = crop_of(maps(labels()))
    return pair_of(folder, part, affine=affine)


@planted("shape-mismatch", "--place nearest")
def labels_cropped(folder):
    part, affine = crop_of(labels())
    return pair_of(folder, part, affine=affine)


@planted("shape-mismatch", "-")
def crops_with_the_origin_of_the_whole(folder):
    part, affine = crop_of(labels(), keep_origin=True)
    shifted = {name: np.roll(volume, -4, axis=2) for name, volume in part.items()}
    return pair_of(folder, shifted, affine=affine)


@planted("affine", "--place nearest")
def maps_saved_in_another_order(folder):
    """As ITK saves them after a change of the orientation: voxels and header agree."""
    flipped = {name: scores[:, ::-1, ::-1] for name, scores in maps(labels()).items()}
    turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    turn[:2, 3] = SHAPE[2] - 1, SHAPE[1] - 1
    return pair_of(folder, flipped, affine=AFFINE @ turn)


@planted("shape-mismatch", "--place linear")
def maps_of_another_spacing_and_extent(folder):
    coarse = {name: scores[:, ::2, ::2][:, :9, :10] for name, scores in maps(labels()).items()}
    return pair_of(folder, coarse, affine=AFFINE @ np.diag([2.0, 2.0, 1.0, 1.0]))


def candidates(of: Arrays) -> Arrays:
    """Return detection maps: lesions moved by a voxel, and false alarms, with a score each."""
    rng = np.random.default_rng(8)
    volumes = {}
    for name, volume in of.items():
        scores = np.zeros(SHAPE, np.float32)
        scores[np.roll(volume, 1, axis=2) > 0] = rng.uniform(0.3, 1)
        scores[4:6, 14:18, 15:20] = rng.uniform(0.1, 0.6)
        volumes[name] = scores
    return volumes


@planted("score-range", "--preset picai --normalise odds")
def candidates_above_one(folder):
    return pair_of(folder, {name: 3 * scores for name, scores in candidates(labels()).items()})


def blurred(of: Arrays, most: float) -> Arrays:
    """Return smooth maps of whole numbers, as pictures hold them."""
    from scipy import ndimage

    volumes = {}
    for name, volume in of.items():
        soft = ndimage.gaussian_filter(volume.astype(float), (0.5, 2.5, 2.5))
        volumes[name] = np.rint(most * soft / max(soft.max(), 1e-9)).astype(np.uint8)
    return volumes


@planted("score-range", "--normalise uint8")
def smooth_pixels(folder):
    return pair_of(folder, blurred(labels(), 255))


@planted("score-range", "--normalise percent")
def whole_percentages(folder):
    return pair_of(folder, blurred(labels(), 100))


@planted("score-range", "--normalise clip")
def scores_after_cubic_resampling(folder):
    beyond = {name: 1.15 * scores - 0.12 for name, scores in maps(labels()).items()}
    return pair_of(folder, beyond)


@planted("mirrored", "-")
def voxels_mirrored(folder):
    flipped = {name: scores[:, :, ::-1] for name, scores in maps(labels()).items()}
    return pair_of(folder, flipped)


@planted("mirrored", "-")
def labels_upside_down(folder):
    return pair_of(folder, {name: volume[:, ::-1] for name, volume in labels().items()})


@planted("mirrored", "-")
def labels_mirrored_by_a_model_that_misses(folder):
    flipped = {name: volume[:, :, ::-1] for name, volume in labels(12).items()}
    for name in ("case1", "case4", "case7"):
        flipped[name] = np.roll(flipped[name], 9, axis=1)
    return put(folder / "refs", labels(12)), put(folder / "preds", flipped)


@planted("axes-swapped", "-")
def square_slices_transposed(folder):
    square = {name: volume[:, :, :20] for name, volume in labels().items()}
    rows_first = {name: volume.transpose(0, 2, 1) for name, volume in square.items()}
    return put(folder / "refs", square), put(folder / "preds", rows_first)


@planted("label-instances", "--labels nonzero")
def numbers_beside_classes(folder):
    """Objects are numbered from the right in predictions; references have two classes."""
    references = numbered(1)
    for volume in references.values():
        volume[volume > 0] = 1
        volume[:, :, 12:] *= 2
    return put(folder / "refs", references), put(folder / "preds", numbered(2, reverse=True))


@planted("label-background", "-")
def background_is_one(folder):
    return pair_of(folder, {name: volume + 1 for name, volume in labels().items()})


@planted("image-names", "-")
def names_without_zeros(folder):
    padded = {f"case{int(name[4:]):03d}": volume for name, volume in labels().items()}
    return put(folder / "refs", padded), put(folder / "preds", labels())


@planted("shape-mismatch", "--resize linear")
def maps_of_half_the_resolution(folder):
    coarse = {name: scores[:, ::2, ::2] for name, scores in maps(labels()).items()}
    affine = AFFINE @ np.diag([2.0, 2.0, 1.0, 1.0])
    affine[:2, 3] = AFFINE[0, 0] / 2  # the first voxel is twice as wide, from the same border
    return pair_of(folder, coarse, affine=affine)


def one_sided() -> Arrays:
    """Return volumes whose lesions all lie in the same place on one side."""
    volumes = {}
    for k in range(6):
        volume = np.zeros(SHAPE, np.uint8)
        volume[1:3, 3 + k % 2 : 8, 1:5] = 1
        volumes[f"case{k}"] = volume
    return volumes


@planted("moved", "-")
def shifted_as_if_mirrored(folder):
    references = one_sided()
    step = SHAPE[2] - 6  # to where a mirror would put them
    shifted = {name: np.roll(volume, step, axis=2) for name, volume in references.items()}
    return put(folder / "refs", references), put(folder / "preds", shifted)


def scattered(n: int = 8) -> Arrays:
    """Return volumes with one to three lesions of different sizes in different places."""
    rng = np.random.default_rng(11)
    volumes = {}
    for k in range(n):
        volume = np.zeros((10, 30, 34), np.uint8)
        for _ in range(1 + k % 3):
            z, y, x = rng.integers(1, (6, 18, 20))
            depth, height, width = rng.integers(2, (4, 7, 9))
            volume[z : z + depth, y : y + height, x : x + width] = 1
        volumes[f"case{k}"] = volume
    return volumes


def soft(of: Arrays) -> Arrays:
    """Return scores that are high on every lesion but those of two cases, which are missed."""
    volumes = {}
    for k, (name, volume) in enumerate(of.items()):
        marked = np.roll(volume, (k - 3) % 8 if k in (2, 5) else 1, axis=k % 2 + 1)
        volumes[name] = (0.1 + 0.7 * marked).astype(np.float32)
    return volumes


@planted("moved", "-")
def maps_shifted(folder):
    shifted = {k: np.roll(v, (-1, 8, -9), (0, 1, 2)) for k, v in soft(scattered()).items()}
    return put(folder / "refs", scattered()), put(folder / "preds", shifted)


@planted("moved", "-")
def labels_shifted(folder):
    shifted = {k: np.roll(v, (2, -7, 8), (0, 1, 2)) for k, v in scattered().items()}
    return put(folder / "refs", scattered()), put(folder / "preds", shifted)


@planted("mirrored", "-")
def flat_volumes_mirrored(folder):
    """Most findings lie near the middle slice, so that they overlap their mirror images."""
    flipped = {name: scores[::-1] for name, scores in soft(scattered()).items()}
    return put(folder / "refs", scattered()), put(folder / "preds", flipped)


@planted("cases-exchanged", "-")
def maps_under_names_of_other_cases(folder):
    scores = soft(scattered())
    names = list(scores)
    others = {name: scores[names[k - 3]] for k, name in enumerate(names)}
    return put(folder / "refs", scattered()), put(folder / "preds", others)


@planted("score-range", "-")
def images_instead_of_maps(folder):
    rng = np.random.default_rng(12)
    images = {k: rng.integers(-1000, 1200, v.shape, np.int16) for k, v in labels().items()}
    return pair_of(folder, images)


def in_order(of: Arrays) -> Arrays:
    """Number the components of every volume, as tools for components do."""
    from scipy import ndimage

    return {name: ndimage.label(volume)[0].astype(np.uint8) for name, volume in of.items()}


@planted("label-instances", "--labels nonzero")
def components_of_one_class_numbered(folder):
    return put(folder / "refs", scattered()), put(folder / "preds", in_order(scattered()))


@planted("label-instances", "--labels nonzero")
def references_numbered_beside_one_value(folder):
    return put(folder / "refs", in_order(scattered())), put(folder / "preds", scattered())


@planted("shape-mismatch", "-")
def axes_transposed(folder):
    turned = {name: scores.transpose(2, 1, 0) for name, scores in maps(labels()).items()}
    return pair_of(folder, turned)


@planted("missing-cases", "--missing empty")
def case_missing(folder):
    scores = maps(labels())
    del scores["case2"]
    return pair_of(folder, scores)


@planted("missing-cases", "--missing-volumes empty")
def label_missing(folder):
    volumes = labels()
    del volumes["case2"]
    return pair_of(folder, volumes)


@planted("extra-cases", "-")
def case_too_many(folder):
    return pair_of(folder, {**maps(labels()), "case9": maps(labels())["case1"]})


@planted("image-names", "--pattern")
def names_with_a_suffix(folder):
    named = {f"{name}_pred": scores for name, scores in maps(labels()).items()}
    return pair_of(folder, named)


@planted("image-names", "--reference-pattern")
def references_with_a_suffix(folder):
    references = {f"{name}_seg": volume for name, volume in labels().items()}
    return put(folder / "refs", references), put(folder / "preds", labels())


@planted("score-range", "--normalise uint8")
def pixels(folder):
    scaled = {name: (255 * scores).astype(np.uint8) for name, scores in maps(labels()).items()}
    return pair_of(folder, scaled)


@planted("score-range", "--normalise sigmoid")
def logits(folder):
    return pair_of(folder, {k: np.log(s / (1 - s)) for k, s in maps(labels()).items()})


@planted("score-range", "--normalise odds")
def above_one(folder):
    return pair_of(folder, {name: 5 * scores for name, scores in maps(labels()).items()})


@planted("score-range", "--normalise odds")
def far_above_one(folder):
    return pair_of(folder, {name: 12 * scores for name, scores in maps(labels()).items()})


@planted("score-range", "--normalise percent")
def percentages(folder):
    return pair_of(folder, {name: 100 * scores for name, scores in maps(labels()).items()})


@planted("non-finite", "-")
def not_a_number(folder):
    scores = maps(labels())
    scores["case3"][0, 0, 0] = np.nan
    return pair_of(folder, scores)


@planted("channels", "--channel 1")
def softmax(folder):
    references = put(folder / "refs", labels())
    (folder / "preds").mkdir()
    for name, scores in maps(labels()).items():
        np.savez(folder / "preds" / f"{name}.npz", probabilities=np.stack([1 - scores, scores]))
    return references, folder / "preds"


@planted("label-fractions", "-")
def interpolated_labels(folder):
    soft = {name: 0.5 * volume.astype(np.float32) for name, volume in labels().items()}
    return put(folder / "refs", soft), put(folder / "preds", maps(labels()))


@planted("files-swapped", "maps")
def wrong_order(folder):
    return put(folder / "refs", maps(labels())), put(folder / "preds", labels())


@planted("volume-broken", "-")
def truncated(folder):
    references, predictions = pair_of(folder, maps(labels()))
    whole = (predictions / "case1.npz").read_bytes()
    (predictions / "case1.npz").write_bytes(whole[: len(whole) // 2])
    return references, predictions


@planted("unknown-category", "--lenient")
def value_of_no_class(folder):
    other = labels()
    other["case0"][5, 19, 20:23] = 7
    return pair_of(folder, other)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name, tmp_path, capsys) -> None:
    make, code, option = PLANTED[name]
    references, predictions = make(tmp_path)
    checkup = checked(references, predictions)
    assert code in codes(checkup), checkup.lines()
    assert checkup.refused
    assert run(["doctor", str(references), str(predictions)]) == 2
    if option == "-":
        assert checkup.commands == ()
        return
    (command,) = checkup.commands
    assert option in command
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("kind", ["labels", "maps"])
def test_references_without_empty_slices_lie_on_the_grid_of_predictions(
    kind, tmp_path, monkeypatch
) -> None:
    """As DICOM SEG stores them: here slices are left out, and the header says so."""
    volumes = labels()
    del volumes["case5"]  # no slice would be left
    # Lesions lie in the slices 1 and 2.
    cut = {name: volume[1:3] for name, volume in volumes.items()}
    affine = AFFINE.copy()
    affine[2, 3] += AFFINE[2, 2]
    references = put(tmp_path / "refs", cut, affine)
    preds = put(tmp_path / "preds", volumes if kind == "labels" else maps(volumes))
    opened = volume_folders.open_volume

    def sparse(path: str, **options: object) -> Volume:
        volume = opened(path, **options)
        return replace(volume, sparse="refs" in str(path))

    monkeypatch.setattr(volume_folders, "open_volume", sparse)
    inputs = Inputs(references, {"m": preds}, None, {})
    surveyed = volume_folders.survey(references, "references", None, inputs)
    predicted = volume_folders.survey(preds, "predictions", None, inputs)
    options: dict[str, str] = {}
    findings = list(volume_folders.grids(surveyed, predicted, None, options))
    assert [finding.code for finding in findings] == ["shape-mismatch"] * (kind == "labels")
    assert options == ({"geometry": str(preds)} if kind == "labels" else {})


def test_scores_of_the_background_are_told(tmp_path, capsys) -> None:
    references, scores = put(tmp_path / "refs", labels()), maps(labels())
    assert not codes(checked(references, put(tmp_path / "preds", scores)), "warning")
    inverted = {name: 1 - volume for name, volume in scores.items()}
    checkup = checked(references, put(tmp_path / "others", inverted))
    assert codes(checkup, "warning") == {"score-inverted"}
    assert "--normalise invert" in checkup.commands[0]
    pixels = {name: (255 * (1 - volume)).astype(np.uint8) for name, volume in scores.items()}
    (command,) = checked(references, put(tmp_path / "pixels", pixels)).commands
    assert "--normalise uint8,invert" in command
    sound = value_of(f"calipers maps {references} {tmp_path / 'preds'}", "AP/dataset", capsys)
    for line in (checkup.commands[0], command):
        assert value_of(line, "AP/dataset", capsys) == pytest.approx(sound, abs=0.02)


def test_scores_of_the_background_are_told_of_a_model_that_misses_most(tmp_path) -> None:
    rng = np.random.default_rng(14)
    volumes, scores = scattered(), {}
    for k, (name, volume) in enumerate(volumes.items()):
        noise = 0.3 * rng.random(volume.shape)
        scores[name] = (noise + 0.6 * volume * (k % 2)).astype(np.float32)
    references = put(tmp_path / "refs", volumes)
    assert not codes(checked(references, put(tmp_path / "preds", scores)), "warning")
    inverted = {name: 1 - one for name, one in scores.items()}
    checkup = checked(references, put(tmp_path / "others", inverted))
    assert codes(checkup, "warning") == {"score-inverted"}
    assert checkup.commands[0].endswith("--normalise invert")


def value_of(command: str, metric: str, capsys: pytest.CaptureFixture) -> float:
    """Return the value of a metric that a printed command gives."""
    capsys.readouterr()
    words = shlex.split(command)[1:]
    assert run([*words, "--no-ci", "-q", "--metrics", metric, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    return row["value"]


def test_what_is_placed_gives_the_numbers_of_the_sound_maps(tmp_path, capsys) -> None:
    within = maps(labels())
    for scores in within.values():
        scores[4:] = scores[:, :1] = scores[:, 16:] = scores[:, :, :1] = scores[:, :, 20:] = 0
    for make, whole in ((maps_cropped, within), (maps_saved_in_another_order, maps(labels()))):
        folder = tmp_path / make.__name__
        paths = pair_of(folder / "sound", whole)
        sound = value_of("calipers maps {} {}".format(*paths), "AP/dataset", capsys)
        (command,) = checked(*make(folder)).commands
        assert value_of(command, "AP/dataset", capsys) == pytest.approx(sound, abs=1e-9), make


def test_detection_maps_are_judged_by_their_preset(tmp_path, capsys) -> None:
    references, predictions = pair_of(tmp_path, candidates(labels()))
    (command,) = checked(references, predictions).commands
    assert command.endswith("--preset picai")
    capsys.readouterr()
    assert run([*shlex.split(command)[1:], "--no-ci", "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["protocol"]["name"] == "picai"


def test_whole_scores_of_candidates_are_a_hint(tmp_path) -> None:
    """Scores from 1 to 4, as radiologists give them, look like classes; nothing tells."""
    whole = {name: np.ceil(4 * scores) for name, scores in candidates(labels()).items()}
    references, predictions = pair_of(tmp_path, whole)
    checkup = checked(references, predictions)
    assert (codes(checkup), checkup.commands) == ({"unknown-category"}, ())
    (symptom,) = [one for one in checkup.findings if one.code == "unknown-category"]
    assert symptom.hint.endswith("calipers maps with --preset picai --normalise odds")
    options = symptom.hint.rpartition("calipers maps with ")[2].split()
    assert run(["maps", str(references), str(predictions), *options, "--no-ci", "-q"]) == 0


def test_values_of_labels_are_a_warning_with_a_command(tmp_path) -> None:
    references = put(tmp_path / "refs", labels(values=3))
    checkup = checked(references, put(tmp_path / "preds", maps(labels())))
    assert codes(checkup, "warning") == {"label-values"}
    (command,) = checkup.commands
    assert "--labels nonzero" in command
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0


def softmax_of_classes(folder: Path, volumes: Arrays) -> Path:
    """Write a channel for the background and for each of two classes, as nnU-Net does."""
    folder.mkdir()
    for name, volume in volumes.items():
        shares = [np.where(volume == k, 0.8, 0.1).astype(np.float32) for k in range(3)]
        np.savez(folder / f"{name}.npz", probabilities=np.stack(shares))
    return folder


def test_every_class_of_a_softmax_is_compared_with_its_channel(tmp_path, capsys) -> None:
    volumes = labels(values=2)
    preds = softmax_of_classes(tmp_path / "preds", volumes)
    checkup = checked(put(tmp_path / "refs", volumes), preds)
    assert codes(checkup) == {"channels"}
    ends = [command.partition("preds ")[2] for command in checkup.commands]
    assert ends == ["--channel 1 --mask-values 1", "--channel 2 --mask-values 2"]
    for command in checkup.commands:
        capsys.readouterr()
        words = shlex.split(command)[1:]
        assert run([*words, "--no-ci", "-q", "--metrics", "AP/dataset", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        assert row["value"] == 1.0


def test_of_a_whole_data_set_the_labels_are_those_that_were_predicted(tmp_path) -> None:
    place = tmp_path / "Dataset001_X"
    place.mkdir()
    (place / "dataset.json").write_text('{"labels": {"background": 0, "tumour": 1}}')
    put(place / "labelsTs", labels())
    put(place / "imagesTs", {f"{name}_0000": scores for name, scores in maps(labels()).items()})
    preds = put(tmp_path / "preds", labels())
    (command,) = checked(place, preds).commands
    assert f"{place}/labelsTs {preds}" in command
    scores = put(tmp_path / "scores", maps(labels()))
    assert run(["maps", str(place), str(scores), "--no-ci", "-q"]) == 0
    put(place / "labelsTr", {f"train_{name}": volume for name, volume in labels().items()})
    (command,) = checked(place, preds).commands
    assert f"{place}/labelsTs {preds}" in command
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0


def constant(folder):
    return pair_of(folder, {name: np.full(SHAPE, 0.5, np.float32) for name in labels()})


def test_constant_maps_are_a_warning(tmp_path) -> None:
    assert codes(checked(*constant(tmp_path)), "warning") == {"score-constant"}


def anywhere(seed: int) -> np.ndarray:
    """Return a volume with a lesion at a random place, as a model without skill marks it."""
    volume = np.zeros(SHAPE, np.uint8)
    z, y, x = np.random.default_rng(seed).integers(0, (4, 15, 19))
    volume[z : z + 2, y : y + 5, x : x + 5] = 1
    return volume


SOUND: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "maps": lambda folder: pair_of(folder, maps(labels())),
    "labels": lambda folder: pair_of(
        folder, {name: np.roll(volume, 1, axis=2) for name, volume in labels().items()}
    ),
    "labels as floats": lambda folder: pair_of(
        folder, {name: volume.astype(np.float32) for name, volume in labels().items()}
    ),
    "classes": lambda folder: (
        put(folder / "refs", labels(12, values=2)),
        put(folder / "preds", labels(12, values=2)),
    ),
    "arrays without a place": lambda folder: pair_of(folder, maps(labels()), suffix=".npy"),
    "a model without skill": lambda folder: pair_of(
        folder,
        {
            name: np.random.default_rng(k).random(SHAPE).astype(np.float32)
            for k, name in enumerate(labels())
        },
    ),
    "a model that finds nothing": lambda folder: pair_of(
        folder, {name: np.zeros(SHAPE, np.uint8) for name in labels()}
    ),
    "objects elsewhere": lambda folder: pair_of(
        folder, {name: anywhere(k) for k, name in enumerate(labels())}
    ),
    "pictures": lambda folder: (
        put(folder / "refs", {k: v[1] for k, v in labels().items()}, suffix=".png"),
        put(folder / "preds", {k: v[1] for k, v in labels().items()}, suffix=".png"),
    ),
    "binary maps": lambda folder: pair_of(
        folder, {name: (scores > 0.5).astype(np.uint8) for name, scores in maps(labels()).items()}
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_the_doctor_is_silent_on_sound_folders(name, tmp_path) -> None:
    references, predictions = SOUND[name](tmp_path)
    checkup = checked(references, predictions)
    assert codes(checkup) == set(), checkup.lines()
    assert not codes(checkup, "warning") - {"score-constant"}, checkup.lines()
    assert not checkup.refused
    (command,) = checkup.commands
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0


def test_a_submission_is_checked_without_labels(tmp_path, capsys) -> None:
    """Participants have images and predictions, and no path of a label is ever shown."""
    scores = maps(labels())
    scores["case1"][0, 0, 0] = np.inf
    scores["case2"] = scores["case2"][:-1]
    del scores["case4"]
    predictions = put(tmp_path / "preds", {name: 5 * one for name, one in scores.items()})
    images = put(tmp_path / "images", labels())
    checkup = checked(predictions, None, geometry=images)
    assert codes(checkup) == {"non-finite", "shape-mismatch", "missing-cases", "score-range"}
    code = run(["doctor", str(predictions), "--geometry", str(images), "--json"])
    assert code == 2
    assert str(tmp_path / "refs") not in capsys.readouterr().out


def test_a_sound_submission(tmp_path) -> None:
    checkup = checked(put(tmp_path / "preds", maps(labels())), None)
    assert (checkup.findings, checkup.refused) == ((), False)
    assert run(["doctor", str(tmp_path / "preds"), "--fail-on", "warning"]) == 0


def test_references_alone(tmp_path) -> None:
    checkup = checked(put(tmp_path / "refs", labels()), None)
    assert not codes(checkup)
    assert "values       labels 1" in "\n".join(checkup.lines())


def test_values_that_would_have_to_be_rewritten_get_no_command(tmp_path) -> None:
    """Classes are tens in the predictions; volumes are not rewritten (``--repair``)."""
    rng = np.random.default_rng(9)
    references = {}
    for k in range(24):
        volume = np.zeros((8, 30, 34), np.uint8)
        for value, x in ((1, 1), (2, 13), (1, 24)):
            y = rng.integers(1, 16)
            volume[2:6, y : y + 8, x + rng.integers(0, 3) : x + 9] = value
        references[f"case{k}"] = volume
    tens = {name: 10 * volume for name, volume in references.items()}
    checkup = checked(put(tmp_path / "refs", references), put(tmp_path / "preds", tens))
    assert "class-names" in codes(checkup)
    assert checkup.commands == ()


def test_repair_is_not_for_volumes(tmp_path) -> None:
    references, predictions = pair_of(tmp_path, maps(labels()))
    assert run(["doctor", str(references), str(predictions), "--repair", "x.csv"]) == 2


def test_classes_are_not_taken_for_numbers(tmp_path):
    """Two classes, of which each is one object in most volumes, and models good and bad at them."""
    rng = np.random.default_rng(3)
    references, good, confused = {}, {}, {}
    for k in range(10):
        volume = np.zeros(SHAPE, np.uint8)
        for value, x in ((1, 1), (2, 13)):
            if k % 3 or value == 2:
                volume[1:4, 3:9, x + rng.integers(0, 3) : x + 8] = value
        references[f"case{k}"] = volume
        good[f"case{k}"] = np.roll(volume, 1, axis=1)
        swapped = np.where(volume > 0, 3 - volume, 0).astype(np.uint8)
        confused[f"case{k}"] = swapped if k % 4 == 0 else volume
    folder = put(tmp_path / "refs", references)
    for name, predictions in (("good", good), ("confused", confused)):
        checkup = checked(folder, put(tmp_path / name, predictions))
        assert codes(checkup) == set(), name
        assert "--labels" not in checkup.commands[0]
