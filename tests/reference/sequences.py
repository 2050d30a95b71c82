"""Metrics of sequences, slowly: frames as dictionaries, one at a time, from fates in words."""

from __future__ import annotations

import math
from typing import Any

import calipers as cal
from calipers.matching.assign import match
from calipers.matching.matches import FATES, View


def frames_of(cohort: cal.Cohort, model: str, view: View) -> dict[str, list[dict[str, Any]]]:
    """Return name of the sequence -> its frames in order, each with what happened in it."""
    sequences: dict[str, list[dict[str, Any]]] = {}
    for image in range(cohort.n_images):
        matches = match(cohort.take([image]), model, (view,))
        fates = [FATES[fate] for fate in matches.prediction_fate[0].tolist()]
        of_references = [FATES[fate] for fate in matches.reference_fate[0].tolist()]
        frame = {
            "number": float(cohort.group("frame")[image]),
            "hits": fates.count("hit"),
            "alarms": fates.count("false alarm") + fates.count("duplicate"),
            "references": len(of_references) - of_references.count("ignored"),
        }
        sequences.setdefault(str(cohort.group("sequence")[image]), []).append(frame)
    for frames in sequences.values():
        frames.sort(key=lambda frame: frame["number"])
    return sequences


def first_hit(frames: list[dict[str, Any]], duration: int) -> float:
    """Return the number of the frame in which a hit has lasted, infinity if there is none."""
    for end in range(duration, len(frames) + 1):
        if all(frame["hits"] for frame in frames[end - duration : end]):
            return float(frames[end - 1]["number"])
    return math.inf


def mean_f(sequences: dict[str, list[dict[str, Any]]], beta: float) -> float:
    values = []
    for frames in sequences.values():
        hits = sum(frame["hits"] for frame in frames)
        alarms = sum(frame["alarms"] for frame in frames)
        missed = sum(frame["references"] for frame in frames) - hits
        bottom = (1 + beta**2) * hits + beta**2 * missed + alarms
        if bottom:
            values.append((1 + beta**2) * hits / bottom)
    return sum(values) / len(values) if values else math.nan


def latency(sequences: dict[str, list[dict[str, Any]]], duration: int) -> float:
    values = []
    for frames in sequences.values():
        with_references = [frame["number"] for frame in frames if frame["references"]]
        if with_references:
            end = min(first_hit(frames, duration), frames[-1]["number"] + 1)
            values.append(end - with_references[0])
    return sum(values) / len(values) if values else math.nan


def detected(sequences: dict[str, list[dict[str, Any]]], duration: int) -> float:
    values = []
    for frames in sequences.values():
        if any(frame["references"] for frame in frames):
            values.append(first_hit(frames, duration) < math.inf)
    return sum(values) / len(values) if values else math.nan


def alarms_per_minute(
    sequences: dict[str, list[dict[str, Any]]], duration: int, fps: float
) -> float:
    alarms, minutes = 0, 0.0
    for frames in sequences.values():
        lasting = 0
        for frame in frames:
            lasting = lasting + 1 if frame["alarms"] else 0
            alarms += lasting == duration
        minutes += (frames[-1]["number"] - frames[0]["number"] + 1) / fps / 60
    return alarms / minutes
