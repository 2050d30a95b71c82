"""The patterns that pair two folders are found, and named where several would do."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from calipers.cli.main import run
from calipers.doctor.remedies import Inputs
from calipers.doctor.volumes.volume_folders import check_volumes
from calipers.errors import InputError
from calipers.io.name_patterns import proposed_patterns
from calipers.io.volumes.pairing import pair
from calipers.io.write_volume import write_volume

CASES = [f"case_{k:03d}" for k in (7, 12, 80)]


def paths(*patterns: str) -> dict[str, str]:
    """Return name -> path of the files of all cases."""
    found = {}
    for pattern in patterns:
        for case in CASES:
            name = pattern.replace("{name}", case)
            found[name] = f"/data/{name}.nii.gz"
    return found


@pytest.mark.parametrize(
    ("references", "predictions", "patterns"),
    [
        (["{name}"], ["{name}/{name}_seg"], {"pattern": "{name}/{name}_seg.nii.gz"}),
        (["{name}"], ["{name}/prob"], {"pattern": "{name}/prob.nii.gz"}),
        (
            ["{name}/{name}_gt"],
            ["{name}/pred"],
            {
                "reference_pattern": "{name}/{name}_gt.nii.gz",
                "pattern": "{name}/pred.nii.gz",
            },
        ),
        (
            ["{name}/seg"],
            ["{name}_pred"],
            {"reference_pattern": "{name}/seg.nii.gz", "pattern": "{name}_pred.nii.gz"},
        ),
        (["{name}"], ["run1/{name}/{name}_seg"], {"pattern": "run1/{name}/{name}_seg.nii.gz"}),
        (["{name}"], ["{name}"], {}),
    ],
)
def test_patterns_are_found(references, predictions, patterns) -> None:
    proposal = proposed_patterns(paths(*references), paths(*predictions))
    assert (proposal.patterns, proposal.choices) == (patterns, {})
    assert proposal.n_pairs == len(CASES)


def test_several_files_of_each_case_are_named_and_none_is_chosen() -> None:
    predictions = paths("{name}/liver", "{name}/tumour")
    proposal = proposed_patterns(paths("{name}"), predictions)
    assert proposal.patterns == {}
    assert proposal.choices == {"pattern": ["{name}/liver.nii.gz", "{name}/tumour.nii.gz"]}
    del predictions[f"{CASES[0]}/liver"]
    proposal = proposed_patterns(paths("{name}"), predictions)
    assert proposal.patterns == {"pattern": "{name}/tumour.nii.gz"}


def test_other_cases_have_no_pattern() -> None:
    others = {f"patient{k}/patient{k}_seg": f"/data/{k}.nii.gz" for k in range(3)}
    assert proposed_patterns(paths("{name}"), others) == ({}, 0, {})


def volumes(folder: Path, *patterns: str) -> Path:
    for k, case in enumerate(CASES):
        labels = np.zeros((5, 12, 14), np.uint8)
        labels[1:3, 2 + k : 7, 3 : 8 + k] = 1
        for pattern in patterns:
            path = folder / f"{pattern.replace('{name}', case)}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_volume(path, labels, spacing=(1.0, 1.0, 2.0))
    return folder


def test_the_doctor_and_the_error_say_the_same(tmp_path: Path) -> None:
    refs = volumes(tmp_path / "refs", "{name}")
    preds = volumes(tmp_path / "preds", "{name}/{name}_seg")
    (command,) = check_volumes(Inputs(refs, {"model": preds}, None, {})).commands
    assert "--pattern '{name}/{name}_seg.npz'" in command
    assert run([*shlex.split(command)[1:], "--no-ci", "-q"]) == 0
    with pytest.raises(InputError) as caught:
        pair(refs, preds)
    assert 'pattern="{name}/{name}_seg.npz"' in caught.value.hint


def test_which_file_of_a_case_is_meant_comes_before_all_else(tmp_path: Path) -> None:
    refs = volumes(tmp_path / "refs", "{name}/{name}_t1", "{name}/{name}_seg")
    preds = volumes(tmp_path / "preds", "{name}")
    checkup = check_volumes(Inputs(refs, {"model": preds}, None, {}))
    (symptom,) = checkup.findings
    hint = "pass --reference-pattern '{name}/{name}_seg.npz' or '{name}/{name}_t1.npz'"
    assert (symptom.code, symptom.hint, checkup.commands) == ("image-names", hint, ())
    with pytest.raises(InputError) as caught:
        pair(refs, preds)
    assert hint in caught.value.hint
