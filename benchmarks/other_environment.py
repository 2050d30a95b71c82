# SPDX-License-Identifier: Apache-2.0
"""Peers that cannot share our environment: a child process in theirs takes its turns over a pipe.

    python3 -m venv .venv-torch && .venv-torch/bin/pip install -r requirements/torch-peers.txt

or name the interpreter in ``CALIPERS_TORCH_PEERS``. Where there is none, the rows say that they are
skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parent.parent
SCRIPT = Path(__file__).with_name("torch_peers.py")
HOW = (
    "no environment .venv-torch with requirements/torch-peers.txt, see "
    "benchmarks/other_environment.py"
)


def interpreter() -> str | None:
    """Return the Python of the other environment, or None."""
    named = os.environ.get("CALIPERS_TORCH_PEERS")
    found = Path(named) if named else ROOT / ".venv-torch" / "bin" / "python"
    return str(found) if found.exists() else None


def version(package: str) -> str:
    """Return the name and version of a package there."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run(
        [str(interpreter()), "-c", code], capture_output=True, text=True, check=True
    )
    return f"{package} {found.stdout.strip()}"


class Peer:
    """A peer with its data loaded, which computes each time it is called."""

    def __init__(self, kind: str, file: Path) -> None:
        command = [str(interpreter()), str(SCRIPT), kind, str(file)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read("ready")

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def __call__(self) -> Any:
        """Return the values of all sets."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return json.loads(self._read("["))

    def _read(self, beginning: str) -> str:
        """Return the next line that begins so; libraries print a good deal when they are loaded."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(beginning):
                return line
        raise RuntimeError("the peer ended; its message stands above")
