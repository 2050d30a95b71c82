"""What docs/explanation/studies.md quotes from the pages of studies, and whether pages have it.

`PASSAGES` names, for every paragraph that quotes numbers, the claims, figures and tables that they
come from. A quoted number is supported if a number of these sources, or a hundred times it, rounds
to it. Sources are small, a claim or a table, so that a number does not find another one by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent.parent / "docs" / "explanation" / "studies.md"
NUMBER = re.compile(r"(?<![\w.@:/])[-−]?\d[\d,]*(?:\.\d+)?")
# Numbers that are names: of figures, metrics, thresholds and sizes of images.
NAMES = re.compile(
    r"figures? \d+( and \d+)?|table \d+|tables \d+ and \d+|\bAP@[\d.:]+|IoU (of )?0\.\d+"
    r"|F1 at 0\.\d+|r = [\d.]+|tau = [\d.]+|95 %|DICE of 0\.7|EndoCV 20\d\d|R\d+\b"
    r"|`[^`]*`|\b[123]D\b|F[12]\b"
)


def passage(start: str) -> str:
    """Return the paragraph or the entry of a list that starts with some words."""
    text = DOCS.read_text(encoding="utf-8")
    at = text.find(start)
    if at < 0:
        raise ValueError(f"docs/explanation/studies.md has no passage {start!r}")
    end = re.compile(r"\n(?=- |\n|#)").search(text, at)
    return " ".join(text[at : end.start() if end else len(text)].split())


def quoted(text: str) -> Iterator[tuple[str, float, float]]:
    """Yield every number of a passage: as it stands there, its value, and half its last digit."""
    for match in NUMBER.finditer(NAMES.sub(" ", text)):
        word = match.group().replace(",", "").replace("−", "-").rstrip(".")
        decimals = len(word.partition(".")[2])
        yield match.group(), float(word), 0.5 * 10.0**-decimals + 1e-9


def numbers_of(document: Mapping[str, Any], source: str) -> list[float]:
    """Return all numbers of a claim, a figure or a table of the document of a study."""
    parts: list[Any] = []
    for claim in document["claims"]:
        if claim["name"] == source:
            share = claim["share"] or {}
            parts += [claim["evidence"], claim["note"], claim["text"], *share.values()]
    for one in (*document["figures"], *document["tables"]):
        if one["name"] == source:
            parts += [one["title"], one.get("caption", ""), one.get("note", "")]
            parts += [cell for row in one["rows"] for cell in row]
    if source == "summary":
        parts.append(document["summary"])
    if not parts:
        raise ValueError(f"the study {document['study']} has no {source!r}")
    values: list[float] = []
    for part in parts:
        if isinstance(part, Mapping):
            values += [float(value) for value in part.values() if value is not None]
        elif isinstance(part, str):
            for word in re.findall(r"[-−+]?\d[\d,]*(?:\.\d+)?", part):
                values.append(float(word.replace(",", "").replace("−", "-")))
        elif isinstance(part, int | float):
            values.append(float(part))
    return values


def unsupported(document: Mapping[str, Any], passages: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the numbers that a passage quotes and none of its sources has."""
    lost = []
    for start, sources in passages.items():
        values: list[float] = []
        for source in sources:
            values += numbers_of(document, source)
        for word, value, half in quoted(passage(start)):
            # Text says percent where a table has shares, or the other way round.
            scaled = [one * factor for one in values for factor in (1.0, 100.0, 0.01)]
            if not any(abs(abs(value) - abs(one)) <= half for one in scaled):
                lost.append(f"{start}: {word}")
    return lost


def quick_passages(study: str) -> dict[str, tuple[str, ...]]:
    """Return the passages whose numbers a quick run has, without any further package."""
    others = {*FULL.get(study, ())}
    for starts in PACKAGES.get(study, {}).values():
        others |= {*starts}
    return {start: sources for start, sources in PASSAGES[study].items() if start not in others}


