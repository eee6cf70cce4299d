"""Checks of the repository itself: pins without addresses, and no paths of the machine that a file was written on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+")
"""`torch==2.9.1+cpu`; not `torch @ https://…`, not `torch>=2`."""

HOME = re.compile(r"/(?:home|Users)/[a-z][a-z0-9_-]*/|/(?:root)/")
"""Anybody's home folder: `/home/li/`; not `/home/Li`, which is prose."""


def bad_pins(text: str) -> list[str]:
    """Return the lines of a constraints file that are not of the form name==version."""
    return [line for line in text.splitlines() if not PIN.fullmatch(line)]


def machine_paths(text: str, home: Path, checkout: Path) -> list[str]:
    """Return the lines that contain anybody's home folder, or the home or checkout folder of this machine."""
    # A path of one step, such as /app in a container, would also match ordinary text.
    here = [path for path in (str(home), str(checkout)) if path.count("/") > 1]
    return [line for line in text.splitlines() if HOME.search(line) or any(path in line for path in here)]


def main() -> int:
    """Check all tracked files; prints every finding and returns 1 if there is any."""
    findings = [f"constraints.txt: {line!r} is not name==version" for line in bad_pins(_read("constraints.txt"))]
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if name not in (".ci/hygiene.py", "tests/ci/test_hygiene.py"):  # these contain the patterns
            for line in machine_paths(_read(name), Path.home(), REPOSITORY):
                findings.append(f"{name}: contains a path of a machine: {line.strip()[:120]}")
    print("\n".join(findings) or "hygiene: pins and paths are clean")
    return 1 if findings else 0


def _read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8", errors="ignore")


if __name__ == "__main__":
    sys.exit(main())
