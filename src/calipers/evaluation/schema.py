# SPDX-License-Identifier: Apache-2.0
"""The schema ``calipers.protocol/1``: which keys a protocol has, of which type, and how it is
written as TOML.

From the JSON of a protocol to its TOML document, so that both are checked by the same rules.

`Protocol.from_dict` calls it when a saved evaluation is opened.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from calipers.errors import InputError, did_you_mean
from calipers.metrics.maps import AXES, CONNECTIVITIES, SCORES
from calipers.registry import INTERVALS, own_matching, resolve

if TYPE_CHECKING:
    from calipers.evaluation.protocol import Protocol

SCHEMA = "calipers.protocol/1"
NO_LIMIT = sys.maxsize
NUMBER = r"-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?"
NAME = re.compile(
    r"[A-Za-z][A-Za-z0-9.\- ]*(/[a-z]+)?"
    rf"(@([a-z][a-z\-]*:)?{NUMBER}(:{NUMBER})?|@[a-z][a-z\-]*)?(#{NUMBER})?"
)
CLAIMS = {
    "centre": "point-in-hull"
}  # words behind the @ that name a criterion otherwise than the registry does
TOP = (
    "schema",
    "name",
    "source",
    "extends",
    "matching",
    "sizes",
    "maps",
    "metric",
    "statistics",
    "report",
)
MATCHING: dict[str, Any] = {
    "criterion": str,
    "assignment": str,
    "thresholds": (int, float, list, dict),
    "classes": ("within", "ignore"),
    "max_dets": (int, float),
    "score_cut": (int, float),
    "ties": ("coco", "block"),
    "strict": bool,
    "duplicates": ("penalised", "forgiven"),
}
MAPS: dict[str, Any] = {
    "threshold": (float, int, str),
    "tuning": str,
    "connectivity": CONNECTIVITIES,
    "least": int,
    "score": SCORES,
    "slices": AXES,
    "batch": int,
}
STATISTICS: dict[str, Any] = {
    "level": float,
    "replicates": int,
    "cluster": (str, list),
    "interval": INTERVALS,
    "seed": int,
    "strata": str,
}


def check_document(document: Mapping[str, Any], file: str) -> None:
    """Raise for unknown keys, wrong types and values out of range; the error names the place."""
    _check_keys(document, TOP, file, "")
    if document.get("schema") != SCHEMA:
        raise InputError(
            f'schema = "{SCHEMA}"',
            rule="schema",
            file=file,
            field="schema",
            value=document.get("schema"),
        )
    for key in ("name", "source"):
        if key not in document and "extends" not in document:
            raise InputError(f"the key {key!r}", rule="missing-key", file=file, location=key)
        if not isinstance(document.get(key, ""), str):
            raise InputError("text", rule="type", file=file, location=key, value=document[key])
    for key in ("matching", "sizes", "maps", "statistics", "report"):
        if not isinstance(document.get(key, {}), dict):
            raise InputError("a table", rule="type", file=file, location=key, value=document[key])
    _typed(document.get("matching", {}), MATCHING, file, "matching")
    _typed(document.get("maps", {}), MAPS, file, "maps")
    _typed(document.get("statistics", {}), STATISTICS, file, "statistics")
    _typed(document.get("report", {}), {"headline": list}, file, "report")
    _check_thresholds(document.get("matching", {}), file, "matching")
    _check_max_dets(document.get("matching", {}), file, "matching")
    _check_statistics(document.get("statistics", {}), file)
    _check_sizes(document.get("sizes", {}), file)
    _check_metrics(document.get("metric", []), file)


def thresholds_of(value: float | Sequence[float] | Mapping[str, float]) -> tuple[float, ...]:
    """Return the thresholds of a number, a list, or a range (``linspace``: ends are exact)."""
    if isinstance(value, Mapping):
        import numpy as np

        low, high, step = value["from"], value["to"], value["step"]
        return tuple(np.linspace(low, high, round((high - low) / step) + 1).tolist())
    if isinstance(value, int | float):
        return (float(value),)
    return tuple(float(entry) for entry in value)


def contradiction(name: str, kind: str, options: Mapping[str, Any]) -> str | None:
    """Return what a metric's name claims and its options deny, such as a threshold, or None."""
    head, _, cut = name.partition("#")
    _, _, claim = head.partition("@")
    if cut and not _are_close([float(cut)], [options.get("score_cut", -math.inf)]):
        return f"a score cut of {cut}"
    if not claim or own_matching(kind):  # such a metric checks its name itself
        return None
    words = claim.split(":")
    if not _number(words[0]):
        word = words.pop(0)
        criterion = CLAIMS.get(word, word)
        if criterion != options["criterion"]:
            return f"the criterion {criterion}"
    claimed = [float(word) for word in words if _number(word)]
    values = list(options.get(resolve("metric", kind).facts.claim, ()))
    if len(claimed) == 2 and values:
        values = [values[0], values[-1]]  # a range is named by its two ends
    if claimed and not _are_close(claimed, values):
        return f"{claim} behind the @"
    return None


