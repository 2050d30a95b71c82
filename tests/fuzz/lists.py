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
from fuzz import peers
from fuzz.annotations import is_lenient, of_json_text, of_words, sniff_some
from fuzz.peers import agrees
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
        "vindr": (cases.VINDR_TEST, cases.VINDR_SUBMISSION, peers.vindr),
        "rsna": (cases.RSNA, cases.RSNA_SUBMISSION, peers.rsna),
    }
    strings = {
        "vindr": peers.submission("image_id", peers.vindr_box, 6),
        "rsna": peers.submission("patientid", peers.rsna_box, 5),
    }
    for name, (references, submission, peer) in pairs.items():
        run = read("r.csv", {}, "r.csv")
        yield Target(name, of_words(references), run, agrees(peer))
        run = read("s.csv", {"r.csv": references}, "r.csv", "s.csv")
        judge = agrees(strings[name], model=True)
        yield Target(f"{name} submission", of_words(submission), run, judge)
    sizes = {"o.csv": cases.OPENIMAGES, "g.csv": cases.OPENIMAGES_SIZES}
    run = read("o.csv", sizes, "o.csv", groups="g.csv")
    yield Target("openimages", of_words(cases.OPENIMAGES), run, agrees(peers.openimages))
    run = read("s.csv", sizes, "o.csv", "s.csv", groups="g.csv")
    judge = agrees(peers.submission("imageid", peers.openimages_box, 6), model=True)
    yield Target("openimages submission", of_words(cases.OPENIMAGES_SUBMISSION), run, judge)
    for name, (path, text) in zip(("luna16", "luna16 excluded", "luna16 scans"), LUNA.items()):
        damaged_file = "excluded" if "excluded" in name else "annotations"
        peer = peers.luna16(cases.LUNA16, cases.LUNA16_EXCLUDED, damaged_file)
        # The list of scans decides only whether findings are refused.
        judge = _sound if name == "luna16 scans" else agrees(peer)
        yield Target(name, of_words(text), read(path, LUNA, "luna"), judge)
    run = read("c.csv", LUNA, "luna", "c.csv")
    judge = agrees(peers.candidates, model=True)
    yield Target("luna16 candidates", of_words(cases.LUNA16_CANDIDATES), run, judge)
    plain = {
        "deeplesion": (cases.DEEPLESION, peers.deeplesion),
        "siim": (cases.SIIM, peers.siim),
        "nih": (NIH, peers.nih),
        "lard": (LARD, peers.lard),
    }
    for name, (text, peer) in plain.items():
        run = read(f"{name}.csv", {}, f"{name}.csv")
        yield Target(name, of_words(text), run, agrees(peer))
    node21 = {"n.csv": cases.NODE21}
    run = read("n.csv", {}, "n.csv")
    yield Target("node21", of_words(cases.NODE21), run, agrees(peers.node21))
    run = read("j.json", node21, "n.csv", "j.json")
    yield Target("jobs", of_json_text(cases.JOBS), run, agrees(peers.jobs, model=True))
    numbered = {"n.csv": cases.NODE21.replace(".mha", "")}
    run = read("j.json", numbered, "n.csv", "j.json")
    judge = agrees(peers.nodules, model=True)
    yield Target("nodules", of_json_text(cases.NODULES), run, judge)
    run = read("r.csv", {}, "r.csv", readers="majority")
    yield Target("readers", of_words(READERS), run, _sound)


def _sound(content: bytes, cohort: Any) -> None:
    peers.sound(cohort)
