"""Text without markup, boilerplate and broken lines."""

from tasks.clean.rules import clean_text

__all__ = ["clean_text"]
