# SPDX-License-Identifier: Apache-2.0
"""Two metrics, two opinions: which of the three demo models is best, and on what does that depend?

Run it with: python examples/compare_models.py
"""

import calipers as cal


def main() -> None:
    """Print the ranking of the demo models under four metrics."""
    evaluation = cal.evaluate(cal.demo_cohort(), "overview")
    for metric in ("AP@0.5", "sensitivity@0.5", "PPV@0.5", "RoDeO"):
        ranked = sorted(evaluation.models, key=lambda model: -float(evaluation[model, metric]))
        print(
            f"{metric:<16}",
            " > ".join(f"{model} ({float(evaluation[model, metric]):.2f})" for model in ranked),
        )


if __name__ == "__main__":
    main()
