# SPDX-License-Identifier: Apache-2.0
"""The verbs `train` and `predict`: from a folder of pictures to maps that `stability` reads.

The work is done by `calipers.training`, which needs PyTorch (extra ``train``); this module parses
options, prints, and says what to do next.
"""

from __future__ import annotations

import json
import shlex
from importlib.util import find_spec
from typing import Any

import click

from calipers.cli.options import (
    force_option,
    jobs_option,
    output_folder_option,
    output_options,
    seed_option,
    verb,
)
from calipers.errors import UsageError
from calipers.show.terminal import Narrator, print_tables
from calipers.training.models import MODULES, model_named, model_of

BACKBONES = ("small", "tiny", "resnet18", "resnet50", "densenet121", "efficientnet-lite0")
# Options that replace a value of the plan.
OF_PLAN = (
    "backbone",
    "pooling",
    "side",
    "grid",
    "epochs",
    "batch",
    "rate",
    "boxed_share",
    "stages",
    "method",
    "dimensions",
)
LARGE = 128  # pixels of a side, from which published networks are slow without a GPU
METHODS = ("ae", "vae", "denoising", "padim", "distillation", "fpi")
DEVICES = click.Choice(["auto", "cpu", "cuda", "mps"])
SHARE = click.FloatRange(0, 1)
THREADS = "Number of threads."


def device_option(function: Any) -> Any:
    """Declare --device."""
    text = "Where to compute: auto (default), cpu, cuda or mps."
    return click.option("--device", type=DEVICES, default="auto", help=text)(function)


def labels_option(function: Any) -> Any:
    """Declare --labels."""
    text = "Table of image and label, optionally patient and boxes; or references of any format."
    return click.option("--labels", metavar="FILE", help=text)(function)


