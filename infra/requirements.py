"""Prints the packages that pyproject.toml names, with all extras, a line each: the argument list of pip.

An extra that is built from source is left out where there is no compiler; what needs it says so then.
"""

import shutil
import sys
import tomllib
from pathlib import Path

BUILT = {"phrases": ("g++", "make")}
"""Extras that are built from source, and the programs that this takes."""


def requirements(pyproject: Path) -> list[str]:
    """Requirements of the project and of its extras."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra, packages in project["optional-dependencies"].items():
        missing = [program for program in BUILT.get(extra, ()) if shutil.which(program) is None]
        if missing:
            print(f"Without {' and '.join(missing)} the extra {extra} is left out.", file=sys.stderr)
        else:
            lines += packages
    return lines


if __name__ == "__main__":
    print("\n".join(requirements(Path(__file__).resolve().parent.parent / "pyproject.toml")))
