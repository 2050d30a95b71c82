# SPDX-License-Identifier: Apache-2.0
"""Save an evaluation to a folder: JSON, the cohort with the fates, the page, the record of the run.

`Evaluation.save` calls `save`; `opening` reads the folder back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.assignment import MatchRecipe
from calipers.engine import collect
from calipers.error_table import error_table
from calipers.kernels import matching
from calipers.kernels.route import native
from calipers.matches import FATES, Matches, View
from calipers.metrics.rodeo import Rodeo
from calipers.metrics.rodeo_paths import RodeoPaths
from calipers.readers.columnar import write_table
from calipers.readers.source import hash_file
from calipers.readers.stored import EVALUATION, QUARANTINE, RUN
from calipers.readers.stored_maps import MAP_FILES, save_maps
from calipers.readers.stored_shapes import shape_columns, shapes_of
from calipers.readers.stored_slices import SLICES, save_slices
from calipers.readers.stored_tables import (
    IMAGES,
    KINDS,
    OBJECTS,
    constant_column,
    fact_columns,
    facts_of,
    image_columns,
    object_columns,
    stack_columns,
    text_column_of,
    with_nulls,
)
from calipers.results.delimited import delimited
from calipers.results.files import check_folder, staged_folder, write_atomically
from calipers.results.provenance import run_record
from calipers.tables import Cohort

if TYPE_CHECKING:
    from calipers.evaluation import Evaluation

PAGE = "report.html"
ERRORS = "errors.csv"  # where the protocol has error types
FILES = (
    EVALUATION,
    OBJECTS,
    IMAGES,
    *MAP_FILES,
    "images.csv",
    ERRORS,
    SLICES,
    QUARANTINE,
    PAGE,
    RUN,
)
OWN_COLUMNS = {
    "image",
    "model",
    "references",
    "predictions",
    "hits",
    "duplicates",
    "false_alarms",
    "missed",
}
EVERY_SIZE = 1e10


def save(
    evaluation: Evaluation,
    folder: Path,
    *,
    force: bool,
    command: Sequence[str],
    started: datetime | None = None,
    pictures: Mapping[str, Any] | None = None,
) -> Path:
    """Write all files or none; they appear together.

    ``run.json`` is written last, because it vouches for the others.

    ``pictures`` are further keywords of `Evaluation.report`. The page is the one file that the
    record of the run says nothing of: it can be made anew from the others at any time.
    """
    began = started or datetime.now(UTC)
    cohort = evaluation.cohort
    check_folder(folder, force=force, inputs=tuple(file.file for file in cohort.intake.files))
    document = evaluation.as_dict()
    matches = {model: shown_matches(evaluation, model) for model in cohort.models}
    with staged_folder(folder, owned=FILES) as stage:
        write_atomically(stage / EVALUATION, json.dumps(document, allow_nan=False, indent=1) + "\n")
        write_table(
            stage / OBJECTS, objects_table(cohort, matches), facts_of(cohort) | shapes_of(cohort)
        )
        write_table(stage / IMAGES, image_columns(cohort))
        save_maps(stage, cohort.maps)
        write_atomically(stage / "images.csv", delimited(images_table(evaluation, matches)))
        if any(plan.kind == "error-types" for plan in evaluation.protocol.metrics):
            error_table(evaluation).write(stage / ERRORS)
        if evaluation.slices is not None:
            save_slices(stage / SLICES, evaluation.slices)
        if cohort.intake.quarantine:
            lines = [json.dumps(vars_of(record)) for record in cohort.intake.quarantine]
            write_atomically(stage / QUARANTINE, "\n".join(lines) + "\n")
        files = {}
        for file in sorted(stage.iterdir()):
            files[file.name] = {"sha256": hash_file(file), "bytes": file.stat().st_size}
        # After the hashes: the page can be made again, so the record does not vouch for it.
        evaluation.report(stage / PAGE, command=command, **(pictures or {}))
        page_parts = {}
        for name in ("multiverse", "stability"):
            if (pictures or {}).get(name):
                page_parts[name] = True
        metric_ids = list(dict.fromkeys(row.metric_id for row in evaluation.rows))
        record = run_record(
            document,
            files=files,
            metric_ids=metric_ids,
            settings={
                "seed": evaluation.protocol.seed,
                "rng": "Philox4x64",
                "ties": evaluation.protocol.ties,
                "kernels": "numpy" if native() is None else "native",
                **page_parts,
            },
            command=command,
            started=began,
        )
        write_atomically(stage / RUN, json.dumps(record, indent=1) + "\n")
    return folder


def shown_matches(evaluation: Evaluation, model: str) -> Matches:
    """Return the matches that are shown and saved: the protocol's own, made now if no metric needed
    just these.
    """
    recipe = MatchRecipe((evaluation.protocol.matching,))
    for (name, _), table in evaluation.evidence.items():
        if (
            name == model
            and isinstance(table, Matches)
            and _same_fates(table.views[0], recipe.views[0])
        ):
            return table
    matches = collect(evaluation.cohort, {model: (model, recipe)})[model]
    assert isinstance(matches, Matches)
    return matches


def _same_fates(view: View, other: View) -> bool:
    """Return whether two views decide the same fates; COCO's "all" sizes end at 1e10."""
    is_every_size = view.size[0] <= 0 and view.size[1] >= EVERY_SIZE
    return is_every_size and replace(view, size=other.size) == other


