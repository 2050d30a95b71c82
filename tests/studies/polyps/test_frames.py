"""Drawn frames have the numbers, prevalence and sizes that they should have."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.studies.polyps.endoscopy import (
    FRAMES,
    PREVALENCE,
    centre_frames,
    drawn_frame,
    external_frames,
    training_frames,
)
from calipers.studies.polyps.sizes import CENTRES, LEVELS, shipped_sizes, summary_of
from cases import DATA

LIST = DATA / "polypgen" / "object_sizes.json"


def test_the_centres_have_the_frames_and_the_prevalence_of_the_paper() -> None:
    plans = list(centre_frames(0))
    numbers = Counter(plan.centre for plan in plans)
    assert numbers == FRAMES
    assert len(plans) == 1512
    for centre in CENTRES:
        own = [bool(plan.polyps) for plan in plans if plan.centre == centre]
        assert np.mean(own) == pytest.approx(PREVALENCE[centre], abs=0.01)
    assert len({plan.patient for plan in plans}) > 300


def test_polyps_have_the_sizes_of_polypgen() -> None:
    sides = []
    for plan in centre_frames(0):
        if plan.centre == "C3":
            for polyp in plan.polyps:
                x0, y0, x1, y1 = polyp.box
                sides.append(np.sqrt((x1 - x0) * (y1 - y0) / np.prod(plan.size)))
    real = shipped_sizes()["C3"]
    for level in (0.25, 0.5, 0.75):
        assert np.quantile(sides, level) == pytest.approx(real.quantile("side", level), abs=0.03)


def test_training_frames_share_nothing_with_the_centres() -> None:
    tested = {plan.patient for plan in centre_frames(0)}
    trained = [*training_frames(0), *external_frames(0)]
    assert not tested & {plan.patient for plan in trained}
    assert len({plan.centre for plan in training_frames(0)}) == 46
    lights = {plan.light for plan in trained} | {plan.light for plan in centre_frames(0)}
    assert len(lights) == 46 + 2 + 6


def test_a_frame_is_a_function_of_its_plan() -> None:
    plan = next(plan for plan in centre_frames(1) if len(plan.polyps) > 1)
    one, two = drawn_frame(plan), drawn_frame(plan)
    assert np.array_equal(one.pixels, two.pixels)
    assert len(one.masks) == len(plan.polyps)
    for mask, box in zip(one.masks, one.boxes):
        rows, columns = np.nonzero(mask)
        assert box.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def test_some_polyps_are_not_convex_and_types_differ_in_relief() -> None:
    from calipers.data.masks import Masks

    masks = []
    for plan in islice(centre_frames(0), 60):
        masks += drawn_frame(plan).masks
    shapes = Masks.from_dense(masks)
    share = shapes.voxels / shapes.hulls().voxels
    assert 0.02 < np.mean(share < 0.85) < 0.6
    kinds = Counter(polyp.kind for plan in centre_frames(0) for polyp in plan.polyps)
    assert set(kinds) == {"flat", "protruded"}


def test_quantiles_ascend() -> None:
    for summary in shipped_sizes().values():
        for name in ("side", "aspect", "fill"):
            values = getattr(summary, name)
            assert len(values) == len(LEVELS)
            assert (np.diff(values) >= 0).all()
        assert summary.polyps_per_frame.sum() == pytest.approx(1, abs=1e-3)


@pytest.mark.skipif(not LIST.exists(), reason="the list of PolypGen is not here")
def test_the_shipped_summary_is_that_of_the_list() -> None:
    own = json.loads(json.dumps(summary_of(LIST)))
    from importlib import resources

    file = resources.files("calipers").joinpath("studies", "polyps", "sizes.json")
    assert own == json.loads(file.read_text(encoding="utf-8"))


def test_another_file_is_not_a_list_of_sizes(tmp_path) -> None:
    path = tmp_path / "sizes.json"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="list of objects of PolypGen"):
        summary_of(path)
