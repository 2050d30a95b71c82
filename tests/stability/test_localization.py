"""The models of a stability analysis against the reference, as scikit-learn has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.metrics import f1_score, jaccard_score, roc_auc_score

import calipers as cal
from calipers.stability.bag_scores import STANDARD, Pooling, pool_maps
from seeds import looped


def made(seed: int, n_models: int = 3, n_bags: int = 20) -> dict[str, Any]:
    """Maps with labels; of the positive bags some are annotated."""
    rng = np.random.default_rng(seed)
    maps = np.round(rng.random((n_models, n_bags, 16)), 1)
    labels = np.arange(n_bags) % 3 > 0
    marks: list[Any] = []
    for b in range(n_bags):
        marked = rng.random(16) < 0.4
        marked[int(rng.integers(16))] = True
        marks.append(
            marked
            if labels[b] and b % 4
            else np.zeros(16, bool)
            if not labels[b] and b % 2
            else None
        )
    return {"maps": maps, "labels": labels, "instances": marks}


@pytest.mark.parametrize("seed", range(6))
def test_dice_jaccard_and_accuracy_are_those_of_sklearn(seed: int) -> None:
    given = made(seed)
    found = cal.stability(**given, ci=False)
    chosen = [
        b for b in range(20) if given["instances"][b] is not None and given["instances"][b].any()
    ]
    assert [int(i) for i in found.localized.ids] == chosen
    for k, model in enumerate(found.models):
        calls = [given["maps"][k, b] >= 0.5 for b in chosen]
        dice = [
            f1_score(given["instances"][b], call, zero_division=0) for b, call in zip(chosen, calls)
        ]
        jaccard = [
            jaccard_score(given["instances"][b], call, zero_division=0)
            for b, call in zip(chosen, calls)
        ]
        assert found.get("DICE", model=model).value == pytest.approx(np.mean(dice), abs=1e-12)
        assert found.get("Jaccard", model=model).value == pytest.approx(np.mean(jaccard), abs=1e-12)
        assert found.get("accuracy", model=model).value == pytest.approx(
            np.mean(np.array(jaccard) >= 0.1), abs=1e-12
        )
        counted = found.get("DICE", model=model)
        assert counted.n_images == len(chosen)
        assert counted.n_references == sum(int(given["instances"][b].sum()) for b in chosen)
        assert counted.n_predictions == sum(int(call.sum()) for call in calls)


@looped("seed", range(30))
@pytest.mark.parametrize("pooling", STANDARD)
def test_the_bag_auc_is_that_of_sklearn(seed: int, pooling: str) -> None:
    given = made(seed, n_bags=12)
    found = cal.stability(given["maps"], given["labels"], ci=False, kendall=False, thresholds=())
    located = found.localization(pooling)
    for k, model in enumerate(found.models):
        maps = given["maps"][k]
        with np.errstate(divide="ignore"):
            scores = {
                "max": maps.max(axis=1),
                "mean": maps.mean(axis=1),
                "noisy-or": np.minimum(
                    -np.log1p(-maps).sum(axis=1), 1e9
                ),  # sklearn takes no infinities
                "lse": logsumexp(maps, axis=1) - np.log(16),
            }[pooling]
        expected = roc_auc_score(given["labels"], scores)
        assert located.get("AUC", model).value == pytest.approx(expected, abs=1e-12)
    assert located.get("AUC").value == pytest.approx(located.mean("AUC"), abs=1e-12)
    assert located.pooling == pooling


def test_given_bag_scores_are_used_and_pooled_ones_are_announced() -> None:
    given = made(0)
    scores = np.random.default_rng(1).standard_normal(
        (3, 20)
    )  # logits will do: only their order counts
    found = cal.stability(**given, bag_scores=scores, ci=False)
    expected = [roc_auc_score(given["labels"], row) for row in scores]
    np.testing.assert_allclose(found.localized.of_models("AUC"), expected, atol=1e-12)
    assert found.localized.pooling == "given"
    assert not any("no bag scores" in text for text in found.warnings)
    assert any(
        "uses the max of each map" in text for text in cal.stability(**given, ci=False).warnings
    )
    used = found.evidence.bag_scores
    np.testing.assert_array_equal(used, scores.T[given["labels"]])


def test_the_auc_speaks_of_all_bags_and_counts_them() -> None:
    given = made(2)
    auc = cal.stability(**given, replicates=200)["AUC"]
    assert (auc.n_images, auc.n_references, auc.n_predictions, auc.n_units) == (20, 13, 60, 20)
    assert auc.low < auc.value < auc.high


def test_mean_and_sd_are_over_models() -> None:
    found = cal.stability(**made(3), ci=False).localized
    values = found.of_models("DICE")
    assert found.mean("DICE") == pytest.approx(values.mean())
    assert found.sd("DICE") == pytest.approx(values.std(ddof=0))
    assert found.sd("DICE", ddof=1) == pytest.approx(values.std(ddof=1))
    assert found.get("DICE").value == pytest.approx(found.mean("DICE"))
    mean, sd = found.per_bag("DICE")
    assert mean.shape == sd.shape == found.places.shape
    assert mean.mean() == pytest.approx(found.mean("DICE"))


def test_another_limit_of_the_jaccard_index() -> None:
    found = cal.stability(**made(4), ci=False)
    strict, lax = found.localization(least_jaccard=0.9), found.localization(least_jaccard=0.0)
    assert strict.mean("accuracy") < found.localized.mean("accuracy") <= lax.mean("accuracy")
    np.testing.assert_array_equal(lax.values["accuracy"], lax.values["Jaccard"] > 0)
    assert found.localization() is found.localized


def test_intervals_are_over_patients() -> None:
    given = made(5)
    found = cal.stability(**given, groups={"patient": np.arange(20) // 2}, replicates=200)
    dice, auc = found["DICE"], found["AUC"]
    assert (dice.unit, auc.unit, auc.n_units) == ("patient", "patient", 10)
    assert dice.n_units <= dice.n_images


def test_without_labels_or_annotations_the_reason_is_said() -> None:
    maps = np.random.default_rng(0).random((2, 6, 5))
    nothing = cal.stability(maps, ci=False).localized
    assert dict(nothing.missing) == dict.fromkeys(
        ("DICE", "Jaccard", "accuracy", "AUC"), "no_references"
    )
    assert (nothing.rows, nothing.ids) == ((), ())
    one_kind = cal.stability(maps, [1] * 6, ci=False).localized
    assert one_kind.missing["AUC"] == "single_category"
    with pytest.raises(cal.UsageError, match="no AUC: single category"):
        one_kind.get("AUC")
    with pytest.raises(cal.UsageError, match="did you mean 'DICE'"):
        one_kind.per_bag("DICES")


@pytest.mark.parametrize("options", [{"pooling": "maxi"}, {"least_jaccard": 2.0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(cal.UsageError):
        cal.stability(**made(0), ci=False).localization(**options)


def test_rows_of_models_and_bags_are_named() -> None:
    found = cal.stability(**made(6), ci=False, models=["seed 1", "seed 2", "seed 3"])
    assert {row.model for row in found.localized.rows} == {
        "seed 1",
        "seed 2",
        "seed 3",
        "all models",
    }
    with pytest.raises(cal.UsageError, match="did you mean 'seed 1'"):
        found.localized.get("DICE", "seed1")
    with pytest.raises(cal.UsageError, match="did you mean 'DICE'"):
        found.localized.get("DICES")
    assert found.as_dict()["localization"]["over_models"]["AUC"]["mean"] == pytest.approx(
        found["AUC"].value
    )


def test_words_say_that_stable_is_not_right() -> None:
    said = cal.stability(**made(7), replicates=200).sentences()
    assert any("not marking the right ones" in text and "annotated images" in text for text in said)
    assert any("are separated with a mean AUC" in text for text in said)


STANDARD_POOLINGS = tuple(Pooling.of(name) for name in STANDARD)


def test_poolings_by_hand() -> None:
    values = np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    pooled = pool_maps(values, STANDARD_POOLINGS)
    assert pooled[0].tolist() == [0.5, 1.0]
    assert pooled[1].tolist() == pytest.approx([1 / 3, 1 / 3])
    assert 1 - np.exp(-pooled[2]).tolist()[0] == pytest.approx(0.75)
    assert np.isinf(pooled[2, 1])
    assert pooled[3].tolist() == pytest.approx(np.log(np.exp(values).mean(axis=1)))


def test_noisy_or_does_not_stick_to_1_when_many_instances_are_sure() -> None:
    sure, surer = np.full((1, 4000), 0.9), np.full((1, 4000), 0.95)
    assert pool_maps(sure, STANDARD_POOLINGS)[2, 0] < pool_maps(surer, STANDARD_POOLINGS)[2, 0]


@pytest.mark.parametrize(
    ("pooling", "score"),
    [
        ("mean", lambda maps: maps.mean(axis=1)),
        ("top-k:3", lambda maps: np.sort(maps, axis=1)[:, -3:].mean(axis=1)),
        ("lse:20", lambda maps: logsumexp(20 * maps, axis=1)),
        ("noisy-or:0.98", lambda maps: -np.log(0.98 + 0.02 * (1 - maps)).sum(axis=1)),
    ],
)
def test_the_analysis_pools_as_it_is_told(pooling: str, score: Any) -> None:
    case = made(3, n_bags=30)
    result = cal.stability(**case, pooling=pooling, ci=False, kendall=False)
    expected = [roc_auc_score(case["labels"], score(maps)) for maps in case["maps"]]
    np.testing.assert_allclose(result.localized.of_models("AUC"), expected, atol=1e-12)
    assert result.as_dict()["localization"]["bag_scores"] == pooling
    assert result.as_dict()["settings"]["pooling"] == pooling
    assert result.localization("max").pooling == "max"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maxi", "did you mean 'max'"),
        ("max:3", "takes no number"),
        ("top-k", "such as top-k:8"),
        ("top-k:2.5", "whole number"),
        ("top-k:0", "whole number"),
        ("lse:0", "above 0"),
        ("lse:inf", "above 0"),
        ("lse:x", "above 0"),
        ("noisy-or:1", "below 1"),
        (3, "pooling is a text or None, not 3"),
    ],
)
def test_poolings_that_make_no_sense_are_refused(text: Any, message: str) -> None:
    with pytest.raises(cal.UsageError, match=message):
        cal.stability(**made(0), pooling=text)


def test_a_pooling_without_effect_is_refused() -> None:
    case = made(0)
    with pytest.raises(cal.UsageError, match="scores of their own"):
        cal.stability(**case, bag_scores=np.zeros((3, 20)), pooling="mean")
    with pytest.raises(cal.UsageError, match="needs labels"):
        cal.stability(case["maps"], pooling="mean")
    with pytest.raises(cal.UsageError, match="repeat the analysis with pooling='lse:5'"):
        cal.stability(**case, ci=False).localization("lse:5")


def test_words_of_poolings() -> None:
    texts = ["max", "lse", "lse:10", "top-k:8", "noisy-or:0.98"]
    assert [str(Pooling.of(text)) for text in texts] == texts
    assert [Pooling.of(text).words for text in texts[2:]] == [
        "lse (r = 10)",
        "mean of the 8 highest values",
        "noisy-or (factors from 0.98 to 1)",
    ]
