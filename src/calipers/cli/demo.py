# SPDX-License-Identifier: Apache-2.0
"""The verbs that need no data of the user, or that make some.

- `calipers demo` does the main job on data that Calipers draws itself: boxes, maps (``--maps``) or
  repeated trainings (``--stability``). It writes files first and reads them back, so that the files
  are examples of the formats;
- `calipers corrupt REFS --kind KIND... -o FILE` makes predictions from references by known
  corruptions (`calipers.oracles`);
- `calipers study NAME` runs a published experiment and says which of its claims held
  (`calipers.studies`).
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.engine import chosen_workers, plan_option, print_cost
from calipers.cli.options import (
    engine_option,
    force_option,
    jobs_option,
    named_files,
    output_file_option,
    output_folder_option,
    output_options,
    preset_option,
    reading_arguments,
    reading_options,
    scheduler_option,
    seed_option,
    verb,
    writing_options,
)
from calipers.errors import UsageError
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, one_line

KINDS = 'Corruption, such as "position-noise(sigma=0.5)"; several are applied in order.'
# Options of `calipers study` that say what is computed, besides --predictions.
OF_STUDIES = ("data", "ranking", "ood", "runs", "seed", "quick", "train", "keep")
MARKS = {"held": "+", "held in part": "~", "did not hold": "-", "not tested": "?"}
WIDEST = 110

if TYPE_CHECKING:
    from calipers.evaluation.protocol import Protocol
    from calipers.evaluation.result import Evaluation
    from calipers.studies.framework import StudyResult

STORY = """
Three models that fail in different ways:
  mislabels     finds nearly everything, but often with the wrong class
  overpredicts  ranks well, but buries the reader in duplicates and false alarms
  misses-small  is excellent on large findings, but misses small nodules
Average precision and RoDeO rank them differently: AP forgives false alarms with low scores, RoDeO
counts every box; AP gives no credit for the right place with the wrong class, RoDeO shows it in its
sub-scores (loc, shape, cls).
"""

MAP_STORY = """
Two models that fail in different ways:
  sharp    outlines lesions correctly, but misses small ones
  diffuse  finds everything, but blurred, and with false alarms
