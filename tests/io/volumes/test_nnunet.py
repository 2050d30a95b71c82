"""Folders of nnU-Net and nnDetection, written by hand from their documentation."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calipers as cal
from annotation_cases import put
from calipers.errors import InputError
from calipers.io.read import sniff
from calipers.io.volumes.pairing import list_samples
from calipers.io.write_volume import write_volume

NAMES = '{"channel_names": {"0": "CT"}, "labels": {"background": 0, "kidney": 1, "tumour": 2}}'


def volume(*places: tuple[int, int], shape: tuple[int, ...] = (6, 12, 14)) -> np.ndarray:
    """Return labels with a block of every value at a place along x."""
    labels = np.zeros(shape, np.uint8)
    for value, x in places:
        labels[1:4, 2:6, x : x + 3] = value
    return labels


def dataset(folder):
    """Write a data set of nnU-Net, and a folder of predictions with softmax."""
    place = put(folder / "Dataset001_Kidney", {"dataset.json": NAMES})
    for name in ("labelsTs", "imagesTs"):
        (place / name).mkdir()
    (folder / "predictions").mkdir()
    for k in range(3):
        labels = volume((1, 1), (2, 6 + k))
        write_volume(place / "labelsTs" / f"case_{k:03}.npy", labels)
        for channel in ("0000", "0001"):
            write_volume(place / "imagesTs" / f"case_{k:03}_{channel}.npy", labels.astype(float))
        write_volume(folder / "predictions" / f"case_{k:03}.npy", labels)
        softmax = np.stack([labels == value for value in range(3)]).astype(np.float32)
        np.savez(folder / "predictions" / f"case_{k:03}.npz", probabilities=softmax)
        (folder / "predictions" / f"case_{k:03}.pkl").write_bytes(b"\x80\x04N.")
    put(folder / "predictions", {"plans.json": "{}", "dataset.json": NAMES})
    return place


def test_classes_have_the_names_of_the_data_set(tmp_path) -> None:
    place = dataset(tmp_path)
    cohort = cal.read(place / "labelsTs", tmp_path / "predictions")
    assert cohort.classes == ("kidney", "tumour")
    assert cohort.predictions("predictions").label.tolist() == [0, 1] * 3
    notes = "\n".join(cohort.intake.notes)
    assert "names of classes come from" in notes
    assert "other files of the same case, not read: 3" in notes


def test_the_data_set_itself_stands_for_its_labels(tmp_path) -> None:
    place = dataset(tmp_path)
    assert cal.read(place, tmp_path / "predictions").images.ids[0] == "case_000"
    (place / "labelsTr").mkdir()
    with pytest.raises(InputError, match="labelsTs"):
        cal.read(place, tmp_path / "predictions")


def test_maps_take_the_softmax(tmp_path) -> None:
    place = dataset(tmp_path)
    samples = cal.read_maps(place / "labelsTs", tmp_path / "predictions", channel="tumour")
    sample = samples[0].load(label_values=(2,))
    assert np.array_equal(sample.maps["model"] > 0.5, sample.labels == 1)


def test_images_are_called_without_their_channel(tmp_path) -> None:
    place = dataset(tmp_path)
    images = list_samples(place / "imagesTs", "images")
    assert list(images.files) == ["case_000", "case_001", "case_002"]
    assert all(path.endswith("_0000.npy") for path in images.files.values())
    samples = cal.read_maps(
        place / "labelsTs", tmp_path / "predictions", images=place / "imagesTs", channel=1
    )
    assert samples[0].image is not None


def test_a_value_without_a_name_keeps_its_number(tmp_path) -> None:
    place = dataset(tmp_path)
    write_volume(place / "labelsTs" / "case_000.npy", volume((1, 1), (5, 6)))
    assert cal.read(place / "labelsTs").classes == ("1", "2", "5")


def nndetection(folder):
    labels = put(
        folder / "labelsTs",
        {
            "case0.json": '{"instances": {"1": 0, "2": 1}}',
            "case1.json": '{"instances": {"1": 1}}',
        },
    )
    put(folder, {"dataset.json": '{"labels": {"0": "benign", "1": "malignant"}}'})
    write_volume(labels / "case0.npy", volume((1, 1), (2, 6)))
    write_volume(labels / "case1.npy", volume((1, 9)))
    # Lower bounds are one before the object, upper ones one behind: z, y, then x.
    boxes = {
        "1": {"score": 0.9, "label": 0, "box": [0, 1, 4, 6, 0, 4]},
        "2": {"score": 0.4, "label": 1, "box": [0, 1, 4, 6, 5, 9]},
    }
    predictions = put(
        folder / "val_predictions_nii",
        {"case0_boxes.json": json.dumps(boxes), "case1_boxes.json": "{}"},
    )
    return labels, predictions


def test_instances_have_the_classes_of_their_json(tmp_path) -> None:
    labels, predictions = nndetection(tmp_path)
    assert sniff(labels).format == sniff(predictions).format == "nndetection"
    cohort = cal.read(labels, {"m": predictions})
    assert cohort.classes == ("benign", "malignant")
    assert cohort.references.label.tolist() == [0, 1, 1]
    assert cohort.predictions("m").score.tolist() == [0.9, 0.4]
    # The boxes of the predictions are those of the same objects.
    assert cohort.predictions("m").boxes.tolist() == cohort.references.boxes[:2].tolist()


def test_the_names_of_a_task_lie_two_folders_above_its_labels(tmp_path) -> None:
    labels, predictions = nndetection(tmp_path / "raw_splitted")
    (tmp_path / "raw_splitted" / "dataset.json").rename(tmp_path / "dataset.json")
    assert cal.read(labels, {"m": predictions}).classes == ("benign", "malignant")
    # The task itself stands for its labels, if there is one folder of them.
    predictions.rename(tmp_path.parent / "val_predictions_nii")
    whole = cal.read(tmp_path, {"m": tmp_path.parent / "val_predictions_nii"})
    assert whole.images.ids == ("case0", "case1")
    assert whole.references.label.tolist() == [0, 1, 1]


def test_pickles_of_nndetection_are_refused_with_the_command_that_exports_them(tmp_path) -> None:
    labels, predictions = nndetection(tmp_path)
    for path in predictions.iterdir():
        path.unlink()
    (predictions / "case0_boxes.pkl").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match="nndet_boxes2nii") as error:
        cal.read(labels, predictions)
    assert error.value.rule == "pickle"


def test_arrays_of_a_pickle_are_read_once_they_are_json(tmp_path) -> None:
    labels, predictions = nndetection(tmp_path)
    exported = cal.read(labels, {"m": predictions}).predictions("m")
    arrays = {
        "pred_boxes": [[0, 1, 4, 6, 0, 4], [0, 1, 4, 6, 5, 9]],
        "pred_scores": [0.9, 0.4],
        "pred_labels": [0.0, 1.0],
        "restore": True,
    }
    path = predictions / "case0_boxes.json"
    path.write_text(json.dumps(arrays))
    read = cal.read(labels, {"m": predictions}).predictions("m")
    assert read.boxes.tolist() == exported.boxes.tolist()
    assert read.label.tolist() == exported.label.tolist()
    path.write_text(json.dumps({**arrays, "pred_scores": [0.9]}))
    with pytest.raises(InputError, match="of one length"):
        cal.read(labels, {"m": predictions})


UNKNOWN_CASE = '{"1": {"score": 1, "label": 0, "box": [0, 0, 4, 4, 0, 4]}}'


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ({"labelsTs/case0.json": '{"instances": {"1": 0}}'}, "class-missing"),
        ({"labelsTs/case0.json": '{"instances": {"1": "a"}}'}, "format"),
        ({"labelsTs/case0.json": '{"instances": {"1": 0, "01": 1, "2": 1}}'}, "format"),
        ({"val_predictions_nii/case0_boxes.json": '{"1": {"score": 1}}'}, "box-shape"),
        (
            {"val_predictions_nii/case9_boxes.json": UNKNOWN_CASE},
            "unknown-image",
        ),
    ],
)
def test_broken_files_of_nndetection_are_refused(tmp_path, files, rule) -> None:
    labels, predictions = nndetection(tmp_path)
    put(tmp_path, files)
    with pytest.raises(InputError) as error:
        cal.read(labels, predictions)
    assert error.value.rule == rule
