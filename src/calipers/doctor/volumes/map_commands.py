# SPDX-License-Identifier: Apache-2.0
"""The commands of `calipers maps` for folders of volumes: each is tried before it is printed.

`tried_maps` is for maps of scores: every sample is loaded. `segmentation_commands` are for
predicted labels without scores, of which users expect Dice and the other metrics of segmentations;
every class has its own. `calipers.doctor.volumes.volume_folders` calls both.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import Any

from calipers.doctor.remedies import Inputs
from calipers.errors import CalipersError
from calipers.io.volumes.dataset_json import read_names
from calipers.io.volumes.object_scores import PredictedLabels
from calipers.io.volumes.pairing import pair
from calipers.io.volumes.values import Meaning

# Options by which files are paired and read, whoever asks for them: the user or a finding.
OF_PAIRS = ("pattern", "reference_pattern", "segment", "place")
OF_SEGMENTATIONS = "segmentation"  # the preset with Dice and panoptic quality
MOST_CLASSES = 12  # commands that are printed


def tried_maps(inputs: Inputs, options: Mapping[str, str]) -> str | None:
    """Return the command of maps if every sample can be loaded with these options."""
    choices: dict[str, Any] = {}
    for name in (*OF_PAIRS, "missing", "channel", "resize"):
        value = options.get(name, inputs.reading.get(name) if name in OF_PAIRS else None)
        if value is not None:
            choices[name] = value
    normalise = {}
    for name, value in options.items():
        if name.startswith("normalise "):
            normalise[name.removeprefix("normalise ")] = value
    labels = options.get("labels", "binary")
    values = [int(options["mask_values"])] if "mask_values" in options else labels
    try:
        samples = pair(inputs.references, inputs.predictions, **choices)
        if inputs.groups is not None:
            samples = samples.with_groups(inputs.groups)
        for sample in samples:
            sample.load(label_values=values, normalise=normalise or "none")
    except CalipersError:
        return None
    words = ["calipers", "maps", fspath(inputs.references)]
    words += inputs.arguments(list(inputs.predictions))
    for name, value in choices.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    if labels != "binary":
        words += ["--labels", labels]
    if "mask_values" in options:
        words += ["--mask-values", options["mask_values"]]
    if "preset" in options:
        words += ["--preset", options["preset"]]
    if inputs.groups is not None:
        words += ["--groups", fspath(inputs.groups)]
    for model, value in normalise.items():
        words += ["--normalise", value if len(inputs.predictions) == 1 else f"{model}={value}"]
    return shlex.join(words)


def segmentation_commands(
    inputs: Inputs, options: Mapping[str, Any], values: Sequence[Sequence[int]]
) -> list[str]:
    """Return a command for every class of predicted labels; none if the predictions have scores,
    or if it does not load the first sample.

    ``values`` are those of the references, then those of every model.
    """
    # Samples of volumes that the user names in other ways have no command here.
    if options.get("scores") is not None or options.get("geometry") is not None:
        return []
    choices = {name: options[name] for name in OF_PAIRS if options.get(name) is not None}
    if options.get("missing_volumes", "error") != "error":
        choices["missing"] = options["missing_volumes"]
    try:
        samples = pair(inputs.references, inputs.predictions, **choices)
    except CalipersError:
        return []
    words = ["calipers", "maps", fspath(inputs.references)]
    words += inputs.arguments(list(inputs.predictions))
    meaning = options.get("labels", "classes")
    words += ["--predictions", "instances" if meaning == "instances" else "labels"]
    for name, value in choices.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    if inputs.groups is not None:
        words += ["--groups", fspath(inputs.groups)]
    lines = []
    for choice, options_of_class in _classes(inputs, meaning, values)[:MOST_CLASSES]:
        try:
            samples[0].load(label_values=choice, predicted=PredictedLabels(choice))
        except CalipersError:
            return []
        lines.append(shlex.join([*words, *options_of_class, "--preset", OF_SEGMENTATIONS]))
    return lines


def _classes(
    inputs: Inputs, meaning: str, values: Sequence[Sequence[int]]
) -> list[tuple[Meaning, list[str]]]:
    """Return what the values of volumes mean for every class, and the options that say it."""
    if meaning != "classes":
        choice = "instances" if meaning == "instances" else "nonzero"
        return [(choice, ["--labels", choice])]
    dataset = read_names(Path(fspath(inputs.references)))
    names = {} if dataset is None else dataset.names
    marked = values[0]
    if len(marked) == 1 and all(len(of_model) <= 1 for of_model in values):
        name = names.get(marked[0])
        return [("binary", [] if name is None else ["--label", name])]
    classes: list[tuple[Meaning, list[str]]] = []
    for value in marked:
        label = ["--label", names.get(value, str(value))]
        classes.append(([value], ["--mask-values", str(value), *label]))
    return classes
