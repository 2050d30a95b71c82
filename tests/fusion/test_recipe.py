"""Recipes: the built-in ones, what their steps do to a cohort, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.fusion.fuse import carry_out
from calipers.fusion.recipe import OPTIONS, FusionRecipe, StepTable, recipes

HEAD = 'schema = "calipers.recipe/1"\nname = "own"\n'
EMPTY: dict[str, Any] = {"boxes": np.zeros((0, 4)), "labels": []}


def cohort(models: dict[str, list[dict[str, Any]]], score_scale: str = "unit") -> cal.Cohort:
    n = len(next(iter(models.values())))
    return cal.Cohort.from_arrays([EMPTY] * n, models, classes=("a", "b"), score_scale=score_scale)


def predictions(
    boxes: list[list[float]], scores: list[float], labels: list[int] | None = None
) -> dict[str, Any]:
    return {"boxes": boxes, "scores": scores, "labels": labels or [0] * len(scores)}


def recipe(text: str) -> FusionRecipe:
    return FusionRecipe.from_toml(HEAD + text)


def test_steps_in_words() -> None:
    text = """
        [[step]]
        kind = "calibrate"
        [[step]]
        kind = "calibrate"
        method = "none"
        [[step]]
        kind = "soft-nms"
        method = "linear"
        [[step]]
        kind = "soft-nms"
        skip_threshold = 0.0
        pool = true
        [[step]]
        kind = "weighted-boxes-fusion"
        skip_threshold = 0.02
        [[step]]
        kind = "non-maximum-weighted"
        [[step]]
        kind = "nms"
        [[step]]
        kind = "resize"
        factor = 0.98
        [[step]]
        kind = "top-k"
        k = 20
        [[step]]
        kind = "score-cut"
        least = 0.3
    """
    assert str(recipe('[[step]]\nkind = "top-k"\nk = 1').steps[0]) == "the best box of every image"
    assert list(map(str, recipe(text).steps)) == [
        "isotonic calibration of scores, hits at an IoU of 0.5",
        "no calibration",
        "soft-NMS, linear at an IoU above 0.5, without scores below 0.001",
        "soft-NMS, gaussian with sigma 0.5, all members together",
        "weighted boxes fusion at an IoU above 0.5, without scores below 0.02, confidence avg",
        "non-maximum weighted at an IoU above 0.5",
        "NMS at an IoU above 0.5",
        "sides times 0.98 where the score is above 0.0",
        "the 20 best boxes of every image",
        "scores of 0.3 or more",
    ]


def test_the_built_in_recipes_run() -> None:
    demo = cal.demo_cohort()
    assert recipes() == ("endocv2022", "nms", "nmw", "soft-nms", "wbf")
    for name in recipes():
        fused = cal.fuse(demo, name)
        assert list(fused.models) == [*demo.models, name]
        assert 0 < len(fused.models[name]) <= sum(map(len, demo.models.values()))
        assert FusionRecipe.load(name).source


def test_endocv2022_is_the_recipe_of_the_challenge_on_every_image() -> None:
    """Suppression in each member, fusion of what is left, and sure boxes 2 % smaller."""
    demo = cal.demo_cohort()
    ensemble = cal.fuse(demo).models["endocv2022"]
    for image in range(demo.n_images):
        lists: list[list[Any]] = [[], [], []]
        for model in demo.models.values():
            own = model.take(np.array([image]))
            alone = cal.nms([own.boxes], [own.score], [own.label])
            for column, arrays in zip(lists, alone):
                column.append(arrays)
        boxes, scores, labels = cal.weighted_boxes_fusion(*lists, skip_threshold=0.02)
        sure = scores > 0.4
        centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
        half[sure] *= 0.98
        answer = ensemble.take(np.array([image]))
        np.testing.assert_array_equal(answer.score, scores)
        np.testing.assert_array_equal(answer.label, labels)
        expected = np.concatenate([centre - half, centre + half], axis=1)
        np.testing.assert_allclose(answer.boxes, expected, rtol=1e-12)
    assert (ensemble.score > 0.4).any()
    assert (ensemble.score <= 0.4).any()


def test_images_do_not_meet_and_their_order_does_not_matter() -> None:
    demo = cal.demo_cohort()
    order = np.random.default_rng(0).permutation(demo.n_images)
    shuffled = cal.fuse(demo.take(order)).models["endocv2022"]
    straight = cal.fuse(demo).models["endocv2022"].take(order)
    np.testing.assert_array_equal(shuffled.boxes, straight.boxes)
    np.testing.assert_array_equal(shuffled.score, straight.score)


def test_steps_by_hand() -> None:
    own = cohort({"m": [predictions([[0, 0, 10, 10], [20, 0, 30, 10]], [0.9, 0.2])]})
    cut = carry_out(own, recipe('[[step]]\nkind = "score-cut"\nleast = 0.3')).predictions
    assert cut.score.tolist() == [0.9]
    best = carry_out(own, recipe('[[step]]\nkind = "top-k"\nk = 1')).predictions
    assert best.score.tolist() == [0.9]
    half = recipe('[[step]]\nkind = "resize"\nfactor = 0.5\nscore_above = 0.3')
    resized = carry_out(own, half).predictions
    assert resized.boxes.tolist() == [[2.5, 2.5, 7.5, 7.5], [20, 0, 30, 10]]
    assert resized.extent.tolist() == [25, 100]


def test_weights_and_members_of_a_recipe() -> None:
    box = [[0.0, 0.0, 10.0, 10.0]]
    one = {"boxes": box, "labels": [0]}
    own = cohort(
        {name: [{**one, "scores": [score]}] for name, score in (("x", 0.8), ("y", 0.4), ("z", 0.1))}
    )
    plan = recipe(
        'members = ["x", "y"]\n[weights]\ny = 3\n[[step]]\nkind = "weighted-boxes-fusion"'
    )
    fusion = carry_out(own, plan)
    assert [member.model for member in fusion.members] == ["x", "y"]
    np.testing.assert_allclose(fusion.predictions.score, [(0.8 + 3 * 0.4) / 4])
    assert fusion.counts[0].boxes == 2


def test_suppression_alone_keeps_masks_and_columns() -> None:
    mask = np.zeros((1, 8, 8), np.uint8)
    mask[0, 2:5, 2:6] = 1
    masked = {"masks": mask, "labels": [0], "scores": [0.9]}
    references = [{"masks": mask, "labels": [0], "width": 8, "height": 8}]
    own = cal.Cohort.from_arrays(references, {"x": [masked], "y": [masked]}, classes=("a",))
    kept = cal.fuse(own, "nms").models["nms"]
    assert len(kept) == 1
    assert kept.masks is not None
    assert kept.masks.voxels.tolist() == [12]
    assert carry_out(own, FusionRecipe.load("nms")).notes == ()
    fused = carry_out(own, FusionRecipe.load("wbf"))
    assert fused.predictions.boxes.tolist() == [[2, 2, 6, 5]]
    assert fused.notes[0].startswith("masks of all members are not fused, only their boxes")
    silent = {"masks": np.zeros((0, 8, 8), np.uint8), "labels": [], "scores": []}
    own = cal.Cohort.from_arrays(references, {"x": [masked], "y": [silent]}, classes=("a",))
    notes = carry_out(own, FusionRecipe.load("wbf"), ["y"]).notes
    assert not any("masks" in note for note in notes)


def test_volumes_are_fused_too() -> None:
    box = [0.0, 0, 0, 10, 10, 10]
    nothing = {"boxes": np.zeros((0, 6)), "labels": []}
    models = {name: [predictions([box], [score])] for name, score in (("x", 0.8), ("y", 0.6))}
    own = cal.Cohort.from_arrays([nothing], models, classes=("a",))
    answer = cal.fuse(own, "wbf").models["wbf"]
    np.testing.assert_allclose(answer.boxes, [box])
    np.testing.assert_allclose(answer.score, [0.7])


def test_empty_members_are_counted_and_lower_the_score() -> None:
    own = cohort({"x": [predictions([[0, 0, 9, 9]], [0.8])], "y": [predictions([], [])]})
    fusion = carry_out(own, FusionRecipe.load("wbf"))
    assert fusion.notes == ("'y' has no boxes: it counts as a model that found nothing",)
    assert fusion.predictions.score.tolist() == [0.4]
    silent = cohort({"x": [predictions([], [])], "y": [predictions([], [])]})
    assert len(carry_out(silent, FusionRecipe.load("endocv2022")).predictions) == 0


def test_scores_outside_the_unit_interval_are_refused() -> None:
    own = cohort({"x": [predictions([[0, 0, 9, 9]], [3.5])]}, score_scale="raw")
    with pytest.raises(cal.InputError, match=r"predictions of 'x'.*\[0, 1\].*got 3.5"):
        cal.fuse(own)
    percent = cohort({"x": [predictions([[0, 0, 9, 9]], [88.0])]}, score_scale="raw")
    with pytest.raises(cal.InputError, match=r"(?s)percentages, divide them by 100"):
        cal.fuse(percent)


def test_members_with_nothing_in_common_are_refused() -> None:
    box, nothing = [[0.0, 0, 9, 9]], predictions([], [])
    apart = cohort(
        {"x": [predictions(box, [0.8]), nothing], "y": [nothing, predictions(box, [0.8])]}
    )
    with pytest.raises(cal.InputError, match=r"same images.*different-images"):
        cal.fuse(apart)
    labels = cohort({"x": [predictions(box, [0.8], [0])], "y": [predictions(box, [0.8], [1])]})
    with pytest.raises(cal.InputError, match=r"classes.*another class.*different-classes"):
        cal.fuse(labels)


def test_members_that_alone_know_their_classes_are_joined() -> None:
    """One detector per class: none of them meets another, not even on one image."""
    one, other, nothing = [[0.0, 0, 9, 9]], [[20.0, 20, 40, 40]], predictions([], [])
    experts = {
        "x": [predictions(one, [0.8], [0]), predictions(one, [0.7], [0]), nothing],
        "y": [predictions(other, [0.6], [1]), nothing, nothing],
        "z": [nothing, nothing, predictions(one, [0.9], [1])],
    }
    for second in ("y", "z"):
        pair = cohort({name: experts[name] for name in ("x", second)})
        fusion = carry_out(pair, FusionRecipe.load("wbf"))
        assert len(fusion.predictions) == 3
        assert "only 'x' has boxes of 1 class: a" in fusion.notes
    with pytest.raises(cal.InputError, match="different-images"):
        carry_out(cohort(experts), FusionRecipe.load("wbf"))


def test_members_that_hardly_overlap_are_noted() -> None:
    box, nothing = [[0.0, 0, 9, 9]], predictions([], [])
    one = predictions(box, [0.8])
    few = cohort({"x": [one, one, one], "y": [one, nothing, nothing]})
    assert carry_out(few, FusionRecipe.load("wbf")).notes == (
        "'y' has boxes on 1 of the 3 images on which other members have some: elsewhere it counts "
        "as a model that found nothing",
    )
    both = predictions(box * 2, [0.8, 0.7], [0, 1])
    classes = cohort({"x": [both], "y": [one]})
    assert carry_out(classes, FusionRecipe.load("wbf")).notes == (
        "only 'x' has boxes of 1 class: b",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[step]]\nkind = "nmss"', "did you mean 'nms'"),
        ('[[step]]\nkind = "nms"\niou_treshold = 0.3', "did you mean 'iou_threshold'"),
        ('[[step]]\nkind = "nms"\nsigma = 0.3', "an option of nms.*known: iou_threshold, pool"),
        ('[[step]]\nkind = "resize"', "the key 'factor'"),
        ('[[step]]\nkind = "nms"\niou_threshold = 3', "of at most 1"),
        ('[[step]]\nkind = "top-k"\nk = 0', "of at least 1"),
        ('[[step]]\nkind = "weighted-boxes-fusion"\nconfidence = "agv"', "did you mean 'avg'"),
        ("step = []", "not empty"),
        ('member = ["a"]\n[[step]]\nkind = "nms"', "did you mean 'members'"),
        ('members = ["a", "a"]\n[[step]]\nkind = "nms"', "each member once"),
        ('members = ["ours"]\n[weights]\nour = 1\n[[step]]\nkind = "nms"', "did you mean 'ours'"),
        ("[weights]\na = -1\n[[step]]\nkind = 'nms'", "of at least 0"),
    ],
)
def test_what_a_recipe_may_not_say(text: str, words: str) -> None:
    with pytest.raises(cal.InputError, match=f"(?s){words}"):
        recipe(text)


def test_names_that_do_not_exist_get_the_nearest_one(tmp_path: Path) -> None:
    demo = cal.demo_cohort()
    with pytest.raises(cal.UsageError, match="did you mean 'endocv2022'"):
        cal.fuse(demo, "endocv2021")
    with pytest.raises(cal.UsageError, match="did you mean 'mislabels'"):
        cal.fuse(demo, members=["mislabel"])
    with pytest.raises(cal.UsageError, match="already has a model"):
        cal.fuse(demo, name="mislabels")
    with pytest.raises(cal.UsageError, match="each member once"):
        cal.fuse(demo, members=["mislabels", "mislabels"])
    with pytest.raises(cal.UsageError, match="not a model; did you mean 'mislabels'"):
        cal.fuse(demo, recipe('[weights]\nmislabel = 2\n[[step]]\nkind = "nms"\npool = true'))
    with pytest.raises(cal.InputError, match="a recipe"):
        cal.fuse(demo, tmp_path / "missing.toml")


def test_a_recipe_that_leaves_members_apart_is_refused() -> None:
    plan = recipe('[[step]]\nkind = "nms"')
    with pytest.raises(cal.UsageError, match="leaves 3 members apart"):
        cal.fuse(cal.demo_cohort(), plan)
    assert len(carry_out(cal.demo_cohort(), plan, ["mislabels"]).predictions)


def test_every_option_of_a_step_has_a_key() -> None:
    keys = set(StepTable.__struct_fields__) - {"kind", "tune"}
    assert keys == set().union(*OPTIONS.values())


def test_the_recipe_in_the_documentation_is_one() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "fusion.md"
    text = page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    plan = FusionRecipe.from_toml(text)
    assert (plan.members, dict(plan.weights), len(plan.steps)) == (("a", "b", "c"), {"c": 2}, 3)
