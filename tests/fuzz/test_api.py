"""Every public function and method answers odd arguments with a result or a typed error.

Three calls each here, a hundred in `make test-slow`, without end in `make fuzz ARGS=api`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

import calipers as cal
from fuzz.api import Entrance, answer_of, attack, changed_arguments, surface
from fuzz.targets import Failure


@pytest.fixture(scope="module")
def entrances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Entrance]]:
    folder = tmp_path_factory.mktemp("api")
    written = folder / "written"
    written.mkdir()
    with contextlib.chdir(written):  # some write where they are told to
        yield surface(folder)


def test_the_surface_is_under_attack(entrances: list[Entrance]) -> None:
    names = {entrance.name for entrance in entrances}
    public = {name for name in cal.__all__ if callable(getattr(cal, name))}
    assert {name for name in public if not name.endswith(("Error", "Problems"))} <= names
    kinds = {name.split(".")[0] for name in names if "." in name}
    results = {"Evaluation", "StabilityResult", "MonitorEvaluation", "Multiverse", "MixedModel"}
    assert results | {"Cohort", "Predictions", "Protocol", "Requirements", "Pairing"} <= kinds
    assert len(names) > 220


def test_most_calls_are_sound_before_they_are_changed(entrances: list[Entrance]) -> None:
    """Otherwise every call would end at the first check."""
    answered = [entrance.name for entrance in entrances if answer_of(entrance) is not None]
    assert len(answered) > 150
    assert {"evaluate", "evaluate_maps", "stability", "multiverse", "nms", "read"} <= set(answered)


def test_odd_calls(entrances: list[Entrance]) -> None:
    accepted = sum(attack(entrance, 3) for entrance in entrances)
    assert 0 < accepted < 3 * len(entrances)


@pytest.mark.slow  # a minute and a half
def test_a_hundred_odd_calls(entrances: list[Entrance]) -> None:
    accepted = sum(attack(entrance, 100, seed=1) for entrance in entrances)
    assert 0 < accepted < 100 * len(entrances)


def test_the_attack_sees_failures() -> None:
    def broken(number: int) -> int:
        raise KeyError(number)

    with pytest.raises(Failure, match=r"broken, seed 0, call 0"):
        attack(Entrance("broken", broken, {"number": 1}, ("number",)), 1)
    first = Entrance("broken", broken, {"number": 1}, ("number",))
    seeds = [changed_arguments(first, np.random.default_rng([0, k])) for k in range(20)]
    assert repr(seeds) != repr([{"number": 1}] * 20)
