"""Figures as files and in notebooks; text from data; state that is left alone."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.figure
from PIL import Image

import calipers as cal
from calipers.errors import InputError, UsageError
from calipers.show.figures import Axis, BoxDots, Curves, Forest, ForestRow, Line, Mark, Scatter
from calipers.show.figures import Dots as Points
from calipers.show.mpl.axes import REPLACEMENT, estimate_texts, number_text, words, wrap
from calipers.show.mpl.draw import draw, save
from evaluated import evaluated_demo

HOSTILE = (
    "_hidden",
    "$x^2$",
    "$\\frac{",
    "100 $ and $5",
    "\x00\x07\x1b[31m",
    "\u202egnp.exe",
    "日本語",
    "\ud800",
    "a\nb",
    "<b>&",
    "%s{}",
    "",
)


def curves(*names: str) -> Curves:
    lines = tuple(
        Line(n, np.arange(3.0), np.arange(3.0) + k, slot=k, marks=(1,)) for k, n in enumerate(names)
    )
    return Curves(f"{names[0]} is best", Axis(names[-1]), Axis(names[0]), lines, note=names[0])


def forest(*names: str) -> Forest:
    rows = tuple(
        ForestRow(n, n, (Mark(0.5, 0.4, 0.6), Mark(np.nan, reason=n)), strong=k % 2 == 0)
        for k, n in enumerate(names)
    )
    return Forest(names[0], Axis(names[0]), (names[0], names[1]), rows, n=names[0])


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
@pytest.mark.parametrize("figure", [curves("a", "b"), forest("a", "b")], ids=["curves", "forest"])
def test_equal_figures_give_equal_bytes(figure: Any, suffix: str, tmp_path: Path) -> None:
    first, second = (
        save(figure, tmp_path / f"a.{suffix}"),
        save(figure, str(tmp_path / f"b.{suffix.upper()}")),
    )
    assert first.read_bytes() == second.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "a." + suffix,
        "b." + suffix.upper(),
    ]


def test_bytes_are_the_same_in_another_process(tmp_path: Path) -> None:
    program = (
        "import sys; import numpy as np\nfrom calipers.show.figures import *\n"
        "from calipers.show.mpl.draw import save\n"
        "figure = BoxDots('t', Axis('y'), ('a', 'b'), (np.arange(9.0), np.ones(3)))\n"
        "for suffix in ('pdf', 'svg', 'png'): save(figure, f'{sys.argv[1]}.{suffix}')"
    )
    for name, seed in (("a", "1"), ("b", "2")):
        command = [sys.executable, "-c", program, str(tmp_path / name)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, timeout=120, env=environment, capture_output=True)
    for suffix in ("pdf", "svg", "png"):
        one, other = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
        assert one.read_bytes() == other.read_bytes()


def test_pdf_embeds_truetype_and_has_no_date(tmp_path: Path) -> None:
    content = save(curves("a", "b"), tmp_path / "a.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/Subtype /Type42" in content or b"/CIDFontType2" in content
    assert b"/Type3" not in content
    assert b"CreationDate" not in content


def test_svg_keeps_text_as_text(tmp_path: Path) -> None:
    content = save(curves("$a_1$", "<i>"), tmp_path / "a.svg").read_text(encoding="utf-8")
    said = re.findall(r"<text[^>]*>([^<]*)</text>", content)
    assert {"$a_1$", "&lt;i&gt;", "$a_1$ is best"} <= {text.strip() for text in said}
    assert "dc:date" not in content


@pytest.mark.parametrize(("width", "dpi"), [(85.0, 300), (170.0, 150)])
def test_png_has_the_width_that_was_asked_for(width: float, dpi: int, tmp_path: Path) -> None:
    with Image.open(save(curves("a", "b"), tmp_path / "a.png", width_mm=width, dpi=dpi)) as image:
        assert image.width == pytest.approx(width / 25.4 * dpi, abs=1)
        assert image.info["dpi"][0] == pytest.approx(dpi, abs=0.1)
        assert "Creation Time" not in image.info


@pytest.mark.parametrize("dpi", [72, 110, 300])
@pytest.mark.parametrize("width", [85.0, 170.0])
def test_long_names_are_not_cut_by_the_edge(width: float, dpi: int, tmp_path: Path) -> None:
    names = [f"RoDeO/shape{'!' * k}: mislabels − overpredicts" for k in range(8)]
    rows = tuple(ForestRow(name, "80", (Mark(0.5, 0.4, 0.6),)) for name in names)
    with Image.open(
        save(Forest("t", Axis("AP"), ("a",), rows), tmp_path / "a.png", width_mm=width, dpi=dpi)
    ) as image:
        pixels = np.asarray(image.convert("L"))
    for edge in (pixels[:, 0], pixels[:, -1], pixels[0], pixels[-1]):
        assert edge.min() == 255


def test_names_of_rows_may_be_longer_than_those_of_columns() -> None:
    name = "RoDeO/shape: mislabels − overpredicts"
    ax = draw(Forest("t", Axis("AP"), ("a",), (ForestRow(name, "80", (Mark(0.5),)),)))
    assert [label.get_text() for label in ax.get_yticklabels()] == [name]


def test_the_height_can_be_given(tmp_path: Path) -> None:
    with Image.open(
        save(curves("a", "b"), tmp_path / "a.png", width_mm=100, height_mm=50, dpi=254)
    ) as image:
        assert image.size == (1000, 500)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a.eps", {}, r"\.pdf, \.svg or \.png, got 'a\.eps'"),
        ("a", {}, r"\.pdf, \.svg or \.png"),
        ("a.png", {"width_mm": 0}, "width_mm must be between"),
        ("a.png", {"height_mm": float("nan")}, "height_mm must be between"),
        ("a.png", {"dpi": -1}, "dpi must be between"),
        ("a.png", {"dpi": 2400, "width_mm": 2000}, "pixels: lower dpi"),
    ],
)
def test_what_cannot_be_written_is_refused(
    name: str, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        save(curves("a", "b"), tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not-writable"):
        save(curves("a", "b"), tmp_path / "nowhere" / "a.png")


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
@pytest.mark.parametrize("make", [curves, forest])
def test_hostile_names_are_drawn_as_text_without_a_word(
    make: Any, suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "matplotlib"):
        warnings.simplefilter("error")
        save(make(*HOSTILE, "x" * 1_000_000), tmp_path / f"a.{suffix}", width_mm=85)
    assert not caplog.records


def test_names_in_legends_and_ticks_are_complete() -> None:
    ax = draw(curves("_hidden", "$x$"))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["_hidden", "$x$"]
    ticks = draw(
        BoxDots("t", Axis("y"), ("_hidden", "$x$"), (np.ones(3), np.ones(3)))
    ).get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["_hidden", "$x$"]
    assert not any(
        text.get_parse_math() for text in (*ax.get_legend().get_texts(), *ticks, ax.xaxis.label)
    )


def test_names_beside_points_are_no_formulas() -> None:
    (name,) = draw(
        Scatter("t", Axis("x"), Axis("y"), (Points("a", np.ones(1), np.ones(1), names=("$x$",)),))
    ).texts
    assert (name.get_text(), name.get_parse_math()) == ("$x$", False)


def test_settings_of_the_reader_stay_and_are_not_taken_over(tmp_path: Path) -> None:
    plain_bytes = save(curves("a", "b"), tmp_path / "a.svg").read_bytes()
    odd = {
        "text.usetex": True,
        "axes.grid": True,
        "axes.facecolor": "red",
        "svg.fonttype": "path",
        "lines.linewidth": 9,
    }
    with mpl.rc_context(odd):
        before = {key: mpl.rcParams[key] for key in mpl.rcParams}
        assert save(curves("a", "b"), tmp_path / "b.svg").read_bytes() == plain_bytes
        assert before == {key: mpl.rcParams[key] for key in mpl.rcParams}


def test_the_font_of_the_reader_is_used_if_it_exists(caplog: pytest.LogCaptureFixture) -> None:
    with mpl.rc_context({"font.family": ["No Such Font", "DejaVu Serif"]}):
        ax = draw(curves("a", "b"))
        ax.figure.canvas.draw()
    assert ax.xaxis.label.get_fontfamily() == ["DejaVu Serif", "DejaVu Sans"]
    assert not caplog.records


def test_pyplot_knows_nothing_of_new_figures() -> None:
    program = (
        "import sys; import numpy as np\nfrom calipers.show.figures import *\n"
        "from calipers.show.mpl.draw import draw\n"
        "draw(BoxDots('t', Axis('y'), ('a',), (np.ones(3),)))\n"
        "draw(Contour('t', Axis('x'), Axis('y'), np.arange(3.0), np.arange(3.0), np.eye(3), 'v'))\n"
        "draw(Bars('t', Axis('x', names=('a',)), Axis('y'), ('p', 'q'), np.ones((2, 1))))\n"
        "draw(Curves('t', Axis('x'), Axis('y'), (Line('a', np.arange(3.0), np.arange(3.0)),)))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_notebooks_show_new_axes() -> None:
    ax: Any = draw(curves("a", "b"))
    content, size = ax._repr_png_()
    assert content.startswith(b"\x89PNG")
    assert size == {"width": round(170 / 25.4 * 100)}


def test_without_matplotlib_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for act in (lambda: draw(curves("a", "b")), lambda: save(curves("a", "b"), tmp_path / "a.png")):
        with pytest.raises(UsageError, match=re.escape('pip install "calipers[mpl]"')):
            act()


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("a b", "a b"),
        ("a\u00a0b", "a b"),
        ("a\tb", f"a{REPLACEMENT}b"),
        ("\u202e", REPLACEMENT),
        ("\ud800", REPLACEMENT),
        ("é", "é"),
        ("x" * 28, "x" * 28),
        ("x" * 29, "x" * 27 + "…"),
    ],
)
def test_words_can_be_drawn(text: str, drawn: str) -> None:
    assert words(text) == drawn


def test_sentences_are_wrapped_and_lose_nothing() -> None:
    text = "one two three four five six"
    lines = wrap(text, 60, 8).split("\n")
    assert len(lines) > 1
    assert " ".join(lines) == text
    assert wrap(text, 1, 8).split("\n") == ["one two", "three four", "five six"]
    assert wrap("it finds a 95 % at n >= 5", 1, 8).split("\n") == [
        "it finds a",
        "95 % at n",
        ">= 5",
    ]
    assert wrap("x" * 30, 1, 8).split("\n") == ["x" * 12, "x" * 12, "x" * 6]


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (-0.5, "−0.5"), (0.1 + 0.2, "0.3"), (1e-7, "1e−07"), (float("inf"), "")],
)
def test_ticks_are_plain_numbers(value: float, said: str) -> None:
    assert number_text(value) == said


def test_numbers_of_a_column_have_equal_decimals() -> None:
    assert estimate_texts([0.5, float("nan"), -1.0]) == ["0.500", "–", "−1.000"]
    assert estimate_texts([1500.0, 2.0]) == ["1500", "2"]


@pytest.fixture(scope="module")
def evaluation() -> cal.Evaluation:
    return evaluated_demo("overview", ci=False)


def test_an_evaluation_plots_what_its_figure_says(evaluation: cal.Evaluation) -> None:
    figure: Any = evaluation.figure("froc")
    ax = evaluation.plot()
    held = [artist.get_ydata().tolist() for artist in ax.lines if artist.get_label() == "_line"]
    assert held == [line.y.tolist() for line in figure.lines]
    assert ax.figure.get_suptitle().replace("\n", " ") == figure.title


def test_an_evaluation_plots_into_given_axes_with_choices(evaluation: cal.Evaluation) -> None:
    given = mpl.figure.Figure().subplots()
    assert evaluation.plot("classes", given, metric="AP@0.5") is given
    assert given.get_xlabel() == "AP@0.5"


def test_an_unknown_figure_is_answered_with_the_nearest(evaluation: cal.Evaluation) -> None:
    with pytest.raises(UsageError, match="did you mean 'froc'"):
        evaluation.plot("frok")
