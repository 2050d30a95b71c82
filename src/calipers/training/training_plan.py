# SPDX-License-Identifier: Apache-2.0
"""Plans of training: network, data, optimiser and schedule, written down once.

A plan is a table ``[plan.NAME]`` of a TOML file of the schema ``calipers.plan/1``. Those that ship
with Calipers are in ``plans``: the settings of published networks (table VIII of the stability
paper) and those for canvases. ``extends`` names the plan whose keys are taken where a key is
missing; the keys are the fields of `TrainingPlan`.

`TrainingPlan.load` returns a plan; `calipers.training.train` follows it and stores it with the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.results.schema import structure
from calipers.results.toml import parse_toml, read_toml
from calipers.training.models import MODULES

SCHEMA = "calipers.plan/1"
Backbone = Literal["small", "tiny", "resnet18", "resnet50", "densenet121", "efficientnet-lite0"]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]


class TrainingPlan(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a network is trained."""

    name: str = ""
    source: str = ""  # citation, with table or section
    extends: str = ""
    model: str = "mil"  # a name of calipers.training.models
    # network
    backbone: Backbone = "small"
    side: Annotated[int, Meta(ge=8, le=4096)] = 64  # of the square that the network takes, pixels
    grid: Annotated[int, Meta(ge=1, le=256)] = 16  # instances along a side
    width: Annotated[int, Meta(ge=32, multiple_of=32)] = 64  # channels of a detector's features
    pooling: str = "noisy-or"
    head_channels: Count = 48
    head_bias: float = 0.0  # of the last layer before training: a rare finding starts rare
    # anomaly networks
    method: Literal["ae", "vae", "denoising", "padim", "distillation", "fpi"] = "denoising"
    dimensions: Literal[2, 3] = 2  # pictures and slices of volumes, or whole volumes
    # 2: train again, from the instances of positive images that the first training marks
    stages: Literal[1, 2] = 1
    mark: Share = 0.5  # probability from which the first training marks an instance
    # data
    boxed_weight: Positive = 5.0  # of an image with boxes in the loss
    boxed_share: Share = 1.0  # of the boxed training images, those whose boxes are used
    subset_share: Annotated[float, Meta(gt=0, le=1)] = 0.95
    validation_share: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # of the features of a detector's heads
    # light and heavy: of a detector; jitter-blur: of chexnet
    augment: Literal["none", "light", "heavy", "jitter-blur"] = "none"
    # optimiser
    optimiser: Literal["adam", "sgd"] = "adam"
    rate: Positive = 1e-3
    momentum: Share = 0.9  # of sgd
    schedule: Literal["constant", "one-cycle"] = "constant"
    weight_decay: NotNegative = 0.0
    activity_l2: NotNegative = 0.0  # of the features of the head
    clip: NotNegative = 0.0  # norm of the gradient; 0: no limit
    epochs: Count = 10
    batch: Count = 32
    steps: Annotated[int, Meta(ge=0)] = 0  # batches in all, at most; 0: epochs decide
    patience: Annotated[int, Meta(ge=0)] = 0  # epochs without a better validation; 0: never stop
    patience_steps: Annotated[int, Meta(ge=0)] = 0  # the same in batches, if patience is 0
    precision: Literal["full", "mixed"] = "full"  # mixed: bfloat16 where the device has it

    def __post_init__(self) -> None:
        if self.model not in MODULES:
            raise InputError(
                "the name of a model",
                rule="choice",
                location="model",
                value=self.model,
                hint=did_you_mean(self.model, MODULES),
            )
        if (self.patience or self.patience_steps) and not self.validation_share:
            raise InputError(
                "a validation_share above 0: patience compares epochs on validation images",
                rule="choice",
                location="patience",
                value=self.patience or self.patience_steps,
            )

    @classmethod
    def load(cls, plan: str | Path | TrainingPlan) -> TrainingPlan:
        """Return a plan from a built-in name, or the only plan of a TOML file.

        Examples
        --------
        >>> from calipers.training.training_plan import TrainingPlan
        >>> plan = TrainingPlan.load("xray-cardiomegaly-noisy-or")
        >>> plan.backbone, plan.epochs, plan.rate
        ('resnet50', 6, 5e-05)
        """
        if isinstance(plan, TrainingPlan):
            return plan
        text = str(plan)
        if text in plans():
            return plans()[text]
        path = Path(text)
        if path.suffix == ".toml" or os.path.exists(path):
            own = read_plans(read_toml(path, "a plan (TOML)"), text, plans())
            if len(own) != 1:
                raise InputError("one table [plan.NAME]", rule="choice", file=text, value=list(own))
            return next(iter(own.values()))
        raise UsageError(f"no plan {text!r}; {did_you_mean(text, plans())}")

    def changed(self, **options: Any) -> TrainingPlan:
        """Return the plan with other values, checked; None leaves a value as it is."""
        document = msgspec.structs.asdict(self)
        document |= {key: value for key, value in options.items() if value is not None}
        return structure(document, TrainingPlan, "options")

    def as_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return msgspec.structs.asdict(self)


class PlanDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of plans."""

    schema: str
    plan: dict[str, dict[str, Any]]


def read_plans(
    text: str, file: str, earlier: Mapping[str, TrainingPlan]
) -> dict[str, TrainingPlan]:
    """Return the plans of a file; they may extend earlier ones, and those above them."""
    document = structure(parse_toml(text, file), PlanDocument, file, schema=SCHEMA)
    result: dict[str, TrainingPlan] = {}
    for name, table in document.plan.items():
        base = table.get("extends", "")
        others = {**earlier, **result}
        if base and base not in others:
            raise InputError(
                "the name of a plan",
                rule="choice",
                file=file,
                location=f"plan.{name}.extends",
                value=base,
                hint=did_you_mean(str(base), others),
            )
        keys = others[base].as_dict() if base else {}
        entries = {**keys, **table, "name": name}
        result[name] = structure(entries, TrainingPlan, file, where=f"plan.{name}")
    return result


@cache
def plans() -> Mapping[str, TrainingPlan]:
    """Return the plans that ship with Calipers, by name."""
    folder = resources.files("calipers").joinpath("training", "plans")
    result: dict[str, TrainingPlan] = {}
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    for file in sorted(files, key=lambda file: file.name):
        result |= read_plans(file.read_text(encoding="utf-8"), file.name, result)
    return result
