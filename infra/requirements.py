"""Prints the packages that pyproject.toml names, with all extras, a line each: the argument list of pip."""

import tomllib
from pathlib import Path


def requirements(pyproject: Path) -> list[str]:
    """Requirements of the project and of its extras."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = [line for group in project["optional-dependencies"].values() for line in group]
    return [*project["dependencies"], *extras]


if __name__ == "__main__":
    print("\n".join(requirements(Path(__file__).resolve().parent.parent / "pyproject.toml")))
