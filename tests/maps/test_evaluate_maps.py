"""`evaluate_maps` against a twin on dense arrays, against scikit-learn, and what must not change
its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.maps import Sample
from map_cases import KINDS, every_level, map_protocol, random_samples, values_of, with_maps
from reference import maps as slow
from seeds import batches

ALL = every_level()


def cases_of(samples: list[dict[str, Any]], model: str = "model") -> list[slow.Case]:
    return [slow.Case(sample["maps"][model], sample["labels"]) for sample in samples]


def expected(cases: list[slow.Case], settings: slow.Settings, threshold: float) -> dict[str, float]:
    """Every value of `every_level`, from the twin."""
    found = {}
    for name, options in ALL.items():
        kind, level = options["kind"], options.get("level", "dataset")
        if kind in KINDS.values():
            found[name] = slow.measure(
                cases, name.partition("/")[0], level, settings, options.get("at", "best")
            )
        elif kind == "aupro":
            groups = [cases] if level == "dataset" else [[case] for case in cases]
            values = [slow.aupro(group, settings, options.get("limit", 0.3)) for group in groups]
            defined = [value for value in values if not math.isnan(value)]
            found[name] = float(np.mean(defined)) if defined else math.nan
        elif kind == "soft-instance-iou":
            alpha, variant = options.get("alpha", 0.5), options.get("variant", "tversky")
            found[name] = float(
                np.mean([slow.soft_iou(case, settings, alpha, variant) for case in cases])
            )
        else:
            found[name] = slow.instance_f1(cases, settings, threshold, options["thresholds"])
    return found


CHOICES = [
    {},
    {"threshold": "fpr:0.1"},
    {"threshold": "fpr:0.3", "connectivity": "faces", "slices": "x"},
    {"connectivity": "edges", "least": 2, "slices": "y"},
    {"threshold": 0.25, "least": 3, "score": "mean", "batch": 3},
]


@pytest.mark.parametrize("number", range(len(CHOICES)))
@pytest.mark.parametrize("seeds", batches(24, default=8))
def test_every_value_equals_the_twin(number: int, seeds: range) -> None:
    choice = {"batch": 2, **CHOICES[number]}
    settings, protocol = slow.Settings(**choice), map_protocol(ALL, **choice)
    for seed in seeds:
        samples = random_samples(seed)
        cases = cases_of(samples)
        found = values_of(cal.evaluate_maps(samples, protocol, ci=False))
        wanted = expected(cases, settings, slow.threshold_of(cases, settings.threshold))
        assert list(found) == list(wanted)
        for name, value in wanted.items():
            assert found[name] == pytest.approx(value, abs=1e-9, nan_ok=True), (seed, name)


@pytest.mark.parametrize("how", ["best-dice", "fpr:0.1"])
@pytest.mark.parametrize("seeds", batches(30, default=8))
def test_a_threshold_from_a_tuning_split_equals_the_twin(how: str, seeds: range) -> None:
    protocol = map_protocol(ALL, threshold=how, tuning="split=tune", batch=2)
    settings = slow.Settings(threshold=how)
    seen = set()
    for seed in seeds:
        samples = random_samples(seed, 6, models=("a", "b"))
        for k, sample in enumerate(samples):
            sample["split"] = "tune" if k % 3 == 0 else "test"
        tuning, test = samples[::3], [sample for k, sample in enumerate(samples) if k % 3]
        if how == "best-dice" and not any(sample["labels"].any() for sample in tuning):
            with pytest.raises(cal.InputError, match="no voxel in a reference"):
                cal.evaluate_maps(samples, protocol, ci=False)
            continue
        evaluation = cal.evaluate_maps(samples, protocol, ci=False)
        assert evaluation.cohort.images.ids == tuple(sample["name"] for sample in test)
        for model in ("a", "b"):
            threshold = slow.threshold_of(cases_of(tuning, model), how)
            seen.add(threshold)
            found = values_of(evaluation, model)
            for name, value in expected(cases_of(test, model), settings, threshold).items():
                assert found[name] == pytest.approx(value, abs=1e-9, nan_ok=True), (
                    seed,
                    model,
                    name,
                )
    assert len(seen) > 5


@pytest.mark.parametrize("seeds", batches(20, default=6))
def test_any_score_equals_the_twin_where_scores_are_kept(seeds: range) -> None:
    names = {name: options for name, options in ALL.items() if options.get("level") != "batch"}
    protocol = map_protocol(names)
    for seed in seeds:
        samples = random_samples(seed, steps=0)
        found = values_of(cal.evaluate_maps(samples, protocol, ci=False))
        wanted = expected(cases_of(samples), slow.Settings(), 0.5)
        for name in names:
            assert found[name] == pytest.approx(wanted[name], abs=1e-9, nan_ok=True), (seed, name)


@pytest.mark.parametrize("seeds", batches(20, default=6))
def test_every_value_of_the_labels_may_be_an_object(seeds: range) -> None:
    protocol = map_protocol(ALL, batch=2)
    settings = slow.Settings(instances=True)
    random = np.random.default_rng(7)
    for seed in seeds:
        samples = random_samples(seed)
        for sample in samples:  # objects in several pieces, and objects that touch
            sample["labels"] = sample["labels"] * random.integers(1, 4, sample["labels"].shape)
        found = values_of(cal.evaluate_maps(samples, protocol, labels="instances", ci=False))
        for name, value in expected(cases_of(samples), settings, 0.5).items():
            assert found[name] == pytest.approx(value, abs=1e-9, nan_ok=True), (seed, name)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("seeds", batches(20, default=8))
def test_the_objects_equal_those_of_the_twin(choice: dict[str, Any], seeds: range) -> None:
    settings = slow.Settings(**choice)
    for seed in seeds:
        samples = random_samples(seed)
        cases = cases_of(samples)
        cohort = cal.evaluate_maps(samples, with_maps(**choice), ci=False).cohort
        threshold = slow.threshold_of(cases, settings.threshold)
        said, there = cohort.models["model"], cohort.references
        for k, case in enumerate(cases):
            for table, wanted in (
                (there, slow.references(case, settings)),
                (said, slow.predictions(case, settings, threshold)),
            ):
                rows = range(table.offsets[k], table.offsets[k + 1])
                assert len(rows) == len(wanted)
                for row, mask in zip(rows, wanted):
                    assert table.masks is not None
                    assert (table.masks.dense(row) == mask).all()
                    place = np.argwhere(mask)[:, ::-1] + 0.5
                    weight = (
                        np.ones(len(place)) if table is there else case.scores[mask].astype(float)
                    )
                    np.testing.assert_allclose(
                        table.points[row], weight @ place / weight.sum(), atol=1e-6
                    )
                    if table is said:
                        assert said.score[row] == pytest.approx(
                            slow.score(case, mask, settings), abs=1e-7
                        )


def test_metrics_on_objects_are_those_of_a_cohort_with_the_same_masks() -> None:
    protocol = cal.Protocol.load("anomaly")
    names = (
        "F1@0.5",
        "F1@0.01",
        "F1@centre",
        "IoU/instance",
        "PQ@0.5",
        "sensitivity@0.01",
        "FP/image",
    )
    for seed in range(10):
        samples = random_samples(seed, dimensions=2 + seed % 2)
        evaluation = cal.evaluate_maps(samples, protocol, ci=False)
        references, predictions = [], []
        for sample in samples:
            case, d = slow.Case(sample["maps"]["model"], sample["labels"]), sample["labels"].ndim
            there, said = (
                slow.references(case, slow.Settings()),
                slow.predictions(case, slow.Settings(), 0.5),
            )
            sides = dict(zip(("width", "height", "depth"), sample["labels"].shape[::-1]))
            empty = np.zeros((0, *sample["labels"].shape), bool)
            middle = [
                np.average(np.argwhere(m)[:, ::-1] + 0.5, axis=0, weights=case.scores[m])
                for m in said
            ]
            references.append(
                {"masks": np.array(there) if there else empty, "labels": [0] * len(there), **sides}
            )
            predictions.append(
                {
                    "masks": np.array(said) if said else empty,
                    "labels": [0] * len(said),
                    "scores": [float(case.scores[m].max()) for m in said],
                    "points": np.array(middle).reshape(-1, d),
                }
            )
        cohort = cal.Cohort.from_arrays(references, predictions, classes=("lesion",))
        plans = tuple(plan for plan in protocol.metrics if plan.name in names)
        twin = cal.evaluate(cohort, replace(protocol, metrics=plans, headline=names[:1]), ci=False)
        for name in names:
            assert float(evaluation[name]) == pytest.approx(
                float(twin[name]), abs=1e-12, nan_ok=True
            ), (seed, name)


@pytest.mark.parametrize("seeds", batches(100, default=30))
def test_parity_with_scikit_learn_at_the_level_of_the_data_set(seeds: range) -> None:
    """100 sets, to 1e-12, with ties and without, both precisions."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    protocol = map_protocol({f"{q}/dataset": {"kind": KINDS[q]} for q in ("AP", "AUROC")})
    for seed in seeds:
        samples = random_samples(seed, steps=(0, 4, 64)[seed % 3], side=20)
        found = values_of(cal.evaluate_maps(samples, protocol, ci=False))
        truth = np.concatenate([sample["labels"].ravel() for sample in samples])
        scores = np.concatenate(
            [sample["maps"]["model"].ravel().astype(float) for sample in samples]
        )
        assert found["AP/dataset"] == pytest.approx(
            average_precision_score(truth, scores), abs=1e-12
        )
        assert found["AUROC/dataset"] == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)


