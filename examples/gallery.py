# SPDX-License-Identifier: Apache-2.0
"""Every kind of figure with made-up numbers, in one page, by day and by night.

Run it with: python examples/gallery.py gallery.html
Without a name of a file it only says how large the drawings are.
"""

import math
import sys
from html import escape
from pathlib import Path

import numpy as np

from calipers.show import figures as f
from calipers.show.svg.draw import stylesheet, svg

RATES = tuple(2.0**k for k in range(-3, 4))
FALSE_ALARMS = f.Axis(
    "false alarms per image",
    0.125,
    8.0,
    log=True,
    ticks=RATES,
    names=("1/8", "1/4", "1/2", "1", "2", "4", "8"),
)
CLASSES = (
    "nodule",
    "effusion",
    "atelectasis",
    "cardiomegaly",
    "pneumothorax",
    "consolidation",
    "infiltration",
    "mass",
)
PAGE = """<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content="width=device-width">
<title>Figures of Calipers</title><style>{style}
*{{box-sizing:border-box}}body{{margin:0;font:16px/1.4 system-ui,sans-serif}}
section{{background:var(--paper);color:var(--ink);padding:1.25rem}}
.wall{{display:grid;gap:2rem 2.5rem;max-width:80rem;margin:auto;
grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr))}}
h1{{margin:1rem 1.25rem}}figure{{margin:0;min-width:0}}
figcaption{{font-weight:600;margin-bottom:.5rem}}
.narrow{{display:none}}@media(max-width:36rem){{.broad{{display:none}}.narrow{{display:block}}}}
</style><main><h1>Figures of Calipers</h1>{body}</main></html>"""


def curve(name: str, slot: int, height: float, points: int = 101) -> f.Line:
    """Return a curve of found lesions over false alarms, with a band."""
    x = np.concatenate([[0.0], np.geomspace(0.03, 8, points - 1)])
    y = height * (1 - np.exp(-1.3 * np.sqrt(x)))
    half = 0.06 * np.sqrt(y * (1 - y) + 0.01)
    marks = tuple(int(np.abs(x - rate).argmin()) for rate in RATES)
    return f.Line(name, x, y, y - half, y + half, slot=slot, marks=marks)


def steps(name: str, slot: int, seed: int) -> f.Line:
    """Return precision over recall, in steps."""
    random = np.random.default_rng(seed)
    recall = np.sort(random.uniform(0, 0.85 + 0.05 * slot, 60))
    precision = np.clip(1 - recall**3 * (0.6 + 0.1 * slot) + random.normal(0, 0.01, 60), 0, 1)
    return f.Line(name, recall, np.maximum.accumulate(precision[::-1])[::-1], slot=slot, step=True)


def forest(series: tuple[str, ...], names: tuple[str, ...]) -> f.Forest:
    """Return estimates per class, one of them undefined."""
    random = np.random.default_rng(5)
    rows = []
    for k, name in enumerate((*names, "all classes")):
        n = int(random.integers(4, 240)) if name != "all classes" else 900
        middle = (
            random.uniform(0.35, 0.85, len(series))
            if name != "all classes"
            else np.full(len(series), 0.64)
        )
        half = 0.9 / math.sqrt(n)
        marks = [f.Mark(v, v - half, min(v + half, 1.0)) for v in middle.tolist()]
        if k == 3:
            marks[0] = f.Mark(math.nan, reason="no references of this class")
        rows.append(f.ForestRow(name, str(n), tuple(marks), strong=name == "all classes"))
    axis = f.Axis("average precision at IoU 0.5", 0.0, 1.0)
    return f.Forest(
        "Common findings are found more reliably than rare ones",
        axis,
        series,
        tuple(rows),
        n="references",
    )


def forest_of_differences() -> f.Forest:
    """Return differences with a line at zero; an interval leaves the axis."""
    values = [(0.041, 0.006, 0.075), (-0.012, -0.05, 0.03), (0.08, -0.06, 0.31), (0.02, 0.0, 0.04)]
    names = ("hospital A", "hospital B", "hospital C, scanner of an uncommonly long name", "all")
    rows = [
        f.ForestRow(n, s, (f.Mark(*v),), strong=n == "all")
        for n, s, v in zip(names, ("210", "98", "12", "320"), values)
    ]
    axis = f.Axis("difference of sensitivity, B minus A", -0.1, 0.2)
    return f.Forest(
        "Model B finds more lesions in hospital A only",
        axis,
        ("B minus A",),
        tuple(rows),
        n="images",
        reference=0.0,
    )


