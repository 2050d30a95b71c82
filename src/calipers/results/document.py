# SPDX-License-Identifier: Apache-2.0
"""`Document`: what every result can do, written once.

A result class states what it knows: its rows, and ``_content``, its part of the JSON contract. It
also names what shows it, as ``"module:object"``: figures, tables, page, folder, notebook view. From
these `Document` makes ``as_dict``, ``to_json``, ``to_frame``, ``tables``, ``figure``, ``plot``,
``report``, ``save`` and the view in a notebook.

The names are resolved when they are needed, by `linked`. So a result, which stands low in the tree,
can draw itself with modules that stand above it, and this module is the only one that does so.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from calipers import errors
from calipers.arguments import names_methods
from calipers.errors import InputError, UsageError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from calipers.results.estimate import Estimate
    from calipers.show.figures import Figure
    from calipers.show.table import Table

DRAW = "calipers.show.mpl.draw:draw"
ESTIMATE = "calipers.show.html:of_estimate"
COHORT = "calipers.show.table:cohort_html"
ESTIMATE_WORDS = "calipers.show.words:estimate_text"
APART = "calipers.show.words:names_apart"
MOST_NAMES = 5  # of models, in the one line of a result
SHORTEST_CUT = 28  # characters; no title, cell or label cuts a name of this length


@names_methods
class Document(ABC):
    """A result: a JSON document with rows that can be shown, drawn and stored."""

    SCHEMA: ClassVar[str] = ""  # of the document; "" if the result is only a part of one
    ROW: ClassVar[str] = "row"  # what a row is, in the one line of the result

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names_methods(cls)

    # name -> function (result, **choices) -> Figure, or a function that returns such a mapping
    FIGURES: ClassVar[str] = ""
    TABLES: ClassVar[str] = ""  # function (result) -> list of Table
    FIRST_FIGURE: ClassVar[str] = ""  # the figure that is drawn if none is named
    PAGE: ClassVar[str] = ""  # function (result, path, **options) -> Path
    FOLDER: ClassVar[str] = ""  # function (result, folder, **options) -> Path
    NOTEBOOK: ClassVar[str] = ""  # function (result) -> HTML; "" = the first table

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return the keys of the JSON contract below schema and version, in their order."""

    def _records(self) -> list[dict[str, Any]]:
        """Return the rows as JSON has them; ``rows`` is an attribute or a method of the result."""
        rows: Any = getattr(self, "rows", ())
        records = []
        for row in rows() if callable(rows) else rows:
            records.append(dict(row) if isinstance(row, Mapping) else row.as_dict())
        return records

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document: keys in a fixed order, null for undefined numbers."""
        from calipers import __version__

        if not self.SCHEMA:
            return self._content()
        return {"schema": self.SCHEMA, "calipers": __version__, **self._content()}

    def __eq__(self, other: object) -> bool:
        """Two results are equal if all that they state is: the arrays behind have no one answer."""
        if self is other or type(self) is not type(other):
            return self is other
        assert isinstance(other, Document)
        return self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]  # what they state is long, and holds tables

    def to_json(self) -> str:
        """Return the document as JSON text, in ASCII so that no name can drive a terminal."""
        return json.dumps(self.as_dict(), allow_nan=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame (extra ``frames``)."""
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("to_frame needs pandas: pip install 'calipers[frames]'") from None
        return pd.DataFrame(self._records())

    def tables(self) -> list[Table]:
        """Return the numbers as tables for a reader.

        Each has ``to_csv()``, ``to_latex()`` and ``to_markdown()``; a notebook shows it.
        """
        if not self.TABLES:
            raise UsageError(f"{type(self).__name__} has no tables")
        with self._names_apart():
            tables: list[Table] = linked(self.TABLES)(self)
        return tables

    def figure(self, name: str | None = None, *of: str, **choices: Any) -> Figure:
        """Return a figure as data: its finding, its axes and, by its ``table()``, its numbers.

        Parameters
        ----------
        name
            Such as ``"froc"``; an unknown name is answered with the nearest. The first figure of
            the result if left out.
        of, choices
            Options of the figure, such as ``metric="AP@0.5"`` or ``monitor="entropy"``.
        """
        figures = self._figures()
        key = self.FIRST_FIGURE if name is None else name
        if key not in figures:
            names = list(filter(None, figures))
            raise UsageError(f"no figure {key!r}; {did_you_mean(key, names)}")
        _check_options(f"the figure {key!r}", _parameters(figures[key])[1:], choices)
        with self._names_apart():
            return figures[key](self, *of, **choices)

    def plot(self, name: str | None = None, ax: Axes | None = None, **choices: Any) -> Axes:
        """Draw a figure with matplotlib (extra ``mpl``) and return its axes, which notebooks show.

        Parameters
        ----------
        name, choices
            As in `figure`.
        ax
            Axes to draw into; those of a new figure if left out, of which pyplot knows nothing.
        """
        if ax is not None and not hasattr(ax, "spines"):
            raise UsageError(f"ax are axes of Matplotlib, not {errors.shown(ax)}")
        axes: Axes = linked(DRAW)(self.figure(name, **choices), ax)
        return axes

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write the result as one self-contained HTML page, whole or not at all; return its path.

        ``options`` are those of the page, such as ``command``; the class says which there are.
        """
        return self._write(self.PAGE, "page", path, options)

    def save(self, folder: str | Path, **options: Any) -> Path:
        """Write the result into a folder, all of it or nothing: document, tables, figures, page.

        The folder is new or empty, or ``force=True`` allows one that holds something: an earlier
        result in it is replaced, other files stay. ``command`` is the command line that made the
        result; further ``options`` are those of the page.
        """
        return self._write(self.FOLDER, "folder", folder, options)

    def __repr__(self) -> str:
        """Return one line: fields of results are arrays and long tables."""
        series = self._series()
        names = ", ".join(series[:MOST_NAMES])
        if len(series) > MOST_NAMES:
            names += f" and {len(series) - MOST_NAMES} more"
        head = f"{type(self).__name__} of {names}" if names else type(self).__name__
        return f"<{head}: {self._size()}>"

    def __str__(self) -> str:
        """Return the first table, which ``print`` shows."""
        return str(self.tables()[0]) if self.TABLES else repr(self)

    def _size(self) -> str:
        """Return how much there is, for the one line of the result."""
        n = len(self._records())
        return f"{n} {self.ROW}" + ("" if n == 1 else "s")

    def _repr_html_(self) -> str | None:
        if not self.NOTEBOOK:
            return self.tables()[0]._repr_html_() if self.TABLES else None
        html: str = linked(self.NOTEBOOK)(self)
        return html

    def _series(self) -> list[str]:
        """Return the names that stand beside each other in titles: models and monitors."""
        return [*getattr(self, "models", ()), *getattr(self, "monitors", ())]

    def _names_apart(self) -> AbstractContextManager[None]:
        """Keep long names that would be shortened to the same text different, in all that is
        made inside.
        """
        names = self._series()
        if max(map(len, names), default=0) <= SHORTEST_CUT:
            return nullcontext()  # nothing is cut, and the words need not be imported
        apart: AbstractContextManager[None] = linked(APART)(names)
        return apart

    def _figures(self) -> Mapping[str, Callable[..., Figure]]:
        if not self.FIGURES:
            raise UsageError(f"{type(self).__name__} has no figures")
        figures: Any = linked(self.FIGURES)
        catalogue: Mapping[str, Callable[..., Figure]]
        catalogue = figures(self) if callable(figures) else figures
        return catalogue

    def _write(self, link: str, what: str, path: str | Path, options: Mapping[str, Any]) -> Path:
        if not link:
            raise UsageError(f"{type(self).__name__} has no {what} of its own")
        function = linked(link)
        _check_options(f"the {what}", _parameters(function)[2:], options)
        try:
            with self._names_apart():
                target: Path = function(self, Path(errors.path("path", path)), **options)
        except UnicodeEncodeError as error:
            # A name of a model, class or image from Python, or the path itself.
            expected = "names in UTF-8, without half a surrogate pair"
            name = ascii(error.object[error.start : error.end])
            raise InputError(expected, rule="encoding", value=name) from None
        return target


def estimate_html(estimate: Estimate) -> str:
    """Return an estimate as a notebook shows it: an estimate is no document, but draws itself."""
    html: str = linked(ESTIMATE)(estimate)
    return html


def cohort_html(cohort: object) -> str:
    """Return a cohort as a notebook shows it: its counts, and those of its models."""
    html: str = linked(COHORT)(cohort)
    return html


def estimate_words(estimate: Estimate) -> str:
    """Return an estimate as tables show it, or why it is undefined."""
    words: str = linked(ESTIMATE_WORDS)(estimate)
    return words


def linked(name: str) -> Any:
    """Return the object behind ``"module:object"``; its module is imported now."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    return list(signature(function).parameters.values())


def _check_options(what: str, parameters: list[Parameter], options: Iterable[str]) -> None:
    """Refuse an option that a function does not take, and name those that it does."""
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [parameter.name for parameter in parameters]
    for option in options:
        if option not in names:
            raise UsageError(f"{what} takes {', '.join(names) or 'no choice'}, not {option!r}")
