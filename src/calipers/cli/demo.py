# SPDX-License-Identifier: Apache-2.0
"""`calipers demo`: the main job on data that Calipers draws itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import output_options
from calipers.errors import UsageError

if TYPE_CHECKING:
    from calipers.evaluation import Evaluation
    from calipers.protocol import Protocol

STORY = """
Three models, three characters:
  mislabels     finds nearly everything, and often calls it by the wrong name
  overpredicts  ranks well, but buries the reader in duplicates and false alarms
  misses-small  is excellent on what is large, and blind to small nodules
Average precision and RoDeO rank them differently: AP forgives what comes late in the ranking,
RoDeO counts every box; AP gives nothing for a right place with a wrong name, RoDeO shows it in its
parts (loc, shape, cls).
"""

MAP_STORY = """
Two models, two characters:
  sharp    draws lesions with the right extent, and does not see small ones
  diffuse  sees everything, blurred, and something where nothing is
Which one is better depends on the question: voxels (AP, Dice), objects (F1, sensitivity), or every
lesion as one whose extent matters (soft instance IoU).
"""

STABILITY_STORY = """
Five trainings of one model, on images of which half have a lesion. They mark the same places, and
they separate images with and without a lesion; but the place is not that of the lesion. Stable is
not right, and the AUC does not show it.
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    default="calipers-demo",
    help="Folder for data, pictures and results.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of the data (0).",
)
@click.option(
    "--preset",
    metavar="NAME",
    help="Protocol of the evaluation. Default: overview, or anomaly with --maps.",
)
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
@click.option("--force", is_flag=True, help="Replace files in DIR.")
@output_options
def demo(
    output: str, seed: int, preset: str | None, maps: bool, force: bool, **options: Any
) -> None:
    """Draw chest-like phantoms with references and predictions, evaluate them, and write a page.

    Everything is generated from a seed; nothing is downloaded. The files in DIR are examples of the
    formats.
    """
    from calipers.protocol import Protocol
    from calipers.results.files import output_folder

    as_json = options["as_json"]
    narrator, start = Narrator(quiet=options["quiet"] or as_json), datetime.now(UTC)
    if options["stability"]:
        if maps or preset:
            raise UsageError("--stability is another demo: leave out --maps and --preset")
        _of_trainings(output_folder(output, force=force), seed, narrator, as_json=as_json)
        return
    protocol = Protocol.load(preset or ("anomaly" if maps else "overview"))
    folder = output_folder(output, force=force)
    evaluation, pictures = (_of_maps if maps else _of_boxes)(folder, protocol, seed, narrator)
    narrator.warn(evaluation.warnings)
    command = click.get_current_context().obj or ()
    results = folder / "results"
    evaluation.save(
        results, force=True, command=command, started=start, images=pictures, step=narrator.doing
    )
    page = results / "report.html"
    if as_json:
        click.echo(json.dumps({**evaluation.as_dict(), "page": str(page)}))
        return
    from calipers.cli.tables import print_evaluation

    print_evaluation(evaluation)
    click.echo(MAP_STORY if maps else STORY)
    click.echo(f"Open {page}")


def _of_trainings(folder: Path, seed: int, narrator: Narrator, *, as_json: bool) -> None:
    """Write the maps of five trainings, compare them as any user would, and print what comes
    out.
    """
    from calipers.cli.stability_tables import print_stability
    from calipers.readers.bags import read_bags
    from calipers.stability import instance_labels, stability
    from calipers.synthetic import demo_bags, write_bags

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
    click.echo(f"Open {page}")
    narrator.warn(result.warnings)


def _of_boxes(
    folder: Path, protocol: Protocol, seed: int, narrator: Narrator
) -> tuple[Evaluation, Path | None]:
    """Return the evaluation of boxes on pictures, and where the pictures are."""
    from calipers.evaluate import evaluate

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
    from calipers.evaluate_maps import evaluate_maps
    from calipers.readers.volumes import read_maps
    from calipers.synthetic.samples import demo_samples, write_samples

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
    from calipers.readers import write
    from calipers.results.delimited import delimited
    from calipers.results.files import write_atomically
    from calipers.synthetic import demo_cohort, draw_images

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
    from calipers.readers import read

    return read(files["references"], files["predictions"], groups=files["groups"])