Which one is better depends on what you measure: voxels (AP, Dice), objects (F1, sensitivity), or
the extent of every single lesion (soft instance IoU).
"""

STABILITY_STORY = """
Five trainings of one model, on images of which half have a lesion. They mark the same places, and
they separate images with a lesion from images without; but the places they mark are not the
lesions. Stable does not mean correct, and the AUC does not show it.
"""


@verb()
@output_folder_option("Folder for data, pictures and results.", default="calipers-demo")
@seed_option("Seed of the data (0).")
@preset_option("Protocol of the evaluation. Default: overview, or anomaly with --maps.")
@click.option(
    "--maps",
    is_flag=True,
    help="Use volumes with label maps and the score maps of two models instead of boxes.",
)
@click.option(
    "--stability",
    is_flag=True,
    help="Use score maps of five repeated trainings: do they mark the same places?",
)
@force_option("Replace files in DIR.")
@output_options
def demo(
    output: str, seed: int, preset: str | None, maps: bool, force: bool, **options: Any
) -> None:
    """Draw chest-like phantoms with references and predictions, evaluate them, and write a page.

    Everything is generated from a seed; nothing is downloaded. The files in DIR are examples of the
    formats.
    """
    from calipers.evaluation.protocol import Protocol
    from calipers.results.files import kept_on_success

    as_json = options["as_json"]
    narrator, start = Narrator(quiet=options["quiet"] or as_json), datetime.now(UTC)
    if options["stability"]:
        if maps or preset:
            raise UsageError("--stability is another demo: leave out --maps and --preset")
        with kept_on_success(output, force=force) as folder:
            _of_trainings(folder, seed, narrator, as_json=as_json)
        return
    protocol = Protocol.load(preset or ("anomaly" if maps else "overview"))
    with kept_on_success(output, force=force) as folder:
        evaluation, pictures = (_of_maps if maps else _of_boxes)(folder, protocol, seed, narrator)
        narrator.warn(evaluation.warnings)
        command = click.get_current_context().obj or ()
        results = folder / "results"
        # The folder above it was checked with the user's --force, and all below that is ours.
        evaluation.save(
            results,
            force=True,
            command=command,
            started=start,
            images=pictures,
            step=narrator.doing,
            progress=narrator.whole(),
        )
    page = results / "report.html"
    if as_json:
        click.echo(json.dumps({**evaluation.as_dict(), "page": str(page)}))
        return
    from calipers.evaluation.tables import print_evaluation

    print_evaluation(evaluation)
    click.echo(MAP_STORY if maps else STORY)
    click.echo(one_line(f"Open {page}"))


def _of_trainings(folder: Path, seed: int, narrator: Narrator, *, as_json: bool) -> None:
    """Write the maps of five trainings, compare them as any user would, and print what comes
    out.
    """
    from calipers.cli.stability import print_stability
    from calipers.stability.analyse import stability
    from calipers.stability.grid import instance_labels
    from calipers.stability.read import read_bags
    from calipers.synthetic.bags import demo_bags, write_bags

    data, bags = folder / "data", demo_bags("stable-wrong", seed=seed)
    narrator.say(f"drawing {len(bags)} images under {len(bags.models)} trainings into {data}")
    write_bags(data, bags)
    bags_read = read_bags(
        [data / model for model in bags.models], data / "labels.csv", scores=data / "scores.csv"
    )
    result = stability(
        bags_read.with_instances(instance_labels), seed=seed, progress=narrator.steps("reading")
    )
    page = result.save(
        folder / "results", force=True, command=click.get_current_context().obj or ()
    )
    if as_json:
        click.echo(json.dumps({**result.as_dict(), "page": str(page)}, allow_nan=False))
        return
    print_stability(result)
    click.echo(STABILITY_STORY)
    click.echo(one_line(f"Open {page}"))
    narrator.warn(result.warnings)


def _of_boxes(
    folder: Path, protocol: Protocol, seed: int, narrator: Narrator
) -> tuple[Evaluation, Path | None]:
    """Return the evaluation of boxes on pictures, and where the pictures are."""
    from calipers.evaluation.evaluate import evaluate

    narrator.say(f"drawing 120 phantom images into {folder / 'images'}")
    files = _write_data(folder, seed)
    evaluation = evaluate(
        _read_back(files), protocol, seed=seed, progress=narrator.steps("matching", "resampling")
    )
    return evaluation, folder / "images" if files["pictures"] else None


def _of_maps(
    folder: Path, protocol: Protocol, seed: int, narrator: Narrator
) -> tuple[Evaluation, None]:
    """Return the evaluation of score maps on volumes; the page reads its pictures from the volumes
    themselves.
    """
    from calipers.io.volumes.pairing import read_maps
    from calipers.maps.evaluate import evaluate_maps
    from calipers.synthetic.volumes import demo_samples, write_samples

    data = folder / "data"
    narrator.say(f"drawing 24 phantom volumes into {data}")
    write_samples(data, demo_samples(seed=seed))
    models = {name: data / name for name in ("sharp", "diffuse")}
    samples = read_maps(
        data / "references", models, images=data / "images", groups=data / "samples.csv"
    )
    return evaluate_maps(
        samples, protocol, seed=seed, progress=narrator.steps("reading", "matching", "resampling")
    ), None


def _write_data(folder: Path, seed: int) -> dict[str, Any]:
    """Write pictures, references, predictions and the table of images; return where they are."""
    from calipers.io.tables.table import delimited
    from calipers.io.write import write
    from calipers.results.files import write_atomically
    from calipers.synthetic.demo import demo_cohort, draw_images

    cohort = demo_cohort(seed)
    images, data = folder / "images", folder / "data"
    images.mkdir(exist_ok=True)
    data.mkdir(exist_ok=True)
    n_pictures = draw_images(cohort, images, seed=seed)
    write(cohort, data / "references.json")
    for model in cohort.models:
        write(cohort, data / f"{model}.json", what=model)
    groups = {name: column.tolist() for name, column in cohort.images.groups.items()}
    write_atomically(data / "images.csv", delimited({"image": cohort.images.ids, **groups}))
    models = {model: str(data / f"{model}.json") for model in cohort.models}
    inputs = {
        "references": str(data / "references.json"),
        "predictions": models,
        "groups": str(data / "images.csv"),
    }
    return {**inputs, "pictures": n_pictures}


def _read_back(files: dict[str, Any]) -> Any:
    """Read the files as any user would: the demo shows the real path from file to page."""
    from calipers.io.read import read

    return read(files["references"], files["predictions"], groups=files["groups"])


@verb()
@click.argument("references", metavar="REFS")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, required=True, help=KINDS)
@output_file_option(
    "File for the predictions: .json (COCO), .csv, .tsv or .parquet.", required=True
)
@seed_option("Seed of the random numbers (0).")
@click.option("--of", metavar="PREDS", help="Corrupt these predictions instead of the references.")
@writing_options("FILE")
@reading_options
@output_options
def corrupt(references: str, kinds: tuple[str, ...], output: str, **options: Any) -> None:
    """Write the predictions of an oracle: the references, corrupted in a known way.

    Kinds: position-noise(sigma), position-bias(bias), shape-noise(sigma), size-noise(sigma),
    aspect-noise(sigma), class-underprediction(p), class-overprediction(p),
    box-overprediction(mean), class-confusion(p), random-boxes(size).

    \b
    calipers corrupt refs.json --kind "position-noise(sigma=0.5)" -o oracle.json
    calipers evaluate refs.json oracle.json --preset rodeo
    """
    from calipers import __version__
    from calipers.io.read import read
    from calipers.io.write import write, written_format
    from calipers.oracles.corrupt import KINDS as KNOWN
    from calipers.oracles.corrupt import corrupt as run
    from calipers.oracles.corrupt import several

    steps = several(kinds, {}, KNOWN)  # errors are reported before anything is read
    prediction_files = named_files([options["of"]]) if options["of"] else {}
    inputs = [
        references,
        *prediction_files.values(),
        *([options["groups"]] if options["groups"] else []),
    ]
    check_file(output, force=options["force"], inputs=inputs)
    # Only to refuse an unknown format now; `write` finds it again.
    written_format(Path(output), options["to"])
    cohort = read(references, prediction_files, **reading_arguments(options))
    name, of = " + ".join(map(str, steps)), next(iter(prediction_files), None)
    oracle = run(cohort, [str(step) for step in steps], seed=options["seed"], name=name, of=of)
    write(oracle, output, what=name, format=options["to"], box_format=options["to_box_format"])
    n, n_ignored = (
        len(oracle.models[name]),
        int(cohort.references.ignore.sum()) if of is None else 0,
    )
    notes = [*cohort.intake.notes]
    # Whoever counts the predictions would miss them otherwise.
    if n_ignored:
        notes.append(
            f"{n_ignored} ignored references are left out: an oracle says nothing about them"
        )
    if options["as_json"]:
        document = {
            "schema": "calipers.corrupt/1",
            "calipers": __version__,
            "written": output,
            "kinds": [str(step) for step in steps],
            "seed": options["seed"],
            "of": of or "references",
            "images": cohort.n_images,
            "objects": len(cohort.models[of]) if of else len(cohort.references),
            "predictions": n,
            "warnings": notes,
        }
        click.echo(json.dumps(document))
        return
    narrator = Narrator(quiet=options["quiet"])
    narrator.warn(notes)
    before = (
        f"{len(cohort.models[of])} predictions" if of else f"{len(cohort.references)} references"
    )
    narrator.say(
        f"{before} on {cohort.n_images} images became {n} predictions: {name}, seed "
        f"{options['seed']}"
    )
    click.echo(output)


@verb()
@click.argument("name", metavar="NAME", required=False)
@output_folder_option("Folder for page, figures and tables; must be new or empty.")
@click.option(
    "--data",
    metavar="FILE|DIR",
    help="Data of the paper, or your own. Default: synthetic data.",
)
@click.option(
    "--predictions",
    metavar="[NAME=]FILE",
    multiple=True,
    help="Predictions of a model, to be evaluated with the rest. Repeatable.",
)
@click.option(
    "--ranking", metavar="FILE", help="Table of human ranks, with the columns algorithm and rank."
)
@click.option(
    "--rank-maps",
    metavar="PAGE",
    help="Write a page for ranking the maps of the anomaly study blind; it saves their table.",
)
@click.option(
    "--ood", metavar="COLUMN[=VALUE,...]", help="Images of the data that are out of distribution."
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(min=2),
    help="Runs per point. Default: as in the paper.",
)
@seed_option("Seed of all random numbers (0).")
@click.option(
    "--quick", is_flag=True, help="Coarse grids and little data: a trial run, not for citing."
)
@click.option(
    "--train", is_flag=True, help="Train the networks of the study (extra train) for this run."
)
@click.option(
    "--keep",
    metavar="DIR",
    help="Keep the results of training in DIR; without --train, use those that are there.",
)
@jobs_option("Number of processes for the steps of the study; results do not depend on it.")
@engine_option
@scheduler_option
@force_option("Allow a DIR that is not empty; an earlier study in it is replaced.")
@plan_option
@output_options
def study(name: str | None, **options: Any) -> None:
    """Reproduce a published experiment from end to end, and check every claim.

    Without NAME, list the studies. Figures (SVG; PDF with the extra mpl), tables and one page go to
    DIR.

    \b
    calipers study
    calipers study rodeo -o rodeo-study
    calipers study rodeo --jobs 4 -o rodeo-study
    calipers study rodeo --data BBox_List_2017.csv -o rodeo-study
    calipers study anomaly -o anomaly-study
    calipers study anomaly --rank-maps rank.html
    calipers study stability --data maps -o stability-study
    calipers study stability --train --quick --keep networks -o stability-study
    calipers study monitors -o monitors-study
    calipers study polyps --data centres -o polyps-study
    """
    from calipers.studies.framework import StudyOptions, run_study, study_cost

    if name is None:
        _list(as_json=options["as_json"])
        return
    if options["rank_maps"] is not None:
        _write_ranking_page(name, options)
        return
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    predictions = named_files(options["predictions"])
    what = {key: options[key] for key in OF_STUDIES}
    if options["plan"]:
        cost = study_cost(name, StudyOptions(predictions=predictions, **what), processes=True)
        print_cost(cost, options)
        return
    if options["output"] is not None:
        from calipers.results.files import check_folder

        inputs = (*filter(None, (options["data"], options["ranking"])), *predictions.values())
        check_folder(options["output"], force=options["force"], inputs=inputs)
    # The steps are functions of Python more than of kernels: threads would wait for each other.
    with chosen_workers(options, processes=True) as (jobs, executor):
        result = run_study(
            name,
            predictions=predictions,
            jobs=jobs,
            executor=executor,
            progress=narrator.whole(),
            **what,
        )
    narrator.warn(result.warnings)
    page = _write(result, options, narrator) if options["output"] is not None else None
    if options["as_json"]:
        click.echo(json.dumps({**result.as_dict(), "page": page}, allow_nan=False))
        return
    _print(result)
    if page is not None:
        click.echo(one_line(f"Open {page}"))


def _write_ranking_page(name: str, options: dict[str, Any]) -> None:
    """Write the page of ``--rank-maps``, instead of a study."""
    if name != "anomaly":
        raise UsageError(f"the study {name!r} has no maps to rank: calipers study anomaly")
    if options["output"] is not None or options["train"]:
        raise UsageError("--rank-maps writes its page alone: leave out -o and --train")
    from calipers.studies.anomaly.archive import with_brains
    from calipers.studies.anomaly.brains import read_template
    from calipers.studies.anomaly.ranking_page import write_ranking_page
    from calipers.studies.anomaly.study import open_brains

    path = Path(options["rank_maps"])
    check_file(options["rank_maps"], force=options["force"], inputs=())
    archive, (entry,) = open_brains(options["keep"])
    bench = with_brains(archive.benchmarks[0], archive.about, read_template())
    write_ranking_page(path, bench, seed=options["seed"], archive=str(entry["sha256"]))
    words = "rank the maps, and run: calipers study anomaly --ranking ranking.csv"
    click.echo(one_line(f"Open {path}, {words}"))


def _list(*, as_json: bool) -> None:
    from calipers import __version__
    from calipers.studies.framework import STUDIES

    if as_json:
        entries = [{"name": name, "about": about} for name, (_, about) in STUDIES.items()]
        click.echo(
            json.dumps(
                {"schema": "calipers.studies/1", "calipers": __version__, "studies": entries}
            )
        )
        return
    longest = max(map(len, STUDIES))
    for name, (_, about) in STUDIES.items():
        click.echo(f"{name.ljust(longest)}  {about}")
    click.echo("Run one with: calipers study NAME -o DIR")


def _write(result: StudyResult, options: dict[str, Any], narrator: Narrator) -> str:
    command = click.get_current_context().obj or ()
    page = result.save(
        options["output"], force=options["force"], command=command, step=narrator.doing
    )
    return str(page)


def _print(result: StudyResult) -> None:
    """Print every claim with its verdict and its numbers, then the counts."""
    from calipers.studies.framework import BASES

    wide = min(shutil.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else WIDEST
    for claim in result.claims:
        verdict = claim.verdict
        if claim.share is not None:
            verdict += f", in {claim.share.text}"
        # The usual basis, the run, goes without saying.
        if claim.basis != "run" and claim.is_tested:
            verdict += f", {BASES[claim.basis]}"
        head = f"{MARKS[claim.verdict]} {verdict}: {claim.text} ({claim.where})"
        for words, indent in ((head, "  "), (claim.evidence, "    "), (claim.note, "    ")):
            first = "" if words is head else indent
            # Lines of the evidence are joined; `one_line` shows other control characters as signs.
            text = one_line(words.replace("\n", " "))
            for line in textwrap.wrap(text, wide, initial_indent=first, subsequent_indent=indent):
                click.echo(line)
    click.echo(result.summary())
