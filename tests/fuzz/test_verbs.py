"""Every command, with whatever options, ends with a result or a message, never with a traceback.

Thirty commands here, a thousand in `make test-slow`, without end in `make fuzz ARGS=verbs`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.targets import Target, attack
from fuzz.verbs import LEFT_OUT, sound_commands, verbs


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    (one,) = verbs(tmp_path_factory.mktemp("verbs"))
    return one


def test_the_commands_are_sound_before_they_are_changed(target: Target, tmp_path: Path) -> None:
    """Otherwise every command would end at the first check."""
    codes = {}
    for verb, words in sound_commands(tmp_path).items():
        codes[verb] = target.run([verb, *words], tmp_path)[0]
    failed = {verb: code for verb, code in codes.items() if code}
    # The sound result misses its limits, and there are no parts to merge.
    assert failed == {"check": 1, "merge": 2}
    assert not set(codes) & set(LEFT_OUT)


def test_thirty_commands(target: Target, tmp_path: Path) -> None:
    assert attack(target, tmp_path, 30) == 30


@pytest.mark.slow  # five minutes
def test_a_thousand_commands(target: Target, tmp_path: Path) -> None:
    assert attack(target, tmp_path, 1000, seed=1) == 1000


@pytest.mark.parametrize("said", [(3, "", "a bug"), (0, "", "Traceback"), (0, "{", "")])
def test_the_judge_sees_faults(target: Target, said: tuple[int, str, str]) -> None:
    assert target.judge is not None
    with pytest.raises((AssertionError, ValueError)):
        target.judge(["evaluate", "--json"], said)
