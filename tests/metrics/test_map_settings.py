"""The table ``[maps]`` of a protocol: its choices, there and back, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import calipers as cal
from calipers.metrics.maps import MapSettings, rate_of
from map_cases import map_protocol, with_maps

DICE = {"Dice": {"kind": "voxel-dice"}}


def test_defaults_are_those_of_the_documentation() -> None:
    settings = MapSettings()
    assert settings.as_dict() == {
        "threshold": 0.5,
        "connectivity": "full",
        "least": 1,
        "score": "max",
        "slices": "z",
        "batch": 8,
    }
    assert not settings.is_rule


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"threshold": "fpr:0.05", "connectivity": "faces", "least": 5},
        {
            "threshold": "best-dice",
            "tuning": "split=tune",
            "score": "mean",
            "slices": "x",
            "batch": 3,
        },
    ],
)
def test_there_and_back(choice: dict[str, Any]) -> None:
    protocol = map_protocol(DICE, **choice)
    assert protocol.maps == MapSettings(**choice)
    assert cal.Protocol.from_toml(protocol.to_toml()).maps == protocol.maps
    assert MapSettings.from_dict(MapSettings(**choice).as_dict()) == MapSettings(**choice)
    assert protocol.as_dict()["maps"] == MapSettings(**choice).as_dict()


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"threshold": 0.0}, "above 0 and at most 1"),
        ({"threshold": 1.5}, "above 0 and at most 1"),
        ({"threshold": True}, "threshold is a number"),
        ({"threshold": "fpr:1.0"}, "'fpr:0.05' or 'best-dice'"),
        ({"threshold": "fpr:nan"}, "'fpr:0.05' or 'best-dice'"),
        ({"threshold": "best"}, "'fpr:0.05' or 'best-dice'"),
        ({"threshold": "best-dice"}, "must be chosen on other samples"),
        ({"tuning": "tune"}, "split=tune"),
        ({"tuning": "=tune"}, "split=tune"),
        ({"connectivity": "corners"}, "full, edges, faces"),
        ({"score": "median"}, "max, mean"),
        ({"slices": "w"}, "x, y, z"),
        ({"least": 0}, "at least 1"),
        ({"batch": True}, "batch is a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(choice: dict[str, Any], words: str) -> None:
    with pytest.raises(cal.UsageError, match=words):
        MapSettings(**choice)
    with pytest.raises(cal.CalipersError):
        map_protocol(DICE, **choice)


def test_an_unknown_key_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(cal.UsageError, match="did you mean 'connectivity'"):
        MapSettings.from_dict({"conectivity": "full"})
    with pytest.raises(cal.InputError, match="threshold"):
        map_protocol(DICE, treshold=0.5)


def test_rates() -> None:
    assert rate_of("fpr:0.05") == 0.05
    assert rate_of("fpr:x") is rate_of(0.5) is rate_of("0.05") is rate_of("fpr:inf") is None


@pytest.mark.parametrize("preset", ["anomaly", "mood"])
def test_presets_of_maps_have_settings(preset: str) -> None:
    assert cal.Protocol.load(preset).maps == MapSettings()
    assert with_maps(preset, least=4).maps == MapSettings(least=4)