def streamed(monkeypatch: pytest.MonkeyPatch, most_entries: int = 20_000_000) -> None:
    """Let nothing fit into memory."""
    monkeypatch.setattr("calipers.maps.examine.MOST_BYTES", 0)
    monkeypatch.setattr("calipers.maps.examine.MOST_ENTRIES", most_entries)


def test_streamed_values_are_exact_where_bins_hold_one_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    protocol = map_protocol(ALL, batch=2)
    for seed in range(20):
        samples = random_samples(seed)
        kept = values_of(cal.evaluate_maps(samples, protocol, ci=False))
        with monkeypatch.context() as small:
            streamed(small)
            evaluation = cal.evaluate_maps(samples, protocol, ci=False)
        assert values_of(evaluation) == pytest.approx(kept, abs=1e-8, nan_ok=True)
        assert not any("bins" in warning for warning in evaluation.warnings)


@pytest.mark.parametrize(("most_entries", "near"), [(20_000_000, 5e-3), (2000, 0.05)])
def test_streamed_values_stay_within_the_bound_that_is_told(
    monkeypatch: pytest.MonkeyPatch, most_entries: int, near: float
) -> None:
    names = [name for name, options in ALL.items() if options.get("level") == "dataset"]
    protocol = map_protocol({name: ALL[name] for name in names})
    for seed in range(10):
        samples = random_samples(seed, 8, steps=0, side=60, dimensions=2)
        kept = values_of(cal.evaluate_maps(samples, protocol, ci=False))
        with monkeypatch.context() as small:
            streamed(small, most_entries)
            evaluation = cal.evaluate_maps(samples, protocol, ci=False)
        for name in ("AP/dataset", "AUROC/dataset"):
            (told,) = [
                warning
                for warning in evaluation.warnings
                if warning.startswith(f"{name} of model is counted")
            ]
            low, high = (
                float(text) for text in told.partition("lies in [")[2].partition("]")[0].split(", ")
            )
            for value in (kept[name], float(evaluation[name])):
                assert low - 1e-6 <= value <= high + 1e-6, (seed, name)
        for name in names:
            assert float(evaluation[name]) == pytest.approx(kept[name], abs=near), (seed, name)


