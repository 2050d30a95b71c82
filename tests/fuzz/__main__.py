"""`make fuzz`: attack targets with new inputs until one fails or somebody stops it.

``make fuzz ARGS="csv toml"`` takes the targets whose names have one of these words; without words
it takes all. ``ARGS="--guided csv"`` lets atheris (``pip install atheris``) choose the inputs of
one target, by the lines of Calipers that they reach.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ROUNDS = 1000
SLOW = {"verbs": 20}  # whose inputs are evaluations
SEEDS = 200  # damaged inputs from which a guided attack starts


def main() -> int:
    """Return 1 at the first failure."""
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        # An input such as ``../..`` is a folder of this attack, not one of the machine.
        place = Path(name) / "a" / "b" / "c"
        place.mkdir(parents=True)
        os.chdir(place)
        if words[:1] == ["--guided"]:
            return guided(words[1:], Path(name))
        return unguided(words, Path(name))


def unguided(words: list[str], folder: Path) -> int:
    """Attack the targets in turn, with inputs that were damaged at random."""
    from fuzz.api import calls
    from fuzz.targets import Failure, all_targets, attack
    from fuzz.verbs import verbs

    place = folder / "commands"
    place.mkdir()
    targets = [*all_targets(folder), *calls(folder), *verbs(place)]
    if words:
        targets = [target for target in targets if any(word in target.name for word in words)]
    # Seeds of the clock: every session looks elsewhere, and a failure names its seed.
    for seed in itertools.count(int(time.time())):
        for target in targets:
            try:
                rounds = ROUNDS // SLOW.get(target.name, 1)
                accepted = attack(target, folder, rounds, seed)
            except Failure as failure:
                sys.stderr.write(f"{failure}\n{failure.__cause__!r}\n")
                return 1
            except KeyboardInterrupt:
                return 0
            sys.stdout.write(f"seed {seed}  {target.name:24}{rounds} inputs, {accepted} accepted\n")
            sys.stdout.flush()
    return 0


def guided(words: list[str], folder: Path) -> int:
    """Attack one target with files of atheris; words after its name are options of libFuzzer."""
    try:
        import atheris
    except ImportError:
        sys.stderr.write("a guided attack needs atheris: pip install atheris\n")
        return 2
    # Only what is imported here reports which of its lines an input reaches.
    with atheris.instrument_imports(include=["calipers"]):
        from fuzz.targets import all_targets, answers

        readers = [target for target in all_targets(folder) if _corpus(target, 1)]
    chosen = [target for target in readers if words and words[0] in target.name]
    if not chosen:
        names = ", ".join(target.name for target in readers)
        sys.stderr.write(f"name one of the readers: {names}\n")
        return 2
    target = chosen[0]
    corpus = folder / "corpus"
    corpus.mkdir()
    for k, content in enumerate(_corpus(target)):
        (corpus / str(k)).write_bytes(content)

    def one_input(data: bytes) -> None:
        answers(target, data, folder, "found by atheris")

    atheris.Setup([sys.argv[0], *words[1:], str(corpus)], one_input)
    atheris.Fuzz()
    return 0


def _corpus(target, rounds: int = SEEDS) -> list[bytes]:
    """Return damaged files of a target; nothing for a target that takes no file."""
    inputs = [target.damage(np.random.default_rng(k)) for k in range(rounds)]
    return [content for content in inputs if isinstance(content, bytes)]


if __name__ == "__main__":
    sys.exit(main())
