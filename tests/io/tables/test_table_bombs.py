"""Small files that unpack to much, and lines without end: refused in little time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calipers as cal
from calipers.errors import InputError

SECONDS, MEGABYTES = 1.0, 200
ATTEMPT = """
import json, sys, time
import pyarrow.parquet, pyarrow.compute
import calipers as cal
import calipers.io.tables.objects, calipers.io.tables.table, calipers.io.tables.parquet
def megabytes(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) / 1024
# The peak is set back: at first it is that of the parent.
open("/proc/self/clear_refs", "w").write("5")
before, start = megabytes("VmRSS"), time.process_time()
try:
    cal.read(sys.argv[1])
    rule = "none"
except cal.InputError as error:
    rule = error.rule
print(json.dumps([rule, time.process_time() - start, megabytes("VmHWM") - before]))
"""


def constant_rows(path: Path) -> None:
    zeros = pa.array(np.zeros(20_000_000))
    pq.write_table(pa.table({"image_id": zeros, "x": zeros}), path, compression="zstd")


def long_text(path: Path, *, as_dictionary: bool) -> None:
    """A text of a megabyte in every row."""
    codes = pa.array(np.zeros(5_000, np.int32))
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["a" * 1_000_000]))
    table = pa.table({"image_id": column})
    if not as_dictionary:  # the schema says text, the pages are the same
        table = table.replace_schema_metadata({})
    pq.write_table(table, path, compression="zstd", store_schema=as_dictionary)


def long_line(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"image_id,label,x0,y0,x1,y1\n")
        for _ in range(256):
            file.write(b"a" * (1 << 20))
        file.write(b",a,1,2,3,4\n")


BOMBS = {
    "constant.parquet": constant_rows,
    "dictionary.parquet": lambda path: long_text(path, as_dictionary=True),
    "text.parquet": lambda path: long_text(path, as_dictionary=False),
    "line.csv": long_line,
}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_quickly_and_in_little_memory(tmp_path: Path, name: str) -> None:
    BOMBS[name](tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPT, str(tmp_path / name)], capture_output=True, check=True
    )
    rule, seconds, megabytes = json.loads(done.stdout)
    assert (rule, seconds < SECONDS, megabytes < MEGABYTES) == ("too-large", True, True)


def test_texts_of_parquet_are_read_as_before(tmp_path: Path) -> None:
    n = 500
    columns = {
        "image_id": [f"i{k % 7}" for k in range(n)],
        "class": ["a", "bé"] * (n // 2),
        **{name: np.arange(n) % 9 + 10.0 * (name > "w") for name in ("x0", "y0")},
    }
    columns |= {"x1": columns["x0"] + 5.0, "y1": columns["y0"] + 5.0}
    plain = pa.table(columns)
    coded = plain.set_column(1, "class", plain.column("class").dictionary_encode())
    cohorts = []
    for name, table in (("plain", plain), ("coded", coded)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        cohorts.append(cal.read(str(tmp_path / f"{name}.parquet")))
    for cohort in cohorts:
        assert cohort.classes == ("a", "bé")
        assert len(cohort.references) == n
        assert np.array_equal(cohort.references.label, cohorts[0].references.label)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
def test_every_kind_of_line_end_is_read(tmp_path: Path, end: str) -> None:
    lines = ["image_id,class,x0,y0,x1,y1", "a,k,1,2,3,4", 'b,"k,\n\rm",1,2,3,4']
    (tmp_path / "a.csv").write_bytes(end.join(lines).encode())
    cohort = cal.read(str(tmp_path / "a.csv"))
    assert (cohort.images.ids, cohort.classes) == (("a", "b"), ("k", "k,\n\rm"))
    (tmp_path / "a.csv").write_bytes(end.join([*lines, "c,k,1,2,3,x", ""]).encode())
    with pytest.raises(InputError) as caught:
        cal.read(str(tmp_path / "a.csv"))
    # The quoted cell holds two breaks of its own.
    assert caught.value.location.split(":")[0] == "6"