@pytest.mark.parametrize("jobs", [2, 3])
def test_the_number_of_threads_changes_no_bit(jobs: int) -> None:
    samples = random_samples(3, 9, steps=0, models=("a", "b"), side=30)
    one = cal.evaluate_maps(samples, with_maps(threshold="fpr:0.1"), by="centre")
    more = cal.evaluate_maps(samples, with_maps(threshold="fpr:0.1"), by="centre", jobs=jobs)
    assert [row.as_dict() for row in more.rows] == [row.as_dict() for row in one.rows]
    assert more.warnings == one.warnings


def test_blocks_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = random_samples(4, 7, steps=0)
    one = [row.as_dict() for row in cal.evaluate_maps(samples, ci=False).rows]
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 3)
    for jobs in (1, 2):
        assert [
            row.as_dict() for row in cal.evaluate_maps(samples, ci=False, jobs=jobs).rows
        ] == one


def test_an_iterator_a_list_and_samples_give_the_same() -> None:
    samples = random_samples(5, 6, steps=0)
    expected_rows = [row.as_dict() for row in cal.evaluate_maps(samples).rows]
    as_samples = [
        Sample(
            s["name"],
            s["labels"],
            s["maps"],
            groups={"patient": s["patient"], "centre": s["centre"]},
        )
        for s in samples
    ]
    for given in (
        iter(samples),
        (sample for sample in samples),
        tuple(samples),
        as_samples,
        iter(as_samples),
    ):
        for jobs in (1, 2):
            if jobs == 2 and not isinstance(given, list | tuple):
                continue
            assert [
                row.as_dict() for row in cal.evaluate_maps(given, jobs=jobs).rows
            ] == expected_rows


