# SPDX-License-Identifier: Apache-2.0
"""`calipers demo`: the main job on data that Calipers draws itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from calipers.cli.narration import Narrator
from calipers.cli.options import output_options

STORY = """
Three models, three characters:
  mislabels     finds nearly everything, and often calls it by the wrong name
  overpredicts  ranks well, but buries the reader in duplicates and false alarms
  misses-small  is excellent on what is large, and blind to small nodules
Average precision and RoDeO order them differently: AP forgives what comes late in the ranking, RoDeO counts every
box; AP gives nothing for a right place with a wrong name, RoDeO says so in its parts (loc, shape, cls).
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-o", "--output", metavar="DIR", default="calipers-demo", help="Folder for data, pictures and results.")
@click.option("--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Another seed makes another cohort.")
@click.option("--preset", metavar="NAME", default="overview", help="The protocol of the evaluation.")
@click.option("--force", is_flag=True, help="Replace what is in DIR.")
@output_options
def demo(output: str, seed: int, preset: str, force: bool, as_json: bool, quiet: bool) -> None:
    """Draw chest-like phantoms, write them with references and the predictions of three models, evaluate, write a page.

    Everything is made on the spot from a seed; nothing is downloaded. The files in DIR/data show the formats.
    """
    from calipers.evaluate import evaluate
    from calipers.protocol import Protocol
    from calipers.results.files import output_folder

    narrator, started = Narrator(quiet=quiet or as_json), datetime.now(UTC)
    protocol = Protocol.load(preset)
    folder = output_folder(output, force=force)
    narrator.say(f"drawing 120 phantom images into {folder / 'images'}")
    files = _write_data(folder, seed)
    cohort = _read_back(files)
    evaluation = evaluate(cohort, protocol, seed=seed, progress=narrator.steps("matching", "resampling"))
    narrator.warn(evaluation.warnings)
    command = click.get_current_context().obj or ()
    evaluation.save(
        folder / "results",
        force=True,
        command=command,
        started=started,
        images=folder / "images" if files["pictures"] else None,
        step=narrator.doing,
    )
    page = folder / "results" / "report.html"
    if as_json:
        click.echo(json.dumps({**evaluation.as_dict(), "page": str(page)}))
        return
    from calipers.cli.tables import print_evaluation

    print_evaluation(evaluation)
    click.echo(STORY)
    click.echo(f"Open {page}")


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
    drawn = draw_images(cohort, images, seed=seed)
    write(cohort, data / "references.json")
    for model in cohort.models:
        write(cohort, data / f"{model}.json", what=model)
    groups = {name: column.tolist() for name, column in cohort.images.groups.items()}
    write_atomically(data / "images.csv", delimited({"image": cohort.images.ids, **groups}))
    models = {model: str(data / f"{model}.json") for model in cohort.models}
    inputs = {"references": str(data / "references.json"), "predictions": models, "groups": str(data / "images.csv")}
    return {**inputs, "pictures": drawn}


def _read_back(files: dict[str, Any]) -> Any:
    """Read the files as any user would: the demo shows the real path from file to page."""
    from calipers.readers import read

    return read(files["references"], files["predictions"], groups=files["groups"])
