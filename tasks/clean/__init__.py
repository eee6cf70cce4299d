"""Stages `clean`, `line_counts` and `repeated_lines`: text without markup, boilerplate and broken lines."""

from tasks.clean.stage import CleanParams, clean, clean_text

__all__ = ["CleanParams", "clean", "clean_text"]