# Study -> where a passage starts -> its sources on the page. Without those that follow, a quick run
# has all numbers, because trained results ship.
PASSAGES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "rodeo": {
        "Others hold in part. RoDeO gives": ("table-1-totals", "ap-survives-size-errors"),
        "The paper's trained model is not public.": (
            "map-hides-what-rodeo-shows-trained",
            "nodules-fail-in-shape-trained",
            "table-1-digits",
            "table-1-chests",
        ),
        "in both orders of equal scores.": ("table-1-readers",),
    },
    "anomaly": {
        "What the paper leaves open is scanned": ("ap-auroc-fall-in-a", "soft-iou-rises-in-a"),
        "- **Pooled AP follows the large spheres": ("pooled-order-follows-large",),
        "- **Raters who see only slices": ("people-saw-only-slices-with-objects",),
        "- **The threshold decides:**": ("threshold-decides",),
        "- **Half of the volumes are normal": ("table-4",),
        "- **The printed formula of the soft IoU**": ("printed-formula",),
    },
    "stability": {
        "Of 49 claims that this run decides": ("summary",),
        "- **Good bags without good places.**": ("table-7-known",),
        "- **Max has the lowest Spearman**": ("mean-like-lse-small",),
        "- **NOR is the most stable": ("table-7-known",),
        "- **Stability does not grow": ("stability-linear-in-auc",),
        "- **Over bags APJ grows with DICE**": ("stability-linear-in-dice",),
        "- **Pictures of low quality**": ("low-quality-stable-and-wrong", "consistent-but-wrong"),
        "- **Spearman is not always higher": ("spearman-above-apj",),
        "- **Misprints:** a row total": ("table-misprints",),
        "The correlation of 0.98 between": (
            "apj-and-aj-interchangeable",
            "stability-is-a-prerequisite",
            "good-localization-without-stability",
        ),
    },
    "monitors": {
        "- **Choosing a monitor by OOD labels": (
            "ood-ranking-misleads",
            "ood-is-ambiguous-for-detection",
            "chosen-by-ood-leaves-hazard",
        ),
        "- **The detectors do what": (
            "good-in-worse-out-of-distribution",
            "ood-is-a-proxy",
            "ideal-monitors-differ",
        ),
        "- **How good a proxy OOD is": ("harm-decides-on-the-proxy",),
        "- **It matters what": ("ood-is-ambiguous-for-detection",),
        "- **Features do not win": ("figure-8",),
        "- **Which monitor is best depends": ("tau-changes-the-order",),
    },
    "polyps": {
        "- **Size is what matters most.**": ("size-orders-ap", "size-effect", "sizes-mislead"),
        "- **Centres differ**": ("centres-differ",),
        "- **Criteria of position accept": ("position-agrees-better",),
        "- **A centre outside": ("non-convex-points",),
        "- **Mask and hull IoU are alike**": ("mask-like-hull", "figure-6"),
        "- **The kind of reference matters": ("inferior-varies-more", "figure-4"),
        "- **Point criteria exceed box IoU**": ("points-above-most-thresholds",),
        "- **Misprints:** the mean of small": (
            "printed-table-2",
            "printed-table-3",
            "table-5-printed-1",
        ),
        "- **Left to future work": (
            "figure-ranking",
            "figure-prevalence",
            "assignment-matters-little",
        ),
    },
}
# What only a full run has: all frames of the centres, all designs, all replicates.
FULL: Mapping[str, tuple[str, ...]] = {
    "anomaly": ("What the paper leaves open is scanned",),
    "monitors": ("- **Which monitor is best depends",),
    "polyps": tuple(start for start in PASSAGES["polyps"] if "Misprints" not in start),
}
# What only an installed package has: a study -> the package -> passages.
PACKAGES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "rodeo": {"torchxrayvision": ("in both orders of equal scores.",)},
    "polyps": {
        "torchxrayvision": ("- **A centre outside",),
        "pylidc": ("- **Size is what matters most.**", "- **Criteria of position accept"),
    },
}