def test_pairs_are_samples_of_one_model() -> None:
    samples = random_samples(6, 4)
    pairs = [(sample["maps"]["model"], sample["labels"]) for sample in samples]
    found = cal.evaluate_maps(pairs, ci=False)
    assert found.models == ("model",)
    assert found.cohort.images.ids == ("0", "1", "2", "3")
    assert values_of(found) == pytest.approx(
        values_of(cal.evaluate_maps(samples, ci=False)), nan_ok=True
    )


def test_the_order_of_samples_does_not_matter() -> None:
    for seed in range(10):
        samples = random_samples(seed, steps=0)
        one, other = (
            values_of(cal.evaluate_maps(given, ci=False)) for given in (samples, samples[::-1])
        )
        assert other == pytest.approx(one, abs=1e-12, nan_ok=True)


def changed(
    samples: list[dict[str, Any]], change: Callable[[np.ndarray], np.ndarray]
) -> list[dict[str, Any]]:
    return [
        {
            **sample,
            "labels": np.ascontiguousarray(change(sample["labels"])),
            "maps": {model: change(scores) for model, scores in sample["maps"].items()},
        }
        for sample in samples
    ]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_flips_do_not_matter(dimensions: int) -> None:
    for seed in range(6):
        samples = random_samples(seed, steps=0, dimensions=dimensions, constant=False)
        one = values_of(cal.evaluate_maps(samples, ci=False))
        for axis in range(dimensions):
            flipped = changed(samples, lambda array, axis=axis: np.flip(array, axis))
            assert values_of(cal.evaluate_maps(flipped, ci=False)) == pytest.approx(
                one, abs=1e-9, nan_ok=True
            )


def test_the_order_of_axes_does_not_matter() -> None:
    for seed in range(6):
        plane, volume = (
            random_samples(seed, steps=0, dimensions=d, constant=False) for d in (2, 3)
        )
        one = values_of(cal.evaluate_maps(plane, ci=False))
        turned = changed(plane, lambda array: array.T)
        assert values_of(cal.evaluate_maps(turned, ci=False)) == pytest.approx(
            one, abs=1e-9, nan_ok=True
        )
        one = values_of(cal.evaluate_maps(volume, with_maps(slices="z"), ci=False))
        for axes, slices in (((1, 0, 2), "y"), ((2, 1, 0), "x"), ((1, 2, 0), "x")):
            turned = changed(volume, lambda array, axes=axes: np.transpose(array, axes))
            found = values_of(cal.evaluate_maps(turned, with_maps(slices=slices), ci=False))
            assert found == pytest.approx(one, abs=1e-9, nan_ok=True), axes


def test_spacing_moves_distances_in_mm_and_nothing_else() -> None:
    samples = random_samples(3, 6, dimensions=3, steps=0)
    wide = [{**sample, "spacing": (0.5, 1.0, 4.0)} for sample in samples]
    assert values_of(cal.evaluate_maps(wide, ci=False)) == values_of(
        cal.evaluate_maps(samples, ci=False)
    )
    labels, scores = np.zeros((4, 4, 8), np.uint8), np.zeros((4, 4, 8))
    labels[0, 1, 1], scores[2, 1, 2] = 1, 1.0  # one step along x, two along z
    protocol = map_protocol(
        {
            "distance": {
                "kind": "centre-distance",
                "criterion": "centre-distance-mm",
                "thresholds": 50.0,
            }
        }
    )
    for spacing, distance in (((1, 1, 1), math.sqrt(5)), ((3, 1, 2), 5.0)):
        sample = {"labels": labels, "map": scores, "spacing": spacing}
        assert float(cal.evaluate_maps([sample], protocol, ci=False)["distance"]) == pytest.approx(
            distance
        )


