"""The hash of a result is that of its canonical text, whatever way it is computed."""

from __future__ import annotations

import hashlib
import json
import tracemalloc

import pytest

from calipers.results.files import canonical, sha256_of

ROW = {"name": "größe", "value": 0.1, "none": None}


@pytest.mark.parametrize(
    "document",
    [
        {"protocol": {"b": 1, "a": [1.5, "x"]}, "rows": [ROW, {"other": [ROW]}]},
        {"zebra": 1, "rows": [], "aardvark": {}},
        {"rows": [ROW]},
        {"rows": {"not": "a list"}},
        {"b": 2, "a": 1},
        {},
        [ROW, ROW],
        "text",
    ],
)
def test_the_hash_is_that_of_the_whole_text(document) -> None:
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    assert canonical(document) == text
    assert sha256_of(document) == hashlib.sha256(text.encode("utf-8")).hexdigest()


def test_rows_are_never_in_memory_together() -> None:
    """Every row repeats the name of its model, and a name may be a megabyte."""
    row = {"model": "m" * 100_000}
    tracemalloc.start()
    sha256_of({"rows": [row] * 200})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * len(row["model"])


def test_what_is_no_number_or_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        sha256_of({"rows": [{"value": float("nan")}]})
    with pytest.raises(UnicodeEncodeError):
        sha256_of({"rows": [{"name": "\ud800"}]})
