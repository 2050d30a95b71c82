"""The multiverse: equal to one evaluation per configuration,
and what it says is what the numbers say.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.evaluation.protocol import Protocol
from calipers.sensitivity import multiverse as grids
from calipers.sensitivity.multiverse import FAMILIES
from cases import DATA, cohort_of, masked
from sensitivity_cases import multiverse_of

SMALL = {
    "metric": ["AP", "F1", "accuracy", "RoDeO"],
    "criterion": ["box-iou", "any-overlap"],
    "threshold": [0.3, 0.5],
    "assignment": ["by-score", "optimal"],
    "average": ["classes"],
    "interpolation": ["voc11"],
    "classes": ["within", "ignore"],
    "score_cut": ["none", 0.5],
    "summary": ["harmonic", "minimum"],
}


def protocol_by_hand(one) -> Protocol:
    """Write the protocol of a configuration as a user would."""
    kind, own, _ = FAMILIES[one["metric"]]
    lines = ['schema = "calipers.protocol/1"', 'name = "one"', 'source = "test"', "[matching]"]
    lines += [
        f'{key} = "{one[key]}"' for key in ("criterion", "classes", "assignment") if key in one
    ]
    lines += [f"thresholds = {one['threshold']}"] if "threshold" in one else []
    lines += [f"score_cut = {one['score_cut']}"] if one.get("score_cut", "none") != "none" else []
    if one.get("least_area"):
        lines += ["[sizes]", f"large = [{one['least_area']}, inf]"]
    lines += ["[[metric]]", 'name = "m"', f'kind = "{kind}"']
    lines += [
        f"{key} = {list(value) if isinstance(value, tuple) else repr(value)}"
        for key, value in own.items()
    ]
    lines += [
        f'{key} = "{one[key]}"' for key in ("average", "interpolation", "summary") if key in one
    ]
    lines += ['size = "large"'] if one.get("least_area") else []
    return Protocol.from_toml("\n".join(lines))


def check_by_hand(cohort, found, most: int = 40) -> None:
    chosen = np.random.default_rng(0).permutation(len(found.each))[:most]
    for k in chosen.tolist():
        evaluation = cal.evaluate(cohort, protocol_by_hand(found.each[k]), ci=False)
        alone = np.array([evaluation[model, "m"].value for model in found.models])
        assert found.values[k].tolist() == alone.round(12).tolist(), found.each[k]


@pytest.mark.parametrize(
    "kind", ["plain", "tied scores", "crowds", "ignored", "one class", "volumes"]
)
def test_every_configuration_has_the_values_of_an_evaluation_of_its_own(kind):
    cohort = cohort_of(kind, seed=5, models=3)
    found = cal.multiverse(cohort, SMALL)
    check_by_hand(cohort, found)
    assert found.n_undefined + len(found.each) == len(
        grids.configurations(SMALL, n_classes=len(cohort.classes))
    )


def test_masks_are_compared_as_masks_in_the_default_grid():
    cohort = masked(cohort_of("plain", seed=3, models=2, n_images=8))
    found = cal.multiverse(cohort, {"metric": ["F1"], "assignment": ["by-score"]})
    assert {one["criterion"] for one in found.each} >= {"mask-iou", "point-in-mask"}
    check_by_hand(cohort, found, most=20)


def test_small_objects_can_be_left_out():
    cohort = cohort_of("plain", seed=4, models=2)
    middle = float(np.median(cohort.references.area))
    found = cal.multiverse(
        cohort, {"metric": ["sensitivity"], "criterion": ["box-iou"], "least_area": [0, middle]}
    )
    check_by_hand(cohort, found, most=20)
    assert not np.array_equal(
        *(found.values[[one["least_area"] == a for one in found.each]] for a in (0, middle))
    )


def test_the_same_call_gives_the_same_bits_on_any_number_of_threads():
    cohort = cohort_of("plain", seed=2, models=3)
    one, two = (
        cal.multiverse(cohort, SMALL, replicates=20, seed=7, jobs=jobs).as_dict() for jobs in (1, 2)
    )
    assert one == two


def test_configurations_without_a_value_for_some_model_are_left_out_and_counted():
    cohort = cohort_of("plain", seed=2, models=2)
    none = cohort.models["model-2"].keep(np.zeros(len(cohort.models["model-2"]), bool))
    found = cal.multiverse(
        replace(cohort, models={**cohort.models, "model-2": none}),
        {**SMALL, "metric": ["PPV", "F1"]},
    )
    assert {one["metric"] for one in found.each} == {"F1"}
    assert found.n_undefined == len(grids.configurations({**SMALL, "metric": ["PPV"]}))
    assert found.as_dict()["configurations"]["undefined"] == found.n_undefined
    with pytest.raises(UsageError, match="no configuration has a value for every model"):
        cal.multiverse(
            replace(cohort, models={**cohort.models, "model-2": none}), {**SMALL, "metric": ["PPV"]}
        )


def test_one_model_is_no_multiverse():
    with pytest.raises(UsageError, match="give predictions of two or more"):
        cal.multiverse(cohort_of("plain", seed=1))


def test_the_base_is_the_first_value_of_everything_unless_told():
    cohort = cohort_of("plain", seed=2, models=2)
    found = cal.multiverse(cohort, SMALL)
    assert found.each[found.base]["metric"] == "AP"
    assert found.each[found.base]["threshold"] == 0.5  # which is not the first, but the usual one
    other = cal.multiverse(
        cohort, SMALL, base={"metric": "F1", "assignment": "optimal", "threshold": 0.3}
    )
    assert {"metric": "F1", "assignment": "optimal", "threshold": 0.3}.items() <= other.each[
        other.base
    ].items()


@pytest.mark.parametrize(
    ("base", "told"),
    [
        ({"metric": "F2"}, "metric = 'F2', which is not in the grid: AP, F1"),
        ({"metrics": "F1"}, "did you mean 'metric'"),
        ({"metric": "AP", "assignment": "optimal"}, "has no effect beside the others"),
    ],
)
def test_a_base_that_the_grid_does_not_have_is_refused(base, told):
    with pytest.raises(UsageError, match=told):
        cal.multiverse(cohort_of("plain", seed=2, models=2), SMALL, base=base)


def test_a_choice_that_changes_predictions_is_made_before_the_evaluation(monkeypatch):
    def best(cohort, n):
        kept = {name: table.keep(table.score >= n) for name, table in cohort.models.items()}
        return replace(cohort, models=kept)

    monkeypatch.setitem(grids.PREPARED, "keep_from", best)
    cohort, grid = (
        cohort_of("plain", seed=2, models=2),
        {**SMALL, "score_cut": ["none"], "metric": ["F1", "RoDeO"]},
    )
    found = cal.multiverse(cohort, {**grid, "keep_from": [0.0, 0.5]}, replicates=5)
    cut = cal.multiverse(cohort, {**grid, "score_cut": ["none", 0.5]}, replicates=5)
    assert len(found.each) == len(cut.each)
    for one, values in zip(found.each, found.values):
        told = {"none": 0.0}
        (k,) = [
            k
            for k, other in enumerate(cut.each)
            if told.get(other["score_cut"], other["score_cut"]) == one["keep_from"]
            and {**other, "score_cut": 0, "keep_from": 0} == {**one, "score_cut": 0, "keep_from": 0}
        ]
        assert values.tolist() == cut.values[k].tolist()


def test_winner_wins_ties_and_levels_of_a_hand_example():
    each = [{"metric": m, "threshold": t} for m in ("AP", "F1") for t in (0.3, 0.5)]
    found = multiverse_of([[3, 2, 1], [3, 3, 1], [1, 2, 3], [1, 2, 3]], each)
    assert found.winner == "a"
    assert found.wins == {"a": 0.375, "b": 0.125, "c": 0.5}
    assert found.levels[0] == ("metric", "AP", 2, {"a": 0.75, "b": 0.25, "c": 0.0})
    assert [n for _, _, n, _ in found.levels] == [2, 2, 2, 2]
    assert found.best_two == ("a", "b")
    assert found.explained["metric"] > 0.9
    assert str(found.flip) == "with metric F1 instead of AP, b (2) is ahead of a (1.000)"
    first, *_ = found.sentences()
    assert (
        first == "a has the best value under the base configuration (AP, 0.3), and in 38 % of 4 "
        "configurations."
    )


def test_choices_that_change_no_share_are_silent():
    each = [{"metric": m, "threshold": t} for m in ("AP", "F1") for t in (0.3, 0.5)]
    found = multiverse_of([[2, 1], [2, 1], [1, 2], [1, 2]], each)
    assert found.silent == ["threshold"]


def test_if_the_order_never_turns_the_sentences_say_so():
    each = [{"metric": "AP", "threshold": t} for t in (0.3, 0.5)]
    assert (
        "The two best models never change places."
        in multiverse_of([[2, 1], [2, 1]], each).sentences()
    )
    assert (
        "The two best models are tied under the base configuration."
        in multiverse_of([[1, 1], [2, 1]], each).sentences()
    )


def test_models_that_are_always_tied_have_no_winner_and_no_agreement():
    """The first model had the best value, and agreement was nan, without a reason."""
    empty = {"boxes": np.zeros((0, 4)), "labels": [], "scores": []}
    references = [{"boxes": [[0, 0, 10, 10 + k]], "labels": [0]} for k in range(6)]
    models = {name: [empty] * 6 for name in "abc"}
    cohort = cal.Cohort.from_arrays(references, models, classes=("n",), box_format="xyxy")
    grid = {"metric": ["AP"], "threshold": [0.3, 0.5]}
    sentences = cal.multiverse(cohort, grid).sentences()
    assert sentences[0].startswith("a, b and c share the best value under the base")
    assert any("is undefined: all models are tied in every one" in text for text in sentences)
    assert not any("nan" in text for text in sentences)


def test_a_flip_of_an_unknown_model_names_the_nearest():
    found = multiverse_of([[2, 1], [1, 2]], [{"metric": "AP"}, {"metric": "F1"}])
    assert found.flip_of("b", "a").better == "a"
    with pytest.raises(UsageError, match="no model 'x'"):
        found.flip_of("a", "x")


def test_the_document_has_the_counts_and_every_row():
    found = cal.multiverse(cohort_of("plain", seed=2, models=2), SMALL)
    document = found.as_dict()
    counts = document["configurations"]
    assert counts["evaluated"] + counts["undefined"] == counts["different"] <= counts["possible"]
    assert len(document["rows"]) == 2 * len(found.each)
    assert sum(document["wins"].values()) == pytest.approx(1)
    assert document["robustness"] is None


def test_a_grid_can_be_a_file(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(
        'schema = "calipers.grid/1"\n[grid]\nmetric = ["AP", "F1"]\ncriterion = ["iop"]\n'
        'score_cut = ["none", 0.5]\n'
        '[base]\nmetric = "F1"\n'
    )
    cohort = cohort_of("plain", seed=2, models=2)
    found = cal.multiverse(cohort, file)
    grid = {"metric": ["AP", "F1"], "criterion": ["iop"], "score_cut": ["none", 0.5]}
    assert found.as_dict() == cal.multiverse(cohort, grid, base={"metric": "F1"}).as_dict()
    assert cal.multiverse(cohort, str(file), base={}).each[0]["metric"] == "AP"


@pytest.mark.parametrize(
    ("text", "rule", "told"),
    [
        ("[grid", "toml-syntax", "valid TOML"),
        ("[grid]\nmetric = ['AP']", "schema", "calipers.grid/1"),
        ("schema = 'calipers.grid/1'\nmetric = ['AP']", "unknown-key", "under \\[grid\\]"),
        ("schema = 'calipers.grid/1'\n[grids]", "unknown-key", "did you mean 'grid'"),
        ("schema = 'calipers.grid/1'\ngrid = 3", "type", "a table"),
        ("schema = 'calipers.grid/1'\n[grid]\nmetric = ['APP']", "grid", "did you mean 'AP'"),
    ],
)
def test_a_broken_file_is_told_with_its_place(tmp_path, text, rule, told):
    file = tmp_path / "grid.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=told) as caught:
        cal.multiverse(cohort_of("plain", seed=2, models=2), file)
    assert caught.value.rule == rule
    assert str(file) in str(caught.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InputError, match="a TOML file"):
        cal.multiverse(cohort_of("plain", seed=2, models=2), tmp_path / "none.toml")


def test_the_demo_surprises():
    """What is best by AP wins a third of the configurations;
    who mislabels wins all of them that ignore classes.
    """
    found = cal.multiverse(cal.demo_cohort())
    assert (len(found.each), found.winner) == (479, "overpredicts")
    assert found.wins["overpredicts"] < found.wins["mislabels"]
    assert {
        level: wins["mislabels"] for choice, level, _, wins in found.levels if choice == "classes"
    } == {
        "within": 0.0,
        "ignore": 1.0,
    }


@pytest.mark.slow
def test_five_hundred_configurations_on_chestxray8_take_seconds():
    import time

    file = DATA / "chestxray8" / "BBox_List_2017.csv"
    if not file.is_file():
        pytest.skip("without the list of ChestX-ray8")
    cohort = cal.read(file, format="nih")
    for k, noise in enumerate((0.1, 0.3, 0.5, 0.7)):
        cohort = cal.corrupt(
            cohort, [f"position-noise(sigma={noise})"], seed=k, name=f"noise {noise}"
        )
    began = time.process_time()
    found = cal.multiverse(cohort)
    assert time.process_time() - began < 20
    assert found.winner == "noise 0.1"
