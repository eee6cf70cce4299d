"""A copy of what git tracks, as the files are in the working tree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from infra.settings import REPOSITORY


def copy_of_checkout(folder: Path) -> Path:
    """Copy the tracked files into a folder, and return it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True).stdout
    for name in names.decode().split("\0")[:-1]:
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    return folder
