"""Families of models: where their maps point is what they are called for,
and nothing else differs.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from calipers.errors import UsageError
from calipers.io.write_volume import write_volume
from calipers.stability.read import read_bags
from calipers.synthetic.bags import CELL, FAMILIES, demo_bags, write_bags


def overlaps(bags) -> tuple[float, float]:
    """Mean Dice with the lesion, and mean Jaccard between models, over positive bags."""
    dice, pairs = [], []
    for i in np.flatnonzero(bags.positive):
        bag = bags[int(i)]
        called = bag.values >= 0.5
        dice += [
            2 * (one & bag.instances).sum() / (one.sum() + bag.instances.sum()) for one in called
        ]
        pairs += [(a & b).sum() / (a | b).sum() for a, b in combinations(called, 2)]
    return float(np.mean(dice)), float(np.mean(pairs))


@pytest.mark.parametrize("shape", [(16, 16), (64,), (10, 12, 14)])
@pytest.mark.parametrize("seed", [0, 1])
def test_families_are_what_they_are_called(shape: tuple[int, ...], seed: int) -> None:
    found = {kind: overlaps(demo_bags(kind, 40, 4, shape, seed)) for kind in FAMILIES}
    assert found["stable-good"][0] > 0.75
    assert found["stable-good"][1] > 0.6
    assert found["stable-wrong"][0] < 0.05
    assert found["stable-wrong"][1] > 0.6
    assert found["unstable"][0] < 0.45
    assert found["unstable"][1] < 0.35


def test_lesions_labels_and_scores_are_the_same_in_all_families() -> None:
    good, wrong, unstable = (demo_bags(kind, 12) for kind in FAMILIES)
    for other in (wrong, unstable):
        assert np.array_equal(good.positive, other.positive)
        assert np.array_equal(good.bag_scores, other.bag_scores)
        assert all(np.array_equal(good[i].instances, other[i].instances) for i in range(12))
        assert not np.array_equal(good[2].values, other[2].values)


def test_a_bag_depends_on_seed_and_number_alone() -> None:
    assert np.array_equal(demo_bags(n_bags=4)[3].values, demo_bags(n_bags=30)[3].values)
    assert np.array_equal(demo_bags(n_models=2)[3].values, demo_bags(n_models=5)[3].values[:2])
    assert not np.array_equal(demo_bags(seed=0)[3].values, demo_bags(seed=1)[3].values)
    assert np.array_equal(demo_bags(n_bags=4)[-1].values, demo_bags(n_bags=4)[3].values)
    with pytest.raises(IndexError):
        demo_bags(n_bags=4)[4]


def test_patients_have_two_bags_of_one_kind() -> None:
    bags = demo_bags(n_bags=20, share_positive=0.3)
    assert bags.groups["patient"].tolist()[:3] == ["P001", "P001", "P002"]
    assert np.array_equal(bags.positive[::2], bags.positive[1::2])
    assert bags.positive.sum() == 6
    assert all(bags[i].instances.any() == bags.positive[i] for i in range(20))
    assert (bags.lesion(0) is None) == (not bags.positive[0])


def test_boxes_hold_the_lesion() -> None:
    bags = demo_bags(n_bags=20)
    for i in range(20):
        boxes = bags.boxes[bags.ids[i]]
        assert len(boxes) == bags.positive[i]
        rows, columns = np.nonzero(bags[i].instances.reshape(16, 16))
        for x0, y0, x1, y1 in boxes / CELL:
            assert x0 <= columns.min() + 0.5
            assert columns.max() + 0.5 <= x1
            assert y0 <= rows.min() + 0.5
            assert rows.max() + 0.5 <= y1
            assert min(x0, y0) >= 0
            assert max(x1, y1) <= 16
    assert bags.sizes["B001"] == (512.0, 512.0)
    assert demo_bags(shape=(30,)).boxes == {}


def test_noise_and_sharpness_are_parameters() -> None:
    still = demo_bags(noise=0.0)
    i = int(np.flatnonzero(still.positive)[0])
    assert demo_bags(noise=3.0)[i].values.std() > still[i].values.std()
    assert demo_bags(sharpness=1.0)[i].values.max() < demo_bags(sharpness=20.0)[i].values.max()
    assert (still[i].values >= 0).all()
    assert (still[i].values <= 1).all()


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"kind": "stabel-good"},
            {"n_bags": 0},
            {"n_models": 0},
            {"shape": (2, 2, 2, 2)},
            {"shape": (1, 5)},
        ),
        *({"noise": -1}, {"sharpness": 0}, {"share_positive": 1.5}),
    ],
)
def test_what_cannot_be_made_is_refused(wrong) -> None:
    with pytest.raises(UsageError):
        demo_bags(**wrong)


@pytest.mark.parametrize("suffix", [".npz", ".nii.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, suffix: str) -> None:
    def write(path, array, spacing):
        write_volume(path.with_name(path.name + suffix), array)

    made = demo_bags("unstable", 6, 3, (5, 6))
    assert write_bags(tmp_path, made, None if suffix == ".npz" else write) == 6
    places = [tmp_path / model for model in made.models]
    read = read_bags(places, tmp_path / "labels.csv", scores=tmp_path / "scores.csv")
    assert (read.models, read.ids) == (made.models, made.ids)
    assert np.array_equal(read.positive, made.positive)
    assert read.bag_scores == pytest.approx(made.bag_scores)
    assert read.groups["patient"].tolist() == made.groups["patient"].tolist()
    assert {bag: boxes.tolist() for bag, boxes in read.boxes.items()} == {
        b: x.tolist() for b, x in made.boxes.items()
    }
    masked = read_bags(places, tmp_path / "masks")
    for i in range(6):
        assert read[i].values == pytest.approx(made[i].values, abs=1e-6)
        assert np.array_equal(masked[i].instances, made[i].instances)
