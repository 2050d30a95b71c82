# SPDX-License-Identifier: Apache-2.0
"""anomalib and torchmetrics in an environment of their own: `python torch_peers.py aupro|ranking
FILE.npz`.

The file holds sets ``scores_0``, ``labels_0``, ``scores_1``, ...; for every line that comes in, all
sets are worked off and their values go out as one line of JSON. Imports nothing of Calipers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

torch.set_num_threads(1)
# A torchvision for another build of torch has no compiled operators; none is needed, but it
# describes them on import.
torch.library.register_fake = lambda *names, **options: lambda function: function  # type: ignore[assignment]


def aupro(scores: Any, labels: Any) -> list[float]:
    """Return the area under the PRO curve up to a rate of .3; components are numbered over all
    maps.
    """
    from anomalib.metrics.aupro import _AUPRO as AUPRO

    rates, overlaps = AUPRO(fpr_limit=0.3).compute_pro(labels, scores)
    return [float(torch.trapezoid(overlaps, rates) / rates[-1])]


def ranking(scores: Any, labels: Any) -> list[float]:
    """Return AUROC and average precision, exactly."""
    from torchmetrics.functional.classification import binary_auroc, binary_average_precision

    return [
        float(function(scores, labels)) for function in (binary_auroc, binary_average_precision)
    ]


def main() -> None:
    """Load the sets, say so, and answer line by line."""
    run: Callable[[Any, Any], list[float]] = {"aupro": aupro, "ranking": ranking}[sys.argv[1]]
    with np.load(sys.argv[2]) as file:
        names = range(len(file.files) // 2)
        sets = [
            (torch.from_numpy(file[f"scores_{k}"]), torch.from_numpy(file[f"labels_{k}"]))
            for k in names
        ]
    run(torch.rand(8, 8), torch.eye(8, dtype=torch.int64))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps([run(scores, labels) for scores, labels in sets]), flush=True)


if __name__ == "__main__":
    main()
