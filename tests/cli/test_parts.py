"""Long runs: in parts, on workers, stopped and continued, always with the same bits."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.engine.encoding import encoded
from calipers.engine.store import BLOCK_NAME

N_SAMPLES = 9


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of labels and maps."""
    folder = tmp_path_factory.mktemp("long")
    for name in ("labels", "maps"):
        (folder / name).mkdir()
    for k in range(N_SAMPLES):
        rng = np.random.default_rng(k)
        labels = np.zeros((12, 16, 16), np.uint8)
        labels[3:6, 4:8, 4 : 6 + k % 3] = k % 4 > 0
        scores = np.clip(0.5 * labels + 0.4 * rng.random(labels.shape), 0, 1)
        np.save(folder / "labels" / f"s{k}.npy", labels)
        np.save(folder / "maps" / f"s{k}.npy", scores.astype(np.float32))
    return folder


def command(folder: Path, output: Path | None, *more: object) -> list[str]:
    words = ["maps", folder / "labels", f"ours={folder / 'maps'}", "--replicates", 100, "-q"]
    if output is not None:
        words += ["-o", output]
    return [str(word) for word in (*words, *more)]


def result_hash(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["result_hash"])


@pytest.fixture(scope="module")
def whole(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of the result of a single run."""
    from calipers.cli.main import run

    folder = tmp_path_factory.mktemp("whole") / "result"
    assert run(command(samples, folder)) == 0
    assert not folder.with_name("result.blocks").exists()
    return result_hash(folder)


@pytest.mark.parametrize("total", [1, 4])
def test_parts_merged_are_one_run(
    calipers: Callable[..., Any], samples: Path, whole: str, tmp_path: Path, total: int
) -> None:
    folders = []
    for k in range(1, total + 1):
        folders.append(tmp_path / f"part{k}")
        said = calipers(*command(samples, folders[-1], "--part", f"{k}/{total}"))
        assert (said.code, said.out) == (0, f"{folders[-1]}\n")
    said = calipers("merge", *folders[::-1], "-o", tmp_path / "result", "-q")
    assert said.code == 0, said.err
    assert result_hash(tmp_path / "result") == whole
    assert calipers("verify", tmp_path / "result", "-q").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "hospital"), "by: the samples have no column 'hospital'"),
        (("--cluster", "hospital"), "cluster: the images have no column 'hospital'"),
        (("--strata", "hospital"), "strata: the images have no column 'hospital'"),
    ],
)
def test_what_the_merge_would_refuse_is_refused_by_the_part(
    calipers: Callable[..., Any],
    samples: Path,
    tmp_path: Path,
    options: tuple[str, str],
    message: str,
) -> None:
    """Before the folder is made: it would keep the command, and the merge repeats that."""
    said = calipers(*command(samples, tmp_path / "part", "--part", "1/2", *options))
    assert (said.code, message in said.err) == (2, True), said.err
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize("option", ["--by", "--cluster", "--strata"])
def test_parts_of_boxes_and_of_bags_refuse_it_too(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path, option: str
) -> None:
    refs = tmp_path / "refs.csv"
    refs.write_text("image,class,x1,y1,x2,y2\na,n,0,0,9,9\nb,n,0,0,9,9\n")
    preds = tmp_path / "preds.csv"
    preds.write_text("image,class,x1,y1,x2,y2,score\na,n,0,0,9,9,.5\n")
    words = ["--part", "1/2", "-o", tmp_path / "part", option, "hospital"]
    said = calipers("evaluate", refs, preds, *words)
    assert (said.code, "no column 'hospital'" in said.err) == (2, True), said.err
    if option == "--cluster":
        said = calipers("stability", samples / "labels", samples / "maps", *words)
        assert (said.code, "no column 'hospital'" in said.err) == (2, True), said.err
    assert not (tmp_path / "part").exists()


def test_every_way_to_write_the_options_of_a_run_is_left_out_by_merge(
    calipers: Callable[..., Any], samples: Path, whole: str, tmp_path: Path
) -> None:
    words = command(samples, None, f"--output={tmp_path / 'a'}", "--part=1/2", "--jobs=1")
    assert calipers(*words).code == 0
    words = command(samples, None, f"-qo{tmp_path / 'b'}", "--part", "2/2")
    assert calipers(*words).code == 0
    said = calipers("merge", tmp_path / "b", tmp_path / "a")
    assert said.code == 0, said.err
    assert not (tmp_path / "b" / "run.json").exists()
    assert calipers("merge", tmp_path / "b", tmp_path / "a", "-o", tmp_path / "c").code == 0
    assert result_hash(tmp_path / "c") == whole


@pytest.mark.parametrize("merges", [True, False])
def test_blocks_that_somebody_else_wrote_are_no_bug(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path, merges: bool
) -> None:
    """Their hashes are right, but what they hold is no result."""
    part = tmp_path / "part"
    assert calipers(*command(samples, part, "--part", "1/1")).code == 0
    for file in sorted(part.glob("*.npz")):
        data = encoded([("nonsense", 3)])
        digest = hashlib.sha256(data).hexdigest()[:40]
        file.with_name(f"{file.name[:7]}-{digest}.npz").write_bytes(data)
        file.unlink()
    if merges:
        said = calipers("merge", part, "-o", tmp_path / "result")
    else:
        (part / "blocks.json").write_text(
            (part / "blocks.json").read_text().replace('"part": [\n  1,\n  1\n ]', '"part": null')
        )
        part.rename(tmp_path / "result.blocks")
        said = calipers(*command(samples, tmp_path / "result"))
    assert said.code == 2, said.err
    assert "blocks-damaged" in said.err
    assert not (tmp_path / "result").exists()


def test_a_command_that_was_damaged_is_refused(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    assert calipers(*command(samples, tmp_path / "a", "--part", "1/1")).code == 0
    place = tmp_path / "a" / "blocks.json"
    document = json.loads(place.read_text())
    for words in (["--help"], ["--nonsense"], [], ["labels", "\0"]):
        place.write_text(json.dumps(document | {"command": ["calipers", "maps", *words]}))
        said = calipers("merge", tmp_path / "a")
        assert said.code == 2, (words, said.err)


def test_workers_in_processes_give_the_same_bits(
    calipers: Callable[..., Any], samples: Path, whole: str, tmp_path: Path
) -> None:
    assert calipers(*command(samples, tmp_path / "result", "--jobs", 2)).code == 0
    assert result_hash(tmp_path / "result") == whole


def test_a_dask_cluster_gives_the_same_bits(
    calipers: Callable[..., Any], samples: Path, whole: str, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="needs calipers[dask]")
    said = calipers(*command(samples, tmp_path / "result", "--jobs", 2, "--engine", "dask"))
    assert said.code == 0, said.err
    assert result_hash(tmp_path / "result") == whole


def test_a_scheduler_that_does_not_answer_is_named(
    calipers: Callable[..., Any], samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="needs calipers[dask]")
    monkeypatch.setattr("calipers.engine.cluster.PATIENCE", 0.2)
    address = ("--engine", "dask", "--scheduler", "tcp://127.0.0.1:9")
    said = calipers(*command(samples, None, *address))
    assert said.code == 2
    assert "no-scheduler" in said.err
    assert "--scheduler is for --engine dask" in calipers(*command(samples, None, *address[2:])).err


def test_a_missing_part_or_changed_input_is_refused(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(samples, copy)
    for k in (1, 2):
        calipers(*command(copy, tmp_path / f"part{k}", "--part", f"{k}/2"))
    said = calipers("merge", tmp_path / "part1", "-o", tmp_path / "result")
    assert (said.code, "no part 2/2" in said.err) == (2, True)
    np.save(copy / "maps" / "s4.npy", np.zeros((12, 16, 16), np.float32))
    said = calipers("merge", tmp_path / "part1", tmp_path / "part2", "-o", tmp_path / "result")
    assert said.code == 2
    assert "s4" in said.err
    assert "foreign-part" in said.err


def test_a_part_needs_a_folder_and_a_threshold_that_is_a_number(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    assert "give -o DIR" in calipers(*command(samples, None, "--part", "1/2")).err
    said = calipers(*command(samples, tmp_path / "p", "--part", "1/2", "--threshold", "fpr:0.05"))
    assert said.code == 2
    assert "needs the maps of all parts" in said.err


# The first line is the sign that the program has begun: before it, Python answers signals.
START = "import os; from calipers.__main__ import main; os.write(1, b'begun\\n'); main()"
STUCK = 600  # seconds; none of these runs takes ten alone


def hear_interrupts() -> None:
    """A shell starts programs in the background deaf to Ctrl-C, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stopped(arguments: list[str], number: int, seconds: float) -> int:
    """Run the command line in a process of its own, and send it a signal after some time."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    try:
        _, said = process.communicate(timeout=STUCK)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # and all threads say where they are
        _, said = process.communicate()
        raise AssertionError(f"stuck after signal {number}: {said.decode()}") from None
    assert b"Traceback" not in said, said.decode()
    return process.returncode


def assert_no_partial_file(output: Path) -> None:
    """Before the result appears, every block is whole by its own name."""
    blocks = output.with_name(f"{output.name}.blocks")
    for file in blocks.iterdir() if blocks.exists() else []:
        match = BLOCK_NAME.fullmatch(file.name)
        if match:
            assert hashlib.sha256(file.read_bytes()).hexdigest().startswith(match.group(2))


def killed_until_done(words: list[str], output: Path, n_kills: int, seed: int) -> int:
    """Kill a command until it was killed so many times or ended first, then let it end; return how
    often it was killed.
    """
    random_time = random.Random(seed)
    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    for k in range(n_kills):
        number = signals[(k + seed) % len(signals)]
        code = stopped(words, number, random_time.uniform(0, 2.5))
        if code == 0:
            return k
        # Once the work is done, a signal ends the process as it ends any other.
        assert code in (-number, 128 + number)
        if output.exists():
            return k + 1  # killed after the result had appeared as a whole, which the caller checks
        assert_no_partial_file(output)
    assert stopped(words, signal.SIGKILL, STUCK) == 0
    return n_kills


def test_a_killed_run_goes_on_to_the_same_bits(samples: Path, whole: str, tmp_path: Path) -> None:
    killed_until_done(command(samples, tmp_path / "result"), tmp_path / "result", 3, seed=0)
    assert result_hash(tmp_path / "result") == whole


@pytest.fixture(scope="module")
def many_images(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """COCO files of several blocks of images, and what is done with them."""
    import calipers as cal
    from random_cohorts import random_cohort

    folder = tmp_path_factory.mktemp("images")
    cohort = random_cohort(60_000, 2, seed=3)
    references, predictions = folder / "references.json", folder / "ours.json"
    cal.write(cohort, references)
    cal.write(cohort, predictions, what="model-1")
    words = ["evaluate", str(references), f"ours={predictions}", "--preset", "overview"]
    return [*words, "--replicates", "100", "-q"]


@pytest.fixture(scope="module")
def whole_images(many_images: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    from calipers.cli.main import run

    folder = tmp_path_factory.mktemp("whole") / "result"
    assert run([*many_images, "-o", str(folder)]) == 0
    return result_hash(folder)


@pytest.mark.slow  # fifty kills take minutes
@pytest.mark.parametrize("seed", range(17))
@pytest.mark.parametrize("verb", ["maps", "processes", "stability", "evaluate"])
def test_many_kills(
    request: pytest.FixtureRequest, whole: str, tmp_path: Path, verb: str, seed: int
) -> None:
    output = tmp_path / "result"
    if verb == "stability":
        words = stability_words(request.getfixturevalue("trainings"), output)
    elif verb == "evaluate":
        words = [*request.getfixturevalue("many_images"), "-o", str(output)]
    else:
        jobs = 1 if verb == "maps" else 2
        words = command(request.getfixturevalue("samples"), output, "--jobs", jobs)
    killed_until_done(words, output, 3, seed=1 + seed)
    if verb == "stability":
        assert stability_of(output) == request.getfixturevalue("whole_stability")
    elif verb == "evaluate":
        assert result_hash(output) == request.getfixturevalue("whole_images")
    else:
        assert result_hash(output) == whole


@pytest.fixture
def usual_interrupts() -> Iterator[None]:
    """Ctrl-C as in a terminal: a shell starts programs in the background without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_interrupts")
def test_an_interruption_says_how_to_go_on(
    calipers: Callable[..., Any], samples: Path, whole: str, tmp_path: Path, monkeypatch: Any
) -> None:
    from calipers.maps import evaluate

    examine, numbers = evaluate.examine, iter(range(100))

    def interrupted(*arguments: Any) -> Any:
        if next(numbers) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        return examine(*arguments)

    monkeypatch.setattr(evaluate, "examine", interrupted)
    said = calipers(*command(samples, tmp_path / "result"))
    assert said.code == 130
    # the sample that was being examined is finished first
    assert f"4 of {N_SAMPLES} are done and kept in" in said.err
    assert "the same command continues" in said.err
    monkeypatch.setattr(evaluate, "examine", examine)
    assert calipers(*command(samples, tmp_path / "result")).code == 0
    assert result_hash(tmp_path / "result") == whole
    said = calipers(*command(samples, tmp_path / "again", "--normalise", "minmax"))
    assert said.code == 0


def test_blocks_of_another_run_are_refused(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    part = ("--part", "1/2")
    assert calipers(*command(samples, tmp_path / "p", *part)).code == 0
    assert calipers(*command(samples, tmp_path / "p", *part)).code == 0
    said = calipers(*command(samples, tmp_path / "p", *part, "--normalise", "minmax"))
    assert said.code == 2
    assert "normalise: none and minmax" in said.err
    assert "resume-mismatch" in said.err


def test_parts_of_boxes_merged_are_one_run(
    calipers: Callable[..., Any], files: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 1)
    words = ["evaluate", files.references, files.ours, "--replicates", "100"]
    words += ["--preset", "overview", "-q"]
    assert calipers(*words, "-o", tmp_path / "whole").code == 0
    for k in (1, 2, 3):
        said = calipers(*words, "-o", tmp_path / f"p{k}", "--part", f"{k}/3")
        assert said.code == 0, said.err
    folders = [tmp_path / f"p{k}" for k in (3, 1, 2)]
    assert calipers("merge", *folders, "-o", tmp_path / "merged", "-q").code == 0
    assert result_hash(tmp_path / "merged") == result_hash(tmp_path / "whole")


def test_the_plan_says_what_a_run_takes_and_evaluates_nothing(
    calipers: Callable[..., Any], samples: Path, tmp_path: Path
) -> None:
    said = calipers(*command(samples, tmp_path / "result", "--plan", "--json", "--jobs", 3))
    assert said.code == 0
    assert said.json["samples"] == N_SAMPLES
    assert said.json["file_bytes"] == sum(file.stat().st_size for file in samples.rglob("*.npy"))
    assert said.json["cpu_seconds"] == pytest.approx(3 * said.json["seconds"])
    assert not (tmp_path / "result").exists()


def test_memory_lowers_the_number_of_jobs_and_not_the_result(
    calipers: Callable[..., Any], samples: Path, whole: str, tmp_path: Path
) -> None:
    plan = command(samples, None, "--plan", "--json", "--jobs", 8, "--max-memory", "0.8GB")
    assert calipers(*plan).json["jobs"] == 1
    plan[-1] = "100GB"
    assert calipers(*plan).json["jobs"] == 8
    assert calipers(*command(samples, tmp_path / "r", "--max-memory", "0.8GB")).code == 0
    assert result_hash(tmp_path / "r") == whole
    said = calipers(*command(samples, None, "--max-memory", "10MB"))
    assert (said.code, "one sample at a time needs about" in said.err) == (2, True)
    assert "a size such as 8GB" in calipers(*command(samples, None, "--max-memory", "lots")).err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs RLIMIT_AS")
def test_a_ceiling_of_memory_does_not_change_the_result(
    samples: Path, whole: str, tmp_path: Path
) -> None:
    """Half a gigabyte of addresses, libraries included, is enough for eight jobs that were asked
    to stay within it.
    """
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (500_000_000, 500_000_000))

    words = command(samples, tmp_path / "result", "--jobs", 8, "--max-memory", "0.6GB")
    process = subprocess.run(
        [sys.executable, "-m", "calipers", *words], preexec_fn=limit, check=False
    )
    assert process.returncode == 0
    assert result_hash(tmp_path / "result") == whole


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Maps of three trainings of twenty images, of which some have nothing to find."""
    folder = tmp_path_factory.mktemp("trainings")
    for k in range(20):
        shared = np.random.default_rng(k).random((8, 8))
        for number, model in enumerate("abc"):
            noise = np.random.default_rng([k, number]).standard_normal((8, 8))
            (folder / model).mkdir(exist_ok=True)
            np.save(folder / model / f"i{k}.npy", np.clip(shared + 0.1 * noise, 0, 1))
    rows = "".join(f"i{k},{int(k % 3 > 0)}\n" for k in range(20))
    (folder / "labels.csv").write_text(f"bag,label\n{rows}")
    return folder


def stability_words(folder: Path, output: Path, *more: object) -> list[str]:
    words = ["stability", *(folder / model for model in "abc"), "--labels", folder / "labels.csv"]
    words += ["--replicates", 100, "-q", "-o", output, *more]
    return [str(word) for word in words]


def stability_of(folder: Path) -> dict[str, Any]:
    """The result without what says when and how it was made."""
    document = json.loads((folder / "stability.json").read_text())
    return {key: value for key, value in document.items() if key not in ("command", "ended")}


@pytest.fixture(scope="module")
def whole_stability(trainings: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from calipers.cli.main import run

    folder = tmp_path_factory.mktemp("whole") / "result"
    assert run(stability_words(trainings, folder)) == 0
    assert not folder.with_name("result.blocks").exists()
    return stability_of(folder)


def test_parts_of_stability_merged_are_one_run(
    calipers: Callable[..., Any],
    trainings: Path,
    whole_stability: dict[str, Any],
    tmp_path: Path,
) -> None:
    for k in (1, 2):
        said = calipers(*stability_words(trainings, tmp_path / f"p{k}", "--part", f"{k}/2"))
        assert said.code == 0, said.err
    folders = [tmp_path / "p2", tmp_path / "p1"]
    assert calipers("merge", *folders, "-o", tmp_path / "merged", "-q").code == 0
    assert stability_of(tmp_path / "merged") == whole_stability
    said = calipers(
        *stability_words(trainings, tmp_path / "p1", "--part", "1/2", "--threshold", "0.25")
    )
    assert (said.code, "thresholds" in said.err) == (2, True)


def test_stopped_stability_goes_on_with_the_bags_that_were_counted(
    calipers: Callable[..., Any],
    trainings: Path,
    whole_stability: dict[str, Any],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    from calipers.stability.evidence import BagCounter

    count, places = BagCounter.__call__, []

    def failing(self: BagCounter, task: Any) -> Any:
        places.append(task.place)
        if len(places) == 11:
            raise KeyboardInterrupt
        return count(self, task)

    monkeypatch.setattr(BagCounter, "__call__", failing)
    said = calipers(*stability_words(trainings, tmp_path / "result"))
    assert (said.code, "8 of 20 are done and kept in" in said.err) == (130, True)
    said = calipers(*stability_words(trainings, tmp_path / "result"))
    assert said.code == 0, said.err
    assert places[11:] == list(range(8, 20))
    assert stability_of(tmp_path / "result") == whole_stability


@pytest.mark.parametrize("kind", ["folders", "archive", "arrays", "boxes"])
def test_stability_on_processes_has_the_same_bits(
    trainings: Path, tmp_path: Path, kind: str
) -> None:
    """Every source of bags can be handed to another process, one bag at a time."""
    import pickle
    from concurrent.futures import Executor, Future

    import calipers as cal
    from calipers.stability.grid import detections_as_bags
    from calipers.stability.read import read_bags

    class ByBytes(Executor):
        """Sends work, items and results as bytes, as processes do."""

        def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            work, item = pickle.loads(pickle.dumps((call, *args)))
            future: Future[Any] = Future()
            future.set_result(pickle.loads(pickle.dumps(work(item))))
            return future

    arrays = {}
    for model in "abc":
        arrays[model] = np.stack([np.load(trainings / model / f"i{k}.npy") for k in range(20)])
        np.savez_compressed(tmp_path / f"{model}.npz", maps=arrays[model])
    if kind == "folders":
        source = read_bags([trainings / model for model in "abc"], trainings / "labels.csv")
    elif kind == "archive":
        source = read_bags([tmp_path / f"{model}.npz" for model in "abc"])
    elif kind == "arrays":
        source = arrays
    else:
        source = detections_as_bags(cal.demo_cohort().take(np.arange(20)), (8, 8))
    here = cal.stability(source, ci=False)
    there = cal.stability(source, ci=False, executor=ByBytes(), jobs=3)
    assert there.to_json() == here.to_json()


@pytest.fixture
def box_words(files: Any, monkeypatch: Any) -> list[object]:
    monkeypatch.setattr("calipers.evaluation.collect.BLOCK", 1)
    words: list[object] = ["evaluate", files.references, files.ours, "--replicates", "100"]
    return [*words, "--preset", "overview", "-q"]


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (("--seed", "7"), "seed"),
        (("--no-ci",), "no_ci"),
        (("--by", "size"), "by"),
        (("--redact",), "redact"),
    ],
)
def test_parts_with_other_options_are_refused_also_where_blocks_do_not_depend_on_them(
    calipers: Callable[..., Any],
    box_words: list[object],
    tmp_path: Path,
    options: tuple[str, ...],
    difference: str,
) -> None:
    """The order of the folders would decide which seed, groups or names the result has."""
    a, b = tmp_path / "a", tmp_path / "b"
    assert calipers(*box_words, "-o", a, "--part", "1/2").code == 0
    assert calipers(*box_words, "-o", b, "--part", "2/2", *options).code == 0
    for folders in ((a, b), (b, a)):
        said = calipers("merge", *folders, "-o", tmp_path / "merged", "-q")
        assert (said.code, "[foreign-part]" in said.err) == (2, True), said.err
    assert f"{difference}: " in said.err
    assert not (tmp_path / "merged").exists()


def test_parts_of_another_number_of_parts_are_refused(
    calipers: Callable[..., Any], box_words: list[object], tmp_path: Path
) -> None:
    """Halves and thirds, also where they would fit together."""
    a, b = tmp_path / "a", tmp_path / "b"
    assert calipers(*box_words, "-o", a, "--part", "1/1").code == 0
    assert calipers(*box_words, "-o", b, "--part", "2/2").code == 0
    said = calipers("merge", a, b, "-o", tmp_path / "merged")
    assert (said.code, "parts of 1 and of 2" in said.err) == (2, True), said.err
    place = b / "blocks.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"part": [3, 2]}))
    said = calipers("merge", b, "-o", tmp_path / "merged")
    assert (said.code, str(b) in said.err, "[no-blocks]" in said.err) == (2, True, True), said.err


@pytest.mark.parametrize("below", [False, True])
def test_a_merge_does_not_write_into_its_parts(
    calipers: Callable[..., Any], box_words: list[object], tmp_path: Path, below: bool
) -> None:
    part = tmp_path / "part"
    assert calipers(*box_words, "-o", part, "--part", "1/1").code == 0
    before = sorted(path.name for path in part.iterdir())
    output = part / "result" if below else part
    said = calipers("merge", part, "-o", output, "--force")
    assert (said.code, "[output-in-input]" in said.err) == (2, True), said.err
    assert sorted(path.name for path in part.iterdir()) == before


def test_a_part_with_the_command_of_another_verb_is_refused(
    calipers: Callable[..., Any], box_words: list[object], tmp_path: Path
) -> None:
    part = tmp_path / "part"
    assert calipers(*box_words, "-o", part, "--part", "1/1").code == 0
    place = part / "blocks.json"
    document = json.loads(place.read_text())
    words = document["command"]
    changed = (["calipers", "maps", *words[2:]], [*words, "--help"], [*words, "-h"])
    for command in changed:
        place.write_text(json.dumps(document | {"command": command}))
        said = calipers("merge", part, "-o", tmp_path / "merged")
        assert (said.code, said.out, "[no-blocks]" in said.err) == (2, "", True), said.err
    place.write_text(json.dumps(document | {"command": [*words, "--plan"]}))
    assert calipers("merge", part, "-o", tmp_path / "merged", "-q").code == 0
    assert (tmp_path / "merged" / "run.json").exists()
