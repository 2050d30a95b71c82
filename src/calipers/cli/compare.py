# SPDX-License-Identifier: Apache-2.0
"""`calipers compare REFS PREDS PREDS...`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from calipers.cli.evaluate import chosen_protocol
from calipers.cli.narration import Narrator
from calipers.cli.options import named_files, output_options, reading_arguments, reading_options
from calipers.errors import UsageError
from calipers.results.files import check_file

TESTS = click.Choice(["bootstrap", "permutation"])
DATA_SET = "data-set"
CORRECTIONS = click.Choice(["holm", "bh", "none"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="PREDS PREDS...", nargs=-1, required=True)
@click.option(
    "-o", "--output", metavar="FILE", help="Write the JSON document there; all of it or nothing."
)
@click.option("--preset", metavar="NAME", help="As of evaluate; coco if left out.")
@click.option("--protocol", metavar="FILE", help="A protocol in TOML, instead of a preset.")
@click.option(
    "--metrics",
    metavar="A,B,...",
    help="What is compared: the protocol's headline if left out, or all.",
)
@click.option(
    "--margin", metavar="X|NAME=X,...", help="Differences up to this do not matter, such as 0.02."
)
@click.option("--test", type=TESTS, help="What suits each metric if left out.")
@click.option(
    "--correction",
    type=CORRECTIONS,
    default="holm",
    help="For several tests at once; holm if left out.",
)
@click.option(
    "--per-class",
    is_flag=True,
    help="Compare the classes too; they join the tests that are corrected.",
)
@click.option(
    "--rank",
    metavar="METRIC",
    help="The metric of the ranking; the first one compared if left out.",
)
@click.option(
    "--rank-method",
    metavar="NAME",
    default=DATA_SET,
    help="data-set, mean-then-rank, test-then-rank, ...",
)
@click.option(
    "--missing", type=click.Choice(["worst"]), help="What the ranking makes of an undefined value."
)
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="What the result speaks for: image, patient (default if known), any group; or centre,patient.",
)
@click.option(
    "--strata",
    metavar="COLUMN",
    help="Groups that the claim is about: units are drawn inside each.",
)
@click.option(
    "--replicates",
    metavar="N",
    type=click.IntRange(min=100),
    help="Of bootstrap and permutation (2000).",
)
@click.option(
    "--level",
    metavar="P",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Level (0.95).",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), help="Replaces the seed of the protocol."
)
@click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), default=1, help="Threads; changes no number."
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@reading_options
@output_options
def compare(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Say whether models differ on the same images, by how much, and how firmly they are ranked.

    PREDS are files, or name=file to name a model; all pairs are compared. Differences come with
    intervals and p values over patients (or images), because all models saw the same ones.

    \b
    calipers compare refs.json ours=a.json theirs=b.json --preset overview --metrics AP@0.5,F1@0.5
    --margin 0.02
    """
    from calipers.comparing import chosen_metrics
    from calipers.evaluate import evaluate
    from calipers.readers import read

    files = named_files(predictions)
    if len(files) < 2:
        raise UsageError(
            "compare needs the predictions of two models or more; calipers evaluate looks at one"
        )
    protocol, names, margin = (
        chosen_protocol(options),
        _names(options["metrics"]),
        _margin(options["margin"]),
    )
    for metric_names in (names, [options["rank"]] if options["rank"] else None):
        chosen_metrics(protocol, metric_names)  # an unknown name is told before anything is read
    if options["output"] is not None:
        inputs = (
            references,
            *files.values(),
            *(options[key] for key in ("groups", "protocol") if options[key]),
        )
        check_file(options["output"], force=options["force"], inputs=inputs)
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    cohort = read(references, files, **reading_arguments(options))
    narrator.say(
        f"{cohort.n_images} images, {len(cohort.references)} references, {len(files)} models; protocol {protocol.name}"
    )
    evaluation = evaluate(cohort, protocol, seed=options["seed"], ci=False, jobs=options["jobs"])
    comparison = evaluation.compare(
        metrics=names,
        margin=margin,
        test=options["test"],
        correction=options["correction"],
        per_class=options["per_class"],
        progress=narrator.steps("resampling"),
    )
    _finish(_with_ranking(comparison, evaluation, names, options), narrator, options)


def _with_ranking(
    comparison: Any, evaluation: Any, names: list[str] | None, options: dict[str, Any]
) -> Any:
    """Return the comparison with its ranking; one that nobody asked for may be missing, with a
    note.
    """
    first = names[0] if names and names != ["all"] else None
    method = {"method": options["rank_method"], "missing": options["missing"]}
    try:
        return replace(comparison, ranking=evaluation.rank(options["rank"] or first, **method))
    except UsageError as error:
        if options["rank"] or options["rank_method"] != DATA_SET:
            raise
        return replace(comparison, warnings=(f"No ranking: {error}.", *comparison.warnings))


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--metrics takes NAME,NAME,..., not {text!r}")
    return names


def _margin(text: str | None) -> float | dict[str, float] | None:
    """Return 0.02, or the numbers of ``AP=0.02,F1@0.5=0.05``."""
    if text is None:
        return None
    entries = [entry.rpartition("=") for entry in text.split(",")]
    try:
        numbers = {name.strip(): float(value) for name, _, value in entries}
    except ValueError:
        raise UsageError(f"--margin takes a number or METRIC=NUMBER,..., not {text!r}") from None
    if len(numbers) < len(entries) or ("" in numbers and len(numbers) > 1):
        raise UsageError(
            f"--margin takes one number, or one for each of several metrics, not {text!r}"
        )
    return numbers.get("", numbers)


def _finish(comparison: Any, narrator: Narrator, options: dict[str, Any]) -> None:
    """Write and print the result."""
    narrator.warn(comparison.warnings)
    if options["output"]:
        from calipers.results.files import write_atomically

        write_atomically(options["output"], comparison.to_json() + "\n")
    if options["as_json"]:
        click.echo(comparison.to_json())
    else:
        from calipers.cli.differences import print_comparison

        print_comparison(comparison)
    if options["output"]:
        narrator.say(f"written: {options['output']}")
