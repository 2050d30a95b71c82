"""Label volumes as references and predictions: objects, pairing, grids, scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.data.masks import Masks
from calipers.errors import InputError, UsageError
from calipers.io.write_volume import write_volume
from volume_cases import noise

SPACING = (0.5, 0.5, 2.0)


def lesions() -> np.ndarray:
    """Return a volume with two components of the value 1 and one of the value 2."""
    volume = np.zeros((8, 16, 20), np.uint8)
    volume[1:3, 2:5, 2:6] = 1
    volume[5:7, 10:14, 12:18] = 1
    volume[3:5, 8:10, 1:4] = 2
    return volume


def written(folder: Path, **volumes: np.ndarray) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, volume in volumes.items():
        write_volume(folder / f"{name}.npz", volume, spacing=SPACING)
    return folder


def test_values_are_classes_and_components_are_objects(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions(), b=np.zeros((8, 16, 20), np.uint8))
    cohort = cal.read(references)
    assert cohort.images.ids == ("a", "b")
    assert cohort.images.size.tolist() == [[20, 16, 8]] * 2
    assert cohort.images.spacing.tolist() == [list(SPACING)] * 2
    assert cohort.classes == ("1", "2")
    assert cohort.references.label.tolist() == [0, 0, 1]
    assert cohort.references.boxes.tolist() == [
        [2, 2, 1, 6, 5, 3],
        [12, 10, 5, 18, 14, 7],
        [1, 8, 3, 4, 10, 5],
    ]
    assert cohort.references.area.tolist() == [24, 48, 12]
    assert np.diff(cohort.references.offsets).tolist() == [3, 0]


def test_instances_and_nonzero_are_one_class(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    instances = cal.read(references, labels="instances")
    assert instances.classes == ("lesion",)
    # The value 1 has two components, and is one object all the same.
    assert instances.references.area.tolist() == [72, 12]
    assert cal.read(references, labels="nonzero").references.area.tolist() == [24, 12, 48]


def test_components_of_classes_are_those_of_each_value_alone() -> None:
    rng = np.random.default_rng(0)
    for shape in ((9, 11), (5, 7, 9)):
        labels = rng.integers(0, 4, shape).astype(np.int32)
        masks, values = Masks.from_classes(labels)
        parts = [Masks.from_components(labels == value) for value in (1, 2, 3)]
        alone = Masks.concat(parts)
        assert values.tolist() == np.repeat([1, 2, 3], [len(part) for part in parts]).tolist()
        assert masks.offsets.tolist() == alone.offsets.tolist()
        assert masks.start.tolist() == alone.start.tolist()
        assert masks.length.tolist() == alone.length.tolist()


def test_predictions_are_evaluated_with_their_masks(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    predicted = written(tmp_path / "preds", a=np.roll(lesions(), 1, axis=2))
    cohort = cal.read(references, predicted)
    predictions = cohort.predictions("preds")
    assert not predictions.scored
    assert predictions.label.tolist() == [0, 0, 1]
    assert (predictions.boxes[:, 0] - cohort.references.boxes[:, 0]).tolist() == [1, 1, 1]
    evaluation = cal.evaluate(cohort, "overview", ci=False)
    assert float(evaluation["sensitivity@0.5"]) == 1.0
    assert any("no scores" in warning for warning in evaluation.warnings)


def test_scores_come_from_a_table_by_image_and_value(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    table = tmp_path / "scores.csv"
    table.write_text("image,label,score\na.npz,1,0.9\na,2,0.25\nother,1,0.5\n")
    cohort = cal.read(references, {"m": references}, scores=table)
    assert cohort.predictions("m").score.tolist() == [0.9, 0.9, 0.25]
    notes = " ".join(cohort.intake.notes)
    assert "scores come from" in notes
    assert "1 rows of" in notes
    by_model = cal.read(references, {"m": references, "n": references}, scores={"n": table})
    assert not by_model.predictions("m").scored
    assert by_model.predictions("n").score.tolist() == [0.9, 0.9, 0.25]


def test_a_score_of_an_image_holds_for_all_its_objects(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    (tmp_path / "s.csv").write_text("case,probability\na,0.7\n")
    cohort = cal.read(references, {"m": references}, scores=tmp_path / "s.csv")
    assert cohort.predictions("m").score.tolist() == [0.7, 0.7, 0.7]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("image,label,score\na,1,0.5\n", "score-missing"),
        ("image,label,score\na,1,\na,2,0.5\n", "score-missing"),
        ("image,label,score\na,1,0.5\na,1,0.6\n", "dup-name"),
        ("image,label,score\na,1.5,0.5\n", "type"),
        ("image,label,score\na,1,1.5\na,2,0.5\n", "score-range"),
        ("label,score\n1,0.5\n", "missing-column"),
    ],
)
def test_a_broken_table_of_scores_is_refused(tmp_path, text, rule) -> None:
    references = written(tmp_path / "refs", a=lesions())
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError) as error:
        cal.read(references, {"m": references}, scores=tmp_path / "s.csv")
    assert error.value.rule == rule


def test_scores_of_an_unknown_model_are_a_usage_error(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    with pytest.raises(UsageError, match="did you mean 'ours'"):
        cal.read(references, {"ours": references}, scores={"our": "x.csv"})


def test_a_mirrored_prediction_is_refused(tmp_path) -> None:
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    mirrored = np.diag([-1.0, 1.0, 2.0, 1.0])
    for folder, place in (("refs", affine), ("preds", mirrored)):
        (tmp_path / folder).mkdir()
        write_volume(tmp_path / folder / "a.npz", lesions(), affine=place)
    with pytest.raises(InputError) as error:
        cal.read(tmp_path / "refs", tmp_path / "preds")
    assert error.value.rule == "affine"
    assert "mirrored along x" in str(error.value)


def test_another_shape_is_refused(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    predicted = written(tmp_path / "preds", a=lesions()[:-1])
    with pytest.raises(InputError) as error:
        cal.read(references, predicted)
    assert error.value.rule == "shape-mismatch"


def test_a_missing_volume_is_refused_unless_it_means_nothing(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions(), b=lesions())
    predicted = written(tmp_path / "preds", a=lesions())
    with pytest.raises(InputError, match="missing-volumes empty") as error:
        cal.read(references, predicted)
    assert error.value.rule == "unpaired"
    cohort = cal.read(references, predicted, missing_volumes="empty")
    assert np.diff(cohort.predictions("preds").offsets).tolist() == [3, 0]
    assert any("count as empty" in note for note in cohort.intake.notes)


def test_patterns_pair_names(tmp_path) -> None:
    references = written(tmp_path / "refs", a_seg=lesions(), b_seg=lesions())
    predicted = written(tmp_path / "preds", a_pred=lesions(), b_pred=lesions())
    with pytest.raises(InputError, match=r'pattern="\{name\}_pred'):
        cal.read(references, predicted)
    names = {"pattern": "{name}_pred.npz", "reference_pattern": "{name}_seg.npz"}
    assert cal.read(references, predicted, **names).images.ids == ("a", "b")


def test_two_files_are_a_pair_whatever_they_are_called(tmp_path) -> None:
    references = written(tmp_path, truth=lesions(), guess=lesions())
    cohort = cal.read(references / "truth.npz", references / "guess.npz")
    assert cohort.images.ids == ("truth",)
    assert len(cohort.predictions("guess")) == 3


def test_one_value_is_the_one_class(tmp_path) -> None:
    binary = (lesions() > 0).astype(np.uint8)
    references = written(tmp_path / "refs", a=binary)
    predicted = written(tmp_path / "preds", a=255 * binary)
    cohort = cal.read(references, predicted)
    assert cohort.predictions("preds").label.tolist() == [0, 0, 0]
    assert any("only value 255" in note for note in cohort.intake.notes)


def test_a_value_that_no_reference_has_is_refused(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    other = lesions()
    other[0, 0, 0] = 7
    predicted = written(tmp_path / "preds", a=other)
    with pytest.raises(InputError, match="--labels instances") as error:
        cal.read(references, predicted)
    assert error.value.rule == "unknown-category"
    lenient = cal.read(references, predicted, lenient=True)
    assert lenient.intake.quarantined == 1


def test_maps_of_scores_are_sent_to_their_verb(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    (tmp_path / "preds").mkdir()
    write_volume(tmp_path / "preds" / "a.npy", np.full((8, 16, 20), 0.3, np.float32))
    with pytest.raises(InputError, match="calipers maps REFS PREDS"):
        cal.read(references, tmp_path / "preds")


def test_boxes_as_references_and_volumes_as_predictions(tmp_path) -> None:
    (tmp_path / "refs.csv").write_text(
        "image,class,x0,y0,z0,x1,y1,z1,width,height,depth\na.npz,1,2,2,1,6,5,3,20,16,8\n"
    )
    binary = (lesions() == 1).astype(np.uint8)
    predicted = written(tmp_path / "preds", a=binary)
    # The name of the file has the suffix of a volume, which is no picture's.
    cohort = cal.read(tmp_path / "refs.csv", predicted)
    assert len(cohort.predictions("preds")) == 2
    written(tmp_path / "other", a=binary[1:])
    with pytest.raises(InputError) as error:
        cal.read(tmp_path / "refs.csv", tmp_path / "other")
    assert error.value.rule == "shape-mismatch"


def test_pictures_of_labels(tmp_path) -> None:
    (tmp_path / "refs").mkdir()
    write_volume(tmp_path / "refs" / "p.png", lesions()[1])
    cohort = cal.read(tmp_path / "refs", {"m": tmp_path / "refs"})
    assert cohort.dimensions == 2
    assert cohort.references.boxes.tolist() == [[2, 2, 6, 5]]


def test_contents_are_hashed(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    before = cal.read(references).intake.files[0].sha256
    moved = np.roll(lesions(), 1, axis=0)
    written(references, a=moved)
    assert cal.read(references).intake.files[0].sha256 != before


def test_volumes_of_two_and_three_axes_are_not_mixed(tmp_path) -> None:
    references = written(tmp_path / "refs", a=lesions())
    np.save(references / "b.npy", lesions()[0])
    with pytest.raises(InputError) as error:
        cal.read(references)
    assert error.value.rule == "volume-shape"


def test_a_folder_of_text_files_is_no_label_volume(tmp_path) -> None:
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "notes.md").write_text("nothing")
    with pytest.raises(InputError) as error:
        cal.read(tmp_path / "refs")
    assert error.value.rule == "not-a-file"


def test_classes_of_segmentations_are_the_labels_of_segments(tmp_path) -> None:
    """Every file numbers its segments for itself: the same number is another class elsewhere."""
    pytest.importorskip("highdicom")
    from dicom_cases import masks, segmentation, series

    place = series(tmp_path / "ct", noise((5, 4, 6), np.uint16))
    for name in ("refs", "preds", "other"):
        (tmp_path / name).mkdir()
    segments = masks()
    segmentation(tmp_path / "refs/a.dcm", segments, place, labels=("liver", "tumour"))
    segmentation(tmp_path / "refs/b.dcm", segments[..., ::-1], place, labels=("tumour", "liver"))
    for name in "ab":
        segmentation(tmp_path / f"preds/{name}.dcm", segments, place, labels=("liver", "tumour"))
        segmentation(tmp_path / f"other/{name}.dcm", segments, place, labels=("liver", "cyst"))
    cohort = cal.read(tmp_path / "refs", tmp_path / "preds")
    assert cohort.classes == ("liver", "tumour")
    references, predictions = cohort.references, cohort.predictions("preds")
    for name in cohort.classes:
        label = cohort.classes.index(name)
        assert np.array_equal(
            references.boxes[references.label == label],
            predictions.boxes[predictions.label == label],
        )
    with pytest.raises(InputError) as error:
        cal.read(tmp_path / "refs", tmp_path / "other")
    assert error.value.rule == "unknown-category"
    alone = cal.read(tmp_path / "refs", tmp_path / "preds", segment=1)
    assert alone.classes == ("liver", "tumour")