@verb()
@click.argument("data", metavar="DATA")
@click.option(
    "--model",
    type=click.Choice(list(MODULES)),
    help="mil: maps from labels of images; chexnet: maps of several classes; detector: boxes from "
    "boxes; anomaly: maps from normal images. Default: that of the plan.",
)
@output_folder_option("Folder for the run; must be new or empty. Required.")
@labels_option
@click.option("--target", metavar="CLASS", help="Class to find, if there are several.")
@click.option(
    "--plan",
    metavar="NAME|FILE",
    help="All settings: pictures, pictures-detector, chexnet, endocv2022, anomaly-fpi, xray-..., "
    "or a TOML file. Default: the usual plan of the model for such data.",
)
@click.option(
    "--subsets",
    metavar="N",
    type=click.IntRange(1, 100),
    help="Number of models, each trained on 95 % of the training images (5; 1 on all for anomaly).",
)
@click.option(
    "--fold",
    metavar="K",
    type=click.IntRange(1, 5),
    help="Test on fold K of five folds of patients. Default: a random fifth of the patients.",
)
@click.option(
    "--backbone", type=click.Choice(BACKBONES), help="Backbone, instead of that of the plan."
)
@click.option(
    "--weights",
    metavar="FILE",
    help="Weights of the backbone: a file, or 'installed' for efficientnet-lite0.",
)
@click.option(
    "--pooling",
    metavar="NAME",
    help="For mil: noisy-or, noisy-or:0.98, max, mean, lse:10, top-k:8, region:3 or attention.",
)
@click.option(
    "--side", metavar="PIXELS", type=int, help="Side of the square that the network sees."
)
@click.option("--grid", metavar="N", type=int, help="Patches along a side of the map, for mil.")
@click.option("--epochs", metavar="N", type=int, help="Passes over the training images.")
@click.option("--batch", metavar="N", type=int, help="Images per step.")
@click.option("--rate", metavar="X", type=float, help="Learning rate.")
@click.option(
    "--boxed-share",
    metavar="P",
    type=SHARE,
    help="Share of the boxed training images whose boxes are used, for mil.",
)
@click.option(
    "--stages",
    metavar="N",
    type=click.IntRange(1, 2),
    help="2: train again from the instances that the first training marks, for mil.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="Method of --model anomaly. Default: that of the plan (denoising).",
)
@click.option(
    "--dimensions",
    metavar="2|3",
    type=click.IntRange(2, 3),
    help="For --model anomaly: 3 for whole volumes, 2 for pictures or slices of volumes.",
)
@click.option(
    "--average",
    is_flag=True,
    help="Start all models from the same weights, and add a model that is the mean of theirs.",
)
@click.option(
    "--ensemble",
    metavar="NAME",
    help="endocv2022: detectors on two folds, with light and heavy augmentation.",
)
@click.option("--external", metavar="DIR", help="Further training images, for a detector.")
@click.option(
    "--canvases",
    metavar="N",
    type=click.IntRange(20, 1_000_000),
    help="Number of training canvases, for digits and idx folders (2000).",
)
@click.option("--resume", is_flag=True, help="Continue a run that was interrupted.")
@seed_option("Seed of splits, subsets and weights (0).")
@device_option
@jobs_option(THREADS)
@output_options
def train(data: str, **options: Any) -> None:
    """Train networks that find lesions: as maps, as boxes, or as anomalies.

    DATA is a folder of pictures with --labels, with a COCO file or other references in it, or of
    NIH ChestX-ray, MURA, CheXpert, Pascal VOC 2005 or PolypGen; a folder of idx files (MNIST), or
    the word digits: small characters on canvases, to try it without any data.

    \b
    calipers train digits --subsets 5 -o runs
    calipers train xrays --labels labels.csv --plan xray-cardiomegaly-noisy-or -o runs
    calipers train chestxray --model chexnet --subsets 1 -o runs
    calipers train polyps --model detector --ensemble endocv2022 -o runs
    calipers train normal --model anomaly --method fpi -o runs
    """
    _require_torch()
    from calipers.training.datasets.canvases import Canvases
    from calipers.training.members import check_settings
    from calipers.training.train import run_tables
    from calipers.training.train import train as carry_out
    from calipers.training.training_plan import TrainingPlan

    if options["output"] is None:
        raise UsageError("say where the run goes: -o DIR")
    plan = TrainingPlan.load(_plan_name(data, options))
    if options["model"] not in (None, plan.model):
        raise UsageError(f"the plan {plan.name!r} is for --model {plan.model}")
    check_settings(model_of(plan), [name for name in OF_PLAN if options[name] is not None])
    plan = plan.changed(**{name: options[name] for name in OF_PLAN})
    if options["subsets"] is None:
        options["subsets"] = model_of(plan).usual_subsets
    canvases = None
    if options["canvases"] is not None:
        n = options["canvases"]
        target = options["target"] or Canvases().target
        canvases = Canvases(
            n_train=n, n_test=max(20, n // 5), target=target, side=plan.side, seed=options["seed"]
        )
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    _warn_of_size(narrator, plan, options["device"])
    names = ("labels", "target", "subsets", "seed", "fold", "weights", "average", "device")
    record = carry_out(
        data,
        options["output"],
        plan,
        **{name: options[name] for name in (*names, "ensemble", "external", "jobs", "resume")},
        canvases=canvases,
        progress=narrator.whole(),
    )
    _warn(narrator, record.notes, record.broken)
    if options["as_json"]:
        click.echo(json.dumps(_document(record), allow_nan=False))
        return
    print_tables(run_tables(record))
    narrator.say(f"written: {options['output']}, with the curves in training.html")
    narrator.say(f"next: {_command(_predict_words(record, data, options))}")


def _predict_words(record: Any, data: str, options: dict[str, Any]) -> list[str]:
    """Return the command that uses the models."""
    model = model_of(record.plan)
    labels = [] if options["labels"] is None else ["--labels", options["labels"]]
    # What is not normal is on other images than those that were learnt from.
    images = data if labels or model.needs_labels else "IMAGES"
    return ["predict", str(options["output"]), images, *labels, "-o", model.output]


def _command(words: list[str]) -> str:
    """Return a command as it is typed in a shell."""
    return shlex.join(["calipers", *words])


def _plan_name(data: str, options: dict[str, Any]) -> str:
    """Return the plan: what the user names, or the usual one of the model."""
    from pathlib import Path

    from calipers.training.datasets.canvases import is_canvases

    if options["plan"] is not None:
        return str(options["plan"])
    name = options["model"] or ("mil" if options["ensemble"] is None else "detector")
    for_canvases, for_pictures = model_named(name).usual_plans
    folder = Path(data)
    is_drawn = data == "digits" or (folder.is_dir() and is_canvases(folder))
    return for_canvases if is_drawn else for_pictures


def _warn_of_size(narrator: Narrator, plan: Any, device: str) -> None:
    """Say before hours are spent that a published plan is meant for a GPU."""
    from calipers.training.loop import device_named

    if plan.source and plan.side >= LARGE and device_named(device).type == "cpu":
        small = model_of(plan).small_plan
        narrator.warn(
            [
                f"the plan {plan.name} is meant for a GPU, and takes very long without one; --plan "
                f"{small} trains a small network in minutes"
            ]
        )


def _document(record: Any) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(record)
    return document


@verb()
@click.argument("run", metavar="RUN")
@click.argument("images", metavar="IMAGES")
@output_folder_option("Folder for maps or boxes; must be new or empty. Required.")
@labels_option
@click.option(
    "--part",
    type=click.Choice(["test", "validation", "train", "all"]),
    help="Images of the run to predict. Default: test, or all if IMAGES are others.",
)
@click.option("--boxed", is_flag=True, help="Only images whose boxes are known.")
@click.option(
    "--save-images", is_flag=True, help="Also write the pictures as the networks see them."
)
@click.option(
    "--alarms",
    is_flag=True,
    help="Also write the alarms of monitors that look inside a detector, for monitor --alarm.",
)
@device_option
@jobs_option(THREADS)
@force_option("Allow a DIR that is not empty; maps and boxes in it are replaced.")
@output_options
def predict(run: str, images: str, **options: Any) -> None:
    """Write the maps or boxes of the models of a run, in files that the other verbs read.

    RUN is a folder that train wrote. IMAGES are those of train, or any folder of pictures.

    \b
    calipers predict runs digits -o maps
    calipers stability maps/subset-*.npz --labels maps/labels.csv --scores maps/scores.csv -o out
    """
    _require_torch()
    from calipers.training.predict import predict as carry_out

    if options["output"] is None:
        raise UsageError("say where maps or boxes go: -o DIR")
    narrator = Narrator(quiet=options["quiet"] or options["as_json"])
    names = ("labels", "part", "boxed", "alarms", "device", "jobs", "force")
    result = carry_out(
        run,
        images,
        options["output"],
        **{name: options[name] for name in names},
        save_pictures=options["save_images"],
        progress=narrator.whole(),
    )
    _warn(narrator, result.notes, [error.as_dict() for error in result.broken])
    if options["as_json"]:
        click.echo(json.dumps(result.as_dict(), allow_nan=False))
        return
    which = "all" if result.part == "all" else f"the {result.part}"
    kinds = "" if result.n_positive is None else f", {result.n_positive} of them positive"
    what = f"{result.kind.capitalize()} of {', '.join(result.models)}"
    click.echo(f"{what} on {which} images: {result.n_images}{kinds}")
    narrator.say(f"written: {options['output']}")
    for introduction, words in zip(("next", "then"), result.next_commands()):
        narrator.say(f"{introduction}: {_command(words)}")


def _warn(narrator: Narrator, notes: Any, broken: list[dict[str, str]]) -> None:
    warnings = list(notes)
    if broken:
        first = broken[0]
        warnings.append(
            f"{len(broken)} pictures cannot be read and are left out; the first is "
            f"{first['file']} [{first['rule']}]"
        )
    narrator.warn(warnings)


def _require_torch() -> None:
    if find_spec("torch") is None:
        raise UsageError("train and predict need PyTorch: pip install 'calipers[train]'")
