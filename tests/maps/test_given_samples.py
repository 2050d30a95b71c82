"""What may be given to `evaluate_maps`, and what is refused with one clear error that names the
place.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import calipers as cal
from calipers.data.maps import Sample
from calipers.errors import InputError, UsageError
from map_cases import random_samples, values_of, with_maps

LABELS = np.array([[0, 1, 1], [0, 0, 0]])
SCORES = np.array([[0.1, 0.9, 0.8], [0.0, 0.2, 0.3]])
GOOD = {"labels": LABELS, "map": SCORES}


def changed(array: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    found = array.astype(float)
    found[place] = value
    return found


BAD: dict[str, tuple[Any, str, str]] = {
    "shape": (
        (SCORES.T, LABELS),
        "shape-mismatch",
        r"samples\[1\] map of model.*\(2, 3\).*\(3, 2\)",
    ),
    "one more axis": ((SCORES[..., None], LABELS), "shape-mismatch", r"samples\[1\]"),
    "one axis": ((SCORES[0], LABELS[0]), "volume-shape", "2 or 3 axes"),
    "four axes": ((SCORES[None, None], LABELS[None, None]), "volume-shape", "2 or 3 axes"),
    "no voxel": ((SCORES[:0], LABELS[:0]), "volume-shape", "2 or 3 axes"),
    "NaN": ((changed(SCORES, (1, 2), np.nan), LABELS), "non-finite", r"\[1, 2\].*1 of 6 NaN"),
    "infinite": ((changed(SCORES, (0, 0), np.inf), LABELS), "non-finite", "1 of 6 NaN or infinite"),
    "above 1": ((changed(SCORES, (0, 0), 1.5), LABELS), "score-range", "0 to 1.5"),
    "below 0": ((changed(SCORES, (0, 0), -0.5), LABELS), "score-range", "-0.5 to 0.9"),
    "bytes": (((SCORES * 255).astype(np.uint8), LABELS), "score-range", "uint8"),
    "labels of three values": ((SCORES, LABELS * [[0, 1, 2], [0, 0, 0]]), "mask-values", "0, 1, 2"),
    "labels between": ((SCORES, LABELS * 0.5), "mask-values", "whole numbers"),
    "NaN labels": ((SCORES, changed(LABELS, (0, 0), np.nan)), "non-finite", "samples"),
    "negative labels": ((SCORES, -LABELS), "mask-values", "from 0"),
    "texts": ((SCORES.astype(str), LABELS), "volume-dtype", "a number per voxel"),
    "complex": ((SCORES * 1j, LABELS), "volume-dtype", "a number per voxel"),
    "ragged": (([[0.1], [0.2, 0.3]], LABELS), "type", r"samples\[1\]"),
    "a number": (3, "type", "a pair"),
    "three arrays": ((SCORES, LABELS, LABELS), "type", "a pair"),
    "no labels": ({"map": SCORES}, "missing-key", "'labels' and 'map'"),
    "no map": ({"labels": LABELS}, "missing-key", "'labels' and 'map'"),
    "map and maps": ({**GOOD, "maps": {"a": SCORES}}, "missing-key", "'labels' and 'map'"),
    "no models": ({"labels": LABELS, "maps": {}}, "missing-key", "'labels' and 'map'"),
    "maps as a list": ({"labels": LABELS, "maps": [SCORES]}, "missing-key", "'labels' and 'map'"),
    "another model": ({"labels": LABELS, "maps": {"other": SCORES}}, "models", "model"),
    "more models": (
        {"labels": LABELS, "maps": {"model": SCORES, "more": SCORES}},
        "models",
        "model",
    ),
    "a volume": ((SCORES[None], LABELS[None]), "volume-shape", "2 axes"),
    "the same name": ({**GOOD, "name": "0"}, "dup-image", "expected unique names"),
    "spacing of a volume": ({**GOOD, "spacing": (1, 1, 1)}, "spacing", "2 positive numbers"),
    "spacing of 0": ({**GOOD, "spacing": (1, 0)}, "spacing", "2 positive numbers"),
    "spacing without end": ({**GOOD, "spacing": (1, np.inf)}, "spacing", "2 positive numbers"),
    "one spacing": ({**GOOD, "spacing": 1.0}, "spacing", "2 positive numbers"),
    "a sample of four axes": (
        Sample("x", LABELS[None, None], {"model": SCORES[None, None]}),
        "volume-shape",
        "x",
    ),
    "a sample with NaN": (
        Sample("x", LABELS, {"model": SCORES * np.nan}),
        "non-finite",
        r"samples\[1\] \(x\)",
    ),
}


@pytest.mark.parametrize("trouble", BAD)
@pytest.mark.parametrize("jobs", [1, 2])
def test_bad_samples_are_refused(trouble: str, jobs: int) -> None:
    given, rule, words = BAD[trouble]
    with pytest.raises(cal.InputError, match=words) as caught:
        cal.evaluate_maps([GOOD, given], jobs=jobs)
    assert caught.value.rule == rule
    with pytest.raises(cal.InputError, match=words):
        cal.evaluate_maps(iter([GOOD, given, GOOD]), jobs=jobs)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"labels": "binnary"}, "labels is one of binary, nonzero, instances"),
        ({"labels": ()}, "labels is one of"),
        ({"labels": 3}, "labels is one of"),
        ({"labels": (0.5,)}, "labels is one of"),
        ({"labels": (True,)}, "labels is one of"),
        ({"normalise": "min-max"}, "did you mean 'minmax'"),
        ({"protocol": "anomly"}, "did you mean 'anomaly'"),
        ({"by": "sentre"}, "did you mean 'centre'"),
    ],
)
def test_bad_choices_are_refused(choice: dict[str, Any], words: str) -> None:
    samples = [{**GOOD, "centre": "N"}]
    with pytest.raises(cal.UsageError, match=words):
        cal.evaluate_maps(samples, **choice)


@pytest.mark.parametrize("given", [SCORES, {"map": SCORES, "labels": LABELS}, "folder", 5, None])
def test_something_that_is_no_list_of_samples(given: Any) -> None:
    with pytest.raises(cal.UsageError, match="list of"):
        cal.evaluate_maps(given)


def test_no_samples() -> None:
    for given in ([], iter([])):
        with pytest.raises(cal.InputError, match="at least one sample"):
            cal.evaluate_maps(given)


def test_a_threshold_found_on_the_maps_needs_them_twice() -> None:
    with pytest.raises(cal.UsageError, match="reads the maps twice: give a list, not an iterator"):
        cal.evaluate_maps(iter([GOOD]), with_maps(threshold="fpr:0.1"))


def test_a_tuning_group_has_to_exist_and_to_leave_something() -> None:
    samples = [{**GOOD, "name": "a", "split": "tune"}, {**GOOD, "name": "b", "split": "test"}]
    for threshold in (0.5, "best-dice", "fpr:0.3"):
        with pytest.raises(cal.InputError, match="split=tuning"):
            cal.evaluate_maps(samples, with_maps(threshold=threshold, tuning="split=tuning"))
        with pytest.raises(cal.InputError, match="all are of split=tune"):
            cal.evaluate_maps(samples[:1], with_maps(threshold=threshold, tuning="split=tune"))


def test_what_is_left_out_for_tuning_is_accounted_for() -> None:
    samples = [
        {**sample, "split": "tune" if k < 2 else "test"}
        for k, sample in enumerate(random_samples(1, 6))
    ]
    for given in (samples, iter(samples)):
        evaluation = cal.evaluate_maps(
            given, with_maps(threshold=0.25, tuning="split=tune"), ci=False
        )
        for file in evaluation.cohort.intake.files:
            assert (file.read, file.used, file.quarantined) == (6, 4, {"tuning": 2})
        assert evaluation.cohort.n_images == 4
        assert any(
            "2 of 6 records were set aside (tuning 2)" in warning for warning in evaluation.warnings
        )


def test_chosen_thresholds_and_small_objects_are_told() -> None:
    samples = random_samples(1, 6, constant=False)
    told = cal.evaluate_maps(samples, with_maps(threshold="fpr:0.1", least=2), ci=False).warnings
    assert any(
        "objects of model are voxels with a score of at least" in warning for warning in told
    )
    assert any(
        "predicted objects of model of fewer than 2 voxels were left out" in warning
        for warning in told
    )


@pytest.mark.parametrize("threshold", ["fpr:0.05", "best-dice"])
@pytest.mark.parametrize("level", [0.0, 0.3])
def test_a_model_that_says_nothing_has_no_objects(threshold: str, level: float) -> None:
    """Its maps are constant: no threshold calls few voxels, and none above 0 is there if it is all
    0.
    """
    flat = np.full(LABELS.shape, level)
    samples = [
        {"name": name, "labels": LABELS, "maps": {"flat": flat, "good": SCORES}, "split": split}
        for name, split in (("a", "tune"), ("b", "test"))
    ]
    evaluation = cal.evaluate_maps(
        samples, with_maps(threshold=threshold, tuning="split=tune"), ci=False
    )
    assert float(evaluation["good", "F1@0.5"]) == 1.0
    if threshold == "best-dice" and level:
        assert float(evaluation["flat", "sensitivity@0.01"]) == 1.0  # everything is called
    else:
        assert float(evaluation["flat", "F1@0.5"]) == 0.0
        assert len(evaluation.cohort.models["flat"]) == 0
        assert any("flat has no objects" in warning for warning in evaluation.warnings)


def test_a_rate_that_just_fits_is_within() -> None:
    """29 of 100 negatives are 0.29, though 0.29 times 100 is less than 29."""
    scores = np.concatenate([np.full(29, 0.8), np.full(71, 0.2), [0.9]])[None]
    labels = np.zeros((1, 101), int)
    labels[0, 100] = 1
    evaluation = cal.evaluate_maps([(scores, labels)], with_maps(threshold="fpr:0.29"), ci=False)
    assert any("at least 0.8 " in warning for warning in evaluation.warnings)


@pytest.mark.parametrize(
    ("labels", "voxels"),
    [("nonzero", 3), ((1,), 1), ((2, 3), 2), ([3], 1), ("instances", 3), ((7,), 0)],
)
def test_values_of_labels_that_count(labels: Any, voxels: int) -> None:
    given = np.array([[1, 0, 2], [0, 0, 3]])
    evaluation = cal.evaluate_maps([(SCORES, given)], labels=labels, ci=False)
    assert evaluation.cohort.maps["model"].histograms.positives.sum() == voxels
    assert len(evaluation.cohort.references) == {3: 2, 1: 1, 2: 1, 0: 0}[voxels] + (
        labels == "instances"
    )


def test_every_model_may_have_a_normalisation_of_its_own() -> None:
    whole = np.rint(255 * SCORES).astype(np.uint8)
    sample = {"labels": LABELS, "maps": {"echo": whole, "unit": whole / 255}}
    result = cal.evaluate_maps([sample], normalise={"echo": "uint8"}, ci=False)
    assert result["echo", "AP/dataset"].value == result["unit", "AP/dataset"].value
    assert result["echo", "softIoU"].value == pytest.approx(result["unit", "softIoU"].value)
    with pytest.raises(UsageError, match="no model 'ecko'; did you mean 'echo'"):
        cal.evaluate_maps([sample], normalise={"ecko": "uint8"}, ci=False)


def test_scores_that_are_in_0_to_1_already_are_never_divided() -> None:
    whole = np.rint(255 * SCORES).astype(np.uint8)
    sample = {"labels": LABELS, "maps": {"echo": whole, "unit": whole / 255}}
    with pytest.raises(InputError, match="NAME=uint8"):
        cal.evaluate_maps([sample], normalise="uint8", ci=False)


def test_percentages_are_those_of_a_whole_model() -> None:
    """A sample may have no score above 1 %; a model that has none anywhere was in [0, 1] before."""
    sure, unsure = 100 * SCORES, 0.5 * SCORES
    expected = values_of(cal.evaluate_maps([(SCORES, LABELS), (unsure / 100, LABELS)], ci=False))
    samples = [(sure, LABELS), (unsure, LABELS)]
    assert values_of(cal.evaluate_maps(samples, normalise="percent", ci=False)) == expected
    with pytest.raises(InputError, match=r"(?s)no score above 0.*in \[0, 1\] already"):
        cal.evaluate_maps([(SCORES, LABELS), (unsure, LABELS)], normalise="percent", ci=False)


def test_maps_may_be_normalised_on_purpose() -> None:
    plain = values_of(cal.evaluate_maps([(SCORES, LABELS)], ci=False))
    logits = np.log(np.clip(SCORES, 1e-9, 1)) - np.log(np.clip(1 - SCORES, 1e-9, 1))
    found = values_of(cal.evaluate_maps([(logits, LABELS)], normalise="sigmoid", ci=False))
    assert found == pytest.approx(plain, abs=1e-6, nan_ok=True)
    whole = np.round(SCORES * 255).astype(np.uint8)
    found = values_of(cal.evaluate_maps([(whole, LABELS)], normalise="uint8", ci=False))
    assert found == pytest.approx(plain, abs=0.01, nan_ok=True)
    for normalise in ("minmax", "clip", "rank"):
        found = values_of(cal.evaluate_maps([(3 * SCORES, LABELS)], normalise=normalise, ci=False))
        assert found["AUROC/dataset"] == plain["AUROC/dataset"]


def test_anything_that_becomes_an_array_will_do() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return SCORES

    for scores in (
        Tensor(),
        SCORES.tolist(),
        SCORES.astype(np.float32),
        SCORES.astype(np.float16),
        SCORES > 0.5,
    ):
        found = cal.evaluate_maps([(scores, LABELS.tolist())], ci=False)
        assert float(found["AP/dataset"]) == 1.0
    assert (
        float(cal.evaluate_maps([(np.asfortranarray(SCORES), LABELS[::1])], ci=False)["AP/dataset"])
        == 1.0
    )


def test_samples_are_not_changed() -> None:
    scores, labels = SCORES.copy(), LABELS.copy()
    cal.evaluate_maps([(scores, labels)], with_maps(threshold="fpr:0.3"))
    assert (scores == SCORES).all()
    assert (labels == LABELS).all()
    scores.flags.writeable = labels.flags.writeable = False
    cal.evaluate_maps([(scores, labels)], ci=False)


def test_samples_can_be_loaded_again_for_pictures() -> None:
    samples = [
        {**sample, "split": "tune" if k == 1 else "test"}
        for k, sample in enumerate(random_samples(2, 4))
    ]
    evaluation = cal.evaluate_maps(samples, with_maps(tuning="split=tune"), ci=False)
    assert evaluation.load_sample is not None
    assert [evaluation.load_sample(k).name for k in range(3)] == ["s0", "s2", "s3"]
    assert cal.evaluate_maps(iter(samples), ci=False).load_sample is None


def test_progress_counts_to_its_total() -> None:
    calls: list[tuple[int, int]] = []
    samples = [
        {**sample, "split": "tune" if k == 1 else "test"}
        for k, sample in enumerate(random_samples(2, 4))
    ]
    settings = with_maps(threshold="fpr:0.3", tuning="split=tune")
    cal.evaluate_maps(
        samples, settings, ci=False, progress=lambda done, total: calls.append((done, total))
    )
    assert calls[:4] == [(1, 1), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_iterator_is_not_held(jobs: int) -> None:
    """When a sample is asked for, those that were given before are gone, but for those that are
    being examined.
    """
    import gc
    import weakref

    given: list[weakref.ref[np.ndarray]] = []
    most = 0
    gc.collect()
    gc.freeze()  # a collection now looks at what this test makes, not at all that was imported

    def samples() -> Any:
        nonlocal most
        for k in range(8):
            gc.collect()
            most = max(most, sum(one() is not None for one in given))
            scores = np.full((32, 32), 0.25)
            scores[3:5, 3:5] = 0.9
            given.append(weakref.ref(scores))
            yield {"name": str(k), "map": scores, "labels": (scores > 0.5).astype(int)}
            del scores

    try:
        cal.evaluate_maps(samples(), ci=False, jobs=jobs)
    finally:
        gc.unfreeze()
    assert most <= (0 if jobs == 1 else jobs + 1)


def test_a_misspelt_group_is_refused_before_a_sample_is_read() -> None:
    class Unread:
        groups: ClassVar[dict[str, str]] = {"centre": "A"}

        def load(self, **choices: object) -> None:
            raise AssertionError("it was read")

    with pytest.raises(cal.UsageError, match="no column 'sentre'; did you mean 'centre'"):
        cal.evaluate_maps([Unread()], by="sentre")
