"""`make fuzz`: attack every target with new seeds until one fails or somebody stops it."""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.targets import Failure, all_targets, attack

ROUNDS = 1000


def main() -> int:
    """Return 1 at the first failure; words name the targets, none of them means all."""
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = [
            target
            for target in all_targets(folder)
            if not words or any(word in target.name for word in words)
        ]
        # Seeds of the clock: every session looks elsewhere, and a failure names its seed.
        for seed in itertools.count(int(time.time())):
            for target in targets:
                try:
                    accepted = attack(target, folder, ROUNDS, seed)
                except Failure as failure:
                    sys.stderr.write(f"{failure}\n{failure.__cause__!r}\n")
                    return 1
                except KeyboardInterrupt:
                    return 0
                sys.stdout.write(
                    f"seed {seed}  {target.name:24}{ROUNDS} inputs, {accepted} accepted\n"
                )
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
