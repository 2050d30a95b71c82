# SPDX-License-Identifier: Apache-2.0
"""What the arguments of `calipers stability` are: maps of models, or files of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calipers.errors import InputError, UsageError
from calipers.tables.bags import Bags

HEAD = 1 << 16
TABLES = (".csv", ".tsv", ".txt")
GRID = {2: (32, 32), 3: (16, 32, 32)}  # cells of a map of predictions, if nobody says
ONLY_MAPS = {
    "labels": "--labels: references say which images are positive, and where",
    "scores": "--scores: the highest score of an image is that of its bag",
    "pattern": "--pattern",
    "label_pattern": "--label-pattern",
    "normalise": "--normalise",
}


def named_models(entries: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, path) of arguments such as ``ours=maps`` or ``maps``; "" where only a path was
    given.
    """
    models = []
    for entry in entries:
        name, sign, path = entry.partition("=")
        if not sign or Path(entry).exists() or not name or "/" in name or "\\" in name:
            name, path = "", entry
        if not path:
            raise UsageError(
                f"a file is missing in {entry!r}: give a model as file or as name=file"
            )
        models.append((name, path))
    return models


def holds_predictions(path: str) -> bool:
    """Return whether a file holds boxes of a detector (COCO JSON, a table with the columns of a
    box), and no maps.
    """
    from calipers.readers.columnar import MAGIC

    place = Path(path)
    if not place.is_file():
        return False
    with place.open("rb") as file:
        head = file.read(HEAD)
    if head[: len(MAGIC)] == MAGIC:
        return _boxed(_parquet_columns(place))
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text[:1] in ("{", "[") or place.suffix.lower() == ".json":
        return True
    if place.suffix.lower() not in TABLES:
        return False
    from calipers.readers.delimited import NIH_HEADER, find_delimiter

    header = text.split("\n", 1)[0]
    names = header.split(find_delimiter(header))
    return bool(NIH_HEADER.match(text)) or _boxed([name.strip().strip('"') for name in names])


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return []  # its reader says what is wrong


def _boxed(names: Sequence[str]) -> bool:
    from calipers.readers.layout import BOX_LAYOUTS

    lower = {name.lower() for name in names}
    return any(set(box) <= lower for _, box in BOX_LAYOUTS)


def map_bags(models: Sequence[tuple[str, str]], options: dict[str, Any]) -> Bags:
    """Return the bags of files of maps, with positive instances where labels have boxes."""
    from calipers.readers.bags import read_bags
    from calipers.stability.instances import instance_labels

    boxed = next((path for _, path in models if holds_predictions(path)), None)
    if boxed is not None:
        hint = "give --references REFS, which define the images and what is to be found"
        if len(models) > 1 and not all(holds_predictions(path) for _, path in models):
            hint = (
                f"if it has the references, give it as --labels {boxed}; maps and predictions do "
                f"not mix"
            )
        raise InputError(
            "maps, or references too", rule="wrong-role", file=boxed, value="predictions", hint=hint
        )
    names = ("groups", "scores", "pattern", "label_pattern")
    reading = {name: options[name] for name in names}
    bags = read_bags(models, options["labels"], normalise=options["normalise"] or "none", **reading)
    if not bags.boxes:
        for name in ("rule", "coverage"):
            if options[name] is not None:
                raise UsageError(f"--{name} is about boxes in --labels, and there are none")
        return bags
    return bags.with_instances(partial(instance_labels, **rule_of(options)))


def rule_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return rule and coverage of the options, as keywords."""
    if options["coverage"] is not None and options["rule"] not in (None, "coverage"):
        raise UsageError(f"--coverage goes with --rule coverage, not with --rule {options['rule']}")
    if options["coverage"] is not None:
        return {"rule": "coverage", "coverage": options["coverage"]}
    return {"rule": options["rule"] or "any-overlap"}


def read_cohort(models: Sequence[tuple[str, str]], options: dict[str, Any]) -> Any:
    """Return the cohort of references and files of predictions."""
    from calipers.readers import read

    for name, option in ONLY_MAPS.items():
        if options[name] is not None:
            raise UsageError(f"--references is for predictions, which have no {option}")
    if options["rule"] not in (None, "any-overlap", "centre") or options["coverage"] is not None:
        raise UsageError("predictions are put on a grid by --rule any-overlap or centre")
    maps = next((path for _, path in models if not holds_predictions(path)), None)
    if maps is not None and Path(maps).exists():
        hint = "maps need no references: give --labels instead"
        raise InputError(
            "predictions (COCO or a table of boxes)", rule="wrong-role", file=maps, hint=hint
        )
    files: dict[str, str] = {}
    for name, path in models:
        model = name or Path(path).stem
        if model in files:
            raise UsageError(
                f"two models are called {model!r}; name them: first={files[model]} second={path}"
            )
        files[model] = path
    return read(options["references"], files, groups=options["groups"])


def prediction_bags(cohort: Any, options: dict[str, Any]) -> Bags:
    """Return the predictions of a cohort on a grid."""
    from calipers.stability.rasters import detections_as_bags

    grid = grid_of(options["grid"]) or GRID[cohort.dimensions]
    bags: Bags = detections_as_bags(cohort, grid, covers=options["rule"] or "any-overlap")
    return bags


def grid_of(text: str | None) -> tuple[int, ...] | None:
    """Return the numbers of ``16,16``."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise UsageError(f"--grid takes rows,columns such as 32,32, not {text!r}") from None
