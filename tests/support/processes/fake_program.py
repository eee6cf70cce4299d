"""Programs that stand in for AutoPhrase."""

from __future__ import annotations

import sys
from pathlib import Path

from tasks.phrases.autophrase import TRAIN


def fake(folder: Path, code: str, name: str = TRAIN) -> Path:
    """A program that does what `code` says."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable} -ISu\nimport os, signal, sys, time\n{code}\n")
    program.chmod(0o755)
    return program
