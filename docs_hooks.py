# SPDX-License-Identifier: Apache-2.0
"""Tables of the documentation that are made from the code: MkDocs calls `on_page_markdown`.

The table of metrics comes from the registry, the presets and the facts of every metric, so a new
metric is in the documentation without a change to a page.
"""

from __future__ import annotations

from typing import Any

from calipers import Protocol, presets, registry

METRICS = "<!-- metrics:"  # how the line begins that becomes the table
MOST_NAMES = 5


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with its tables filled in."""
    lines = []
    for line in markdown.split("\n"):
        lines.append(metrics_table() if line.startswith(METRICS) else line)
    return "\n".join(lines)


def metrics_table() -> str:
    """Return the table of all kinds of metrics."""
    names = _names_in_presets()
    lines = [
        "| kind | meaning | better | names in presets | options of its own |",
        "|---|---|---|---|---|",
    ]
    for kind in registry.known("metric"):
        metric = registry.resolve("metric", kind)
        facts = metric.facts
        link = f"[`{kind}`](../{facts.page})" if facts.page else f"`{kind}`"
        better = "higher" if facts.higher_is_better else "lower"
        examples = _code(names.get(kind, [])[:MOST_NAMES])
        lines.append(
            f"| {link} | {facts.meaning} | {better} | {examples} | {_code(metric.own_options)} |"
        )
    return "\n".join(lines)


def _names_in_presets() -> dict[str, list[str]]:
    """Return kind -> the names that presets give to metrics of that kind."""
    names: dict[str, list[str]] = {}
    for preset in presets():
        for plan in Protocol.load(preset).metrics:
            names_of_kind = names.setdefault(plan.kind, [])
            if plan.name not in names_of_kind:
                names_of_kind.append(plan.name)
    return names


def _code(words: Any) -> str:
    return ", ".join(f"`{word}`" for word in words)