def test_models_do_not_see_each_other() -> None:
    samples = random_samples(8, 6, models=("a", "b"), steps=0)
    together = cal.evaluate_maps(samples, with_maps(threshold="fpr:0.1"))
    for model in ("a", "b"):
        alone = [{**sample, "maps": {model: sample["maps"][model]}} for sample in samples]
        found = cal.evaluate_maps(alone, with_maps(threshold="fpr:0.1"))
        assert [row.as_dict() for row in together.rows if row.model == model] == [
            row.as_dict() for row in found.rows
        ]


def test_groups_are_the_samples_of_the_group() -> None:
    samples = random_samples(9, 10)
    together = cal.evaluate_maps(
        samples, map_protocol({k: v for k, v in ALL.items() if "batch" not in k}), by="centre"
    )
    for centre in ("north", "south"):
        alone = [sample for sample in samples if sample["centre"] == centre]
        found = values_of(cal.evaluate_maps(alone, together.protocol, ci=False))
        rows = {
            row.metric: row.estimate.value
            for row in together.rows
            if row.group == {"centre": centre}
        }
        assert rows == pytest.approx(found, abs=1e-8, nan_ok=True)


def test_groups_of_any_scores_are_as_near_as_bins_allow() -> None:
    samples = random_samples(9, 10, steps=0, side=40)
    together = cal.evaluate_maps(samples, ci=False, by="centre")
    alone = [sample for sample in samples if sample["centre"] == "north"]
    found = values_of(cal.evaluate_maps(alone, ci=False))
    rows = {
        row.metric: row.estimate.value for row in together.rows if row.group == {"centre": "north"}
    }
    assert rows == pytest.approx(found, abs=5e-3, nan_ok=True)


def test_parts_join_to_the_whole() -> None:
    samples = random_samples(10, 8)
    protocol = map_protocol({name: o for name, o in ALL.items() if "batch" not in name})
    whole = cal.evaluate_maps(samples, protocol, ci=False)
    parts = [
        cal.evaluate_maps(part, protocol, ci=False).cohort
        for part in (samples[:3], samples[3:4], samples[4:])
    ]
    joined = cal.evaluate(cal.Cohort.concat(parts), protocol, ci=False)
    assert values_of(joined) == pytest.approx(values_of(whole), abs=1e-8, nan_ok=True)


def test_a_sample_given_twice_weighs_twice() -> None:
    samples = random_samples(11, 6)
    twice = [*samples, {**samples[0], "name": "again"}, {**samples[0], "name": "and again"}]
    protocol = map_protocol({name: o for name, o in ALL.items() if "batch" not in name})
    once, more = (cal.evaluate_maps(given, protocol, ci=False) for given in (samples, twice))
    weights = np.array([[3, 1, 1, 1, 1, 1]])
    for metric in protocol.compile():
        evidence = once.evidence["model", metric.recipe.key]
        for name, value in zip(metric.facts.names, metric.value(evidence, weights)[0, 0]):
            assert value == pytest.approx(float(more[name]), abs=1e-8, nan_ok=True), name


def test_models_are_compared_and_ranked() -> None:
    random = np.random.default_rng(0)
    samples = []
    for k in range(12):
        labels = np.zeros((16, 16), np.uint8)
        labels[4:9, 3 + k % 4 : 9] = 1
        noise = random.random(labels.shape)
        maps = {
            "good": np.clip(0.8 * labels + 0.2 * noise, 0, 1),
            "poor": np.clip(0.2 * labels + 0.8 * noise, 0, 1),
        }
        samples.append({"name": str(k), "labels": labels, "maps": maps})
    evaluation = cal.evaluate_maps(samples)
    comparison = evaluation.compare("good", "poor", metrics=["all"])
    found = {row.metric: row for row in comparison.rows}
    for name in ("softIoU", "AP/dataset", "AP/sample", "AUPRO", "Dice", "F1@0.5"):
        difference = float(evaluation["good", name]) - float(evaluation["poor", name])
        assert found[name].estimate.value == pytest.approx(difference)
        # Where the difference is the same in all samples there is no interval, but a test.
        if found[name].estimate.reason == "constant_input":
            assert found[name].p < 0.05
        else:
            assert found[name].estimate.low > 0
    assert [place.model for place in evaluation.rank("softIoU").places] == ["good", "poor"]
