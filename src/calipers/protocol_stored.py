# SPDX-License-Identifier: Apache-2.0
"""From the JSON of a protocol back to the document of its TOML, so that both are checked by the
same rules.
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


def toml_document(stored: Any, file: str) -> dict[str, Any]:
    """Return the document of ``calipers.protocol/1`` whose protocol has this JSON; null is the
    limit it stands for.

    Only the shape is looked at here: `calipers.protocol_schema.check_document` judges the values.
    """
    _check_shape(stored, file)
    view = stored["matching"]
    matching = {
        **{key: view[key] for key in VIEW},
        "thresholds": stored["thresholds"],
        "classes": "within" if view["within_class"] else "ignore",
        "max_dets": _limit("max_dets", view["max_dets"]),
        "score_cut": _limit("score_cut", stored["score_cut"]),
        "ties": stored["ties"],
    }
    sizes = {
        name: [_limit(name, bound) for bound in _pair(size)]
        for name, size in stored["sizes"].items()
    }
    rescale = {} if stored["rescale_to"] is None else {"rescale_to": stored["rescale_to"]}
    strata = {} if stored["strata"] is None else {"strata": stored["strata"]}
    return {
        **{key: stored[key] for key in ("schema", "name", "source")},
        "matching": matching,
        "sizes": {**sizes, "from": stored["size_from"], **rescale},
        **({"maps": stored["maps"]} if "maps" in stored else {}),
        "metric": [_plan(entry) for entry in stored["metrics"]],
        "statistics": {**{key: stored[key] for key in STATISTICS}, **strata},
        "report": {"headline": stored["headline"]},
    }


def _check_shape(stored: Any, file: str) -> None:
    if not isinstance(stored, Mapping):
        raise InputError("a protocol", rule="type", file=file, location="/protocol", value=stored)
    for key in KEYS:
        if key not in stored:
            raise InputError(
                f"the key {key!r}", rule="missing-key", file=file, location="/protocol"
            )
        if not isinstance(stored[key], KINDS.get(key, object)):
            place = f"/protocol/{key}"
            raise InputError(
                f"a {KINDS[key].__name__}",
                rule="type",
                file=file,
                location=place,
                value=stored[key],
            )
    for key in (*VIEW, "within_class", "max_dets"):
        if key not in stored["matching"]:
            raise InputError(
                f"the key {key!r}", rule="missing-key", file=file, location="/protocol/matching"
            )
    for k, name in enumerate(stored["headline"]):
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
