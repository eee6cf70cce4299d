"""Version of the project: pyproject.toml reads it from here, and CHANGELOG.md has a heading for it."""

VERSION = "0.1.0"
