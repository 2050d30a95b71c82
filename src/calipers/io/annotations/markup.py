# SPDX-License-Identifier: Apache-2.0
"""XML read safely, one child of the root at a time, with the line of every element.

The readers of Pascal VOC and CVAT call `read_children`. defusedxml refuses document types, entities
and references to other files, by which a small file could fill the memory or read others. Only one
child of the root is in memory at a time, so that a file of many images needs little room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import as_number
from calipers.io.source import InputFile

MOST_DEPTH = 64
STEP = 1 << 20  # bytes that are parsed at a time
# The name of the root, behind the declaration and comments.
ROOT = re.compile(r"(?:<\?.*?\?>\s*|<!--.*?-->\s*)*+<([\w:.-]+)", re.DOTALL)


@dataclass(slots=True)
class Element:
    """An element: its own text, attributes and children, and the line where it begins."""

    tag: str
    attributes: dict[str, str]
    line: int
    pieces: list[str] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text right inside the element, without white space around it."""
        return "".join(self.pieces).strip()

    def child(self, tag: str) -> Element | None:
        """Return the first child of that name."""
        return next((child for child in self.children if child.tag == tag), None)

    def repeated(self, *tags: str) -> str | None:
        """Return the first of these names that several children have: only one would be read."""
        for tag in tags:
            if sum(1 for child in self.children if child.tag == tag) > 1:
                return tag
        return None

    def every(self, tag: str) -> Iterator[Element]:
        """Yield the children of that name."""
        return (child for child in self.children if child.tag == tag)

    def text_of(self, tag: str) -> str:
        """Return the text of the first child of that name, empty if there is none."""
        child = self.child(tag)
        return "" if child is None else child.text

    def number_of(self, tag: str) -> float | None:
        """Return the number in the first child of that name."""
        return as_number(self.text_of(tag))

    def number(self, attribute: str) -> float | None:
        """Return an attribute as a number."""
        return as_number(self.attributes.get(attribute, ""))

    def shortened(self) -> str:
        """Return the beginning of the element for an account of records that were set aside."""
        parts = [f"<{self.tag}"]
        parts += [f' {name}="{value}"' for name, value in self.attributes.items()]
        parts.append(">" + self.text)
        for child in self.children[:20]:
            parts.append(child.shortened())
        return "".join(parts)[:2000]


def root_name(head: str) -> str:
    """Return the name of the root element of a file that begins so; empty if it is no XML."""
    match = ROOT.match(head) if head.startswith("<") else None
    return match[1] if match else ""


def read_children(file: InputFile, root: str, take: Callable[[Element], None]) -> None:
    """Call ``take`` with every child of the root, in the order of the file.

    Raises
    ------
    InputError
        The file is no XML, has another root, or needs what defusedxml refuses.
    """
    from xml.sax import SAXException, SAXParseException

    from defusedxml import DefusedXmlException
    from defusedxml.expatreader import create_parser

    parser = create_parser(forbid_dtd=True)
    builder = _Builder(file, root, take, parser)
    parser.setContentHandler(builder)
    if file.notes:
        # The text was brought to UTF-8, whatever its declaration still says.
        parser._source.setEncoding("utf-8")
    data = file.data
    try:
        for start in range(0, max(1, len(data)), STEP):
            parser.feed(data[start : start + STEP])
        parser.close()
    except SAXParseException as error:
        raise InputError(
            "valid XML",
            rule="xml-syntax",
            file=file.file,
            location=f"line {error.getLineNumber()}",
            value=error.getMessage(),
            hint="was the file cut off, or is it another format?",
        ) from None
    except DefusedXmlException as error:
        raise InputError(
            "XML without a document type, entities and references to other files",
            rule="xml-forbidden",
            file=file.file,
            value=type(error).__name__,
            hint="remove the line <!DOCTYPE ...>",
        ) from None
    except (SAXException, LookupError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        # An encoding that does not exist, or that Python cannot use for XML.
        raise InputError(
            "valid XML", rule="xml-syntax", file=file.file, value=type(error).__name__
        ) from None


class _Builder:
    """Receives what the parser meets, and builds one child of the root after another.

    It has the methods of `xml.sax.handler.ContentHandler` that matter here, under their names.
    """

    def __init__(
        self, file: InputFile, root: str, take: Callable[[Element], None], parser: Any
    ) -> None:
        self.file, self.root, self.take, self.parser = file, root, take, parser
        self.open_elements: list[Element] = []

    def startElement(self, tag: str, attributes: Any) -> None:
        line = self.parser.getLineNumber()
        element = Element(tag, dict(attributes.items()), line)
        depth = len(self.open_elements)
        if depth == 0 and tag != self.root:
            raise InputError(
                f"a root element <{self.root}>",
                rule="format",
                file=self.file.file,
                location=f"line {line}",
                value=f"<{tag}>"[:80],
            )
        if depth >= MOST_DEPTH:
            raise InputError(
                f"at most {MOST_DEPTH} elements inside each other",
                rule="depth",
                file=self.file.file,
                location=f"line {line}",
            )
        # The root keeps no children: they are taken one by one.
        if depth > 1:
            self.open_elements[-1].children.append(element)
        self.open_elements.append(element)

    def endElement(self, tag: str) -> None:
        element = self.open_elements.pop()
        if len(self.open_elements) == 1:
            self.take(element)

    def characters(self, text: str) -> None:
        if len(self.open_elements) > 1:
            self.open_elements[-1].pieces.append(text)

    def setDocumentLocator(self, locator: Any) -> None:
        pass

    def startDocument(self) -> None:
        pass

    def endDocument(self) -> None:
        pass

    def processingInstruction(self, target: str, data: str) -> None:
        pass

    def ignorableWhitespace(self, text: str) -> None:
        pass

    def skippedEntity(self, name: str) -> None:
        pass
