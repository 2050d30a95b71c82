# SPDX-License-Identifier: Apache-2.0
"""A page on which a person ranks the maps of the benchmark, without knowing whose they are.

A benchmark with its brains (`calipers.studies.anomaly.archive.with_brains`) comes in, one HTML file
goes out (`write_ranking_page`): slices that contain a part of a sphere, as the raters of the paper
saw them, each with the maps of all algorithms in another random order. The person presses letters,
the best map first, and saves a table with the columns ``algorithm`` and ``rank`` (the mean over
slices), which ``--ranking`` reads. The page needs no network and sends nothing; who reads its
source can find the names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.results.files import write_atomically
from calipers.show.html import document, paragraph, text
from calipers.studies.anomaly.archive import Benchmark, ExampleSlice
from calipers.studies.anomaly.figures import encode_levels, encode_outlines
from calipers.synthetic.demo import stream

TITLE = "Rank these maps"
SCORING = (
    "Maps that you do not pick share the places that are left; slices without any pick do not "
    "count."
)


def write_ranking_page(path: Path, bench: Benchmark, *, seed: int, archive: str) -> Path:
    """Write the page; ``archive`` is the hash of the archive, which saved choices name."""
    write_atomically(path, ranking_page(bench, seed=seed, archive=archive))
    return path


def ranking_page(bench: Benchmark, *, seed: int, archive: str = "") -> str:
    """Return the page as HTML."""
    slices = []
    for k, example in enumerate(bench.examples):
        order = stream(seed, "ranking", str(k)).permutation(len(bench.algorithms))
        slices.append(_slice(example, [bench.algorithms[j] for j in order.tolist()]))
    payload = json.dumps({"archive": archive, "seed": seed, "slices": slices})
    # "</script>" inside of JSON would end the element.
    payload = payload.replace("<", "\\u003c")
    return document(
        TITLE,
        _body(bench),
        skip="Skip to the maps",
        payload=payload,
        styles=("ranking.css",),
        script="ranking.js",
    )


def _slice(example: ExampleSlice, algorithms: list[str]) -> Mapping[str, Any]:
    assert example.image is not None, "nobody can judge a map without the slice"
    maps = []
    for name in algorithms:
        maps.append({"algorithm": name, "shade": encode_levels(example.maps[name], scores=True)})
    return {
        "title": example.title,
        "image": encode_levels(example.image, scores=False),
        "truth": encode_outlines(example.labels > 0),
        "maps": maps,
    }


def _body(bench: Benchmark) -> str:
    n = len(bench.examples)
    guide = (
        f"{n} slices of brains with spheres, and the maps of {len(bench.algorithms)} algorithms in "
        "random order, without names. Which map would you rather have beside the slice? Press the "
        "letters of the maps from best to worst (or click). "
    )
    keys = (
        "<p><kbd>A</kbd> <kbd>B</kbd> … rank or take back · <kbd>Backspace</kbd> undo · "
        "<kbd>Enter</kbd> or <kbd>→</kbd> next slice · <kbd>←</kbd> previous slice</p>"
    )
    trial = (
        '<section id="trial" aria-labelledby="content-title"><div id="content" tabindex="-1">'
        '<h2 id="content-title">Slice 1</h2></div>'
        '<div class="trial"><figure><figcaption>The slice; outlines show the spheres'
        '</figcaption><div id="slice"></div></figure><div id="cards" class="cards"></div></div>'
        '<p id="state" role="status" class="soft"></p><div class="steps">'
        '<button type="button" id="back">Previous slice (←)</button>'
        '<button type="button" id="undo">Undo (Backspace)</button>'
        '<button type="button" id="next">Next slice (Enter)</button></div></section>'
    )
    end = (
        '<section id="end" aria-labelledby="end-title" hidden>'
        '<h2 id="end-title" tabindex="-1">Your ranking</h2><p id="judged"></p>'
        '<table><thead><tr><th scope="col">algorithm</th><th scope="col">mean rank</th></tr>'
        '</thead><tbody id="ranks"></tbody></table><div class="steps">'
        '<button type="button" id="save">Save ranking.csv</button>'
        '<button type="button" id="save-all">Save all choices (JSON)</button>'
        '<button type="button" id="again">Back to the slices</button></div>'
        "<pre>calipers study anomaly --ranking ranking.csv -o DIR</pre></section>"
    )
    return (
        f"<header><h1>{text(TITLE)}</h1>{paragraph(guide + SCORING)}{keys}</header>"
        f"<main>{trial}{end}</main>"
        "<noscript><p>This page needs JavaScript, which runs in the page alone.</p></noscript>"
    )
