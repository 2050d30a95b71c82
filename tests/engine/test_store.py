"""Finished blocks: what comes back is what was stored, and nothing else is taken for it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.data.masks import Masks
from calipers.engine.encoding import decoded, encoded
from calipers.engine.ordered_map import Part, in_order
from calipers.engine.store import BLOCK_NAME, PLAN, RunPlan, Store, merged, opened
from calipers.errors import InputError, UsageError
from calipers.maps.examine import SampleHistogram

ITEMS = [f"item {k}" for k in range(10)]


def plan(items: list[str] = ITEMS, size: int = 3, **settings: Any) -> RunPlan:
    return RunPlan("maps", {"alpha": 0.5, **settings}, items, size, ("calipers", "maps"))


class Work:
    """Counts its calls; item k gives an array that differs from all others."""

    def __init__(self, stop_at: int = -1) -> None:
        self.items: list[int] = []
        self.stop_at = stop_at

    def __call__(self, k: int) -> tuple[str, np.ndarray[Any, Any]]:
        if k == self.stop_at:
            raise RuntimeError("stopped")
        self.items.append(k)
        return f"result {k}", np.arange(k) / 7


def run(store: Store | None, work: Work, jobs: int = 1) -> list[Any]:
    return list(in_order(work, range(len(ITEMS)), workers=jobs, ahead=2 * jobs, store=store))


def assert_all(results: list[Any]) -> None:
    assert [name for name, _ in results] == [f"result {k}" for k in range(len(ITEMS))]
    for k, (_, array) in enumerate(results):
        assert array.tobytes() == (np.arange(k) / 7).tobytes()


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"a": (1, 2.5, float("nan"), "x"), ("b", 1): [True, None]},
        np.float32(0.1),
        ["mapping", ["array", "a0"]],
        SampleHistogram(*(np.arange(3) for _ in range(6))),
    ],
)
def test_values_come_back(value: Any) -> None:
    again = decoded(encoded(value))
    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_arrays_and_dataclasses_come_back_to_the_bit() -> None:
    masks = Masks.from_components(np.eye(5) > 0, "full")
    again = decoded(encoded({"masks": masks}))["masks"]
    assert isinstance(again, Masks)
    assert again.start.dtype == masks.start.dtype
    assert again.start.tobytes() == masks.start.tobytes()
    assert again.length.tobytes() == masks.length.tobytes()


def test_only_classes_of_the_package_are_made() -> None:
    @dataclass
    class Local:
        x: int = 1

    with pytest.raises(ValueError, match="no result"):
        decoded(encoded(Local()))
    tree = json.dumps(["object", "subprocess:Popen", {"args": ["list", ["true"]]}])
    import io

    buffer = io.BytesIO()
    np.savez(buffer, tree=np.array(tree))
    with pytest.raises(ValueError, match="is not of calipers"):
        decoded(buffer.getvalue())
    with pytest.raises(TypeError, match="cannot be stored"):
        encoded(object())


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("stop_at", [0, 2, 3, 7])
def test_a_stopped_run_goes_on_with_the_block_that_was_not_finished(
    tmp_path: Path, jobs: int, stop_at: int
) -> None:
    work = Work(stop_at)
    with pytest.raises(RuntimeError), opened(tmp_path / "b", plan()) as store:
        run(store, work, jobs)
    again = Work()
    with opened(tmp_path / "b", plan()) as store:
        assert_all(run(store, again, jobs))
    assert min(again.items) == stop_at // 3 * 3


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    with opened(tmp_path / "b", plan()) as store:
        run(store, Work())
    again = Work()
    with opened(tmp_path / "b", plan()) as store:
        assert store.n_done == len(ITEMS)
        assert_all(run(store, again))
    assert again.items == []


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_a_damaged_block_is_worked_on_again(tmp_path: Path, damage: bytes | None) -> None:
    with opened(tmp_path / "b", plan()) as store:
        run(store, Work())
    block = next(file for file in (tmp_path / "b").iterdir() if file.name.startswith("0000001"))
    data = bytearray(block.read_bytes())
    data[len(data) // 2] ^= 1
    block.write_bytes(bytes(data) if damage is None else damage)
    again = Work()
    with opened(tmp_path / "b", plan()) as store:
        assert_all(run(store, again))
    assert again.items == [3, 4, 5]


def assert_refused(folder: Path, other: RunPlan, message: str) -> None:
    with pytest.raises(InputError, match=message), opened(folder, other):
        pass


def test_another_plan_is_refused_and_named(tmp_path: Path) -> None:
    with opened(tmp_path / "b", plan()):
        pass
    assert_refused(tmp_path / "b", plan(alpha=0.7), r"alpha: 0\.5 and 0\.7.*resume-mismatch")
    changed = [*ITEMS[:4], "item 4 of another size", *ITEMS[5:]]
    assert_refused(tmp_path / "b", plan(changed), "item 4 of another size, before item 4")
    assert_refused(tmp_path / "b", plan(ITEMS[:9]), "n_items: 10 and 9")


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with opened(tmp_path / "b", plan()):
        assert_refused(tmp_path / "b", plan(), "blocks-in-use")


@pytest.mark.parametrize("total", [1, 2, 3, 5, 12])
def test_parts_have_every_item_once(tmp_path: Path, total: int) -> None:
    folders, items = [], []
    for number in range(1, total + 1):
        work, folder = Work(), tmp_path / str(number)
        with opened(folder, plan(), Part(number, total)) as store:
            run(store, work)
        items += work.items
        folders.append(folder)
    assert items == list(range(len(ITEMS)))
    store, commands = merged(folders[::-1])
    assert commands == [["calipers", "maps"]] * total
    work = Work()
    assert_all(run(store, work))
    assert work.items == []


def parts(tmp_path: Path, total: int = 3, **settings: Any) -> list[Path]:
    folders = [tmp_path / f"part{number}" for number in range(1, total + 1)]
    for number, folder in enumerate(folders, start=1):
        with opened(folder, plan(**settings), Part(number, total)) as store:
            run(store, Work())
    return folders


def test_missing_repeated_and_foreign_parts_are_refused(tmp_path: Path) -> None:
    one, two, three = parts(tmp_path)
    with pytest.raises(InputError, match=r"no part 2/3.*missing-part"):
        merged([one, three])
    with pytest.raises(InputError, match="repeated-part"):
        merged([one, two, three, two])
    other = parts(tmp_path / "other", alpha=0.1)
    with pytest.raises(InputError, match=r"alpha.*foreign-part"):
        merged([one, two, other[2]])
    with pytest.raises(InputError, match="no-blocks"):
        merged([tmp_path])
    with opened(tmp_path / "whole", plan()) as store:
        run(store, Work())
    with pytest.raises(InputError, match="no-part"):
        merged([tmp_path / "whole"])


def test_a_part_that_was_not_finished_is_named(tmp_path: Path) -> None:
    one, two, three = parts(tmp_path)
    next(file for file in two.iterdir() if BLOCK_NAME.fullmatch(file.name)).unlink()
    store, _ = merged([one, two, three])
    with pytest.raises(InputError, match="run the command of that part again"):
        run(store, Work())


def test_a_folder_without_a_plan_is_no_part(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        merged([tmp_path / "nowhere"])
    with pytest.raises(InputError, match=r"a folder without blocks\.json"):
        merged([tmp_path])


def test_a_broken_plan_is_no_store(tmp_path: Path) -> None:
    one, *_ = parts(tmp_path)
    for text in ("", "{}", "[1]", "{", json.dumps({"schema": "calipers.blocks/1"})):
        (one / PLAN).write_text(text)
        with pytest.raises(InputError, match="no-blocks"):
            merged([one])


@pytest.mark.parametrize("key", ["work", "settings", "n_items", "size", "part", "command"])
def test_a_plan_with_an_odd_value_is_no_store(tmp_path: Path, key: str) -> None:
    """Also where all parts agree about it, as they do when one program damaged them."""
    folders = parts(tmp_path)
    sound = json.loads((folders[0] / PLAN).read_text())
    for value in (-1, 1.5, True, "x", {"a": "\ud800"}, [[1]], ["a", None], {"a": float("nan")}):
        if type(value) is type(sound[key]) and value != -1 and key != "settings":
            continue  # another name is for the caller to judge
        for folder in folders:
            (folder / PLAN).write_text(json.dumps(sound | {key: value}))
        with pytest.raises(InputError, match="no-blocks"):
            merged(folders)
        with pytest.raises(InputError, match="no-blocks"), opened(folders[0], plan(), Part(1, 3)):
            pass


def test_a_plan_of_brackets_or_digits_is_no_store(tmp_path: Path) -> None:
    one, *_ = parts(tmp_path)
    for text in ("[" * 100_000, '{"size": ' + "9" * 10_000 + "}"):
        (one / PLAN).write_text(text)
        with pytest.raises(InputError, match="no-blocks"):
            merged([one])


def test_one_of_very_many_parts_is_refused_at_once(tmp_path: Path) -> None:
    one, *_ = parts(tmp_path)
    sound = json.loads((one / PLAN).read_text())
    (one / PLAN).write_text(json.dumps(sound | {"part": [1, 10**18]}))
    with pytest.raises(InputError, match=r"no part 2/10{18}, 3/10{18}.*missing-part"):
        merged([one])


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[: len(lines) // 2],
        lambda lines: "",
        lambda lines: lines + lines,
        lambda lines: "[" * 100_000,
        lambda lines: "\n".join(lines.splitlines()[::-1]) + "\n",
    ],
)
def test_other_items_than_those_of_the_plan_are_refused(tmp_path: Path, damage: Any) -> None:
    folders = parts(tmp_path)
    file = folders[0] / "items.txt"
    file.write_text(damage(file.read_text()))
    with pytest.raises(InputError, match="blocks-damaged"):
        merged(folders)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    for name in (PLAN, "items.txt"):
        folders = parts(tmp_path / name)
        (folders[0] / name).unlink()
        os.mkfifo(folders[0] / name)
        with pytest.raises(InputError, match="pipe"):
            merged(folders)
    one = parts(tmp_path / "blocks")[0]
    block = next(file for file in one.iterdir() if BLOCK_NAME.fullmatch(file.name))
    block.unlink()
    os.mkfifo(block)
    work = Work()
    with opened(one, plan(), Part(1, 3)) as store:
        run(store, work)
    assert work.items == [0, 1, 2]


@pytest.mark.parametrize(
    "text",
    ["", "2", "9" * 5000 + "/" + "9" * 5000, "0/3", "4/3", "1/0", "a/b", "1/2/3", "-1/2", "1.0/2"],
)
def test_a_part_is_a_number_and_a_total(text: str) -> None:
    with pytest.raises(UsageError):
        Part.parse(text)


def test_a_setting_inside_a_table_is_named_alone(tmp_path: Path) -> None:
    tables = {"least": 1, "threshold": 0.5, "connectivity": "full"}
    before = RunPlan("maps", {"maps": tables}, ["a"])
    now = RunPlan("maps", {"maps": {**tables, "least": 5}}, ["a"])
    with opened(tmp_path / "blocks", before):
        pass
    with pytest.raises(InputError, match=r"maps\.least: 1 and 5"), opened(tmp_path / "blocks", now):
        pass