def bars(stacked: bool) -> f.Bars:
    """Return counts of errors per model, or sensitivity by size."""
    if stacked:
        series = ("duplicate", "wrong class", "wrong place", "background")
        heights = np.array([[12, 30, 9], [22, 18, 31], [40, 25, 22], [61, 33, 47]], float)
        x = f.Axis("model", names=("baseline", "with attention", "ensemble"))
        return f.Bars(
            "Most false alarms lie on background",
            x,
            f.Axis("false alarms"),
            series,
            heights,
            stacked=True,
        )
    heights = np.array(
        [[0.42, 0.63, 0.81, 0.9], [0.51, 0.7, 0.8, 0.93], [0.3, 0.66, 0.85, math.nan]]
    )
    x = f.Axis("diameter (mm)", names=("below 6", "6 to 10", "10 to 20", "above 20"))
    y = f.Axis("sensitivity", 0.0, 1.0)
    ends = heights - 0.06, np.minimum(heights + 0.06, 1)
    return f.Bars(
        "Small lesions are missed", x, y, ("baseline", "with attention", "ensemble"), heights, *ends
    )


def heat(n: int) -> f.HeatMap:
    """Return a confusion of classes."""
    random = np.random.default_rng(2)
    values = random.dirichlet(np.full(n, 0.3), n) * 0.4 + np.eye(n) * 0.6
    values[1, 2] = math.nan
    names = CLASSES[:n]
    x, y = f.Axis("predicted class", names=names), f.Axis("reference", names=names)
    return f.HeatMap("Masses are taken for nodules", x, y, values, "share of the references")


def scatter() -> f.Scatter:
    """Return models in the plane of place and shape."""
    random = np.random.default_rng(8)
    dots = []
    for slot, name in enumerate(("detectors", "oracles")):
        x, y = random.uniform(0.3, 0.9, 5), random.uniform(0.3, 0.9, 5)
        names = tuple(f"{name[:-1]} {k + 1}" for k in range(5))
        dots.append(
            f.Dots(name, x, y, x - 0.05, x + 0.05, y - 0.04, y + 0.06, names=names, slot=slot)
        )
    axes = f.Axis("localization", 0.2, 1.0), f.Axis("shape matching", 0.2, 1.0)
    return f.Scatter(
        "Models that find the place do not always find the shape", *axes, tuple(dots), diagonal=True
    )


def cloud() -> f.Scatter:
    """Return many points."""
    random = np.random.default_rng(9)
    x = random.lognormal(2, 0.6, 900)
    y = x * random.lognormal(0, 0.2, 900)
    axes = f.Axis("reference diameter (mm)", log=True), f.Axis("predicted diameter (mm)", log=True)
    return f.Scatter(
        "Diameters agree within a fifth", *axes, (f.Dots("hits", x, y),), diagonal=True
    )


def blob() -> f.Blob:
    """Return ranks of models."""
    shares = np.array(
        [
            [0.82, 0.15, 0.03, 0.0],
            [0.14, 0.6, 0.2, 0.06],
            [0.04, 0.2, 0.62, 0.14],
            [0, 0.05, 0.15, 0.8],
        ]
    )
    spans = ((1.0, 2.0), (1.0, 3.0), (1.0, 4.0), (3.0, 4.0))
    return f.Blob(
        "The first rank is firm",
        ("ensemble", "with attention", "baseline", "small"),
        shares,
        (1, 2, 3, 4),
        spans,
    )


def boxes() -> f.BoxDots:
    """Return samples, few and many."""
    random = np.random.default_rng(3)
    samples = (random.beta(8, 3, 25), random.beta(6, 3, 48), random.beta(5, 3, 900))
    return f.BoxDots(
        "Overlap varies least with attention",
        f.Axis("IoU of hits"),
        ("baseline", "attention", "ensemble"),
        samples,
    )


def contour() -> f.Contour:
    """Return a smooth surface."""
    xs, ys = np.linspace(0.1, 0.9, 17), np.linspace(0.0, 1.0, 21)
    values = 0.75 * np.exp(
        -(((xs[None, :] - 0.45) / 0.4) ** 2) - ((ys[:, None] - 0.35) / 0.55) ** 2
    )
    axes = f.Axis("IoU threshold"), f.Axis("score threshold")
    return f.Contour(
        "The score is highest at moderate thresholds", *axes, xs, ys, values, "F1 score"
    )


