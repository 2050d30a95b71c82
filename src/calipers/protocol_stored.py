# SPDX-License-Identifier: Apache-2.0
"""From the JSON of a protocol to its TOML document, so that both are checked by the same rules.

`Protocol.from_dict` calls it when a saved evaluation is opened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calipers.errors import InputError

VIEW = ("criterion", "assignment", "strict", "duplicates")
STATISTICS = ("level", "replicates", "cluster", "interval", "seed")
KINDS: dict[str, type] = {
    "matching": dict,
    "thresholds": list,
    "sizes": dict,
    "metrics": list,
    "headline": list,
}
KEYS = (
    "schema",
    "name",
    "source",
    "size_from",
    "rescale_to",
    "ties",
    "score_cut",
    *KINDS,
    *STATISTICS,
    "strata",
)


def toml_document(document: Any, file: str) -> dict[str, Any]:
    """Return the document of ``calipers.protocol/1`` whose protocol has this JSON.

    Null becomes the limit it stands for. Only the shape is checked here:
    `calipers.protocol_schema.check_document` judges the values.
    """
    _check_shape(document, file)
    view = document["matching"]
    matching = {key: view[key] for key in VIEW}
    matching |= {
        "thresholds": document["thresholds"],
        "classes": "within" if view["within_class"] else "ignore",
        "max_dets": _limit("max_dets", view["max_dets"]),
        "score_cut": _limit("score_cut", document["score_cut"]),
        "ties": document["ties"],
    }
    sizes: dict[str, Any] = {}
    for name, size in document["sizes"].items():
        sizes[name] = [_limit(name, bound) for bound in _pair(size)]
    sizes["from"] = document["size_from"]
    if document["rescale_to"] is not None:
        sizes["rescale_to"] = document["rescale_to"]
    statistics = {key: document[key] for key in STATISTICS}
    if document["strata"] is not None:
        statistics["strata"] = document["strata"]
    result = {key: document[key] for key in ("schema", "name", "source")}
    result |= {"matching": matching, "sizes": sizes}
    if "maps" in document:
        result["maps"] = document["maps"]
    result |= {
        "metric": [_plan(entry) for entry in document["metrics"]],
        "statistics": statistics,
        "report": {"headline": document["headline"]},
    }
    return result


def _check_shape(document: Any, file: str) -> None:
    if not isinstance(document, Mapping):
        raise InputError("a protocol", rule="type", file=file, location="/protocol", value=document)
    for key in KEYS:
        if key not in document:
            raise InputError(
                f"the key {key!r}", rule="missing-key", file=file, location="/protocol"
            )
        if not isinstance(document[key], KINDS.get(key, object)):
            place = f"/protocol/{key}"
            raise InputError(
                f"a {KINDS[key].__name__}",
                rule="type",
                file=file,
                location=place,
                value=document[key],
            )
    for key in (*VIEW, "within_class", "max_dets"):
        if key not in document["matching"]:
            raise InputError(
                f"the key {key!r}", rule="missing-key", file=file, location="/protocol/matching"
            )
    for k, name in enumerate(document["headline"]):
        if not isinstance(name, str):
            raise InputError(
                "a name", rule="type", file=file, location=f"/protocol/headline/{k}", value=name
            )


def _limit(key: str, value: Any) -> Any:
    """Return the infinity that JSON has no word for: no cut of the scores is below all of them,
    other limits above.
    """
    if value is not None:
        return value
    return -math.inf if key == "score_cut" else math.inf


def _pair(size: Any) -> list[Any]:
    return size if isinstance(size, list) else [size]


def _plan(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: _limit(key, value) for key, value in entry.items()}