def objects_table(cohort: Cohort, matches: dict[str, Matches]) -> dict[str, Any]:
    """Return one row per object and model, references first: fate, partner and similarity under the
    first view.

    ``row`` counts the objects of a kind in cohort order; ``partner`` is the ``row`` on the other
    side. Numbers that an object does not have are null.
    """
    parts, tables = [], []
    for model, table in matches.items():
        parts += _object_parts(cohort, model, table)
        tables += [cohort.references, cohort.models[model]]
    columns: dict[str, Any] = {}
    for name in parts[0]:
        columns[name] = stack_columns([part[name] for part in parts])
    more = {**shape_columns(tables), **fact_columns(tables)}
    return columns | {name: stack_columns(entries) for name, entries in more.items()}


def _object_parts(cohort: Cohort, model: str, matches: Matches) -> list[dict[str, Any]]:
    references, predictions = cohort.references, cohort.models[model]
    hit = np.flatnonzero((matches.partner >= 0) & (matches.prediction_fate[0] == matching.HIT))
    found_by = np.full(len(references), -1)
    found_by[matches.partner[hit]] = hit
    reached = np.full(len(references), np.nan)
    reached[matches.partner[hit]] = matches.similarity[hit]
    parts = []
    for kind, table, fate, partner, similarity in (
        (KINDS[0], references, matches.reference_fate[0], found_by, reached),
        (KINDS[1], predictions, matches.prediction_fate[0], matches.partner, matches.similarity),
    ):
        own = object_columns(cohort, table)
        part: dict[str, Any] = {
            "model": constant_column(model, len(table)),
            "kind": constant_column(kind, len(table)),
            "image": own["image"],
            "row": np.arange(len(table)),
            "class": own["class"],
            "fate": text_column_of([FATES[code] for code in range(len(FATES))], fate),
            "partner": with_nulls(partner.astype(np.int64)),
            "similarity": with_nulls(similarity),
            **own,
        }
        parts.append(part)
    return parts


def images_table(evaluation: Evaluation, matches: dict[str, Matches]) -> dict[str, list[Any]]:
    """Return one row per image and model: groups, counts under the first view, and RoDeO where it
    was asked for.
    """
    cohort = evaluation.cohort
    columns: dict[str, list[Any]] = {}

    def add(name: str, values: list[Any]) -> None:
        columns.setdefault(name, []).extend(values)

    for model, table in matches.items():
        add("image", list(cohort.images.ids))
        add("model", [model] * cohort.n_images)
        for name, column in cohort.images.groups.items():
            add(f"group_{name}" if name in OWN_COLUMNS else name, column.tolist())
        add("references", np.diff(table.reference_offsets).tolist())
        add("predictions", np.diff(table.prediction_offsets).tolist())
        for name, value in _fate_counts(table).items():
            add(name, value.tolist())
        for name, scores in _rodeo_of_images(evaluation, model).items():
            add(name, _numbers(scores))
    return columns


def _fate_counts(table: Matches) -> dict[str, NDArray[np.int64]]:
    def count(image: NDArray[np.int64], fates: NDArray[np.int8], fate: int) -> NDArray[np.int64]:
        return np.bincount(image[fates == fate], minlength=table.n_images)

    predicted, real = table.prediction_fate[0], table.reference_fate[0]
    return {
        "hits": count(table.prediction_image, predicted, matching.HIT),
        "duplicates": count(table.prediction_image, predicted, matching.DUPLICATE),
        "false_alarms": count(table.prediction_image, predicted, matching.FALSE_ALARM),
        "missed": count(table.reference_image, real, matching.MISSED),
    }


def _rodeo_of_images(evaluation: Evaluation, model: str) -> dict[str, NDArray[np.float64]]:
    scores = {}
    for metric in evaluation.protocol.compile():
        if isinstance(metric, Rodeo):
            evidence = evaluation.evidence[model, metric.recipe.key]
            assert isinstance(evidence, RodeoPaths)
            scores.update(metric.per_image(evidence))
    return scores


def vars_of(record: Any) -> dict[str, str]:
    """Return a quarantined record for JSON output."""
    return {
        "file": record.file,
        "location": record.location,
        "rule": record.rule,
        "record": record.record,
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Return the values with None for NaN."""
    numbers: list[float | None] = values.tolist()
    for k in np.flatnonzero(np.isnan(values)).tolist():
        numbers[k] = None
    return numbers
