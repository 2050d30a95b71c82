"""The public names: few, importable, never hidden by a submodule and documented;
`test_docs` runs their examples.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import calipers as cal


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_surface_is_small_and_sorted_out() -> None:
    assert len(cal.__all__) <= 42
    assert len(set(cal.__all__)) == len(cal.__all__)
    assert set(cal._SURFACE) | {"__version__"} == set(cal.__all__)
    assert dir(cal) == sorted(cal.__all__)


@pytest.mark.parametrize("name", cal.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(cal, name) is not None


@pytest.mark.parametrize(
    "name", ["evaluate_maps", "read_maps", "soft_instance_iou", "boxes_from_heatmaps"]
)
def test_maps_are_part_of_the_surface(name: str) -> None:
    assert name in cal.__all__
    assert callable(getattr(cal, name))


def test_star_import_gives_the_surface() -> None:
    space: dict[str, object] = {}
    exec("from calipers import *", space)
    assert set(cal.__all__) <= set(space)


@pytest.mark.parametrize(
    ("wrong", "right"), [("evalute", "evaluate"), ("Cohorts", "Cohort"), ("preset", "presets")]
)
def test_a_misspelt_name_is_answered_with_the_nearest_one(wrong: str, right: str) -> None:
    with pytest.raises(AttributeError, match=f"did you mean '{right}'"):
        getattr(cal, wrong)


@pytest.mark.parametrize(
    "statements",
    [
        "import calipers.stability",
        "import calipers.stability.analyse; import calipers.agreement.agreement",
        "from calipers.stability.analyse import stability",
        "import importlib; importlib.import_module('calipers.stability.analyse')",
        "calipers.stability; import calipers.stability.result",
    ],
)
def test_a_submodule_never_hides_the_function(statements: str) -> None:
    check = "assert callable(calipers.stability), calipers.stability"
    program = f"import calipers; {statements}; {check}"
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_importing_calipers_loads_no_numpy() -> None:
    program = "import sys, calipers; assert 'numpy' not in sys.modules"
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [n for n in cal.__all__ if n[0].islower()])
def test_every_public_function_starts_with_one_sentence(name: str) -> None:
    text = getattr(cal, name).__doc__
    assert text
    assert text.strip().splitlines()[0].rstrip().endswith(".")


def test_errors_are_one_family_with_exit_codes() -> None:
    assert issubclass(cal.InputError, cal.CalipersError)
    assert issubclass(cal.UsageError, cal.CalipersError)
    assert issubclass(cal.InputError, ValueError)
    assert (cal.CalipersError.exit_code, cal.InputError.exit_code, cal.UsageError.exit_code) == (
        3,
        2,
        2,
    )


def test_many_expectations_of_one_rule_are_one_kind() -> None:
    problems = [cal.InputError(f"the name of image {k}", rule="image-name") for k in range(30)]
    lines = cal.InputProblems(problems).lines()
    assert lines[1] == "  30 times: expected the name of image 0, and so on [image-name]"
    assert len(lines) == 3 + cal.InputProblems.EXAMPLES
    few = cal.InputProblems(problems[:2]).lines()
    assert [line for line in few if "once" in line] == [
        f"  once: expected the name of image {k} [image-name]" for k in range(2)
    ]


def test_errors_cross_process_borders() -> None:
    import pickle

    error = cal.InputError(
        "a number", rule="type", location="x[0]", field="y", value="z", hint="do this"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rule, again.value, again.hint) == (
        str(error),
        "type",
        "'z'",
        "do this",
    )
    several = pickle.loads(pickle.dumps(cal.InputProblems([error, error], 7)))
    assert str(several) == str(cal.InputProblems([error, error], 7))
    assert "7 problems" in str(several)
    assert "and 5 more" in str(several)


def test_python_dash_m_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "calipers", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.startswith("calipers ")) == (0, True)
    wrong = subprocess.run(
        [sys.executable, "-m", "calipers", "nonsense"], capture_output=True, text=True, timeout=60
    )
    assert (wrong.returncode, "no verb 'nonsense'" in wrong.stderr) == (2, True)