def histogram() -> f.Histogram:
    """Return scores of hits and false alarms."""
    random = np.random.default_rng(4)
    edges = np.linspace(0, 1, 26)
    samples = random.beta(6, 2, 400), random.beta(2, 5, 700)
    counts = np.stack([np.histogram(sample, edges)[0].astype(float) for sample in samples])
    axes = f.Axis("score", 0.0, 1.0), f.Axis("predictions")
    return f.Histogram(
        "A threshold of 0.55 separates most",
        *axes,
        edges,
        ("hits", "false alarms"),
        counts,
        cut=0.55,
    )


def overlay() -> f.Overlay:
    """Return boxes of all fates, two of them beyond the image."""
    marks = (
        f.BoxMark("reference", (60, 60, 160, 150), "nodule"),
        f.BoxMark("hit", (66, 52, 168, 146), "nodule", 0.91),
        f.BoxMark("duplicate", (84, 70, 180, 160), "nodule", 0.42),
        f.BoxMark("false alarm", (230, 40, 300, 120), "mass", 0.63),
        f.BoxMark("missed", (210, 170, 300, 250), "effusion"),
        f.BoxMark("ignored", (20, 200, 90, 260), "nodule", 0.1),
        f.BoxMark("false alarm", (340, 200, 440, 330), "mass", 0.3),
        f.BoxMark("false alarm", (450, 60, 480, 90), "mass", 0.2),
    )
    return f.Overlay("One effusion is missed", (400, 300), marks)


def gallery() -> list[f.Figure]:
    """Return one or more figures of every kind."""
    models = ("baseline", "with attention", "ensemble")
    froc = tuple(curve(name, k, 0.95 - 0.08 * k) for k, name in enumerate(models))
    recall = f.Axis("recall", 0.0, 1.0), f.Axis("precision", 0.0, 1.0)
    many = tuple(curve(f"candidate {k + 1}", k, 0.97 - 0.035 * k) for k in range(10))
    many = tuple(f.Line(line.name, line.x, line.y, slot=line.slot) for line in many)
    sensitivity = f.Axis("sensitivity", 0.0, 1.0)
    return [
        f.Curves(
            "All models find most lesions at one false alarm per image",
            FALSE_ALARMS,
            sensitivity,
            froc,
        ),
        f.Curves(
            "Precision falls late",
            *recall,
            tuple(steps(name, k, k) for k, name in enumerate(models)),
        ),
        f.Curves("Ten models are close to each other", FALSE_ALARMS, sensitivity, many),
        forest(("baseline",), CLASSES),
        forest(("baseline", "with attention", "ensemble"), CLASSES[:5]),
        forest_of_differences(),
        bars(stacked=False),
        bars(stacked=True),
        heat(5),
        heat(8),
        scatter(),
        cloud(),
        blob(),
        boxes(),
        contour(),
        histogram(),
        overlay(),
        f.Curves("A figure without numbers says so", *recall, ()),
    ]


def main() -> None:
    """Draw everything; write the page if the name of a file was given."""
    figures = gallery()
    for figure in figures:
        print(f"{type(figure).__name__:10} {len(svg(figure)) / 1000:6.1f} kB  {figure.title}")
    if __name__ == "__main__" and len(sys.argv) == 2 and sys.argv[1].endswith(".html"):
        Path(sys.argv[1]).write_text(page(figures), encoding="utf-8")


def page(figures: list[f.Figure]) -> str:
    """Return the page: all figures by day, then by night,
    each laid out for a desk and for a phone.
    """
    body = []
    for theme in ("light", "dark"):
        shown = []
        for k, figure in enumerate(figures):
            broad, narrow = (svg(figure, width=w, name=f"{theme}-{k}-{w}") for w in (600, 360))
            pictures = f"<div class=broad>{broad}</div><div class=narrow>{narrow}</div>"
            shown.append(
                f"<figure><figcaption>{escape(figure.title)}</figcaption>{pictures}</figure>"
            )
        body.append(
            f'<section data-theme="{theme}"><div class=wall>{"".join(shown)}</div></section>'
        )
    return PAGE.format(style=stylesheet(), body="".join(body))


if __name__ == "__main__":
    main()
