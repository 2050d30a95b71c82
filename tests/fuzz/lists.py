"""The lists of data sets and challenges under attack, and tables of several readers.

`fuzz.targets` lists these targets with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import calipers as cal
import list_cases as cases
from annotation_cases import put
from fuzz.annotations import is_lenient, of_json_text, of_words, sniff_some
from fuzz.targets import Target

NIH = (
    "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"
    "1_0.png,Infiltrate,1,2,3,4,,,\n2_0.png,Mass,5,6,7,8,,,\n"
)
LARD = (
    "image;height;width;type;scenario;airport;runway;weather;x_A;y_A;x_B;y_B;x_C;y_C;x_D;y_D\n"
    "images/a.png;100;120;real;S1;LFPO;06;rain;50;20;60;20;30;60;80;60\n"
    "images/b.png;100;120;real;S1;LFPO;06;;;;;;;;;\n"
)
READERS = """image,reader,class,x0,y0,x1,y1
a,R1,nodule,10,10,30,30
a,R2,nodule,12,10,32,30
b,R1,,,,,
b,R2,nodule,0,0,10,10
"""
LUNA = {
    "luna/annotations.csv": cases.LUNA16,
    "luna/annotations_excluded.csv": cases.LUNA16_EXCLUDED,
    "luna/seriesuids.csv": cases.LUNA16_SCANS,
}


def put_beside(folder: Path, others: dict[str, str], name: str) -> None:
    """Write the sound files beside the damaged one; they stay for the next input."""
    for other, text in others.items():
        if other != name and not (folder / other).exists():
            put(folder, {other: text})


def judge(content: bytes, cohort: Any) -> None:
    """Every record is used or set aside, and every object lies on an image."""
    for account in cohort.intake.files:
        assert account.read == account.used + sum(account.quarantined.values())
    for table in (cohort.references, *cohort.models.values()):
        assert int(table.offsets[-1]) == len(table)


def lists(folder: Path) -> Iterator[Target]:
    """Readers of tables and JSON lists of data sets."""

    def read(name: str, others: dict[str, str], *places: str, **options: Any) -> Callable[..., Any]:
        def run(content: bytes, folder: Path) -> Any:
            put_beside(folder, others, name)
            put(folder, {name: content})
            paths = [folder / place for place in places]
            sniff_some(paths[-1], content)
            own = dict(options)
            if "groups" in own:
                own["groups"] = folder / own["groups"]
            return cal.read(*paths, lenient=is_lenient(content), allow_loss=1.0, **own)

        return run

    pairs = {
        "vindr": (cases.VINDR_TEST, cases.VINDR_SUBMISSION),
        "rsna": (cases.RSNA, cases.RSNA_SUBMISSION),
    }
    for name, (references, submission) in pairs.items():
        yield Target(name, of_words(references), read("r.csv", {}, "r.csv"), judge)
        run = read("s.csv", {"r.csv": references}, "r.csv", "s.csv")
        yield Target(f"{name} submission", of_words(submission), run, judge)
    sizes = {"o.csv": cases.OPENIMAGES, "g.csv": cases.OPENIMAGES_SIZES}
    run = read("o.csv", sizes, "o.csv", groups="g.csv")
    yield Target("openimages", of_words(cases.OPENIMAGES), run, judge)
    run = read("s.csv", sizes, "o.csv", "s.csv", groups="g.csv")
    yield Target("openimages submission", of_words(cases.OPENIMAGES_SUBMISSION), run, judge)
    for name, (path, text) in zip(("luna16", "luna16 excluded", "luna16 scans"), LUNA.items()):
        yield Target(name, of_words(text), read(path, LUNA, "luna"), judge)
    run = read("c.csv", LUNA, "luna", "c.csv")
    yield Target("luna16 candidates", of_words(cases.LUNA16_CANDIDATES), run, judge)
    plain = {"deeplesion": cases.DEEPLESION, "siim": cases.SIIM, "nih": NIH, "lard": LARD}
    for name, text in plain.items():
        yield Target(name, of_words(text), read(f"{name}.csv", {}, f"{name}.csv"), judge)
    node21 = {"n.csv": cases.NODE21}
    yield Target("node21", of_words(cases.NODE21), read("n.csv", {}, "n.csv"), judge)
    yield Target("jobs", of_json_text(cases.JOBS), read("j.json", node21, "n.csv", "j.json"), judge)
    numbered = {"n.csv": cases.NODE21.replace(".mha", "")}
    run = read("j.json", numbered, "n.csv", "j.json")
    yield Target("nodules", of_json_text(cases.NODULES), run, judge)
    run = read("r.csv", {}, "r.csv", readers="majority")
    yield Target("readers", of_words(READERS), run, judge)