def _are_close(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether two lists of numbers are equal but for rounding."""
    if len(a) != len(b):
        return False
    return all(math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12) for x, y in zip(a, b))


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def render(protocol: Protocol) -> str:
    """Return a protocol as TOML."""
    p, view = protocol, protocol.matching
    lines = [
        f'schema = "{SCHEMA}"',
        f"name = {_toml(p.name)}",
        f"source = {_toml(p.source)}",
        "",
        "[matching]",
    ]
    max_dets = float("inf") if view.max_dets == NO_LIMIT else view.max_dets
    matching = {
        "criterion": view.criterion,
        "assignment": view.assignment,
        "thresholds": list(p.thresholds),
        "classes": "within" if view.within_class else "ignore",
        "max_dets": max_dets,
        "score_cut": p.score_cut,
        "ties": p.ties,
        "strict": view.strict,
        "duplicates": view.duplicates,
    }
    lines += _table(matching)
    sizes: dict[str, Any] = {"from": p.size_from}
    for name, size in p.sizes.items():
        sizes[name] = list(size)
    if p.rescale_to is not None:
        sizes["rescale_to"] = list(p.rescale_to)
    lines += ["", "[sizes]", *_table(sizes)]
    if p.maps is not None:
        lines += ["", "[maps]", *_table(p.maps.as_dict())]
    for plan in p.metrics:
        lines += ["", "[[metric]]", *_table({"name": plan.name, "kind": plan.kind, **plan.options})]
    cluster = list(p.cluster) if isinstance(p.cluster, tuple) else p.cluster
    statistics: dict[str, Any] = {
        "level": p.level,
        "replicates": p.replicates,
        "cluster": cluster,
        "interval": p.interval,
        "seed": p.seed,
    }
    if p.strata:
        statistics["strata"] = p.strata
    lines += ["", "[statistics]", *_table(statistics)]
    lines += ["", "[report]", *_table({"headline": list(p.headline)}), ""]
    return "\n".join(lines)


def _table(entries: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in entries.items()]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        import json

        return json.dumps(value, ensure_ascii=False)  # JSON's escapes are TOML's
    if isinstance(value, float):
        return repr(value)  # inf and -inf are TOML too
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return str(value)


def _check_keys(table: Mapping[str, Any], keys: Sequence[str], file: str, where: str) -> None:
    for key in table:
        if key not in keys:
            location = f"{where}.{key}" if where else key
            hint = did_you_mean(key, keys)
            raise InputError(
                "a key of the protocol schema",
                rule="unknown-key",
                file=file,
                location=location,
                value=key,
                hint=hint,
            )


def _typed(table: Mapping[str, Any], types: Mapping[str, Any], file: str, where: str) -> None:
    _check_keys(table, tuple(types), file, where)
    for key, value in table.items():
        _check_type(value, types[key], file, f"{where}.{key}")


def _check_type(value: Any, expected: Any, file: str, where: str) -> None:
    if isinstance(expected, tuple) and isinstance(expected[0], str):
        if value not in expected:
            hint = did_you_mean(str(value), expected)
            raise InputError(
                "one of " + ", ".join(expected),
                rule="choice",
                file=file,
                location=where,
                value=value,
                hint=hint,
            )
        return
    types = expected if isinstance(expected, tuple) else (expected,)
    if float in types and int not in types:
        types = (*types, int)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        names = " or ".join(t.__name__ for t in types)
        raise InputError(names, rule="type", file=file, location=where, value=value)
    # TOML has nan, and no setting means anything with it.
    if isinstance(value, float) and math.isnan(value):
        raise InputError("a number", rule="non-finite", file=file, location=where, value=value)


def _check_thresholds(table: Mapping[str, Any], file: str, where: str) -> None:
    """Raise unless the thresholds are a range, or ascending numbers."""
    if "thresholds" not in table:
        return
    thresholds, place = table["thresholds"], f"{where}.thresholds"

    def refuse(expected: str) -> None:
        raise InputError(expected, rule="thresholds", file=file, location=place, value=thresholds)

    if isinstance(thresholds, Mapping):
        _check_keys(thresholds, ("from", "to", "step"), file, place)
        if len(thresholds) != 3 or not all(map(_is_number, thresholds.values())):
            refuse("the numbers from, to and step")
        if not thresholds["step"] > 0 or thresholds["to"] < thresholds["from"]:
            refuse("from <= to and step > 0")
        if (thresholds["to"] - thresholds["from"]) / thresholds["step"] > 10_000:
            refuse("at most 10,000 thresholds")
        return
    values = thresholds if isinstance(thresholds, list) else [thresholds]
    if not values or not all(map(_is_number, values)):
        refuse("at least one number")
    if any(b <= a for a, b in pairwise(values)):
        refuse("ascending thresholds, each once")


def _check_max_dets(table: Mapping[str, Any], file: str, where: str) -> None:
    limit = table.get("max_dets", 1)
    if limit != math.inf and not (limit >= 1 and limit == int(limit)):
        place = f"{where}.max_dets"
        raise InputError(
            "a whole number from 1 on, or inf", rule="range", file=file, location=place, value=limit
        )


def _check_texts(table: Mapping[str, Any], key: str, file: str, where: str) -> None:
    """Raise unless an entry is a text or a list of texts."""
    value = table.get(key, "")
    texts = [value] if isinstance(value, str) else value
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(
            "text, or a list of texts",
            rule="type",
            file=file,
            location=f"{where}.{key}",
            value=value,
        )


def _check_statistics(table: Mapping[str, Any], file: str) -> None:
    _check_texts(table, "cluster", file, "statistics")
    if not 0 < table.get("level", 0.95) < 1:
        raise InputError(
            "a level between 0 and 1",
            rule="range",
            file=file,
            location="statistics.level",
            value=table["level"],
        )
    for key in ("replicates", "seed"):
        if table.get(key, 0) < 0:
            raise InputError(
                "a number that is not negative",
                rule="range",
                file=file,
                location=f"statistics.{key}",
                value=table[key],
            )


def _check_sizes(sizes: Mapping[str, Any], file: str) -> None:
    for key, value in sizes.items():
        where = f"sizes.{key}"
        if key == "from":
            _check_type(value, ("declared", "box", "mask"), file, where)
            continue
        pair = (
            isinstance(value, list)
            and len(value) == 2
            and all(_is_number(entry) for entry in value)
        )
        if not pair or (key != "rescale_to" and not 0 <= value[0] < value[1]):
            raise InputError(
                "[smallest, largest] area",
                rule="size-range",
                file=file,
                location=where,
                value=value,
            )
        if key == "rescale_to" and min(value) <= 0:
            raise InputError(
                "[width, height]", rule="size-range", file=file, location=where, value=value
            )


def _check_metrics(metrics: Any, file: str) -> None:
    if not isinstance(metrics, list):
        raise InputError(
            "[[metric]] tables", rule="type", file=file, location="metric", value=metrics
        )
    for k, entry in enumerate(metrics):
        where = f"metric[{k}]"
        if not isinstance(entry, dict):
            raise InputError(
                "a [[metric]] table", rule="type", file=file, location=where, value=entry
            )
        for key in ("name", "kind"):
            if not isinstance(entry.get(key), str):
                raise InputError(
                    f"the key {key!r} as text",
                    rule="missing-key",
                    file=file,
                    location=where,
                    value=entry.get(key),
                )
        if not NAME.fullmatch(entry["name"]):
            hint = (
                'NAME ["/" part] ["@" [criterion ":"] threshold] ["#" score-cut], '
                "such as sensitivity@0.5"
            )
            raise InputError(
                "a metric name",
                rule="metric-name",
                file=file,
                location=where,
                value=entry["name"],
                hint=hint,
            )
        matching = {key: value for key, value in entry.items() if key in MATCHING}
        _typed(matching, MATCHING, file, where)
        _check_thresholds(entry, file, where)
        _check_max_dets(entry, file, where)
        if not isinstance(entry.get("size", ""), str):
            raise InputError(
                "the name of a size", rule="type", file=file, location=where, value=entry["size"]
            )


def _is_number(value: Any) -> bool:
    """Return whether this is a number; infinity is one, NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


VIEW = ("criterion", "assignment", "strict", "duplicates")
STORED_STATISTICS = ("level", "replicates", "cluster", "interval", "seed")
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
    *STORED_STATISTICS,
    "strata",
)


