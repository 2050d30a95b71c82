# SPDX-License-Identifier: Apache-2.0
"""Outcomes of requirements as JUnit XML, which every build server shows.

A requirement on a row is a test case. *Not met* and *not shown* are failures of these types;
nothing is ever ``skipped``, because build servers count a skipped test as passed. Input that cannot
be judged is an ``error``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calipers.results.requirements import Outcome

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SUITES = "calipers check"
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
HEAD = f'{DECLARATION}<testsuites name="{SUITES}"'  # tells our files from others


def junit(outcomes: Sequence[Outcome], *, suite: str, properties: Mapping[str, str]) -> str:
    """Return the outcomes as an XML document; it contains no time, so that equal outcomes give
    equal files.
    """
    from xml.etree.ElementTree import SubElement

    failures = sum(outcome.verdict != "met" for outcome in outcomes)
    root, tests = _suite(suite, tests=len(outcomes), failures=failures, errors=0)
    property_list = SubElement(tests, "properties")
    for name, value in properties.items():
        SubElement(property_list, "property", name=name, value=_printable(value))
    for outcome in outcomes:
        requirement = outcome.requirement
        name = _printable(f"{outcome.place}: {requirement}")
        id_ = _printable(requirement.id)
        case = SubElement(tests, "testcase", classname=id_, name=name, time="0")
        words = f"{requirement.text}: {outcome.why}" if requirement.text else outcome.why
        if outcome.verdict == "met":
            SubElement(case, "system-out").text = _printable(words)
        else:
            why = _printable(outcome.why)
            failure = SubElement(case, "failure", type=outcome.verdict, message=why)
            failure.text = _printable(words)
    return _xml_text(root)


def junit_of_error(message: str, *, suite: str) -> str:
    """Return a document with one error: the evaluation or the requirements could not be used."""
    from xml.etree.ElementTree import SubElement

    root, tests = _suite(suite, tests=1, failures=0, errors=1)
    case = SubElement(
        tests,
        "testcase",
        classname="input",
        name="evaluation and requirements can be read",
        time="0",
    )
    SubElement(case, "error", type="input", message=_printable(message)).text = _printable(message)
    return _xml_text(root)


def _suite(name: str, **counts: int) -> tuple[Element, Element]:
    from xml.etree.ElementTree import Element, SubElement

    numbers = {key: str(n) for key, n in counts.items()}
    root = Element("testsuites", {"name": SUITES, **numbers, "time": "0"})
    return root, SubElement(
        root, "testsuite", {"name": _printable(name), **numbers, "skipped": "0", "time": "0"}
    )


def _xml_text(root: Element) -> str:
    from xml.etree.ElementTree import indent, tostring

    indent(root)
    return DECLARATION + tostring(root, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """Return text with unprintable characters escaped: XML does not allow control characters."""
    characters = []
    for character in text:
        if not character.isprintable():
            character = character.encode("unicode_escape").decode("ascii")
        characters.append(character)
    return "".join(characters)
