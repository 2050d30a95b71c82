# SPDX-License-Identifier: Apache-2.0
"""`calipers compare REFS PREDS PREDS...`: differences of models with tests, and a ranking.

The tables are those of `show.comparison_tables`; the sentences are those of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.engine import plan_option, print_cost
from calipers.cli.options import (
    chosen_protocol,
    cluster_option,
    force_option,
    jobs_option,
    metric_names,
    metrics_option,
    output_file_option,
    output_options,
    preset_option,
    protocol_level_option,
    protocol_option,
    protocol_seed_option,
    reading_options,
    replicates_option,
    sizes_text,
    strata_option,
    verb,
)
from calipers.cli.sources import source_of
from calipers.errors import UsageError
from calipers.results.comparison import Comparison
from calipers.results.files import check_file
from calipers.show.terminal import Narrator, print_lines, print_tables

if TYPE_CHECKING:
    from calipers.data.cohort import Cohort
    from calipers.engine.cost import RunCost, Stopwatch
    from calipers.evaluation.protocol import Protocol

TESTS = click.Choice(["bootstrap", "permutation"])
DATA_SET = "data-set"  # the usual way to rank, by the metric on all images
CORRECTIONS = click.Choice(["max-t", "holm", "bh", "none"])
FEWEST = 100  # replicates that an interval needs
MOST_SENTENCES = 12  # a screen of them; --json has all


@verb()
@click.argument("references", metavar="REFS")
@click.argument("predictions", metavar="[PREDS PREDS...]", nargs=-1)
@output_file_option("Also write the JSON document to a new file.")
@preset_option("Preset as for evaluate. Default: coco.")
@protocol_option()
@metrics_option(
    "Metrics to compare, such as AP@0.4,F1@0.5, or all. Default: the headline of the protocol."
)
@click.option(
    "--margin",
    metavar="X|NAME=X,...",
    help="Largest difference that does not matter, such as 0.02.",
)
@click.option(
    "--test", type=TESTS, help="Test. Default: bootstrap, which agrees with the interval."
)
@click.option(
    "--correction",
    type=CORRECTIONS,
    help="Correction for multiple tests. Default: max-t; holm for permutations.",
)
@click.option(
    "--per-class",
    is_flag=True,
    help="Also compare per class; these tests are corrected together with the others.",
)
@click.option(
    "--rank",
    metavar="METRIC",
    help="Metric of the ranking. Default: the first one compared.",
)
@click.option(
    "--rank-method",
    metavar="NAME",
    default=DATA_SET,
    help="How models are ranked: data-set (default), mean-then-rank, test-then-rank, ...",
)
@click.option(
    "--missing", type=click.Choice(["worst"]), help="How the ranking treats an undefined value."
)
@cluster_option()
@strata_option
@replicates_option("Number of bootstrap replicates and permutations (2000).")
@protocol_level_option
@protocol_seed_option
@jobs_option()
@plan_option
@force_option()
@reading_options
@output_options
def compare(references: str, predictions: tuple[str, ...], **options: Any) -> None:
    """Compare models on the same images: differences with intervals and tests, and a ranking.

    PREDS are files, or name=file to name a model; all pairs are compared. Differences are paired,
    because all models saw the same patients (or images). REFS may also be a folder that evaluate -o
    or maps -o wrote, alone or with others of the same references, or a folder of volumes with
    folders of predicted labels or of score maps as PREDS.

    \b
    calipers compare refs.json ours=a.json theirs=b.json --preset overview --metrics AP@0.5,F1@0.5
    --margin 0.02
    calipers compare results
    """
    from calipers.evaluation.compare import reader_sentences
    from calipers.evaluation.evaluate import evaluate

    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    source = source_of(references, predictions, options["readers"], narrator.whole())
    protocol = chosen_protocol(options, source.protocol)
    names, margin = metric_names(options["metrics"]), _margin(options["margin"])
    metrics = [] if names in (None, ["all"]) else list(names or [])
    # Unknown names are reported before anything is read.
    protocol = protocol.including([*metrics, *([options["rank"]] if options["rank"] else [])])
    if options["output"] is not None:
        others = [options[key] for key in ("groups", "protocol") if options[key]]
        check_file(options["output"], force=options["force"], inputs=(*source.inputs, *others))
    cohort = source.cohort(protocol, options)
    narrator.say(f"{sizes_text(cohort, models=True)}; protocol {protocol.name}")
    if options["plan"]:
        print_cost(_cost(cohort, protocol, names, options), options)
        return
    progress = narrator.steps("matching", "resampling", "ranking")
    evaluation = evaluate(
        cohort,
        protocol,
        seed=options["seed"],
        ci=False,
        jobs=options["jobs"],
        progress=progress,
    )
    # Here the search for misread boxes is counted; the comparison has these warnings too.
    evaluation.look_for_warnings(narrator.whole())
    comparison = evaluation.compare(
        metrics=names,
        margin=margin,
        test=options["test"],
        correction=options["correction"],
        per_class=options["per_class"],
        jobs=options["jobs"],
        progress=progress,
    )
    yardstick = margin if isinstance(margin, float) else None
    sentences = reader_sentences(evaluation, yardstick)
    result = _with_ranking(comparison, evaluation, names, options, progress)
    _finish(result, sentences, narrator, options)


def _cost(
    cohort: Cohort, protocol: Protocol, names: list[str] | None, options: dict[str, Any]
) -> RunCost:
    """Return what the comparison takes, from one of the first images with few replicates."""
    from calipers.evaluation.collect import collection_plan
    from calipers.evaluation.evaluate import evaluate
    from calipers.evaluation.plan import cohort_cost
    from calipers.evaluation.rank import REPLICATES

    # Its rankings draw fewer replicates than its tests.
    share = min(1.0, REPLICATES / max(1, protocol.replicates))

    def trial(images: Cohort, replicates: int, watch: Stopwatch) -> None:
        evaluation = evaluate(images, protocol, ci=False, progress=watch)
        if not replicates:
            return
        comparison = evaluation.compare(
            metrics=names,
            test=options["test"],
            correction=options["correction"],
            replicates=replicates,
            per_class=options["per_class"],
            progress=watch,
        )
        number = max(FEWEST, round(share * replicates))
        _with_ranking(
            comparison, evaluation, names, {**options, "ranking_replicates": number}, watch
        )

    return cohort_cost(
        cohort,
        trial,
        work="compare",
        n_blocks=len(collection_plan(cohort, protocol).items),
        replicates=protocol.replicates,
    )


def _with_ranking(
    comparison: Any,
    evaluation: Any,
    names: list[str] | None,
    options: dict[str, Any],
    progress: Callable[[int, int], None],
) -> Any:
    """Return the comparison with its ranking; without a request, a ranking that is impossible
    becomes a note.
    """
    first = names[0] if names and names != ["all"] else None
    try:
        ranking = evaluation.rank(
            options["rank"] or first,
            method=options["rank_method"],
            missing=options["missing"],
            replicates=options.get("ranking_replicates"),
            jobs=options["jobs"],
            progress=progress,
        )
        return replace(comparison, ranking=ranking)
    except UsageError as error:
        # Whoever asked for a ranking gets the error; a comparison alone must not fail for it.
        if options["rank"] or options["rank_method"] != DATA_SET:
            raise
        return replace(comparison, warnings=(f"No ranking: {error}.", *comparison.warnings))


def _margin(text: str | None) -> float | dict[str, float] | None:
    """Return 0.02, or the numbers of ``AP=0.02,F1@0.5=0.05``."""
    if text is None:
        return None
    # From the right: the name of a metric may contain "=".
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


def _finish(
    comparison: Any, sentences: list[str], narrator: Narrator, options: dict[str, Any]
) -> None:
    """Write and print the result; ``sentences`` are on models and readers."""
    narrator.warn(comparison.warnings)
    if options["output"]:
        from calipers.results.files import write_atomically

        write_atomically(options["output"], comparison.to_json() + "\n")
    if options["as_json"]:
        click.echo(comparison.to_json())
    else:
        print_comparison(comparison)
        print_lines(sentences)
    if options["output"]:
        narrator.say(f"written: {options['output']}")


def print_comparison(comparison: Comparison) -> None:
    """Print the differences, what they say in words, and the ranking."""
    print_tables(comparison.tables()[:1])
    rows_in_words = comparison.rows[:MOST_SENTENCES]
    print_lines([row.sentence for row in rows_in_words])
    if len(comparison.rows) > len(rows_in_words):
        click.echo(
            f"... and {len(comparison.rows) - len(rows_in_words)} more sentences, see --json"
        )
    if comparison.ranking is not None:
        print_tables(comparison.tables()[1:])
        print_lines([comparison.ranking.sentence()])