def toml_document(document: Any, file: str) -> dict[str, Any]:
    """Return the document of ``calipers.protocol/1`` whose protocol has this JSON.

    Null becomes the limit it stands for. Only the shape is checked here:
    `calipers.evaluation.schema.check_document` judges the values.
    """
    _check_shape(document, file)
    view = document["matching"]
    matching = {key: view[key] for key in VIEW}
    matching |= {
        "thresholds": document["thresholds"],
        "classes": "within" if view["within_class"] else "ignore",
        "max_dets": _stored_limit("max_dets", view["max_dets"]),
        "score_cut": _stored_limit("score_cut", document["score_cut"]),
        "ties": document["ties"],
    }
    sizes: dict[str, Any] = {}
    for name, size in document["sizes"].items():
        sizes[name] = [_stored_limit(name, bound) for bound in _pair(size)]
    sizes["from"] = document["size_from"]
    if document["rescale_to"] is not None:
        sizes["rescale_to"] = document["rescale_to"]
    statistics = {key: document[key] for key in STORED_STATISTICS}
    if document["strata"] is not None:
        statistics["strata"] = document["strata"]
    result = {key: document[key] for key in ("schema", "name", "source")}
    result |= {"matching": matching, "sizes": sizes}
    if "maps" in document:
        result["maps"] = document["maps"]
    result |= {
        "metric": [_stored_plan(entry) for entry in document["metrics"]],
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


def _stored_limit(key: str, value: Any) -> Any:
    """Return the infinity that JSON has no word for: no cut of the scores is below all of them,
    other limits above.
    """
    if value is not None:
        return value
    return -math.inf if key == "score_cut" else math.inf


def _pair(size: Any) -> list[Any]:
    return size if isinstance(size, list) else [size]


def _stored_plan(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: _stored_limit(key, value) for key, value in entry.items()}
