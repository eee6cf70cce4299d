"""Prints the packages that pyproject.toml names, with all extras, one per line: the arguments of `pip install`.

An extra that is built from source is left out on machines without a compiler; the feature that needs it then reports
what is missing.
"""

import argparse
import shutil
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

BUILT = {"phrases": ("g++", "make")}
"""Extras that are built from source, and the programs that building them takes."""


def requirements(pyproject: Path, without: Collection[str] = ()) -> list[str]:
    """Return the requirements of the project and of its extras, some of them left out."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra, packages in project["optional-dependencies"].items():
        if extra in without:
            continue
        missing = [program for program in BUILT.get(extra, ()) if shutil.which(program) is None]
        if missing:
            print(f"Leaving out the extra {extra}: {' and '.join(missing)} not installed.", file=sys.stderr)
        else:
            lines += [package for package in packages if not package.startswith(f"{project['name']}[")]  # `all`
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", nargs="*", default=(), metavar="EXTRA", help="extras to leave out")
    options = parser.parse_args()
    print("\n".join(requirements(Path(__file__).resolve().parent.parent / "pyproject.toml", options.without)))
